"""Transformations: derivatives, Jacobians, `vmap`, linear calls, explicit sharding."""
