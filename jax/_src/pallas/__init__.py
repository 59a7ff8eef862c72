"""Pallas: kernels written in Python, as functions of references to blocks of arrays.

`blocks` says how arrays are divided into blocks and `grids` what a kernel is run over; `primitives`
and `helpers` are what kernels are written with. `pallas_call` stages a kernel and applies it: the
application has rules for derivatives and batches (`call_rules`), and is compiled by XLA as a loop
over the grid (`interpret`).
"""
