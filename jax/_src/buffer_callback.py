"""`buffer_callback`: Python functions that compiled programs call to write into buffers on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dispatch, dtypes, effects, traceback_util
from jax._src.ffi import checked_aliases
from jax._src.host_functions import HostFunction
from jax._src.interpreters import mlir
from jax._src.interpreters.pxla.placement import ignore_shardings_of
from jax._src.lib import ffi
from jax._src.lib.mlir import ir
from jax._src.transforms.vmap_methods import batch_by_method, check_vmap_method
from jax._src.tree_util import tree_flatten, tree_unflatten

Buffer = ffi.Buffer
ExecutionContext = ffi.ExecutionContext
ExecutionStage = ffi.ExecutionStage
for _cls in (Buffer, ExecutionContext, ExecutionStage):
    _cls.__module__ = "jax.experimental.buffer_callback"


class BufferCallbackEffect(effects.Effect):
    """A buffer callback with side effects."""

    __slots__ = ()
    __str__ = lambda _: "BufferCallback"


_effect = BufferCallbackEffect()
for _kinds in (
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
):
    _kinds.add_type(BufferCallbackEffect)

buffer_callback_p = core.Primitive("buffer_callback", multiple_results=True)
_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu"}


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """Makes a function of arrays of a Python function that writes its results into given buffers.

    Unlike `jax.pure_callback` it copies nothing, and on GPUs the buffers stay on the device. It runs
    on CPUs and GPUs.

    Args:
      callback: called as `callback(ctx, out, *args, **kwargs)`. `ctx` is an `ExecutionContext`, whose
        `stream` is that of the computation on GPUs. `out` is a tree of writable `Buffer`s like
        `result_shape_dtypes`, and the arguments have `Buffer`s in place of arrays. A `Buffer` is valid
        during the call; it has the protocols `__array__` (CPU), `__cuda_array_interface__` (GPU) and
        `__dlpack__`. It returns None.
      result_shape_dtypes: the types of the results: a tree whose leaves have `shape` and `dtype`.
      has_side_effect: whether it is called although the results are not used.
      vmap_method: how `vmap` calls it, as in `jax.pure_callback`.
      input_output_aliases: from positions of inputs to those of results that share their buffers.
      command_buffer_compatible: on GPUs, whether the work that it starts may be recorded once, and
        replayed without a call.

    Returns:
      A function of trees of arrays that returns arrays of the types `result_shape_dtypes`.

    Raises:
      ValueError: an alias is out of range, or its types differ; `vmap_method` is unknown; or the
        function is differentiated (use `jax.custom_jvp` to give it a derivative).
      JaxRuntimeError: the callback raised an exception, whose traceback is in the message.

    >>> from jax.experimental.buffer_callback import buffer_callback
    >>> def add_one(ctx, out, x):
    ...   np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = jnp.arange(3)
    >>> jax.jit(buffer_callback(add_one, x))(x)
    Array([1, 2, 3], dtype=int32)
    """
    if not callable(callback):
        raise TypeError(f"buffer_callback: callback must be callable, got {callback!r}.")
    check_vmap_method(vmap_method)
    leaves, out_tree = tree_flatten(result_shape_dtypes)
    result_avals = tuple([_result_aval(x) for x in leaves])

    @traceback_util.api_boundary
    def wrapped_callback(*args: Any, **kwargs: Any) -> Any:
        flat, in_tree = tree_flatten((args, kwargs))
        avals = [core.typeof(x) for x in flat]
        for aval in avals:
            _check_dtype(aval, "n argument")
        outs = buffer_callback_p.bind(
            *flat,
            callback=callback,
            result_avals=result_avals,
            in_tree=in_tree,
            out_tree=out_tree,
            vmap_method=vmap_method,
            has_side_effect=has_side_effect,
            input_output_aliases=checked_aliases(
                "buffer_callback", input_output_aliases, avals, result_avals
            ),
            command_buffer_compatible=command_buffer_compatible,
        )
        return tree_unflatten(out_tree, outs)

    return wrapped_callback


def _result_aval(x: Any) -> core.ShapedArray:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(
            "buffer_callback: result_shape_dtypes must be a tree of objects with shape and dtype, as "
            f"jax.ShapeDtypeStruct, got {x!r} of type {type(x)}."
        )
    aval = core.ShapedArray(tuple(x.shape), np.dtype(x.dtype))
    _check_dtype(aval, " result")
    return aval


def _check_dtype(aval: Any, what: str) -> None:
    dtype = core.physical_aval(aval).dtype
    if dtypes.itemsize_bits(dtype) < 8 and dtype != np.bool_:
        raise ValueError(
            f"buffer_callback: a{what} of type {aval.str_short()}, whose elements are smaller than a"
            " byte, cannot be seen by Python: convert it to int8."
        )


buffer_callback_p.def_impl(
    lambda *args, **params: dispatch.apply_primitive(buffer_callback_p, *args, **params)
)


@buffer_callback_p.def_effectful_abstract_eval
def _types(*avals: Any, result_avals: Any, has_side_effect: bool, **_: Any) -> Any:
    varying = frozenset().union(*(a.vma for a in avals if isinstance(a, core.ShapedArray)))
    outs = [a.update(vma=varying) if varying else a for a in result_avals]
    return outs, {_effect} if has_side_effect else core.no_effects


def _jvp(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Buffer callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking "
        "gradients."
    )


def _transpose(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Buffer callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks while "
        "taking gradients."
    )


def _batch(
    axis_data: Any, args: Any, dims: Any, *, result_avals: Any, vmap_method: Any,
    input_output_aliases: Any, **params: Any,
) -> Any:  # fmt: skip
    def call(*xs: Any) -> Any:
        return buffer_callback_p.bind(
            *xs, result_avals=result_avals, vmap_method=vmap_method,
            input_output_aliases=input_output_aliases, **params,
        )  # fmt: skip

    def call_batch(xs: Any, is_mapped: Any, avals: Any) -> Any:
        # A buffer that is not of the batch's size cannot be that of a result.
        aliases = [(i, o) for i, o in input_output_aliases if xs[i].shape == avals[o].shape]
        return buffer_callback_p.bind(
            *xs, result_avals=tuple(avals), vmap_method=vmap_method,
            input_output_aliases=tuple(aliases), **params,
        )  # fmt: skip

    if all(d is None for d in dims):
        return call(*args), [None] * len(result_avals)
    return batch_by_method(
        "buffer_callback", vmap_method, axis_data.size, args, dims, result_avals, call, call_batch
    )


def _lower(
    ctx: Any, *args: Any, callback: Callable[..., None], in_tree: Any, out_tree: Any,
    has_side_effect: bool, input_output_aliases: Any, command_buffer_compatible: bool, **_: Any,
) -> Any:  # fmt: skip
    module_ctx = ctx.module_context
    platforms = module_ctx.platforms
    if len(platforms) != 1 or platforms[0] not in _PLATFORMS:
        raise ValueError(
            f"`buffer_callback` not supported on {', '.join(platforms)} backend: it can be lowered for"
            f" one of the platforms {', '.join(_PLATFORMS)}."
        )
    n = len(ctx.avals_out)

    def call_flat(context: Any, *buffers: Any) -> None:
        args, kwargs = tree_unflatten(in_tree, buffers[: len(buffers) - n])
        result = callback(
            context, tree_unflatten(out_tree, buffers[len(buffers) - n :]), *args, **kwargs
        )
        if result is not None:
            raise ValueError(
                f"buffer_callback: the callback must return None and write its results into the buffers"
                f" `out`, got a result of type {type(result)}."
            )

    index = len(module_ctx.host_callbacks)
    module_ctx.add_host_callback(HostFunction(call_flat, has_side_effect))
    device = _PLATFORMS[platforms[0]]
    target = f"xla_buffer_python_{device}_callback"
    if command_buffer_compatible and device == "gpu":
        target += "_cmd_buffer"
    u64 = ir.IntegerType.get_unsigned(64)
    ins = [core.physical_aval(a) for a in ctx.avals_in]
    outs = [core.physical_aval(a) for a in ctx.avals_out]
    op = mlir.custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in outs],
        operands=args,
        has_side_effect=has_side_effect,
        api_version=1,
        operand_output_aliases=dict(input_output_aliases) or None,
        operand_layouts=_row_major(ins),
        result_layouts=_row_major(outs),
        extra_attributes={
            "mhlo.backend_config": ir.DictAttr.get({"index": ir.IntegerAttr.get(u64, index)})
        },
    )
    return list(op.results)


def _row_major(avals: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(range(a.ndim - 1, -1, -1)) for a in avals]


buffer_callback_p.jvp = _jvp
buffer_callback_p.transpose = _transpose
buffer_callback_p.axis_batch = _batch
mlir.register_lowering(buffer_callback_p, _lower)
ignore_shardings_of(buffer_callback_p)
