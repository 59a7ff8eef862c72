"""The parts of `jit`: jitted functions, the primitive, jitted library functions, cache misses."""
