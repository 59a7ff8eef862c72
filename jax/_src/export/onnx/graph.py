"""The ONNX graph while it is built: its values, nodes, constants and subgraphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jax._src.export.onnx.kernels import ONNX_NAMES, compute_dtype

_WITH_BODIES = ("If", "Loop", "Scan")
_FOLDED = 1 << 16  # elements of constants that are computed here rather than in the model
INT64 = np.dtype(np.int64)
BOOL = np.dtype(bool)

Shape = tuple[int | None, ...]


class Unsupported(Exception):
    """Raised by rules for an operation that has no form in ONNX; the message says why."""


@dataclasses.dataclass(frozen=True)
class Value:
    """An array of the program, and the tensor of the model that holds it.

    Attributes:
      name: the name of the tensor.
      dtype: its element type.
      shape: the shape of the array; None for sizes that are known only when the model runs.
      held: for each dimension, whether the tensor has all of it. Otherwise the tensor has size 1 there
        and its elements stand for all: operators that broadcast need no more.
      sizes: the name of an int64 vector with the shape; None if it follows from `shape` or the tensor.
      constant: the elements of the tensor, if they are known.
    """

    name: str
    dtype: np.dtype
    shape: Shape
    held: tuple[bool, ...]
    sizes: str | None = None
    constant: np.ndarray | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def whole(self) -> bool:
        return all(self.held)

    @property
    def static(self) -> bool:
        return None not in self.shape

    @property
    def tensor_shape(self) -> Shape:
        return tuple(n if h else 1 for n, h in zip(self.shape, self.held))


class Graph:
    """Builds the nodes of a model; `subgraph` collects those of a body of a loop or branch."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.scope = ""  # for the names of nodes
        self._counts: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._nodes: dict[Any, Any] = {}  # those that are computed where nodes are added

    # names and constants

    def fresh(self, base: str) -> str:
        count = self._counts.get(base, 0)
        self._counts[base] = count + 1
        return base if count == 0 else self.fresh(f"{base}_{count}")

    def onnx_type(self, dtype: np.dtype) -> int:
        return getattr(self.onnx.TensorProto, ONNX_NAMES[dtype.name])

    def initializer(self, array: np.ndarray, base: str = "constant") -> str:
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = None
        if array.size <= 1024:
            key = (array.dtype.name, array.shape, array.tobytes())
            if key in self._constants:
                return self._constants[key]
        name = self.fresh(base)
        self.initializers.append(
            self.onnx.helper.make_tensor(
                name, self.onnx_type(array.dtype), array.shape, array.tobytes(), raw=True
            )
        )
        if key is not None:
            self._constants[key] = name
        return name

    def ints(self, values: Sequence[int]) -> str:
        return self.initializer(np.array(values, np.int64).reshape(len(values)))

    def constant(self, array: Any, dtype: Any = None) -> Value:
        """A constant; one whose elements are all equal is held as one element."""
        array = np.asarray(array, dtype)
        shape = array.shape
        if array.size > 1:
            flat = array.reshape(-1)
            if flat[:1].tobytes() * array.size == flat.tobytes():
                array = flat[:1].reshape((1,) * array.ndim)
        held = tuple(a == n for a, n in zip(array.shape, shape))
        return Value(self.initializer(array), array.dtype, shape, held, None, array)

    def splat(self, element: Any, like: Value) -> Value:
        """A constant of one element, with the shape and type of another value."""
        array = np.asarray(element, like.dtype).reshape((1,) * like.ndim)
        held = tuple(n == 1 for n in like.shape)
        sizes = None if like.static else self.sizes_of(like)
        return Value(self.initializer(array), like.dtype, like.shape, held, sizes, array)

    # nodes

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node, or finds an equal one; returns the name of its output, or a list of several."""
        key = (op, tuple(inputs), outputs, tuple((k, str(v)) for k, v in attributes.items()))
        if op not in _WITH_BODIES and key in self._nodes:
            return self._nodes[key]
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        node = self.onnx.helper.make_node(
            op, list(inputs), names, name=f"{self.scope}{names[0]}", **attributes
        )
        self.nodes.append(node)
        result = self._nodes[key] = names[0] if outputs == 1 else names
        return result

    @contextmanager
    def subgraph(self) -> Iterator[list[Any]]:
        """Collects the nodes that are added in the context."""
        outer, equal = self.nodes, self._nodes
        self.nodes, self._nodes = [], dict(equal)
        try:
            yield self.nodes
        finally:
            self.nodes, self._nodes = outer, equal

    def info(self, value: Value) -> Any:
        """What a body says of an input or output."""
        return self.onnx.helper.make_tensor_value_info(
            value.name, self.onnx_type(value.dtype), [None] * value.ndim
        )

    def outputs(self, values: Sequence[Value]) -> list[Any]:
        """The outputs of a body: names of nodes of the body itself, each once."""
        infos = []
        for value in values:
            name = self.fresh("out")
            self.nodes.append(
                self.onnx.helper.make_node("Identity", [self.whole(value).name], [name], name=name)
            )
            infos.append(self.info(known(name, value.dtype, value.shape)))
        return infos

    def loop(
        self,
        first: Value,
        initial: Sequence[Value],
        shapes: Sequence[Shape],
        iteration: Callable[[list[Value]], tuple[Value, list[Value], list[Value]]],
    ) -> list[str]:
        """Adds a Loop that goes on while a condition holds.

        Args:
          first: the condition before the first iteration.
          initial: the arrays that are carried from one iteration to the next.
          shapes: the shapes of these, in all iterations.
          iteration: takes the carried arrays; returns the condition, these arrays, and rows.

        Returns:
          The names of the carried arrays at the end, and of the arrays of all rows.
        """
        step, going = self.fresh("step"), self.fresh("going")
        carried = [known(self.fresh("carried"), v.dtype, s) for v, s in zip(initial, shapes)]
        with self.subgraph() as nodes:
            again, arrays, rows = iteration(carried)
            outputs = self.outputs([again, *arrays, *rows])
            inputs = [known(step, INT64, ()), known(going, BOOL, ()), *carried]
            body = self.onnx.helper.make_graph(
                nodes, self.fresh("body"), [self.info(v) for v in inputs], outputs
            )
        count = len(arrays) + len(rows)
        names = ["", self.whole(first).name, *[self.whole(v).name for v in initial]]
        results = self.node("Loop", names, count, body=body)
        return [results] if count == 1 else results

    def prune(self, outputs: Sequence[str]) -> None:
        """Removes nodes and constants that none of the outputs depends on."""
        used = set(outputs)
        self.nodes = _pruned(self.nodes, used)
        self.initializers = [t for t in self.initializers if t.name in used]

    def cast_name(self, name: str, source: np.dtype, target: np.dtype) -> str:
        if source == target:
            return name
        # numbers that are too large for a type of 8 bits become infinite or NaN, not the largest
        options = {"saturate": 0} if target.name.startswith("float8") else {}
        return self.node("Cast", [name], to=self.onnx_type(target), **options)

    def moved(self, op: str, values: Sequence[Value], *more: str, **attributes: Any) -> str:
        """The name of the result of an operator that only moves elements, of values of one type."""
        dtype = values[0].dtype
        kind = self.kernel_dtype(op, dtype)
        names = [self.cast_name(v.name, dtype, kind) for v in values]
        return self.cast_name(self.node(op, [*names, *more], **attributes), kind, dtype)

    def apply(self, op: str, value: Value, shape: Shape, *more: str, **attributes: Any) -> Value:
        """Applies an operator that rearranges the elements of a whole value."""
        name = self.moved(op, [self.whole(value)], *more, **attributes)
        return known(name, value.dtype, shape)

    def kernel_dtype(self, op: str, dtype: np.dtype) -> np.dtype:
        kind = compute_dtype(op, dtype)
        if kind is None:
            raise Unsupported(f"runtimes have no {op} of {dtype.name}")
        return kind

    def map(self, op: str, *values: Value, dtype: Any = None, **attributes: Any) -> Value:
        """Applies an elementwise operator to values of one shape (or scalars) and of one type.

        Args:
          dtype: the type of the result, if it is not that of the operands.
        """
        first = values[0]
        kind = self.kernel_dtype(op, first.dtype)
        names = [self.cast_name(v.name, v.dtype, kind) for v in values]
        name = self.node(op, names, **attributes)
        if dtype is None:
            name = self.cast_name(name, kind, first.dtype)
        return self.like(name, first.dtype if dtype is None else np.dtype(dtype), values)

    def like(self, name: str, dtype: np.dtype, values: Sequence[Value]) -> Value:
        """The result of an elementwise operator on values of one shape, or scalars."""
        main = max(values, key=lambda v: v.ndim)
        arrays = [v for v in values if v.ndim == main.ndim]
        held = tuple(any(h) for h in zip(*[v.held for v in arrays])) if main.ndim else ()
        sizes = None
        shape = main.shape
        if not all(held) and None in shape:
            sizes = next((self.sizes_of(v) for v in arrays if v.sizes or v.whole), None)
        return Value(name, dtype, shape, held, sizes)

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        kind = self.kernel_dtype("Where", a.dtype)
        names = [self.cast_name(v.name, v.dtype, kind) for v in (a, b)]
        name = self.node("Where", [condition.name, *names])
        name = self.cast_name(name, kind, a.dtype)
        return self.like(name, a.dtype, (condition, a, b))

    def cast(self, value: Value, dtype: Any) -> Value:
        """ONNX's Cast: integers wrap around, floating-point numbers must be in the type's range."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        if value.constant is not None and value.constant.size <= _FOLDED:
            with np.errstate(all="ignore"):
                return self.with_constant(value, value.constant.astype(dtype))
        name = self.cast_name(value.name, value.dtype, dtype)
        return dataclasses.replace(value, name=name, dtype=dtype, constant=None)

    def with_constant(self, value: Value, array: np.ndarray) -> Value:
        """A value whose tensor is constant, of the shape of another value of the same rank."""
        name = self.initializer(array)
        return dataclasses.replace(value, name=name, dtype=array.dtype, constant=array)

    # shapes

    def sizes_of(self, value: Value) -> str:
        """The name of an int64 vector with the shape of an array."""
        if value.static:
            return self.ints(value.shape)
        if value.sizes is not None:
            return value.sizes
        if not value.whole:
            raise Unsupported("the shape of an operand is not known")
        return self.node("Shape", [value.name])

    def size(self, value: Value, axis: int) -> str:
        """The name of an int64 vector of one element, the size of a dimension."""
        size = value.shape[axis]
        if size is not None:
            return self.ints([size])
        return self.node("Gather", [self.sizes_of(value), self.ints([axis])], axis=0)

    def join_sizes(self, parts: Sequence[str | int]) -> str:
        """A vector of sizes: of numbers, and of names of vectors."""
        if all(isinstance(p, int) for p in parts):
            return self.ints(parts)
        return self.node(
            "Concat", [self.ints([p]) if isinstance(p, int) else p for p in parts], axis=0
        )

    def product(self, value: Value, axes: Sequence[int]) -> str | int:
        """The number of elements along some dimensions."""
        sizes = [value.shape[a] for a in axes]
        known = int(np.prod([s for s in sizes if s is not None], dtype=np.int64))
        unknown = [a for a, s in zip(axes, sizes) if s is None]
        if not unknown:
            return known
        name = self.node("Gather", [self.sizes_of(value), self.ints(unknown)], axis=0)
        if len(unknown) > 1:
            name = self.node("ReduceProd", [name], keepdims=1)
        return name if known == 1 else self.node("Mul", [name, self.ints([known])])

    def whole(self, value: Value) -> Value:
        """The value, held by a tensor of its shape."""
        if value.whole:
            return value
        if value.static and 0 in value.shape:
            # without Expand, which onnxruntime takes away where a size of 1 becomes 0
            array = np.zeros(value.shape, value.dtype)
            return known(self.initializer(array), value.dtype, value.shape)
        if value.constant is not None and value.static and np.prod(value.shape) <= 64:
            array = np.broadcast_to(value.constant, value.shape)
            held = (True,) * value.ndim
            return Value(self.initializer(array), value.dtype, value.shape, held, None, array)
        name = self.moved("Expand", [value], self.sizes_of(value))
        return known(name, value.dtype, value.shape)

    def reshape(self, value: Value, shape: Shape, sizes: str | None = None) -> Value:
        """Another shape for the same elements; `sizes` is needed if it is not known."""
        if value.shape == tuple(shape) and None not in shape:
            return value
        if value.constant is not None and None not in shape:
            if value.whole:
                array = value.constant.reshape(shape)
                return Value(
                    self.initializer(array), value.dtype, shape, (True,) * len(shape), None, array
                )
            if value.constant.size == 1:
                return self.splat(value.constant.reshape(-1)[0], _shaped(value, shape))
        if sizes is None:
            unknown = sum(n is None for n in shape)
            if unknown > 1 or (unknown and 0 in shape):
                raise Unsupported("a reshape to several unknown sizes")
            sizes = self.ints([-1 if n is None else n for n in shape])
        return self.apply("Reshape", value, shape, sizes, allowzero=1)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        permutation = list(permutation)
        if permutation == list(range(value.ndim)):
            return value
        shape, held = (tuple(of[p] for p in permutation) for of in (value.shape, value.held))
        sizes = value.sizes
        if sizes is not None:
            sizes = self.node("Gather", [sizes, self.ints(permutation)], axis=0)
        if value.constant is not None and value.constant.size <= _FOLDED:
            array = value.constant.transpose(permutation)
            return Value(self.initializer(array), value.dtype, shape, held, sizes, array)
        name = self.moved("Transpose", [value], perm=permutation)
        return Value(name, value.dtype, shape, held, sizes)

    def expand_dims(self, value: Value, axes: Sequence[int]) -> Value:
        """Adds dimensions of size 1; `axes` count in the result, in ascending order."""
        if not axes:
            return value
        value = self.whole(value)
        shape: list[int | None] = list(value.shape)
        for axis in axes:
            shape.insert(axis, 1)
        if value.constant is not None:
            array = value.constant.reshape(shape)
            held = (True,) * len(shape)
            return Value(self.initializer(array), value.dtype, tuple(shape), held, None, array)
        return self.apply("Unsqueeze", value, tuple(shape), self.ints(axes))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Removes dimensions of size 1."""
        if not axes:
            return value
        shape = tuple(n for i, n in enumerate(value.shape) if i not in set(axes))
        return self.apply("Squeeze", value, shape, self.ints(axes))

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        limits: Sequence[int | None],
        strides: Sequence[int] | None = None,
        shape: Shape | None = None,
    ) -> Value:
        """A slice with known starts; a limit of None is the end of the dimension."""
        strides = strides or [1] * value.ndim
        axes, out = [], list(value.shape)
        for axis, (start, limit, step) in enumerate(zip(starts, limits, strides)):
            size = value.shape[axis]
            if start == 0 and step == 1 and (limit is None or limit == size):
                continue
            axes.append(axis)
            end = size if limit is None else limit
            out[axis] = None if end is None else max(0, -(-(end - start) // step))
        if not axes:
            return value
        if value.constant is not None and value.whole:
            index = tuple(slice(s, e, t) for s, e, t in zip(starts, limits, strides))
            array = value.constant[index]
            held = (True,) * array.ndim
            return Value(self.initializer(array), value.dtype, array.shape, held, None, array)
        last = np.iinfo(np.int64).max
        ends = [last if limits[a] is None else limits[a] for a in axes]
        out_shape = tuple(out) if shape is None else shape
        return self.apply(
            "Slice", value, out_shape, self.ints([starts[a] for a in axes]), self.ints(ends),
            self.ints(axes), self.ints([strides[a] for a in axes]),
        )  # fmt: skip

    def slice_in_dim(self, value: Value, axis: int, start: int, limit: int | None) -> Value:
        starts = [0] * value.ndim
        limits: list[int | None] = [None] * value.ndim
        starts[axis], limits[axis] = start, limit
        return self.slice(value, starts, limits)

    def iota(self, size: int | str, dtype: np.dtype = INT64) -> str:
        """The name of a vector 0, 1, ..., `size` - 1."""
        if isinstance(size, int):
            return self.initializer(np.arange(size, dtype=np.int64).astype(dtype))
        scalar = self.node("Squeeze", [size, self.ints([0])])
        zero, one = (self.initializer(np.array(n, np.int64)) for n in (0, 1))
        return self.cast_name(self.node("Range", [zero, scalar, one]), INT64, dtype)


def _pruned(nodes: Sequence[Any], used: set[str]) -> list[Any]:
    """The nodes whose outputs are used; adds the names that they use to `used`."""
    kept = []
    for node in reversed(nodes):
        if not used.intersection(node.output):
            continue
        used.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                body = attribute.g
                used.update(o.name for o in body.output)
                inner = _pruned(body.node, used)
                del body.node[:]
                body.node.extend(inner)
        kept.append(node)
    return kept[::-1]


def _shaped(value: Value, shape: Shape) -> Value:
    return dataclasses.replace(value, shape=tuple(shape), held=(True,) * len(shape), sizes=None)


def known(name: str, dtype: Any, shape: Shape) -> Value:
    """A value that a tensor of its shape holds."""
    return Value(name, np.dtype(dtype), tuple(shape), (True,) * len(shape))
