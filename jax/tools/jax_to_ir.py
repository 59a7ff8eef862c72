"""Converts a function to a serialized XLA program that other systems can compile and run.

    python -m jax.tools.jax_to_ir --fn prog.fn \\
        --input_shapes '[("y", "f32[128,32]"), ("x", "f32[8,128]")]' --constants '{"z": 3.14}' \\
        --ir_dest fn.pb --ir_human_dest fn.txt

The program's parameters are in the order of `--input_shapes`. Lists given as constants become
arrays.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import core

# XLA's names of dtypes and JAX's.
_DTYPES = {
    "pred": "bool",
    **{f"s{bits}": f"int{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
_SHAPE = re.compile(rf"({'|'.join(_DTYPES)})\[\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]")


def jax_to_ir(
    fn: Callable[..., Any],
    input_shapes: Sequence[tuple[str, core.ShapedArray]],
    *,
    constants: Mapping[str, Any] | None = None,
    format: str,
) -> tuple[bytes, str]:
    """Converts a function to a serialized program.

    Args:
      fn: function of arrays, which are passed by name.
      input_shapes: names and types of arguments, in the order of the program's parameters.
      constants: values of the other arguments, by name.
      format: must be "HLO".

    Returns:
      The serialized program, and its text.

    Raises:
      ValueError: if the format is not supported, or a name is in both `input_shapes` and
        `constants`.

    >>> from jax.tools import jax_to_ir
    >>> shapes = [("x", jax.core.ShapedArray((2,), jnp.float32))]
    >>> add = lambda x, y: x + y
    >>> program, text = jax_to_ir.jax_to_ir(add, shapes, constants={"y": 3}, format="HLO")
    >>> "f32[2]{0} add" in text
    True
    """
    if format != "HLO":
        raise ValueError(
            f'jax_to_ir: format {format!r} is not available, only "HLO": conversion to a TensorFlow graph '
            "needs TensorFlow and jax2tf, which this package does not have."
        )
    constants = constants or {}
    names = [name for name, _ in input_shapes]
    if overlapping := sorted(set(names) & set(constants)):
        raise ValueError(
            "jax_to_ir: arguments are in both `input_shapes` and `constants`: "
            + ", ".join(overlapping)
        )

    def ordered_wrapper(*args: Any) -> Any:
        return fn(**dict(zip(names, args)), **constants)

    program = jax.jit(ordered_wrapper).lower(*(aval for _, aval in input_shapes))
    hlo = program.compiler_ir("hlo")
    return hlo.as_serialized_hlo_module_proto(), hlo.as_hlo_text()


def jax_to_hlo(
    fn: Callable[..., Any],
    input_shapes: Sequence[tuple[str, core.ShapedArray]],
    *,
    constants: Mapping[str, Any] | None = None,
    format: str = "HLO",
) -> tuple[bytes, str]:
    """`jax_to_ir`, with the format "HLO" where none is given.

    >>> from jax.tools import jax_to_ir
    >>> x = jax_to_ir.parse_shape_str("f32[2]")
    >>> jax_to_ir.jax_to_hlo(lambda x: 2 * x, [("x", x)])[1].startswith("HloModule")
    True
    """
    return jax_to_ir(fn, input_shapes, constants=constants, format=format)


def parse_shape_str(s: str) -> core.ShapedArray:
    """Parses XLA's notation of an array type, for example `f32[2,3]`.

    Raises:
      ValueError: if `s` is not in that notation.

    >>> from jax.tools import jax_to_ir
    >>> jax_to_ir.parse_shape_str("s8[2,3]")
    ShapedArray(int8[2,3])
    """
    match = _SHAPE.fullmatch(s.strip())
    if match is None:
        raise ValueError(
            f'{s!r} is not the type of an array, such as "f32[1,2,3]". Its dtype must be one of '
            f"{', '.join(_DTYPES)}."
        )
    shape = tuple(int(size) for size in match[2].split(",") if size.strip())
    return core.ShapedArray(shape, jnp.dtype(_DTYPES[match[1]]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Converts the function that the command line names, and writes the requested files."""
    options = _parser().parse_args(arguments)
    module, _, name = options.fn.rpartition(".")
    if not module:
        raise SystemExit(f"jax_to_ir: --fn must be MODULE.FUNCTION, got {options.fn}")
    function = getattr(importlib.import_module(module), name)
    shapes = [(name, parse_shape_str(shape)) for name, shape in options.input_shapes]
    evaluated = {
        key: ast.literal_eval(value) if isinstance(value, str) else value
        for key, value in options.evaled_constants.items()
    }
    constants = {
        key: jnp.asarray(value) if isinstance(value, list) else value
        for key, value in (options.constants | evaluated).items()
    }
    program, text = jax_to_ir(function, shapes, constants=constants, format=options.ir_format)
    if options.ir_dest:
        pathlib.Path(options.ir_dest).write_bytes(program)
    if options.ir_human_dest:
        pathlib.Path(options.ir_human_dest).write_text(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jax_to_ir", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--fn", required=True, help="the function: MODULE.FUNCTION")
    add("--input_shapes", required=True, type=ast.literal_eval, help="list of (name, type) pairs")
    add("--constants", default={}, type=ast.literal_eval, help="dict of other arguments' values")
    add(
        "--evaled_constants",
        default={},
        type=ast.literal_eval,
        help="more of them; values that are strings are evaluated as Python literals",
    )
    add("--ir_format", default="HLO", choices=["HLO", "TF"], help="what to write")
    add("--ir_dest", help="file for the serialized program")
    add("--ir_human_dest", help="file for the program as text")
    return parser


if __name__ == "__main__":
    main()
