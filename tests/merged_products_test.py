"""Products over several dimensions, which the CPU computes as products of matrices."""

import re

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export, lax
from jax.sharding import NamedSharding, PartitionSpec as P

SIZES = {"a": 20, "b": 4, "c": 3, "m": 8, "n": 6, "p": 7, "x": 2, "y": 3}
# The product, and the shapes of what is multiplied if it is merged.
CASES = {
    "abm,abn->mn": ((80, 8), (80, 6)),
    "abcm,abcn->mn": ((240, 8), (240, 6)),
    "mab,nab->mn": ((8, 80), (6, 80)),
    "abm,nab->mn": ((80, 8), (6, 80)),
    "abm,abnp->mnp": ((80, 8), (80, 42)),
    "abmc,abn->mcn": ((80, 24), (80, 6)),
    "am,anp->mnp": ((20, 8), (20, 42)),
    "amc,an->mcn": ((20, 24), (20, 6)),
    "pmab,ncab->pmnc": ((56, 80), (18, 80)),
    "xabm,xabn->xmn": ((2, 80, 8), (2, 80, 6)),
    "xymab,xynab->xymn": ((2, 3, 8, 80), (2, 3, 6, 80)),
    "ab,abn->n": None,  # an ordinary product, as far as XLA is concerned
    "ab,ab->": None,
    "abm,ab->m": ((80, 8), (80, 1)),
    "mab,abn->mn": None,  # XLA merges them without copies
    "pma,an->pmn": None,
    "am,an->mn": None,
    "xam,xan->xmn": None,
    "abm,ban->mn": None,  # no order of the sum fits both
    "amb,anb->mn": None,
    "bam,ban->mn": ((80, 8), (80, 6)),
    "axm,axn->xmn": None,
    "am,bn->ambn": None,
}  # fmt: skip


def product(spec, dtype="float32"):
    """A function, its arguments, and what NumPy makes of them."""
    left, right, _ = spec.replace("->", ",").split(",")
    batch = [n for n in "xy" if n in left]
    summed = [n for n in left if n in right and n not in batch]
    dims = lambda names: tuple([side.index(n) for n in names] for side in (left, right))
    rng = np.random.default_rng(0)
    args = [rng.integers(-3, 4, [SIZES[n] for n in side]) for side in (left, right)]
    f = lambda x, y: lax.dot_general(x, y, (dims(summed), dims(batch)))
    return f, [a.astype(jnp.dtype(dtype)) for a in args], np.einsum(spec, *args)


def multiplied(text):
    """The shapes of the operands of the products in a program's text."""
    found = re.findall(r"dot_general.*: \(tensor<([\dx]*)x\w+>, tensor<([\dx]*)x\w+>\)", text)
    return [tuple(tuple(map(int, s.split("x"))) for s in pair) for pair in found]


@pytest.mark.parametrize("spec", CASES)
def test_values_and_shapes(spec):
    f, args, want = product(spec)
    lowered = jax.jit(f).lower(*args)
    got = lowered.compile()(*args)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)
    shapes = CASES[spec] or tuple(a.shape for a in args)
    assert multiplied(lowered.as_text()) == [shapes]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32", "complex64"])
def test_types(dtype):
    f, args, want = product("abm,abn->mn", dtype)
    got = jax.jit(f)(*args)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got), want.astype(jnp.dtype(dtype)))


def test_a_wider_result_and_double_precision():
    _, (x, y), want = product("abm,abn->mn", "bfloat16")
    numbers = (((1, 0), (1, 0)), ((), ()))
    f = lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=jnp.float32)
    np.testing.assert_array_equal(jax.jit(f)(x, y), want.astype("float32"))
    with jax.enable_x64(True):
        f, args, want = product("abm,abn->mn", "float64")
        np.testing.assert_array_equal(jax.jit(f)(*args), want)


def test_transformations():
    f, (x, y), want = product("abm,abn->mn")
    out, pull = jax.vjp(jax.jit(f), x, y)
    np.testing.assert_array_equal(out, want)
    ct_x, ct_y = pull(out)
    np.testing.assert_array_equal(ct_x, np.einsum("mn,abn->abm", want, y))
    np.testing.assert_array_equal(ct_y, np.einsum("mn,abm->abn", want, x))
    out, tangent = jax.jvp(jax.jit(f), (x, y), (2 * x, y))
    np.testing.assert_array_equal(tangent, 3 * want)
    for axes, batched in (((0, 0), (x, y)), ((1, None), (x.swapaxes(0, 1), y))):
        pair = [np.stack([a, 2 * a], i) if i is not None else a for a, i in zip(batched, axes)]
        pair[0] = pair[0] if axes[1] == 0 else np.stack([x, 2 * x], 1)
        got = jax.jit(jax.vmap(f, axes))(*pair)
        np.testing.assert_array_equal(got, [want, (4 if axes[1] == 0 else 2) * want])


def test_the_gradient_of_a_layer_copies_nothing():
    x, w = jnp.ones((8, 64, 32)), jnp.ones((32, 48))
    f = jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.sin(x @ w))))
    text = f.lower(w, x).compile().as_text()
    assert " dot(" in text
    assert "transpose(%" not in text and " copy(" not in text


def test_sharded_and_exported_programs_keep_their_dimensions():
    f, args, want = product("abm,abn->mn")
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    shards = [jax.device_put(a, NamedSharding(mesh, P(None, "x"))) for a in args]
    lowered = jax.jit(f).lower(*shards)
    np.testing.assert_array_equal(lowered.compile()(*shards), want)
    as_given = [tuple(a.shape for a in args)]
    assert multiplied(lowered.as_text()) == as_given
    assert multiplied(export.export(jax.jit(f))(*args).mlir_module()) == as_given
    for platform in ("cuda", "tpu"):
        elsewhere = jax.jit(f).trace(*args).lower(lowering_platforms=(platform,))
        assert multiplied(elsewhere.as_text()) == as_given
    (n,) = export.symbolic_shape("n")
    symbolic = [jax.ShapeDtypeStruct((n, *a.shape[1:]), a.dtype) for a in args]
    np.testing.assert_array_equal(export.export(jax.jit(f))(*symbolic).call(*args), want)


def test_empty_products():
    for shape in ((0, 4, 8), (5, 4, 0)):
        x, y = np.ones(shape, "float32"), np.ones((shape[0], 4, 6), "float32")
        f = jax.jit(lambda x, y: lax.dot_general(x, y, (((0, 1), (0, 1)), ((), ()))))
        np.testing.assert_array_equal(f(x, y), np.zeros((shape[2], 6)))
