"""Implementation of the configuration: one holder for each option, and the `config` object.

A `State` has a global and a thread-local value. jaxlib keeps both, since some of them are part of
the jit cache's key. A `Flag` has only a global value. Both are read by `.value`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NoReturn, TypeVar

from jax._src.lib import config_ext

T = TypeVar("T")
Parser = Callable[[str, Any], Any]
Hook = Callable[[Any], None]

unset = config_ext.unset
_TRUE = frozenset(("y", "yes", "t", "true", "on", "1"))
_FALSE = frozenset(("n", "no", "f", "false", "off", "0"))


class NoDefault:
    """The type of `no_default`: the argument of the context manager is required."""

    def __repr__(self) -> str:
        return "<no default>"


no_default = NoDefault()


# A comment instead of a docstring, since `__doc__` of each instance is the option's help.
# The value is read in C++ (`state.value`): thread-local if set there, global otherwise.
class State(config_ext.Config):
    def __init__(
        self,
        name: str,
        default: Any,
        help: str,
        *,
        parser: Parser,
        default_context_manager_value: Any = no_default,
        update_global_hook: Hook | None = None,
        update_thread_local_hook: Hook | None = None,
        include_in_jit_key: bool = False,
        include_in_trace_context: bool = False,
    ):
        super().__init__(
            name,
            default,
            include_in_jit_key=include_in_jit_key,
            include_in_trace_context=include_in_trace_context,
        )
        self.__name__ = name.removeprefix("jax_")
        self.__doc__ = f"Context manager for the option `{name}`.\n\n{help}"
        self._name = name
        self._parser = parser
        self._default_context_manager_value = default_context_manager_value
        self._update_global_hook = update_global_hook
        self._update_thread_local_hook = update_thread_local_hook
        self._no_effect: str | None = None
        self._default = default
        if update_global_hook is not None:
            update_global_hook(default)

    def __call__(self, new_val: Any = no_default) -> StateContextManager:
        """A context manager (or decorator) that sets the option for this thread."""
        if new_val is no_default:
            new_val = self._default_context_manager_value
            if new_val is no_default:
                raise TypeError(
                    f"jax.{self.__name__}() needs an argument: the value of the option"
                    f" {self._name} inside the context"
                )
        new_val = self._parse(new_val)
        self._warn_if_without_effect(new_val, stacklevel=4)
        return StateContextManager(self, new_val)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth value of the option {self._name} itself has no meaning:"
            " read its attribute `value`"
        )

    def __repr__(self) -> str:
        return f"<option {self._name}: {self.value!r}>"

    def _set(self, value: Any) -> None:
        value = self._parse(value)
        self._warn_if_without_effect(value, stacklevel=5)
        if self._update_global_hook is not None:
            self._update_global_hook(value)  # first: it may refuse the value
        self.set_global(value)

    def _parse(self, value: Any) -> Any:
        return self._parser(self._name, value)

    def _warn_if_without_effect(self, value: Any, stacklevel: int) -> None:
        if self._no_effect and value not in (self.get_global(), self._default):
            _warn_without_effect(self._name, self._no_effect, stacklevel)


class StateContextManager:
    """The result of calling a `State`. It can be entered repeatedly, as a decorator in any thread."""

    __slots__ = ("_state", "_new", "_previous")

    def __init__(self, state: State, new_val: Any):
        self._state = state
        self._new = new_val
        self._previous: list[Any] = []

    def __enter__(self) -> None:
        self._previous.append(_swap(self._state, self._new))

    def __exit__(self, *exc_info: Any) -> None:
        _swap(self._state, self._previous.pop())

    def __call__(self, fun: Callable) -> Callable:
        state, new = self._state, self._new

        @functools.wraps(fun)
        def with_option(*args, **kwargs):
            previous = _swap(state, new)
            try:
                return fun(*args, **kwargs)
            finally:
                _swap(state, previous)

        return with_option


def _swap(state: State, new: Any) -> Any:
    if state._update_thread_local_hook is not None:
        state._update_thread_local_hook(None if new is unset else new)
    return state.swap_local(new)


# An option with one value for all threads, usually read only once (when a backend starts).
class Flag(Generic[T]):
    __slots__ = ("_name", "_parser", "_no_effect", "_default", "__doc__", "value")

    def __init__(self, name: str, default: T, help: str, parser: Parser):
        self._name = name
        self._parser = parser
        self._no_effect: str | None = None
        self._default = default
        self.__doc__ = help
        self.value: T = default

    @property
    def name(self) -> str:
        return self._name

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth value of the option {self._name} itself has no meaning:"
            " read its attribute `value`"
        )

    def __repr__(self) -> str:
        return f"<option {self._name}: {self.value!r}>"

    def _set(self, value: Any) -> None:
        value = self._parser(self._name, value)
        if self._no_effect and value not in (self.value, self._default):
            _warn_without_effect(self._name, self._no_effect)
        self.value = value


def without_effect(reason: str, *options: State | Flag) -> None:
    """Declares options without effect: setting one gives a warning with the reason."""
    for option in options:
        option._no_effect = reason
        if option._name.upper() in os.environ:
            _warn_without_effect(option._name, reason)


def _warn_without_effect(name: str, reason: str, stacklevel: int = 4) -> None:
    warnings.warn(f"the option {name} has no effect: {reason}", stacklevel=stacklevel)


class Config:
    """All options of JAX: `jax.config`.

    `jax.config.update(name, value)` sets an option for all threads; `jax.config.<name>` is its
    value in this thread. An environment variable with the name in capitals sets the initial value.

    Example:
      >>> import jax
      >>> jax.config.update("jax_debug_nans", False)
      >>> jax.config.jax_debug_nans
      False
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_value_holders", {})
        object.__setattr__(self, "meta", {})
        object.__setattr__(self, "use_absl", False)
        object.__setattr__(self, "_parsed_with_absl", False)

    def update(self, name: str, val: Any) -> None:
        """Sets the option `name` to `val` for all threads.

        Raises:
          AttributeError: the option does not exist.
          ValueError: the option does not accept `val`.
        """
        self._holder(name)._set(val)

    def read(self, name: str) -> Any:
        """The value of the option `name` in this thread."""
        return self._holder(name).value

    @property
    def values(self) -> dict[str, Any]:
        """The values of all options, by name."""
        return {name: holder.value for name, holder in self._value_holders.items()}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are enabled: `jax_enable_x64`."""
        return self._value_holders["jax_enable_x64"].value

    def add_option(self, name: str, holder: State | Flag, opt_type: Any, *meta: Any) -> None:
        """Registers `holder` as the option `name`; `meta` are the arguments of the absl flag."""
        if name in self._value_holders:
            raise ValueError(f"the option {name} is already defined")
        self._value_holders[name] = holder
        self.meta[name] = (opt_type, *meta)

    def config_with_absl(self) -> None:
        """Defines every option as an absl flag, so that `absl.app.run` parses them."""
        from absl import app, flags  # absl is needed only by programs that call this

        if self.use_absl:
            return
        object.__setattr__(self, "use_absl", True)
        for name, (opt_type, help, choices) in self.meta.items():
            default = self._value_holders[name].value
            if isinstance(default, enum.Enum):
                default = default.name.lower()
            if choices is not None:
                flags.DEFINE_enum(name, default, choices, help=help)
            elif opt_type is bool:
                flags.DEFINE_bool(name, bool(default), help=help)
            elif opt_type is int:
                flags.DEFINE_integer(name, default, help=help)
            elif opt_type is float:
                flags.DEFINE_float(name, default, help=help)
            else:
                flags.DEFINE_string(name, default, help=help)
        app.call_after_init(lambda: self.complete_absl_config(flags))

    def complete_absl_config(self, absl_flags: Any) -> None:
        """Copies the values of absl flags that are set on the command line."""
        for name in self._value_holders:
            try:
                flag = absl_flags.FLAGS[name]
            except KeyError:  # an option registered after config_with_absl
                continue
            if flag.present:
                self.update(name, flag.value)

    def parse_flags_with_absl(self) -> None:
        """Reads the `--jax_…` arguments of this process's command line, up to a `--`."""
        if self._parsed_with_absl:
            return
        from absl import flags  # absl is needed only by programs that call this

        self.config_with_absl()
        ours = itertools.takewhile(lambda arg: arg != "--", sys.argv)
        flags.FLAGS(["", *(a for a in ours if a.startswith(("--jax", "--nojax")))])
        self.complete_absl_config(flags)
        object.__setattr__(self, "_parsed_with_absl", True)

    def _holder(self, name: str) -> State | Flag:
        try:
            return self._value_holders[name]
        except (KeyError, TypeError):
            raise AttributeError(self._unknown(name)) from None

    def _unknown(self, name: Any) -> str:
        import difflib  # imported here, since only errors need it

        message = f"Unrecognized config option: {name}"
        near = difflib.get_close_matches(str(name), self._value_holders, n=1)
        if not near and f"jax_{name}" in self._value_holders:
            near = [f"jax_{name}"]
        return f"{message}. Did you mean {near[0]}?" if near else message

    def __getattr__(self, name: str) -> Any:
        holder = self.__dict__["_value_holders"].get(name)
        if holder is None:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(self._unknown(name))
        return holder.value

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"jax.config.{name} cannot be assigned: call jax.config.update({name!r}, {value!r})"
        )

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._value_holders]


