"""NaNs and infinities in results: the options `jax_debug_nans` and `jax_debug_infs`.

While one of them is set, every result is checked. If a program gives such a value, its operations
run again, one by one, so that the error names the operation, its line and the types. The arguments
have to be there still: nothing is donated while the options are set, and references get back the
values that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes, source_info_util, traceback_util
from jax._src.array_impl import ArrayImpl
from jax._src.core import ClosedJaxpr
from jax._src.device_put import values as placing
from jax._src.errors import InternalFloatingPointError

traceback_util.register_exclusion(__file__)


def needs_check_special() -> bool:
    """Whether results are checked for NaNs or infinities."""
    return config.debug_nans.value or config.debug_infs.value


def check_special(name: str, bufs: Sequence[Any]) -> None:
    """Raise InternalFloatingPointError if a result of `name` contains a NaN (or an infinity)."""
    if needs_check_special():
        for buf in bufs:
            check_special_array(name, buf)


def check_special_array(name: str, arr: Any) -> Any:
    """Like `check_special` for one array, which is returned."""
    kind = _kind_in(arr)
    if kind is not None:
        raise InternalFloatingPointError(name, kind)
    return arr


def check_results(
    name: str, operands: Sequence[Any], results: Sequence[Any], info: Any = None
) -> None:
    """Raise FloatingPointError if an operation gave a NaN (or an infinity).

    Args:
      name: the name of the operation.
      operands, results: its arrays; operands help to say where the value comes from.
      info: where the operation was written; None for the current line.
    """
    if needs_check_special():
        kind = first_kind(results)
        if kind is not None:
            raise operation_error(kind, name, operands, results, info)


def run_checked(
    run: Callable[..., Any], args: Sequence[Any], closed: ClosedJaxpr | None, name: str,
    is_operation: bool = False,
) -> Any:  # fmt: skip
    """Run a program and check its results; after a failure, find the operation.

    Args:
      run: runs the program on flat arguments.
      args: the arguments.
      closed: its jaxpr, if it is known.
      name: the name of the function.
      is_operation: whether the user called it as an operation; its parts, if it has functions as
        parameters, are looked at all the same.

    Raises:
      FloatingPointError: a result, or what is written to a reference, has a NaN or an infinity.
    """
    refs = [x for x in args if type(x) is core.Ref]
    before = [_copy_of(ref._array()) for ref in refs]
    outs = run(*args)
    written = [ref._buffer for ref in refs]
    kind = first_kind([*outs, *written])
    if kind is None:
        return outs
    # The contents after the failed call have no use.
    for ref, value in zip(refs, before):
        ref._buffer = value
    operands = [*before, *[x for x in args if type(x) is not core.Ref]]
    if is_operation and closed is not None and not any(core.subjaxprs(closed.jaxpr)):
        raise operation_error(kind, name, operands, [*outs, *written])
    if closed is not None and not any(is_deleted(x) for x in args):
        print(
            f"A result of the jitted function {name} has an invalid value ({kind}). "
            "Running its operations one by one, to find the first that gives one."
        )
        kept = [_copy_of(value) for value in before]
        try:
            with config.disable_jit(True), config.debug_key_reuse(False):
                run_one_by_one(closed, args)
        finally:
            for ref, value in zip(refs, kept):
                ref._buffer = value
    raise _unlocated_error(kind, name, operands, args, closed)


def run_one_by_one(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr so that errors name the user's line.

    The equations of the library's own functions have the lines of the first call, which traced
    them: there it is the line of the present call that counts.
    """
    jaxpr = closed.jaxpr
    src = jaxpr.debug_info.func_src_info or ""
    file_name = src.rpartition(" at ")[2].rpartition(":")[0]
    by_user = not file_name or source_info_util.is_user_filename(file_name)
    return core.eval_jaxpr(jaxpr, closed.consts, *args, propagate_source_info=by_user)


