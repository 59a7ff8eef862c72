"""Errors that computations find while they run: recorded on the device, raised afterwards.

`set_error_if` stores the number of an error in a reference, unless there is one already, so that a
compiled program need not call back to Python. `raise_if_error` reads it and raises what it stands for.
The references are part of the state of tracing: a function is traced again where others are in use.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core, source_info_util, traceback_util, tree_util
from jax._src.core import eval_trace, trace_ctx
from jax._src.custom_batching import custom_vmap
from jax._src.device_put.functions import device_put
from jax._src.lax import lax
from jax._src.lax.parallel import pcast, psum
from jax._src.mesh import (
    AbstractMesh,
    Mesh,
    empty_abstract_mesh,
    empty_concrete_mesh,
    get_abstract_mesh,
    get_concrete_mesh,
    use_abstract_mesh,
)
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import shard_map
from jax._src.sharding_impls.meshes import use_concrete_mesh
from jax._src.state.primitives import new_ref, ref_get, ref_set
from jax._src.tree_util.serialization import register_pytree_node_serialization

_NO_ERROR = np.uint32(np.iinfo(np.uint32).max)


class JaxValueError(ValueError):
    """Raised by `raise_if_error` for an error that a computation found."""


class _Error(NamedTuple):
    message: str
    traceback: Any  # of jaxlib, or the text of one in a program that was imported


class _Errors:
    """Errors by number. The same error at the same place has one number."""

    def __init__(self) -> None:
        self._numbers: dict[_Error, int] = {}
        self._lock = threading.Lock()

    def number(self, error: _Error) -> int:
        with self._lock:
            return self._numbers.setdefault(error, len(self._numbers))

    def all(self) -> list[_Error]:
        return list(self._numbers)


class _Place(NamedTuple):
    """The devices that record errors in one reference."""

    mesh: Mesh | None  # that of `jax.set_mesh`
    shards: AbstractMesh | None  # that of the `shard_map` being traced

    @property
    def each_device_of(self) -> Mesh | None:
        """The mesh, each device of which has its own number of an error, unless there is one for all."""
        return self.mesh if self.shards is None else None

    def no_error(self) -> Any:
        mesh = self.each_device_of
        if mesh is None:
            return lax.full((), _NO_ERROR, np.uint32)
        sharding = NamedSharding(mesh, PartitionSpec(*mesh.axis_names))
        return device_put(np.full(mesh.devices.shape, _NO_ERROR), sharding)


@contextlib.contextmanager
def _no_mesh() -> Iterator[None]:
    with use_abstract_mesh(empty_abstract_mesh), use_concrete_mesh(empty_concrete_mesh):
        yield


def _place() -> _Place:
    mesh, abstract = get_concrete_mesh(), get_abstract_mesh()
    return _Place(None if mesh.empty else mesh, abstract if abstract.manual_axes else None)


class _State:
    """References to the numbers of errors: one a place, as programs cannot read those of others.

    `trace` is the one in which they are made.
    """

    def __init__(self, errors: _Errors, trace: core.Trace = eval_trace):
        self.errors = errors
        self.refs: dict[_Place, Any] = {}
        self._trace = trace

    def ref(self) -> Any:
        place = _place()
        if place not in self.refs:
            with core.set_current_trace(self._trace), _no_mesh():
                self.refs[place] = new_ref(place.no_error())
        return self.refs[place]


_process_state = _State(_Errors())
_context: Any = config.make_user_context(None)


def _state() -> _State:
    return _context.value or _process_state


# ---------------------------------------------------------------------------------------------------
# Finding errors


def _any_on_each_device(pred: Any, mesh: Mesh) -> Any:
    """Returns an array of the mesh's shape: whether `pred` is true anywhere on each device."""
    sharding = core.typeof(pred).sharding
    names = mesh.axis_names

    def local(pred):
        found = lax.reduce_or(pred, tuple(range(pred.ndim)))
        replicated = tuple(a for a in names if a not in core.typeof(found).vma)
        found = lax.reshape(found, (1,) * len(names))
        return pcast(found, replicated, to="varying") if replicated else found

    return shard_map(local, mesh=mesh, in_specs=sharding.spec, out_specs=PartitionSpec(*names))(
        pred
    )


