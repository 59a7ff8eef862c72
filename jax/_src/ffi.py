"""Calls of native code through XLA's foreign function interface (FFI)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, effects, xla_bridge
from jax._src.interpreters import batching, mlir
from jax._src.interpreters.mlir.ffi import FfiLayout
from jax._src.lax.linalg import kernels as linalg_kernels
from jax._src.layout import Layout
from jax._src.lib import jaxlib_folder
from jax._src.transforms import vmap_methods
from jax._src.util import HashableArray, HashableDict

# Registration


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Makes a native function callable by name from compiled programs.

    Args:
      name: the name of the target.
      fn: a capsule with the function's address (see `pycapsule`), or a dict of capsules by stage:
        "instantiate", "prepare", "initialize", "execute".
      platform: "cpu", "cuda", "rocm" or "tpu".
      api_version: 1 for handlers of the typed FFI, 0 for the older calling convention.
      kwargs: passed to jaxlib, for example `traits`.

    Raises:
      jax.errors.JaxRuntimeError: if jaxlib rejects it, for example because it is not a capsule.
    """
    xla_bridge.register_custom_call_target(
        name, fn, xla_platform(platform), api_version=api_version, **kwargs
    )


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Registers a type of state that handlers keep across their stages.

    Args:
      name: the name of the type, which can be registered once per process.
      type_registration: a dict of capsules: "type_id" and, optionally, "type_info".
      platform: the platform that uses it; each one has its own types.

    Raises:
      jax.errors.JaxRuntimeError: if jaxlib rejects it.
    """
    xla_bridge.register_custom_type(name, type_registration, xla_platform(platform))


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Not supported: this jaxlib does not register a type by its id only; see `register_ffi_type`.

    Raises:
      ValueError: always.
    """
    raise ValueError(
        f"register_ffi_type_id is not supported by this jaxlib: register {name!r} with "
        f"register_ffi_type({name!r}, {{'type_id': obj}})."
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declares that a target treats leading dimensions of its operands independently of each other.

    If such dimensions are sharded, the program calls the target on each shard.

    Args:
      name: the name of the target.
    """
    xla_bridge.register_batch_partitionable(name)


def xla_platform(platform: str) -> str:
    """XLA's name for a platform."""
    return {"cpu": "Host", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM"}.get(platform, platform)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def pycapsule(funcptr: Any) -> Any:
    """A function of a dynamic library as a capsule, for `register_ffi_target`.

    Args:
      funcptr: the function, from `ctypes.CDLL(path)`. The library must stay loaded.

    >>> library = ctypes.CDLL("libmine.so")  # doctest: +SKIP
    >>> jax.ffi.register_ffi_target("mine", jax.ffi.pycapsule(library.Mine))  # doctest: +SKIP
    """
    return _new_capsule(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def include_dir() -> str:
    """The folder of the C++ headers (`xla/ffi/api/ffi.h`, …) in jaxlib.

    >>> jax.ffi.include_dir().endswith("include")
    True
    """
    return os.path.join(jaxlib_folder(), "include")


# Calls


class FfiEffect(effects.Effect):
    """The side effect of a native function."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "FFI"


_ffi_effect = FfiEffect()
for _kinds in (effects.lowerable_effects, effects.control_flow_allowed_effects):
    _kinds.add_type(FfiEffect)


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[FfiLayout] | None = None,
    output_layouts: FfiLayout | Sequence[FfiLayout] = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function that calls a native function.

    Args:
      target_name: the name given to `register_ffi_target`.
      result_shape_dtypes: an object with `shape` and `dtype`, such as a `jax.ShapeDtypeStruct`, or
        a sequence of them, one per result; or `jax.core.abstract_token`.
      has_side_effect: whether it must be called even if its results are not used.
      vmap_method: how `vmap` calls it; see `jax.pure_callback`.
      input_layouts, output_layouts: the layouts that the native function expects for its operands
        and
        results: for each one the dimensions from major to minor, a `Layout`, or None for row-major.
      input_output_aliases: a mapping from the position of an input to the position of the result
        that may reuse its memory.
      custom_call_api_version: 4 for the typed FFI; lower for older conventions.
      legacy_backend_config: the configuration string of a target with an older convention.

    Returns:
      A function of arrays. Its keyword arguments are the attributes of the call: numbers, strings,
      NumPy arrays, and tuples and dicts of them. It returns an array, or a list of arrays if
      `result_shape_dtypes` is a sequence.

    Raises:
      TypeError: for attributes of other types.
      ValueError: for layouts and aliases that do not match the arguments, an unknown `vmap_method`,
        or if the call is differentiated (give it a rule with `jax.custom_vjp` or `jax.custom_jvp`).

    >>> call = jax.ffi.ffi_call("my_rms_norm", jax.ShapeDtypeStruct((8,), jnp.float32))
    >>> call(jnp.ones(8), eps=np.float32(1e-5))                    # doctest: +SKIP
    """
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise ValueError(
            "legacy_backend_config is for custom_call_api_version < 4, got version "
            f"{custom_call_api_version}. Pass attributes as keyword arguments of the call."
        )
    if not isinstance(legacy_backend_config, str | None):
        raise TypeError(f"legacy_backend_config must be a string, got {legacy_backend_config!r}")
    vmap_methods.check_vmap_method(vmap_method)
    multiple_results = isinstance(result_shape_dtypes, Sequence)
    results = result_shape_dtypes if multiple_results else [result_shape_dtypes]
    result_avals = tuple(_result_aval(i, result) for i, result in enumerate(results))
    if output_layouts is None:
        output_layouts = [None] * len(result_avals)
    elif not multiple_results:
        output_layouts = [output_layouts]  # type: ignore[list-item]
    out_layouts = _minor_to_major("output", output_layouts, result_avals)

    def call(*args: Any, **attributes: Any) -> Any:
        avals = [core.typeof(x) for x in args]
        layouts = [None] * len(args) if input_layouts is None else input_layouts
        outs = ffi_call_p.bind(
            *args,
            target_name=target_name,
            result_avals=result_avals,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_layouts=_minor_to_major("input", layouts, avals),
            output_layouts=out_layouts,
            input_output_aliases=checked_aliases(
                "ffi_call", input_output_aliases, avals, result_avals
            ),
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=Attributes(
                (key, _hashable(f"attribute {key}", attributes[key])) for key in sorted(attributes)
            ),
        )
        return outs if multiple_results else outs[0]

    return call


def _result_aval(position: int, result: Any) -> core.AbstractValue:
    if isinstance(result, core.AbstractToken):
        return result
    if not (hasattr(result, "shape") and hasattr(result, "dtype")):
        raise ValueError(
            "ffi_call: elements of result_shape_dtypes must have the attributes 'shape' and 'dtype', as "
            f"jax.ShapeDtypeStruct has. Got {result!r} at position {position}."
        )
    # Not canonicalized: what a native function writes does not depend on `jax_enable_x64`.
    dtype = result.dtype
    if not isinstance(dtype, dtypes.ExtendedDType):
        dtype = np.dtype(dtype)
    return core.ShapedArray(core.canonicalize_shape(result.shape), dtype)


def _hashable(where: str, value: Any) -> Any:
    """An attribute as a hashable value, for the parameters of an equation."""
    if isinstance(value, Mapping):
        return HashableDict({k: _hashable(f"{where}[{k!r}]", v) for k, v in value.items()})
    if isinstance(value, tuple):
        return tuple(_hashable(f"{where}[{i}]", v) for i, v in enumerate(value))
    if isinstance(value, np.ndarray):
        return HashableArray(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise OverflowError(
            f"ffi_call: {where} is {value}, which does not fit into a signed 64-bit integer. Pass it as a "
            "NumPy scalar of another type, such as np.uint64."
        )
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"ffi_call: {where} must be a number, a string, a NumPy array, or a tuple or dict of "
            f"such, got {value!r} of {type(value)}"
        ) from None
    return value


class Attributes(tuple):
    """Names and values of attributes. Unlike in tuples, 1, 1.0 and True are different values."""

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Attributes) and _with_types(self) == _with_types(other)

    def __ne__(self, other: Any) -> bool:
        return not self == other


def _with_types(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_with_types, value))
    if isinstance(value, HashableDict):
        return {k: _with_types(v) for k, v in value.val.items()}
    return type(value), value


def _plain(value: Any) -> Any:
    if isinstance(value, (HashableDict, HashableArray)):
        value = value.val
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _minor_to_major(
    what: str, layouts: Sequence[FfiLayout], avals: Sequence[Any]
) -> tuple[tuple[int, ...] | None, ...]:
    if len(layouts) != len(avals):
        raise ValueError(
            f"ffi_call: {what}_layouts must have one element for each {what}: there are {len(avals)} "
            f"{what}s, but {len(layouts)} layouts"
        )
    out: list[tuple[int, ...] | None] = []
    for i, (layout, aval) in enumerate(zip(layouts, avals)):
        ndim = getattr(aval, "ndim", None)
        if ndim is None:  # a token
            out.append(None)
            continue
        if layout is None:
            order = tuple(range(ndim))
        elif isinstance(layout, Layout):
            if layout.tiling is not None:
                raise ValueError(f"ffi_call: {what}_layouts[{i}] must not be tiled, got {layout}")
            order = layout.major_to_minor
        else:
            order = tuple(layout)
        if sorted(order) != list(range(ndim)):
            raise ValueError(
                f"ffi_call: {what}_layouts[{i}] must be a permutation of the {ndim} dimensions of "
                f"{aval.str_short()}, got {layout}"
            )
        out.append(order[::-1])
    return tuple(out)


def checked_aliases(
    name: str, aliases: Mapping[int, int] | None, inputs: Sequence[Any], outputs: Sequence[Any]
) -> tuple[tuple[int, int], ...]:
    """The pairs of inputs and outputs that share a buffer; `name` is the caller's, for errors."""
    if aliases is None:
        return ()
    for i, o in aliases.items():
        for what, index, avals in (("input", i, inputs), ("output", o, outputs)):
            if not 0 <= index < len(avals):
                raise ValueError(
                    f"{name}: input_output_aliases has the pair {i}:{o} with {what} number {index}, but "
                    f"there are {len(avals)} {what}s"
                )
        here, there = inputs[i], outputs[o]
        if here.shape != there.shape or here.dtype != there.dtype:
            raise ValueError(
                f"{name}: input_output_aliases has the pair {i}:{o}, whose types differ: "
                f"{here.str_short()} and {there.str_short()}"
            )
    return tuple(sorted(aliases.items()))


ffi_call_p = core.Primitive("ffi_call", multiple_results=True)


@ffi_call_p.def_effectful_abstract_eval
def _types(*avals: Any, result_avals: Any, has_side_effect: bool, **_: Any) -> Any:
    manual = frozenset().union(*(a.vma for a in avals if isinstance(a, core.ShapedArray)))
    if manual:
        result_avals = [
            a.update(vma=manual) if isinstance(a, core.ShapedArray) else a for a in result_avals
        ]
    return list(result_avals), {_ffi_effect} if has_side_effect else core.no_effects


def _no_derivative(*_: Any, target_name: str, **__: Any) -> Any:
    raise ValueError(
        f"The FFI call to {target_name!r} cannot be differentiated. Give it a rule with `jax.custom_vjp` or "
        "`jax.custom_jvp`."
    )


ffi_call_p.jvp = _no_derivative
ffi_call_p.transpose = _no_derivative


def _batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    def call_batch(args: Any, is_mapped: Any, avals: Any) -> Any:
        input_layouts = tuple(
            _with_batch_axis(layout) if mapped else layout
            for layout, mapped in zip(params["input_layouts"], is_mapped)
        )
        aliases = tuple((i, o) for i, o in params["input_output_aliases"] if is_mapped[i])
        if params["vmap_method"] == "expand_dims":  # unmapped operands got a dimension of size 1
            aliases = tuple((i, o) for i, o in aliases if args[i].shape == avals[o].shape)
        return ffi_call_p.bind(
            *args,
            **{
                **params,
                "result_avals": tuple(avals),
                "input_layouts": input_layouts,
                "output_layouts": tuple(map(_with_batch_axis, params["output_layouts"])),
                "input_output_aliases": aliases,
            },
        )

    return vmap_methods.batch_by_method(
        f"the FFI call to {params['target_name']!r}",
        params["vmap_method"],
        axis_data.size,
        args,
        dims,
        params["result_avals"],
        lambda *args: ffi_call_p.bind(*args, **params),
        call_batch,
    )


batching.fancy_primitive_batchers[ffi_call_p] = _batch


def _with_batch_axis(layout: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if layout is None else (*(i + 1 for i in layout), 0)


def _lower(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    target_name: str,
    has_side_effect: bool,
    input_layouts: Any,
    output_layouts: Any,
    input_output_aliases: Any,
    custom_call_api_version: int,
    legacy_backend_config: Any,
    attributes: Any,
    **_: Any,
) -> Any:
    if target_name.startswith("lapack_"):
        linalg_kernels.prepare_lapack_target(target_name)
    rule = mlir.ffi_lowering(
        target_name,
        has_side_effect=has_side_effect,
        operand_layouts=input_layouts,
        result_layouts=output_layouts,
        operand_output_aliases=dict(input_output_aliases) or None,
        api_version=custom_call_api_version,
        backend_config=legacy_backend_config,
    )
    return rule(ctx, *operands, **{key: _plain(value) for key, value in attributes})


mlir.register_lowering(ffi_call_p, _lower)
