"""`jax.experimental.pallas.fuser`: beside the reference, and what we do besides."""

import numpy as np
import pallas_fuser_scenarios as s
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import fuser, tpu as pltpu

reference, test_reference, _ = case_tests(__file__)
x, y, t = s.x, s.y, s.t


def check(f, *args, out=None, grid=(4, 2)):
    """The blocks of the result of a function are those that are computed from blocks."""
    out = out or s.spec(2, 4)
    fn, values, scalars = fuser.get_fusion_values(f, *args)
    handler = fuser.make_scalar_prefetch_handler()
    pulled = fuser.pull_block_spec(fn, out, grid_len=len(grid), scalar_prefetch_handler=handler)
    kernel_fn, (value_specs, *specs), _ = pulled(values, *args)
    expected = f(*args)
    for point in np.ndindex(*grid):
        at = (*point, *scalars)
        cut = lambda arrays, specs: tuple([s.part(a, b, at) for a, b in zip(arrays, specs)])
        found = kernel_fn(point, scalars, cut(values, value_specs), *cut(args, specs))
        np.testing.assert_allclose(found, s.part(expected, out, at), rtol=1e-5, atol=1e-5)


def with_operands(i, j, *_):
    return i, j


def test_what_the_reference_refuses():
    row = s.spec(4, 8, at=lambda i: (i, 0))
    column = s.column
    check(jax.nn.softmax, x, out=row, grid=(2,))
    check(lambda x: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1), x, out=row, grid=(2,))
    check(lambda x: jnp.cumsum(x[::-1], 1), x, out=row, grid=(2,))
    check(lambda x: jnp.argmax(x, 1) + x.max(1), x, out=column, grid=(2,))
    check(lambda t: t.sum(2), t, out=s.spec(None, 4))
    cube = s.spec(2, 2, 4, at=lambda i, j, k: (i, j, k))
    check(lambda t: t.transpose(2, 0, 1), t, out=cube, grid=(8, 2, 2))
    check(lambda t: t.reshape(4, 8, 16), t.reshape(4, 128), out=s.spec(1, 2, 16, at=lambda i, j: (i, j, 0)), grid=(4, 4))  # fmt: skip
    check(lambda t: t.reshape(4, 8, 16), t.reshape(32, 16), out=s.spec(2, 8, 16, at=lambda i: (i, 0, 0)), grid=(2,))  # fmt: skip
    check(lambda x: x.reshape(1, 8, 1, 8), x, out=s.spec(1, 2, None, 4, at=lambda i, j: (0, i, 0, j)))  # fmt: skip
    check(lambda x, y: jnp.stack([x, y]), x, y, out=s.spec(None, 2, 4, at=lambda k, i, j: (k, i, j)), grid=(2, 4, 2))  # fmt: skip
    batched = s.spec(1, 2, 4, at=lambda b, i, j: (b, i, j))
    check(lambda t, y: jnp.einsum("bij,kj->bik", t, y), t, s.wide, out=batched, grid=(4, 4, 2))
    check(lambda: lax.broadcasted_iota(jnp.int32, (8, 8), 0), out=s.spec(None, 4), grid=(8, 2))
    check(lambda x: jnp.tile(x, (2, 2)), x, out=s.spec(16, 4), grid=(1, 4))
    check(jax.checkpoint(lambda x: -abs(x)), x)


def test_dynamic_slices():
    i, j = jnp.int32(4), jnp.int32(1)
    block = s.spec(2, 4, at=with_operands)
    check(lambda: lax.dynamic_slice(x, (i, j * 4), (4, 4)), out=block, grid=(2, 1))
    check(lambda: t[j] * 2, out=block, grid=(4, 4))
    check(lambda: lax.dynamic_index_in_dim(t, j + 1, 0, False) * j, out=block, grid=(4, 4))
    with pytest.raises(NotImplementedError, match="Close over the start"):
        check(lambda j: t[j] * 2, j, out=block, grid=(4, 4))


def test_dynamic_slices_in_kernels():
    @fuser.fusible
    def scaled(x_fn, out_fn):
        f, values, scalars = fuser.get_fusion_values(x_fn)
        block = s.spec(2, 4, at=with_operands)
        handler = fuser.make_scalar_prefetch_handler()
        kernel_fn, (specs,), _ = fuser.pull_block_spec(
            f, block, grid_len=2, scalar_prefetch_handler=handler
        )(values)

        n = len(scalars)

        def kernel(*refs):
            at = (pl.program_id(0), pl.program_id(1))
            *ins, out = refs[n:]
            out[...] = kernel_fn(at, refs[:n], tuple([r[...] for r in ins]))

        grid_spec = pltpu.PrefetchScalarGridSpec(n, (4, 4), list(specs), block)
        call = pl.pallas_call(kernel, x_fn.type, grid_spec=grid_spec, interpret=True)
        return call(*[a.reshape(1) for a in scalars], *values)

    f = jax.jit(fuser.fuse(lambda t, i, b: scaled(t[i] * b)))
    np.testing.assert_allclose(f(t, 2, s.wide), t[2] * s.wide)


