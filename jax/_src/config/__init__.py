"""Options of JAX: `jax.config`, `JAX_*` environment variables, context managers, cache keys."""

from jax._src.config import _missing as _missing
from jax._src.config._flags import *
from jax._src.config._flags import _check_vma as _check_vma, _transfer_guard as _transfer_guard
from jax._src.config._state import (
    Config as Config,
    Flag as Flag,
    NoDefault as NoDefault,
    State as State,
    StateContextManager as StateContextManager,
    UserConfig as UserConfig,
    UserContext as UserContext,
    bool_env as bool_env,
    bool_flag as bool_flag,
    bool_state as bool_state,
    config as config,
    context_config as context_config,
    enum_class_state as enum_class_state,
    enum_flag as enum_flag,
    enum_state as enum_state,
    float_flag as float_flag,
    float_state as float_state,
    int_env as int_env,
    int_flag as int_flag,
    int_state as int_state,
    make_user_context as make_user_context,
    no_default as no_default,
    optional_enum_state as optional_enum_state,
    optional_string_state as optional_string_state,
    string_flag as string_flag,
    string_or_object_state as string_or_object_state,
    string_state as string_state,
    unset as unset,
    without_effect as without_effect,
)
from jax._src.lib import config_ext as _config_ext

trace_context = _config_ext.trace_context
trace_context_names = _config_ext.trace_context_names

update = config.update
parse_flags_with_absl = config.parse_flags_with_absl
