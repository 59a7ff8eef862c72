"""Collectives along an axis of `vmap`, against what they mean along the batch dimension; over mesh axes beside the reference."""

import itertools
import re

import numpy as np
import pytest
from absl.testing import absltest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, core, test_util as jtu, xla_bridge as xb
from jax._src.lax import parallel
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
SQUARE = np.arange(9.0, dtype=np.float32).reshape(3, 3)


def over(f, x, **kwargs):
    return np.asarray(jax.vmap(f, axis_name="i", **kwargs)(x))


class ReductionTest(jtu.JaxTestCase):
    def test_sums(self):
        self.assertAllClose(over(lambda x: lax.psum(x, "i"), X), np.broadcast_to(X.sum(0), X.shape))
        self.assertAllClose(
            over(lambda x: lax.pmean(x, "i"), X), np.broadcast_to(X.mean(0), X.shape)
        )
        self.assertAllClose(over(lambda x: lax.pmax(x, "i"), X), np.broadcast_to(X.max(0), X.shape))
        self.assertAllClose(over(lambda x: lax.pmin(x, "i"), X), np.broadcast_to(X.min(0), X.shape))

    def test_constant_is_multiplied_by_the_size(self):
        self.assertEqual(jax.vmap(lambda x: lax.psum(1, "i"), axis_name="i", out_axes=None)(X), 3)
        out = jax.vmap(lambda x: lax.psum(jnp.float32(2), "i"), axis_name="i", out_axes=None)(X)
        self.assertEqual(float(out), 6.0)

    def test_groups(self):
        x = np.arange(4.0, dtype=np.float32)
        out = over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [1, 3]]), x)
        self.assertAllClose(out, np.array([2, 4, 2, 4], np.float32))

    def test_several_axes(self):
        f = jax.vmap(jax.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="i"), axis_name="j")
        self.assertAllClose(np.asarray(f(X)), np.full(X.shape, X.sum(), np.float32))

    def test_positions(self):
        self.assertEqual(float(lax.psum(jnp.arange(3.0), 0)), 3.0)

    def test_tree_and_bool(self):
        out = jax.vmap(lambda t: lax.psum(t, "i"), axis_name="i", out_axes=None)(
            {"a": X, "b": X > 3}
        )
        self.assertAllClose(out["a"], jnp.asarray(X.sum(0)))
        self.assertAllClose(out["b"], jnp.asarray((X > 3).sum(0), jnp.int32))

    def test_under_jit_scan_and_grad(self):
        x = jnp.arange(3.0)
        inner = jax.jit(lambda y: lax.psum(y, "i"))
        self.assertAllClose(over(lambda x: inner(x), x), np.full(3, 3.0, np.float32))
        by_scan = over(
            lambda x: lax.scan(lambda c, _: (c + lax.psum(x, "i"), None), 0.0, None, 2)[0], x
        )
        self.assertAllClose(by_scan, np.full(3, 6.0, np.float32))
        inside = jax.vmap(jax.grad(lambda x: lax.psum(x * x, "i")), axis_name="i")(x)
        self.assertAllClose(inside, 6 * x)
        outside = jax.grad(
            lambda x: jax.vmap(lambda x: lax.psum(x * x, "i"), axis_name="i")(x).sum()
        )(x)
        self.assertAllClose(outside, 6 * x)


class MovingTest(jtu.JaxTestCase):
    def test_axis_index(self):
        self.assertAllClose(over(lambda x: lax.axis_index("i"), X), np.arange(3, dtype=np.int32))
        self.assertEqual(jax.vmap(lambda x: lax.axis_size("i"), axis_name="i", out_axes=None)(X), 3)

    def test_ppermute(self):
        out = over(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), X)
        self.assertAllClose(out, np.stack([np.zeros(4, np.float32), X[0], X[1]]))
        self.assertAllClose(over(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), X), X[[2, 0, 1]])
        jtu.check_grads(
            lambda x: jax.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x),
            (X,), order=1,
        )  # fmt: skip

    def test_all_gather(self):
        out = over(lambda x: lax.all_gather(x, "i"), X)
        self.assertAllClose(out, np.broadcast_to(X, (3, 3, 4)))
        out = over(lambda x: lax.all_gather(x, "i", axis=1), X)
        self.assertAllClose(out, np.broadcast_to(X.T, (3, 4, 3)))
        out = over(lambda x: lax.all_gather(x, "i", tiled=True), X)
        self.assertAllClose(out, np.broadcast_to(X.reshape(-1), (3, 12)))

    def test_gather_transposes_to_scatter(self):
        def f(x):
            return jax.vmap(lambda x: jnp.sin(lax.all_gather(x, "i")).sum(0), axis_name="i")(x)

        jtu.check_grads(f, (X,), order=1)

    def test_psum_scatter(self):
        out = over(lambda x: lax.psum_scatter(x, "i"), SQUARE)
        self.assertAllClose(out, SQUARE.sum(0))
        out = over(lambda x: lax.psum_scatter(x, "i", tiled=True), SQUARE)
        self.assertAllClose(out, SQUARE.sum(0)[:, None])

    def test_all_to_all(self):
        self.assertAllClose(over(lambda x: lax.all_to_all(x, "i", 0, 0), SQUARE), SQUARE.T)
        self.assertAllClose(over(lambda x: lax.pswapaxes(x, "i", 0), SQUARE), SQUARE.T)
        out = over(
            lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
            np.arange(18.0).reshape(3, 6).astype("f"),
        )
        want = np.arange(18.0, dtype=np.float32).reshape(3, 3, 2).swapaxes(0, 1).reshape(3, 6)
        self.assertAllClose(out, want)

    def test_pbroadcast(self):
        self.assertAllClose(
            over(lambda x: lax.pbroadcast(x, "i", 1), X), np.broadcast_to(X[1], X.shape)
        )


