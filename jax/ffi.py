"""Calls of native code from compiled programs, through XLA's foreign function interface."""

from jax._src.ffi import (
    ffi_call as ffi_call,
    include_dir as include_dir,
    pycapsule as pycapsule,
    register_ffi_target as register_ffi_target,
    register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable,
    register_ffi_type as register_ffi_type,
    register_ffi_type_id as register_ffi_type_id,
)
from jax._src.interpreters.mlir import (
    build_ffi_lowering_function as build_ffi_lowering_function,
    ffi_lowering as ffi_lowering,
)