def test_results_that_do_not_depend_on_the_fusible():
    f = fuser.fuse(lambda x, y, b: (s.product(x, y) + jnp.sin(b), jnp.sin(b), 2.0, x))
    found = f(x, y, x)
    for a, b in zip(found, (x @ y + jnp.sin(x), jnp.sin(x), 2.0, x)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3)
    squares = fuser.fusible(lambda x_fn, out_fn: x_fn() ** 2)
    np.testing.assert_allclose(jax.grad(lambda x: squares(x).sum())(x), 2 * x)
    np.testing.assert_allclose(jax.jit(squares)(x), x**2)


def test_strict_mode():
    other = (s.spec(2, 4), s.spec(2, 4, at=lambda i, j: (i + 0, j)))
    f = lambda x: (x + 1, x * 2)
    with pytest.raises(ValueError, match="cannot uniquely pull"):
        fuser.pull_block_spec(lambda x: x + x.T, s.spec(4, 4), grid_len=2)(x)
    fuser.pull_block_spec(lambda x: x + x.T, s.spec(4, 4), grid_len=2, strict_mode=False)(x)
    with pytest.raises(ValueError, match="cannot uniquely pull"):
        fuser.pull_block_spec(f, other, grid_len=None)(x)
    same = (s.spec(2, 4), s.spec(2, 4, at=lambda i, j: (i, j)))
    fuser.pull_block_spec(f, same, grid_len=2)(x)


def test_errors():
    fusible = fuser.fusible(lambda x_fn, out_fn: x_fn())
    with pytest.raises(ValueError, match="No fusible eqn found"):
        fuser.fuse(lambda x: x + 1)(x)
    with pytest.raises(ValueError, match="returned 1 arrays"):
        fuser.fuse(lambda x: (lambda z: (z, z + 1))(fusible(x)))(x)
    with pytest.raises(ValueError, match="Outputs must be disjoint"):
        fuser.fuse(lambda x: sum(s.pair(x)))(x)
    with pytest.raises(NotImplementedError, match="Close over the reference"):
        fuser.fuse(lambda r: fusible(r[...]))(jax.new_ref(x))
    ref = jax.new_ref(x)

    def early(a):
        ref[...] = a
        return fusible(a)

    with pytest.raises(ValueError, match="must depend on an output of the fusible"):
        fuser.fuse(early)(x)
    with pytest.raises(ValueError, match="get_stateful_input_fusion_values"):
        fuser.get_fusion_values(lambda: ref[...])
    with pytest.raises(ValueError, match="can only read"):
        fuser.get_stateful_input_fusion_values(early, x)
    with pytest.raises(ValueError, match="Transpose not allowed"):
        fuser.evaluate(jax.jit(lambda x: x.T), allow_transpose=False)(x)
    with pytest.raises(ValueError, match="different block specs"):
        fuser.push_block_spec(lambda x, y: x + y, s.spec(2, 4), s.spec(4, 4))(x, y)
    with pytest.raises(NotImplementedError, match="cannot be pushed through slice"):
        fuser.push_block_spec(lambda x: x[:4], s.spec(2, 4))(x)
    with pytest.raises(ValueError, match="def_eval_rule or def_pallas_impl"):
        fuser.custom_fusion(lambda x: x)(x)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda x: x[jnp.array([1, 0])], "through gather"),
        (lambda x: x[::2], "strides"),
        (lambda x: x[1:3], "no multiple of the block size"),
        (lambda x: jnp.concatenate([x[:1], x]), "are no multiples of the block size"),
        (lambda x: jnp.cumsum(x, 1), "has not all 8 elements"),
        (lambda x: lax.fori_loop(0, 2, lambda i, x: x * 2, x), "there is no rule"),
    ],
)
def test_what_has_no_blocks(f, match):
    with pytest.raises(NotImplementedError, match=match):
        fuser.pull_block_spec(f, s.spec(2, 4), grid_len=2)(x)


def test_blocks_of_wrong_shape():
    kernel_fn, _, _ = fuser.pull_block_spec(lambda x: x * 2, s.spec(2, 4), grid_len=2)(x)
    with pytest.raises(ValueError, match=r"a block of shape \(2, 4\)"):
        kernel_fn((0, 0), (), x)
    with pytest.raises(ValueError, match="as many dimensions"):
        fuser.pull_block_spec(lambda x: x * 2, pl.BlockSpec((2,), lambda i: i), grid_len=1)(x)


def test_function_for_compiled_kernels():
    f = fuser.custom_fusion(lambda x: x * 3)
    f.def_pull_block_spec(lambda blocks: blocks)
    f.def_pallas_impl(lambda x: x + x + x)
    check(f, x)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), 3)
    np.testing.assert_allclose(jax.vmap(f)(x), x * 3)
