"""Lowering of kernels to modules of Mosaic, TPUs' compiler of kernels.

`call` makes a module of an application of a kernel, and the custom call that has it. `kernel` has the
table of rules and what they share: types, constants and references. The rules are in modules by family:
`arithmetic`, `shapes`, `contraction`, `reductions`, `memory`, `control_flow`, `operations` of TPUs.

An array is a vector, or, without dimensions, a scalar; a reference is a `MemRef`. Booleans are i1 in
registers and i32 in memory; unsigned integers are integers without a sign.
"""
