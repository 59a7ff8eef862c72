"""Sharing arrays with other libraries through the DLPack protocol."""

from jax._src.dlpack import (
    from_dlpack as from_dlpack,
    is_supported_dtype as is_supported_dtype,
)
