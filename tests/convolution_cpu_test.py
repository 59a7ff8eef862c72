"""Convolutions on the CPU in the forms of jax._src.lax.convolution.cpu give XLA's results."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src.lax.convolution import cpu
from jax.sharding import NamedSharding, PartitionSpec as P

LAST = ("NHWC", "HWIO", "NHWC")
# The shapes, the dtype, and what else `conv_general_dilated` is given.
CASES = {
    "depthwise": ((2, 7, 6, 3), (3, 2, 1, 3), "float32", {"feature_group_count": 3}),
    "depthwise, two results for each feature": (
        (2, 7, 6, 3), (3, 2, 1, 6), "float32",
        {"feature_group_count": 3, "window_strides": (2, 1), "rhs_dilation": (1, 2)},
    ),
    "depthwise, features first": (
        (2, 3, 7, 6), (3, 1, 3, 2), "float32",
        {"feature_group_count": 3, "dimension_numbers": ("NCHW", "OIHW", "NHWC"),
         "lhs_dilation": (2, 1), "padding": ((-1, 2), (0, 1))},
    ),
    "depthwise, bfloat16": ((2, 7, 6, 3), (3, 2, 1, 3), "bfloat16", {"feature_group_count": 3}),
    "depthwise, a wider result": (
        (2, 7, 6, 3), (3, 2, 1, 3), "bfloat16",
        {"feature_group_count": 3, "preferred_element_type": np.float32},
    ),
    "depthwise, one dimension": (
        (2, 9, 4), (3, 1, 4), "float32",
        {"feature_group_count": 4, "dimension_numbers": ("NWC", "WIO", "NWC"),
         "window_strides": (2,)},
    ),
    "groups": ((2, 6, 5, 6), (3, 3, 2, 9), "float32", {"feature_group_count": 3}),
    "groups, features first": (
        (2, 6, 6, 5), (9, 2, 3, 3), "float32",
        {"feature_group_count": 3, "dimension_numbers": ("NCHW", "OIHW", "NCHW"),
         "window_strides": (1, 2), "rhs_dilation": (2, 1)},
    ),
    "groups of the batch": (
        (6, 6, 5, 2), (3, 3, 2, 9), "float32", {"batch_group_count": 3, "window_strides": (2, 1)},
    ),
    "features first": (
        (2, 3, 6, 5), (4, 3, 3, 3), "float32", {"dimension_numbers": ("NCHW", "OIHW", "NCHW")},
    ),
    "transposed": (
        (2, 5, 6, 3), (4, 3, 3, 4), "float32",
        {"lhs_dilation": (2, 3), "padding": ((2, 2), (1, 4))},
    ),
    "transposed, features first, cropped": (
        (2, 3, 7), (4, 3, 3), "float32",
        {"lhs_dilation": (3,), "padding": ((-1, 3),), "window_strides": (1,),
         "dimension_numbers": ("NCH", "OIH", "NCH")},
    ),
    "transposed, bfloat16, one dimension dilated": (
        (2, 4, 6, 3), (3, 3, 3, 4), "bfloat16",
        {"lhs_dilation": (2, 1), "padding": ((3, 2), (1, 1))},
    ),
    "a long kernel, cropped": (
        (2, 5, 4, 3), (3, 10, 3, 1), "float32",
        {"lhs_dilation": (1, 3), "padding": ((-1, 1), (2, 0))},
    ),
    "a long kernel": (
        (2, 3, 4, 2), (8, 5, 2, 3), "float32",
        {"lhs_dilation": (2, 2), "padding": ((6, 4), (3, 3))},
    ),
    "complex groups": ((2, 6, 5, 4), (3, 3, 2, 4), "complex64", {"feature_group_count": 2}),
}  # fmt: skip


@pytest.fixture
def always(monkeypatch):
    """Also small convolutions take the forms; says which were taken."""
    monkeypatch.setattr(cpu, "_FEWEST_GROUPED", 0)
    monkeypatch.setattr(cpu, "_FEWEST", 0)
    taken, form = [], cpu.form

    def spy(ctx, params):
        found = form(ctx, params)
        taken.append(found and found.__name__)
        return found

    monkeypatch.setattr(cpu, "form", spy)
    jax.clear_caches()
    yield taken
    jax.clear_caches()


def numbers(shape, dtype):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape)
    if dtype == "complex64":
        values = values + 1j * rng.standard_normal(shape)
    return jnp.asarray(values, dtype)


def derivatives(name):
    x, w, dtype, options = CASES[name]
    settings = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": LAST} | options

    def f(x, w):
        y, pullback = jax.vjp(lambda x, w: lax.conv_general_dilated(x, w, **settings), x, w)
        return y, *pullback(jnp.cos(jnp.arange(y.size)).reshape(y.shape).astype(y.dtype))

    return jax.jit(f), numbers(x, dtype), numbers(w, dtype)


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_and_its_gradients(name, always, monkeypatch):
    f, *args = derivatives(name)
    ours = f(*args)
    assert any(always)
    monkeypatch.setattr(cpu, "form", lambda ctx, params: None)
    f, *args = derivatives(name)
    rtol = 2e-2 if args[0].dtype == jnp.bfloat16 else 1e-5
    for x, y in zip(ours, f(*args), strict=True):
        assert x.dtype == y.dtype
        x, y = (np.asarray(a, np.complex64) for a in (x, y))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max())


def test_which_forms_are_taken(always):
    for name, forms in {
        "depthwise": {"_depthwise", "_kernel_gradient"},
        "groups": {"_each_group", "_features_last", None},
        "groups of the batch": {"_each_group", "_features_last", None},
        "features first": {"_features_last", None},
        "transposed": {"_each_phase", "_features_last", None},
        "a long kernel": {"_each_phase", "_features_last", None},
    }.items():
        always.clear()
        f, *args = derivatives(name)
        f.lower(*args)
        assert set(always) == forms, name


def conv(x, w, groups=1):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=LAST, feature_group_count=groups
    )


def lowered(x, w, groups, platform="cpu"):
    f = jax.jit(lambda x, w: conv(x, w, groups))
    return f.trace(x, w).lower(lowering_platforms=(platform,)).as_text()


def test_small_convolutions_other_platforms_and_exported_programs_have_xlas():
    small = [jnp.ones((1, 8, 8, 4)), jnp.ones((3, 3, 1, 4))]
    large = [jnp.ones((4, 64, 64, 16)), jnp.ones((3, 3, 1, 16))]
    assert "stablehlo.convolution" in lowered(*small, groups=4)
    assert "stablehlo.convolution" not in lowered(*large, groups=16)
    assert "stablehlo.convolution" in lowered(*large, groups=16, platform="cuda")
    exported = export.export(jax.jit(lambda x, w: conv(x, w, 16)), platforms=["cpu"])(*large)
    assert "stablehlo.convolution" in exported.mlir_module()


def test_programs_of_several_devices_have_xlas(always):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(jnp.ones((2, 8, 8, 4)), NamedSharding(mesh, P("x")))
    w = jax.device_put(jnp.ones((3, 3, 1, 4)), NamedSharding(mesh, P()))
    y = jax.jit(lambda x, w: conv(x, w, 4))(x, w)
    assert always == [None]
    assert y[0, 1, 1, 0] == 9


def test_integers_and_empty_arrays_have_xlas(always):
    x, w = jnp.ones((1, 8, 8, 4), jnp.int32), jnp.ones((3, 3, 1, 4), jnp.int32)
    assert conv(x, w, 4)[0, 1, 1, 0] == 9
    assert conv(jnp.ones((0, 8, 8, 4)), jnp.ones((3, 3, 1, 4)), 4).shape == (0, 8, 8, 4)
    assert not any(always)


def test_gradients_by_the_kernel_in_loops_have_features_last(always):
    """Where XLA does not transpose them itself, and then computes them by its slowest code."""

    def loss(x, w):
        state, _ = lax.scan(lambda s, _: (jnp.tanh(conv(s, w)), None), x, None, length=2)
        return jnp.sum(state)

    jax.jit(jax.grad(loss, 1)).lower(jnp.ones((2, 8, 8, 4)), jnp.ones((3, 3, 4, 4)))
    assert "_features_last" in always


@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_paddings_that_crop_in_front_and_add_behind(dtype, spatial):
    """XLA's fast routines would read beyond the input."""
    random = np.random.default_rng(0)
    shape, window = ((2, 12, 14, 3), (2, 3)) if spatial == 2 else ((2, 14, 3), (3,))
    x = random.normal(size=shape).astype(dtype)
    w = random.normal(size=(*window, 3, 6)).astype(dtype)
    numbers = LAST if spatial == 2 else ("NWC", "WIO", "NWC")
    paddings = [(-3, 1), (-20, 12), (-1, 1), (1, -3)]
    cases = [
        (p + ((0, 0),) * (spatial - 1), s)
        for p in [(q,) for q in paddings]
        for s in [(1,) * spatial, (2, 1)[:spatial]]
    ]

    def convolve(x, padding, strides):
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers)

    def outs(x):
        return [convolve(x, *case) for case in cases]

    def wants(x):
        padded = lambda p: lax.pad(
            x, np.zeros((), dtype), [(0, 0, 0), *((*q, 0) for q in p), (0, 0, 0)]
        )
        return [convolve(padded(p), ((0, 0),) * spatial, s) for p, s in cases]

    close = lambda got, want: np.testing.assert_allclose(
        got,
        want,
        rtol=1e-2 if dtype == "float16" else 1e-4,
        atol=0.1 if dtype == "float16" else 1e-5,
    )
    jax.tree.map(close, jax.jit(outs)(x), jax.jit(wants)(x))
    exported = export.export(jax.jit(outs))(jax.ShapeDtypeStruct(x.shape, x.dtype))
    jax.tree.map(close, exported.call(x), jax.jit(wants)(x))
    total = lambda fun: lambda x: sum(jnp.sum(jnp.sin(y)) for y in fun(x))
    close(jax.jit(jax.grad(total(outs)))(x), jax.jit(jax.grad(total(wants)))(x))
