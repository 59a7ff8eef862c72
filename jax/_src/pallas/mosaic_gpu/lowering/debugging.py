"""Rules of what programs say while they run: prints, checks, and pauses."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, source_info_util
from jax._src.checkify.errors import Error, check_p, messages
from jax._src.core import AbstractRef
from jax._src.debugging import debug_print_p
from jax._src.lib.mlir.dialects import arith, cf, gpu
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.lowering.elementwise import convert
from jax._src.pallas.mosaic_gpu.lowering.exchange import in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    first_of_copies,
    layout_of,
    positions,
    vector_axis,
)
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, GpuKernel, asm, only, rule
from jax._src.pallas.primitives import delay_p
from jax._src.tree_util import tree_unflatten

# A width, digits after the point, and what C's printf calls the conversion.
_SPEC = re.compile(r"(\d*(?:\.\d+)?)([defgxX]?)")


@rule(delay_p)
def _delay(ctx: RuleContext, nanos: Fragment) -> list[Any]:
    asm("nanosleep.u32 $0;", "r", [convert(nanos.scalar, nanos.dtype, np.int32)])
    return []


# Prints


@rule(debug_print_p)
def _debug_print(
    ctx: RuleContext, *args: Any, fmt: str, has_placeholders: bool, static_args: Any, **_: Any
) -> list[Any]:
    kernel, avals = ctx.kernel, ctx.avals_in
    types = ", ".join([a.str_short() for a in avals])
    for a in avals:
        if isinstance(a, AbstractRef):
            raise NotImplementedError(
                f"Kernels for {TABLE.target} print numbers and arrays, not the reference {a.str_short()}: read it, as ref[...]."
            )
    texts, specs = _parts(fmt, has_placeholders, len(args))
    if static_args or len(specs) != len(args):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} print numbers in the order of a format with one placeholder for each, {{}} or such as {{:.3f}}, not ({types}) "
            f"by {fmt!r}."
        )
    if all([not a.shape for a in avals]):
        numbers = [_number(spec, x.scalar, x.dtype) for spec, x in zip(specs, args)]
        with only(kernel.one_lane()):
            _printf(texts, [c for c, _ in numbers], [x for _, x in numbers])
    elif len(args) == 1:
        _print_array(kernel, texts, specs[0], args[0])
    else:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} print either numbers or one array, not ({types}) together: print them one after the other."
        )
    return []


def _parts(fmt: str, has_placeholders: bool, n: int) -> tuple[list[str], list[str]]:
    """Return the texts around the placeholders of a format, and what these say after a colon.

    Raises:
      NotImplementedError: if they name arguments, or say what C's printf does not.
    """
    if not has_placeholders:
        return [f"{fmt} ", *[" "] * (n - 1), ""][-n - 1 :] if n else [fmt], [""] * n
    texts, specs = [""], []
    for text, name, spec, conversion in string.Formatter().parse(fmt):
        texts[-1] += text
        if name is None:
            continue
        if name or conversion or not _SPEC.fullmatch(spec or ""):
            raise NotImplementedError(
                f"Kernels for {TABLE.target} print numbers in order, by placeholders such as {{}}, {{:d}}, {{:x}}, {{:.3f}} or {{:10.3e}}, not by those of "
                f"{fmt!r}."
            )
        specs.append(spec or "")
        texts.append("")
    return texts, specs


def _printf(texts: Sequence[str], conversions: Sequence[str], values: Sequence[Any]) -> None:
    literal = [t.replace("%", "%%") for t in texts]
    gpu.printf("".join([t + c for t, c in zip(literal, [*conversions, "\n"])]), *values)


def _number(spec: str, x: Any, dtype: Any) -> tuple[str, Any]:
    """Return how printf prints a number, and the number as it is given to it.

    Raises:
      ValueError: if the placeholder is for another kind of numbers.
    """
    size, letter = _SPEC.fullmatch(spec).groups()  # type: ignore[union-attr]
    if letter and is_float(dtype) != (letter in "efg"):
        raise ValueError(
            f"A placeholder {{:{spec}}} for a number of {dtypes.dtype_name(dtype)}: floating-point numbers are printed by f, e or g, integers by d or x."
        )
    if is_float(dtype):
        wide = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
        return f"%{size}{letter or 'f'}", convert(x, dtype, wide)
    wide = np.dtype(np.int64 if is_signed(dtype) else np.uint64)
    signed = "d" if is_signed(dtype) else "u"
    return f"%{size}ll{letter.replace('d', '') or signed}", convert(x, dtype, wide)


def _print_array(kernel: GpuKernel, texts: Sequence[str], spec: str, x: Fragment) -> None:
    """Print each element after its position, by the lane that has it."""
    if x.is_splat:
        x = in_layout(kernel, x, layout_of(x.shape, x.dtype))
    axis = vector_axis(x.layout, x.shape)
    with only(first_of_copies(kernel, x.layout)):
        for at, index in positions(kernel, x.layout, x.shape):
            for k, e in enumerate(elements(x.registers[at])):
                own = [i + (k if d == axis else 0) for d, i in enumerate(index)]
                conversion, value = _number(spec, e, x.dtype)
                place = ", ".join(["%d"] * len(own))
                _printf(texts, [f"[{place}]: {conversion}"], [*[i.value() for i in own], value])


# Checks


@rule(check_p)
def _check(ctx: RuleContext, *args: Any, err_tree: Any, debug: bool) -> list[Any]:
    error: Error = tree_unflatten(err_tree, args)
    for failed, message in messages(error):
        true = arith.constant(failed.scalar.type, True)
        where = source_info_util.summarize(ctx.eqn.source_info)
        cf.assert_(arith.xori(failed.scalar, true), f"{message}, at {where}")
    return []
