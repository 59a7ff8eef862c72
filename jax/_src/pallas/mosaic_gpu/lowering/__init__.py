"""Lowering of kernels for GPUs to programs of one lane each: Mosaic GPU.

`kernel.py` has what rules share, `indices.py` positions, `fragments.py` arrays in registers, `views.py`
memory. The rules of primitives are in the other modules; `call.py` makes the custom call, and `launch.py`
the function of the host that starts the kernel.
"""
