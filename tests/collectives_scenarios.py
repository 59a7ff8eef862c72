"""Collectives over the axes of a mesh of eight CPU devices: values, derivatives, jaxprs, types; see op_cases.py."""

import functools

import ml_dtypes
import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

CASES = Programs()

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass

X = np.random.RandomState(0).randn(8, 8, 3).astype(np.float32)
MESH = AbstractMesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
EXPLICIT = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
PAIRS = [[0, 3], [1, 2]]


def devices():
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def varying(x, axes=("x", "y")):
    """Vary over all axes, for results that are stacked over all devices."""
    for a in axes:
        if "V:" not in str(jax.typeof(x)) or a not in str(jax.typeof(x)).split("V:")[1]:
            x = lax.pcast(x, a, to="varying")
    return x


def run(fun, *args, check_vma, specs=P(("x", "y"))):
    """The results of all devices, stacked; each device has a block of each argument."""

    def body(*xs):
        stack = varying if check_vma else lambda y: y
        return jax.tree.map(lambda y: stack(jnp.asarray(y))[None], fun(*xs))

    return jax.jit(
        jax.shard_map(
            body, mesh=devices(), in_specs=specs, out_specs=P(("x", "y")), check_vma=check_vma
        )
    )(*args)


def jaxpr(fun, *args, check_vma=True, mesh=MESH, specs=P("x")):
    """The equations of the body, and the types of its results."""
    types = []

    def body(*xs):
        outs = fun(*xs)
        types.extend(str(jax.typeof(y)) for y in jax.tree.leaves(outs))
        return jnp.zeros(())

    with jax.sharding.use_abstract_mesh(mesh):
        if mesh is EXPLICIT:
            args = [
                jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=jax.NamedSharding(mesh, specs))
                for a in args
            ]
        closed = jax.make_jaxpr(
            jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=check_vma)
        )(*args)
    inner = closed.jaxpr.eqns[-1].params["jaxpr"]
    return "\n".join([str(inner), *types])


# All collectives, on blocks (1, 8, 3) of eight devices.

