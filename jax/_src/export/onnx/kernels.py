"""Which element types ONNX operators compute with.

ONNX allows more types than runtimes have kernels for. An operator is used with the types below, which
onnxruntime's CPU kernels have had since version 1.21 (cosines of float64: later); other types are
computed in a wider one.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

# element types of StableHLO, by their names in MLIR
DTYPES = {
    "i1": np.dtype(bool),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
# ... and as `onnx.TensorProto` calls them
ONNX_NAMES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "float16": "FLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "bfloat16": "BFLOAT16",
    "float8_e4m3fn": "FLOAT8E4M3FN",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8_e5m2": "FLOAT8E5M2",
    "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
}

_F = "float16 float32 float64 "
_NUMBERS = _F + "int32 int64 "
_BYTES = "int8 uint8 "
_INTS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
_ALL = "bool " + _INTS + _F
_MOVED = _ALL + "bfloat16 "

_GROUPS = {
    _F: "Floor Ceil Round Exp Log Sqrt Reciprocal Sin Cos Tanh Sigmoid",
    "float16 float32 ": "Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Conv AveragePool",
    _NUMBERS: "Add Sub Mul Div Pow Neg Abs Less LessOrEqual Greater GreaterOrEqual ReduceSum ReduceProd "
    "TopK",
    "float32 float64 int32 int64 ": "CumSum Einsum",
    _NUMBERS + "uint32 uint64 ": "MatMul Max Min",
    _NUMBERS + _BYTES: "ReduceMax ReduceMin ArgMax ArgMin",
    _F + "int8 uint8 ": "MaxPool",
    _NUMBERS + "uint8 ": "Where",
    _NUMBERS + "bool ": "Equal",
    _NUMBERS + "int8 int16 uint8 uint16 uint32 uint64 ": "Mod Sign",
    _INTS: "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot",
    "uint8 uint32 uint64 ": "BitShift",
    "bool ": "And Or Xor Not",
    _F + "bfloat16 ": "IsNaN IsInf",
    _NUMBERS + _BYTES + "uint32 uint64 bool ": "Pad",
    _ALL: "Expand ScatterND",
    _MOVED: "Reshape Unsqueeze Squeeze Transpose Concat Slice Gather GatherElements GatherND",
    "int32 int64 float32 float64 ": "Range",
}
SUPPORTED = {op: frozenset(types.split()) for types, ops in _GROUPS.items() for op in ops.split()}

# Types that hold all values of another one. Sums, differences and products of integers may be
# computed in a wider type or in the other signedness and cut afterwards: they are the same modulo 2^n.
_WIDER = {
    "bool": ("uint8", "int32", "int64"),
    "int8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "uint16": ("int32", "int64", "uint32"),
    "uint32": ("int64",),
    "int32": ("int64",),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float8_e4m3fn": ("float32",),
    "float8_e4m3fnuz": ("float32",),
    "float8_e5m2": ("float32",),
    "float8_e5m2fnuz": ("float32",),
}


def compute_dtype(op: str, dtype: np.dtype) -> np.dtype | None:
    """The type in which `op` is computed for operands of a type; None if there is none."""
    supported = SUPPORTED[op]
    if dtype.name in supported:
        return dtype
    for name in _WIDER.get(dtype.name, ()):
        if name in supported:
            return np.dtype(name)
    return None
