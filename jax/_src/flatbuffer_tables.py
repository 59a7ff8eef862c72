"""Reading tables of flatbuffers that come from outside: every offset is checked before use.

The `flatbuffers` package, which writes them, reads without checks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_MAX_DEPTH = 300  # below the recursion limit of the functions that follow nested tables


class Table:
    """A table in a flatbuffer. Fields are named by their slot: 0 for the first one declared.

    A field that is not there is its default: 0, None or an empty list.

    Raises:
      ValueError: by each method, where the bytes are not a flatbuffer.
    """

    __slots__ = ("_buffer", "_position", "_fields", "_depth")

    def __init__(self, buffer: Buffer, position: int, depth: int = 0):
        if depth > _MAX_DEPTH:
            raise ValueError(f"damaged flatbuffer: tables are nested over {_MAX_DEPTH} deep")
        self._buffer = buffer
        self._position = position
        self._depth = depth
        fields = position - buffer.number("<i", position)
        size = buffer.number("<H", fields)
        if size < 4 or size % 2:
            raise ValueError(f"damaged flatbuffer: a field table of {size} bytes at {fields}")
        self._fields = [buffer.number("<H", fields + i) for i in range(4, size, 2)]

    def byte(self, slot: int) -> int:
        position = self._field(slot)
        return 0 if position is None else self._buffer.number("<b", position)

    def string(self, slot: int) -> str | None:
        position = self._field(slot)
        return None if position is None else self._buffer.string(self._buffer.follow(position))

    def bytes(self, slot: int) -> bytes | None:
        position = self._field(slot)
        if position is None:
            return None
        position = self._buffer.follow(position)
        return self._buffer.part(position + 4, self._buffer.number("<I", position))

    def strings(self, slot: int) -> list[str]:
        return self._vector(slot, self._buffer.string)

    def tables(self, slot: int) -> list[Table]:
        return self._vector(slot, lambda at: Table(self._buffer, at, self._depth + 1))

    def _field(self, slot: int) -> int | None:
        offset = self._fields[slot] if slot < len(self._fields) else 0
        return self._position + offset if offset else None

    def _vector(self, slot: int, read: Callable[[int], T]) -> list[T]:
        position = self._field(slot)
        if position is None:
            return []
        buffer = self._buffer
        position = buffer.follow(position)
        length = buffer.number("<I", position)
        buffer.part(position + 4, 4 * length)
        buffer.count(length)
        return [read(buffer.follow(position + 4 + 4 * i)) for i in range(length)]


class Buffer:
    """The bytes of a flatbuffer."""

    __slots__ = ("_data", "_unread")

    def __init__(self, data: bytes):
        self._data = data
        # Offsets only point forward, but may meet: a short file could describe a huge tree.
        self._unread = len(data)

    def root(self) -> Table:
        return Table(self, self.follow(0))

    def count(self, elements: int) -> None:
        self._unread -= 4 * elements
        if self._unread < 0:
            raise ValueError("damaged flatbuffer: it has more elements than bytes")

    def part(self, position: int, size: int) -> bytes:
        if position < 0 or position + size > len(self._data):
            raise ValueError(
                f"damaged flatbuffer: it refers to bytes {position} to {position + size} of"
                f" {len(self._data)}"
            )
        return self._data[position : position + size]

    def number(self, format: str, position: int) -> int:
        return struct.unpack(format, self.part(position, struct.calcsize(format)))[0]

    def follow(self, position: int) -> int:
        return position + self.number("<I", position)

    def string(self, position: int) -> str:
        data = self.part(position + 4, self.number("<I", position))
        try:
            return data.decode()
        except UnicodeDecodeError as err:
            raise ValueError(f"damaged flatbuffer: {err} in a string") from None
