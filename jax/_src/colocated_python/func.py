"""Functions that run beside devices.

A runtime with remote hosts compiles a *program* of a pickled function, which its workers load and
call. Other runtimes do not support this: there the function's copy is called in this process.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import dtypes, util
from jax._src.colocated_python import func_backend
from jax._src.colocated_python.serialization import (
    deserialize,
    deserialize_specs,
    make_specs_for_serialized_specs,
    serialize,
    serialize_specs,
)
from jax._src.core import ShapeDtypeStruct, Tracer, physical_aval, typeof
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters import pxla
from jax._src.lib import DeviceList, _jax
from jax._src.random.keys import key_data, wrap_key_data
from jax._src.sharding_impls import physical_sharding
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from jax._src.util import wraps

register_exclusion(__file__)

Specs = tuple[ShapeDtypeStruct, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function, where it is defined (for errors), and the signature that calls must fit, if any."""

    fun: Callable[..., Any]
    fun_sourceinfo: str | None
    fun_signature: inspect.Signature | None


@dataclasses.dataclass(frozen=True, slots=True)
class Specialization:
    """What is known about calls of a function; None for what is not known.

    Attributes:
      in_specs_treedef, in_specs_leaves: the types of the arguments, as a tree of `(args, kwargs)`.
      out_specs_fn: a function from them to the types of the results.
      out_specs_treedef, out_specs_leaves: the types of the results, as a tree.
      devices: the devices beside which the function runs.
    """

    in_specs_treedef: PyTreeDef | None = None
    in_specs_leaves: Specs | None = None
    out_specs_fn: Callable[..., Any] | None = None
    out_specs_treedef: PyTreeDef | None = None
    out_specs_leaves: Specs | None = None
    devices: DeviceList | None = None

    def update(
        self,
        *,
        in_specs_treedef: PyTreeDef | None = None,
        in_specs_leaves: Specs | None = None,
        out_specs_fn: Callable[..., Any] | None = None,
        out_specs_treedef: PyTreeDef | None = None,
        out_specs_leaves: Specs | None = None,
        devices: Sequence[Any] | DeviceList | None = None,
    ) -> Specialization:
        """Return a copy that knows more.

        Raises:
          ValueError: something is known already.
        """
        given = dict(
            in_specs_treedef=in_specs_treedef,
            in_specs_leaves=in_specs_leaves,
            out_specs_fn=out_specs_fn,
            out_specs_treedef=out_specs_treedef,
            out_specs_leaves=out_specs_leaves,
            devices=devices,
        )
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if getattr(self, name) is not None:
                short = name.removesuffix("_treedef").removesuffix("_leaves")
                raise ValueError(f"{short} already specified")
        if devices is not None and not isinstance(devices, DeviceList):
            given["devices"] = DeviceList(tuple(devices))
        return dataclasses.replace(self, **given)


# Types of arguments and results


def _get_spec(x: Any) -> ShapeDtypeStruct:
    """Return the type of an array.

    Raises:
      ValueError: the value is something else.
    """
    if isinstance(x, Tracer):
        raise ValueError(
            "colocated_python functions cannot be called while JAX traces a function, such as one"
            f" under jax.jit; got {x}."
        )
    if not isinstance(x, _jax.Array) and not is_prng_key_dtype(getattr(x, "dtype", None)):
        raise ValueError(
            f"colocated_python only supports jax.Array as input and output, but got {type(x)}."
        )
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def is_prng_key_dtype(dtype: Any) -> bool:
    """Whether a dtype is that of random keys."""
    return dtype is not None and dtypes.issubdtype(dtype, dtypes.prng_key)


def _infer_devices_from_args(args: Sequence[Any]) -> DeviceList | None:
    """Return the devices of the arguments; None if there are no arguments."""
    found = {x.sharding._internal_device_list for x in args}
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(
            "All arguments must use the same device list, but got multiple device lists:"
            f" {found}. Move them with `jax.device_put`."
        )
    (devices,) = found
    return devices


# Random keys are represented by their data in programs


def _prng_key_type_to_physical_spec(key_type: ShapeDtypeStruct) -> ShapeDtypeStruct:
    aval = _aval(key_type)
    physical, sharding = physical_aval(aval), key_type.sharding
    if sharding is not None:
        sharding = physical_sharding(aval, sharding)
    return ShapeDtypeStruct(physical.shape, physical.dtype, sharding=sharding)