class ErrorTest(jtu.JaxTestCase):
    def test_unbound_axis(self):
        for f in (
            lambda: lax.psum(jnp.ones(3), "k"),
            lambda: lax.axis_index("k"),
            lambda: jax.jit(lambda x: lax.pmax(x, "k"))(1.0),
            lambda: jax.vmap(lambda x: lax.psum(x, "k"), axis_name="i")(X),
        ):
            with self.assertRaisesRegex(NameError, "unbound axis name: k"):
                f()
        self.assertAllClose(jnp.ones(3) + 1, jnp.full(3, 2.0))

    def test_arguments(self):
        with self.assertRaisesRegex(ValueError, "must be unique"):
            over(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), X)
        with self.assertRaisesRegex(ValueError, "permutation"):
            over(lambda x: lax.pshuffle(x, "i", [0, 0, 1]), X)
        with self.assertRaisesRegex(ValueError, "split_axis"):
            over(lambda x: lax.all_to_all(x, "i", 0, 0), X)
        with self.assertRaisesRegex(ValueError, "exactly once"):
            over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]), X)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = np.random.RandomState(n).randn(2, n).astype(np.float32)
    out = lax.associative_scan(jnp.add, jnp.asarray(x), reverse=reverse, axis=1)
    want = np.flip(np.cumsum(np.flip(x, 1), 1), 1) if reverse else np.cumsum(x, 1)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


# Axes of vmap: several of them, groups of indices


def named(f, x, axes="ij"):
    """Map `f` over the leading dimensions of `x`, one for each named axis."""
    for name in reversed(axes):
        f = jax.vmap(f, axis_name=name)
    return np.asarray(f(x))


GRID = np.random.RandomState(0).randn(2, 3, 6, 4).astype(np.float32)
FLAT = GRID.reshape(6, 6, 4)
BY_J = GRID.swapaxes(0, 1).reshape(6, 6, 4)  # in the order of the axes ("j", "i")


def of_rows(rows, order):
    """Put rows in the order of the axes back on the grid."""
    rows = (
        rows.reshape(2, 3, *rows.shape[1:])
        if order == "ij"
        else rows.reshape(3, 2, *rows.shape[1:]).swapaxes(0, 1)
    )
    return rows


@pytest.mark.parametrize("order", ["ij", "ji"])
def test_several_axes_of_vmap(order):
    axes, rows = tuple(order), FLAT if order == "ij" else BY_J
    close = np.testing.assert_allclose
    gathered = named(lambda x: lax.all_gather(x, axes), GRID)
    close(gathered, np.broadcast_to(rows, (2, 3, *rows.shape)))
    tiled = named(lambda x: lax.all_gather(x, axes, axis=1, tiled=True), GRID)
    close(tiled, np.broadcast_to(np.concatenate(rows, 1), (2, 3, 6, 24)))
    scattered = named(lambda x: lax.psum_scatter(x, axes), GRID)
    close(scattered, of_rows(rows.sum(0), order), rtol=1e-5)
    exchanged = named(lambda x: lax.all_to_all(x, axes, 0, 1), GRID)
    close(exchanged, of_rows(rows.transpose(1, 2, 0), order))
    blocks = named(lambda x: lax.all_to_all(jnp.repeat(x, 2, 0), axes, 0, 1, tiled=True), GRID)
    twice = np.repeat(rows, 2, 1).reshape(6, 6, 2, 4)  # sender, receiver, part, column
    close(blocks, of_rows(twice.transpose(1, 2, 0, 3).reshape(6, 2, 24), order))
    index = named(lambda x: lax.axis_index(axes), GRID)
    close(index, of_rows(np.arange(6), order))
    perm = [(0, 3), (3, 1), (5, 0), (2, 2)]
    want = np.zeros_like(rows)
    for source, target in perm:
        want[target] = rows[source]
    close(named(lambda x: lax.ppermute(x, axes, perm), GRID), of_rows(want, order))
    close(named(lambda x: lax.pbroadcast(x, axes, 4), GRID), np.broadcast_to(rows[4], GRID.shape))
    for collective in (
        lambda x: lax.all_gather(x, axes), lambda x: lax.psum_scatter(x, axes),
        lambda x: lax.all_to_all(x, axes, 0, 1), lambda x: lax.ppermute(x, axes, perm),
    ):  # fmt: skip
        jtu.check_grads(
            lambda x: named_traced(collective, x), (GRID,), order=1, atol=1e-2, rtol=1e-2
        )


