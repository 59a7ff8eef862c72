"""`to_onnx`: writes an exported program as an ONNX model."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, traceback_util
from jax._src.export._export import Exported
from jax._src.export.checks import argument_paths
from jax._src.export.onnx.attributes import element_dtype
from jax._src.export.onnx.convert import Converter
from jax._src.export.onnx.graph import Graph, Unsupported, Value, known
from jax._src.export.onnx.kernels import DTYPES
from jax._src.export.shape_poly.assertions import WRAPPED_MAIN
from jax._src.lib.mlir import ir
from jax.version import __version__

traceback_util.register_exclusion(__file__)

# of operators, and of the file's format that came with them
_OPSET, _IR_VERSION = 21, 10
# protocol buffers end at 2 GiB; models from this size on have their weights in a file of their own
_EXTERNAL = 1 << 30
_NAME = re.compile(r'^loc\("([^"]*)"')


def to_onnx(
    exported: Exported,
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    external_data: bool | None = None,
) -> None:
    """Writes an exported function as an ONNX model, for runtimes without Python.

    The model has an input for each flat argument and an output for each flat result. Sizes that are
    symbolic are sizes of the model's inputs, by the same names. Arrays that the function closes over are
    the weights of the model. It needs the package `onnx` (`pip install jax[onnx]`).

    Args:
      exported: the function, from `jax.export.export` or `jax.export.deserialize`.
      path: the file to write. It is replaced at once, when the model is complete.
      input_names: names for the inputs; by default the paths of arguments, such as `x` or `params['w']`.
      output_names: names for the outputs; by default `result`, with the path of each.
      external_data: whether weights go to a second file, `path` + `.data`, which must stay beside the
        first. By default those of models of more than 1 GiB do.

    Raises:
      NotImplementedError: the program has operations that ONNX lacks, or draws random numbers; the
        message lists all of them with their source lines. Nothing is written.
      ValueError: the function has no results, or the names are not as many as inputs or outputs, or not distinct.
      ModuleNotFoundError: the package `onnx` is not installed.

    Example:
      >>> import tempfile
      >>> from jax import export
      >>> (b,) = export.symbolic_shape("b")
      >>> x = jax.ShapeDtypeStruct((b, 3), jnp.float32)
      >>> exported = export.export(jax.jit(jax.nn.softmax))(x)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     export.to_onnx(exported, f"{folder}/softmax.onnx")
    """
    if not isinstance(exported, Exported):
        raise TypeError(
            f"to_onnx takes an Exported, got {type(exported).__name__}: export the function first, by "
            "jax.export.export(jax.jit(f))(*args)"
        )
    if not exported.out_avals:
        raise ValueError(f"to_onnx cannot convert '{exported.fun_name}': it has no results")
    onnx = _onnx()
    graph = Graph(onnx)
    module = exported.mlir_module(serialized=False)
    with module.context:
        inputs, outputs, unsupported = _convert(exported, module, graph, input_names)
    if unsupported:
        listed = "\n".join(f"  {line}" for line in dict.fromkeys(unsupported))
        raise NotImplementedError(
            f"to_onnx cannot convert '{exported.fun_name}': these operations have no form in ONNX, and "
            f"nothing was written.\n{listed}"
        )
    names = _output_names(exported, module, output_names, [i.name for i in inputs])
    results = _results(exported, graph, outputs, names)
    model = _model(exported, graph, inputs, results)
    _save(onnx, model, pathlib.Path(path), external_data)


def _onnx() -> Any:
    try:
        import onnx  # only this function needs it
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "jax.export.to_onnx needs the package onnx: pip install jax[onnx]", name="onnx"
        ) from error
    return onnx


def _convert(
    exported: Exported, module: Any, graph: Graph, input_names: Sequence[str] | None
) -> tuple[list[Any], list[Value | None], list[str]]:
    """The inputs of the model, the results, and what cannot be converted."""
    converter = Converter(module, graph)
    block = converter.functions["main"].regions[0].blocks[0]
    leading = len(block.arguments) - len(exported.module_kept_var_idx)
    names = _input_names(exported, converter, input_names)
    inputs, values, unsupported = [], [], []
    for name, aval in zip(names, exported.in_avals, strict=True):
        try:
            value, info = _input(graph, name, aval)
        except Unsupported as error:
            unsupported.append(f"the argument {name}: {error}")
            continue
        inputs.append(info)
        values.append(value)
    if unsupported:
        return inputs, [], unsupported
    arguments: list[Value | None] = [
        _leading_argument(exported, graph, a) for a in list(block.arguments)[:leading]
    ]
    arguments += [values[i] for i in exported.module_kept_var_idx]
    outputs = converter.call("main", arguments)
    outputs = outputs[len(outputs) - len(exported.out_avals) :]  # the others are tokens
    return inputs, outputs, converter.unsupported


def _leading_argument(exported: Exported, graph: Graph, argument: Any) -> Value | None:
    """The platform index, the only array before the arguments; tokens have no value."""
    if not isinstance(argument.type, ir.RankedTensorType):
        return None
    platforms = exported.platforms
    index = platforms.index("cpu") if "cpu" in platforms else 0
    dtype = element_dtype(ir.RankedTensorType(argument.type))
    return graph.constant(np.array(index, dtype))


def _input(graph: Graph, name: str, aval: core.ShapedArray) -> tuple[Value, Any]:
    if dtypes.issubdtype(aval.dtype, dtypes.extended):
        raise Unsupported(f"arrays of {aval.dtype} have no form in ONNX")
    dtype = np.dtype(aval.dtype)
    if dtype not in DTYPES.values():
        raise Unsupported(f"arrays of {dtype.name} have no form that runtimes compute with")
    shape = tuple(d if isinstance(d, int) else None for d in aval.shape)
    sizes = [d if isinstance(d, int) else str(d) for d in aval.shape]
    info = graph.onnx.helper.make_tensor_value_info(
        graph.fresh(name), graph.onnx_type(dtype), sizes
    )
    return known(info.name, dtype, shape), info


def _input_names(
    exported: Exported, converter: Converter, given: Sequence[str] | None
) -> list[str]:
    """A name for each flat argument: that of the parameter, or the path in the arguments."""
    paths = argument_paths(exported.in_tree)
    if given is not None:
        return _checked("input_names", given, len(paths))
    names = list(paths)
    kept = exported.module_kept_var_idx
    wrapped = next((s for s in converter.functions if s.startswith(WRAPPED_MAIN)), "main")
    for symbol in ("main", wrapped):
        arguments = list(converter.functions[symbol].regions[0].blocks[0].arguments)
        for i, argument in zip(kept, arguments[len(arguments) - len(kept) :]):
            found = _NAME.match(str(argument.location))
            if found and names[i] == paths[i] and "/" not in found[1]:
                names[i] = found[1]
    return names


def _checked(what: str, names: Sequence[str], count: int) -> list[str]:
    names = [names] if isinstance(names, str) else list(names)
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{what} must be {count} distinct names, got {names!r}")
    return names


def _output_names(
    exported: Exported, module: Any, given: Sequence[str] | None, taken: Sequence[str]
) -> list[str]:
    count = len(exported.out_avals)
    if given is not None:
        names = _checked("output_names", given, count)
        shared = sorted(set(names) & set(taken))
        if shared:
            raise ValueError(f"output_names must differ from the names of inputs, got {shared}")
        return names
    with module.context:
        main = ir.SymbolTable(module.operation)["main"]
        infos = list(ir.ArrayAttr(main.attributes["res_attrs"]))[-count:] if count else []
        names = []
        for i, info in enumerate(infos):
            found = ir.DictAttr(info)
            has = "jax.result_info" in found
            name = ir.StringAttr(found["jax.result_info"]).value if has else ""
            names.append(name or ("result" if count == 1 else f"result[{i}]"))
    return names


def _results(
    exported: Exported, graph: Graph, outputs: Sequence[Value | None], names: Sequence[str]
) -> list[Any]:
    """The outputs of the model, each by a node of its own that gives it its name."""
    results = []
    for name, value, aval in zip(names, outputs, exported.out_avals, strict=True):
        value = graph.whole(value)
        name = graph.fresh(name)
        graph.nodes.append(graph.onnx.helper.make_node("Identity", [value.name], [name], name=name))
        sizes = [d if isinstance(d, int) else str(d) for d in aval.shape]
        results.append(
            graph.onnx.helper.make_tensor_value_info(name, graph.onnx_type(value.dtype), sizes)
        )
    return results


def _model(exported: Exported, graph: Graph, inputs: list[Any], outputs: list[Any]) -> Any:
    helper = graph.onnx.helper
    graph.prune([o.name for o in outputs])
    name = re.sub(r"\W", "_", exported.fun_name) or "main"
    body = helper.make_graph(graph.nodes, name, inputs, outputs, graph.initializers)
    return helper.make_model(
        body,
        producer_name="jax",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )


def _save(onnx: Any, model: Any, path: pathlib.Path, external: bool | None) -> None:
    """Checks the model and writes it; files appear under their names when they are complete."""
    if external is None:
        external = sum(len(t.raw_data) for t in model.graph.initializer) > _EXTERNAL
    folder = path.parent
    with tempfile.TemporaryDirectory(dir=folder, prefix=".onnx-") as partial:
        written = pathlib.Path(partial) / path.name
        if external:
            data = f"{path.name}.data"
            onnx.save_model(
                model, written, save_as_external_data=True, location=data, size_threshold=1024
            )
            onnx.checker.check_model(str(written))
            if (written.parent / data).exists():
                os.replace(written.parent / data, folder / data)
        else:
            onnx.checker.check_model(model)
            onnx.save_model(model, written)
        os.replace(written, path)