def _aval(spec: ShapeDtypeStruct) -> Any:
    return typeof(ShapeDtypeStruct(spec.shape, spec.dtype))


def _get_prng_key_info(specs: Sequence[ShapeDtypeStruct]) -> dict[int, str]:
    """Return the generator's name of each specification of random keys, by position."""
    return {i: s.dtype._impl.name for i, s in enumerate(specs) if is_prng_key_dtype(s.dtype)}


def _convert_inp_type_to_physical(
    inp_type: Sequence[ShapeDtypeStruct], prng_info: dict[int, str]
) -> Specs:
    return tuple(
        [
            _prng_key_type_to_physical_spec(s) if i in prng_info else s
            for i, s in enumerate(inp_type)
        ]
    )


def _unwrap_prng_keys(args_leaves: Sequence[Any], prng_info: dict[int, str]) -> list[Any]:
    return [key_data(x) if i in prng_info else x for i, x in enumerate(args_leaves)]


def _wrap_prng_keys(results: Sequence[Any], prng_info: dict[int, str]) -> list[Any]:
    return [
        wrap_key_data(x, impl=prng_info[i]) if i in prng_info else x for i, x in enumerate(results)
    ]


def make_prng_wrapped_fun(
    fun: Callable[..., Any], prng_in_info: dict[int, str], prng_out_info: dict[int, str]
) -> Callable[..., Any]:
    """Make a function of random keys take and return their data.

    Args:
      fun: the function.
      prng_in_info, prng_out_info: generators' names by the positions of leaves that are keys.
    """
    if not prng_in_info and not prng_out_info:
        return fun

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        args, kwargs = tree_unflatten(tree, _wrap_prng_keys(leaves, prng_in_info))
        results, out_tree = tree_flatten(fun(*args, **kwargs))
        return tree_unflatten(out_tree, _unwrap_prng_keys(results, prng_out_info))

    return wrapped


# Programs


def _compile_to_executable(
    name: str,
    fun: Callable[..., Any],
    in_specs_treedef: PyTreeDef,
    in_specs_leaves: Specs,
    out_specs_treedef: PyTreeDef,
    out_specs_leaves: Specs,
    devices: DeviceList,
) -> Callable[..., Any]:
    """Compile a function for given types of arguments and results.

    Returns:
      A function of leaves that returns leaves.
    """
    prng_in, prng_out = map(_get_prng_key_info, (in_specs_leaves, out_specs_leaves))
    in_physical = _convert_inp_type_to_physical(in_specs_leaves, prng_in)
    out_physical = _convert_inp_type_to_physical(out_specs_leaves, prng_out)
    serialized = serialize(
        (
            make_prng_wrapped_fun(fun, prng_in, prng_out),
            in_specs_treedef,
            in_physical,
            out_specs_treedef,
            out_physical,
            devices,
        )
    )
    executable = _load_program(name, serialized, devices, in_physical, out_physical)
    if executable is None:
        call = _local_call(name, serialized, devices)
    else:
        handlers = [
            pxla.global_aval_to_result_handler(_aval(s), s.sharding, True) for s in out_physical
        ]

        def call(leaves: Sequence[Any]) -> Sequence[Any]:
            results = executable.execute_sharded(list(leaves), with_tokens=False)
            outs: Sequence[Any] = results.consume_with_handlers(handlers)
            return outs

    def call_with_keys(leaves: Sequence[Any]) -> list[Any]:
        return _wrap_prng_keys(call(_unwrap_prng_keys(leaves, prng_in)), prng_out)

    return call_with_keys


def _load_program(
    name: str, serialized: bytes, devices: DeviceList, in_specs: Specs, out_specs: Specs
) -> Any:
    """Compile the program of a pickled function; return None if the runtime does not support it."""
    programs = _jax.ifrt_programs
    program = programs.make_colocated_python_program(name, serialized, devices, in_specs, out_specs)
    options = programs.make_colocated_python_compile_options()
    try:
        return devices[0].client.compile_and_load_ifrt_program(program, options)
    except JaxRuntimeError as err:
        if "UNIMPLEMENTED" in str(err) or "requires an HloProgram" in str(err):
            return None
        raise


