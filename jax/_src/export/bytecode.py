"""A check of the bytes of modules, which come from anywhere, before the compiler's reader sees them.

A module is a portable artifact of StableHLO: MLIR bytecode of the dialects vhlo, sdy and builtin. The
reader of the MLIR library takes well-formed bytes for granted: an attribute that holds itself, a tensor
with too few bytes or a huge count end the process. Here everything is read in Python, by the grammar of
`bytecode_grammar`, and each count, index, kind and length is checked. What the grammar does not have is
refused. https://mlir.llvm.org/docs/BytecodeFormat describes the format.

Of the parts of a module, only their positions are kept, in arrays of numbers, so that the memory is a
small multiple of the module's whatever the bytes are. What is needed again is read again.
"""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import NoReturn

from jax._src.export.bytecode_grammar import (
    ATTRIBUTES,
    DYNAMIC,
    FLOATS,
    INTEGERS,
    KINDS,
    PROPERTIES_OF,
    TENSORS,
    TYPES,
    VALUES,
    Tag,
)
from jax._src.export.bytecode_reader import Reader, read_long

_MAGIC = b"ML\xefR"
_VERSION = 6  # of the bytecode
# Modules of programs that were exported before 2024's end start otherwise. The grammar is not theirs.
_OLD_STARTS = (_MAGIC + b"\x01StableHLO_v0.", _MAGIC + b"\x03MLIR")
_ON_PATH = 0xFFFF  # instead of the depth of an attribute, while it is not known
_MAX_DEPTH = 2000  # of attributes in attributes: locations are as deep as Python's stack
_MAX_PARTS = 1_000_000  # of an attribute, besides those that have bytes of their own
# The reader converts the attributes of each operation, also those that others have, too: parts of all, besides
# some for each byte of the module, and the characters that take as long as a part.
_MAX_CONVERTED, _CONVERTED_OF_BYTE, _CHARACTERS_OF_PART = 1_000_000, 16, 4000
_MAX_REGIONS = 200  # in one another; Python's stack ends the tracing of loops and branches before
_MAX_RANK = 1000
_MAX_CACHED = 1000  # types of constants that are kept
# The least bytes of a module for each attribute or type, text or property, and for each value, besides
# some that may be smaller. An attribute has fewer only if it refers to others with small numbers.
_BYTES_OF_ENTRY, _BYTES_OF_VALUE, _SMALL = 6, 2, 1000

_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR, _RESOURCES, _RESOURCE_OFFSETS, _, _PROPERTIES = range(
    9
)
_SECTIONS = {
    _STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR, _RESOURCES, _RESOURCE_OFFSETS, _PROPERTIES
}  # fmt: skip

# Parts of an operation
_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS, _HAS_REGIONS, _HAS_ORDERS, _HAS_PROPERTIES = [
    1 << i for i in range(7)
]  # fmt: skip
_PARTS = 0x7F & ~_HAS_SUCCESSORS


def _fields(letters: str) -> list[tuple[str, str]]:
    """The letters of fields, each with the + or * after it or nothing."""
    return re.findall(r"([^+*])([+*]?)", letters)


# The grammar by numbers of one byte: that of the dialect, and that of the attribute or type in it
_NUMBERS = 64
_NAMES = list(ATTRIBUTES)
_NUMBER_OF = {name: i * _NUMBERS for i, name in enumerate(_NAMES)}


def _number(tag: Tag) -> int:
    return _NUMBER_OF[tag[0]] + tag[1]


def _grammar(
    letters: dict[str, dict[int, str]],
) -> list[list[tuple[str, str]] | None]:
    out: list[list[tuple[str, str]] | None] = [None] * (_NUMBERS * len(_NAMES))
    for dialect, of_dialect in letters.items():
        for number, text in of_dialect.items():
            out[_number((dialect, number))] = _fields(text)
    return out