def _found(pred: Any) -> Any:
    """Reduces `pred` to the shape of the reference in use."""
    mesh = _place().each_device_of
    if mesh is not None and core.typeof(pred).sharding.mesh.are_all_axes_explicit:
        return _any_on_each_device(pred, mesh)
    found = lax.reduce_or(pred, tuple(range(pred.ndim)))
    return found if mesh is None else lax.broadcast(found, mesh.devices.shape)


@custom_vmap
def _store(ref: Any, pred: Any, code: Any) -> tuple[()]:
    """Stores `code` if an element of `pred` is true and no error is stored."""
    old = ref_get(ref, ())
    first = lax.eq(old, lax.full_like(old, _NO_ERROR)) & _found(pred)
    sharding = core.typeof(old).sharding
    alike = sharding if sharding.mesh.are_all_axes_explicit and old.ndim else None
    ref_set(ref, (), lax.select(first, lax.broadcast(code, old.shape, out_sharding=alike), old))
    return ()


@_store.def_vmap
def _store_of_batch(axis_size: int, in_batched: Any, *args: Any) -> tuple[tuple, tuple]:
    # An error of one element of the batch is one of the whole: the reference is not batched.
    return _store(*args), ()


def set_error_if(pred: Any, /, msg: str) -> None:
    """Records an error if any element of `pred` is true, for `raise_if_error` to raise.

    Inside `jit` it takes place when the program runs, which then goes on. The first error stays.
    With a mesh set by `jax.set_mesh` whose axes are Explicit, each device records its own error.

    Args:
      pred: boolean array of any shape.
      msg: what the error says.

    >>> from jax._src.error_check import raise_if_error, set_error_if
    >>> @jax.jit
    ... def log(x):
    ...     set_error_if(x < 0, "negative number")
    ...     return jnp.log(x)
    >>> y = log(jnp.array([1.0, -1.0]))
    >>> try:
    ...     raise_if_error()
    ... except ValueError as e:
    ...     print(e)
    negative number
    """
    pred = lax.convert_element_type(pred, np.bool_)
    mesh = _place().each_device_of
    if pred.ndim and mesh is not None and not mesh.are_all_axes_explicit:
        warnings.warn(
            "set_error_if: axes of the mesh are not Explicit, so whether any element is true is found "
            "by communication between the devices. Make the axes Explicit to avoid it.",
            RuntimeWarning,
            stacklevel=2,
        )
    varying = tuple(core.typeof(pred).vma)
    if varying:  # inside shard_map, where the reference has one value for all shards
        found = lax.reduce_or(pred, tuple(range(pred.ndim)))
        pred = lax.gt(psum(lax.convert_element_type(found, np.int32), varying), np.int32(0))
    number = _state().errors.number(_Error(msg, source_info_util.current_traceback()))
    _store(_state().ref(), pred, np.uint32(number))


def raise_if_error() -> None:
    """Raises the first error that computations have recorded, and forgets all of them.

    Raises:
      JaxValueError: if there is an error; its traceback leads to the call of `set_error_if`.
      ValueError: if it is called while a function is traced, for example inside `jit`.
    """
    if trace_ctx.trace is not eval_trace:
        raise ValueError(
            "raise_if_error() should not be called within a traced context, such as within a jitted "
            "function."
        )
    state = _state()
    first = _NO_ERROR
    for place, ref in state.refs.items():
        codes = ref_get(ref, ())
        first = min(first, *[np.min(np.asarray(s.data)) for s in codes.addressable_shards])
        ref_set(ref, (), place.no_error())
    if first == _NO_ERROR:
        return
    message, where = state.errors.all()[int(first)]
    error = JaxValueError(message)
    if isinstance(where, str):
        error.add_note(f"The error was recorded at:\n{where}")
        raise error
    raise error.with_traceback(_filtered(where))