def named_traced(f, x):
    return jax.vmap(jax.vmap(f, axis_name="j"), axis_name="i")(x)


GROUPS = ((0, 4, 2), (5, 1, 3))


def test_groups_along_an_axis_of_vmap():
    close = np.testing.assert_allclose
    groups = {i: g for g in GROUPS for i in g}
    x = FLAT
    out = named(lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), x, "i")
    close(out, [x[list(groups[i])].sum(0) for i in range(6)], rtol=1e-5)
    uneven = ((0, 4), (5, 1, 3, 2))
    out = named(lambda x: lax.pmax(x, "i", axis_index_groups=uneven), x, "i")
    close(out, [x[list(next(g for g in uneven if i in g))].max(0) for i in range(6)])
    out = named(lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS), x, "i")
    close(out, [x[list(groups[i])] for i in range(6)])
    out = named(lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS, tiled=True), x, "i")
    position = {i: g.index(i) for g in GROUPS for i in g}
    sums = [x[list(groups[i])].sum(0)[2 * position[i] : 2 * position[i] + 2] for i in range(6)]
    close(out, sums, rtol=1e-5)
    out = named(
        lambda x: lax.all_to_all(x, "i", 0, 1, axis_index_groups=GROUPS, tiled=True), x, "i"
    )
    want = [
        np.concatenate([x[s][2 * position[i] : 2 * position[i] + 2] for s in groups[i]], 1)
        for i in range(6)
    ]
    close(out, want)


# Ragged exchange


def ragged_example(seed=0, devices=4, per=2, rows=24):
    """Operands, and the result in NumPy; slices of a sender are written to places of their own."""
    rng = np.random.RandomState(seed)
    k = devices * per
    send = rng.randint(0, 4, (devices, k))
    starts = np.cumsum(send, 1) - send
    operand = rng.randn(devices, send.sum(1).max() + 2, 3).astype(np.float32)
    recv = send.reshape(devices, devices, per).swapaxes(0, 1).reshape(devices, k)
    places = np.cumsum(recv, 1) - recv  # in the receiver's output, by sender
    written = places.reshape(devices, devices, per).swapaxes(0, 1).reshape(devices, k)
    output = rng.randn(devices, rows, 3).astype(np.float32)
    want = output.copy()
    for s, i in itertools.product(range(devices), range(k)):
        data = operand[s, starts[s, i] : starts[s, i] + send[s, i]]
        want[i // per, written[s, i] : written[s, i] + send[s, i]] = data
    indices = [a.astype(np.int32) for a in (starts, send, written, recv)]
    return (operand, output, *indices), want


def ragged(*args, axis="i", **options):
    return lax.ragged_all_to_all(*args, axis_name=axis, **options)


def test_ragged_exchange_along_an_axis_of_vmap():
    args, want = ragged_example()
    np.testing.assert_array_equal(jax.vmap(ragged, axis_name="i")(*args), want)
    # Two exchanges at once, by pairs of indices.
    parts = [ragged_example(seed, devices=2) for seed in (1, 2)]
    size = max(p[0][0].shape[1] for p in parts)
    pad = lambda x: np.pad(x, [(0, 0), (0, size - x.shape[1]), (0, 0)])
    args = [np.concatenate(a) for a in zip(*[(pad(p[0][0]), *p[0][1:]) for p in parts])]
    order = [0, 2, 1, 3]  # the groups are (0, 2) and (1, 3)
    args = [a[order] for a in args]
    out = jax.vmap(lambda *a: ragged(*a, axis_index_groups=[[0, 2], [1, 3]]), axis_name="i")(*args)
    np.testing.assert_array_equal(out, np.concatenate([p[1] for p in parts])[order])


def mesh_of(*sizes, names=("x", "y", "z"), types=AxisType.Auto):
    if len(xb.devices("cpu")) < np.prod(sizes):
        pytest.skip(f"needs {np.prod(sizes)} CPU devices")
    return jax.make_mesh(sizes, names[: len(sizes)], axis_types=(types,) * len(sizes))


def by_row(f, mesh, check_vma=True, axis="x"):
    """Each device has a row of each argument, and returns a row of the result."""

    def body(*xs):
        return f(*[x[0] for x in xs])[None]

    return jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=P(axis), out_specs=P(axis), check_vma=check_vma)
    )