_FIELDS_OF_ATTRIBUTES, _FIELDS_OF_TYPES = _grammar(ATTRIBUTES), _grammar(TYPES)
_TAGS = {letter: frozenset(map(_number, tags)) for letter, tags in KINDS.items()}
_REFERENCES = {*_TAGS, "a", "t"}
_LOCATIONS = _TAGS["l"]
_STRING_TAGS = _TAGS["k"] | _TAGS["S"]
_TAGS_OF_VALUES, _TAGS_OF_TENSORS = (frozenset(map(_number, tags)) for tags in (VALUES, TENSORS))
_INTEGER, _COMPLEX_BUILTIN = _number(("builtin", 0)), _number(("builtin", 9))
_BIT, _COMPLEX, _TENSOR, _BUFFER = (_number(("vhlo", n)) for n in (0, 1, 20, 25))
_CONSTANT = _number(("vhlo", 15))
_BITS_OF_FLOATS, _BITS_OF_INTEGERS = (
    {_number((dialect, n)): bits for dialect, of in table.items() for n, bits in of.items()}
    for table in (FLOATS, INTEGERS)
)
_OPERATIONS = {name: _fields(letters) for name, letters in PROPERTIES_OF.items()}


def has_old_form(data: bytes) -> bool:
    """Whether the bytes are said to be a module of a version that JAX wrote before 2025, which cannot be checked here."""
    return data.startswith(_OLD_STARTS)


def check_module(data: bytes) -> None:
    """Raises ValueError if the bytes are not those of a well-formed module.

    Modules of the old form are left to MLIR's own checks, which damaged ones can get past: `deserialize` refuses them.
    """
    if has_old_form(data):
        return
    try:
        _Module(data).check()
    except IndexError:  # an operation went on behind all bytes
        raise ValueError("damaged module: it ends early") from None


