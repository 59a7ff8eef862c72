"""The registry of the programs whose speed on the CPU is compared: ours, PyPI's jax, and PyTorch or NumPy.

A program is a class without instances:

    @program("name", flop=..., byte=...)
    class Name:
        def inputs(rng): ...       # arrays of NumPy, in a tuple; nested lists and dictionaries too
        def jax(*inputs): ...      # the function that is jitted
        def torch(*tensors): ...   # prepares, and returns the call that PyTorch is timed by
        def numpy(*arrays): ...    # the same for NumPy, SciPy and Numba, where PyTorch has nothing

`flop` is the number of operations that one call cannot do without, `byte` the traffic with memory:
the table shows one of them as a share of what the machine can do.
"""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Program:
    """One row of the table; the attributes are those of the class it was made from.

    Attributes:
      name: the name in the table.
      inputs: makes the inputs with a generator of random numbers.
      jax: the function for jax.
      torch, numpy: prepares the equivalent's call, or None.
      flop: floating-point operations of one call, or None.
      byte: bytes of one call that come from memory or go there, or None.
      x64: whether jax has to have 64-bit types.
    """

    name: str
    inputs: Callable[[Any], tuple]
    jax: Callable
    torch: Callable | None
    numpy: Callable | None
    flop: float | None
    byte: float | None
    x64: bool


PROGRAMS: dict[str, Program] = {}


def program(
    name: str, *, flop: float | None = None, byte: float | None = None, x64: bool = False
) -> Callable[[type], type]:
    """Adds a class to the programs."""

    def register(made: type) -> type:
        PROGRAMS[name] = Program(
            name,
            made.inputs,
            made.jax,
            getattr(made, "torch", None),
            getattr(made, "numpy", None),
            flop,
            byte,
            x64,
        )
        return made

    return register


def normal(rng: Any, *shape: int, scale: float = 1.0, dtype: str = "float32") -> Any:
    """An array of normally distributed numbers."""
    return (rng.standard_normal(shape) * scale).astype(dtype)