@pytest.mark.parametrize("check_vma", [True, False])
def test_ragged_exchange_on_devices(check_vma):
    mesh = mesh_of(4)
    args, want = ragged_example()
    f = by_row(lambda *a: ragged(*a, axis="x"), mesh, check_vma)
    np.testing.assert_array_equal(f(*args), want)
    operand, output, *indices = args
    # Batches: of data alone, and of the indices too.
    twice = by_row(
        lambda o, out, *i: jax.vmap(lambda o, out: ragged(o, out, *i, axis="x"), (1, 1), 1)(o, out),
        mesh,
        check_vma,
    )
    both = [np.stack([a, 2 * a], 2) for a in (operand, output)]
    np.testing.assert_array_equal(twice(*both, *indices), np.stack([want, 2 * want], 2))
    other, want_other = ragged_example(seed=5)
    size = max(operand.shape[1], other[0].shape[1])
    pad = lambda x: np.pad(x, [(0, 0), (0, size - x.shape[1]), (0, 0)])
    batch = [
        np.stack([a, b], 1) for a, b in zip((pad(operand), *args[1:]), (pad(other[0]), *other[1:]))
    ]
    mapped = by_row(lambda *a: jax.vmap(lambda *a: ragged(*a, axis="x"))(*a), mesh, check_vma)
    both = np.stack([want, want_other], 1)
    np.testing.assert_array_equal(mapped(*batch), both)
    # The batch has more rows than these indices can count.
    many = [np.repeat(a, 8, 1) for a in batch]
    many[2:] = [a.astype(np.int8) for a in many[2:]]
    np.testing.assert_array_equal(mapped(*many), np.repeat(both, 8, 1))

    # Derivatives: what is sent comes back, and what is overwritten has none.
    def loss(o, out):
        return (f(o, out, *indices) * np.cos(np.arange(want.size)).reshape(want.shape)).sum()

    jtu.check_grads(loss, (operand, output), order=1, modes=("fwd", "rev"), atol=1e-2, rtol=1e-2)


# On devices


def test_eagerly_and_compiled():
    mesh = mesh_of(2, 4)
    x = np.random.RandomState(0).randn(8, 4).astype(np.float32)

    def f(x):
        total = lax.psum(x, "x")
        moved = lax.ppermute(lax.all_gather(x, "y", axis=1, tiled=True), "y", [(0, 1), (1, 0)])
        return total, moved * lax.axis_index("x"), lax.pmax(x, ("x", "y"))

    mapped = jax.shard_map(
        f, mesh=mesh, in_specs=P(("x", "y")), out_specs=(P("y"), P(("x", "y")), P())
    )
    for y, z in zip(mapped(x), jax.jit(mapped)(x)):
        np.testing.assert_array_equal(y, z)
    with jax.disable_jit():
        np.testing.assert_allclose(mapped(x)[0], x[:4] + x[4:], rtol=1e-6)


OF_NO_ELEMENTS = {
    "all_gather": lambda x: lax.all_gather(x, "x", axis=1),
    "all_gather tiled": lambda x: [lax.all_gather(x, "x", axis=d, tiled=True) for d in (0, 1)],
    "psum_scatter": lambda x: lax.psum_scatter(jnp.stack([x] * 4), "x"),
    "psum_scatter tiled": lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
    "ragged": lambda x: [
        ragged(x, jnp.ones((n, *x.shape[1:])), *[np.zeros(4, np.int32)] * 4, axis="x") for n in (0, 3)
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 0), (0, 4), (0, 0)])
def test_arrays_without_elements(shape):
    def f(x):
        return {name: fun(x) for name, fun in OF_NO_ELEMENTS.items()}

    def total(f):
        return lambda x: sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(f(x)))

    mapped = jax.shard_map(
        lambda x: jax.tree.map(lambda y: y[None], f(x[0])),
        mesh=mesh_of(4), in_specs=P("x"), out_specs=P("x"),
    )  # fmt: skip
    x = np.ones((4, *shape), np.float32)
    want = jax.vmap(f, axis_name="x")(x)
    for g in (mapped, jax.jit(mapped)):
        jax.tree.map(np.testing.assert_array_equal, g(x), want)
    np.testing.assert_array_equal(jax.grad(total(mapped))(x), x)
    assert jax.jit(jax.grad(total(mapped)))(x).shape == x.shape


