"""Functions of libraries and of the host, which are called by name."""

# RUN: %python %s | %filecheck %s

import numpy as np
from printing import print_ir

import jax
from jax import lax

vector = jax.ShapeDtypeStruct((4,), np.float32)


# CHECK-LABEL: TEST: ffi_call float32[4]
# CHECK: stablehlo.custom_call @name.of_library(%arg0) {api_version = 4 : i32
# CHECK-SAME: backend_config = {count = 3 : i32, text = "a"}
# CHECK-SAME: has_side_effect = true
@print_ir("float32[4]")
def ffi_call(x):
    call = jax.ffi.ffi_call("name.of_library", vector, has_side_effect=True)
    return call(x, count=np.int32(3), text="a")


# CHECK-LABEL: TEST: aliased float32[4]
# CHECK: stablehlo.custom_call @update(%arg0)
# CHECK-SAME: output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0
@print_ir("float32[4]")
def aliased(x):
    return jax.ffi.ffi_call("update", vector, input_output_aliases={0: 0})(x)


# CHECK-LABEL: TEST: pure_callback float32[4]
# CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0)
# CHECK-NOT: has_side_effect
# CHECK: return
@print_ir("float32[4]")
def pure_callback(x):
    return jax.pure_callback(np.sin, vector, x)


# CHECK-LABEL: TEST: io_callback float32[4]
# CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0){{.*}}has_side_effect = true
@print_ir("float32[4]")
def io_callback(x):
    return jax.experimental.io_callback(np.sin, vector, x)


# Ordered ones pass a token on, which the module takes and returns.
# CHECK-LABEL: TEST: ordered float32[4]
# CHECK: func.func public @main(%arg0: !stablehlo.token{{.*}}, %arg1: tensor<4xf32>) -> (!stablehlo.token
# CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0, %arg1)
@print_ir("float32[4]")
def ordered(x):
    return jax.experimental.io_callback(np.sin, vector, x, ordered=True)


# CHECK-LABEL: TEST: cholesky float32[3,3]
# CHECK: %[[FACTOR:.*]]:2 = stablehlo.custom_call @lapack_spotrf_ffi(%arg0)
# CHECK-SAME: uplo = 76 : ui8
# CHECK: stablehlo.constant dense<0x7FC00000>
# CHECK: stablehlo.select {{.*}}, %[[FACTOR]]#0
@print_ir("float32[3,3]")
def cholesky(x):
    return lax.linalg.cholesky(x, symmetrize_input=False)


# CHECK-LABEL: TEST: cholesky_of_a_gpu float32[3,3]
# CHECK-NOT: lapack
# CHECK: custom_call @cusolver_potrf_ffi
@print_ir("float32[3,3]", platform="cuda")
def cholesky_of_a_gpu(x):
    return lax.linalg.cholesky(x, symmetrize_input=False)


# CHECK-LABEL: TEST: random_bits uint32[2]
# CHECK: stablehlo.constant dense<466688986> : tensor<ui32>
# CHECK: stablehlo.shift_left
@print_ir("uint32[2]")
def random_bits(key):
    return jax.random.bits(jax.random.wrap_key_data(key), (4,))
