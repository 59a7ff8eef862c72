"""How often random keys are used: a check of jaxprs, and of programs while they run.

`signatures` describes what an operation does with keys, `analysis` derives that for jaxprs from the
rules in the slot `key_use` of primitives, `rules` has those of operations on arrays and of control
flow, `runtime` counts uses under `jax_debug_key_reuse`, and `assertions` is for tests. The rules of
operations on keys are beside them, in `jax._src.random.prng`.
"""
