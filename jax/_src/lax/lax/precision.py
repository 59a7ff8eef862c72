"""Precisions and algorithms of dot products and convolutions."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jax._src import config, dtypes
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import DTypeLike


class Precision(enum.Enum):
    """Precision of products on TPU and GPU; CPUs always use the full precision of the dtype.

    - `DEFAULT` (`"default"`, `"bfloat16"`, `"fastest"`): fastest; rounds float32 operands to
      bfloat16 on TPU.
    - `HIGH` (`"high"`, `"bfloat16_3x"`, `"tensorfloat32"`): between the two.
    - `HIGHEST` (`"highest"`, `"float32"`): full float32 precision.

    >>> lax.Precision("float32")
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISION_NAMES.get(value)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISION_NAMES: dict[Any, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
}


class DotAlgorithm(NamedTuple):
    """An algorithm for dot products, for hardware that supports it.

    Attributes:
      lhs_precision_type, rhs_precision_type: dtypes that the operands are rounded to.
      accumulation_type: dtype of the accumulation.
      lhs_component_count, rhs_component_count: number of components that represent one element.
      num_primitive_operations: number of products of components that are summed.
      allow_imprecise_accumulation: whether the hardware may accumulate in lower precision in some
        steps.

    >>> x = jnp.ones((2, 2))
    >>> algorithm = lax.DotAlgorithm(jnp.float32, jnp.float32, jnp.float32)
    >>> lax.dot(x, x, precision=algorithm).shape
    (2, 2)
    """

    lhs_precision_type: DTypeLike
    rhs_precision_type: DTypeLike
    accumulation_type: DTypeLike
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    @property
    def runs_on_cpu(self) -> bool:
        lhs, rhs, sums = (np.dtype(t) for t in self[:3])
        return any(
            p.on_cpu
            and p.element is not None
            and (p.element, p.element, p.sums) == (lhs, rhs, sums)
            and self[3:] == (1, 1, p.products, p.imprecise)
            for p in _PRESETS.values()
        )

    def _convert_to_hlo_attr(self, lhs_dtype: Any, rhs_dtype: Any) -> Any:
        return hlo.DotAlgorithm.get(
            _element_type(self.lhs_precision_type),
            _element_type(self.rhs_precision_type),
            _element_type(self.accumulation_type),
            self.lhs_component_count,
            self.rhs_component_count,
            self.num_primitive_operations,
            self.allow_imprecise_accumulation,
        )


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms for dot products: operand types, accumulation type, number of products.

    `ANY_F8` is any 8-bit float type. `BF16_BF16_F32_X3` computes a float32 product by three
    bfloat16 products.

    >>> x = jnp.ones((2, 2))
    >>> lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32).shape
    (2, 2)
    """

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[DTypeLike, ...] | None:
        """Dtypes of the left operand that need no conversion; None for any."""
        return _PRESETS[self].factors

    @property
    def supported_rhs_types(self) -> tuple[DTypeLike, ...] | None:
        """Dtypes of the right operand that need no conversion; None for any."""
        return _PRESETS[self].factors

    @property
    def accumulation_type(self) -> DTypeLike | None:
        """The dtype of the accumulation; None if the hardware chooses it."""
        return _PRESETS[self].sums

    @property
    def runs_on_cpu(self) -> bool:
        return _PRESETS[self].on_cpu

    def supported_output_types(
        self, lhs_dtype: Any, rhs_dtype: Any
    ) -> tuple[DTypeLike, ...] | None:
        """Return the possible result dtypes for operands of these dtypes; None for any."""
        preset = _PRESETS[self]
        if preset.outputs is not None:
            return preset.outputs
        if preset.sums is None:
            return None
        narrow = preset.narrow_output
        if narrow is not None and np.dtype(lhs_dtype) == np.dtype(rhs_dtype) == np.dtype(narrow):
            return (preset.sums, narrow)
        return (preset.sums,)

    def _convert_to_hlo_attr(self, lhs_dtype: Any, rhs_dtype: Any) -> Any:
        preset = _PRESETS[self]
        if preset.element is not None:
            lhs = rhs = _element_type(preset.element)
        elif self is DotAlgorithmPreset.DEFAULT:
            return None
        else:
            for what, dtype in (("lhs", lhs_dtype), ("rhs", rhs_dtype)):
                if not _is_float8(dtype):
                    raise ValueError(
                        f"The dot algorithm '{self}' requires both inputs to have float8 dtypes, got {what} "
                        f"dtype {np.dtype(dtype).name}."
                    )
            lhs, rhs = mlir.dtype_to_ir_type(lhs_dtype), mlir.dtype_to_ir_type(rhs_dtype)
        sums = ir.F32Type.get() if preset.sums is None else _element_type(preset.sums)
        return hlo.DotAlgorithm.get(lhs, rhs, sums, 1, 1, preset.products, preset.imprecise)


class _Preset(NamedTuple):
    element: Any = None  # dtype of the operands' components, or "tf32"
    sums: Any = None
    factors: Any = None
    products: int = 1
    on_cpu: bool = False
    narrow_output: Any = None
    outputs: Any = None
    imprecise: bool = False


_bf16, _f16, _f32, _f64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64
_F8_OUTPUTS = (
    _f32,
    _f16,
    _bf16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e4m3b11fnuz,
)
_A = DotAlgorithmPreset
_PRESETS: dict[DotAlgorithmPreset, _Preset] = {
    _A.DEFAULT: _Preset(on_cpu=True),
    _A.ANY_F8_ANY_F8_F32: _Preset(sums=_f32, outputs=_F8_OUTPUTS),
    _A.ANY_F8_ANY_F8_F32_FAST_ACCUM: _Preset(sums=_f32, outputs=_F8_OUTPUTS, imprecise=True),
    _A.ANY_F8_ANY_F8_ANY: _Preset(),
    _A.ANY_F8_ANY_F8_ANY_FAST_ACCUM: _Preset(imprecise=True),
    _A.F16_F16_F16: _Preset(_f16, _f16, (_f16,), on_cpu=True),
    _A.F16_F16_F32: _Preset(_f16, _f32, (_f16,), narrow_output=_f16),
    _A.BF16_BF16_BF16: _Preset(_bf16, _bf16, (_bf16, _f32)),
    _A.BF16_BF16_F32: _Preset(_bf16, _f32, (_bf16, _f32), on_cpu=True, narrow_output=_bf16),
    _A.BF16_BF16_F32_X3: _Preset(_bf16, _f32, (_f32,), 3, on_cpu=True),
    _A.BF16_BF16_F32_X6: _Preset(_bf16, _f32, (_f32,), 6, on_cpu=True),
    _A.BF16_BF16_F32_X9: _Preset(_bf16, _f32, (_f32,), 9),
    _A.TF32_TF32_F32: _Preset("tf32", _f32, (_f32,)),
    _A.TF32_TF32_F32_X3: _Preset("tf32", _f32, (_f32,), 3),
    _A.F32_F32_F32: _Preset(_f32, _f32, (_f32,), on_cpu=True),
    _A.F64_F64_F64: _Preset(_f64, _f64, (_f64,), on_cpu=True),
}

CanonicalPrecision = None | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset
PrecisionLike = (
    None
    | str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
)


def canonicalize_precision(precision: PrecisionLike) -> CanonicalPrecision:
    """Convert a `precision` argument to a pair of precisions for the operands, or an algorithm.

    None means the value of `jax.default_matmul_precision`.

    Raises:
      ValueError: if it is not a valid precision.
    """
    if precision is None:
        default = config.default_matmul_precision.value
        return None if default is None else canonicalize_precision(default)
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str):
        single = _PRECISION_NAMES.get(precision)
        if single is not None:
            return (single, single)
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    elif isinstance(precision, (tuple, list)) and len(precision) == 2:
        pair = tuple(
            [p if isinstance(p, Precision) else _PRECISION_NAMES.get(p) for p in precision]
        )
        if None not in pair:
            return pair
    raise ValueError(
        "Precision argument must be one of:\n"
        "- None,\n"
        f"- a string in {[*_PRECISION_NAMES]},\n"
        "- a lax.Precision value,\n"
        "- a tuple of two lax.Precision values or strings,\n"
        "- a lax.DotAlgorithmPreset or the name of one of these presets, or\n"
        "- a lax.DotAlgorithm value;\n"
        f"but got {precision}."
    )


def precision_attr(precision: CanonicalPrecision) -> Any:
    """Return the precisions of both operands as an attribute for StableHLO ops."""
    if not isinstance(precision, tuple) or isinstance(precision, DotAlgorithm):
        precision = (Precision.DEFAULT, Precision.DEFAULT)
    return ir.ArrayAttr.get([hlo.PrecisionAttr.get(str(p)) for p in precision])


def _element_type(dtype: Any) -> Any:
    if dtype == "tf32":
        return ir.FloatTF32Type.get()
    return mlir.dtype_to_ir_type(np.dtype(dtype))


def _is_float8(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating) and np.dtype(dtype).itemsize == 1
