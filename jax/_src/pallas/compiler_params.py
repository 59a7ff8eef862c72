"""What back ends' options for compiling kernels have in common."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class CompilerParams(Protocol):
    """Options of a back end: a dataclass, such as `pltpu.CompilerParams`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


def check_compiler_params(compiler_params: Any, what: str) -> None:
    """Raise a TypeError if options are none of a back end.

    Args:
      compiler_params: the options, or None.
      what: the function that takes them.
    """
    if compiler_params is not None and not isinstance(compiler_params, CompilerParams):
        raise TypeError(
            f"{what} takes a back end's options, such as pltpu.CompilerParams(...), as compiler_params, got "
            f"{compiler_params!r} of type {type(compiler_params)}."
        )