config = Config()


# Kinds of options. A parser takes (name, value) and returns the value to store, or raises
# ValueError.


def bool_state(name: str, default: bool, help: str, **kwargs: Any) -> State:
    kwargs.setdefault("default_context_manager_value", True)
    default = bool_env(name.upper(), default)
    return _new_state(name, default, help, parse_bool, bool, None, **kwargs)


def bool_or_word_state(name: str, default: bool, help: str, *, word: str, **kwargs: Any) -> State:
    """An option that is True, False, or one word."""

    def parse(name: str, value: Any) -> bool | str:
        if isinstance(value, str) and value == word:
            return word
        try:
            return parse_bool(name, value)
        except ValueError as err:
            raise ValueError(f"{err}, or {word!r}") from None

    kwargs.setdefault("default_context_manager_value", True)
    default = _parse_env(name, parse, default)
    return _new_state(name, default, help, parse, bool, None, **kwargs)


def int_state(name: str, default: int, help: str, **kwargs: Any) -> State:
    return _new_state(name, _number_env(name, int, default), help, parse_int, int, None, **kwargs)


def float_state(name: str, default: float, help: str, **kwargs: Any) -> State:
    default = _number_env(name, float, default)
    return _new_state(name, default, help, parse_float, float, None, **kwargs)


