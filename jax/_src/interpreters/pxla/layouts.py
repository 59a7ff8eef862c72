"""The layouts of arguments and results that the runtime reports of a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jax._src import core, lib
from jax._src.layout import Layout
from jax._src.lib import _jax

if TYPE_CHECKING:
    from jax._src.interpreters.pxla.executable import ProgramInfo


def is_unimplemented(err: Exception) -> bool:
    """Whether an error says that the runtime does not have what was asked for."""
    return "UNIMPLEMENTED" in str(err)


def reported_layouts(executable: Any, info: ProgramInfo) -> tuple[list[Any], list[Any]]:
    """The layouts of arguments and results; None for those that are no arrays.

    Raises:
      NotImplementedError: if the runtime would take layouts of results for others.
    """
    skip = len(info.ordered_effects)
    try:
        ins, outs = executable.get_parameter_layouts(), executable.get_output_layouts()
    except _jax.JaxRuntimeError as err:
        # Some runtimes report none of programs with tokens. The compiled module has them.
        if not skip or not is_unimplemented(err):
            raise
        ins, outs = _layouts_in_module(executable)
        _check_default(outs, info.name)
    return _layouts_of(ins[skip:], info.in_avals), _layouts_of(outs[skip:], info.out_avals)


def _layouts_of(layouts: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    return [
        _layout_of(layout) if isinstance(aval, core.ShapedArray) else None
        for layout, aval in zip(layouts, avals)
    ]


def _layout_of(layout: Any) -> Layout:
    if isinstance(layout, _jax.PjRtLayout):
        return Layout.from_pjrt_layout(layout)
    return Layout.from_xla_layout(layout)


def _layouts_in_module(executable: Any) -> tuple[list[Any], list[Any]]:
    """XLA's layouts of arguments and results, with None for tokens, from the compiled module."""
    (module,) = executable.hlo_modules()
    computation = lib.hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    shape = computation.program_shape()
    result = shape.result_shape()
    outs = result.tuple_shapes() if result.is_tuple() else [result]
    ins = [s.layout() if s.is_array() else None for s in shape.parameter_shapes()]
    return ins, [s.layout() if s.is_array() else None for s in outs]


def _check_default(outs: Sequence[Any], name: str) -> None:
    """Raises an error if results have layouts that the runtime takes for the default ones."""
    for layout in outs:
        if layout is None:
            continue
        order = tuple(layout.minor_to_major())
        if order != tuple(reversed(range(len(order)))):
            raise NotImplementedError(
                f"{name}: this backend gives results of programs with ordered effects in the default "
                f"layout only, got {Layout.from_xla_layout(layout)}. Leave the layout out of "
                "out_shardings, and move the result to it by jax.device_put, or pass ordered=False to "
                "the callback."
            )
