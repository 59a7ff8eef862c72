"""MLIR's Python bindings, loaded on first use, so that `import jax` is fast."""

from jax._src.lib.mlir import dialects as dialects
from jax._src.lib.mlir._lazy import LazyModule

ir = LazyModule("jax._src.lib.mlir.ir", "jaxlib.mlir.ir")
passmanager = LazyModule("jax._src.lib.mlir.passmanager", "jaxlib.mlir.passmanager")
jax_mlir_ext = LazyModule("jax._src.lib.mlir.jax_mlir_ext", "jaxlib.mlir._mlir_libs._jax_mlir_ext")
