"""Functions of shards on eight CPU devices: see op_cases.py.

Each program gives the types, shardings and values of its results, a jaxpr, or the class of the error.
"""

import numpy as np
from op_cases import Programs
from sharded_values import scenarios, show

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

CASES = Programs()
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
X = (np.arange(32, dtype=np.float32).reshape(8, 4) % 7 - 2) / 4
Y = (np.arange(16, dtype=np.float32).reshape(8, 2) % 5 - 1) / 2


def mesh_of(*types, sizes=(4, 2), names=("x", "y")):
    return jax.make_mesh(sizes, names, axis_types=types or (AUTO,) * len(sizes))


scenario = scenarios(CASES, lambda types: mesh_of(*types))


def smap(f, ins, outs, **kwargs):
    """`f` mapped over a mesh with two Auto axes."""
    kwargs.setdefault("mesh", mesh_of())
    return jax.shard_map(f, in_specs=ins, out_specs=outs, **kwargs)


def each(name, f, ins, outs, *args, jaxpr=True, grad=True, **kwargs):
    """A function eagerly, compiled, as a jaxpr, and its derivatives, with and without checks."""
    for check in (True, False):
        mapped = lambda *xs, check=check: smap(f, ins, outs, check_vma=check, **kwargs)(*xs)
        label = f"{name}_{'checked' if check else 'unchecked'}"
        total = lambda *xs, mapped=mapped: sum(
            jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(mapped(*xs))
        )
        at = tuple(range(len(args)))
        if check or "axis_names" not in kwargs:  # the reference has no eager evaluation for these
            scenario(f"{label}_eager", lambda mapped=mapped: mapped(*args))
        scenario(f"{label}_jit", lambda mapped=mapped: jax.jit(mapped)(*args))
        if jaxpr:
            scenario(f"{label}_jaxpr", lambda mapped=mapped: jax.make_jaxpr(mapped)(*args))
        if grad:
            gradients = lambda total=total: [
                np.asarray(g, np.float64).round(3).tolist()
                for g in jax.jit(jax.grad(total, at))(*args)
            ]
            scenario(f"{label}_grad", gradients)
            tangents = lambda total=total: [
                np.float64(t).round(2) for t in jax.jit(lambda *a: jax.jvp(total, a, a))(*args)
            ]
            scenario(f"{label}_jvp", tangents)


# Specs

each("split", lambda x: jnp.sin(x) * 2, P("x"), P("x"), X)
each("split_both", lambda x: x * jnp.arange(2.0), P("x", "y"), P("x", "y"), X)
each("split_one_dimension", lambda x: x * x.sum(), P(("x", "y")), P(("x", "y")), X)
each("transposed", lambda x: x.T, P("x", "y"), P("y", "x"), X)
each("two_arguments", lambda x, y: (x * y[:, :1], y), (P("x"), P("x")), (P("x"), P("x")), X, Y)
each("replicated", lambda x: x * 3, P(), P(), X)
each("replicated_to_split", lambda x: x * 3, P(), P("x"), X)
each("closure", lambda x: x * jnp.asarray(X[:2]), P("x"), P("x"), X)
each("scalar", lambda x, s: x * s, (P("x"), P()), P("x"), X, np.float32(2.0))
each("scalar_residual", lambda x: jnp.cos(x.sum()) * x, P("x"), P("x"), X)
each(
    "tree", lambda d, y: {"a": d["x"] * y[0].sum(), "b": [d["y"]]},
    ({"x": P("x"), "y": P()}, P("y")), {"a": P("x"), "b": P()}, {"x": X, "y": Y}, [Y], grad=False,
)  # fmt: skip
each("prefix", lambda d: d, P("x"), P("x"), {"a": X, "b": (Y, Y)}, grad=False)
each("none_result", lambda x: (x, None), P("x"), (P("x"), None), X, jaxpr=False)
each("number_result", lambda x: (x, 3, 2.5), P("x"), (P("x"), P(), P()), X, grad=False)
each("numpy_result", lambda x: (x, np.ones(3, np.float32)), P("x"), (P("x"), P("x")), X, grad=False)
each("unused", lambda x, y: x, (P("x"), P("y")), P("x"), X, Y)
each("partly_manual", lambda x: jnp.sin(x) * 2, P("x"), P("x"), X, axis_names={"x"})
each("partly_manual_second", lambda x: x * 2, P(None, "y"), P(None, "y"), X, axis_names={"y"})

