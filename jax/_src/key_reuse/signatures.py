"""What an operation does with random keys: which ones it consumes, makes and passes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src.errors import KeyReuseError


def is_key_array(x: Any) -> bool:
    """Whether a value is an array of keys, which knows which of them have been consumed."""
    return hasattr(type(x), "_consumed")


class _Mark:
    """A position and which elements of the array there are meant: all (True), none, or a mask."""

    __slots__ = ("idx", "mask")

    idx: int
    mask: Any

    def __init__(self, idx: int, mask: bool | np.bool_ | np.ndarray = True):
        mask = np.asarray(mask, bool)
        if mask.all() or not mask.any():
            mask = bool(mask.all())
        object.__setattr__(self, "idx", idx)
        object.__setattr__(self, "mask", mask)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make a new one")

    def _key(self) -> tuple[Any, ...]:
        m = self.mask
        if isinstance(m, np.ndarray):
            return type(self).__name__, self.idx, m.shape, m.tobytes()
        return type(self).__name__, self.idx, (), bytes([m])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mark) and self._key() == other._key()

    def __lt__(self, other: _Mark) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        mask = "" if self.mask is True else f", {self.mask}"
        return f"{type(self).__name__}({self.idx}{mask})"


class Sink(_Mark):
    """The operand at `idx` is consumed: its keys must not be used again."""

    __slots__ = ()


class Source(_Mark):
    """The result at `idx` consists of new keys."""

    __slots__ = ()


class Forward(NamedTuple):
    """The result at `out_idx` has the same keys as the operand at `in_idx`."""

    in_idx: int
    out_idx: int

    def __repr__(self) -> str:
        return f"Forward({self.in_idx}, {self.out_idx})"


class KeyReuseSignature:
    """What a function or an operation does with keys.

    Args:
      args: any number of `Source`, `Sink` and `Forward`. Keys among the results that no source and no
        forward names are consumed ones.

    >>> from jax.experimental.key_reuse import _core
    >>> signature = _core.KeyReuseSignature(_core.Sink(0), _core.Source(1))
    >>> print(signature, signature.sinks)
    KeyReuseSignature(Sink(0), Source(1)) [Sink(0)]
    """

    __slots__ = ("_args", "sites")

    def __init__(self, *args: Source | Sink | Forward):
        self._args = frozenset(args)
        # Where sinks are, for messages: from position to text.
        self.sites: dict[int, str] = {}

    @property
    def sinks(self) -> list[Sink]:
        return sorted([x for x in self._args if isinstance(x, Sink)])

    @property
    def sources(self) -> list[Source]:
        return sorted([x for x in self._args if isinstance(x, Source)])

    @property
    def forwards(self) -> list[Forward]:
        return sorted([x for x in self._args if isinstance(x, Forward)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyReuseSignature) and self._args == other._args

    def __hash__(self) -> int:
        return hash(self._args)

    def __repr__(self) -> str:
        parts = (*self.sinks, *self.sources, *self.forwards)
        return f"{type(self).__name__}{parts}"

    def check_signature(
        self, *args: Any, funcname: str = "function", context: str | None = None
    ) -> None:
        """Check that no key that a call consumes has been consumed before.

        Args:
          args: the flat arguments of the call; those that are no arrays of keys are not looked at.
          funcname: what is called, for the message.
          context: what the message adds.

        Raises:
          KeyReuseError: an argument has been consumed.

        >>> import jax
        >>> from jax.experimental.key_reuse import _core
        >>> _core.KeyReuseSignature(_core.Sink(0)).check_signature(jax.random.key(0))
        """
        for sink in self.sinks:
            x = args[sink.idx]
            if is_key_array(x) and Keys(x.size, x._consumed).overlaps(sink.mask):
                where = f" {context}" if context else ""
                raise KeyReuseError(
                    f"Previously-consumed key passed to {funcname} at index {sink.idx}{where}"
                )

    def update_consumption(self, args_in: Sequence[Any], args_out: Sequence[Any]) -> None:
        """Mark the keys of a call that has run: those that it consumed, and those among its results.

        Args:
          args_in: its flat arguments.
          args_out: its flat results. Keys that no source and no forward names count as consumed.
        """
        for sink in self.sinks:
            if is_key_array(x := args_in[sink.idx]):
                x._consumed = x._consumed | sink.mask
        for x in filter(is_key_array, args_out):
            x._consumed = True
        for source in self.sources:
            if is_key_array(x := args_out[source.idx]):
                x._consumed = np.logical_not(source.mask)
        for i, o in self.forwards:
            if is_key_array(args_in[i]) and is_key_array(x := args_out[o]):
                x._consumed = args_in[i]._consumed

    def apply(
        self, operands: Sequence[Keys | None], results: int, failed: Callable[[int], str]
    ) -> list[Keys | None]:
        """Consume the operands.

        Args:
          operands: their states; None for arrays of other types.
          results: the number of results.
          failed: from the position of an operand that is consumed already to the message.

        Returns:
          The states of the results; those of results that are no keys mean nothing.

        Raises:
          KeyReuseError: a key is consumed that has been consumed before.
        """
        for sink in self.sinks:
            keys = operands[sink.idx]
            if keys is not None and not keys.consume(sink.mask, self.sites.get(sink.idx, "")):
                raise KeyReuseError(failed(sink.idx))
        outs: list[Keys | None] = [Keys(1, True) for _ in range(results)]
        for source in self.sources:
            outs[source.idx] = Keys(1)
        for i, o in self.forwards:
            outs[o] = operands[i]
        return outs


class Keys:
    """Which keys of an array have been consumed; shared by arrays with the same keys.

    Args:
      size: the number of keys.
      used: True or False for all of them, or an array with the flag of each one.
    """

    __slots__ = ("mask", "site", "size")

    def __init__(self, size: int, used: Any = False):
        self.size = size
        self.mask = used.ravel() if isinstance(used, np.ndarray) else bool(used)
        self.site = ""  # where they were consumed, for messages

    def overlaps(self, mask: Any) -> bool:
        """Whether some of these keys have been consumed; `mask` is that of an array with the same keys."""
        if isinstance(mask, np.ndarray) and mask.size == self.size:
            return bool(np.any(self.mask & mask.ravel()))
        return bool(np.any(self.mask) and np.any(mask))

    def consume(self, mask: Any, site: str = "") -> bool:
        """Mark keys as consumed; returns False, and marks none, if one has been before."""
        if self.overlaps(mask):
            return False
        if np.any(mask):
            if isinstance(mask, np.ndarray) and mask.size == self.size:
                both = self.mask | mask.ravel()
                self.mask = True if both.all() else both
            else:  # a mask of another array, such as a slice: which keys it means is not known
                self.mask = True
            self.site = site or self.site
        return True