def _filtered(where: Any) -> TracebackType | None:
    return traceback_util.filter_traceback(where.as_python_traceback())


class error_checking_context:
    """Context manager: errors found inside it are recorded, raised and forgotten apart from others.

    Enter it inside `jax.set_mesh`, so that the record belongs to the devices of that mesh.

    >>> from jax._src.error_check import error_checking_context, raise_if_error, set_error_if
    >>> with error_checking_context():
    ...     set_error_if(jnp.array(True), "forgotten")
    >>> raise_if_error()
    """

    def __init__(self) -> None:
        self._entered: list[Any] = []

    def __enter__(self) -> error_checking_context:
        context = _context(_State(_state().errors))
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._entered.pop().__exit__(*exc_info)


# ---------------------------------------------------------------------------------------------------
# Errors of exported programs


@tree_util.register_pytree_node_class
class _Outcome:
    """The error of a program: its number, an array, and what the numbers stand for."""

    def __init__(self, code: Any, errors: tuple[tuple[str, str], ...]):
        self.code = code
        self.errors = errors

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        return (self.code,), self.errors

    @classmethod
    def tree_unflatten(cls, errors: Any, children: Any) -> _Outcome:
        return cls(*children, errors)


def _from_json(data: bytes | bytearray) -> Any:
    (errors,) = json.loads(bytes(data))
    if not all(len(e) == 2 and all(isinstance(text, str) for text in e) for e in errors):
        raise ValueError("the errors of an exported program must be pairs of a message and a place")
    return tuple([tuple(error) for error in errors])


register_pytree_node_serialization(  # as in exported programs of the reference
    _Outcome,
    serialized_name="jax._src.error_check._ErrorClass",
    serialize_auxdata=lambda errors: json.dumps([errors]).encode(),
    deserialize_auxdata=_from_json,
)


def wrap_for_export(f: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that the error it finds is a result, beside its own.

    A program that is exported cannot record errors in a reference of the process.

    Args:
      f: function that may call `set_error_if`.

    Returns:
      A function for `unwrap_from_import`, which may be compiled or exported in between.

    >>> from jax._src.error_check import set_error_if, unwrap_from_import, wrap_for_export
    >>> def double(x):
    ...     set_error_if(x < 0, "negative number")
    ...     return 2 * x
    >>> unwrap_from_import(jax.jit(wrap_for_export(double)))(3)
    Array(6, dtype=int32, weak_type=True)
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, _Outcome]:
        state = _State(_Errors(), trace_ctx.trace)
        state.ref()
        with _context(state):
            out = f(*args, **kwargs)
        codes = [ref_get(ref, ()) for ref in state.refs.values()]
        code = functools.reduce(lax.min, [lax.reduce_min(c, tuple(range(c.ndim))) for c in codes])
        return out, _Outcome(code, tuple([(e.message, _text(e)) for e in state.errors.all()]))

    return wrapped


def _text(error: _Error) -> str:
    if isinstance(error.traceback, str):
        return error.traceback
    return "".join(traceback.format_tb(_filtered(error.traceback)))


def unwrap_from_import(f: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function from `wrap_for_export` so that its error is recorded for `raise_if_error`.

    Args:
      f: what `wrap_for_export` returned, or a program exported from it.

    Returns:
      A function with the results of the one that was wrapped.
    """

    @functools.wraps(f)
    def unwrapped(*args: Any, **kwargs: Any) -> Any:
        out, outcome = f(*args, **kwargs)
        for i, (message, where) in enumerate(outcome.errors):
            number = _state().errors.number(_Error(message, where))
            found = lax.eq(outcome.code, lax.full_like(outcome.code, i))
            _store(_state().ref(), found, np.uint32(number))
        return out

    return unwrapped
