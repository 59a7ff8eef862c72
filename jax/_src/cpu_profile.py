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
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

_CONVOLUTION, _LOOP = "stablehlo.convolution", "stablehlo.while"
_PRODUCT, _LARGE_PRODUCT = "stablehlo.dot_general", "large stablehlo.dot_general"
_FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
_FAST_MATH = "xla_cpu_enable_fast_math"
_SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"
EMITTERS = "xla_cpu_use_fusion_emitters"
_LEVEL = "xla_backend_optimization_level"
_SUITS_EMITTERS = "what fusion emitters suit"

# XLA compiles a loop to one function if a step reads and writes less than that: 1024 without the
# option. In larger loops, a step's operations have enough to do to be called one by one, on all cores.
_SMALL_LOOP_BYTES = 32_768

# Nor does it so if YNNPACK computes a product of matrices. Those with more multiplications than
# this are faster there.
_SMALL_PRODUCT = 4096

# XLA has two generators of code for CPUs. That of the fusion emitters takes about 20 ms to compile a function, however
# small it is, and much longer if it transposes; but it compiles equal functions once, and it scatters
# in parallel; and recurrent cells are up to 1.2 times faster. The older one takes a third of that to compile, compiles
# each function, and is not right, or rounds otherwise more often, for other types than these, indices
# of fewer bits, and these operations.
_OLDER_TYPES = frozenset("i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64 bf16 f32 f64".split())
_NARROW_TYPES = frozenset("i8 i16 ui8 ui16".split())
_OTHERWISE_ROUNDED = frozenset(
    "chlo.tan stablehlo.tan chlo.atan chlo.atan2 stablehlo.atan2 stablehlo.reduce_precision".split()
)
_CLAMP = "stablehlo.clamp"  # of booleans it has none
_OLDER_LEVEL = 2  # LLVM's highest, 3, makes some of its loops three times slower
_SCATTER = "stablehlo.scatter"
# More indices than that are scattered faster by the fusion emitters.
_FEW_INDICES = 1024
# A program with more operations than that outside of loops, each kind of which occurs more often
# than that, repeats layers: few of its functions differ.
_MANY_OPERATIONS, _MANY_TIMES = 200, 3


def operations(module: Any) -> Set[str]:
    """Returns the names of a module's operations on which the choice of options depends."""
    found: set[str] = set()
    profile = config.cpu_compile_profile.value
    if profile != "original":
        search = _Search(found, profile == "quick")
        search.visit(module.operation, False)
        if search.compares_generators and search.suits_emitters():
            found.add(_SUITS_EMITTERS)
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
    if profile == "quick":
        open_to_choice = EMITTERS not in given and not _is_in_flags(EMITTERS)
        if _SUITS_EMITTERS not in operations and open_to_choice and has_emitters():
            chosen[EMITTERS] = False
            if not config.disable_most_optimizations.value:
                chosen[_LEVEL] = _OLDER_LEVEL
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
    return tuple(re.findall(rf"{_FUSIONS}: (\w+)", _default_options()))


@cache
def has_emitters() -> bool:
    """Whether XLA has both generators of code, and the newer one is its default."""
    return f"{EMITTERS}: true" in _default_options()


def _default_options() -> str:
    options = CompileOptions()  # has to live as long as its parts are used
    build = options.executable_build_options
    return str(build.debug_options)


class _Search:
    """A walk over a module's operations.

    Attributes:
      found: the names of those that matter here; it adds to them.
      compares_generators: whether it also looks for what one of XLA's generators of code suits.
    """

    def __init__(self, found: set[str], compares_generators: bool):
        self.found = found
        self.compares_generators = compares_generators
        self._types: set[Any] = set()
        self._kinds: set[tuple[str, Any]] = set()  # of operations outside of loops
        self._count = 0

    def visit(self, operation: Any, in_loop: bool) -> None:
        for region in operation.regions:
            for block in region:
                if self.compares_generators:
                    self._types.update([argument.type for argument in block.arguments])
                for child in block:
                    child = child.operation
                    self._note(child, in_loop)
                    self.visit(child, in_loop or child.name == _LOOP)

    def _note(self, operation: Any, in_loop: bool) -> None:
        name, found = operation.name, self.found
        if self.compares_generators:
            self._compare_generators(name, operation, in_loop)
        if name == _CONVOLUTION or name == _LOOP:
            found.add(name)
        elif name == _PRODUCT:
            found.add(name)
            if _LARGE_PRODUCT not in found and _is_large(operation):
                found.add(_LARGE_PRODUCT)

    def _compare_generators(self, name: str, operation: Any, in_loop: bool) -> None:
        types = [result.type for result in operation.results]
        self._types.update(types)
        if types and not in_loop:
            self._count += 1
            self._kinds.add((name, types[0]))
        if (
            name in _OTHERWISE_ROUNDED
            or (name == _CLAMP and str(types[0].element_type) == "i1")
            or (name == _SCATTER and (in_loop or not _has_few_indices(operation)))
        ):
            self.found.add(_SUITS_EMITTERS)

    def suits_emitters(self) -> bool:
        """Whether the program as a whole suits the fusion emitters, whatever single operations do."""
        repeats_layers = self._count > max(_MANY_OPERATIONS, _MANY_TIMES * len(self._kinds))
        has_large_steps = self.found >= {_LOOP, _LARGE_PRODUCT}
        elements = {t.element_type for t in self._types if isinstance(t, ir.RankedTensorType)}
        has_other_types = any(str(element) not in _OLDER_TYPES for element in elements)
        return repeats_layers or has_large_steps or has_other_types


def _has_few_indices(scatter: Any) -> bool:
    indices = scatter.operands[len(scatter.results)].type
    return (
        indices.has_static_shape
        and math.prod(indices.shape) <= _FEW_INDICES
        and str(indices.element_type) not in _NARROW_TYPES
    )


def _is_large(product: Any) -> bool:
    """Whether a product of matrices has more than `_SMALL_PRODUCT` multiplications."""
    left, result = product.operands[0].type, product.results[0].type
    if not (left.has_static_shape and result.has_static_shape):
        return True
    numbers = hlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    contracted = numbers.lhs_contracting_dimensions
    count = math.prod(result.shape) * math.prod([left.shape[d] for d in contracted])
    return count > _SMALL_PRODUCT