class _Module:
    """The parts of a module, which refer to one another by index.

    Attributes:
      tags: the kinds of all attributes and then of all types; `starts` says where their bytes are, and
        `sizes` of how many parts they consist.
    """

    def __init__(self, data: bytes):
        self.data = data
        self.code = "I" if len(data) < 1 << 31 else "Q"  # of arrays of positions
        self.texts = array(self.code)  # where they start; the last number is the end of all
        self.operations: list[str] = []
        self.properties = array(self.code)  # where they are
        self.tags = bytearray()
        self.starts = array(self.code)
        self.sizes = array(self.code)
        self.num_attributes = 0
        self._constants: dict[int, tuple[int, int, int]] = {}
        self._reads_left = 10_000 + 8 * len(data)  # of sizes of other types of constants

    def check(self) -> None:
        sections = self._sections()
        self._read_texts(sections[_STRINGS])
        dialects = self._read_dialects(sections[_DIALECTS])
        self._read_offsets(dialects, sections[_OFFSETS], sections[_ENTRIES])
        for entry in range(len(self.tags)):
            self._check_entry(entry)
        self._check_depth()
        for number in (_RESOURCES, _RESOURCE_OFFSETS):
            if number in sections and sections[number].rest() not in (b"", b"\x01"):  # a zero
                sections[number].fail("it has resources")
        self._read_properties(sections.get(_PROPERTIES))
        _Body(self).check(sections[_IR])

    def fail(self, problem: str) -> NoReturn:
        raise ValueError(f"damaged module: {problem}")

    # Sections

    def _sections(self) -> dict[int, Reader]:
        data = self.data
        if data[:4] != _MAGIC:
            self.fail("it does not start as MLIR bytecode")
        reader = Reader(data, 4, len(data))
        version = reader.number()
        if version != _VERSION:
            self.fail(f"bytecode of the version {version} instead of {_VERSION}")
        producer = data.find(b"\0", reader.at, reader.at + 100)
        if producer < 0 or not data[reader.at : producer].startswith(b"StableHLO_v"):
            reader.fail("it is not by StableHLO")
        reader.at = producer + 1
        sections: dict[int, Reader] = {}
        while reader.at < reader.end:
            number, part = reader.section()
            if number not in _SECTIONS or number in sections:
                reader.fail(f"the section {number} is unknown, or there twice")
            sections[number] = part
        for number in (_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR):
            if number not in sections:
                self.fail(f"the section {number} is missing")
        return sections

    def _check_count(self, count: int, least: int, what: str) -> None:
        """Refuses more parts than so many bytes have, which would take much more memory than these."""
        if count > _SMALL + len(self.data) // least:
            self.fail(f"{count} {what}")

    def _read_texts(self, reader: Reader) -> None:
        """The texts: their lengths, from the last to the first, then what they are."""
        count = reader.count()
        self._check_count(count, _BYTES_OF_ENTRY, "texts")
        sizes = array(self.code)
        for _ in range(count):
            size = reader.number()
            if size > len(self.data):
                reader.fail(f"a text of {size} bytes")
            sizes.append(size)
        while sizes:
            self.texts.append(reader.at)
            reader.skip(sizes.pop())
            if reader.at == self.texts[-1] or self.data[reader.at - 1]:
                reader.fail("a text without an end")
        self.texts.append(reader.at)
        reader.check_end()

    def text(self, number: int) -> bytes:
        start = self.texts[self._index(number, len(self.texts) - 1, "text")]
        return self.data[start : self.texts[number + 1] - 1]

    def _index(self, number: int, count: int, what: str) -> int:
        if number >= count:
            self.fail(f"it refers to the {what} {number} of {count}")
        return number

    def _read_dialects(self, reader: Reader) -> list[str]:
        """The names of dialects; and those of operations, into `operations`."""
        dialects: list[str] = []
        for _ in range(reader.count()):
            number = reader.number()
            name = self.text(number >> 1).decode("latin-1")
            if number & 1 or name not in ATTRIBUTES or name in dialects:
                reader.fail(f"it has the dialect {name!r}")
            dialects.append(name)
        total = reader.count()
        while reader.at < reader.end:
            dialect = dialects[self._index(reader.number(), len(dialects), "dialect")]
            for _ in range(reader.count()):
                name = f"{dialect}.{self.text(reader.number() >> 1).decode('latin-1')}"
                if name not in _OPERATIONS or name in self.operations:
                    reader.fail(f"the operation {name}, or it is there twice")
                self.operations.append(name)
        if len(self.operations) != total:
            reader.fail(f"{len(self.operations)} operations instead of {total}")
        return dialects

    def _read_offsets(self, dialects: list[str], offsets: Reader, entries: Reader) -> None:
        """Where attributes and types are, and of what kind each is."""
        counts = offsets.count(), offsets.count()
        self.num_attributes = counts[0]
        self._check_count(sum(counts), _BYTES_OF_ENTRY, "attributes and types")
        for count, grammar in zip(counts, (_FIELDS_OF_ATTRIBUTES, _FIELDS_OF_TYPES)):
            left = count
            while left:
                dialect = dialects[self._index(offsets.number(), len(dialects), "dialect")]
                group = offsets.count()
                if not 0 < group <= left:
                    offsets.fail(f"a group of {group} of {count} attributes or types")
                left -= group
                for _ in range(group):
                    size = offsets.number()
                    if not size & 1:
                        offsets.fail("an attribute or type in the form of a text")
                    self.starts.append(entries.at)
                    number = entries.part(size >> 1).number()
                    if number >= _NUMBERS or grammar[_NUMBER_OF[dialect] + number] is None:
                        entries.fail(f"an attribute or type {number} of the dialect {dialect}")
                    self.tags.append(_NUMBER_OF[dialect] + number)
        self.starts.append(entries.at)
        offsets.check_end()
        entries.check_end()

    # Attributes and types

    def tag_of_type(self, number: int) -> int:
        return self.tags[self.num_attributes + number]

    def attribute_of(self, number: int, letter: str) -> int:
        """The number of an attribute, which must be of the kind of the letter."""
        tag = self.tags[self._index(number, self.num_attributes, "attribute")]
        if tag not in _TAGS[letter]:
            name, kind = _NAMES[tag // _NUMBERS], tag % _NUMBERS
            self.fail(f"an attribute {name} {kind} where another kind belongs")
        if letter == "T":
            (text,) = [n for found, n in self.fields(number) if found == "s"]
            try:
                self.text(text).decode()
            except UnicodeDecodeError:
                self.fail(f"the name {self.text(text)!r}")
        return number

    def fields(self, entry: int) -> Iterator[tuple[str, int]]:
        """Reads an attribute or type: the letter of each field, and a number or index."""
        reader = Reader(self.data, self.starts[entry], self.starts[entry + 1])
        reader.number()
        grammar = _FIELDS_OF_ATTRIBUTES if entry < self.num_attributes else _FIELDS_OF_TYPES
        scalar = 0
        for letter, many in grammar[self.tags[entry]] or ():
            for _ in range(reader.count() if many else 1):
                if letter == "t":
                    count = len(self.tags) - self.num_attributes
                    scalar = self._index(reader.number(), count, "type")
                    yield letter, scalar
                elif letter in _REFERENCES:
                    yield letter, self._index(reader.number(), self.num_attributes, "attribute")
                elif letter == "o":
                    yield from self._optional(reader)
                elif letter == ":":
                    if (count := reader.count()) > 4:
                        reader.fail("a range of a file")
                    for _ in range(count):
                        reader.number()
                else:
                    yield letter, self._scalar(reader, letter, scalar)
                if many == "*":
                    yield "a", self._index(reader.number(), self.num_attributes, "attribute")
        reader.check_end()

    def _optional(self, reader: Reader) -> Iterator[tuple[str, int]]:
        number = reader.number()
        if number & 1:
            yield "q", self._index(number >> 1, self.num_attributes, "attribute")
        elif number:
            reader.fail("an optional attribute")

    def _scalar(self, reader: Reader, letter: str, scalar: int) -> int:
        """A field that is a number, a text, or bytes, whose number is returned."""
        if letter == "s":
            return self._index(reader.number(), len(self.texts) - 1, "text")
        if letter == "z":
            return reader.signed()
        if letter == "y":
            return reader.byte()
        if letter == "b":
            size = reader.number()
            reader.skip(size)
            return size
        if letter in "if":
            bits = self._bits(scalar, _BITS_OF_INTEGERS if letter == "i" else _BITS_OF_FLOATS)
            return reader.byte() if bits <= 8 else reader.number()
        return reader.number()

    def numbers(self, entry: int, letter: str) -> list[int]:
        """The numbers in an attribute or type: the shape of a tensor, or bounds."""
        found = (n for field, n in self.fields(entry) if field == letter)
        return list(itertools.islice(found, _MAX_RANK + 1))

    def _bits(self, scalar: int, table: dict[int, int]) -> int:
        tag = self.tag_of_type(scalar)
        if tag == _INTEGER and table is _BITS_OF_INTEGERS:
            (width,) = self.numbers(self.num_attributes + scalar, "n")
            bits = width >> 2
        else:
            bits = table.get(tag, 0)
        if not 0 < bits <= 64:
            self.fail(f"a number of the type {_NAMES[tag // _NUMBERS]} {tag % _NUMBERS}")
        return bits

    def _check_entry(self, entry: int) -> None:
        tag = self.tags[entry]
        dialect = tag // _NUMBERS
        first, size = None, 0  # the first type; the bytes
        for letter, number in self.fields(entry):
            if letter == "t":
                if self.tag_of_type(number) // _NUMBERS != dialect:
                    self.fail("a type of another dialect than what it is in")
                first = number if first is None else first
            elif letter == "b":
                size = number
            elif letter in _TAGS:
                self.attribute_of(number, letter)
        if entry >= self.num_attributes:
            if tag in _TAGS_OF_TENSORS:
                self._check_tensor(entry, first)
            elif tag in (_COMPLEX, _COMPLEX_BUILTIN):
                if self._bits(first, _BITS_OF_FLOATS) < 32:
                    self.fail("complex numbers of an unknown type")
            elif tag == _BUFFER:
                self._scalar_size(first)
        elif tag == _CONSTANT:
            self._check_constant(first, size)

    def _check_tensor(self, entry: int, scalar: int) -> None:
        shape = self.numbers(entry, "z")
        if len(shape) > _MAX_RANK or any(d < 0 and d != DYNAMIC for d in shape):
            self.fail(f"a tensor of the shape {tuple(shape[:10])}")
        if math.prod([d for d in shape if d > 0]) >= 2**63:
            self.fail("a tensor that is too large")
        self._scalar_size(scalar)
        for letter, number in self.fields(entry):
            if letter in _TAGS or letter == "a":
                if len(self.numbers(self.attribute_of(number, "x"), "z")) != len(shape):
                    self.fail("bounds of a tensor that has another rank")

    def _scalar_size(self, scalar: int) -> int:
        """The bytes of a scalar in a constant."""
        tag = self.tag_of_type(scalar)
        if tag in (_COMPLEX, _COMPLEX_BUILTIN):
            ((_, part),) = self.fields(self.num_attributes + scalar)
            if self.tag_of_type(part) in (_COMPLEX, _COMPLEX_BUILTIN):
                self.fail("complex numbers of an unknown type")
            return 2 * self._scalar_size(part)
        table = _BITS_OF_FLOATS if tag in _BITS_OF_FLOATS else _BITS_OF_INTEGERS
        return -(-self._bits(scalar, table) // 8)

    def _check_constant(self, tensor: int, size: int) -> None:
        """Checks that a constant has the bytes of all elements, or those of one for all."""
        found = self._constants.get(tensor)
        if found is None:
            found = self._constant_type(tensor)
            if len(self._constants) < _MAX_CACHED:
                self._constants[tensor] = found
            elif self._reads_left < 0:
                self.fail("many constants of many dimensions")
        count, of_one, of_all = found
        if size not in ((of_all, of_one) if count else (0, of_one)):
            self.fail(f"a constant of {size} bytes for {count} elements of {of_one}")

    def _constant_type(self, tensor: int) -> tuple[int, int, int]:
        """The elements of constants of a type, and the bytes of one and of all."""
        entry = self.num_attributes + tensor
        shape = self.numbers(entry, "z")
        self._reads_left -= len(shape)
        if self.tags[entry] != _TENSOR or DYNAMIC in shape:
            self.fail("a constant that is no tensor")
        (scalar,) = [n for letter, n in self.fields(entry) if letter == "t"]
        count, of_one = math.prod(shape), self._scalar_size(scalar)
        if self.tag_of_type(scalar) == _BIT:
            return count, 1, -(-count // 8)
        return count, of_one, count * of_one

    def _below(self, entry: int) -> Iterator[int]:
        """The attributes and types of which one consists, as often as they occur."""
        for letter, number in self.fields(entry):
            if letter == "t":
                yield self.num_attributes + number
            elif letter in _REFERENCES:
                yield number

    def _size_alone(self, entry: int) -> int:
        """How many parts an attribute or type counts for without those below: one, more for long texts."""
        if entry >= self.num_attributes or self.tags[entry] not in _STRING_TAGS:
            return 1
        (text,) = [number for letter, number in self.fields(entry) if letter == "s"]
        return 1 + (self.texts[text + 1] - self.texts[text]) // _CHARACTERS_OF_PART

    def _check_depth(self) -> None:
        """Checks that nothing is a part of itself, or deep, or large where parts are counted as often
        as they occur, since the reader does not see that they are the same."""
        height = array("H", itertools.repeat(0, len(self.tags)))  # 0: not known yet
        size = self.sizes = array(self.code, itertools.repeat(0, len(self.tags)))
        largest = _MAX_PARTS + len(self.data)
        for start in range(len(self.tags)):
            if height[start]:
                continue
            # With the height and size of parts so far
            path = [[start, self._below(start), 0, self._size_alone(start)]]
            height[start] = _ON_PATH
            while path:
                top = path[-1]
                node, parts, _, _ = top
                for part in parts:
                    if height[part] == _ON_PATH or len(path) > _MAX_DEPTH:
                        self.fail("an attribute or type that holds itself, or is too deep")
                    if not height[part]:
                        height[part] = _ON_PATH
                        path.append([part, self._below(part), 0, self._size_alone(part)])
                        break
                    top[2] = max(top[2], height[part])
                    top[3] += size[part]
                else:
                    path.pop()
                    total = 1 if self.tags[node] in _LOCATIONS else top[3]
                    if top[2] >= _MAX_DEPTH or total > largest:
                        self.fail("an attribute or type that is too deep or too large")
                    height[node], size[node] = 1 + top[2], total
                    if path:
                        path[-1][2] = max(path[-1][2], height[node])
                        path[-1][3] += size[node]

    def _read_properties(self, reader: Reader | None) -> None:
        """Where the properties of operations are, each a list of attributes."""
        if reader is None:
            return
        count = reader.count()
        self._check_count(count, _BYTES_OF_ENTRY, "properties")
        for _ in range(count):
            self.properties.append(reader.at)
            reader.skip(reader.number())
        reader.check_end()

    def property(self, number: int) -> Iterator[int]:
        reader = Reader(self.data, self.properties[number], len(self.data))
        reader = reader.part(reader.number())
        while reader.at < reader.end:
            yield reader.number()


class _Values:
    """The values of a region, which have numbers above those of the region around it.

    Attributes:
      uses: of each value, also of those around, 1 and how often it is used; 0 before it is there.
      next: the number of the value that follows.
    """

    __slots__ = ("_end", "_orders", "_start", "next", "uses")

    def __init__(self, uses: array[int], count: int):
        self.uses = uses
        self._start = self.next = len(uses)
        self._end = self._start + count
        uses.extend(itertools.repeat(0, count))
        self._orders = array(uses.typecode)  # values, and where the orders of their uses are

    def new(self, reader: Reader, count: int) -> range:
        start = self.next
        self.next += count
        if self.next > self._end:
            reader.fail("more values than the region says")
        return range(start, self.next)

    def read_orders(self, reader: Reader, numbers: Sequence[int]) -> None:
        """Reads in which order the uses of some of the values are listed."""
        several = len(numbers) != 1
        for _ in range(reader.count() if several else 1):
            index = reader.number() if several else 0
            at = reader.at
            size = reader.number() >> 1
            if index >= len(numbers) or not 2 <= size <= reader.end - reader.at:
                reader.fail("an order of uses of no value")
            self._orders.extend((numbers[index], at))
            for _ in range(size):
                reader.number()

    def end(self, reader: Reader) -> None:
        if self.next != self._end:
            reader.fail("fewer values than the region says")
        listed = bytearray(self._end - self._start)
        for i in range(0, len(self._orders), 2):
            number, at = self._orders[i : i + 2]
            if listed[number - self._start]:
                reader.fail("two orders of the uses of a value")
            listed[number - self._start] = 1
            self._check_order(Reader(reader.data, at, reader.end), self.uses[number] - 1)
        del self.uses[self._start :]

    def _check_order(self, reader: Reader, uses: int) -> None:
        """Checks that indices are those of all uses; or pairs of them, for those that change places."""
        encoding = reader.number()
        count, in_pairs = encoding >> 1, encoding & 1
        seen = bytearray(uses)
        for i in range(count):
            index, bit = reader.number(), 1 << (i & in_pairs)
            if index >= uses or seen[index] & bit:
                reader.fail("an order of uses that is not one")
            seen[index] |= bit
        if (1 in seen or 2 in seen) if in_pairs else count != uses:
            reader.fail("an order of uses that is not one")


class _Body:
    """The operations of a module: regions of one block each."""

    def __init__(self, module: _Module):
        self.module = module
        self.depth = 0
        self.values_left = _SMALL + len(module.data) // _BYTES_OF_VALUE
        # The operation that properties have been checked for, counted from 1; and the kind of parts,
        # by its letter, that lists have been checked for
        self._checked = bytearray(len(module.properties))
        self._converted = array(module.code, itertools.repeat(0, len(module.properties)))
        self._conversions_left = _MAX_CONVERTED + _CONVERTED_OF_BYTE * len(module.data)
        self._lists = bytearray(module.num_attributes)

    def check(self, reader: Reader) -> None:
        values = _Values(array(self.module.code), 0)
        self._block(reader, values)
        values.end(reader)
        reader.check_end()

    def _region(self, reader: Reader, uses: array[int]) -> None:
        self.depth += 1
        if self.depth > _MAX_REGIONS:
            reader.fail("regions that are too deep")
        blocks = reader.count()
        if blocks > 1:
            reader.fail(f"a region of {blocks} blocks")
        if blocks:
            count = reader.count()
            self.values_left -= count
            if self.values_left < 0:
                reader.fail("more values than bytes")
            values = _Values(uses, count)
            self._block(reader, values)
            values.end(reader)
        self.depth -= 1

    def _block(self, reader: Reader, values: _Values) -> None:
        encoding = reader.number()
        if encoding & 1:
            arguments = values.new(reader, reader.count())
            for number in arguments:
                argument = reader.number()
                self._type(argument >> 1)
                if argument & 1:
                    self.module.attribute_of(reader.number(), "l")
                values.uses[number] = 1
            if reader.byte():
                values.read_orders(reader, arguments)
        self._operations(reader, values, encoding >> 1)

    def _type(self, number: int) -> None:
        module = self.module
        module._index(number, len(module.tags) - module.num_attributes, "type")
        if module.tag_of_type(number) not in _TAGS_OF_VALUES:
            module.fail(f"a value of the type {number}")

    def _operations(self, reader: Reader, values: _Values, count: int) -> None:
        """Reads operations. Most numbers are of one byte, which are read here, as calls take longer.

        Numbers behind the end of a part are found when all have been read.
        """
        module, data, uses = self.module, reader.data, values.uses
        tags, num_attributes, operations = module.tags, module.num_attributes, module.operations
        num_types, end = len(tags) - num_attributes, reader.end
        checked = self._checked
        converted = 0
        at = reader.at
        for _ in range(count):
            operation, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
            parts = data[at]
            if operation >= len(operations) or parts & ~_PARTS:
                reader.at = at
                reader.fail(f"the operation {operation} of {len(operations)}, of the form {parts}")
            at += 1
            location, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
            if location >= num_attributes or tags[location] not in _LOCATIONS:
                module.attribute_of(location, "l")
            if parts & _HAS_ATTRIBUTES:
                number, at = read_long(data, at)
                module.attribute_of(number, "d")
                converted += module.sizes[number]
            if parts & _HAS_PROPERTIES:
                number, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
                if number >= len(checked) or checked[number] != operation + 1:
                    self._check_properties(operation, number)
                converted += self._converted[number]
            elif _OPERATIONS[operations[operation]]:
                module.fail(f"{operations[operation]} with 0 properties")
            results = range(0)
            if parts & _HAS_RESULTS:
                size, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
                reader.at = at
                results = values.new(reader, size)
                for _ in results:
                    number, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
                    if number >= num_types or tags[num_attributes + number] not in _TAGS_OF_VALUES:
                        self._type(number)
            if parts & _HAS_OPERANDS:
                size, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
                if size > end - at:
                    reader.fail(f"a list of {size}, with {end - at} bytes left")
                for _ in range(size):
                    number, at = (data[at] >> 1, at + 1) if data[at] & 1 else read_long(data, at)
                    if number >= len(uses) or not uses[number]:
                        reader.fail(f"a use of the value {number}, which is not there yet")
                    uses[number] += 1
            if parts & (_HAS_ORDERS | _HAS_REGIONS):
                reader.at = at
                if parts & _HAS_ORDERS:
                    values.read_orders(reader, results)
                if parts & _HAS_REGIONS:
                    self._regions(reader, uses)
                at = reader.at
            for number in results:
                uses[number] = 1
        reader.at = at
        if at > end:
            reader.fail("it ends early")
        self._conversions_left -= converted
        if self._conversions_left < 0:
            module.fail("large attributes of many operations")

    def _check_properties(self, operation: int, number: int) -> None:
        module = self.module
        name = module.operations[operation]
        fields = _OPERATIONS[name]
        module._index(number, len(module.properties), "property")
        given = list(itertools.islice(module.property(number), len(fields) + 1))
        if len(given) != len(fields):
            module.fail(f"{name} with {len(given)} properties")
        self._converted[number] = 0
        for attribute, (letter, many) in zip(given, fields):
            if many:
                module.attribute_of(attribute, "L")
                if self._lists[attribute] != ord(letter):
                    for _, part in module.fields(attribute):
                        module.attribute_of(part, letter)
                    self._lists[attribute] = ord(letter)
            elif letter != "?":
                module.attribute_of(attribute, letter)
            elif attribute & 1:
                module.attribute_of(attribute >> 1, "k")
                continue
            elif attribute:
                module.fail(f"an optional property of {name}")
            else:
                continue
            self._converted[number] += module.sizes[attribute]
        self._checked[number] = operation + 1

    def _regions(self, reader: Reader, uses: array[int]) -> None:
        """The regions of an operation; those that use no values around them are a section."""
        encoding = reader.number()
        if not encoding & 1:
            for _ in range(encoding >> 1):
                self._region(reader, uses)
            return
        number, part = reader.section()
        if number != _IR:
            reader.fail(f"a section {number} instead of a region")
        for _ in range(encoding >> 1):
            self._region(part, array(self.module.code))
        part.check_end()