ALL = {
    "psum": lambda x: lax.psum(x, "x"),
    "psum_two": lambda x: lax.psum(x, ("x", "y")),
    "psum_other_order": lambda x: lax.psum(x, ("y", "x")),
    "psum_tree": lambda x: lax.psum({"a": x, "b": [2 * x]}, "y"),
    "pmean": lambda x: lax.pmean(x, "y"),
    "all_gather": lambda x: lax.all_gather(x, "y"),
    "all_gather_last": lambda x: lax.all_gather(x, "x", axis=-1),
    "all_gather_tiled": lambda x: lax.all_gather(x, "y", axis=1, tiled=True),
    "all_gather_two": lambda x: lax.all_gather(x, ("y", "x"), axis=1, tiled=True),
    "all_gather_groups": lambda x: lax.all_gather(x, "y", axis_index_groups=PAIRS),
    "psum_scatter": lambda x: lax.psum_scatter(x[:, :4], "y", scatter_dimension=1),
    "psum_scatter_tiled": lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True),
    "psum_scatter_two": lambda x: lax.psum_scatter(x, ("y", "x"), scatter_dimension=1),
    "psum_scatter_groups": lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, axis_index_groups=PAIRS, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x[0, :4], "y", 0, 0),
    "all_to_all_tiled": lambda x: lax.all_to_all(x, "y", 1, 2, tiled=True),
    "all_to_all_two": lambda x: lax.all_to_all(x, ("x", "y"), 1, 0, tiled=True),
    "all_to_all_groups": lambda x: lax.all_to_all(x, "y", 1, 2, axis_index_groups=PAIRS, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "y", [(0, 1), (1, 2), (3, 0)]),
    "ppermute_two": lambda x: lax.ppermute(x, ("x", "y"), [(0, 7), (7, 3), (2, 0)]),
    "pshuffle": lambda x: lax.pshuffle(x, "y", [2, 0, 3, 1]),
    "pswapaxes": lambda x: lax.pswapaxes(x[0, :4], "y", 0),
    "axis_index": lambda x: x * lax.axis_index(("x", "y")) + lax.axis_index("y") * lax.axis_size("x"),
    "matmul": lambda x: lax.psum(x[0].T @ x[0], "y") * lax.psum(1, "x"),
    "normalize": lambda x: (x - lax.pmean(x, "x")) / jnp.sqrt(lax.pmean(x**2, ("x", "y"))),
    "ring": lambda x: functools.reduce(
        lambda c, _: c + lax.ppermute(c, "y", [(i, (i + 1) % 4) for i in range(4)]), range(3), x),
    "ring_backwards": lambda x: lax.ppermute(x * x, "y", [(i, i - 1) for i in range(4)]),
    "in_scan": lambda x: lax.scan(lambda c, r: (c + lax.psum(jnp.sin(r * c), "y") * r, None), x[0, 0], x[0])[0],
    "in_checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(lax.psum(x * x, "y")) * x)(x),
    "in_jit": lambda x: jax.jit(lambda x: lax.psum(jnp.cos(x), "x"))(x) * x,
}  # fmt: skip
# Without types that vary: the oracle has no groups for psum otherwise, and no gather to equal values.
UNTYPED = {
    "psum_groups": lambda x: lax.psum(x, "y", axis_index_groups=PAIRS),
    "psum_uneven_groups": lambda x: lax.psum(x, "y", axis_index_groups=[[0, 1, 3], [2]]),
    "psum_positions": lambda x: lax.psum(x, ("y", 1)),
}
TYPED = {
    "all_gather_invarying": lambda x: lax.all_gather(x, "y", axis=1, to="invarying"),
    "all_gather_invarying_two": lambda x: lax.all_gather(x, ("x", "y"), tiled=True, to="invarying"),
    "all_gather_reduced": lambda x: lax.pcast(lax.all_gather(x, "y", tiled=True, to="reduced"), "y", to="varying"),
    "unreduced_psum": lambda x: lax.psum(lax.pcast(x, "y", to="unreduced"), "y"),
    "unreduced_psum_scatter": lambda x: lax.psum_scatter(lax.pcast(x, "y", to="unreduced"), "y", scatter_dimension=1, tiled=True),
    "reduced_use": lambda x: jnp.sin(lax.pcast(lax.psum(x, "y"), "y", to="reduced")) * x,
    "weights": lambda x: x @ lax.pcast(lax.pmean(x, ("x", "y"))[0].T, ("x", "y"), to="varying"),
}  # fmt: skip


def gradients(fun, x):
    """The result, the gradient of a weighted sum of it, and its derivative along x."""
    out, pull = jax.vjp(fun, x)
    ct = jax.tree.map(lambda y: like(jnp.cos(jnp.arange(y.size).reshape(y.shape)), y), out)
    return out, pull(ct)[0], jax.jvp(fun, (x,), (jnp.sin(x),))[1]


def like(ct, y):
    ct = (
        ct.astype(jnp.float32)
        if jnp.issubdtype(y.dtype, jnp.floating)
        else np.zeros(y.shape, jax.dtypes.float0)
    )
    text = str(jax.typeof(y)).partition("V:")[2]
    axes = tuple(a for a in ("x", "y") if a in text)
    return lax.pcast(ct, axes, to="varying") if axes else ct


def several(funs, check_vma):
    return lambda: run(
        lambda x: {name: gradients(f, x) for name, f in funs.items()}, X, check_vma=check_vma
    )


for check in (True, False):
    CASES.add(f"gradients_{check}", several(ALL, check))
CASES.add("gradients_of_groups", several(UNTYPED, False))
CASES.add("gradients_of_roles", several(TYPED, True))


def loss(x, w, check_vma, to):
    """A mean over shards of rows, with weights that are gathered from shards of columns."""

    def body(x, w):
        gathered = lax.all_gather(w, "y", axis=1, tiled=True, to=to)
        mean = lax.pmean(jnp.mean(jnp.sin(x @ gathered)), "x")
        return mean if to == "invarying" or not check_vma else lax.pmean(mean, "y")

    f = jax.shard_map(
        body, mesh=devices(), in_specs=(P("x"), P(None, "y")), out_specs=P(), check_vma=check_vma
    )
    return f(x, w)


