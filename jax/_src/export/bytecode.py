"""A check of the bytes of modules, which come from anywhere, before the compiler's reader sees them.

A module is a portable artifact of StableHLO: MLIR bytecode of the dialects vhlo, sdy and builtin. The
reader of the MLIR library takes well-formed bytes for granted: an attribute that holds itself, a tensor
with too few bytes or a huge count end the process. Here everything is read once in Python, by the
grammar below, and each count, index, kind and length is checked. What the grammar does not have is
refused. https://mlir.llvm.org/docs/BytecodeFormat describes the format.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_MAGIC = b"ML\xefR"
_VERSION = 6  # of the bytecode
_MAX_DEPTH = 2000  # of attributes in attributes: locations are as deep as Python's stack
_MAX_PARTS = 1_000_000  # of an attribute, besides those that have bytes of their own
_MAX_REGIONS = 100  # in one another
_MAX_RANK = 1000

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

# What an attribute or type consists of, by its number in its dialect: a letter for each field, such as
# "t" + "f" for a type and a number of that type. The numbers are those that the dialects' writers give.
#   s           a text
#   n, z        a number, a number with a sign
#   p           a number or none
#   y           a byte
#   b           bytes
#   t           a type
#   i, f        an integer or a floating-point number of the type before
#   :           a range of lines and columns
#   a           an attribute of any kind
#   o           a part of an axis or none
# The other letters are attributes of one kind, by _KINDS below. After a letter, + means a list of such
# fields, and * a list of pairs of such a field and an attribute of any kind.
_ATTRIBUTES: dict[str, dict[int, str]] = {
    "builtin": {
        # lists, dictionaries, strings, symbols, nested symbols, types, units, integers, floats
        0: "a+", 1: "k*", 2: "s", 4: "k", 5: "ka+", 6: "t", 7: "", 8: "ti", 9: "tf",
        # locations: call sites, lines, fused, fused with an attribute, names, unknown, ranges of lines
        10: "ll", 11: "knn", 12: "l+", 13: "l+a", 14: "kl", 15: "", 22: "k:",
    },
    "vhlo": {
        # lists, booleans, directions and types of comparisons, versions of custom calls, dictionaries
        1: "a+", 2: "n", 3: "n", 4: "n", 5: "n", 6: "S*",
        # kinds of Fourier transforms, floats, integers, aliases of outputs, precisions
        7: "n", 8: "tf", 9: "ti", 10: "z+zz+", 11: "n",
        # algorithms and distributions of random numbers, strings, constants, transposes, types
        12: "n", 13: "n", 14: "s", 15: "tb", 16: "n", 17: "t",
        # bounds of dimensions, modes of accuracy, accuracies
        18: "z+", 19: "n", 20: "zzza",
    },
    "sdy": {
        # manual axes, axes of meshes, meshes, parts of axes, references to axes
        0: "k+", 1: "sn", 2: "X+z+", 3: "zz", 4: "so",
        # shardings of dimensions, of tensors (15: with unreduced axes), of several values
        5: "A+yp", 6: "MQ+A+", 15: "MQ+A+A+", 7: "r+",
        # factors of dimensions, of tensors; rules of operations
        8: "z+", 9: "U+", 10: "z+W+W+z+z+z+z+y",
    },
}  # fmt: skip
_TYPES: dict[str, dict[int, str]] = {
    "builtin": {
        # index, floats, none; integers, functions, complex numbers
        **dict.fromkeys((1, 3, 4, 5, 6, 12), ""), 0: "n", 2: "t+t+", 9: "t",
        # tensors, those with an encoding, tuples
        13: "z+t", 14: "az+t", 15: "t+",
    },
    "vhlo": {
        # scalars, tokens, witnesses, none
        **dict.fromkeys((0, *range(2, 8), *range(9, 20), 22, 26, *range(27, 30), *range(31, 41)), ""),
        # complex numbers, functions, tensors, those with bounds, tuples
        1: "t", 8: "t+t+", 20: "z+t", 21: "xz+t", 23: "t+",
        # unranked tensors, buffers, futures
        25: "t", 41: "z+t", 42: "t+",
    },
    "sdy": {},
}  # fmt: skip

Tag = tuple[str, int]  # a dialect, and the number of an attribute or type in it

# Letters that stand for attributes of one kind, or of one of two: in the tables above, in the properties
# of operations below, and in what is read of operations.
_KINDS: dict[str, set[Tag]] = {
    "d": {("builtin", 1)},  # dictionaries
    "k": {("builtin", 2)},  # strings
    "G": {("builtin", 8)},  # integers
    "l": {("builtin", n) for n in (10, 11, 12, 13, 14, 15, 22)},  # locations
    "L": {("vhlo", 1)},  # lists
    "B": {("vhlo", 2)},  # booleans
    "D": {("vhlo", 6)},  # dictionaries
    "F": {("vhlo", 8)},  # floats
    "I": {("vhlo", 9)},  # integers
    "N": {("vhlo", 15)},  # constants
    "S": {("vhlo", 14)},  # strings
    "Y": {("vhlo", 17)},  # types
    "C": {("vhlo", 14), ("vhlo", 6)},  # strings or dictionaries
    "E": {("vhlo", 17), ("vhlo", 2)},  # types or booleans
    "J": {("vhlo", 17), ("vhlo", 9)},  # types or integers
    "3": {("vhlo", 3)},  # directions of comparisons
    "4": {("vhlo", 4)},  # types of comparisons
    "5": {("vhlo", 5)},  # versions of custom calls
    "7": {("vhlo", 7)},  # kinds of Fourier transforms
    "O": {("vhlo", 10)},  # aliases of outputs
    "P": {("vhlo", 11)},  # precisions
    "g": {("vhlo", 12)},  # algorithms of random numbers
    "h": {("vhlo", 13)},  # distributions of random numbers
    "6": {("vhlo", 16)},  # transposes
    "x": {("vhlo", 18)},  # bounds of dimensions
    "u": {("vhlo", 20)},  # accuracies
    "e": {("sdy", 0)},  # manual axes
    "X": {("sdy", 1)},  # axes of meshes
    "M": {("sdy", 2), ("builtin", 4)},  # meshes, or symbols of them
    "m": {("sdy", 2)},  # meshes
    "q": {("sdy", 3)},  # parts of axes
    "A": {("sdy", 4)},  # references to axes
    "Q": {("sdy", 5)},  # shardings of dimensions
    "r": {("sdy", 6), ("sdy", 15)},  # shardings of tensors
    "w": {("sdy", 7)},  # shardings of several values
    "U": {("sdy", 8)},  # factors of dimensions
    "W": {("sdy", 9)},  # factors of tensors
}
# The properties of operations of vhlo, in the order of their names: letters of kinds, and ? for a string or
# none. Operations without any are listed last.
_PROPERTIES_OF = {
    "all_gather_v1": "IINB", "all_gather_v2": "IINB", "all_reduce_v1": "INB", "all_reduce_v2": "INB",
    "all_to_all_v1": "IINII", "all_to_all_v2": "IINII", "batch_norm_grad_v1": "FI",
    "batch_norm_inference_v1": "FI", "batch_norm_training_v1": "FI", "broadcast_in_dim_v1": "N",
    "broadcast_v1": "N", "call_v1": "S", "cbrt_v2": "u", "cholesky_v1": "B", "collective_broadcast_v1": "IN",
    "collective_permute_v1": "IN", "compare_v1": "43", "composite_v1": "DSSI", "composite_v2": "DSSI",
    "concatenate_v1": "I", "constant_v1": "N", "convolution_v1": "IIIINIINNIINNP+NNN", "cosine_v2": "u",
    "cross-replica-sum_v1": "N", "custom_call_v1": "5CSS+BN+O+N+", "dot_general_v1": "NNP+NN",
    "dot_general_v2": "YENJNYJP+NJNY", "dot_v1": "P+", "dynamic_broadcast_in_dim_v1": "NNN",
    "dynamic_conv_v1": "IIIINIINNIINNP+NNN", "dynamic_conv_v2": "IIIINIINNIINP+NNN",
    "dynamic_gather_v1": "NIBNN", "dynamic_gather_v2": "NIBNNNN", "dynamic_iota_v1": "I",
    "dynamic_slice_v1": "N", "einsum_v1": "S", "exponential_minus_one_v2": "u", "exponential_v2": "u",
    "fft_v1": "N7", "func_v1": "D+YD+SS", "gather_v1": "NIBNNN", "gather_v2": "NIBNNNNN",
    "get_dimension_size_v1": "I", "get_tuple_element_v1": "I", "infeed_v1": "SL+", "iota_v1": "I",
    "log_plus_one_v2": "u", "log_v2": "u", "logistic_v2": "u", "map_v1": "N", "outfeed_v1": "S", "pad_v1": "NNN",
    "recv_v1": "IIB", "recv_v2": "IIBN", "reduce_precision_v1": "II", "reduce_scatter_v1": "INIB",
    "reduce_v1": "N", "reduce_window_v1": "NNNNN", "reverse_v1": "N", "rng_bit_generator_v1": "g", "rng_v1": "h",
    "rsqrt_v2": "u", "scatter_v1": "IBNNBN", "scatter_v2": "IBNNNNBN", "select_and_scatter_v1": "NNN",
    "send_v1": "IIB", "send_v2": "IIBN", "set_dimension_size_v1": "I", "sine_v2": "u", "slice_v1": "NNN",
    "sort_v1": "IB", "sqrt_v2": "u", "tan_v2": "u", "tanh_v2": "u", "torch_index_select_v1": "II",
    "transpose_v1": "N", "triangular_solve_v1": "BB6B", "unary_einsum_v1": "S",
    **{f"{name}_v1": "" for name in (
        "abs add after_all and atan2 bitcast_convert case cbrt ceil clamp complex convert cosine"
        " count_leading_zeros create_token divide dynamic_pad dynamic_reshape dynamic_update_slice exponential"
        " exponential_minus_one floor if imag is_finite log log_plus_one logistic maximum minimum multiply negate"
        " not optimization_barrier or partition_id popcnt power real real_dynamic_slice remainder replica_id"
        " reshape return round_nearest_afz round_nearest_even rsqrt select shift_left shift_right_arithmetic"
        " shift_right_logical sign sine sqrt subtract tan tanh tuple while xor"
    ).split()},
}  # fmt: skip
_PROPERTIES_OF = {
    **{f"vhlo.{name}": letters for name, letters in _PROPERTIES_OF.items()},
    "builtin.module": "??",
    "builtin.unrealized_conversion_cast": "",
    "sdy.manual_computation": "wew",
    "sdy.mesh": "mk",
    "sdy.return": "",
    "sdy.sharding_constraint": "r",
    "sdy.sharding_group": "G",
}
_VALUES = {
    *[("vhlo", n) for n in (20, 21, 22, 23, 25, 42)], *[("builtin", n) for n in (13, 14)]
}  # fmt: skip
_TENSORS = {("vhlo", 20), ("vhlo", 21), ("builtin", 13), ("builtin", 14)}
_DYNAMIC = -(2**63)  # the size of a dimension

# Bits of scalars, by the number of their type
_FLOATS = {
    "vhlo": {
        2: 16, 3: 16, 4: 32, 5: 64, 6: 8, 7: 8, 27: 8, 28: 8, 29: 8, 34: 19, 35: 8, 36: 8, 37: 4, 38: 6, 39: 6,
        40: 8,
    },
    "builtin": {3: 16, 4: 16, 5: 32, 6: 64},
}  # fmt: skip
_INTEGERS = {
    "vhlo": {
        0: 1, 9: 64, 10: 4, 11: 8, 12: 16, 13: 32, 14: 64, 15: 4, 16: 8, 17: 16, 18: 32, 19: 64, 31: 2, 32: 2,
    },
    "builtin": {1: 64},
}  # fmt: skip


@functools.cache
def _fields(letters: str) -> list[tuple[str, str]]:
    """The letters of fields, each with the + or * after it or nothing."""
    return re.findall(r"([^+*])([+*]?)", letters)


def check_module(data: bytes) -> None:
    """Raises ValueError if the bytes are not those of a well-formed module."""
    _Module(data).check()


class _Reader:
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
        """A number, whose length is that of the zeros before the lowest bit of its first byte."""
        at = self.at
        if at >= self.end:
            self.fail("it ends early")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        zeros = 8 if first == 0 else (first & -first).bit_length() - 1
        self.skip(zeros + 1)
        value = int.from_bytes(self.data[at : at + zeros + 1], "little")
        return value >> (8 if first == 0 else zeros + 1)

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

    def part(self, size: int) -> _Reader:
        start = self.at
        self.skip(size)
        return _Reader(self.data, start, self.at)

    def rest(self) -> bytes:
        return self.data[self.at : self.end]

    def section(self) -> tuple[int, _Reader]:
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


class _Entry:
    """An attribute or type.

    Attributes:
      tag: its dialect, and its number there.
      parts: the attributes that it refers to.
      kinds: pairs of such a one and the letter that says what it has to be.
      types: the types that it refers to.
      numbers: the numbers in it.
      size: the number of bytes in it.
    """

    __slots__ = ("kinds", "numbers", "parts", "size", "tag", "types")

    def __init__(self, tag: Tag):
        self.tag = tag
        self.parts: list[int] = []
        self.kinds: list[tuple[int, str]] = []
        self.types: list[int] = []
        self.numbers: list[int] = []
        self.size = 0


class _Module:
    """The parts of a module, which refer to one another by index."""

    def __init__(self, data: bytes):
        self.data = data
        self.attributes: list[_Entry] = []
        self.types: list[_Entry] = []
        self.texts: list[bytes] = []
        self.operations: list[str] = []
        self.properties: list[list[int]] = []

    def check(self) -> None:
        sections = self._sections()
        self._read_texts(sections[_STRINGS])
        dialects = self._read_dialects(sections[_DIALECTS])
        self._read_entries(dialects, sections[_OFFSETS], sections[_ENTRIES])
        for number in (_RESOURCES, _RESOURCE_OFFSETS):
            if number in sections and sections[number].rest() not in (b"", b"\x01"):  # a zero
                sections[number].fail("it has resources")
        self._read_properties(sections.get(_PROPERTIES))
        _Body(self).check(sections[_IR])

    def fail(self, problem: str) -> NoReturn:
        raise ValueError(f"damaged module: {problem}")

    # Sections

    def _sections(self) -> dict[int, _Reader]:
        data = self.data
        if data[:4] != _MAGIC:
            self.fail("it does not start as MLIR bytecode")
        reader = _Reader(data, 4, len(data))
        version = reader.number()
        if version != _VERSION:
            self.fail(f"bytecode of the version {version} instead of {_VERSION}")
        producer = data.find(b"\0", reader.at, reader.at + 100)
        if producer < 0 or not data[reader.at : producer].startswith(b"StableHLO_v"):
            reader.fail("it is not by StableHLO")
        reader.at = producer + 1
        sections: dict[int, _Reader] = {}
        while reader.at < reader.end:
            number, part = reader.section()
            if number not in _SECTIONS or number in sections:
                reader.fail(f"the section {number} is unknown, or there twice")
            sections[number] = part
        for number in (_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _IR):
            if number not in sections:
                self.fail(f"the section {number} is missing")
        return sections

    def _read_texts(self, reader: _Reader) -> None:
        """The texts: their lengths, from the last to the first, then what they are."""
        lengths = [reader.number() for _ in range(reader.count())]
        for length in reversed(lengths):
            text = reader.bytes(length)
            if text[-1:] != b"\0":
                reader.fail("a text without an end")
            self.texts.append(text[:-1])
        reader.check_end()

    def text(self, number: int) -> bytes:
        return self.at(self.texts, number, "text")

    def at(self, values: Sequence[T], number: int, what: str) -> T:
        return values[self._index(number, len(values), what)]

    def _index(self, number: int, count: int, what: str) -> int:
        if number >= count:
            self.fail(f"it refers to the {what} {number} of {count}")
        return number

    def _read_dialects(self, reader: _Reader) -> list[str]:
        """The names of dialects; and those of operations, into `operations`."""
        dialects = []
        for _ in range(reader.count()):
            number = reader.number()
            name = self.text(number >> 1).decode("latin-1")
            if number & 1 or name not in _ATTRIBUTES:
                reader.fail(f"it has the dialect {name!r}")
            dialects.append(name)
        total = reader.count()
        while reader.at < reader.end:
            dialect = self.at(dialects, reader.number(), "dialect")
            for _ in range(reader.count()):
                name = self.text(reader.number() >> 1).decode("latin-1")
                self.operations.append(f"{dialect}.{name}")
        if len(self.operations) != total:
            reader.fail(f"{len(self.operations)} operations instead of {total}")
        return dialects

    def _read_entries(self, dialects: list[str], offsets: _Reader, entries: _Reader) -> None:
        counts = offsets.count(), offsets.count()
        parts: tuple[list[Any], list[Any]] = [], []
        for of_kind, count in zip(parts, counts):
            while len(of_kind) < count:
                dialect = self.at(dialects, offsets.number(), "dialect")
                group = offsets.count()
                if not 0 < group <= count - len(of_kind):
                    offsets.fail(f"a group of {group} of {count} attributes or types")
                for _ in range(group):
                    size = offsets.number()
                    if not size & 1:
                        offsets.fail("an attribute or type in the form of a text")
                    of_kind.append((dialect, entries.part(size >> 1)))
        offsets.check_end()
        entries.check_end()
        self._num_attributes, self._num_types = counts
        self.types = [self._read_entry(*part, _TYPES) for part in parts[1]]
        self.attributes = [self._read_entry(*part, _ATTRIBUTES) for part in parts[0]]
        for entries_of_kind, is_type in ((self.types, True), (self.attributes, False)):
            for entry in entries_of_kind:
                self._check_entry(entry, is_type)
        self._check_depth()

    def _read_entry(
        self, dialect: str, reader: _Reader, grammar: dict[str, dict[int, str]]
    ) -> _Entry:
        number = reader.number()
        letters = grammar[dialect].get(number)
        if letters is None:
            reader.fail(f"an attribute or type {number} of the dialect {dialect}")
        entry = _Entry((dialect, number))
        for letter, many in _fields(letters):
            for _ in range(reader.count() if many else 1):
                self._read_field(reader, entry, letter)
                if many == "*":
                    self._read_field(reader, entry, "a")
        reader.check_end()
        return entry

    def _read_field(self, reader: _Reader, entry: _Entry, letter: str) -> None:
        if letter == "a" or letter in _KINDS:
            number = self._index(reader.number(), self._num_attributes, "attribute")
            entry.parts.append(number)
            if letter != "a":
                entry.kinds.append((number, letter))
        elif letter == "o":
            optional = reader.number()
            if optional & 1:
                number = self._index(optional >> 1, self._num_attributes, "attribute")
                entry.parts.append(number)
                entry.kinds.append((number, "q"))
            elif optional:
                reader.fail("an optional attribute")
        elif letter == "t":
            entry.types.append(self._index(reader.number(), self._num_types, "type"))
        elif letter == "s":
            self.text(reader.number())
        elif letter == "z":
            entry.numbers.append(reader.signed())
        elif letter == "y":
            entry.numbers.append(reader.byte())
        elif letter == "b":
            entry.size = reader.number()
            reader.skip(entry.size)
        elif letter == ":":
            for _ in range(reader.count()):
                entry.numbers.append(reader.number())
            if len(entry.numbers) > 4:
                reader.fail("a range of a file")
        elif letter in "if":
            bits = self._bits(self.types[entry.types[-1]], _INTEGERS if letter == "i" else _FLOATS)
            entry.numbers.append(reader.byte() if bits <= 8 else reader.number())
        else:
            entry.numbers.append(reader.number())

    # Attributes and types

    def attribute_of(self, number: int, letter: str) -> _Entry:
        """The attribute, which must be of the kind of the letter."""
        found = self.at(self.attributes, number, "attribute")
        if found.tag not in _KINDS[letter]:
            self.fail(f"an attribute {found.tag[0]} {found.tag[1]} where another kind belongs")
        return found

    def _bits(self, scalar: _Entry, table: dict[str, dict[int, int]]) -> int:
        dialect, number = scalar.tag
        if scalar.tag == ("builtin", 0) and table is _INTEGERS:
            bits = scalar.numbers[0] >> 2
        else:
            bits = table.get(dialect, {}).get(number, 0)
        if not 0 < bits <= 64:
            self.fail(f"a number of the type {dialect} {number}")
        return bits

    def _check_entry(self, entry: _Entry, is_type: bool) -> None:
        for number, letter in entry.kinds:
            self.attribute_of(number, letter)
        if any(self.types[n].tag[0] != entry.tag[0] for n in entry.types):
            self.fail("a type of another dialect than what it is in")
        if is_type:
            if entry.tag in _TENSORS:
                self._check_tensor(entry)
            elif entry.tag in (("vhlo", 1), ("builtin", 9)):
                if self._bits(self.types[entry.types[0]], _FLOATS) < 32:
                    self.fail("complex numbers of an unknown type")
            elif entry.tag == ("vhlo", 25):
                self._scalar_size(self.types[entry.types[0]])
        elif entry.tag == ("vhlo", 15):
            self._check_constant(entry)

    def _check_tensor(self, entry: _Entry) -> None:
        shape = entry.numbers
        if len(shape) > _MAX_RANK or any(d < 0 and d != _DYNAMIC for d in shape):
            self.fail(f"a tensor of the shape {tuple(shape[:10])}")
        if math.prod([d for d in shape if d > 0]) >= 2**63:
            self.fail("a tensor that is too large")
        self._scalar_size(self.types[entry.types[0]])
        for number in entry.parts:
            if len(self.attribute_of(number, "x").numbers) != len(shape):
                self.fail("bounds of a tensor that has another rank")

    def _scalar_size(self, scalar: _Entry) -> int:
        """The bytes of a scalar in a constant."""
        if scalar.tag in (("vhlo", 1), ("builtin", 9)):
            return 2 * self._scalar_size(self.types[scalar.types[0]])
        table = _FLOATS if scalar.tag[1] in _FLOATS.get(scalar.tag[0], ()) else _INTEGERS
        return -(-self._bits(scalar, table) // 8)

    def _check_constant(self, entry: _Entry) -> None:
        """Checks that a constant has the bytes of all elements, or those of one for all."""
        tensor = self.types[entry.types[0]]
        if tensor.tag != ("vhlo", 20) or _DYNAMIC in tensor.numbers:
            self.fail("a constant that is no tensor")
        scalar = self.types[tensor.types[0]]
        count, size = math.prod(tensor.numbers), self._scalar_size(scalar)
        sizes = {count * size, size} if count else {0, size}
        if scalar.tag == ("vhlo", 0):
            sizes = {-(-count // 8), 1} if count else {0, 1}
        if entry.size not in sizes:
            self.fail(f"a constant of {entry.size} bytes for {count} elements of {size}")

    def _check_depth(self) -> None:
        """Checks that nothing is a part of itself, or deep, or large where parts are counted as often
        as they occur, since the reader does not see that they are the same."""
        n = len(self.attributes)
        entries = [*self.attributes, *self.types]
        below = [[*e.parts, *[n + t for t in e.types]] for e in entries]
        height = [0] * len(entries)  # 0: not known yet; -1: on the path
        size = [1] * len(entries)
        largest = _MAX_PARTS + len(self.data)
        for start in range(len(entries)):
            path = [(start, iter(below[start]))] if height[start] == 0 else []
            while path:
                node, parts = path[-1]
                height[node] = -1
                part = next((m for m in parts if height[m] <= 0), None)
                if part is not None:
                    if height[part] < 0 or len(path) > _MAX_DEPTH:
                        self.fail("an attribute or type that holds itself, or is too deep")
                    path.append((part, iter(below[part])))
                    continue
                path.pop()
                height[node] = 1 + max([height[m] for m in below[node]], default=0)
                if entries[node].tag not in _KINDS["l"]:
                    size[node] += sum([size[m] for m in below[node]])
                if height[node] > _MAX_DEPTH or size[node] > largest:
                    self.fail("an attribute or type that is too deep or too large")

    def _read_properties(self, reader: _Reader | None) -> None:
        """The properties of operations, each a list of attributes."""
        if reader is None:
            return
        for _ in range(reader.count()):
            part = reader.part(reader.number())
            values = []
            while part.at < part.end:
                values.append(part.number())
            self.properties.append(values)
        reader.check_end()


class _Values:
    """The values of a region, which have numbers above those of the region around it.

    Attributes:
      uses: how often each value is used, also those around; None before it is there.
    """

    __slots__ = ("_following", "_orders", "_start", "uses")

    def __init__(self, uses: list[int | None], count: int):
        self.uses = uses
        self._start = len(uses)
        uses += [None] * count
        self._following = iter(range(self._start, len(uses)))
        self._orders: dict[int, tuple[list[int], bool]] = {}

    def new(self, reader: _Reader, count: int) -> list[int]:
        numbers = list(itertools.islice(self._following, count))
        if len(numbers) != count:
            reader.fail("more values than the region says")
        return numbers

    def define(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.uses[number] = 0

    def use(self, reader: _Reader, number: int) -> None:
        uses = self.uses[number] if number < len(self.uses) else None
        if uses is None:
            reader.fail(f"a use of the value {number}, which is not there yet")
        self.uses[number] = uses + 1

    def read_orders(self, reader: _Reader, numbers: Sequence[int]) -> None:
        """Reads in which order the uses of some of the values are listed."""
        several = len(numbers) != 1
        for _ in range(reader.count() if several else 1):
            at = reader.number() if several else 0
            size = reader.number()
            if at >= len(numbers) or size >> 1 > reader.end - reader.at:
                reader.fail("an order of uses of no value")
            indices = [reader.number() for _ in range(size >> 1)]
            if numbers[at] in self._orders:
                reader.fail("two orders of the uses of a value")
            self._orders[numbers[at]] = indices, bool(size & 1)

    def end(self, reader: _Reader) -> None:
        if next(self._following, None) is not None:
            reader.fail("fewer values than the region says")
        for number, (indices, in_pairs) in self._orders.items():
            uses = self.uses[number] or 0
            if in_pairs:
                changed = dict(zip(indices[::2], indices[1::2]))
                indices = [changed.get(i, i) for i in range(uses)]
            if sorted(indices) != list(range(uses)):
                reader.fail("an order of uses that is not one")
        del self.uses[self._start :]


class _Body:
    """The operations of a module: regions of one block each."""

    def __init__(self, module: _Module):
        self.module = module
        self.depth = 0
        self.values_left = len(module.data)
        self._lists: set[tuple[int, str]] = set()  # those that have been checked, by kind of parts

    def check(self, reader: _Reader) -> None:
        values = _Values([], 0)
        self._block(reader, values)
        values.end(reader)
        reader.check_end()

    def _region(self, reader: _Reader, uses: list[int | None]) -> None:
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

    def _block(self, reader: _Reader, values: _Values) -> None:
        encoding = reader.number()
        if encoding & 1:
            arguments = values.new(reader, reader.count())
            for _ in arguments:
                argument = reader.number()
                self._type(argument >> 1)
                if argument & 1:
                    self._location(reader)
            values.define(arguments)
            if reader.byte():
                values.read_orders(reader, arguments)
        for _ in range(encoding >> 1):
            self._operation(reader, values)

    def _type(self, number: int) -> None:
        found = self.module.at(self.module.types, number, "type")
        if found.tag not in _VALUES:
            self.module.fail(f"a value of the type {found.tag[0]} {found.tag[1]}")

    def _location(self, reader: _Reader) -> None:
        self.module.attribute_of(reader.number(), "l")

    def _operation(self, reader: _Reader, values: _Values) -> None:
        module = self.module
        name = module.at(module.operations, reader.number(), "operation")
        parts = reader.byte()
        if parts & ~_PARTS:
            reader.fail(f"an operation {name} of the form {parts}")
        self._location(reader)
        given: Sequence[int] = ()
        if parts & _HAS_ATTRIBUTES:
            module.attribute_of(reader.number(), "d")
        if parts & _HAS_PROPERTIES:
            given = module.at(module.properties, reader.number(), "property")
        self._check_properties(name, given)
        results: list[int] = []
        if parts & _HAS_RESULTS:
            results = values.new(reader, reader.count())
            for _ in results:
                self._type(reader.number())
        if parts & _HAS_OPERANDS:
            for _ in range(reader.count()):
                values.use(reader, reader.number())
        if parts & _HAS_ORDERS:
            values.read_orders(reader, results)
        if parts & _HAS_REGIONS:
            self._regions(reader, values)
        values.define(results)

    def _check_properties(self, name: str, given: Sequence[int]) -> None:
        module = self.module
        letters = _PROPERTIES_OF.get(name)
        if letters is None:
            module.fail(f"the operation {name}")
        fields = _fields(letters)
        if len(given) != len(fields):
            module.fail(f"{name} with {len(given)} properties")
        for number, (letter, many) in zip(given, fields):
            if many and (number, letter) not in self._lists:
                self._lists.add((number, letter))
                for part in module.attribute_of(number, "L").parts:
                    module.attribute_of(part, letter)
            elif many:
                continue
            elif letter != "?":
                module.attribute_of(number, letter)
            elif number & 1:
                module.attribute_of(number >> 1, "k")
            elif number:
                module.fail(f"an optional property of {name}")

    def _regions(self, reader: _Reader, values: _Values) -> None:
        """The regions of an operation; those that use no values around them are a section."""
        encoding = reader.number()
        if not encoding & 1:
            for _ in range(encoding >> 1):
                self._region(reader, values.uses)
            return
        number, part = reader.section()
        if number != _IR:
            reader.fail(f"a section {number} instead of a region")
        for _ in range(encoding >> 1):
            self._region(part, [])
        part.check_end()