def _local_call(name: str, serialized: bytes, devices: DeviceList) -> Callable[..., Any]:
    """Make a function that calls the copy of a pickled function in this process."""
    if not devices.is_fully_addressable:
        raise ValueError(
            f"The colocated_python function {name} cannot run on devices of other processes: the"
            " runtime of these devices does not support colocated Python programs."
        )
    fun, in_treedef, _, out_treedef, out_specs, _ = deserialize(serialized)

    def call(leaves: Sequence[Any]) -> Sequence[Any]:
        args, kwargs = tree_unflatten(in_treedef, leaves)
        results, tree = tree_flatten(fun(*args, **kwargs))
        found = [_get_spec(x) for x in results]
        expected = [(s.shape, s.dtype) for s in out_specs]
        if tree != out_treedef or [(s.shape, s.dtype) for s in found] != expected:
            raise ValueError(
                f"The colocated_python function {name} returned {tree_unflatten(tree, found)}, but"
                f" its specification is {tree_unflatten(out_treedef, out_specs)}: its results must"
                " always have the types of its first call, or those of out_specs_fn."
            )
        return results

    return call


def _make_output_specs_and_push_result_fun(
    info: FunctionInfo, specialization: Specialization, uid: int
) -> Callable[..., Any]:
    """Make a function that stores its results, and returns their types as an array."""
    fun, devices = info.fun, specialization.devices
    assert devices is not None

    def store_and_describe(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree_flatten(fun(*args, **kwargs))
        specs = tuple([_get_spec(x) for x in leaves])
        func_backend.SINGLETON_RESULT_STORE.push(uid, leaves)
        return serialize_specs(treedef, specs, devices)

    spec = make_specs_for_serialized_specs(devices)
    return _executable(
        f"{_name(info)}_output_specs_and_push_result",
        store_and_describe,
        dataclasses.replace(
            specialization, out_specs_treedef=tree_flatten(spec)[1], out_specs_leaves=(spec,)
        ),
    )


def _make_pop_result_fun(
    info: FunctionInfo, specialization: Specialization, uid: int
) -> Callable[..., Any]:
    """Make a function that fetches the stored results."""
    out_treedef = specialization.out_specs_treedef

    def fetch() -> Any:
        return tree_unflatten(out_treedef, func_backend.SINGLETON_RESULT_STORE.pop(uid))

    none = tree_flatten(((), {}))[1]
    return _executable(
        f"{_name(info)}_pop_result",
        fetch,
        dataclasses.replace(specialization, in_specs_treedef=none, in_specs_leaves=()),
    )


def _make_async_execution_fun(
    info: FunctionInfo, specialization: Specialization
) -> Callable[..., Any]:
    """Make a function that calls the user's function without waiting for it."""
    return _executable(_name(info), info.fun, specialization)


def _executable(name: str, fun: Callable[..., Any], spec: Specialization) -> Callable[..., Any]:
    return _compile_to_executable(
        name, fun, spec.in_specs_treedef, spec.in_specs_leaves, spec.out_specs_treedef,
        spec.out_specs_leaves, spec.devices,
    )  # fmt: skip


def _name(info: FunctionInfo) -> str:
    return getattr(info.fun, "__name__", "unknown")


class _Specialized:
    """A function for arguments of given types.

    The first call is synchronous if the types of results are unknown: it stores the results where
    the function runs, learns their types, and fetches them.
    """

    def __init__(self, info: FunctionInfo, specialization: Specialization):
        self.info = info
        self.specialization = specialization
        self.lock = threading.Lock()
        self.call: Callable[..., Any] | None = None
        if specialization.out_specs_fn is not None:
            args, kwargs = tree_unflatten(
                specialization.in_specs_treedef, specialization.in_specs_leaves
            )
            specs, treedef = tree_flatten(specialization.out_specs_fn(*args, **kwargs))
            self.specialization = specialization.update(
                out_specs_treedef=treedef, out_specs_leaves=tuple(specs)
            )
            self.call = _make_async_execution_fun(info, self.specialization)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        results: Any = None
        first = False
        if self.call is None:
            with self.lock:
                if self.call is None:
                    results, first = self.first_call(leaves), True
        if not first:
            assert self.call is not None
            results = self.call(leaves)
        return tree_unflatten(self.specialization.out_specs_treedef, results)

    def first_call(self, leaves: Sequence[Any]) -> Sequence[Any]:
        info, uid = self.info, next(_uids)
        (described,) = _make_output_specs_and_push_result_fun(info, self.specialization, uid)(
            leaves
        )
        treedef, specs = deserialize_specs(described)
        known = self.specialization.update(out_specs_treedef=treedef, out_specs_leaves=specs)
        results: Sequence[Any] = _make_pop_result_fun(info, known, uid)(())
        self.call = _make_async_execution_fun(info, known)
        self.specialization = known
        return results


_uids = itertools.count(random.getrandbits(62))  # of other processes too


# Callables


def make_callable(
    fun: Callable[..., Any],
    fun_sourceinfo: str | None,
    fun_signature: inspect.Signature | None,
) -> Callable[..., Any]:
    """Make a function that runs beside the devices of its arguments; see `colocated_python`."""
    return _callable(FunctionInfo(fun, fun_sourceinfo, fun_signature), Specialization())


def _callable(info: FunctionInfo, specialization: Specialization) -> Callable[..., Any]:
    known = _Table()
    util.register_cache(known, "colocated_python specializations")

    @wraps(info.fun)
    @api_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree_flatten((args, kwargs))
        specs = tuple([_get_spec(x) for x in leaves])
        key = treedef, tuple([(s.shape, s.dtype, s.sharding) for s in specs])
        specialized = known.get(key)
        if specialized is None:
            _check_signature(info, args, kwargs)
            specialized = known[key] = _Specialized(info, specialized_for(treedef, specs, leaves))
        return specialized(leaves)

    def specialized_for(treedef: PyTreeDef, specs: Specs, leaves: Sequence[Any]) -> Specialization:
        new = specialization
        if new.in_specs_treedef is None:
            new = new.update(in_specs_treedef=treedef, in_specs_leaves=specs)
        else:
            _check_specs(info, new, treedef, specs)
        if new.devices is None:
            devices = _infer_devices_from_args(leaves)
            if devices is None:
                raise ValueError(
                    "No devices found. colocated_python function without input arguments must be"
                    f" first specialized with devices: {_name(info)}.specialize(devices=...). The"
                    f" function is {info.fun_sourceinfo or _name(info)}."
                )
            new = new.update(devices=devices)
        return new

    def specialize(
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Any] | None = None,
    ) -> Callable[..., Any]:
        """Return the function with more known about its calls.

        Args:
          in_specs: a pytree of `jax.ShapeDtypeStruct` for `(args, kwargs)` of a call.
          out_specs_fn: a function of such types of the arguments that returns those of the results.
            Without it, the first call finds them and is synchronous.
          devices: the devices to run beside. They are required without arguments.

        Raises:
          ValueError: something is specified already.
        """
        in_leaves = in_tree = None
        if in_specs is not None:
            flat, in_tree = tree_flatten(in_specs)
            in_leaves = tuple(flat)
        return _callable(
            info,
            specialization.update(
                in_specs_treedef=in_tree,
                in_specs_leaves=in_leaves,
                out_specs_fn=out_specs_fn,
                devices=devices,
            ),
        )

    call.specialize = specialize  # type: ignore[attr-defined]
    return call