for check, to in ((True, "varying"), (True, "invarying"), (False, "varying")):
    CASES.add(
        f"gradients_outside_{check}_{to}",
        lambda check=check, to=to: jax.jit(
            jax.value_and_grad(lambda x, w: loss(x, w, check, to), (0, 1))
        )(X[0], np.tile(X[1, :3], (1, 4))),
    )  # fmt: skip


# Values without derivatives: other types of numbers, extrema, positions

NUMBERS = {
    "int8": X.astype(np.int8),
    "bool": X > 0,
    "bfloat16": X.astype(ml_dtypes.bfloat16),
    "float16": X.astype(np.float16),
    "complex64": (X + 1j * X[::-1]).astype(np.complex64),
    "uint32": np.abs(X * 10).astype(np.uint32),
}
MOVING = {
    "pmax": lambda x: lax.pmax(x, "y"),
    "pmin": lambda x: lax.pmin(x, ("x", "y")),
    "pmax_groups": lambda x: lax.pmax(x, "y", axis_index_groups=PAIRS),
    "psum": lambda x: lax.psum(x, "y"),
    "all_gather": lambda x: lax.all_gather(x, "y"),
    "ppermute": lambda x: lax.ppermute(x, "y", [(0, 1), (3, 2)]),
    "all_to_all": lambda x: lax.all_to_all(x, "y", 1, 0, tiled=True),
}


@CASES.define
def numbers():
    def all_of(xs):
        return {
            (dtype, name): f(x)
            for dtype, x in xs.items()
            for name, f in MOVING.items()
            if dtype != "complex64" or name[:4] not in ("pmax", "pmin")
        }

    out = run(all_of, NUMBERS, check_vma=False)
    return {f"{d}_{n}": [str(x.dtype), x.astype(np.complex64)] for (d, n), x in out.items()}


@CASES.define
def means_of_integers():
    out = run(lambda x: (lax.pmean(x, "x"), lax.pmean(x > 0, "x"), lax.pmean(3, "x")), X.astype(np.int32), check_vma=True)  # fmt: skip
    return [str(x.dtype) for x in out], out


@CASES.define
def indices():
    from jax._src.lax import parallel

    f = lambda x: (parallel.pargmax(x, "y"), parallel.pargmin(x, "x"), lax.axis_index(("y", "x")))
    return run(f, np.round(X), check_vma=True), run(f, np.round(X), check_vma=False)


@CASES.define
def mapped_inside():
    """vmap in the body, over dimensions without a name and with one."""

    def f(x):
        outs = {
            n: jax.vmap(g, in_axes=1, out_axes=1)(x) for n, g in MOVING.items() if n[:3] != "all"
        }
        outs["gather"] = jax.vmap(lambda r: lax.all_gather(r, "y", axis=1), 1, 2)(x)
        outs["tiled"] = jax.vmap(lambda r: lax.all_gather(r, "y", axis=0, tiled=True), 2, -1)(x)
        outs["scatter"] = jax.vmap(lambda r: lax.psum_scatter(r, "y", tiled=True), 0, 0)(x)
        outs["exchange"] = jax.vmap(lambda r: lax.all_to_all(r, "y", 0, 1, tiled=True), 0, 1)(x)
        named = lambda g: jax.vmap(g, 1, 0, axis_name="i")(x)
        outs["named_sum"] = named(lambda r: lax.psum(r, ("i", "y")))
        outs["named_max"] = named(lambda r: lax.pmax(r, ("y", "i")))
        outs["named_index"] = named(lambda r: r * lax.axis_index(("i", "y")))
        outs["named_exchange"] = named(
            lambda r: lax.all_to_all(jnp.tile(r, (32, 1)), ("i", "y"), 0, 1, tiled=True)
        )
        return outs

    return run(f, X, check_vma=False)


# Jaxprs: of each collective, of its derivatives, where the operand has each role


def role(x, name):
    """Vary over x, and have the role for y."""
    if name == "unreduced":
        x = lax.pcast(x, "y", to="varying")
    return x if name == "invarying" else lax.pcast(x, "y", to=name)


