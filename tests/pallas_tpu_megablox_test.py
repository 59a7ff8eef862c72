"""Grouped products are those of the rows of each group, and so are their derivatives."""

import functools
import importlib

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import megablox
from jax.experimental.pallas.ops.tpu.megablox import common, ops
from jax.sharding import SingleDeviceSharding

backend = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
M, K, N = 32, 24, 40
TILING = (8, 16, 16)
GROUPS = {
    "with_empty": [5, 0, 20, 0, 7],
    "aligned": [8, 8, 0, 16, 0],
    "one": [0, 0, 32, 0, 0],
    "fewer_rows": [0, 5, 0, 12, 0],
    "none": [0, 0, 0, 0, 0],
    "small": [1, 1, 1, 1, 28],
}


def normal(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape), dtype)


def products(lhs, rhs, sizes):
    """The products of the rows of groups, and 0 for other rows."""
    out = np.zeros((lhs.shape[0], rhs.shape[2]), np.float32)
    start = 0
    for matrix, n in zip(np.asarray(rhs, np.float32), sizes, strict=True):
        out[start : start + n] = np.asarray(lhs, np.float32)[start : start + n] @ matrix
        start += n
    return out


def products_over_rows(lhs, rhs, sizes):
    ends = np.cumsum(sizes)
    x, y = [np.asarray(z, np.float32) for z in (lhs, rhs)]
    return np.stack([x[:, e - n : e] @ y[e - n : e] for n, e in zip(sizes, ends, strict=True)])


