"""Sparse arrays whose buffers or factors are sharded over Explicit axes of a mesh."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.sharding import AxisType, PartitionSpec as P

DENSE = np.arange(128, dtype=np.float32).reshape(8, 16) % 5 - 2
VECTOR = np.arange(16, dtype=np.float32)
NUMBERS = (((1,), (0,)), ((), ()))


@pytest.fixture(autouse=True)
def mesh():
    with jax.set_mesh(jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))):
        yield


def put(x, *axes):
    return jax.sharding.reshard(jnp.asarray(x), P(*axes))


def spec(x):
    return tuple(jax.typeof(x).sharding.spec)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dot", [sparse.bcoo_dot_general, sparse.bcsr_dot_general])
def test_out_sharding(dot, compiled):
    kind = sparse.BCOO if dot is sparse.bcoo_dot_general else sparse.BCSR
    M = kind.fromdense(DENSE)
    multiply = lambda M, v: dot(M, v, dimension_numbers=NUMBERS, out_sharding=P("x"))
    run = jax.jit(multiply) if compiled else multiply
    for v in (jnp.asarray(VECTOR), put(VECTOR, "x")):
        out = run(M, v)
        assert spec(out) == ("x",)
        np.testing.assert_array_equal(out, DENSE @ VECTOR)
    slope = jax.grad(lambda v: multiply(M, v).sum())(put(VECTOR, "x"))
    np.testing.assert_array_equal(slope, DENSE.sum(0))


def test_out_sharding_with_the_sparse_array_on_the_right():
    M = sparse.BCOO.fromdense(DENSE.T)
    out = sparse.bcoo_dot_general(
        put(VECTOR, "x"), M, dimension_numbers=(((0,), (0,)), ((), ())), out_sharding=P("x")
    )
    assert spec(out) == ("x",)
    np.testing.assert_array_equal(out, DENSE @ VECTOR)


def test_no_out_sharding_of_sparse_results():
    M = sparse.BCOO.fromdense(DENSE)
    with pytest.raises(NotImplementedError, match="the product of two sparse arrays is sparse"):
        sparse.bcoo_dot_general(M, M.T, dimension_numbers=NUMBERS, out_sharding=P("x"))


def test_products_of_bcsr_arrays_with_sharded_buffers():
    M = sparse.BCSR.fromdense(DENSE, nse=104)
    buffers = [put(b, "x") if b.shape[0] % 4 == 0 else b for b in M.tree_flatten()[0]]
    M = sparse.BCSR(buffers, shape=M.shape)
    np.testing.assert_array_equal(M @ put(VECTOR, "x"), DENSE @ VECTOR)
    np.testing.assert_array_equal(jax.jit(lambda m: m @ VECTOR)(M), DENSE @ VECTOR)


STACK = np.stack([DENSE, -DENSE, 2 * DENSE, DENSE])


def test_products_of_bcsr_arrays_with_sharded_batches():
    M = sparse.BCSR.fromdense(put(STACK, "x"), n_batch=1, nse=104)
    want = STACK @ VECTOR
    for multiply in (lambda m, v: m @ v, jax.jit(lambda m, v: m @ v)):
        out = multiply(M, jnp.asarray(VECTOR))
        assert spec(out) == ("x", None)
        np.testing.assert_array_equal(out, want)
    slope = jax.grad(lambda v: ((M @ v) ** 2).sum())(jnp.asarray(VECTOR))
    np.testing.assert_array_equal(slope, 2 * np.einsum("bij,bi->j", STACK, want))
    numbers = (((2,), (1,)), ((0,), (0,)))
    other = put(STACK.transpose(0, 2, 1), "x")
    out = sparse.bcsr_dot_general(M, other, dimension_numbers=numbers)
    assert spec(out) == ("x", None, None)
    np.testing.assert_array_equal(out, STACK @ np.asarray(other))


OPERATIONS = {
    "todense": (lambda m: m.todense(), STACK),
    "sort_indices": (lambda m: m.sort_indices().todense(), STACK),
    "sum_duplicates": (lambda m: m.sum_duplicates(nse=104).todense(), STACK),
    "vector": (lambda m: m @ VECTOR, STACK @ VECTOR),
    "vmap": (jax.vmap(lambda m: m @ VECTOR), STACK @ VECTOR),
    "square": (lambda m: (m @ m.transpose((0, 2, 1))).todense(), STACK @ STACK.transpose(0, 2, 1)),
    "slice": (lambda m: m[:, 2:4].todense(), STACK[:, 2:4]),
    "reshape": (lambda m: m.reshape(4, 128).todense(), STACK.reshape(4, 128)),
    "sum": (lambda m: m.sum(1).todense(), STACK.sum(1)),
    "arithmetic": (lambda m: (2 * m * VECTOR + m).todense(), STACK * (2 * VECTOR + 1)),
    "concatenate": (
        lambda m: sparse.bcoo_concatenate([m, m], dimension=1).todense(),
        np.concatenate([STACK, STACK], 1),
    ),
    "sparsify": (lambda m: sparse.sparsify(jnp.abs)(m).todense(), np.abs(STACK)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_batches(name):
    """A batch dimension stays sharded."""
    fun, want = OPERATIONS[name]
    M = sparse.BCOO.fromdense(put(STACK, "x"), n_batch=1, nse=104)
    assert spec(M.data) == ("x", None)
    out = jax.jit(fun)(M)
    assert spec(out)[0] == "x"
    np.testing.assert_array_equal(out, want)


def test_sums_over_sharded_batches():
    """Their elements are gathered, or added up on each device and then among devices."""
    M = sparse.BCOO.fromdense(put(STACK, "x"), n_batch=1, nse=104)
    weights = np.arange(4, dtype=np.float32)
    numbers = (((0,), (0,)), ((), ()))
    want = {
        "sum": STACK.sum(0), "all but columns": STACK.sum((0, 1)), "sparsify": STACK.sum(0),
        "product": np.einsum("bij,b->ij", STACK, weights), "layout": STACK, "squares": STACK**2,
        "rows": STACK.sum(1), "dense gradient": 2 * np.einsum("bij,bik,k->j", STACK, STACK, VECTOR),
    }  # fmt: skip

    @jax.jit
    def run(M):
        sums = [M.sum(0), M.sum((0, 1)), sparse.sparsify(lambda m: m.sum(0))(M)]
        dense = [m.todense() for m in sums]
        dense += [sparse.bcoo_dot_general(M, weights, dimension_numbers=numbers)]
        dense += [sparse.bcoo_update_layout(M, n_batch=0).todense(), (M * M).todense()]
        dense += [jax.vmap(lambda m: m.sum(0))(M).todense()]
        return [*dense, jax.grad(lambda v: ((M @ v) ** 2).sum())(jnp.asarray(VECTOR))]

    for name, out in zip(want, run(M), strict=True):
        np.testing.assert_array_equal(out, want[name], err_msg=name)


@pytest.mark.parametrize("kind", [sparse.BCOO, sparse.BCSR])
def test_gradients_of_sharded_batches(kind):
    M = kind.fromdense(put(STACK, "x"), n_batch=1, nse=104)
    slope = jax.jit(sparse.grad(lambda m: ((m @ VECTOR) ** 2).sum()))(M)
    assert spec(slope.data) == ("x", None)
    every = 2 * (STACK @ VECTOR)[..., None] * VECTOR
    np.testing.assert_array_equal(slope.todense(), every * (STACK != 0))


def test_elements_sharded_among_devices():
    M = sparse.BCOO.fromdense(DENSE, nse=104)
    M = sparse.BCOO((put(M.data, "x"), put(M.indices, "x")), shape=M.shape)
    np.testing.assert_array_equal(M.todense(), DENSE)
    np.testing.assert_array_equal(M @ VECTOR, DENSE @ VECTOR)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR])
def test_products_with_batches_of_sharded_vectors(kind):
    M = kind.fromdense(DENSE)
    stack = np.arange(64, dtype=np.float32).reshape(4, 16)
    products = jax.vmap(lambda v: M @ v)(put(stack, "x"))
    assert spec(products)[0] == "x"
    np.testing.assert_array_equal(products, stack @ DENSE.T)
    slope = jax.grad(lambda vs: jax.vmap(lambda v: (M @ v).sum())(vs).sum())(put(stack, "x"))
    np.testing.assert_array_equal(slope, np.broadcast_to(DENSE.sum(0), stack.shape))


def test_ambiguous_products():
    with pytest.raises(Exception) as error:
        _ = sparse.BCOO.fromdense(DENSE) @ put(VECTOR, "x")
    assert type(error.value).__name__ == "ShardingTypeError"
