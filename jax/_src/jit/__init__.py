"""The parts of `jit`: its primitive, the jits of library functions, why a call was traced again."""