def close(x, y, dtype=jnp.float32):
    tolerance = 5e-2 if dtype == jnp.bfloat16 else 2e-5
    np.testing.assert_allclose(np.asarray(x, np.float32), y, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("name", GROUPS)
def test_products(name):
    sizes = jnp.array(GROUPS[name], jnp.int32)
    lhs, rhs, g = normal(M, K), normal(5, K, N, seed=1), normal(M, N, seed=2)
    wanted = products(lhs, rhs, GROUPS[name])
    close(backend.gmm(lhs, rhs, sizes, tiling=TILING, interpret=True), wanted)
    turned = rhs.swapaxes(1, 2)
    close(
        backend.gmm(lhs, turned, sizes, tiling=TILING, transpose_rhs=True, interpret=True), wanted
    )
    over_rows = products_over_rows(lhs.T, g, GROUPS[name])
    close(backend.tgmm(lhs.T, g, sizes, tiling=TILING, interpret=True), over_rows)
    existing = jnp.full((5, K, N), 3.0)
    found = backend.tgmm(lhs.T, g, sizes, tiling=TILING, existing_out=existing, interpret=True)
    close(found, over_rows + 3)


@pytest.mark.parametrize("existing", [False, True])
def test_some_groups(existing):
    sizes = GROUPS["with_empty"]
    lhs, rhs, g = normal(M, K), normal(5, K, N, seed=1), normal(M, N, seed=2)
    out = jnp.full((M, N), 7.0) if existing else None
    found = backend.gmm(
        lhs, rhs[1:4], jnp.array(sizes, jnp.int32), tiling=TILING, group_offset=jnp.int32(1),
        existing_out=out, interpret=True,
    )  # fmt: skip
    wanted = products(lhs, rhs, sizes)
    other = np.r_[0:5, 25:32]
    wanted[other] = 7 if existing else 0
    close(found, wanted)
    found = backend.tgmm(
        lhs.T, g, jnp.array(sizes, jnp.int32), tiling=TILING, group_offset=jnp.int32(1), num_actual_groups=3,
        interpret=True,
    )  # fmt: skip
    close(found, products_over_rows(lhs.T, g, sizes)[1:4])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
def test_derivatives(dtype, transposed):
    sizes, shown = jnp.array(GROUPS["with_empty"], jnp.int32), []
    lhs, rhs = normal(M, K, dtype=dtype), normal(5, K, N, dtype=dtype, seed=1)
    g = normal(M, N, dtype=dtype, seed=2)
    existing = normal(M, N, dtype=dtype, seed=3)

    def tiling(*shape):
        shown.append(shape)
        return TILING

    def f(lhs, rhs, existing):
        rhs = rhs.swapaxes(1, 2) if transposed else rhs
        return megablox.gmm(lhs, rhs, sizes, dtype, tiling, None, existing, transposed, True)

    @jax.jit
    def both(lhs, rhs, existing):
        out, pull = jax.vjp(f, lhs, rhs, existing)
        return out, *pull(g)

    out, d_lhs, d_rhs, d_existing = both(lhs, rhs, existing)
    assert shown == [(M, K, N), (M, N, K), (M, K, N)]
    assert {x.dtype for x in (out, d_lhs, d_rhs, d_existing)} == {jnp.dtype(dtype)}
    close(out, products(lhs, rhs, GROUPS["with_empty"]), dtype)
    close(d_lhs, products(g, rhs.swapaxes(1, 2), GROUPS["with_empty"]), dtype)
    close(d_rhs, products_over_rows(lhs.T, g, GROUPS["with_empty"]), dtype)
    assert not d_existing.any()


def test_derivative_of_rows_that_were_there():
    sizes = jnp.array(GROUPS["with_empty"], jnp.int32)
    lhs, rhs, g = normal(M, K), normal(2, K, N), normal(M, N)
    f = lambda e: ops.gmm(lhs, rhs, sizes, jnp.float32, TILING, jnp.int32(1), e, False, True)
    (d,) = jax.vjp(f, jnp.ones((M, N)))[1](g)
    close(d, np.asarray(g) * ((np.arange(M) < 5) | (np.arange(M) >= 25))[:, None])


def test_memory_of_a_tpu():
    sizes = jnp.array([100, 0, 156], jnp.int32)
    lhs, rhs, g = normal(256, 192), normal(3, 192, 128, seed=1), normal(256, 128, seed=2)
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
        close(backend.gmm(lhs, rhs, sizes), products(lhs, rhs, [100, 0, 156]))
        close(backend.tgmm(lhs.T, g, sizes), products_over_rows(lhs.T, g, [100, 0, 156]))


def test_metadata():
    sizes = jnp.array(GROUPS["with_empty"], jnp.int32)
    make = lambda visit, start=0, num=5: backend.make_group_metadata(
        group_sizes=sizes, m=32, tm=8, start_group=jnp.int32(start), num_nonzero_groups=num, visit_empty_groups=visit
    )  # fmt: skip
    (offsets, ids, tiles), count = make(False)
    assert offsets.tolist() == [0, 5, 5, 25, 25, 32] and count == 6
    assert (ids[:6].tolist(), tiles[:6].tolist()) == ([0, 2, 2, 2, 2, 4], [0, 0, 1, 2, 3, 3])
    (_, ids, tiles), count = make(True)
    assert count == 8
    assert (ids.tolist(), tiles.tolist()) == ([0, 1, 2, 2, 2, 2, 3, 4], [0, 0, 0, 1, 2, 3, 3, 3])
    (_, ids, tiles), count = make(True, 1, 2)
    assert count == 5
    assert (ids[:5].tolist(), tiles[:5].tolist()) == ([1, 2, 2, 2, 2], [0, 0, 1, 2, 3])


X, Y, S = [
    jax.ShapeDtypeStruct(*a)
    for a in (((M, K), jnp.float32), ((5, K, N), jnp.float32), ((5,), jnp.int32))
]


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize(
    "args, options, message",
    [
        ((like(M), Y, S), {}, "Expected 2-tensor for 'lhs' but got 1"),
        ((X, like(K, N), S), {}, "Expected 3-tensor for 'rhs' but got 2"),
        ((X, like(5, 20, N), S), {}, "lhs has 24 columns"),
        ((like(M, K, dtype=jnp.float16), Y, S), {}, "Expected bfloat16 or float32 array but got float16"),
        ((X, Y, like(5, dtype=jnp.int16)), {}, "Expected 32-bit integer 'group_sizes' but got int16"),
        ((X, Y, S), dict(tiling=(12, 16, 16)), r"32 must be divisible by x-dimension tile size \(12\)"),
        ((X, Y, S), dict(tiling=lambda m, k, n: None), r"No tuned tiling found for \(m, k, n\) = \(32, 24, 40\)"),
        ((X, Y, S), dict(tiling=None), "No tuned tiling found"),
        ((X, Y, S), dict(group_offset=np.array([1])), r"group_offset must be a \(\)-shaped array"),
        ((X, Y, S), dict(existing_out=np.zeros((M, N), jnp.bfloat16)), "must match preferred_element_type"),
        ((X, Y, S), dict(existing_out=np.zeros((M, 41))), "should have the shape"),
        ((X, Y, like(1, 5, dtype=jnp.int32)), {}, "Expected a vector of at least one size"),
        ((X, Y, like(0, dtype=jnp.int32)), {}, "Expected a vector of at least one size"),
        ((X, Y, S), dict(group_offset=1.5), "group_offset must be an integer"),
    ],
)  # fmt: skip
def test_errors(args, options, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda *args: backend.gmm(*args, **{"tiling": TILING, **options}), *args)


def test_number_of_groups_that_are_computed():
    with pytest.raises(ValueError, match=r"num_actual_groups=6 must be in range \(0, 5\]"):
        call = functools.partial(backend.tgmm, tiling=TILING, num_actual_groups=6)
        jax.eval_shape(call, like(K, M), like(M, N), S)


@pytest.mark.parametrize("m, k, n", [(0, K, N), (M, 0, N), (M, K, 0)])
def test_empty_arrays(m, k, n):
    sizes = jnp.array([0, m // 2, 0], jnp.int32)
    options = dict(tiling=TILING, interpret=True)
    lhs, rhs = normal(m, k), normal(3, k, n)
    call = functools.partial(megablox.gmm, **options, group_sizes=sizes)
    out, pull = jax.vjp(lambda *args: call(*args), lhs, rhs)
    assert out.shape == (m, n) and not out.any()
    assert [x.shape for x in pull(jnp.ones((m, n)))] == [lhs.shape, rhs.shape]
    assert not any([x.any() for x in pull(jnp.ones((m, n)))])
    kept, pull = jax.vjp(lambda x: call(lhs, rhs, existing_out=x), jnp.ones((m, n)))
    mine = np.arange(m)[:, None] < m // 2
    np.testing.assert_array_equal(kept, np.broadcast_to(~mine, (m, n)))
    np.testing.assert_array_equal(*pull(kept), kept)


def test_types():
    assert not common.is_tpu() and common.tpu_kind() == "cpu" and common.supports_bfloat16_matmul()
    with pytest.raises(NotImplementedError, match="TPU"):
        common.tpu_generation()
    narrow = like(1, dtype=jnp.bfloat16)
    assert common.select_input_dtype(narrow, narrow) == jnp.bfloat16
    assert common.select_input_dtype(narrow, like(1)) == jnp.float32


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
def test_compiled(name):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    sharding = SingleDeviceSharding(device)
    like = lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    args = [
        like((512, 192), jnp.bfloat16),
        like((4, 192, 256), jnp.bfloat16),
        like((4,), jnp.int32),
    ]
    loss = lambda lhs, rhs, sizes: megablox.gmm(lhs, rhs, sizes).sum()
    compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*args).compile()
    assert compiled.as_text().count("tpu_custom_call") == 3
