"""Python functions that compiled programs call to write into buffers on the device."""

from jax._src.buffer_callback import (
    Buffer as Buffer,
    ExecutionContext as ExecutionContext,
    ExecutionStage as ExecutionStage,
    buffer_callback as buffer_callback,
)
