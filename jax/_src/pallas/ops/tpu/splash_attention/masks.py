"""Masks of attention: which keys (columns) a query (row) sees. They are evaluated block by block."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> np.ndarray:
    """Return a mask in which row i sees the columns up to i + offset.

    Args:
      shape: numbers of queries and keys.
      offset: how many columns more each row sees; if it is negative, the first rows see none.

    >>> from jax.experimental.pallas.ops.tpu.splash_attention import make_causal_mask
    >>> make_causal_mask((2, 3)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(
    shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
) -> np.ndarray:
    """Return a mask in which row i sees the columns in a window around i + offset.

    Args:
      shape: numbers of queries and keys.
      window_size: the numbers of columns to the left and to the right; None for all.
      offset: where the window of the first row is.
    """
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> np.ndarray:
    """Return a causal mask in which a row sees columns of its own chunk only.

    Args:
      shape: numbers of queries and keys.
      chunk_size: the number of rows, and of columns, in a chunk.

    Raises:
      ValueError: if the size is not positive.
    """
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> np.ndarray:
    """Return a random mask.

    Args:
      shape: numbers of queries and keys.
      sparsity: the probability that a row does not see a column.
      seed: of NumPy's random numbers.
    """
    rng = np.random.default_rng(seed)
    return rng.random(shape) > sparsity


class Mask:
    """A mask: `shape`, and `mask[rows, columns]` for slices, an array of booleans.

    Masks are combined by `&` and `|`.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> np.ndarray:
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise NotImplementedError(
            "Conversion to bool is unsupported. Masks are combined by `&` and `|`, not by `and` and `or`."
        )

    def __or__(self, other: Mask) -> Mask:
        return LogicalOr(self, _of_shape(other, self.shape))

    def __and__(self, other: Mask) -> Mask:
        return LogicalAnd(self, _of_shape(other, self.shape))


def _of_shape(other: Mask, shape: tuple[int, ...]) -> Mask:
    if other.shape != shape:
        raise ValueError(f"Invalid shape for other: {other.shape}, expected: {shape}")
    return other


@dataclasses.dataclass(frozen=True)
class _Combined(Mask):
    left: Mask
    right: Mask

    @property
    def shape(self) -> tuple[int, ...]:
        return self.left.shape


class LogicalOr(_Combined):
    """What either of two masks has."""

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.left[index] | self.right[index]


class LogicalAnd(_Combined):
    """What both of two masks have."""

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.left[index] & self.right[index]


class MultiHeadMask(Mask):
    """A mask for each head.

    Args:
      masks: the masks, of one shape.

    Raises:
      ValueError: if there are none, or their shapes differ.
    """

    def __init__(self, masks: Sequence[Mask]):
        self.masks = tuple(masks)
        if not self.masks:
            raise ValueError("Unsupported empty tuple of masks")
        for mask in self.masks:
            if isinstance(mask, MultiHeadMask):
                raise ValueError("Nesting MultiHeadMasks is not supported")
            if mask.shape != self.masks[0].shape:
                raise ValueError(
                    f"Unexpected mask shape, got: {mask.shape}, expected: {self.masks[0].shape}"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.masks), *self.masks[0].shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        if not isinstance(index, tuple) or len(index) != 3:
            raise NotImplementedError(
                f"Unsupported index of a MultiHeadMask: {index!r}: give three slices."
            )
        heads, *rest = index
        chosen = self.masks[heads] if isinstance(heads, slice) else (self.masks[heads],)
        blocks = np.stack([mask[tuple(rest)] for mask in chosen])
        return blocks if isinstance(heads, slice) else blocks[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultiHeadMask) and self.masks == other.masks

    def __hash__(self) -> int:
        return hash((MultiHeadMask, self.masks))


class _ByPosition(Mask):
    """A mask that is computed from the positions of rows and columns.

    With a number of shards, rows can be divided among so many devices, and so can what each has.
    """

    def __init__(self, shape: tuple[int, int], shard_count: int):
        self._shape = tuple(shape)
        self.shard_count = shard_count
        if self._shape[0] % shard_count**2:
            raise ValueError(
                f"Shard count squared ({shard_count**2}) must divide Q seq_len ({self._shape[0]}) evenly."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def sees(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Whether rows see columns, given their positions."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> np.ndarray:
        if (
            not isinstance(index, tuple)
            or len(index) != 2
            or not all(isinstance(i, slice) for i in index)
        ):
            raise NotImplementedError(
                f"Unsupported slice: {index!r}. A mask is indexed by two slices."
            )
        rows, columns = (np.arange(n)[i] for n, i in zip(self._shape, index))
        seen = self.sees(rows[:, None], columns[None, :])
        return np.broadcast_to(seen, (len(rows), len(columns)))

    def _key(self) -> tuple[Any, ...]:
        return (type(self), self._shape, self.shard_count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByPosition) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class CausalMask(_ByPosition):
    """Row i sees the columns up to i + offset; see `make_causal_mask`.

    Args:
      shape: numbers of queries and keys.
      offset: how many columns more each row sees.
      shard_count: among how many devices the rows can be divided.
    """

    def __init__(self, shape: tuple[int, int], offset: int = 0, shard_count: int = 1):
        super().__init__(shape, shard_count)
        self.offset = offset

    def sees(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        return rows + self.offset >= columns

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.offset)


class ChunkedCausalMask(_ByPosition):
    """Row i sees the columns up to i that are in its chunk; see `make_chunk_attention_mask`.

    Args:
      shape: numbers of queries and keys.
      chunk_size: the number of rows, and of columns, in a chunk.
      shard_count: among how many devices the rows can be divided.
    """

    def __init__(self, shape: tuple[int, int], chunk_size: int, shard_count: int = 1):
        if chunk_size <= 0:
            raise ValueError(f"chunk_size must be positive, got {chunk_size}")
        super().__init__(shape, shard_count)
        self.chunk_size = chunk_size

    def sees(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        return (rows // self.chunk_size == columns // self.chunk_size) & (rows >= columns)

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.chunk_size)


class LocalMask(_ByPosition):
    """Row i sees a window around column i + offset; see `make_local_attention_mask`.

    Args:
      shape: numbers of queries and keys.
      window_size: the numbers of columns to the left and to the right; None for all.
      offset: where the window of the first row is.
      shard_count: among how many devices the rows can be divided.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        window_size: tuple[int | None, int | None],
        offset: int,
        shard_count: int = 1,
    ):
        super().__init__(shape, shard_count)
        self.window_size = window_size
        self.offset = offset

    def sees(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        left, right = self.window_size
        seen = np.ones(np.broadcast_shapes(rows.shape, columns.shape), bool)
        if left is not None:
            seen &= rows + self.offset - left <= columns
        if right is not None:
            seen &= rows + self.offset + right >= columns
        return seen

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.window_size, self.offset)


class FullMask(_ByPosition):
    """Every row sees every column.

    Args:
      shape: numbers of queries and keys.
    """

    def __init__(self, _shape: tuple[int, int]):
        super().__init__(_shape, 1)

    def sees(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        return np.True_


class NumpyMask(Mask):
    """A mask that is an array.

    Args:
      array: two-dimensional array of booleans.

    Raises:
      ValueError: if it is another array.
    """

    def __init__(self, array: np.ndarray):
        if array.ndim != 2:
            raise ValueError(f"Expected a 2-dim array, got one of shape {array.shape}")
        if array.dtype != np.bool_:
            raise ValueError(f"Mask must be a boolean array, got one of type {array.dtype}")
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.array[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyMask) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((NumpyMask, self.array.shape, self.array.tobytes()))