def test_keys_and_small_types_move():
    mesh = mesh_of(4)
    keys = jax.random.split(jax.random.key(0), 4)

    def f(key):
        return [
            jax.random.key_data(k)[None]
            for k in (
                lax.all_gather(key[0], "x"), lax.ppermute(key[0], "x", [(0, 1), (1, 0), (2, 3), (3, 2)]),
                lax.pbroadcast(key[0], "x", 2), lax.all_to_all(jax.random.split(key[0], 4), "x", 0, 0),
            )
        ]  # fmt: skip

    data = np.asarray(jax.random.key_data(keys))
    out = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(keys)
    np.testing.assert_array_equal(out[0], np.broadcast_to(data, (4, 4, 2)))
    np.testing.assert_array_equal(out[1], data[[1, 0, 3, 2]])
    np.testing.assert_array_equal(out[2], data[[2] * 4])
    split = np.stack([jax.random.key_data(jax.random.split(k, 4)) for k in keys])
    np.testing.assert_array_equal(out[3], split.swapaxes(0, 1))
    for bad in (lax.psum, lax.pmax, lambda k, a: lax.psum_scatter(jax.random.split(k, 4), a)):
        with pytest.raises(TypeError, match="takes numbers"):
            jax.make_jaxpr(
                jax.shard_map(
                    lambda k, bad=bad: bad(k[0], "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
                )
            )(keys)


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "bool", "int8", "complex64", "float8_e5m2"]
)
def test_broadcast_keeps_bits(dtype):
    mesh = mesh_of(2, 4)
    values = np.array([-0.0, 1.5, np.nan, -np.inf, 3, 0, -2, 7], np.float32)
    x = jnp.asarray(values)
    x = lax.complex(x, x[::-1]) if dtype == "complex64" else x.astype(dtype)
    x = jnp.stack([x] * 8).at[5].set(x[::-1])
    out = by_row(lambda x: lax.pbroadcast(x, ("x", "y"), 5), mesh, axis=("x", "y"))(x)
    bits = lambda a: np.asarray(a).view(np.uint8)
    np.testing.assert_array_equal(bits(out), bits(jnp.broadcast_to(x[5], x.shape)))


def test_broadcast_has_derivatives():
    mesh = mesh_of(4)
    f = by_row(lambda x: jnp.sin(lax.pbroadcast(x, "x", 2)) * (1 + lax.axis_index("x")), mesh)
    x = np.random.RandomState(0).randn(4, 3).astype(np.float32)
    jtu.check_grads(f, (x,), order=2, atol=1e-2, rtol=1e-2)


# Lowering


def lowered(fun, platform="cpu", manual=("x", "y", "z"), check_vma=True):
    mesh = mesh_of(2, 2, 2)
    f = jax.shard_map(
        lambda x: jax.tree.map(lambda y: y[None], fun(x)), mesh=mesh, in_specs=P(("x", "y")),
        out_specs=P(("x", "y")), axis_names=set(manual), check_vma=check_vma,
    )  # fmt: skip
    x = np.ones((16, 8), np.float32)
    return jax.jit(f).trace(x).lower(lowering_platforms=(platform,)).as_text()


