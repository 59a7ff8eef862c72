"""Collectives over axes of `vmap` and mesh axes together, against NumPy: groups, axes that are sharded over mesh axes."""

import numpy as np
import pytest
from absl.testing import absltest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, test_util as jtu, xla_bridge as xb
from jax.sharding import AxisType, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = np.random.RandomState(0).randn(2, 8, 16, 2).astype(np.float32)  # (x, i, ...)
ROWS = {
    ("x", "i"): X.reshape(16, 16, 2),
    ("i", "x"): X.swapaxes(0, 1).reshape(16, 16, 2),
    ("i",): X,
}
ORDERS = tuple(ROWS)
GROUPS = tuple(tuple(map(int, g)) for g in np.random.RandomState(1).permutation(16).reshape(4, 4))
UNEVEN = ((0, 5, 11, 2, 8, 9, 14), tuple(i for i in range(16) if i not in (0, 5, 11, 2, 8, 9, 14)))
PERM = ((0, 7), (7, 3), (2, 0), (15, 1), (1, 14), (9, 9), (4, 12))

# Each collective of (x, axes, groups), and its results in NumPy for the rows of one group.

OF_GROUPS = {
    "psum": (lambda x, a, g: lax.psum(x, a, axis_index_groups=g), lambda r: [r.sum(0)] * len(r)),
    "pmax": (lambda x, a, g: lax.pmax(x, a, axis_index_groups=g), lambda r: [r.max(0)] * len(r)),
    "all_gather": (
        lambda x, a, g: lax.all_gather(x, a, axis=1, axis_index_groups=g),
        lambda r: [r.swapaxes(0, 1)] * len(r),
    ),
    "all_gather_tiled": (
        lambda x, a, g: lax.all_gather(x, a, tiled=True, axis_index_groups=g),
        lambda r: [np.concatenate(r)] * len(r),
    ),
    "psum_scatter": (
        lambda x, a, g: lax.psum_scatter(x, a, tiled=True, axis_index_groups=g),
        lambda r: np.split(r.sum(0), len(r)),
    ),
    "all_to_all": (
        lambda x, a, g: lax.all_to_all(x, a, 0, 1, tiled=True, axis_index_groups=g),
        lambda r: [np.concatenate(parts, 1) for parts in zip(*[np.split(x, len(r)) for x in r])],
    ),
}


def permuted(rows):
    out = np.zeros_like(rows)
    for source, target in PERM:
        if max(source, target) < len(rows):
            out[target] = rows[source]
    return out


def pairs(axes):
    return [p for p in PERM if max(p) < lax.axis_size(axes)]


OF_ALL = {
    "ppermute": (lambda x, a: lax.ppermute(x, a, pairs(a)), permuted),
    "pbroadcast": (lambda x, a: lax.pbroadcast(x, a, 5), lambda r: [r[5]] * len(r)),
    "axis_index": (lambda x, a: x[0, 0] * lax.axis_index(a), lambda r: r[:, 0, 0] * np.arange(len(r))),
    "axis_size": (lambda x, a: x[0, 0] * lax.axis_size(a), lambda r: r[:, 0, 0] * len(r)),
}  # fmt: skip


def cases():
    for axes in ORDERS:
        for name, (fun, result) in OF_ALL.items():
            yield f"{name}_{axes}", axes, lambda x, a=axes, f=fun: f(x, a), result
        for name, (fun, result) in OF_GROUPS.items():
            for kind, groups in (("", None), ("_groups", GROUPS), ("_uneven", UNEVEN)):
                if kind and (axes == ("i",) or (kind == "_uneven") > (name in ("psum", "pmax"))):
                    continue
                f = lambda x, a=axes, f=fun, g=groups: f(x, a, g)
                yield f"{name}{kind}_{axes}", axes, f, by_groups(result, groups)


def by_groups(result, groups):
    def rows(r):
        out = [None] * len(r)
        for g in groups or [tuple(range(len(r)))]:
            for i, row in zip(g, result(r[list(g)])):
                out[i] = row
        return np.stack(out)

    return rows


CASES = {name: (axes, fun, result) for name, axes, fun, result in cases()}


def everything(x):
    return {name: fun(x) for name, (_, fun, _) in CASES.items()}


def expected():
    """The results of all cases, with the leading dimensions (x, i)."""
    out = {}
    for name, (axes, _, result) in CASES.items():
        if axes == ("i",):
            out[name] = np.stack([result(r) for r in X])
        else:
            rows = np.asarray(result(ROWS[axes]))
            sizes = (2, 8) if axes[0] == "x" else (8, 2)
            rows = rows.reshape(*sizes, *rows.shape[1:])
            out[name] = rows if axes[0] == "x" else rows.swapaxes(0, 1)
    return out


