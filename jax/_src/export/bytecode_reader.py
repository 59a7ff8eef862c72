"""Numbers and parts of MLIR bytecode, which are read with checks: for `bytecode`."""

from __future__ import annotations

from typing import NoReturn


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A number, whose length is that of the zeros before the lowest bit of its first byte; and its end."""
    first = data[at]
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    size = (first & -first).bit_length()
    return int.from_bytes(data[at : at + size], "little") >> size, at + size


class Reader:
    """Reads numbers of a part of the bytes."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int):
        self.data = data
        self.at = at
        self.end = end

    def fail(self, problem: str) -> NoReturn:
        raise ValueError(f"damaged module: {problem}, at byte {self.at}")

    def byte(self) -> int:
        at = self.at
        if at >= self.end:
            self.fail("it ends early")
        self.at = at + 1
        return self.data[at]

    def number(self) -> int:
        at = self.at
        if at >= self.end:
            self.fail("it ends early")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        value, at = read_long(self.data, at)
        self.skip(at - self.at)
        return value

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def count(self) -> int:
        """A number of things, each of which takes a byte at least."""
        value = self.number()
        if value > self.end - self.at:
            self.fail(f"a list of {value}, with {self.end - self.at} bytes left")
        return value

    def skip(self, size: int) -> None:
        if size > self.end - self.at:
            self.fail(f"a part of {size} bytes, with {self.end - self.at} left")
        self.at += size

    def bytes(self, size: int) -> bytes:
        start = self.at
        self.skip(size)
        return self.data[start : self.at]

    def part(self, size: int) -> Reader:
        start = self.at
        self.skip(size)
        return Reader(self.data, start, self.at)

    def rest(self) -> bytes:
        return self.data[self.at : self.end]

    def section(self) -> tuple[int, Reader]:
        """The number of the section that follows, and what is in it."""
        number = self.byte()
        size = self.number()
        if number & 0x80:  # it starts at a multiple of a number
            alignment = self.number()
            if alignment not in (1, 2, 4, 8, 16, 32, 64):
                self.fail(f"a section at multiples of {alignment}")
            while self.at % alignment:
                self.byte()
        return number & 0x7F, self.part(size)

    def check_end(self) -> None:
        if self.at != self.end:
            self.fail(f"{self.end - self.at} bytes too many")
