"""Random dimension numbers of products and convolutions, against NumPy."""

import itertools

import numpy as np
from hypothesis import given, settings, strategies as st

import jax
from jax import lax

RUNS = settings(max_examples=40, deadline=None)


@st.composite
def dots(draw):
    """Shapes and dimension numbers of a `dot_general`, and the einsum that is the same."""
    counts = {kind: draw(st.integers(0, 2)) for kind in ("batch", "contract", "left", "right")}
    letters = iter("abcdefghijkl")
    names = {kind: [next(letters) for _ in range(n)] for kind, n in counts.items()}
    size = {name: draw(st.integers(0, 3)) for group in names.values() for name in group}
    lhs = draw(st.permutations(names["batch"] + names["contract"] + names["left"]))
    rhs = draw(st.permutations(names["batch"] + names["contract"] + names["right"]))
    numbers = tuple(
        tuple(tuple(side.index(name) for name in names[kind]) for side in (lhs, rhs))
        for kind in ("contract", "batch")
    )
    out = names["batch"] + [n for n in lhs if n in names["left"]]
    out += [n for n in rhs if n in names["right"]]
    spec = f"{''.join(lhs)},{''.join(rhs)}->{''.join(out)}"
    return [size[n] for n in lhs], [size[n] for n in rhs], numbers, spec


def integers(shape, seed):
    return np.random.RandomState(seed).randint(-4, 5, shape).astype(np.float32)


@RUNS
@given(dots())
def test_dot_general(case):
    lhs_shape, rhs_shape, numbers, spec = case
    lhs, rhs = integers(lhs_shape, 0), integers(rhs_shape, 1)
    f = lambda x, y: lax.dot_general(x, y, numbers)
    want = np.einsum(spec, lhs, rhs)
    np.testing.assert_array_equal(f(lhs, rhs), want)
    inputs, output = spec.split("->")
    left, right = inputs.split(",")
    ct = integers(want.shape, 2)

    @jax.jit  # one program for both
    def derived(lhs, rhs, ct, many_lhs, many_rhs):
        batched = jax.vmap(f, (len(lhs_shape), 0))(many_lhs, many_rhs)
        return jax.vjp(f, lhs, rhs)[1](ct), batched

    many = np.stack([lhs, -lhs], -1), np.stack([rhs, 2 * rhs])
    (ct_lhs, ct_rhs), batched = derived(lhs, rhs, ct, *many)
    # a letter that stands in one operand alone is summed over, so its cotangent is spread out
    np.testing.assert_array_equal(ct_lhs, np.einsum(f"{output},{right}->{left}", ct, rhs))
    np.testing.assert_array_equal(ct_rhs, np.einsum(f"{output},{left}->{right}", ct, lhs))
    np.testing.assert_array_equal(batched, np.stack([want, -2 * want]))


@st.composite
def convolutions(draw):
    spatial = draw(st.integers(0, 2))
    groups = draw(st.sampled_from([1, 1, 2]))
    channels, features = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    image = [draw(st.integers(1, 2)), channels, *(draw(st.integers(1, 5)) for _ in range(spatial))]
    kernel = [features, channels // groups, *(draw(st.integers(1, 3)) for _ in range(spatial))]
    each = lambda strategy: [draw(strategy) for _ in range(spatial)]
    options = {
        "window_strides": each(st.integers(1, 2)),
        "padding": each(st.tuples(st.integers(-1, 2), st.integers(0, 2))),
        "lhs_dilation": each(st.integers(1, 2)),
        "rhs_dilation": each(st.integers(1, 2)),
    }
    orders = [draw(st.permutations(range(spatial + 2))) for _ in range(3)]
    return image, kernel, groups, options, orders


def convolve(image, kernel, groups, window_strides, padding, lhs_dilation, rhs_dilation):
    """By its definition; the batch and the channels come first."""

    def dilate(x, factors):
        sizes = [(n - 1) * f + 1 for n, f in zip(x.shape[2:], factors)]
        out = np.zeros((*x.shape[:2], *sizes), x.dtype)
        out[(..., *(slice(None, None, f) for f in factors))] = x
        return out

    image, kernel = dilate(image, lhs_dilation), dilate(kernel, rhs_dilation)
    image = np.pad(image, [(0, 0), (0, 0), *((max(low, 0), high) for low, high in padding)])
    image = image[(..., *(slice(max(-low, 0), None) for low, _ in padding))]
    size = [
        max(0, (n - k) // s + 1)
        for n, k, s in zip(image.shape[2:], kernel.shape[2:], window_strides)
    ]
    out = np.zeros((image.shape[0], kernel.shape[0], *size), image.dtype)
    per_group, inputs = kernel.shape[0] // groups, kernel.shape[1]
    for feature, place in itertools.product(range(kernel.shape[0]), np.ndindex(*size)):
        first = feature // per_group * inputs
        corner = [p * s for p, s in zip(place, window_strides)]
        window = tuple(slice(c, c + k) for c, k in zip(corner, kernel.shape[2:]))
        patch = image[(slice(None), slice(first, first + inputs), *window)]
        axes = tuple(range(1, patch.ndim))
        out[(slice(None), feature, *place)] = (patch * kernel[feature]).sum(axes)
    return out


@RUNS
@given(convolutions())
def test_conv_general_dilated(case):
    image_shape, kernel_shape, groups, options, orders = case
    image, kernel = integers(image_shape, 0), integers(kernel_shape, 1)
    want = convolve(image, kernel, groups, **options)
    # position i of an operand holds dimension order[i] of (batch, feature, spatial...)
    numbers = lax.ConvDimensionNumbers(*(tuple(np.argsort(order)) for order in orders))
    got = lax.conv_general_dilated(
        image.transpose(orders[0]), kernel.transpose(orders[1]),
        dimension_numbers=numbers, feature_group_count=groups, **options,
    )  # fmt: skip
    np.testing.assert_array_equal(got, want.transpose(orders[2]))
