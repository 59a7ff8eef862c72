"""Image resizing and resampling."""

from jax._src.image.scale import (
    ResizeMethod as ResizeMethod,
    resize as resize,
    scale_and_translate as scale_and_translate,
)