def over_mesh(f, check_vma, spmd=None, inside=False, shape=(2, 2, 2)):
    """`f` over the axes x, of a mesh, and i, of vmap inside or outside of the shard_map."""
    if len(xb.devices("cpu")) < 8:
        pytest.skip("needs 8 CPU devices")
    mesh = jax.make_mesh(shape, ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)

    def varying(v):
        if check_vma and "x" not in jax.typeof(v).vma:
            v = lax.pcast(v, "x", to="varying")
        return v[None]

    def on_x(f):
        return jax.shard_map(
            lambda x: jax.tree.map(varying, f(x[0])), mesh=mesh, in_specs=P("x"),
            out_specs=P("x"), check_vma=check_vma,
        )  # fmt: skip

    if inside:
        return on_x(jax.vmap(f, axis_name="i"))
    return jax.vmap(on_x(f), in_axes=1, out_axes=1, axis_name="i", spmd_axis_name=spmd)


PLACES = {
    "vmap": lambda f: jax.vmap(jax.vmap(f, axis_name="i"), axis_name="x"),
    "vmap other order": lambda f: jax.vmap(jax.vmap(f, axis_name="x"), 1, 1, axis_name="i"),
    "inside": lambda f: over_mesh(f, True, inside=True),
    "inside unchecked": lambda f: over_mesh(f, False, inside=True),
    "outside": lambda f: over_mesh(f, True),
    "over y": lambda f: over_mesh(f, True, "y"),
    "over y unchecked": lambda f: over_mesh(f, False, "y"),
    "over z and y": lambda f: over_mesh(f, True, ("z", "y")),
    "over z and y unchecked": lambda f: over_mesh(f, False, ("z", "y")),
}


@pytest.mark.parametrize("place", PLACES)
def test_values(place):
    got = jax.jit(PLACES[place](everything))(X)
    for name, want in expected().items():
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=name)


def loss(f):
    def total(x):
        outs = f(x)
        return sum(
            jnp.sum(jnp.sin(y) * jnp.cos(jnp.arange(y.size)).reshape(y.shape))
            for name, y in sorted(outs.items())
        )

    return total


def differentiable(x):
    """Linear collectives; of those without groups, the ones over x and i."""
    return {
        name: fun(x)
        for name, (axes, fun, _) in CASES.items()
        if "pmax" not in name and "axis_" not in name and (axes == ("x", "i") or "groups" in name)
    }


@pytest.mark.parametrize("place", ["inside", "over y", "over z and y unchecked"])
def test_derivatives(place):
    def both(f):
        value, pull = jax.vjp(loss(f), X)
        return value, pull(jnp.float32(1))[0], jax.jvp(loss(f), (X,), (jnp.cos(X),))[1]

    want = jax.jit(lambda: both(PLACES["vmap"](differentiable)))()
    got = jax.jit(lambda: both(PLACES[place](differentiable)))()
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-2)


def gathered(x):
    return lax.all_gather(x, "i", tiled=True)[: x.shape[0]]


CONTROL_FLOW = {
    "scan": lambda x: lax.scan(lambda c, y: (jnp.sin(c + gathered(c)) * y, gathered(c)), x, x[:3, None]),
    "while": lambda x: lax.while_loop(
        lambda c: c[1] < 3, lambda c: (jnp.sin(c[0] + lax.ppermute(c[0], "i", PERM[:3])), c[1] + 1), (x, 0))[0],
    "cond": lambda x: lax.cond(
        lax.axis_index("x") > 0, lambda x: gathered(x) * x, lambda x: x + lax.psum(x, "i"), x),
    "jit": lambda x: jax.jit(gathered)(x) * x,
    "checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(gathered(jnp.cos(x))) * x)(x),
    "vmap": lambda x: jax.vmap(lambda r: r * lax.all_gather(r, ("i", "j")).sum(0), axis_name="j")(x),
    "groups and two vmaps": lambda x: jax.vmap(
        lambda r: lax.psum(r, ("j", "x", "i"), axis_index_groups=[[k, 255 - k] for k in range(128)]), axis_name="j")(x),
    "invarying": lambda x: lax.all_gather(x, "i", to="invarying").sum(0) * x,
    "maximum": lambda x: lax.stop_gradient(lax.pmax(x, "i")) * x,
}  # fmt: skip


@pytest.mark.parametrize("check_vma", [True, False])
def test_control_flow_over_mesh_axes(check_vma):
    f = lambda x: {name: fun(x) for name, fun in CONTROL_FLOW.items()}
    want = jax.jit(over_mesh(f, check_vma))(X)
    got = jax.jit(over_mesh(f, check_vma, ("y", "z")))(X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, want)


def test_ragged_exchange():
    """Index k sends one row to each index of its group, whose first rows they become."""
    axes = ("x", "i")
    groups = {i: g for g in GROUPS for i in g}
    position = {i: g.index(i) for g in GROUPS for i in g}
    k = np.arange(4, dtype=np.int32)

    def f(x):
        where = jnp.asarray([position[i] for i in range(16)], np.int32)[lax.axis_index(axes)]
        ones = jnp.ones(4, np.int32)
        return {
            "out": lax.ragged_all_to_all(
                x, -x, k, ones, jnp.full(4, where), ones, axis_name=axes, axis_index_groups=GROUPS
            )
        }

    rows = ROWS[axes]
    want = -rows
    for i in range(16):
        want[i, :4] = [rows[s, position[i]] for s in groups[i]]
    for place in ("vmap", "inside", "over z and y"):
        got = jax.jit(PLACES[place](f))(X)["out"]
        np.testing.assert_array_equal(got, want.reshape(X.shape), err_msg=place)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
