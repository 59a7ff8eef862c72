"""`Error`, the arrays in which checks record what they find, and `check`, which raises or records one.

`check_p` takes an `Error` as operands. It raises the error where it is evaluated, and cannot be
compiled: `checkify` replaces it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, source_info_util, traceback_util
from jax._src.basearray import Array
from jax._src.checkify.exceptions import (
    BatchedError,
    ErrorEffect,
    FailedCheckError,
    JaxException,
)
from jax._src.core import Primitive
from jax._src.device_put.functions import device_put
from jax._src.interpreters import batching, mlir
from jax._src.lax import lax
from jax._src.lax.slicing import dynamic_index_in_dim
from jax._src.tree_util import (
    PyTreeDef,
    register_pytree_node_class,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

traceback_util.register_exclusion(__file__)


class JaxRuntimeError(ValueError):
    """Raised for an error that a check has found; its cause is the exception of that check."""


@register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class Error:
    """The result of checks: a pytree of arrays, for each kind of error that they look for.

    Programs that `checkify` returns have it as their first result; see `get` and `throw`.

    Attributes:
      _pred: whether there is an error of this kind.
      _code: which check has found the first one.
      _metadata: for each code the tree structure of its exception.
      _payload: the arrays of that exception.
    """

    _pred: dict[ErrorEffect, Any]
    _code: dict[ErrorEffect, Any]
    _metadata: dict[int, PyTreeDef]
    _payload: dict[ErrorEffect, list[Any]]

    def get(self) -> str | None:
        """The message of the first error, or None if no check has found one."""
        exception = self.get_exception()
        return None if exception is None else str(exception)

    def get_exception(self) -> JaxException | None:
        """The exception of the first error, or None if no check has found one.

        For the errors of a batch it is a `BatchedError`.
        """
        found = {e: np.asarray(pred) for e, pred in self._pred.items() if np.any(pred)}
        if not found:
            return None
        codes = {e: np.broadcast_to(self._code[e], pred.shape) for e, pred in found.items()}
        first = min(found, key=lambda e: codes[e][found[e]].min())
        shape = found[first].shape
        if not shape:
            return self._exception(first, ())
        alike = [e for e in found if found[e].shape == shape]
        errors = {}
        for index in np.ndindex(*shape):
            here = [e for e in alike if found[e][index]]
            if here:
                errors[index] = self._exception(min(here, key=lambda e: codes[e][index]), index)
        return BatchedError(errors)

    def _exception(self, effect: ErrorEffect, index: tuple[int, ...]) -> JaxException:
        code = int(np.broadcast_to(self._code[effect], np.shape(self._pred[effect]))[index])
        payload = tree_map(lambda x: _element(x, index), self._payload[effect])
        return tree_unflatten(self._metadata[code], payload).at_its_line()

    def throw(self) -> None:
        """Raises a `JaxRuntimeError` for the first error, if a check has found one.

        Like `check_error`, it can be called in functions that `checkify` transforms.
        """
        check_error(self)

    def __str__(self) -> str:
        if any(isinstance(x, core.Tracer) for x in tree_leaves(self)):
            return repr(self)
        return f"Error({self.get()})"

    def tree_flatten(self) -> tuple[Sequence[Any], Any]:
        return (self._pred, self._code, self._payload), _Metadata(self._metadata)

    @classmethod
    def tree_unflatten(cls, metadata: Any, data: Sequence[Any]) -> Error:
        pred, code, payload = data
        return cls(pred, code, dict(metadata), payload)


def _element(x: Any, index: tuple[int, ...]) -> Any:
    """An element of a batch, which an explicit sharding may divide."""
    if not index or dtypes.issubdtype(x.dtype, dtypes.extended):
        return x[index] if index else x
    return device_put(np.asarray(x)[index])


class _Metadata(Mapping[int, PyTreeDef]):
    """A dict that can be hashed, as part of the structure of a pytree."""

    def __init__(self, items: dict[int, PyTreeDef]):
        self._items = dict(items)

    def __getitem__(self, code: int) -> PyTreeDef:
        return self._items[code]

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Metadata) and self._items == other._items

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


init_error = Error({}, {}, {}, {})


def error_of(pred: Any, exception: JaxException) -> Error:
    """The error of one check: `exception`, if `pred` is true."""
    payload, tree = tree_flatten(exception)
    effect = exception.get_effect_type()
    return Error({effect: pred}, {effect: np.int32(0)}, {0: tree}, {effect: payload})


def reduced(error: Error) -> Error:
    """One error in place of those of a batch: the last one of each kind."""
    pred, code, payload = dict(error._pred), dict(error._code), dict(error._payload)
    for effect, found in error._pred.items():
        if np.ndim(found):
            group = [found, code[effect], *payload[effect]]
            pred[effect], code[effect], *payload[effect] = last_of_batch(group)
    return Error(pred, code, error._metadata, payload)


def last_of_batch(group: Sequence[Any]) -> list[Any]:
    """The last error of a batch, given predicate, code and payload of all of them."""
    found, code, *payload = group
    shape = np.shape(found)
    if found.size == 0:
        empty = lambda x: lax.full(np.shape(x)[len(shape) :], 0, x.dtype)
        return [np.bool_(False), np.int32(0), *map(empty, payload)]
    at = _last(lax.reshape(found, (found.size,)))

    def pick(x: Any) -> Any:
        flat = lax.reshape(x, (found.size, *x.shape[len(shape) :]))
        return dynamic_index_in_dim(flat, at, keepdims=False)

    code = lax.broadcast_in_dim(code, shape, tuple(range(np.ndim(code))))
    return [lax.reduce_or(found, tuple(range(len(shape)))), *map(pick, (code, *payload))]


def _last(found: Any) -> Any:
    """The position of the last true element; 0 if there is none."""
    positions = lax.iota(np.int32, found.shape[0])
    return lax.reduce_max(lax.select(found, positions, lax.full_like(positions, 0)), (0,))


def messages(error: Error) -> list[tuple[Any, str]]:
    """Whether there is an error of each kind, and its message where arguments cannot be inserted: the format."""
    return [(found, _message(error, effect)) for effect, found in error._pred.items()]


def _message(error: Error, effect: ErrorEffect) -> str:
    payload = error._payload[effect]
    alike = [e for e in error._payload if e.shape_dtypes == effect.shape_dtypes]
    # With payloads of one type, nothing says which kind a tree is of.
    trees = error._metadata.values() if len(alike) == 1 else ()
    exceptions = [tree_unflatten(tree, payload) for tree in trees]
    texts = [e.fmt_string for e in exceptions if isinstance(e, FailedCheckError)]
    return " or ".join(texts) or effect.error_type.__name__


# The primitive

check_p = Primitive("check", multiple_results=True)


def _types(*_: Any, err_tree: PyTreeDef, debug: bool) -> tuple[list[Any], set[Any]]:
    error = tree_unflatten(err_tree, range(err_tree.num_leaves))
    return [], set(error._pred)


check_p.def_effectful_abstract_eval(_types)


def _raise_now(*args: Any, err_tree: PyTreeDef, debug: bool) -> list[Any]:
    if not debug:
        exception = reduced(tree_unflatten(err_tree, args)).get_exception()
        if exception is not None:
            raise JaxRuntimeError(str(exception)) from exception
    return []


check_p.def_impl(_raise_now)


def _lowering(ctx: Any, *args: Any, err_tree: PyTreeDef, debug: bool) -> list[Any]:
    if debug:
        return []
    raise ValueError(
        "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably means "
        "that you tried to stage (jit/scan/pmap/...) a `check` without functionalizing it: transform the "
        "function with `checkify.checkify` first, inside of `jax.jit`. Checks for debugging "
        "(`checkify.debug_check`) are left out instead."
    )


mlir.register_lowering(check_p, _lowering)


def _jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return check_p.bind(*primals, **params), []


check_p.jvp = _jvp


def _batch(axis_data: Any, args: Any, dims: Any, *, err_tree: PyTreeDef, debug: bool) -> Any:
    args = [batching.bdim_at_front(x, d, axis_data.size) for x, d in zip(args, dims)]
    error = reduced(tree_unflatten(err_tree, args))
    return check_p.bind(*tree_leaves(error), err_tree=err_tree, debug=debug), []


check_p.axis_batch = _batch


def _pp(eqn: Any, context: Any, settings: Any) -> Any:
    return core.default_pp_eqn(eqn, context, settings, ["debug"])


check_p.pp = _pp

# Functions that users call


def is_scalar_pred(pred: Any) -> bool:
    """Whether a value is a boolean scalar: a Python bool, or an array without dimensions."""
    if isinstance(pred, bool):
        return True
    return isinstance(pred, Array) and pred.shape == () and pred.dtype == np.bool_


@traceback_util.api_boundary
def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Raises an error if a predicate is false, or records it in functions that `checkify` transforms.

    Without `checkify`, a function with checks runs only outside of `jit`, `scan` and the like. The
    transformations for derivatives and `vmap` can be applied to it.

    Args:
      pred: boolean scalar.
      msg: the message, a format string.
      *fmt_args, **fmt_kwargs: values that are inserted into it: trees of arrays. They are kept until
        the program ends.
      debug: whether to leave the check out where `checkify` does not transform it.

    Raises:
      JaxRuntimeError: if `pred` is false.
      TypeError: if `pred` is not a boolean scalar, or a value to insert is not a tree of arrays.
      ValueError: if a program with a check that is not transformed is compiled.

    >>> from jax.experimental import checkify
    >>> def root(x):
    ...     checkify.check(x >= 0, "{x} is negative", x=x)
    ...     return jnp.sqrt(x)
    >>> error, y = jax.jit(checkify.checkify(root))(-3.0)
    >>> print(error.get())
    -3.0 is negative (`check` failed)
    """
    if not isinstance(debug, bool):
        raise TypeError(f"debug, the keyword of checkify.check, must be a bool, got {debug}")
    _check("check", pred, msg, fmt_args, fmt_kwargs, debug)


