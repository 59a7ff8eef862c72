"""References to mutable arrays: operations, indexing, views, and discharge.

The types are in `jax._src.core.refs`. A reference is an operand, and effects say how an equation
uses it. Transformations have rules for the operations (`primitives`, `rules`). Discharge turns
references into arrays before a program is compiled.
"""

from jax._src.core.refs import (
    AbstractRef as AbstractRef,
    AccumEffect as AccumEffect,
    ReadEffect as ReadEffect,
    RefEffect as RefEffect,
    WriteEffect as WriteEffect,
)
from jax._src.state import (
    discharge as discharge,
    discharge_rules as discharge_rules,
    indexing as indexing,
    primitives as primitives,
    rules as rules,
    types as types,
)
from jax._src.state.types import (
    StateEffect as StateEffect,
    Transform as Transform,
    TransformedRef as TransformedRef,
    get_ref_aval_from_value as get_ref_aval_from_value,
    shaped_array_ref as shaped_array_ref,
    transform_type as transform_type,
)
