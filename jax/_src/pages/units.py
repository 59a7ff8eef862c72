"""Numbers with units, as pages show them."""

from __future__ import annotations


def bytes_text(size: float | None) -> str:
    """A size with three digits: `1.23 kB`.

    >>> from jax._src.pages import bytes_text
    >>> bytes_text(12), bytes_text(1234), bytes_text(5e9)
    ('12 B', '1.23 kB', '5 GB')
    """
    return "" if size is None else f"{_scaled(size, ('', 'k', 'M', 'G', 'T'))}B"


def number_text(number: float | None) -> str:
    """A count with three digits: `1.23 M`; empty for None.

    >>> from jax._src.pages import number_text
    >>> number_text(12), number_text(1_230_000), number_text(None)
    ('12', '1.23 M', '')
    """
    return "" if number is None else _scaled(number, ("", "k", "M", "G", "T", "P")).rstrip()


def _scaled(number: float, prefixes: tuple[str, ...]) -> str:
    prefix = 0
    while number >= 999.5 and prefix < len(prefixes) - 1:
        number /= 1000
        prefix += 1
    return f"{number:.3g} {prefixes[prefix]}"
