"""Tables of flatbuffers: reading those that come from outside, and writing.

Every offset is checked before use; the `flatbuffers` package, which writes, reads without checks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_SIZES = {f: struct.calcsize(f) for f in ("<b", "<B", "<h", "<H", "<i", "<I", "<?")}
_MAX_DEPTH = 300  # below the recursion limit of the functions that follow nested tables


class Table:
    """A table in a flatbuffer. Fields are named by their slot: 0 for the first one declared.

    A field that is not there is its default: 0, None or an empty list. Formats of numbers are those of
    the `struct` module, such as "<H".

    Raises:
      ValueError: by each method, where the bytes are not a flatbuffer.
    """

    __slots__ = ("_buffer", "_position", "_fields", "_size", "_depth")

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
        self._fields = fields + 4
        self._size = size - 4
        buffer.check(fields, size)

    def has(self, slot: int) -> bool:
        return self._field(slot) is not None

    def number(self, slot: int, format: str, default: int = 0) -> int:
        position = self._field(slot)
        return default if position is None else self._buffer.number(format, position)

    def byte(self, slot: int) -> int:
        return self.number(slot, "<b")

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

    def table(self, slot: int) -> Table | None:
        position = self._field(slot)
        if position is None:
            return None
        self._buffer.count(1)
        return Table(self._buffer, self._buffer.follow(position), self._depth + 1)

    def tables(self, slot: int) -> list[Table]:
        return self._vector(slot, lambda at: Table(self._buffer, at, self._depth + 1))

    def numbers(self, slot: int, format: str) -> tuple[int, ...]:
        """A vector of numbers, all of the same format."""
        position = self._field(slot)
        if position is None:
            return ()
        buffer = self._buffer
        position = buffer.follow(position)
        length = buffer.number("<I", position)
        size = _SIZES[format]
        data = buffer.part(position + 4, size * length)
        return struct.unpack(f"<{length}{format[-1]}", data)

    def _field(self, slot: int) -> int | None:
        if 2 * slot >= self._size:
            return None
        offset = self._buffer.number("<H", self._fields + 2 * slot)
        return self._position + offset if offset else None

    def _vector(self, slot: int, read: Callable[[int], T]) -> list[T]:
        position = self._field(slot)
        if position is None:
            return []
        buffer = self._buffer
        position = buffer.follow(position)
        length = buffer.number("<I", position)
        buffer.check(position + 4, 4 * length)
        buffer.count(length)
        return [read(buffer.follow(position + 4 + 4 * i)) for i in range(length)]


class Buffer:
    """The bytes of a flatbuffer. They are not copied, except what is read of them."""

    __slots__ = ("_data", "_unread", "_uncopied")

    def __init__(self, data: bytes | bytearray | memoryview):
        self._data = memoryview(data)
        # Offsets only point forward, but may meet: a short file could describe a huge tree, or many
        # copies of a string.
        self._unread = len(data)
        self._uncopied = len(data)

    def root(self) -> Table:
        return Table(self, self.follow(0))

    def count(self, elements: int) -> None:
        self._unread -= 4 * elements
        if self._unread < 0:
            raise ValueError("damaged flatbuffer: it has more elements than bytes")

    def check(self, position: int, size: int) -> None:
        if position < 0 or position + size > len(self._data):
            raise ValueError(
                f"damaged flatbuffer: it refers to bytes {position} to {position + size} of"
                f" {len(self._data)}"
            )

    def part(self, position: int, size: int) -> bytes:
        self.check(position, size)
        self._uncopied -= size
        if self._uncopied < 0:
            raise ValueError("damaged flatbuffer: several fields have the same bytes")
        return bytes(self._data[position : position + size])

    def number(self, format: str, position: int) -> int:
        if position < 0 or position + _SIZES[format] > len(self._data):
            self.check(position, _SIZES[format])
        return struct.unpack_from(format, self._data, position)[0]

    def follow(self, position: int) -> int:
        return position + self.number("<I", position)

    def string(self, position: int) -> str:
        data = self.part(position + 4, self.number("<I", position))
        try:
            return data.decode()
        except UnicodeDecodeError as err:
            raise ValueError(f"damaged flatbuffer: {err} in a string") from None


class Writer:
    """Adds tables and vectors to a flatbuffer, by the package `flatbuffers`.

    Its methods return the offset of what they added, which is a field of the tables added later.
    """

    __slots__ = ("builder",)

    def __init__(self) -> None:
        try:
            import flatbuffers  # only writers need it
        except ModuleNotFoundError as err:
            raise ModuleNotFoundError(
                "Serialization needs the package flatbuffers. Install it with: pip install flatbuffers"
            ) from err
        self.builder: Any = flatbuffers.Builder(4096)

    def string(self, text: str) -> int:
        return self.builder.CreateString(text)

    def bytes(self, data: bytes) -> int:
        return self.builder.CreateByteVector(data)

    def offsets(self, offsets: Sequence[int]) -> int:
        """Adds a vector of strings or tables."""
        builder = self.builder
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    def strings(self, texts: Sequence[str]) -> int:
        return self.offsets([self.string(text) for text in texts])

    def numbers(self, numbers: Sequence[int], format: str) -> int:
        """Adds a vector of numbers of one format, such as "<H"."""
        builder = self.builder
        size = _SIZES[format]
        prepend = getattr(builder, _PREPEND[format[-1]])
        builder.StartVector(size, len(numbers), size)
        for number in reversed(numbers):
            prepend(number)
        return builder.EndVector()

    def table(self, size: int, fields: dict[int, Any], numbers: dict[int, tuple[str, int]]) -> int:
        """Adds a table.

        Args:
          size: the number of slots.
          fields: offsets of strings, vectors and tables, by slot; None where there is none.
          numbers: formats and numbers, by slot.
        """
        builder = self.builder
        builder.StartObject(size)
        for slot, offset in fields.items():
            if offset is not None:
                builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        for slot, (format, number) in numbers.items():
            getattr(builder, _PREPEND[format[-1]] + "Slot")(slot, number, 0)
        return builder.EndObject()

    def finish(self, root: int) -> bytearray:
        self.builder.Finish(root)
        return self.builder.Output()


_PREPEND = {"b": "PrependInt8", "B": "PrependUint8", "h": "PrependInt16", "H": "PrependUint16", "I": "PrependUint32", "?": "PrependBool"}  # fmt: skip
