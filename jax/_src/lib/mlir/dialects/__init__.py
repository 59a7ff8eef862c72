"""MLIR dialects, each loaded on first use."""

from jax._src.lib.mlir._lazy import LazyModule


def _dialect(name: str) -> LazyModule:
    return LazyModule(f"jax._src.lib.mlir.dialects.{name}", f"jaxlib.mlir.dialects.{name}")


def _dialect_with_native_part(name: str) -> LazyModule:
    """A dialect whose attributes and functions are native; only its operations are classes."""
    return LazyModule(
        f"jax._src.lib.mlir.dialects.{name}",
        f"jaxlib.mlir.dialects.{name}",
        native=f"jaxlib.mlir._mlir_libs._{name}",
    )


arith = _dialect("arith")
builtin = _dialect("builtin")
cf = _dialect("cf")
chlo = _dialect_with_native_part("chlo")
func = _dialect("func")
gpu = _dialect("gpu")
llvm = _dialect("llvm")
math = _dialect("math")
memref = _dialect("memref")
mhlo = _dialect("mhlo")
mpmd = _dialect("mpmd")
nvgpu = _dialect("nvgpu")
nvvm = _dialect("nvvm")
scf = _dialect("scf")
sdy = _dialect_with_native_part("sdy")
sparse_tensor = _dialect("sparse_tensor")
stablehlo = _dialect("stablehlo")
vector = _dialect("vector")

hlo = stablehlo
