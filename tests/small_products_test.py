"""Products of small matrices, which the CPU computes as sums of products."""

import numpy as np
import pytest

import jax
from jax import lax

SUMS = "stablehlo.reduce"
LIBRARY = "stablehlo.dot_general"


def product(spec, sides, dtype="float32"):
    """A function of two arrays, random ones, and what einsum makes of them."""
    size = dict(zip("abc", sides), d=2, x=3, y=2)
    left, right, out = spec.replace("->", ",").split(",")
    shared = [n for n in left if n in right]
    batch = [n for n in out if n in shared]
    terms = [n for n in shared if n not in batch]
    dims = lambda names: tuple([side.index(n) for n in names] for side in (left, right))
    rng = np.random.RandomState(0)
    lhs, rhs = (rng.randn(*(size[n] for n in side)).astype(dtype) for side in (left, right))
    f = lambda x, y: lax.dot_general(x, y, (dims(terms), dims(batch)))
    return f, lhs, rhs, np.einsum(spec, lhs, rhs)


SPECS = ["ab,bc->ac", "ba,cb->ac", "xab,xbc->xac", "abx,cxb->xac", "abd,dcb->ac", "yabx,xcby->yxac"]
SIDES = [(4, 2, 4), (8, 7, 8), (4, 16, 8), (5, 20, 5), (9, 8, 9)]


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("spec", SPECS)
def test_values(spec, sides):
    f, lhs, rhs, want = product(spec, sides)
    np.testing.assert_allclose(jax.jit(f)(lhs, rhs), want, rtol=1e-5, atol=1e-5)


def test_derivatives_and_double_precision():
    with jax.enable_x64(True):
        f, lhs, rhs, want = product("xab,xbc->xac", (5, 6, 4), "float64")
        out, pull = jax.vjp(f, lhs, rhs)
        np.testing.assert_allclose(out, want, rtol=1e-12)
        ct_lhs, ct_rhs = pull(want)
        np.testing.assert_allclose(ct_lhs, want @ rhs.swapaxes(1, 2), rtol=1e-12)
        np.testing.assert_allclose(ct_rhs, lhs.swapaxes(1, 2) @ want, rtol=1e-12)


@pytest.mark.parametrize(
    "spec, sides, dtype, precision, operation",
    [
        ("ab,bc->ac", (8, 8, 8), "float32", None, SUMS),
        ("ab,bc->ac", (8, 8, 8), "float32", "highest", SUMS),
        ("xab,xbc->xac", (6, 6, 6), "float32", None, SUMS),
        ("xab,xbc->xac", (8, 8, 8), "float32", None, LIBRARY),
        ("ab,bc->ac", (8, 8, 9), "float32", None, LIBRARY),
        ("ab,bc->ac", (3, 3, 3), "float32", None, LIBRARY),
        ("ab,bc->ac", (4, 17, 4), "float32", None, LIBRARY),
        ("ab,bc->ac", (8, 8, 8), "bfloat16", None, LIBRARY),
        ("ab,bc->ac", (8, 8, 8), "int32", None, LIBRARY),
        ("ab,bc->ac", (8, 8, 8), "float32", lax.DotAlgorithmPreset.F32_F32_F32, LIBRARY),
    ],
)
def test_which_become_sums(spec, sides, dtype, precision, operation):
    f, lhs, rhs, _ = product(spec, sides)
    lhs, rhs = lhs.astype(jax.numpy.dtype(dtype)), rhs.astype(jax.numpy.dtype(dtype))
    numbers = jax.make_jaxpr(f)(lhs, rhs).eqns[0].params["dimension_numbers"]
    g = jax.jit(lambda x, y: lax.dot_general(x, y, numbers, precision=precision))
    text = g.lower(lhs, rhs).as_text()
    assert operation in text and (SUMS in text) != (LIBRARY in text)
    for platform in ("tpu", "cuda"):
        assert LIBRARY in g.trace(lhs, rhs).lower(lowering_platforms=(platform,)).as_text()
