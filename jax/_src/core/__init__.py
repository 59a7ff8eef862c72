"""The core: types, primitives, traces, jaxprs, effects and their printing."""

from jax._src.core.avals import *
from jax._src.core.avals import _interned
from jax._src.core.compile_time import CompileTimeTrace, ensure_compile_time_eval
from jax._src.core.dims import *
from jax._src.core.effects import *
from jax._src.core.jaxpr import *
from jax._src.core.primitive import Primitive, RuleView, with_subfuns
from jax._src.core.printing import *
from jax._src.core.refs import *
from jax._src.core.structs import ShapeDtypeStruct
from jax._src.core.trace import *
from jax._src.core.typecheck import JaxprTypeError, check_jaxpr, custom_typechecks
from jax._src.errors import (
    ConcretizationTypeError,
    ShardingTypeError as ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
