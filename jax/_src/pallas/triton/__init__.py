"""Kernels for GPUs, compiled by Triton.

`core` has the options, `primitives` what kernels for GPUs are written with besides. `lowering` makes a
Triton module of a kernel; the rules of primitives are in `elementwise`, `conversions`, `shapes`,
`reductions`, `products`, `memory` and `control_flow`, and what they share in `kernel`.
"""
