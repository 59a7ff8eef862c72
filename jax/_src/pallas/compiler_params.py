"""What back ends' options for compiling kernels have in common."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class CompilerParams(Protocol):
    """Options of a back end: a dataclass, such as `pltpu.CompilerParams`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