class _Table(dict[Any, _Specialized]):
    """Functions by the types of their arguments; cleared with the other caches."""

    def cache_clear(self) -> None:
        self.clear()


def _check_signature(info: FunctionInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError here, not on another host, if the function does not take these arguments."""
    if info.fun_signature is None:
        return
    try:
        info.fun_signature.bind(*args, **kwargs)
    except TypeError as err:
        raise TypeError(
            f"The colocated_python function {info.fun_sourceinfo or _name(info)} cannot be called with"
            f" these arguments: {err}."
        ) from None


def _check_specs(
    info: FunctionInfo, specialization: Specialization, treedef: PyTreeDef, specs: Specs
) -> None:
    expected = specialization.in_specs_leaves or ()
    same = treedef == specialization.in_specs_treedef and all(
        s.shape == e.shape
        and s.dtype == e.dtype
        and (e.sharding is None or s.sharding.is_equivalent_to(e.sharding, len(s.shape)))
        for s, e in zip(specs, expected)
    )
    if not same:
        raise ValueError(
            f"The arguments of the colocated_python function {info.fun_sourceinfo or _name(info)} are"
            f" {tree_unflatten(treedef, specs)}, but its in_specs are"
            f" {tree_unflatten(specialization.in_specs_treedef, expected)}."
        )
