"""The core: types, primitives, traces, jaxprs, effects and their printing."""

from jax._src.core.avals import *  # noqa: F401,F403
from jax._src.core.avals import _interned  # noqa: F401
from jax._src.core.dims import *  # noqa: F401,F403
from jax._src.core.effects import *  # noqa: F401,F403
from jax._src.core.hooks import hooks  # noqa: F401
from jax._src.core.jaxpr import *  # noqa: F401,F403
from jax._src.core.primitive import Primitive, RuleView  # noqa: F401
from jax._src.core.printing import *  # noqa: F401,F403
from jax._src.core.structs import ShapeDtypeStruct  # noqa: F401
from jax._src.core.trace import *  # noqa: F401,F403
from jax._src.core.typecheck import JaxprTypeError, check_jaxpr, custom_typechecks  # noqa: F401
from jax._src.errors import (  # noqa: F401
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)


class ShardingTypeError(Exception):
    """The shardings of operands disagree, or an operation cannot tell the sharding of its result."""