BOUND = {
    "psum": lambda x: lax.psum(x, "y"),
    "psum_x": lambda x: lax.psum(x, "x"),
    "pmax": lambda x: lax.pmax(x, "y"),
    "pmin_x": lambda x: lax.pmin(x, "x"),
    "all_gather": lambda x: lax.all_gather(x, "y"),
    "all_gather_x": lambda x: lax.all_gather(x, "x", axis=1, tiled=True),
    "all_gather_two": lambda x: lax.all_gather(x, ("x", "y")),
    "all_gather_invarying": lambda x: lax.all_gather(x, "y", to="invarying"),
    "all_gather_reduced": lambda x: lax.all_gather(x, "y", tiled=True, to="reduced"),
    "all_gather_reduced_x": lambda x: lax.all_gather(x, "x", to="reduced"),
    "all_gather_groups": lambda x: lax.all_gather(x, "y", axis_index_groups=PAIRS),
    "psum_scatter": lambda x: lax.psum_scatter(x, "y", tiled=True),
    "psum_scatter_x": lambda x: lax.psum_scatter(x, "x", tiled=True),
    "psum_scatter_groups": lambda x: lax.psum_scatter(x, "y", axis_index_groups=PAIRS, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "y", 0, 0),
    "all_to_all_x": lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "y", [(0, 1)]),
    "pshuffle_x": lambda x: lax.pshuffle(x, "x", [1, 0]),
    "axis_index": lambda x: lax.axis_index("x"),
    "vary": lambda x: lax.pcast(x, "y", to="varying"),
    "unreduce": lambda x: lax.pcast(x, "y", to="unreduced"),
    "reduce": lambda x: lax.pcast(x, "y", to="reduced"),
    "add": lambda x: x + x,
    "sum": lambda x: x.sum(),
    "add_varying": lambda x: x + lax.axis_index("y"),
    "tree": lambda x: lax.pcast((x, lax.psum(x, "x")), "y", to="varying"),
}
A = X[0, :, :2].repeat(2, 1)


def transposed(fun):
    def pulled(x):
        out, pull = jax.vjp(fun, x)
        want = jax.typeof(out).to_ct_aval()
        ct = jnp.ones(out.shape, out.dtype)
        roles = str(want).partition("{")[2]
        for mark, to in (("V", "varying"), ("R", "reduced"), ("U", "unreduced")):
            axes = roles.partition(f"{mark}:")[2].partition(", " if "(" not in roles else ")")[0]
            for a in ("x", "y"):
                if a in axes:
                    ct = lax.pcast(ct, a, to="varying") if to == "unreduced" else ct
                    ct = lax.pcast(ct, a, to=to)
        return pull(ct)

    return pulled


for bound, fun in BOUND.items():
    for name in ("invarying", "varying", "reduced", "unreduced"):
        typed = lambda x, fun=fun, name=name: fun(role(x, name))
        CASES.add(f"jaxpr_{bound}_{name}", lambda typed=typed: jaxpr(typed, A))
        if name in ("invarying", "varying") and bound not in (
            "all_gather_invarying",
            "pmax",
            "pmin_x",
        ):
            CASES.add(f"transpose_{bound}_{name}", lambda typed=typed: jaxpr(transposed(typed), A))
    CASES.add(f"jaxpr_{bound}_untyped", lambda fun=fun: jaxpr(fun, A, check_vma=False))
    if bound not in ("all_gather_invarying", "tree", "unreduce"):
        pulled = lambda x, fun=fun: jax.vjp(fun, x)[1](jnp.ones_like(fun(x)))
        CASES.add(
            f"transpose_{bound}_untyped", lambda pulled=pulled: jaxpr(pulled, A, check_vma=False)
        )

# Errors, and arguments at the edge: types of the results, or the class of the exception

