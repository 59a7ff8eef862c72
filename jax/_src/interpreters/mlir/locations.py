"""Source locations of lowered operations: the name stack, then the user's call stack."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any

from jax._src import config, source_info_util
from jax._src.lib.mlir import ir, jax_mlir_ext

if TYPE_CHECKING:
    from jax._src.interpreters.mlir.context import ModuleContext


class TracebackCaches:
    """Caches for the locations of one lowering: of tracebacks, and texts of name stacks."""

    __slots__ = ("traceback_to_location", "prefixes", "unknown")

    def __init__(self, context: Any):
        limit = config.traceback_in_locations_limit.value
        if not config.include_full_tracebacks_in_locations.value:
            limit = 1
        pattern = config.hlo_source_file_canonicalization_regex.value
        # Native code, which decodes each code object and each traceback only once.
        self.traceback_to_location = jax_mlir_ext.TracebackToLocationCache(
            code_to_filename=_filename_of(pattern), frame_limit=limit, context=context
        )
        self.unknown = ir.Location.unknown(context)
        self.prefixes: dict[int, tuple[Any, str]] = {}


def _filename_of(pattern: str | None) -> Any:
    is_user_filename = source_info_util.is_user_filename

    def code_to_filename(code: types.CodeType) -> str | None:
        filename = code.co_filename
        if not is_user_filename(filename):
            return None
        return re.sub(pattern, "", filename) if pattern else filename

    return code_to_filename


def name_stack_prefix(caches: TracebackCaches, name_stack: object) -> str:
    """Returns the name stack as a prefix, like `'jit(f)/scope/'`."""
    entry = caches.prefixes.get(id(name_stack))
    if entry is not None and entry[0] is name_stack:
        return entry[1]
    text = str(name_stack)
    prefix = f"{text}/" if text else ""
    caches.prefixes[id(name_stack)] = (name_stack, prefix)
    return prefix


def traceback_to_location(ctx: ModuleContext, traceback: Any, outer: Any = None) -> Any:
    """Returns the location of a traceback, as called from `outer`; unknown without user frames."""
    caches = ctx.traceback_caches
    if traceback is None:
        if outer is None:
            return caches.unknown
        traceback, outer = outer, None
    loc = caches.traceback_to_location.get(traceback)
    if outer is not None and outer is not traceback:
        outer_loc = caches.traceback_to_location.get(outer)
        if outer_loc != caches.unknown:
            if loc == caches.unknown:
                return outer_loc
            return ir.Location.callsite(loc, [outer_loc])
    return loc


def source_info_to_location(
    ctx: ModuleContext, primitive: Any, name_stack: Any, traceback: Any, outer_traceback: Any = None
) -> Any:
    """Returns the location of an operation.

    Args:
      ctx: the `ModuleContext`.
      primitive: the name of the operation: a `Primitive`, a string or None.
      name_stack: the scopes and transformations around it.
      traceback: its traceback, or None.
      outer_traceback: the traceback of the operation that contains it, such as a loop.
    """
    loc = traceback_to_location(ctx, traceback, outer_traceback)
    if primitive is None:
        name = str(name_stack)
        return ir.Location.name(name, loc) if name else loc
    name = primitive if isinstance(primitive, str) else primitive.name
    prefix = name_stack_prefix(ctx.traceback_caches, name_stack)
    return ir.Location.name(prefix + name, loc)