GROUP = [[0, 3], [1, 2]]
OPS = {
    "all_reduce": (lambda x: lax.psum(x, "x"), [[0, 4], [1, 5], [2, 6], [3, 7]]),
    "all_reduce other order": (lambda x: lax.pmax(x, ("y", "x")), [[0, 4, 2, 6], [1, 5, 3, 7]]),
    "all_reduce groups": (
        lambda x: lax.pmin(x, ("x", "y"), axis_index_groups=GROUP), [[0, 6], [2, 4], [1, 7], [3, 5]],
    ),
    "all_reduce uneven": (
        lambda x: lax.psum(x, ("x", "y"), axis_index_groups=[[0, 1, 2], [3]]),
        [[0, 2, 4], [6, -1, -1], [1, 3, 5], [7, -1, -1]],
    ),
    "all_gather": (lambda x: lax.all_gather(x, "y"), [[0, 2], [1, 3], [4, 6], [5, 7]]),
    "reduce_scatter": (
        lambda x: lax.psum_scatter(x, ("y", "x"), tiled=True), [[0, 4, 2, 6], [1, 5, 3, 7]],
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True), [[0, 4], [1, 5], [2, 6], [3, 7]],
    ),
    "collective_permute": (
        lambda x: lax.ppermute(x, ("y", "x"), [(0, 1), (3, 2)]), [[0, 2], [6, 4], [1, 3], [7, 5]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("manual", [("x", "y", "z"), ("x", "y")])
def test_groups_of_devices(name, manual):
    fun, groups = OPS[name]
    text = lowered(fun, manual=manual, check_vma="groups" not in name and "uneven" not in name)
    (found,) = re.findall(rf"stablehlo.{name.split()[0]}\".*dense<(\[\[.*?\]\])>", text)
    assert found == str(groups)
    assert "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>" in text


def test_index_on_a_mesh_that_is_manual_in_part():
    text = lowered(lambda x: lax.axis_index("y"), manual=("x", "y"))
    assert re.search(
        r'manual_computation\(\).*out_shardings=\[<@mesh, \[\]>\] manual_axes=\{"z"\}', text
    )
    mesh = mesh_of(2, 2, 2)
    f = jax.shard_map(
        lambda x: x * lax.axis_index(("y", "x")),
        mesh=mesh,
        in_specs=P(("x", "y")),
        out_specs=P(("x", "y")),
        axis_names={"x", "y"},
    )
    np.testing.assert_array_equal(jax.jit(f)(np.ones(4, np.float32)), [0, 2, 1, 3])


def test_ops_of_gpus_and_tpus():
    text = lowered(lambda x: lax.pbroadcast(x, ("x", "y"), 2), "cuda")
    assert "collective_broadcast" in text and "[[4, 0, 2, 6], [5, 1, 3, 7]]" in text
    k = np.ones(2, np.int32)
    for platform in ("tpu", "cuda"):
        text = lowered(lambda x: lax.ragged_all_to_all(x, x, k, k, k, k, axis_name="x"), platform)
        config = "{channel_id = 1 : i64, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>"
        assert (
            "@ragged_all_to_all(" in text
            and f"api_version = 4 : i32, backend_config = {config}" in text
        )

    def exchange(x):
        token = lax.psend(x, "x", [(0, 1), (1, 0)])
        return lax.precv(token, x, "x", [(0, 1), (1, 0)])

    text = lowered(exchange, "cuda")
    pairs = "dense<[[0, 4], [4, 0], [1, 5], [5, 1], [2, 6], [6, 2], [3, 7], [7, 3]]>"
    assert len(re.findall(rf"stablehlo.(?:send|recv)\".*{re.escape(pairs)}", text)) == 2
    for platform in ("cpu", "tpu"):
        with pytest.raises(NotImplementedError, match="only implemented on GPU"):
            lowered(exchange, platform)


def test_effects_of_sends():
    mesh = AbstractMesh((2,), ("x",), (AxisType.Auto,))
    f = jax.shard_map(
        lambda x: (lax.psend(x, "x", [(0, 1)]), x)[1], mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    closed = jax.make_jaxpr(f)(np.ones(2, np.float32))
    assert {str(e) for e in closed.effects} == {"SingleSideCollectiveEffect()"}
    unused, _ = jax.interpreters.partial_eval.dce_jaxpr(closed.jaxpr, [False])
    assert len(unused.eqns) == 1
    for bad in (
        lambda x: jax.vmap(lambda r: lax.psend(r, "x", [(0, 1)]))(x),
        lambda x: lax.precv(x, x, "x", [(0, 1)]),
    ):
        with pytest.raises((NotImplementedError, TypeError), match=r"vmap|takes a token"):
            jax.make_jaxpr(
                jax.shard_map(
                    lambda x: (bad(x), x)[1], mesh=mesh, in_specs=P("x"), out_specs=P("x")
                )
            )(np.ones((2, 2), np.float32))


# Roles of values, errors


def body_error(fun, match, check_vma=True, exception=ValueError):
    mesh = AbstractMesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
    f = jax.shard_map(
        lambda x: (fun(x), x)[1], mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma
    )
    with pytest.raises(exception, match=match):
        jax.make_jaxpr(f)(np.ones((8, 4), np.float32))


def test_errors_name_operand_axes_and_remedy():
    reduced = lambda x: lax.pcast(x, "y", to="reduced")
    unreduced = lambda x: lax.pcast(lax.pcast(x, "y", to="varying"), "y", to="unreduced")
    body_error(lambda x: lax.psum(x, ("x", "y")), r"invarying and varying. Use one psum")
    body_error(
        lambda x: lax.psum(reduced(x), "y"),
        r"reduced over it, got float32\[4,4\]\{V:x, R:y\}: make it vary with",
    )
    body_error(
        lambda x: lax.all_gather(unreduced(x), "y"),
        r"all_gather over axis 'y' .* unreduced over it, .* sum it with",
    )
    body_error(
        lambda x: lax.all_gather(x, "y", to="reduced"), "does not vary over 'y'. Mark it with"
    )
    body_error(
        lambda x: unreduced(x) + lax.axis_index("y"), "unreduced one invarying by `jax.lax.psum`"
    )
    body_error(
        lambda x: lax.pcast(x, "y", to="unreduced"),
        r"from=invarying, to='unreduced': got float32\[4,4\]\{V:x\}",
    )
    body_error(
        lambda x: lax.pcast(x, "x", to="unreduced"),
        "needs shard_map with check_vma=True",
        check_vma=False,
    )
    body_error(
        lambda x: lax.all_to_all(x, "y", 2, 0),
        r"all_to_all: split_axis=2 is out of range for an operand of shape \(4, 4\), .* 0 to 1",
        exception=IndexError,
    )
    body_error(lambda x: lax.all_to_all(x, "y", 0, 2), "concat_axis=2 is out of range")
    body_error(
        lambda x: lax.psum_scatter(x[0, 0], "y"), "which has no dimensions", exception=IndexError
    )
    body_error(
        lambda x: lax.all_gather(x, "y", to="invarying", axis_index_groups=[[0, 1], [2, 3]]),
        "Leave out `to`",
        exception=NotImplementedError,
    )
    body_error(
        lambda x: lax.psum_scatter(
            unreduced(x), "y", axis_index_groups=[[0, 1], [2, 3]], tiled=True
        ),
        "Sum the operand .* first",
        exception=NotImplementedError,
    )
    body_error(lambda x: lax.ppermute(x, "y", [(0, 4)]), "in range of axis 'y' of size 4")
    body_error(
        lambda x: lax.psum_scatter(x, "x", scatter_dimension=1), "must be 2, the size of the axis"
    )
    body_error(
        lambda x: lax.pbroadcast(x, "y", 4), "source 4 is out of range for axis 'y' of size 4"
    )
    for fun, argument in (
        (lambda x: lax.pbroadcast(x, "y", 1.5), "pbroadcast: source"),
        (lambda x: lax.ppermute(x, "y", [(0, 1.5)]), "ppermute: perm"),
        (lambda x: lax.psum(x, "y", axis_index_groups=[[0, 1.5], [2, 3]]), "axis_index_groups"),
    ):
        body_error(fun, rf"{argument} must consist of integers, got 1\.5", exception=TypeError)
    body_error(lambda x: lax.pbroadcast(x, ("y", "y"), 0), "pbroadcast .* names axis 'y' twice")
    body_error(
        lambda x: lax.precv(lax.create_token(), [x, x], "x", []),
        "Receive several values with",
        exception=TypeError,
    )
    k = np.ones(3, np.int32)
    body_error(
        lambda x: lax.ragged_all_to_all(x, x, k, k, k, k, axis_name="x"),
        "same number of slices .* got 3 slices",
    )
    body_error(
        lambda x: lax.ragged_all_to_all(x, x[:, :1], k, k, k, k, axis_name="x"),
        "equal in the others",
    )


def test_cotangents_vary_as_results_do():
    mesh = mesh_of(4)
    x = np.random.RandomState(0).randn(4, 3).astype(np.float32)

    send = lambda y: lax.ppermute(jnp.sin(y), "x", [(0, 1), (1, 3), (2, 2)])

    def f(x):
        out, pull = jax.vjp(send, x)
        _, tangent = jax.jvp(
            lambda y: lax.pshuffle(y, "x", [0, 1, 2, 3]) ** 2, (x,), (jnp.ones(x.shape),)
        )
        ones = lax.pcast(jnp.ones(out.shape), "x", to="varying")
        return pull(ones)[0], jax.grad(lambda y: send(y).sum())(x), tangent

    mapped = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    want = np.cos(x) * [[1], [1], [1], [0]]
    for g in (mapped, jax.jit(mapped)):
        by_vjp, by_grad, tangent = g(x)
        np.testing.assert_allclose(by_vjp, want, rtol=1e-5)
        np.testing.assert_allclose(by_grad, want, rtol=1e-5)
        np.testing.assert_allclose(tangent, 2 * x, rtol=1e-5)
    body_error(
        lambda x: jax.vjp(jnp.sin, x)[1](jnp.ones(x.shape)),
        r"got float32\[4,4\], but expected float32\[4,4\]\{V:x\} .* `jax.lax.pcast",
    )
    body_error(
        lambda x: jax.vjp(jnp.sin, x)[1](lax.pcast(x, "y", to="varying")),
        r"got float32\[4,4\]\{V:\(x,y\)\}, but expected float32\[4,4\]\{V:x\} .* `jax.lax.psum\(ct",
    )


def test_axes_that_are_not_manual():
    mesh = AbstractMesh((2, 2), ("x", "z"), (AxisType.Auto,) * 2)
    f = jax.shard_map(
        lambda x: lax.psum(x, ("x", "z")),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P(),
        axis_names={"x"},
    )
    with pytest.raises(NameError, match="unbound axis name: z.* is of type Auto: map over it"):
        jax.make_jaxpr(f)(np.ones(2, np.float32))


def test_operands_are_not_cast_without_auto_pcast():
    with jax.auto_pcast(False):
        body_error(lambda x: x + lax.axis_index("y"), "add requires varying manual axes to match")
        body_error(lambda x: lax.psum(x, "y"), "Mark it with `jax.lax.pcast")


def test_collectives_keep_shards_over_explicit_axes():
    mesh = mesh_of(2, 4, types=AxisType.Explicit)

    def f(x):
        found = [
            lax.psum(x, "x"), lax.all_gather(x, "x"), lax.all_gather(x, "x", axis=2), lax.psum_scatter(x, "x", tiled=True),
            lax.psum_scatter(x, "x"), lax.all_to_all(x, "x", 0, 1, tiled=True), lax.ppermute(x, "x", [(0, 1)]),
            lax.pmax(x, "x"),
        ]  # fmt: skip
        types.extend(str(jax.typeof(y)) for y in found)
        return lax.psum(x, "x")

    types: list[str] = []
    with jax.set_mesh(mesh):
        x = jax.device_put(np.ones((4, 8), np.float32), P("x", "y"))
        out = jax.jit(jax.shard_map(f, in_specs=P("x"), out_specs=P(), axis_names={"x"}))(x)
    assert types == [
        "float32[2,8@y]", "float32[2,2,8@y]{V:x}", "float32[2,8@y,2]{V:x}", "float32[1,8@y]{V:x}", "float32[8@y]{V:x}",
        "float32[1,16@y]{V:x}", "float32[2,8@y]{V:x}", "float32[2,8@y]",
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.full((2, 8), 2.0))


def test_axis_of_vmap_that_is_sharded_over_mesh_axes():
    mesh = mesh_of(2, 4)
    x = np.random.RandomState(0).randn(8, 4).astype(np.float32)
    w = np.arange(4, dtype=np.float32)

    def mapped(f, check_vma, outs=P()):
        f = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=outs, check_vma=check_vma)
        return jax.jit(jax.vmap(f, (0, None), axis_name="i", spmd_axis_name="y"))

    for check_vma in (True, False):
        out = mapped(lambda x, w: lax.psum(x * w, ("x", "i")), check_vma)(x, w)
        total = (x * w).sum(0).reshape(2, 2).sum(0)
        np.testing.assert_allclose(out, np.broadcast_to(total, (8, 2)), rtol=1e-5)
        out = mapped(lambda x, w: lax.psum(w, "i") + lax.pmax(x, "i"), check_vma, P("x"))(x, w)
        np.testing.assert_allclose(out, np.broadcast_to(8 * w + x.max(0), (8, 4)), rtol=1e-5)
        out = mapped(lambda x, w: x * lax.axis_index("i"), check_vma, P("x"))(x, w)
        np.testing.assert_allclose(out, x * np.arange(8)[:, None], rtol=1e-5)
    with pytest.raises(ValueError, match="psum over mesh axis 'y' .* Leave out spmd_axis_name"):
        mapped(lambda x, w: lax.psum(x, "y"), True, P("x"))(x, w)
    with pytest.raises(ValueError, match="all_gather over mesh axis 'y' .* different elements"):
        mapped(lambda x, w: lax.all_gather(x, "y", to="invarying"), True, P(None, "x"))(x, w)
    out = mapped(lambda x, w: x * lax.psum(w, "y").sum(), True, P("x"))(x, w)
    np.testing.assert_allclose(out, x * [4, 4, 20, 20], rtol=1e-6)


def test_names_that_outside_code_imports():
    for (
        name
    ) in "pargmax pargmin psum_invariant_p pvary pvary_p unreduced_psum_p reduce_scatter_p".split():
        assert hasattr(parallel, name)
    assert core.get_axis_env().axis_names() == []
    with pytest.raises(AttributeError, match="use `jax.lax.pcast"):
        _ = lax.pvary


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
