"""Who refers to a value that outlives the function that was traced: `jax.checking_leaks`."""

from __future__ import annotations

import collections
import functools
import gc
import re
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from jax._src import source_info_util

_ATTRIBUTES = "__dict__"
_MOST_STEPS = 12
_MOST_OBJECTS = 2000  # at each distance


def describe_referrer(leaked: object, ignored: Sequence[object] = ()) -> str | None:
    """Say how a value can be reached from a global or local variable of the user's program.

    Args:
      leaked: the value.
      ignored: objects that refer to it and do not count, such as those of the caller.

    Returns:
      An expression such as `model.state['layers'][0]`, with the variable's module or function in
      front; or None if no variable is found.
    """
    stack = list(_stack())
    frames = [f for f in stack if source_info_util.is_user_filename(f.f_code.co_filename)]
    seen = {id(x) for x in (*ignored, *stack)} | {id(leaked), id(stack)}
    level: list[tuple[object, str]] = [(leaked, "")]
    seen.update((id(seen), id(level), id(frames), id(ignored)))
    for _ in range(_MOST_STEPS):
        for obj, path in level:
            if (variable := _variable_of(obj, frames)) is not None:
                return variable + path
        found: list[tuple[object, str]] = []
        objects = [obj for obj, _ in level]
        referrers = gc.get_referrers(*objects) + _frozen_globals(objects)
        seen.update((id(found), id(objects), id(referrers)))
        for pair in level:
            seen.add(id(pair))
        for referrer in referrers:
            if id(referrer) in seen or _is_internal(referrer):
                continue
            for obj, path in level:
                step = _step(referrer, obj)
                if step is not None:
                    seen.add(id(referrer))
                    found.append((referrer, _joined(step, path)))
                    break
        level = found[:_MOST_OBJECTS]
        if not level:
            return None
    return None


def _frozen_globals(objects: Sequence[object]) -> list[dict[str, Any]]:
    """Dictionaries of modules that refer to one of some objects, if the garbage collector may hide them."""
    if not gc.get_freeze_count():
        return []
    ids = {id(obj) for obj in objects}
    return [vars(m) for m in _modules() if any(id(x) in ids for x in list(vars(m).values()))]


def _stack() -> Iterable[types.FrameType]:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_internal(obj: object) -> bool:
    """Whether an object belongs to tracing, or to this search."""
    cls = type(obj)
    if not isinstance(obj, types.FrameType) and (frame := _frame_of(obj)) is not None:
        return not source_info_util.is_user_filename(frame.f_code.co_filename)
    return cls.__module__.startswith("jax._src") and cls.__name__.endswith(("Trace", "Eqn"))


def _variable_of(obj: object, frames: Sequence[types.FrameType]) -> str | None:
    """The variable whose value is `obj`: a module's, a class's or that of a running function."""
    if isinstance(obj, types.ModuleType):
        return obj.__name__
    if isinstance(obj, type):
        return f"{obj.__module__}.{obj.__qualname__}"
    if isinstance(obj, dict):
        name = next((m.__name__ for m in _modules() if vars(m) is obj), None)
        if name is not None:
            return name
    for frame in frames:
        if frame.f_locals is frame.f_globals:
            continue
        for name, value in frame.f_locals.items():
            if value is obj:
                code = frame.f_code
                place = f"{code.co_filename}:{frame.f_lineno}"
                return f"(variable of {code.co_qualname} at {place}) {name}"
    return None


def _joined(step: str, path: str) -> str:
    if step == _ATTRIBUTES:  # items of this dictionary are attributes
        return re.sub(r"^\['(\w+)'\]", r".\1", path)
    return step + path


def _step(referrer: object, obj: object) -> str | None:
    """How one gets from an object to one that it refers to; None if that is not known."""
    if isinstance(referrer, dict):
        return _step_of_dict(referrer, obj)
    if isinstance(referrer, tuple) and isinstance(obj, types.CellType):
        return "" if any(x is obj for x in referrer) else None
    if isinstance(referrer, (list, tuple, collections.deque)):
        return next((f"[{i}]" for i, x in enumerate(referrer) if x is obj), None)
    if isinstance(referrer, (set, frozenset)):
        return "{...}" if any(x is obj for x in referrer) else None
    if isinstance(referrer, types.CellType):
        return "" if _content(referrer) is obj else None
    if isinstance(referrer, types.FunctionType):
        return _step_of_function(referrer, obj)
    if isinstance(referrer, types.ModuleType):
        return "" if vars(referrer) is obj else None
    if isinstance(referrer, functools.partial):
        kinds = dict(func=referrer.func, args=referrer.args, keywords=referrer.keywords)
        return _named(kinds, obj)
    if isinstance(referrer, types.MethodType):
        return ".__self__" if referrer.__self__ is obj else None
    if isinstance(referrer, functools._lru_cache_wrapper):
        return f" (cached results of {getattr(referrer, '__qualname__', referrer)})"
    if isinstance(referrer, type) and isinstance(obj, dict):
        return _ATTRIBUTES  # its dictionary, which `vars` hides
    frame = _frame_of(referrer)
    if frame is not None:
        name = next((name for name, x in frame.f_locals.items() if x is obj), None)
        return name and f" variable {name} of {frame.f_code.co_qualname}"
    if isinstance(referrer, types.TracebackType):
        return "" if obj is referrer.tb_frame or obj is referrer.tb_next else None
    if isinstance(referrer, BaseException) and referrer.__traceback__ is obj:
        return ".__traceback__:"
    attributes = {name: value for name, value in _attributes(referrer)}
    return _named(attributes, obj)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _frame_of(obj: object) -> types.FrameType | None:
    """The frame of a call: a frame itself, or that of a generator or coroutine that is not finished."""
    if isinstance(obj, types.GeneratorType):
        return obj.gi_frame
    if isinstance(obj, types.CoroutineType):
        return obj.cr_frame
    if isinstance(obj, types.AsyncGeneratorType):
        return obj.ag_frame
    return obj if isinstance(obj, types.FrameType) else None


def _step_of_dict(referrer: dict[Any, Any], obj: object) -> str | None:
    for key, value in referrer.items():
        if value is obj:
            if any(vars(m) is referrer for m in _modules()):
                return f".{key}"
            return f"[{key!r}]"
    return "{...}" if any(key is obj for key in referrer) else None


def _modules() -> list[types.ModuleType]:
    return [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]


def _step_of_function(referrer: types.FunctionType, obj: object) -> str | None:
    code = referrer.__code__
    place = f"{referrer.__qualname__} at {code.co_filename}:{code.co_firstlineno}"
    if referrer.__closure__ is obj:
        return f" ({', '.join(code.co_freevars)}: closed over by {place})"
    if referrer.__defaults__ is obj or referrer.__kwdefaults__ is obj:
        return f" (default of {place})"
    return _named(vars(referrer), obj)


def _attributes(obj: object) -> Iterable[tuple[str, object]]:
    yield from getattr(obj, "__dict__", {}).items()
    if hasattr(obj, "__dict__"):
        yield _ATTRIBUTES, obj.__dict__
    for cls in type(obj).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                try:
                    yield name, object.__getattribute__(obj, name)
                except AttributeError:
                    pass


def _named(values: dict[str, Any], obj: object) -> str | None:
    for name, value in values.items():
        if value is obj:
            return name if name == _ATTRIBUTES else f".{name}"
    return None
