"""Image resizing and resampling."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.einsum import einsum
from jax._src.numpy.indexing.functions import take
from jax._src.numpy.selecting import where
from jax._src.numpy.util import check_arraylike, promote_dtypes_inexact
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis


class ResizeMethod(enum.Enum):
    """The interpolation method of a resize.

    NEAREST takes the nearest pixel. LINEAR interpolates linearly. CUBIC uses Keys' cubic kernel
    with a = -1/2; CUBIC_PYTORCH the one with a = -3/4, and without antialiasing it repeats the edge
    pixels. LANCZOS3 and LANCZOS5 use windowed sinc kernels of radius 3 and 5. AREA averages the
    covered pixels.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Returns the method of a given name; "linear" and "bilinear" are synonyms, for example.

        Raises:
          ValueError: if the name is unknown.
        """
        try:
            return _NAMES[s]
        except KeyError:
            raise ValueError(
                f"Unknown resize method {s!r}. There are: {', '.join(sorted(_NAMES))}."
            ) from None


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "area": ResizeMethod.AREA,
}


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """Resizes an array.

    Args:
      image: array of any number of dimensions.
      shape: shape of the result, with a size for every dimension, including batch and channels.
      method: a `ResizeMethod` or its name.
      antialias: whether to widen the kernel when downsampling.
      precision: precision of the products, as for `lax.dot_general`.

    Returns:
      An array of the image's dtype for "nearest", of an inexact dtype otherwise.

    Raises:
      ValueError: if the number of sizes is wrong, a resized dimension is empty, or the method is
        unknown.

    >>> jax.image.resize(jnp.array([0.0, 2.0]), (4,), "linear")
    Array([0. , 0.5, 1.5, 2. ], dtype=float32)
    """
    check_arraylike("resize", image)
    shape = core.canonicalize_shape(shape)
    old = np.shape(image)
    if len(shape) != len(old):
        raise ValueError(
            f"resize: shape must have one size for each dimension of the image, got {shape} for an image of "
            f"shape {old}."
        )
    if isinstance(method, str):
        method = ResizeMethod.from_string(method)
    dims = tuple(i for i in range(len(shape)) if old[i] != shape[i])
    if any(old[i] == 0 for i in dims):
        raise ValueError(
            f"resize: cannot resize an axis that has no pixels: from shape {old} to {shape}."
        )
    return _resize(  # type: ignore[no-any-return]
        image, shape=shape, method=method, antialias=bool(antialias), precision=precision
    )


def _resize(image, *, shape, method, antialias, precision):
    old = image.shape
    dims = [i for i in range(len(shape)) if old[i] != shape[i]]
    if method is ResizeMethod.NEAREST:
        for i in dims:
            # Centers of the result's pixels in coordinates of the image.
            centers = (lax.iota(np.float32, shape[i]) + 0.5) * old[i] / shape[i]
            index = lax.floor(centers).astype(np.int32)
            image = take(image, index, axis=i, mode="clip")
        return image
    (image,) = promote_dtypes_inexact(image)
    scales = [1.0 if shape[i] == 0 else shape[i] / old[i] for i in dims]
    return _resample(image, shape, dims, scales, [0.0] * len(dims), method, antialias, precision)


_resize = nested_jit(_resize, static_argnames=("shape", "method", "antialias", "precision"))


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """Resamples an array with a scale and a translation per dimension; both are differentiable.

    Coordinate x of a dimension is mapped to x * scale + translation; the center of pixel i has
    coordinate i + 1/2. Pixels that come from outside the image are zero.

    Args:
      image: array.
      shape: shape of the result; sizes of dimensions not in `spatial_dims` must not change.
      spatial_dims: K dimensions.
      scale, translation: arrays of shape (K,).
      method: a `ResizeMethod` other than NEAREST, or its name.
      antialias: whether to widen the kernel where the scale is less than 1.
      precision: precision of the products, as for `lax.dot_general`.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError: if a size, dimension or method is invalid.

    With `scale = (n - 1) / (m - 1)` and `translation = (1 - scale) / 2` for sizes m before and n
    after, the centers of corner pixels stay in place (known elsewhere as `align_corners=True`).

    >>> shift = jnp.array([1.0])
    >>> jax.image.scale_and_translate(jnp.arange(3.0), (3,), (0,), jnp.ones(1), shift, "linear")
    Array([0., 0., 1.], dtype=float32)
    """
    check_arraylike("scale_and_translate", image, scale, translation)
    (image,) = promote_dtypes_inexact(image)
    shape = core.canonicalize_shape(shape)
    if len(shape) != image.ndim:
        raise ValueError(
            f"scale_and_translate: shape must have one size for each dimension of the image, got {shape} for "
            f"an image of shape {image.shape}."
        )
    if isinstance(method, str):
        method = ResizeMethod.from_string(method)
    if method is ResizeMethod.NEAREST:
        raise ValueError("Nearest neighbor resampling is not supported by scale_and_translate.")
    dims = [canonicalize_axis(i, image.ndim) for i in spatial_dims]
    for name, array in (("scale", scale), ("translation", translation)):
        if np.shape(array) != (len(dims),):
            raise ValueError(
                f"scale_and_translate: {name} must have shape {(len(dims),)}, one number for each of "
                f"spatial_dims={tuple(spatial_dims)}, got {np.shape(array)}."
            )
    scale, translation = promote_dtypes_inexact(scale, translation)
    scales, translations = ([x[k] for k in range(len(dims))] for x in (scale, translation))
    return _resample(image, shape, dims, scales, translations, method, antialias, precision)


def _resample(image, shape, dims, scales, translations, method, antialias, precision):
    """Contracts the image with a matrix of weights for each of `dims`."""
    operands, letters = [image, list(range(image.ndim))], list(range(image.ndim))
    for k, (dim, scale, translation) in enumerate(zip(dims, scales, translations)):
        weights = _weights(
            image.shape[dim], shape[dim], scale, translation, method, antialias, image.dtype
        )
        new = image.ndim + k
        # a dimension that is listed twice is scaled twice
        operands += [weights, [letters[dim], new]]
        letters[dim] = new
    if len(operands) == 2:
        return image
    return einsum(*operands, letters, precision=precision)


def _weights(old, new, scale, translation, method, antialias, dtype):
    """Returns the weights of `old` pixels (rows) in `new` pixels (columns).

    Columns sum to 1, or to 0 for pixels from outside the image.
    """
    dtype = np.finfo(dtype).dtype if np.issubdtype(dtype, np.complexfloating) else dtype
    inverse = 1.0 / scale
    kernel_scale = ufuncs.maximum(inverse, 1.0) if antialias else 1.0
    # Left edges of the result's pixels in coordinates of the image, and centers as pixel indices.
    begin = lax.iota(np.float32, new) * inverse - translation * inverse
    center = begin + 0.5 * inverse - 0.5
    pixels = lax.iota(np.float32, old)[:, None]
    if method is ResizeMethod.AREA:
        first, last = ufuncs.maximum(pixels, begin), ufuncs.minimum(pixels + 1, begin + inverse)
        weights = ufuncs.maximum(last - first, 0.0)
    elif method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _weights_with_edges(old, center).astype(dtype)
    else:
        weights = _KERNELS[method](lax.abs(center - pixels) / kernel_scale)
    inside = (center >= -0.5) & (center <= old - 0.5)
    return where(inside, _normalized(weights), 0).astype(dtype)


def _normalized(weights):
    total = weights.sum(axis=0, keepdims=True)
    # A pixel that is not covered by the kernel becomes zero instead of amplified rounding errors.
    enough = lax.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return where(enough, weights / where(total != 0, total, 1), 0)


def _weights_with_edges(old, center, margin=2):
    """Returns the weights for an image whose edge pixels are repeated `margin` times."""
    pixels = (lax.iota(np.float32, old + 2 * margin) - margin)[:, None]
    weights = _normalized(_cubic(lax.abs(center - pixels), -0.75))
    first, inner, last = lax.split(weights, (margin, old, margin))
    inner = inner.at[0].add(first.sum(axis=0))
    return inner.at[-1].add(last.sum(axis=0))


def _triangle(x):
    return ufuncs.maximum(0.0, 1.0 - x)


def _cubic(x, a=-0.5):
    """Keys, Cubic convolution interpolation for digital image processing, 1981."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return where(x >= 2, 0.0, where(x >= 1, far, near))


def _lanczos(radius: float):
    def kernel(x):
        numerator = radius * lax.sin(np.pi * x) * lax.sin(np.pi * x / radius)
        value = where(x > 1e-3, numerator / where(x != 0, np.pi**2 * x**2, 1.0), 1.0)
        return where(x > radius, 0.0, value)

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _cubic,
    ResizeMethod.CUBIC_PYTORCH: _cubic,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
}