def string_state(name: str, default: str, help: str, **kwargs: Any) -> State:
    default = os.getenv(name.upper(), default)
    return _new_state(name, default, help, _parse_string, str, None, **kwargs)


def optional_string_state(
    name: str,
    default: str | None,
    help: str,
    *,
    words: Mapping[str, Callable[[], str]] = MappingProxyType({}),
    **kwargs: Any,
) -> State:
    """An option that is a string or None; `words` are strings that stand for others."""

    def parse(name: str, value: Any) -> str | None:
        value = _parse_optional_string(name, value)
        return words[value]() if value in words else value

    default = _parse_env(name, parse, default)
    return _new_state(name, default, help, parse, str, None, **kwargs)


def enum_state(
    name: str, enum_values: Sequence[str], default: str, help: str, **kwargs: Any
) -> State:
    parser = functools.partial(_parse_choice, tuple(enum_values), False)
    default = _parse_env(name, parser, default)
    return _new_state(name, default, help, parser, str, list(enum_values), **kwargs)


def optional_enum_state(
    name: str, enum_values: Sequence[str], default: str | None, help: str, **kwargs: Any
) -> State:
    parser = functools.partial(_parse_choice, tuple(enum_values), True)
    default = _parse_env(name, parser, default)
    return _new_state(name, default, help, parser, str, list(enum_values), **kwargs)


def enum_class_state(
    name: str, enum_class: type[enum.Enum], default: enum.Enum, help: str, **kwargs: Any
) -> State:
    parser = functools.partial(_parse_enum_class, enum_class)
    default = _parse_env(name, parser, default)
    choices = [member.name.lower() for member in enum_class]
    return _new_state(name, default, help, parser, str, choices, **kwargs)


def string_or_object_state(
    name: str, default: Any, help: str, *, validator: Hook | None = None, **kwargs: Any
) -> State:
    def parse(name: str, value: Any) -> Any:
        if validator is not None:
            validator(value)
        return value

    default = _parse_env(name, parse, default)
    return _new_state(name, default, help, parse, str, None, **kwargs)


def bool_flag(name: str, default: bool, help: str = "") -> Flag[bool]:
    return _new_flag(name, bool_env(name.upper(), default), help, parse_bool, bool)


def int_flag(name: str, default: int | None, help: str = "") -> Flag[int | None]:
    return _new_flag(name, _number_env(name, int, default), help, parse_int, int)


def float_flag(name: str, default: float | None, help: str = "") -> Flag[float | None]:
    return _new_flag(name, _number_env(name, float, default), help, parse_float, float)


def string_flag(name: str, default: str, help: str = "") -> Flag[str]:
    return _new_flag(name, os.getenv(name.upper(), default), help, _parse_optional_string, str)


def enum_flag(name: str, default: str, enum_values: Sequence[str], help: str = "") -> Flag[str]:
    parser = functools.partial(_parse_choice, tuple(enum_values), False)
    default = _parse_env(name, parser, default)
    return _new_flag(name, default, help, parser, str, list(enum_values))


def bool_env(varname: str, default: bool) -> bool:
    """The truth value of the environment variable `varname`, or `default` if it is not set."""
    text = os.getenv(varname)
    if text is None:
        return bool(default)
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(
        f"invalid truth value {text!r} of the environment variable {varname}:"
        " write 1, true, yes or on, or 0, false, no or off"
    )


