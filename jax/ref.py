"""References to mutable arrays; see docs/effects_and_refs.md."""

from jax._src.core.refs import AbstractRef as AbstractRef, Ref as Ref
from jax._src.state import discharge_rules as _discharge_rules
from jax._src.state.primitives import (
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
    ref_addupdate as addupdate,
    ref_get as get,
    ref_set as set,
    ref_swap as swap,
)

del _discharge_rules