scenario("static_string", lambda: smap(
    lambda x, s: x * len(s), (P("x"), None), P("x"))(X, "abc"))  # fmt: skip
scenario("static_number", lambda: jax.make_jaxpr(smap(
    lambda x, s: x * s, (P("x"), None), P("x")))(X, 2.0))  # fmt: skip
scenario("static_all", lambda: smap(lambda x, s: x * s, None, P())(X, 2.0))
scenario("decorator", lambda: jax.shard_map(
    mesh=mesh_of(), in_specs=P("x"), out_specs=P("x"))(lambda x: x + 1)(X))  # fmt: skip
scenario("name", lambda: smap(show, P(), P()).__name__)
scenario("default_mesh", lambda: jax.shard_map(
    lambda x: x + 1, in_specs=P("x"), out_specs=P("x"))(X), (AUTO, AUTO))  # fmt: skip
scenario("default_mesh_jaxpr", lambda: jax.make_jaxpr(jax.shard_map(
    lambda x: x + 1, in_specs=P("x"), out_specs=P("x")))(X), (AUTO, AUTO))  # fmt: skip
scenario("given_mesh_in_context", lambda: jax.make_jaxpr(smap(
    lambda x: x + 1, P("x"), P("x")))(X), (AUTO, AUTO))  # fmt: skip
scenario("abstract_mesh_in_context", lambda: smap(
    lambda x: x + 1, P("x"), P("x"), mesh=mesh_of().abstract_mesh)(X), (AUTO, AUTO))  # fmt: skip
scenario("abstract_mesh_of_argument", lambda: smap(
    lambda x: x + 1, P("x"), P("x"), mesh=mesh_of().abstract_mesh
)(jax.device_put(X, NamedSharding(mesh_of(), P("x")))))  # fmt: skip
scenario("abstract_mesh_alone", lambda: smap(
    lambda x: x + 1, P("x"), P("x"), mesh=mesh_of().abstract_mesh)(X))  # fmt: skip
scenario("mesh_inside", lambda: smap(
    lambda x: x + len(jax.sharding.get_abstract_mesh().manual_axes), P("x"), P("x"),
    axis_names={"x"})(X))  # fmt: skip
scenario("argument_on_other_mesh", lambda: [jax.jit(smap(lambda x: x, spec, spec))(
    jax.device_put(X, NamedSharding(mesh_of(AUTO, sizes=(8,), names=("z",)), P("z"))))
    for spec in (P("x"), P(None, "x"), P("y", "x"))])  # fmt: skip
scenario("one_device", lambda: smap(
    lambda x: x + 1, P("x"), P("x"), mesh=mesh_of(sizes=(1,), names=("x",)))(X))  # fmt: skip

# Explicit axes


def put(x, *spec):
    return jax.device_put(x, P(*spec))


def explicit(name, fun, types=(EXPLICIT, EXPLICIT)):
    scenario(f"explicit_{name}", fun, types)


F = lambda f, outs, **kwargs: jax.shard_map(f, out_specs=outs, **kwargs)
explicit("inferred", lambda: F(lambda x: x * 2, P("x"))(put(X, "x")))
explicit("inferred_jaxpr", lambda: jax.make_jaxpr(F(lambda x: x * 2, P("x")))(put(X, "x")))
explicit("inferred_both", lambda: jax.make_jaxpr(F(lambda x: x * 2, P("x", "y")))(put(X, "x", "y")))
explicit("given", lambda: F(lambda x: x * 2, P("x"), in_specs=P("x"))(put(X, "x")))
explicit("mismatch", lambda: F(lambda x: x * 2, P("x"), in_specs=P())(put(X, "x")))
explicit("mismatch_replicated", lambda: F(lambda x: x * 2, P("x"), in_specs=P("x"))(X))
explicit("partly_manual", lambda: jax.make_jaxpr(
    F(lambda x: x * 2, P("x"), axis_names={"x"}))(put(X, "x", "y")))  # fmt: skip
