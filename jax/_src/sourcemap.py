"""Source maps, revision 3: which place of a source a place of generated text comes from.

See https://tc39.es/ecma426. A segment is a sequence of 1, 4 or 5 numbers: the column in the generated line, and
then the number of a source, its line, its column, and the number of a name. All begin at 0, and are
differences to the segment before; columns of the generated text start anew in each line.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence

Segment = tuple[int] | tuple[int, int, int, int] | tuple[int, int, int, int, int]
Mappings = Sequence[Sequence[Segment]]

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_CONTINUES = 32  # the bit of a digit that says that another one follows


@dataclasses.dataclass(frozen=True, slots=True)
class SourceMap:
    """A source map.

    Attributes:
      version: 3.
      sources: names of the sources' files.
      sources_content: their contents; may be empty.
      names: names that segments refer to.
      mappings: for each line of the generated text its segments.
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Mappings

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """Reads a source map.

        Raises:
          ValueError: if the text is not one.
        """
        data = json.loads(json_data)
        if not isinstance(data, dict):
            raise ValueError(f"A source map is an object in JSON, got {json_data[:50]!r}.")
        missing = {"version", "sources", "mappings"} - data.keys()
        if missing or data["version"] != 3:
            raise ValueError(
                f"A source map of revision 3 has 'version': 3, 'sources' and 'mappings'; got {json_data[:50]!r}."
            )
        return cls(
            version=data["version"],
            sources=data["sources"],
            sources_content=data.get("sourcesContent", []),
            names=data.get("names", []),
            mappings=deserialize_mappings(data["mappings"]),
        )

    def to_json(self) -> str:
        """Returns the source map as a file's text."""
        return json.dumps(
            {
                "version": self.version,
                "sources": list(self.sources),
                "sourcesContent": list(self.sources_content),
                "names": list(self.names),
                "mappings": serialize_mappings(self.mappings),
            }
        )


class MappingsGenerator:
    """Collects segments, whose numbers are given as such, not as differences.

    >>> from jax._src.sourcemap import MappingsGenerator
    >>> generator = MappingsGenerator()
    >>> generator.new_group()
    >>> generator.new_segment(4, 0, 15, 8)
    >>> generator.new_segment(9, 0, 16, 8)
    >>> generator.mappings()
    [[(4, 0, 15, 8), (5, 0, 1, 0)]]
    """

    def __init__(self) -> None:
        self._last = [0, 0, 0, 0, 0]
        self._mappings: list[list[Segment]] = []

    def new_group(self) -> None:
        """Begins a line of the generated text."""
        self._last[0] = 0
        self._mappings.append([])

    def new_segment(self, *seg: int) -> None:
        """Adds a segment of 1, 4 or 5 numbers to the line."""
        if len(seg) not in (1, 4, 5):
            raise ValueError(f"A segment has 1, 4 or 5 numbers, got {seg}.")
        differences = tuple(now - before for now, before in zip(seg, self._last))
        self._last[: len(seg)] = seg
        self._mappings[-1].append(differences)  # type: ignore[arg-type]

    def mappings(self) -> Mappings:
        """Returns the segments of all lines."""
        return self._mappings


def encode_vlq(value: int) -> bytes:
    """Returns a number as digits of 5 bits, the lowest first. The first bit is the sign."""
    rest = 2 * value if value >= 0 else 1 - 2 * value
    digits = bytearray()
    while True:
        rest, digit = rest >> 5, rest & 31
        digits.append(_DIGITS[digit | (_CONTINUES if rest else 0)])
        if not rest:
            return bytes(digits)


def decode_vlq(enc: Iterable[int]) -> int:
    """Returns the number that begins with the next digit.

    Raises:
      ValueError: if a digit is none, or a further one is missing.
    """
    number, shift = 0, 0
    for digit in enc:
        value = _VALUES.get(digit)
        if value is None:
            raise ValueError(f"{chr(digit)!r} is not a digit of a source map.")
        number |= (value & 31) << shift
        if not value & _CONTINUES:
            return -(number >> 1) if number & 1 else number >> 1
        shift += 5
    raise ValueError("A number of a source map ends before its last digit.")


def encode_segment(seg: Segment) -> bytes:
    """Returns a segment as digits."""
    return b"".join(map(encode_vlq, seg))


def decode_segment(enc: Iterable[int]) -> Segment:
    """The reverse of :func:`encode_segment`.

    Raises:
      ValueError: if the digits do not form 1, 4 or 5 numbers.
    """
    segment = tuple(_numbers(iter(enc)))
    if len(segment) not in (1, 4, 5):
        raise ValueError(f"A segment has 1, 4 or 5 numbers, got {segment}.")
    return segment


def _numbers(digits: Iterator[int]) -> Iterator[int]:
    for digit in digits:
        yield decode_vlq(_chained(digit, digits))


def _chained(first: int, rest: Iterator[int]) -> Iterator[int]:
    yield first
    yield from rest


def serialize_mappings(mappings: Mappings) -> str:
    """Returns the mappings as a text: lines are separated by semicolons, segments by commas."""
    lines = (b",".join(map(encode_segment, line)) for line in mappings)
    return b";".join(lines).decode()


def deserialize_mappings(mappings_str: str) -> Mappings:
    """The reverse of :func:`serialize_mappings`.

    Raises:
      ValueError: if the text is not one of mappings.
    """
    lines = mappings_str.encode().split(b";")
    return [[decode_segment(segment) for segment in line.split(b",") if segment] for line in lines]
