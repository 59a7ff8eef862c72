"""Which of XLA's options for CPUs a program is compiled with, beside those that the user gives.

docs/cpu_speed.md has the rule and what was measured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Set
from functools import cache
from typing import Any

from jax._src import config, protobuf
from jax._src.lib import CompileOptions

_CONVOLUTION, _LOOP = "stablehlo.convolution", "stablehlo.while"
_FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
_FAST_MATH = "xla_cpu_enable_fast_math"
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"

# XLA compiles a loop to one function if a step reads and writes less than that: 1024 without the
# option. In larger loops, a step's operations have enough to do to be called one by one, on all cores.
_SMALL_LOOP_BYTES = 32_768


def operations(module: Any) -> Set[str]:
    """Returns the names of a module's operations on which the choice of options depends."""
    found: set[str] = set()
    if config.cpu_compile_profile.value != "original":
        _find(module.operation, {_CONVOLUTION, _LOOP}, found)
    return found


def options(operations: Set[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `given` with the options that `jax_cpu_compile_profile` chooses for a module.

    Options that the user gives, here or in ``XLA_FLAGS``, are kept.

    Args:
      operations: the module's, see above.
      given: the user's options by name.
    """
    profile = config.cpu_compile_profile.value
    chosen: dict[str, Any] = {}
    if profile != "original":
        others = _without_convolutions()
        if others is not None and _CONVOLUTION in operations:
            chosen[_FUSIONS] = others
    if profile == "fast":
        chosen[_FAST_MATH] = True
    wanted = {n: v for n, v in chosen.items() if not _is_in_flags(n)}
    return wanted | dict(given)


def with_small_loops(operations: Set[str], options: CompileOptions) -> CompileOptions:
    """Returns `options` with what `jax_cpu_compile_profile` chooses for a module's loops.

    Apart from `options` above, as XLA does not take this one by its name.

    Args:
      operations: the module's, see above.
      options: the other options; not changed.
    """
    wanted = config.cpu_compile_profile.value != "original" and _LOOP in operations
    if not wanted or _is_in_flags(_SMALL_LOOP):
        return options
    entry = protobuf.message((1, _SMALL_LOOP.encode()), (2, str(_SMALL_LOOP_BYTES).encode()))
    # The way in CompileOptionsProto: executable_build_options, debug_options, and there
    # xla_backend_extra_options, a map. What is appended to a message is merged into it.
    merged = protobuf.message((3, protobuf.message((3, protobuf.message((500, entry))))))
    return CompileOptions.ParseFromString(options.SerializeAsString() + merged)


def _is_in_flags(name: str) -> bool:
    """Whether the user chooses an option in ``XLA_FLAGS``."""
    return re.search(rf"\b{name}\b", os.environ.get("XLA_FLAGS", "")) is not None


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


def _find(operation: Any, names: Set[str], found: set[str]) -> None:
    """Adds to `found` those of `names` that operations within an operation have."""
    for region in operation.regions:
        for block in region:
            for child in block:
                child = child.operation
                if child.name in names:
                    found.add(child.name)
                if len(found) == len(names):
                    return
                _find(child, names, found)
