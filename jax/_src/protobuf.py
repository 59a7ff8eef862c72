"""Messages in the wire format of protocol buffers, from the numbers and values of their fields."""

from __future__ import annotations


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """Returns a message.

    Args:
      fields: numbers with values: integers that are not negative; strings, bytes, packed
        repetitions and messages, each as bytes. A number may come several times.
    """
    return b"".join([_field(number, value) for number, value in fields])


def varint(n: int) -> bytes:
    """Returns an integer that is not negative as packed repetitions contain it."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