SHAPE = jax.ShapeDtypeStruct((2,), np.float32)
ARGUMENTS = {
    "groups_twice": lambda x: lax.psum(x, "y", axis_index_groups=[[0, 0], [1, 2]]),
    "groups_and_positions": lambda x: lax.psum(x, ("y", 0), axis_index_groups=PAIRS),
    "groups_of_none": lambda x: lax.psum(x, "y", axis_index_groups=[None]),
    "groups_constant": lambda x: lax.psum(2, "y", axis_index_groups=PAIRS),
    "groups_uneven": lambda x: lax.pmax(x, "y", axis_index_groups=[[0, 1, 2], [3]]),
    "unbound": lambda x: lax.psum(x, "q"),
    "unbound_gather": lambda x: lax.all_gather(x, "q"),
    "unbound_index": lambda x: lax.axis_index("q"),
    "unbound_size": lambda x: lax.axis_size("q"),
    "axis_none": lambda x: lax.psum(x, None),
    "no_axes": lambda x: lax.psum(x, ()),
    "list": lambda x: lax.psum(x, ["x", "y"]),
    "gather_to": lambda x: lax.all_gather(x, "x", to="other"),
    "gather_axis": lambda x: lax.all_gather(x, "x", axis=3),
    "gather_negative": lambda x: lax.all_gather(x, "x", axis=-1),
    "gather_negative_tiled": lambda x: lax.all_gather(x, "x", axis=-1, tiled=True),
    "gather_axis_tiled": lambda x: lax.all_gather(x, "x", axis=2, tiled=True),
    "gather_scalar_tiled": lambda x: lax.all_gather(x[0, 0], "x", tiled=True),
    "gather_number": lambda x: lax.all_gather(1.0, "x"),
    "gather_key": lambda x: lax.all_gather(jax.random.key(0), "x"),
    "scatter_negative": lambda x: lax.psum_scatter(x, "x", scatter_dimension=-1, tiled=True),
    "scatter_size": lambda x: lax.psum_scatter(x, "x"),
    "scatter_size_tiled": lambda x: lax.psum_scatter(x[:3], "x", tiled=True),
    "exchange_negative": lambda x: lax.all_to_all(x, "x", -1, -2, tiled=True),
    "exchange_size": lambda x: lax.all_to_all(x, "x", 0, 0),
    "exchange_size_tiled": lambda x: lax.all_to_all(x[:3], "x", 0, 0, tiled=True),
    "exchange_concat": lambda x: lax.all_to_all(x, "y", 0, 2),
    "gather_reduced_partly": lambda x: lax.all_gather(varying(x, "x"), ("x", "y"), to="reduced"),
    "exchange_concat_tiled": lambda x: lax.all_to_all(x, "x", 0, 2, tiled=True),
    "exchange_split": lambda x: lax.all_to_all(x, "y", 2, 0),
    "exchange_split_tiled": lambda x: lax.all_to_all(x, "y", -3, 0, tiled=True),
    "exchange_scalar": lambda x: lax.all_to_all(x[0, 0], "y", 0, 0),
    "exchange_mapped": lambda x: jax.vmap(lambda r: lax.all_to_all(r, "y", 1, 0, tiled=True))(x),
    "swap_axis": lambda x: lax.pswapaxes(x, "y", 2),
    "scatter_axis": lambda x: lax.psum_scatter(x, "x", scatter_dimension=2),
    "scatter_axis_tiled": lambda x: lax.psum_scatter(x, "x", scatter_dimension=-3, tiled=True),
    "exchange_tuple": lambda x: lax.all_to_all(x, ("y",), 0, 1),
    "permute_nothing": lambda x: lax.ppermute(x, "y", []),
    "permute_number": lambda x: lax.ppermute(3.0, "y", [(0, 1)]),
    "permute_key": lambda x: lax.ppermute(jax.random.key(0), "x", [(0, 1), (1, 0)]),
    "shuffle": lambda x: lax.pshuffle(x, "y", [0, 1, 1, 2]),
    "swap_size": lambda x: lax.pswapaxes(x, "x", 0),
    "bool": lambda x: lax.psum(True, "y"),
    "numpy_bool": lambda x: lax.psum(np.True_, "y"),
    "complex": lambda x: lax.psum(1j, "y"),
    "int8": lambda x: lax.psum(np.int8(100), "y"),
    "array": lambda x: lax.psum(np.arange(3), "y"),
    "mean": lambda x: (lax.pmean(3, "y"), lax.pmean(jnp.arange(3), "y"), lax.pmean(x > 3, "y")),
    "bool_no_axes": lambda x: (lax.psum(True, ()), lax.psum(x > 0, ()), lax.pmean(x > 0, ())),
    "position_bool": lambda x: lax.psum(x > 0, (0,)),
    "position_and_axis_bool": lambda x: lax.psum(x > 0, (0, "x")),
    "weak": lambda x: [f(lax.full((4,), 2.0) * 2, "x") for f in (lax.psum, lax.pmean, lax.pmax, lax.all_gather)],
    "weak_parts": lambda x: [f(lax.full((4,), 2.0) * 2) for f in (
        lambda y: lax.psum_scatter(y, "x", tiled=True), lambda y: lax.all_to_all(y, "x", 0, 0, tiled=True),
        lambda y: lax.ppermute(y, "x", [(0, 1)]))],
    "grad_inside": lambda x: jax.grad(lambda y: lax.ppermute(y, "x", [(0, 1)]).sum())(x),
    "grad_gather": lambda x: jax.value_and_grad(lambda y: lax.all_gather(y, "y").sum())(x),
    "grad_constant": lambda x: jax.grad(lambda y: (lax.all_to_all(y * x, "x", 0, 1, tiled=True)).sum())(x.ravel()[0]),
    "grad_weak": lambda x: jax.grad(lambda y: lax.ppermute(y, "x", [(0, 1)]))(2.0),
    "jacobian_inside": lambda x: jax.jacrev(lambda y: lax.psum_scatter(y, "x", tiled=True))(x),
    "hessian_inside": lambda x: jax.hessian(lambda y: (lax.pshuffle(y, "x", [1, 0]) ** 2).sum())(x[0]),
    "vjp_varies_more": lambda x: jax.vjp(jnp.sin, x)[1](varying(x, ("y",))),
    "text": lambda x: lax.psum("a", "y"),
    "none": lambda x: lax.psum(None, "y"),
    "float0": lambda x: lax.psum(np.zeros(3, jax.dtypes.float0), "y"),
    "position": lambda x: lax.psum(x, (5,)),
    "position_negative": lambda x: lax.psum(x, (-1, "x")),
    "cast_nothing": lambda x: lax.pcast(x, (), to="varying"),
    "cast_to": lambda x: lax.pcast(x, "y", to="invarying"),
    "index_list": lambda x: lax.axis_index(["x", "y"]),
    "index_nothing": lambda x: lax.axis_index(()),
    "receive": lambda x: lax.precv(lax.create_token(), SHAPE, "y", [(0, 1)]),
    "ragged": lambda x: lax.ragged_all_to_all(x, x, *[np.ones(2, np.int32)] * 4, axis_name="x"),
    "ragged_float": lambda x: lax.ragged_all_to_all(x, x, *[np.ones(2, np.float32)] * 4, axis_name="x"),
    "ragged_send_float": lambda x: lax.ragged_all_to_all(x, x, np.ones(2, int), np.ones(2), *[np.ones(2, int)] * 2, axis_name="x"),
    "ragged_rank": lambda x: lax.ragged_all_to_all(x, x, *[np.ones((1, 2), int)] * 4, axis_name="x"),
    "ragged_empty": lambda x: lax.ragged_all_to_all(x, x, *[np.ones(0, int)] * 4, axis_name="x"),
    "ragged_axis": lambda x: lax.ragged_all_to_all(x, x, *[np.ones(2, int)] * 4, axis_name="q"),
    "ragged_shorter": lambda x: lax.ragged_all_to_all(x, x[:1], *[np.ones(2, int)] * 4, axis_name="x"),
}  # fmt: skip


def outcome(fun, check_vma):
    try:
        return jaxpr(fun, A, check_vma=check_vma).partition("}\n")[2]
    except Exception as err:
        return type(err).__name__


for name, fun in ARGUMENTS.items():
    checks = (
        (False,)
        if name.startswith(("position", "groups", "receive", "unbound", "axis_none"))
        else (True, False)
    )
    for check in checks:
        CASES.add(f"argument_{name}_{check}", lambda fun=fun, check=check: outcome(fun, check))