explicit("partly_manual_run", lambda: F(
    lambda x: jnp.sin(x) * 2, P("x"), axis_names={"x"})(put(X, "x", "y")))  # fmt: skip
explicit("partly_manual_jit", lambda: jax.jit(F(
    lambda x: jnp.sin(x) * 2, P("x"), axis_names={"x"}))(put(X, "x", "y")))  # fmt: skip
explicit("partly_manual_one_dimension", lambda: jax.make_jaxpr(
    F(lambda x: x * 2, P("x"), axis_names={"x"}))(put(X, ("x", "y"))))  # fmt: skip
explicit("partly_manual_resharded", lambda: [F(
    lambda x: x * 2, P("x"), in_specs=P("x"), axis_names={"x"})(put(X, *spec))
    for spec in (("y",), ("x", "y"), ())])  # fmt: skip
explicit("partly_manual_resharded_jaxpr", lambda: jax.make_jaxpr(F(
    lambda x: x * 2, P("x"), in_specs=P("x"), axis_names={"x"}))(put(X, "y")))  # fmt: skip
explicit("partly_manual_gathered", lambda: F(
    lambda x: x * 2, P(), in_specs=P(), axis_names={"x"})(put(X, "x", "y")))  # fmt: skip
explicit("mixed_resharded", lambda: F(
    lambda x: x * 2, P(None, "x"), in_specs=P(None, "x"))(put(X, "x")), (EXPLICIT, AUTO))  # fmt: skip
explicit("mixed", lambda: jax.make_jaxpr(F(
    lambda x: x * 2, P(None, "y"), in_specs=P(None, "y"), axis_names={"y"}))(put(X, "x")),
    (EXPLICIT, AUTO))  # fmt: skip
explicit("mixed_inferred", lambda: F(lambda x: x * 2, P("x"))(put(X, "x")), (EXPLICIT, AUTO))
explicit("auto_inferred", lambda: F(lambda x: x * 2, P("x"))(put(X, "x")), (AUTO, AUTO))
explicit("grad", lambda: jax.grad(
    lambda x: jnp.sum(F(lambda x: jnp.sin(x), P("x"))(x)))(put(X, "x")))  # fmt: skip
explicit("vmap", lambda: jax.make_jaxpr(jax.vmap(F(lambda x: x * 2, P("x"), in_specs=P("x"))))(
    put(X.reshape(2, 4, 4), None, "x")))  # fmt: skip
explicit("vmap_sharded", lambda: jax.make_jaxpr(jax.vmap(F(
    lambda x: x * 2, P("x"), in_specs=P("x"))))(put(X.reshape(2, 4, 4), "y", "x")))  # fmt: skip

# smap


def one_axis(name, fun, types=(AUTO, AUTO)):
    scenario(f"smap_{name}", fun, types)


S = jax.smap
for i, axes in enumerate((0, 1, None, (0,), (None,))):
    one_axis(f"in_axes_{i}", lambda axes=axes: jax.make_jaxpr(S(
        lambda x: x * 2, in_axes=axes, out_axes=0, axis_name="x"))(X))  # fmt: skip
one_axis("two", lambda: S(
    lambda x, y: (x * 2, y), in_axes=(0, None), out_axes=(0, None), axis_name="x")(X, Y))  # fmt: skip
one_axis("tree", lambda: S(
    lambda x, y: (x, y), in_axes=(0, {"k": 1}), out_axes=(0, {"k": 1}), axis_name="y")(X, {"k": Y}))  # fmt: skip
one_axis("nested", lambda: S(
    lambda x: S(lambda x: x * 2, in_axes=1, out_axes=1, axis_name="y")(x), in_axes=0, out_axes=0,
    axis_name="x")(X))  # fmt: skip
one_axis("decorator", lambda: S(in_axes=0, out_axes=0, axis_name="x")(lambda x: x)(X))
one_axis("inferred", lambda: jax.make_jaxpr(S(lambda x: x, out_axes=0, axis_name="x"))(
    put(X, "x", "y")), (EXPLICIT, EXPLICIT))  # fmt: skip
one_axis("inferred_elsewhere", lambda: jax.make_jaxpr(S(lambda x: x, out_axes=0, axis_name="x"))(
    put(X, "y", "x")), (EXPLICIT, EXPLICIT))  # fmt: skip
