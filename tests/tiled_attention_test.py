"""Attention by the kernel of jaxlib-ext, compared with the same programs without it."""

import functools

import native
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import config
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

KERNEL, GRADIENT_KERNEL = "jaxlib_ext_attention(", "jaxlib_ext_attention_gradient("
TOLERANCES = {"float32": 3e-6, "float64": 1e-14, "bfloat16": 0.02}
attention = jax.nn.dot_product_attention


@pytest.fixture(scope="module", autouse=True)
def extension():
    yield from native.extension_in_use()


def draw(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def inputs(dtype="float32", queries=70, keys=90, heads=4, key_heads=2, size=20):
    """Queries, keys, values and a cotangent."""
    shapes = [(2, queries, heads, size), *[(2, keys, key_heads, size)] * 2]
    return [draw(s, dtype, i) for i, s in enumerate([*shapes, shapes[0]])]


def derivatives(f):
    """The attention, and its gradients."""

    def both(q, k, v, cotangent):
        out, pullback = jax.vjp(f, q, k, v)
        return out, pullback(cotangent)

    return both


def close(ours, expected, tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        a, b = [np.asarray(x, np.float64) for x in (a, b)]
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


def compare(f, *args, tolerance=TOLERANCES["float32"], targets=(KERNEL, GRADIENT_KERNEL)):
    """Compares results with the kernels, which must be called, and without any."""
    with config.enable_x64(args[0].dtype == np.float64):
        text = jax.jit(f).lower(*args).as_text()
        assert all(target in text for target in targets)
        ours = jax.jit(f)(*args)
        with config.native_kernels(False):
            assert "jaxlib_ext_" not in jax.jit(f).lower(*args).as_text()
            expected = jax.jit(f)(*args)
        close(ours, expected, tolerance)
    return ours


MASK = np.random.default_rng(5).random((2, 1, 70, 90)) < 0.5
MASK[0, 0, 3] = False
LENGTHS = np.array([50, 0], np.int32), np.array([70, 33], np.int32)
VARIANTS = {
    "plain": {},
    "causal": dict(is_causal=True),
    "scale": dict(scale=np.float32(0.3)),
    "window": dict(local_window_size=(5, 9)),
    "empty windows": dict(local_window_size=(-75, 90)),
    "lengths": dict(query_seq_lengths=LENGTHS[0], key_value_seq_lengths=LENGTHS[1]),
    "key lengths": dict(key_value_seq_lengths=LENGTHS[0], is_causal=True),
    "mask": dict(mask=MASK),
    "mask of keys": dict(mask=MASK[:, :, :1], is_causal=True),
    "mask of queries": dict(mask=MASK[:1, :, :, :1], query_seq_lengths=LENGTHS[1]),
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_and_gradients(variant, dtype):
    f = functools.partial(attention, **VARIANTS[variant])
    compare(derivatives(f), *inputs(jnp.dtype(dtype)), tolerance=TOLERANCES[dtype])


@pytest.mark.parametrize("shape", [(64, 1030, 1, 1, 4), (130, 300, 2, 2, 32), (400, 24, 3, 1, 17)])
def test_shapes(shape):
    f = functools.partial(attention, is_causal=True)
    compare(derivatives(f), *inputs("float32", *shape))


def test_residuals():
    f = functools.partial(attention, is_causal=True, return_residual=True)
    compare(f, *inputs()[:3], targets=[KERNEL])
    # They have no gradient.
    loss = lambda q, k, v: jnp.sum(f(q, k, v)[1])
    assert not any(g.any() for g in jax.grad(loss, (0, 1, 2))(*inputs()[:3]))


def test_forward_derivatives():
    *args, tangent = inputs()
    f = lambda q, k, v, dq: jax.jvp(lambda q, k: attention(q, k, v), (q, k), (dq, 2 * k))
    compare(f, *args, tangent, targets=[KERNEL])
    linear = lambda q, k, v, dq: jax.linearize(lambda q: attention(q, k, v), q)[1](dq)
    compare(linear, *args, tangent, targets=[])


def test_higher_derivatives():
    *args, tangent = inputs(size=8)

    def loss(q, k, v):
        return jnp.sum(jnp.sin(attention(q, k, v, is_causal=True)))

    gradient = jax.grad(loss, (0, 1, 2))
    forward_over_reverse = lambda q, k, v, dq: jax.jvp(lambda q: gradient(q, k, v), (q,), (dq,))
    compare(forward_over_reverse, *args, tangent)
    reverse_over_reverse = jax.grad(lambda *a: sum(jnp.vdot(g, g) for g in gradient(*a)), (0, 1, 2))
    compare(reverse_over_reverse, *args, tolerance=1e-5)
    along = lambda q, k, v, dq: jax.jvp(lambda q: loss(q, k, v), (q,), (dq,))[1]
    compare(jax.grad(along, (0, 1, 2)), *args, tangent, tolerance=1e-5)


def test_gradient_is_linear():
    q, k, v, g = inputs(size=8)
    pullback = jax.vjp(attention, q, k, v)[1]
    (back,) = jax.linear_transpose(pullback, g)((q, k, v))
    tangent = jax.jvp(attention, (q, k, v), (q, k, v))[1]
    close(back, tangent, 3e-6)


@pytest.mark.parametrize("variant", ["causal", "mask of keys"])
@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (1, None, 2, 0), (None, 3, None, None)])
def test_vmap(axes, variant):
    args = [
        x if a is None else np.stack([x, 2 * x, -x], a) for x, a in zip(inputs(), axes, strict=True)
    ]
    f = functools.partial(attention, **VARIANTS[variant])
    compare(jax.vmap(derivatives(f), axes), *args)


def test_vmap_of_masks_and_lengths():
    f = lambda q, k, v, m, n: attention(q, k, v, mask=m, key_value_seq_lengths=n)
    masks = np.stack([MASK, ~MASK])
    lengths = np.array([[80, 90], [3, 70]], np.int32)
    mapped = jax.vmap(f, (None, None, None, 0, 0))
    compare(mapped, *inputs()[:3], masks, lengths, targets=[KERNEL])


def test_checkpoint_and_scan():
    def loss(q, k, v, cotangent):
        step = jax.checkpoint(lambda q, _: (q + attention(q, k, v), None))
        return jnp.vdot(jax.lax.scan(step, q, None, length=3)[0], cotangent)

    compare(jax.grad(loss, (0, 1, 2)), *inputs(), tolerance=1e-5)


def test_without_batch():
    q, k, v, g = [x[0] for x in inputs()]
    compare(derivatives(attention), q, k, v, g)
    close(attention(q, k, v), jax.jit(attention)(q, k, v), 0)


@pytest.mark.parametrize("spec", [P("x"), P("x", None, "y"), P(None, None, "x"), P(None, "y")])
def test_shardings(spec):
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    args = inputs(key_heads=4)
    place = lambda x: jax.device_put(x, NamedSharding(mesh, spec))
    f = derivatives(functools.partial(attention, is_causal=True))
    sharded = compare(f, *map(place, args))
    close(sharded, jax.jit(f)(*args), 3e-6)
    compiled = jax.jit(f).lower(*map(place, args)).compile().as_text()
    if spec != P(None, "y"):  # along sequences the shards need each other's keys
        assert "all-gather" not in compiled


def test_shardings_of_groups_are_left_to_the_compiler():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    args = [jax.device_put(x, NamedSharding(mesh, P("x"))) for x in inputs()]
    f = derivatives(functools.partial(attention, is_causal=True))
    assert "jaxlib_ext_" not in jax.jit(f).lower(*args).as_text()
    close(jax.jit(f)(*args), jax.jit(f)(*inputs()), 3e-6)


@pytest.mark.parametrize("kind", [AxisType.Explicit, "shard_map"])
def test_meshes_that_types_know(kind):
    axis_type = AxisType.Auto if kind == "shard_map" else kind
    mesh = jax.make_mesh((2,), ("x",), axis_types=(axis_type,))
    f = derivatives(attention)
    expected = jax.jit(f)(*inputs())
    if kind == "shard_map":
        f = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with jax.set_mesh(mesh):
        args = [jax.device_put(x, NamedSharding(mesh, P("x"))) for x in inputs()]
        close(jax.jit(f)(*args), expected, 3e-6)


def uses_tiles(f=attention, args=None):
    """Whether a program has the kernel's primitive."""
    return "tiled_attention" in str(jax.make_jaxpr(f)(*(args or inputs()[:3])))


def test_what_is_left_to_xla():
    q, k, v, _ = inputs()
    assert uses_tiles()
    assert not uses_tiles(args=[x[:, :20] for x in (q, k, v)])  # few queries
    assert not uses_tiles(args=[x.astype(np.float16) for x in (q, k, v)])
    bias = lambda q, k, v: attention(q, k, v, bias=np.ones((1, 1, 70, 90), np.float32))
    assert not uses_tiles(bias)
    scale = lambda q, k, v: attention(q, k, v, scale=q[0, 0, 0, 0])
    assert not uses_tiles(scale)
    assert not uses_tiles(functools.partial(attention, implementation="xla"))
    with config.native_kernels(False):
        assert not uses_tiles()
    config.update("jax_cpu_compile_profile", "original")
    try:
        assert not uses_tiles()
    finally:
        config.update("jax_cpu_compile_profile", "default")


def test_exported_programs_do_without():
    f = derivatives(functools.partial(attention, is_causal=True, local_window_size=(20, 0)))
    args = inputs()
    exported = jax.export.export(jax.jit(f), platforms=["cpu", "tpu"])(*args)
    assert "jaxlib_ext_" not in exported.mlir_module()
    close(jax.jit(exported.call)(*args), jax.jit(f)(*args), 3e-6)


def test_memory_is_not_quadratic():
    shape = jax.ShapeDtypeStruct((1, 4096, 2, 32), np.float32)
    f = jax.jit(jax.grad(lambda q, k, v: attention(q, k, v).sum(), (0, 1, 2)))
    used = lambda: f.lower(shape, shape, shape).compile().memory_analysis().temp_size_in_bytes
    assert used() < 4 << 20
    with config.native_kernels(False):
        assert used() > 4 * 2 * 4096**2