def int_env(varname: str, default: int) -> int:
    """The integer in the environment variable `varname`, or `default` if it is not set."""
    text = os.getenv(varname)
    if text is None:
        return int(default)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"environment variable {varname} is not an integer: {text!r}") from None


def parse_bool(name: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    if value is None:
        return False
    if isinstance(value, str):
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
    elif getattr(value, "shape", ()) == () and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} takes True or False, got {value!r} of type {_type_name(value)}")


def parse_int(name: str, value: Any) -> int | None:
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{name} takes an int or None, got {value!r} of type {_type_name(value)}")
    return value


def parse_float(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name} takes a float or None, got {value!r} of type {_type_name(value)}")
    return float(value)


def _parse_string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} takes a string, got {value!r} of type {_type_name(value)}")
    return value


def _parse_optional_string(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"{name} takes a string or None, got {value!r} of type {_type_name(value)}"
        )
    return value


def _parse_choice(choices: tuple[str, ...], optional: bool, name: str, value: Any) -> str | None:
    if (value is None and optional) or (isinstance(value, str) and value in choices):
        return value
    none = "None or in" if optional else "in"
    raise ValueError(
        f"{name}: new enum value must be {none} {list(choices)}, got {value!r}"
        f" of type {_type_name(value)}"
    )


def _parse_enum_class(enum_class: type[enum.Enum], name: str, value: Any) -> enum.Enum:
    if isinstance(value, enum_class):
        return value
    for member in enum_class:
        if value == member.value or (isinstance(value, str) and value.upper() == member.name):
            return member
    choices = [member.name.lower() for member in enum_class]
    raise ValueError(f"{value!r} is not a valid {enum_class.__name__}: {name} must be in {choices}")


def _type_name(value: Any) -> str:
    return type(value).__name__


def _number_env(name: str, kind: type, default: Any) -> Any:
    return _parse_env(name, lambda name, text: kind(text) if text is not default else text, default)


def _parse_env(name: str, parser: Parser, default: Any) -> Any:
    text = os.getenv(name.upper())
    if text is None:
        return default
    try:
        return parser(name, text)
    except ValueError as err:
        raise ValueError(
            f"Invalid value {text!r} of the environment variable {name.upper()}: {err}"
        ) from None


def _new_state(
    name: str, default: Any, help: str, parser: Parser, opt_type: type, choices: Any, **kwargs: Any
) -> State:
    state = State(name, default, help, parser=parser, **kwargs)
    config.add_option(name, state, opt_type, help, choices)
    return state


def _new_flag(
    name: str, default: Any, help: str, parser: Parser, opt_type: type, choices: Any = None
) -> Flag:
    flag: Flag = Flag(name, default, help, parser)
    config.add_option(name, flag, opt_type, help, choices)
    return flag


# State other than options: set by context managers of other modules, and part of cache keys.


class UserContext:
    """A context manager that sets a user context; see `make_user_context`."""

    __slots__ = ("_state", "_new", "_previous")

    def __init__(self, state: config_ext.Config, new: Any):
        self._state = state
        self._new = new
        self._previous: list[Any] = []

    def __enter__(self) -> None:
        self._previous.append(self._state.swap_local(self._new))

    def __exit__(self, *exc_info: Any) -> None:
        self._state.swap_local(self._previous.pop())


class UserConfig:
    """A value set by the user that is part of the keys of all tracing caches."""

    __slots__ = ("_obj",)

    def __init__(self, default_value: Any = None):
        self._obj = config_ext.Config(
            "user_context", default_value, include_in_jit_key=True, include_in_trace_context=True
        )

    @property
    def value(self) -> Any:
        return self._obj.value

    def get_global(self) -> Any:
        return self._obj.get_global()

    def set_global(self, value: Any) -> None:
        self._obj.set_global(value)

    def __call__(self, new_value: Any) -> UserContext:
        return UserContext(self._obj, new_value)


def make_user_context(default_value: Any = None) -> UserConfig:
    """Makes a context value that traced functions may depend on.

    The value is part of the cache keys of `jit` and similar transformations, so a function is
    traced again for each value.

    Args:
      default_value: the value outside of any context; hashable.

    Returns:
      An object with the attribute `value`; call it with a new value for a context manager.

    Example:
      >>> import jax
      >>> scale = jax.make_user_context(1.0)
      >>> with scale(2.0):
      ...   scale.value
      2.0
    """
    return UserConfig(default_value)


def context_config(name: str, default: Any) -> config_ext.Config:
    """A thread-local value that is part of the cache keys of jit and of tracing."""
    return config_ext.Config(name, default, include_in_jit_key=True, include_in_trace_context=True)