one_axis("other_sharding", lambda: jax.make_jaxpr(S(
    lambda x: x, in_axes=0, out_axes=0, axis_name="x"))(put(X, "y", "x")), (EXPLICIT, EXPLICIT))  # fmt: skip
one_axis("grad", lambda: jax.grad(lambda x: jnp.sum(S(
    jnp.sin, in_axes=0, out_axes=0, axis_name="x")(x)))(X))  # fmt: skip
for i, kwargs in enumerate((
    dict(in_axes=[0], out_axes=0, axis_name="x"), dict(in_axes="q", out_axes=0, axis_name="x"),
    dict(in_axes=0, out_axes="q", axis_name="x"), dict(in_axes=0, out_axes=4, axis_name="x"),
    dict(in_axes=3, out_axes=0, axis_name="x"), dict(in_axes=0, out_axes=0, axis_name="z"),
    dict(in_axes=0, out_axes=0, axis_name=("x", "y")), dict(out_axes=0, axis_name="x"),
    dict(in_axes=0, out_axes=None, axis_name="x"), dict(in_axes=(0, 0), out_axes=0, axis_name="x"),
)):  # fmt: skip
    one_axis(f"wrong_{i}", lambda kwargs=kwargs: S(lambda x: x, **kwargs)(X))
scenario("smap_without_mesh", lambda: S(lambda x: x, in_axes=0, out_axes=0, axis_name="x")(X))
one_axis("keyword", lambda: S(lambda x: x, in_axes=0, out_axes=0, axis_name="x")(x=X))

# Errors

same = lambda x: x
WRONG = {
    "no_mesh": lambda: jax.shard_map(same, in_specs=P(), out_specs=P())(X),
    "mesh_type": lambda: smap(same, P(), P(), mesh=3)(X),
    "axis_names_unknown": lambda: smap(same, P("x"), P("x"), axis_names={"z"})(X),
    "axis_names_type": lambda: smap(same, P("x"), P("x"), axis_names=["x"])(X),
    "in_spec_type": lambda: smap(same, "x", P("x"))(X),
    "out_spec_type": lambda: smap(same, P("x"), ("x",))(X),
    "in_specs_list": lambda: smap(same, [P("x")], P("x"))(X),
    "in_specs_length": lambda: smap(same, (P("x"), P()), P("x"))(X),
    "in_specs_tree": lambda: smap(same, ({"a": P()},), P("x"))({"b": X}),
    "in_specs_unknown": lambda: smap(same, P("z"), P("x"))(X),
    "in_specs_not_mapped": lambda: smap(same, P("x", "y"), P("x"), axis_names={"x"})(X),
    "out_specs_unknown": lambda: smap(same, P("x"), P("z"))(X),
    "in_specs_rank": lambda: smap(same, P("x", None, "y"), P("x"))(X),
    "in_specs_indivisible": lambda: smap(same, P("x"), P("x"))(X[:6]),
    "out_specs_rank": lambda: smap(lambda x: x.sum(), P("x"), P("x"))(X),
    "out_specs_tree": lambda: smap(lambda x: (x, x), P("x"), (P("x"),))(X),
    "out_specs_none": lambda: smap(same, P("x"), None)(X),
    "not_replicated": lambda: smap(same, P("x"), P())(X),
    "not_replicated_jit": lambda: jax.jit(smap(same, P("x"), P()))(X),
    "not_replicated_partly": lambda: smap(same, P("x", "y"), P("x"))(X),
    "result_type": lambda: smap(lambda x: "s", P("x"), P())(X),
    "argument_type": lambda: smap(lambda x, s: x, (P("x"), P()), P("x"))(X, "s"),
    "function": lambda: smap(3, P("x"), P())(X),
    "keyword": lambda: smap(same, (P("x"),), P("x"))(x=X),
    "inferred_auto": lambda: jax.shard_map(same, mesh=mesh_of(), out_specs=P("x"))(X),
    "unreduced_auto": lambda: smap(same, P(unreduced={"x"}), P("x"))(X),
    "nested_mesh": lambda: smap(lambda x: smap(same, P("x"), P("x"))(x), P("x"), P("x"))(X),
    "branch_on_shards": lambda: smap(lambda x: x if x.sum() > 0 else -x, P("x"), P("x"))(X),
    "branch_in_jit": lambda: jax.jit(smap(lambda x: x if x.sum() > 0 else -x, P(), P()))(X),
    "numpy_of_shards": lambda: smap(lambda x: np.asarray(x), P("x"), P("x"))(X),
    "committed_elsewhere": lambda: smap(same, P("x"), P("x"))(
        jax.device_put(X, jax.devices()[1])),
}  # fmt: skip
for _name, _fun in WRONG.items():
    scenario(f"wrong_{_name}", _fun)
