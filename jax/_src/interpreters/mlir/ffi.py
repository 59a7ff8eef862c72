"""Lowering rules for primitives that call one native function through XLA's FFI."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax._src import core
from jax._src.interpreters.mlir.constants import ir_attribute
from jax._src.interpreters.mlir.context import LoweringRuleContext
from jax._src.interpreters.mlir.custom_call import custom_call
from jax._src.interpreters.mlir.ops import eval_dynamic_shape_as_tensor
from jax._src.interpreters.mlir.types import aval_to_ir_type
from jax._src.layout import Layout

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue

FfiLayout = Layout | Sequence[int] | None


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[FfiLayout] | None = None,
    result_layouts: Sequence[FfiLayout] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:
    """Like `ffi_lowering`, but the returned function returns the operation, not its results."""

    def lower(ctx: LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        kwargs = dict(lowering_args)
        kwargs.setdefault("api_version", 4)
        if kwargs["api_version"] >= 4:
            if backend_config is not None and not isinstance(backend_config, Mapping):
                raise ValueError(
                    f"FFI call of {call_target_name}: backend_config must be a dictionary of attributes "
                    f"when api_version is 4 or more, got {backend_config!r}"
                )
            attributes = {**(backend_config or {}), **params}
            kwargs["backend_config"] = {k: ir_attribute(v) for k, v in attributes.items()}
        else:
            if params:
                raise ValueError(
                    f"FFI call of {call_target_name}: attributes {sorted(params)} need api_version 4, got "
                    f"{kwargs['api_version']}"
                )
            kwargs["backend_config"] = backend_config
        kwargs.setdefault("result_types", [aval_to_ir_type(None, aval) for aval in ctx.avals_out])
        if not skip_ffi_layout_processing:
            kwargs["operand_layouts"] = _layouts(ctx.avals_in, operand_layouts)
            kwargs["result_layouts"] = _layouts(ctx.avals_out, result_layouts)
        if "result_shapes" not in kwargs and not all(map(_is_static, ctx.avals_out)):
            kwargs["result_shapes"] = [
                eval_dynamic_shape_as_tensor(ctx, getattr(aval, "shape", ()))
                for aval in ctx.avals_out
            ]
        return custom_call(call_target_name, operands=operands, **kwargs)

    return lower


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[FfiLayout] | None = None,
    result_layouts: Sequence[FfiLayout] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: object,
) -> Callable[..., Any]:
    """Makes a lowering rule that calls a native function registered with XLA's FFI.

    Args:
      call_target_name: the name under which the function is registered.
      operand_layouts, result_layouts: for each operand and result, a `Layout` or its dimensions
        from minor to major; row-major by default.
      backend_config: attributes of the call. The primitive's parameters, which the rule receives as
        keyword arguments, are added.
      skip_ffi_layout_processing: whether to omit layouts from the call.
      lowering_args: further arguments of `mlir.custom_call`.

    Returns:
      A lowering rule: a function of a context, IR values and parameters.

    >>> from jax.interpreters import mlir
    >>> rule = jax.ffi.ffi_lowering("my_target", backend_config={"eps": np.float32(1e-3)})
    """
    build = build_ffi_lowering_function(
        call_target_name,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        backend_config=backend_config,
        skip_ffi_layout_processing=skip_ffi_layout_processing,
        **lowering_args,
    )

    def rule(ctx: LoweringRuleContext, *operands: object, **params: object) -> Sequence[Any]:
        return build(ctx, *operands, **params).results  # type: ignore[no-any-return]

    return rule


def _is_static(aval: AbstractValue) -> bool:
    return core.is_constant_shape(getattr(aval, "shape", ()))


def _layouts(avals: Sequence[Any], layouts: Sequence[FfiLayout] | None) -> list[Sequence[int]]:
    """Returns minor-to-major orders of dimensions, row-major where none is given."""
    if layouts is None:
        layouts = [None] * len(avals)
    return [_minor_to_major(aval, layout) for aval, layout in zip(avals, layouts, strict=True)]


def _minor_to_major(aval: AbstractValue, layout: FfiLayout) -> Sequence[int]:
    ndim = len(getattr(aval, "shape", ()))
    if layout is None:
        order: Sequence[int] = range(ndim - 1, -1, -1)
    elif isinstance(layout, Layout):
        if layout.tiling is not None:
            raise ValueError(f"An FFI call cannot ask for a tiled layout, got {layout}")
        order = layout.major_to_minor[::-1]
    else:
        order = layout
    # An element of an extended dtype is an array itself, with trailing physical dimensions.
    physical_ndim = len(getattr(core.physical_aval(aval), "shape", ()))
    return (*range(physical_ndim - 1, ndim - 1, -1), *order)
