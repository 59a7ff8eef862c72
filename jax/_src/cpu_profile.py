"""Which of XLA's options for CPUs a program is compiled with, beside those that the user gives.

docs/cpu_speed.md has the rule and what was measured.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Set
from functools import cache
from typing import Any

from jax._src import config, protobuf
from jax._src.lib import CompileOptions
from jax._src.lib.mlir.dialects import hlo

_CONVOLUTION, _LOOP = "stablehlo.convolution", "stablehlo.while"
_PRODUCT, _LARGE_PRODUCT = "stablehlo.dot_general", "large stablehlo.dot_general"
_FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
_FAST_MATH = "xla_cpu_enable_fast_math"
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"

# XLA compiles a loop to one function if a step reads and writes less than that: 1024 without the
# option. In larger loops, a step's operations have enough to do to be called one by one, on all cores.
_SMALL_LOOP_BYTES = 32_768

# Nor does it so if YNNPACK computes a product of matrices. Those with more multiplications than
# this are faster there.
_SMALL_PRODUCT = 4096


def operations(module: Any) -> Set[str]:
    """Returns the names of a module's operations on which the choice of options depends."""
    found: set[str] = set()
    if config.cpu_compile_profile.value != "original":
        _find(module.operation, found)
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
        excluded = set()
        if _CONVOLUTION in operations:
            excluded.add(_CONVOLUTIONS)
        if operations >= {_LOOP, _PRODUCT} and _LARGE_PRODUCT not in operations:
            excluded.add(_PRODUCTS)
        if excluded & set(_fusions()):
            chosen[_FUSIONS] = ",".join([kind for kind in _fusions() if kind not in excluded])
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
def _fusions() -> tuple[str, ...]:
    """XLA's default kinds of operations that YNNPACK computes."""
    options = CompileOptions()  # has to live as long as its parts are used
    build = options.executable_build_options
    return tuple(re.findall(rf"{_FUSIONS}: (\w+)", str(build.debug_options)))


def _find(operation: Any, found: set[str]) -> None:
    """Adds to `found` the names of operations within an operation that matter here."""
    for region in operation.regions:
        for block in region:
            for child in block:
                child = child.operation
                name = child.name
                if name == _CONVOLUTION or name == _LOOP:
                    found.add(name)
                elif name == _PRODUCT:
                    found.add(name)
                    if _LARGE_PRODUCT not in found and _is_large(child):
                        found.add(_LARGE_PRODUCT)
                _find(child, found)


def _is_large(product: Any) -> bool:
    """Whether a product of matrices has more than `_SMALL_PRODUCT` multiplications."""
    left, result = product.operands[0].type, product.results[0].type
    if not (left.has_static_shape and result.has_static_shape):
        return True
    numbers = hlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    contracted = numbers.lhs_contracting_dimensions
    count = math.prod(result.shape) * math.prod([left.shape[d] for d in contracted])
    return count > _SMALL_PRODUCT
