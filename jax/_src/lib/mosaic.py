"""The dialect of Mosaic, the compiler of kernels for TPUs, loaded on first use."""

from jax._src.lib.mlir._lazy import LazyModule

tpu = LazyModule("jax._src.lib.mosaic.tpu", "jaxlib.mosaic.python.tpu")
