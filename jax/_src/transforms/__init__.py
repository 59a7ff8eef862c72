"""Functions of functions: derivatives, Jacobians, `vmap`, linear calls, modes of sharding."""
