"""Options for Triton's compiler."""

from __future__ import annotations

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class CompilerParams:
    """Options for kernels compiled by Triton. Interpreted kernels run the same with any of them.

    Args:
      num_warps: the number of warps, of 32 threads each, that run the kernel at a point of the grid; None
        for 4.
      num_stages: the number of stages of the pipelines that loops are compiled to; None for 3.
    """

    BACKEND: ClassVar[str] = "triton"
    num_warps: int | None = None
    num_stages: int | None = None
