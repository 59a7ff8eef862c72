"""Symbolic shapes: dimensions that have names instead of sizes.

Module by module: `expressions` are dimensions and their arithmetic, `values` evaluates them,
`scope` holds constraints, `decision` compares by them, `parsing` reads texts, `specs` makes the
shapes of arguments, `solving` finds the values of variables from the shapes of arguments.
"""

from jax._src.export.shape_poly.expressions import (
    DimExpr as _DimExpr,  # the name that outside code imports
    is_symbolic_dim as is_symbolic_dim,
)
from jax._src.export.shape_poly.scope import SymbolicScope as SymbolicScope
from jax._src.export.shape_poly.specs import (
    symbolic_args_specs as symbolic_args_specs,
    symbolic_shape as symbolic_shape,
)
from jax._src.export.shape_poly.values import UnexpectedDimVar as UnexpectedDimVar
