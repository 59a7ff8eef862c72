"""Which of XLA's options for CPUs a program is compiled with, beside those that the user gives.

docs/cpu_speed.md has the rule and what was measured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jax._src import config
from jax._src.lib import CompileOptions

_FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
_FAST_MATH = "xla_cpu_enable_fast_math"


def options(module: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `given` with the options that `jax_cpu_compile_profile` chooses for a module.

    Options that the user gives, here or in ``XLA_FLAGS``, are kept.

    Args:
      module: the module, in StableHLO.
      given: the user's options by name.
    """
    profile = config.cpu_compile_profile.value
    chosen: dict[str, Any] = {}
    if profile != "original":
        others = _without_convolutions()
        if others is not None and _has(module.operation, "stablehlo.convolution"):
            chosen[_FUSIONS] = others
    if profile == "fast":
        chosen[_FAST_MATH] = True
    flags = os.environ.get("XLA_FLAGS", "")
    wanted = {n: v for n, v in chosen.items() if not re.search(rf"--{n}\b", flags)}
    return wanted | dict(given)


@cache
def _without_convolutions() -> str | None:
    """XLA's default kinds of operations that YNNPACK computes, except convolutions.

    Returns None if this jaxlib lets YNNPACK compute no convolutions.
    """
    options = CompileOptions()  # has to live as long as its parts are used
    build = options.executable_build_options
    kinds = re.findall(rf"{_FUSIONS}: (\w+)", str(build.debug_options))
    if _CONVOLUTIONS not in kinds:
        return None
    return ",".join(kind for kind in kinds if kind != _CONVOLUTIONS)


def _has(operation: Any, name: str) -> bool:
    """Whether an operation contains one of that name."""
    for region in operation.regions:
        for block in region:
            for child in block:
                child = child.operation
                if child.name == name or _has(child, name):
                    return True
    return False