def _check(name: str, pred: Any, msg: str, fmt_args: Any, fmt_kwargs: Any, debug: bool) -> None:
    if not is_scalar_pred(pred):
        raise TypeError(f"{name} takes a scalar pred as argument, got {pred}")
    for x in tree_leaves((fmt_args, fmt_kwargs)):
        if not isinstance(x, (Array, np.ndarray)):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}."
            )
    fmt_args, fmt_kwargs = tree_map(_strongly_typed, (fmt_args, fmt_kwargs))
    traceback = source_info_util.current_traceback()
    exception = FailedCheckError(traceback, msg, *fmt_args, **fmt_kwargs)
    failed = lax.bitwise_not(pred) if isinstance(pred, Array) else np.bool_(not pred)
    _bind(error_of(failed, exception), debug)


def _strongly_typed(x: Any) -> Any:
    # The payloads of errors of one kind are of one type.
    return lax.convert_element_type(x, x.dtype) if getattr(x, "weak_type", False) else x


@traceback_util.api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Records an error if a predicate is false in functions that `checkify` transforms.

    Elsewhere it does nothing, so it can stay in functions that are compiled without `checkify`.

    Args:
      pred, msg, *fmt_args, **fmt_kwargs: see `check`.

    Raises:
      TypeError: see `check`.

    >>> from jax.experimental import checkify
    >>> @jax.jit
    ... def inverse(x):
    ...     checkify.debug_check(x != 0, "cannot be zero")
    ...     return 1 / x
    >>> print(inverse(0.0))
    inf
    >>> error, y = checkify.checkify(inverse)(0.0)
    >>> print(error.get())
    cannot be zero (`check` failed)
    """
    _check("debug_check", pred, msg, fmt_args, fmt_kwargs, True)


def check_error(error: Error) -> None:
    """Raises an error that `checkify` has returned, or records it in functions that it transforms.

    It is the inverse of `checkify`: a part of a function can handle its errors as values, and raise
    those that it does not handle.

    Args:
      error: the error; one of a batch is replaced by that of its last element that has one.

    Raises:
      JaxRuntimeError: if `error` represents a failure.
      TypeError: if it is not an `Error`.
      ValueError: if a program with an error that is not transformed is compiled.

    >>> from jax.experimental import checkify
    >>> def inner(x):
    ...     checkify.check(x > 0, "not positive")
    ...     return jnp.log(x)
    >>> def outer(x):
    ...     error, y = checkify.checkify(inner)(x)
    ...     checkify.check_error(error)
    ...     return y
    >>> error, y = jax.jit(checkify.checkify(outer))(-1.0)
    >>> print(error.get())
    not positive (`check` failed)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    _bind(error, debug=False)


def _bind(error: Error, debug: bool) -> None:
    if error._pred:
        leaves, tree = tree_flatten(error)
        check_p.bind(*leaves, err_tree=tree, debug=debug)
