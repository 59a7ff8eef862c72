"""Functions that arrange elements: shapes, slices, gathers and scatters."""

# RUN: %python %s | %filecheck %s

from printing import print_ir

import jax.numpy as jnp
from jax import lax


# CHECK-LABEL: TEST: concatenate float32[2,3] float32[2,5]
# CHECK: stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
@print_ir("float32[2,3]", "float32[2,5]")
def concatenate(x, y):
    return jnp.concatenate([x, y], axis=1)


# CHECK-LABEL: TEST: transpose float32[2,3,4]
# CHECK: stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
@print_ir("float32[2,3,4]")
def transpose(x):
    return lax.transpose(x, (2, 0, 1))


# CHECK-LABEL: TEST: flatten float32[2,3]
# CHECK: stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6xf32>
@print_ir("float32[2,3]")
def flatten(x):
    return x.reshape(-1)


# CHECK-LABEL: TEST: pad float32[2,3]
# CHECK: stablehlo.pad %arg0, {{.*}}, low = [1, 0], high = [2, -1], interior = [0, 1]
# CHECK-SAME: -> tensor<5x4xf32>
@print_ir("float32[2,3]")
def pad(x):
    return lax.pad(x, 0.0, [(1, 2, 0), (0, -1, 1)])


# CHECK-LABEL: TEST: every_second float32[8,3]
# CHECK: stablehlo.slice %arg0 [1:8:2, 0:3] : (tensor<8x3xf32>) -> tensor<4x3xf32>
@print_ir("float32[8,3]")
def every_second(x):
    return x[1::2]


# CHECK-LABEL: TEST: reverse float32[8]
# CHECK: stablehlo.reverse %arg0, dims = [0] : tensor<8xf32>
@print_ir("float32[8]")
def reverse(x):
    return x[::-1]


# Indices from the end are allowed, so that a negative one has the length added.
# CHECK-LABEL: TEST: dynamic_slice float32[8] int32[]
# CHECK: %[[NEGATIVE:.*]] = stablehlo.compare LT, %arg1
# CHECK: %[[FROM_END:.*]] = stablehlo.add %arg1
# CHECK: %[[START:.*]] = stablehlo.select %[[NEGATIVE]], %[[FROM_END]], %arg1
# CHECK-NEXT: stablehlo.dynamic_slice %arg0, %[[START]], sizes = [3]
@print_ir("float32[8]", "int32[]")
def dynamic_slice(x, i):
    return lax.dynamic_slice(x, (i,), (3,))


# CHECK-LABEL: TEST: update float32[8] float32[2] uint32[]
# CHECK-NOT: stablehlo.compare
# CHECK: stablehlo.dynamic_update_slice %arg0, %arg1
@print_ir("float32[8]", "float32[2]", "uint32[]")
def update(x, new, i):
    return lax.dynamic_update_slice(x, new, (i,))


# CHECK-LABEL: TEST: rows_or_nan float32[8,2] int32[3]
# CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, {{.*}}) <{dimension_numbers = #stablehlo.gather<
# CHECK-SAME: offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>
# CHECK-SAME: slice_sizes = array<i64: 1, 2>
# CHECK: stablehlo.constant dense<0x7FC00000> : tensor<f32>
# CHECK: stablehlo.select {{.*}}, %[[ROWS]], {{.*}} : tensor<3x2xi1>, tensor<3x2xf32>
@print_ir("float32[8,2]", "int32[3]")
def rows_or_nan(x, i):
    return x.at[i].get(mode="fill")


# CHECK-LABEL: TEST: rows_inside float32[8,2] uint32[3]
# CHECK: "stablehlo.gather"
# CHECK-NOT: stablehlo.select
# CHECK: return
@print_ir("float32[8,2]", "uint32[3]")
def rows_inside(x, i):
    return x.at[i].get(mode="promise_in_bounds")


# CHECK-LABEL: TEST: scatter_add float32[8] int32[3]
# CHECK: "stablehlo.scatter"(%arg0, {{.*}}indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<
# CHECK-SAME: inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false
# CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>):
# CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[Y]] : tensor<f32>
# CHECK-NEXT: stablehlo.return %[[SUM]]
@print_ir("float32[8]", "int32[3]")
def scatter_add(x, i):
    return x.at[i].add(1.0)


# CHECK-LABEL: TEST: scatter_last float32[8] int32[3]
# CHECK: "stablehlo.scatter"{{.*}}unique_indices = true
# CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %[[NEW:.*]]: tensor<f32>):
# CHECK-NEXT: stablehlo.return %[[NEW]]
@print_ir("float32[8]", "int32[3]")
def scatter_last(x, i):
    return x.at[i].set(1.0, unique_indices=True)