def _unlocated_error(
    kind: str, name: str, operands: Sequence[Any], args: Sequence[Any], closed: ClosedJaxpr | None
) -> FloatingPointError:
    text = f"invalid value ({kind}) encountered in {name}"
    if any(is_deleted(x) for x in args):
        why = (
            f"Because an argument of {name} was donated, it cannot be run again to find the"
            " operation: run it without donation."
        )
    elif any(_kind_in(x) for x in operands):
        names = _names_of(closed, len(args))
        given = [n for n, x in zip(names, args) if type(x) is not core.Ref and _kind_in(x)]
        which = f" ({', '.join(given)})" if given and all(given) else ""
        why = (
            f"An argument{which} has such a value already, and no operation of {name} gave one"
            " when they ran one by one."
        )
    elif closed is None:
        why = "Its operations are not known here: call the jitted function to find the operation."
    else:
        why = (
            f"The operations of {name} gave no such value when they ran one by one. The compiled"
            " program may round differently, or a callback gave another result."
        )
    return FloatingPointError(f"{text}. {why}")


def _names_of(closed: ClosedJaxpr | None, n: int) -> Sequence[str | None]:
    return [None] * n if closed is None else closed.jaxpr.debug_info.safe_arg_names(n)


def operation_error(
    kind: str, name: str, operands: Sequence[Any], results: Sequence[Any], info: Any = None
) -> FloatingPointError:
    """The error for an operation that gave a NaN or an infinity: with its line, types and place."""
    where = source_info_util.summarize(source_info_util.current() if info is None else info)
    types = f"{name}({_types(operands)}) -> {_types(results)}"
    lines = [
        f"invalid value ({kind}) encountered in {name}",
        f"  at {where}: {types}" if where else f"  {types}",
    ]
    bad = next((x for x in results if _kind_in(x)), None)
    if bad is not None and (place := _place_of(bad)):
        lines.append(f"  {place}")
    before = [i for i, x in enumerate(operands) if _kind_in(x)]
    if before:
        which = ", ".join(map(str, before))
        lines.append(f"  operand {which} has such a value already: it comes from an earlier one")
    return FloatingPointError("\n".join(lines))


def _types(values: Sequence[Any]) -> str:
    return ", ".join([core.typeof(x).str_short() for x in values if x is not None])


def _place_of(x: Any) -> str:
    """How many elements are bad, and the first of them; empty if this process lacks some."""
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        return ""
    value = np.asarray(x)
    bad = np.zeros(value.shape, bool)
    if config.debug_nans.value:
        bad |= np.isnan(value)
    if config.debug_infs.value:
        bad |= np.isinf(value)
    if not value.shape or not bad.any():
        return ""
    index = ", ".join(map(str, np.argwhere(bad)[0]))
    return f"{bad.sum()} of {bad.size} elements of the result, the first at [{index}]"


def first_kind(values: Sequence[Any]) -> str | None:
    """Return "nan" or "inf", what the first array that has such values has, or None."""
    for x in values:
        kind = _kind_in(x)
        if kind is not None:
            return kind
    return None


def _kind_in(x: Any) -> str | None:
    if type(x) is float or type(x) is complex:
        x = np.asarray(x)
    dtype = getattr(x, "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType):
        return None
    if not dtypes.issubdtype(dtype, np.inexact) or is_deleted(x):
        return None
    values = x._arrays if isinstance(x, ArrayImpl) and len(x.sharding.device_set) > 1 else (x,)
    for value in map(np.asarray, values):
        if config.debug_nans.value and np.isnan(value).any():
            return "nan"
        if config.debug_infs.value and np.isinf(value).any():
            return "inf"
    return None


def is_deleted(x: Any) -> bool:
    """Whether an argument's value is lost, since it was donated."""
    return isinstance(x, ArrayImpl) and x.is_deleted()


def _copy_of(x: Any) -> Any:
    """A copy of a reference's array, which a program may overwrite."""
    if isinstance(x.dtype, dtypes.ExtendedDType):
        return x.copy()
    return placing.device_put_value(x, None, placing.ALWAYS_COPY)
