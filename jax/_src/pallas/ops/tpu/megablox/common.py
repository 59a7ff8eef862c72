"""Which types grouped products take, by the device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jax._src.dtypes import bfloat16
from jax._src.xla_bridge.queries import devices

_BFLOAT16, _FLOAT32 = np.dtype(bfloat16), np.dtype(np.float32)


def is_tpu() -> bool:
    """Return whether the first device is a TPU."""
    return tpu_kind().startswith("TPU")


def tpu_kind() -> str:
    """Return the kind of the first device."""
    return str(devices()[0].device_kind)


def tpu_generation() -> int:
    """Return the generation of the first device, which must be a TPU."""
    match = re.match(r"TPU( v)?(\d+)", tpu_kind())
    if match is None:
        raise NotImplementedError("only TPU devices are supported")
    return int(match[2])


def supports_bfloat16_matmul() -> bool:
    """Return whether the first device multiplies matrices of bfloat16."""
    return not is_tpu() or tpu_generation() >= 4


def assert_is_supported_dtype(dtype: Any) -> None:
    """Raise ValueError unless grouped products take matrices of a dtype."""
    if np.dtype(dtype) not in (_BFLOAT16, _FLOAT32):
        raise ValueError(f"Expected bfloat16 or float32 array but got {np.dtype(dtype)}.")


def select_input_dtype(lhs: Any, rhs: Any) -> Any:
    """Return the dtype that tiles are converted to before they are multiplied."""
    narrow = lhs.dtype == _BFLOAT16 and rhs.dtype == _BFLOAT16
    return _BFLOAT16 if narrow and supports_bfloat16_matmul() else _FLOAT32
