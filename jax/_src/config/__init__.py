"""Options of JAX: `jax.config`, `JAX_*` environment variables, context managers, cache keys."""

from jax._src.config._flags import *  # noqa: F403
from jax._src.config._flags import _check_vma as _check_vma
from jax._src.config._flags import _transfer_guard as _transfer_guard
from jax._src.config._state import (
    Config as Config,
)
from jax._src.config._state import (
    Flag as Flag,
)
from jax._src.config._state import (
    NoDefault as NoDefault,
)
from jax._src.config._state import (
    State as State,
)
from jax._src.config._state import (
    StateContextManager as StateContextManager,
)
from jax._src.config._state import (
    UserConfig as UserConfig,
)
from jax._src.config._state import (
    UserContext as UserContext,
)
from jax._src.config._state import (
    bool_env as bool_env,
)
from jax._src.config._state import (
    bool_flag as bool_flag,
)
from jax._src.config._state import (
    bool_state as bool_state,
)
from jax._src.config._state import (
    config as config,
)
from jax._src.config._state import (
    context_config as context_config,
)
from jax._src.config._state import (
    enum_class_state as enum_class_state,
)
from jax._src.config._state import (
    enum_flag as enum_flag,
)
from jax._src.config._state import (
    enum_state as enum_state,
)
from jax._src.config._state import (
    float_flag as float_flag,
)
from jax._src.config._state import (
    float_state as float_state,
)
from jax._src.config._state import (
    int_env as int_env,
)
from jax._src.config._state import (
    int_flag as int_flag,
)
from jax._src.config._state import (
    int_state as int_state,
)
from jax._src.config._state import (
    make_user_context as make_user_context,
)
from jax._src.config._state import (
    no_default as no_default,
)
from jax._src.config._state import (
    optional_enum_state as optional_enum_state,
)
from jax._src.config._state import (
    optional_string_state as optional_string_state,
)
from jax._src.config._state import (
    string_flag as string_flag,
)
from jax._src.config._state import (
    string_or_object_state as string_or_object_state,
)
from jax._src.config._state import (
    string_state as string_state,
)
from jax._src.config._state import (
    unset as unset,
)
from jax._src.lib import config_ext as _config_ext

trace_context = _config_ext.trace_context
trace_context_names = _config_ext.trace_context_names

update = config.update
parse_flags_with_absl = config.parse_flags_with_absl
