"""Assertions about keys, for tests of functions that use them, and a use without another effect."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, source_info_util, traceback_util
from jax._src.core import JaxprEqn, Primitive
from jax._src.interpreters import ad, batching, mlir
from jax._src.key_reuse.signatures import Forward, KeyReuseSignature, Keys, Sink

traceback_util.register_exclusion(__file__)


def consume(key: Any) -> Any:
    """Consumes a key, and returns it: an array of consumed keys.

    >>> from jax.experimental.key_reuse import _core
    >>> _core.function_type_signature(_core.consume, jax.random.key(0))
    KeyReuseSignature(Sink(0), Forward(0, 0))
    """
    return consume_p.bind(key)


def assert_unconsumed(key: Any) -> None:
    """Asserts that no key of an array has been consumed; see `assert_consumed`."""
    assert_consumed(key, False)


def assert_consumed(key: Any, value: bool | np.ndarray = True) -> None:
    """Asserts which keys of an array have been consumed.

    Args:
      key: the array of keys.
      value: True or False for all of them, or a mask of the array's shape.

    Raises:
      AssertionError: it is otherwise: in a traced function when its use of keys is checked, of
        concrete keys at once if `jax_debug_key_reuse` is set.

    >>> from jax.experimental.key_reuse import _core
    >>> with jax.debug_key_reuse(True):
    ...   key = jax.random.key(0)
    ...   _ = jax.random.bits(key)
    ...   _core.assert_consumed(key)
    """
    mask = np.asarray(value, bool)
    assert_consumed_value_p.bind(key, shape=mask.shape, value=mask.tobytes())


def _check(keys: Keys, shape: Sequence[int], value: bytes, where: str) -> None:
    wanted = np.frombuffer(value, bool).reshape(shape)
    found = np.broadcast_to(np.asarray(keys.mask), (max(keys.size, 1),))
    if not np.array_equal(found, np.broadcast_to(wanted.ravel(), found.shape)):
        what = f"{'' if wanted.all() else 'not '}be consumed"
        if wanted.ndim and wanted.any() and not wanted.all():
            what = f"be consumed as the mask {wanted.tolist()} says"
        raise AssertionError(
            f"Expected key to {what}, {where}, but the flags of the keys are {found.tolist()}."
        )


class _Assertion(KeyReuseSignature):
    """The signature of an assertion: it looks at its operand."""

    __slots__ = ("eqn",)

    def __init__(self, eqn: JaxprEqn):
        super().__init__(Forward(0, 0))
        self.eqn = eqn

    def apply(
        self, operands: Sequence[Keys | None], results: int, failed: Callable[[int], str]
    ) -> list[Keys | None]:
        where = "at " + source_info_util.summarize(self.eqn.source_info)
        if operands[0] is not None:
            _check(operands[0], self.eqn.params["shape"], self.eqn.params["value"], where)
        return super().apply(operands, results, failed)


def _assert_now(key: Any, *, shape: tuple[int, ...], value: bytes) -> Any:
    if config.debug_key_reuse.value:
        where = "at " + source_info_util.summarize(source_info_util.current())
        _check(Keys(key.size, key._consumed), shape, value, where)
    return key


def _identity(name: str) -> Primitive:
    p = Primitive(name)
    p.def_abstract_eval(lambda key, **_: key)
    p.jvp = functools.partial(ad.zero_jvp, p)
    mlir.register_lowering(p, lambda ctx, x, **_: [x])
    return p


consume_p = _identity("consume")
consume_p.batch = lambda args, dims: (consume_p.bind(*args), dims[0])
consume_p.key_use = KeyReuseSignature(Sink(0), Forward(0, 0))


def _assert_batch(args: Any, dims: Any, *, shape: tuple[int, ...], value: bytes) -> Any:
    (x,), (d,) = args, dims
    mask = np.frombuffer(value, bool).reshape(shape)
    if d is not batching.not_mapped and mask.ndim:  # the same for each key array of the batch
        x, d = batching.moveaxis(x, d, 0), 0
        mask = np.broadcast_to(mask, x.shape)
    out = assert_consumed_value_p.bind(x, shape=mask.shape, value=mask.tobytes())
    return out, d


assert_consumed_value_p = _identity("assert_consumed_value")
assert_consumed_value_p.batch = _assert_batch
assert_consumed_value_p.def_impl(_assert_now)
assert_consumed_value_p.key_use = _Assertion