scenario("wrong_mesh_in_context", lambda: smap(
    same, P("x"), P("x"), mesh=mesh_of(sizes=(2, 4)))(X), (AUTO, AUTO))  # fmt: skip

# What Python sees of values in eager calls


def seen(name, f, ins=P("x"), outs=P("x"), **kwargs):
    """The text that `f(log, *shards)` collects in calls; the second one finds the same program."""

    def run():
        log = []
        g = smap(lambda *xs: f(log, *xs), ins, outs, **kwargs)
        g(X)
        log.append("again")
        return [*log, g(X)]

    scenario(f"seen_{name}", run)


seen("value", lambda log, x: (log.append(str(x)), x)[1])
seen("computed", lambda log, x: (log.append(str(x.sum() * 2)), x + 1)[1])
seen(
    "between",
    lambda log, x: [y := x * 2, log.append(repr(y)), z := y + x, log.append(str(z))] and z,
)
seen("unchecked", lambda log, x: (log.append(str(x)), x)[1], check_vma=False)
seen("type", lambda log, x: (log.append(f"{jax.typeof(x)} {x.shape}"), x)[1])
seen("branch", lambda log, x: x * 2 if x.sum() > 0 else x, P(), P())
seen("number", lambda log, x: (log.append(x.sum().item()), x * x.sum().item())[1], P(), P())
seen("index", lambda log, x: x[int(x[0, 0] * 0)], P(), P())
seen("loop", lambda log, x: sum(x[i] for i in range(3)), P(), P())
seen("inside_vmap", lambda log, x: jax.vmap(lambda x: (log.append(str(x.shape)), x)[1])(x))
seen("inside_jit", lambda log, x: jax.jit(lambda x: (log.append(str(x.shape)), x)[1])(x))
seen("calls", lambda log, x: (log.append("called"), x)[1])


# Tangents and cotangents that vary over other axes than the values

ONES = np.ones((2, 4), np.float32)
varying = lambda x: lax.pcast(x, "x", to="varying")


def of_other_type(f):
    """Programs that call `f`, a function of a value and a (co)tangent, on a shard and a constant."""
    return {
        "lacking": lambda x: f(x, jnp.asarray(ONES)),
        "lacking_numpy": lambda x: f(x, ONES),
        "equal": lambda x: f(x, varying(ONES)),
        "invariant": lambda x: f(jnp.asarray(ONES), jnp.asarray(ONES)),
        "surplus": lambda x: f(jnp.asarray(ONES), x),
        "more": lambda x: f(x, lax.pcast(x, "y", to="varying")),
    }


OTHER_TYPES = {
    "vjp": lambda x, ct: jax.vjp(jnp.sin, x)[1](ct)[0],
    "vjp_of_jit": lambda x, ct: jax.vjp(jax.jit(jnp.sin), x)[1](ct)[0],
    "vjp_in_vmap": lambda x, ct: jax.vmap(lambda x, ct: jax.vjp(jnp.sin, x)[1](ct)[0])(x, ct),
    "jvp": lambda x, t: jax.jvp(jnp.sin, (x,), (t,))[1],
    "linearize": lambda x, t: jax.linearize(jnp.sin, x)[1](t),
    "linear_transpose": lambda x, ct: jax.linear_transpose(lambda y: y * 2, x)(ct)[0],
}
for op, fun in OTHER_TYPES.items():
    for given, body in of_other_type(fun).items():
        scenario(f"{op}_{given}", lambda f=body: jax.jit(smap(f, P("x"), P(("x", "y"))))(X))
