"""Exported programs as bytes: a flatbuffer, whose tables are listed below.

The bytes come from anywhere: what is read is checked, and a damaged file is a ValueError that says
what is wrong. The fields and numbers are those of the original's format and must stay as they are; new
fields are added at the end.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jax._src import core, dtypes, effects as effects_lib, lib
from jax._src.array_impl import aval_with_sharding
from jax._src.export.bytecode import has_old_form
from jax._src.export.checks import DisabledSafetyCheck, argument_paths
from jax._src.export.shape_poly.parsing import Parser
from jax._src.export.shape_poly.scope import SymbolicScope
from jax._src.export.shape_poly.solving import DimensionSolver
from jax._src.export.versions import check_calling_convention
from jax._src.flatbuffer_tables import Buffer, Table, Writer
from jax._src.memory import MemorySpace
from jax._src.mesh import AbstractDevice, AbstractMesh, AxisType
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.random import keys
from jax._src.tree_util import serialization as trees

if TYPE_CHECKING:
    from jax._src.export._export import Exported

T = TypeVar("T")

# The slots of each table, in the order of their declarations.
(
    _VERSION, _NAME, _IN_TREE, _IN_AVALS, _OUT_TREE, _OUT_AVALS, _OLD_NR_DEVICES, _IN_SHARDINGS, _OUT_SHARDINGS,
    _PLATFORMS, _ORDERED, _UNORDERED, _DISABLED, _MODULE, _CONVENTION, _KEPT, _GLOBAL_CONSTANTS, _VJP,
    _NR_DEVICES, _UNIQUE_AVALS, _UNIQUE_MESHES, _UNIQUE_SHARDINGS, _IN_AVAL_NRS, _OUT_AVAL_NRS,
    _IN_SHARDING_NRS, _OUT_SHARDING_NRS,
) = range(26)  # fmt: skip
_AVAL_KIND, _AVAL_SHAPE, _AVAL_DTYPE, _AVAL_MEMORY = range(4)
_SHARDING_KIND, _SHARDING_HLO, _SHARDING_NAMED = range(3)
_NAMED_MESH, _NAMED_SPEC, _NAMED_MEMORY, _NAMED_MESH_NR = range(4)
_MESH_SIZES, _MESH_NAMES, _MESH_TYPES, _MESH_DEVICE = range(4)
_DEVICE_KIND, _DEVICE_CORES, _DEVICE_PLATFORM = range(3)
_SPEC_PARTITIONS, _SPEC_REDUCED, _SPEC_UNREDUCED = range(3)
_CHECK_KIND, _CHECK_TARGET = range(2)

_WRITTEN_VERSION = 3  # so that readers without the indexed lists can read it too

_DTYPES = {
    **{np.dtype(name): i for i, name in enumerate(
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
        " complex128".split()
    )},
    **{np.dtype(getattr(dtypes, name)): i for i, name in enumerate(
        "bfloat16 int4 uint4 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2"
        " float8_e5m2fnuz float0 float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn".split(), 14
    )},
}  # fmt: skip
_DTYPE_NRS: dict[Any, int] = {
    **_DTYPES,
    **{keys.key_dtype(name): i for i, name in enumerate(("threefry2x32", "rbg", "unsafe_rbg"), 27)},
}
_DTYPE_OF_NR = {nr: dtype for dtype, nr in _DTYPE_NRS.items()}
_MEMORY_SPACES = {MemorySpace.Device: 1, MemorySpace.Host: 2, MemorySpace.Any: 3}
_MEMORY_OF_NR = {0: MemorySpace.Device, **{nr: space for space, nr in _MEMORY_SPACES.items()}}
_AXIS_TYPES = {AxisType.Auto: 1, AxisType.Explicit: 2, AxisType.Manual: 3}
_AXIS_TYPE_OF_NR = {0: AxisType.Auto, **{nr: kind for kind, nr in _AXIS_TYPES.items()}}
_CHECKS = {0: DisabledSafetyCheck.platform(), 2: DisabledSafetyCheck._shape_assertions()}
_CHECK_CUSTOM_CALL = 1
_MAX_DIM = 2**63 - 1
_MAX_DIM_TEXT = 2000  # characters
_MAX_DIM_WORK = 1_000_000  # numbers in linear programs: seconds; those of programs that are used have some hundred

# After the flatbuffer: a mark and the checksum of the bytes before. Other readers ignore it.
_MARK = b"crc32:"


# Writing


def serialize(exported: Exported, vjp_order: int = 0) -> bytearray:
    """The bytes of an exported program.

    Args:
      exported: the program.
      vjp_order: how many orders of its derivative to include.

    Raises:
      ValueError: it does not have derivatives of that order, or a value has no form in bytes.
    """
    writer = _ExportedWriter()
    if vjp_order < 0:
        raise ValueError(f"vjp_order must not be negative, got {vjp_order}")
    data = writer.finish(writer.exported(exported, vjp_order))
    data += _MARK + zlib.crc32(data).to_bytes(4, "little")
    return data


class _Unique:
    """Values without repetitions, and their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


class _ExportedWriter(Writer):
    """Adds the tables of an exported program."""

    def exported(self, exported: Exported, vjp_order: int) -> int:
        vjp = None
        if vjp_order > 0:
            if not exported.has_vjp():
                raise ValueError(
                    f"Cannot serialize '{exported.fun_name}' with vjp_order={vjp_order} more orders: "
                    "serialization of an Exported that does not have vjps of high-enough order."
                )
            vjp = self.exported(exported.vjp(), vjp_order - 1)
        avals, meshes, shardings = _Unique(), _Unique(), _Unique()
        aval_nrs = [
            [avals.number(a) for a in group] for group in (exported.in_avals, exported.out_avals)
        ]
        sharding_nrs = []
        groups = exported._in_named_shardings, exported._out_named_shardings
        for group in groups:
            sharding_nrs.append([0 if s is None else 1 + shardings.number(s) for s in group])
        for s in shardings.numbers:
            meshes.number(s.mesh)
        self._check_plain(exported)
        fields = {
            _NAME: self.string(exported.fun_name),
            _IN_TREE: trees.write(self.builder, exported.in_tree),
            _IN_AVALS: self.offsets([self.aval(a) for a in exported.in_avals]),
            _OUT_TREE: trees.write(self.builder, exported.out_tree),
            _OUT_AVALS: self.offsets([self.aval(a) for a in exported.out_avals]),
            _IN_SHARDINGS: self.offsets([self.sharding(s) for s in groups[0]]),
            _OUT_SHARDINGS: self.offsets([self.sharding(s) for s in groups[1]]),
            _PLATFORMS: self.strings(exported.platforms),
            _ORDERED: self.offsets([self.effect(e) for e in exported.ordered_effects]),
            _UNORDERED: self.offsets([self.effect(e) for e in exported.unordered_effects]),
            _DISABLED: self.offsets([self.check(c) for c in exported.disabled_safety_checks]),
            _MODULE: self.bytes(exported.mlir_module_serialized),
            _KEPT: self.numbers(exported.module_kept_var_idx, "<H"),
            _VJP: vjp,
            _UNIQUE_AVALS: self.offsets([self.aval(a) for a in avals.numbers]),
            _UNIQUE_MESHES: self.offsets([self.mesh(m) for m in meshes.numbers]),
            _UNIQUE_SHARDINGS: self.offsets(
                [self.named_sharding(s, meshes.number(s.mesh)) for s in shardings.numbers]
            ),
            _IN_AVAL_NRS: self.numbers(aval_nrs[0], "<I"),
            _OUT_AVAL_NRS: self.numbers(aval_nrs[1], "<I"),
            _IN_SHARDING_NRS: self.numbers(sharding_nrs[0], "<I"),
            _OUT_SHARDING_NRS: self.numbers(sharding_nrs[1], "<I"),
        }
        numbers = {
            _VERSION: ("<H", _WRITTEN_VERSION),
            _CONVENTION: ("<H", exported.calling_convention_version),
            _GLOBAL_CONSTANTS: ("<?", exported.uses_global_constants),
            _NR_DEVICES: ("<I", exported.nr_devices),
        }
        return self.table(26, fields, numbers)

    def _check_plain(self, exported: Exported) -> None:
        if any(s is not None for s in (*exported.in_shardings_hlo, *exported.out_shardings_hlo)):
            raise ValueError(
                f"Cannot serialize '{exported.fun_name}', whose shardings are those of an earlier "
                "version. Keep the bytes that it was loaded from, or export it again."
            )
        if len(exported.in_avals) > 2**16:
            raise ValueError(
                f"Cannot serialize '{exported.fun_name}': it has {len(exported.in_avals)} arguments,"
                f" and the format has numbers for {2**16}."
            )

    def aval(self, aval: Any) -> int:
        nr = _DTYPE_NRS.get(aval.dtype)
        if nr is None:
            raise ValueError(
                f"Cannot serialize a value of type {aval.str_short()}: the dtype {aval.dtype} has no "
                "number in the format. Convert it within the function, or pass its bits."
            )
        shape = self.strings([str(d) for d in aval.shape])
        numbers = {
            _AVAL_KIND: ("<b", 0),
            _AVAL_DTYPE: ("<b", nr),
            _AVAL_MEMORY: ("<b", _MEMORY_SPACES[aval.memory_space]),
        }
        return self.table(4, {_AVAL_SHAPE: shape}, numbers)

    def sharding(self, sharding: NamedSharding | None) -> int:
        named = None if sharding is None else self.named_sharding(sharding, 0)
        return self.table(3, {_SHARDING_NAMED: named}, {_SHARDING_KIND: ("<b", 0)})

    def named_sharding(self, sharding: NamedSharding, mesh_nr: int) -> int:
        kind = sharding.memory_kind
        fields = {
            _NAMED_MESH: self.mesh(sharding.mesh),
            _NAMED_SPEC: self.spec(sharding),
            _NAMED_MEMORY: None if kind is None else self.string(kind),
        }
        return self.table(4, fields, {_NAMED_MESH_NR: ("<I", mesh_nr)})

    def spec(self, sharding: NamedSharding) -> int:
        spec = sharding.spec
        if PartitionSpec.UNCONSTRAINED in spec.partitions:
            raise ValueError(
                f"Cannot serialize the sharding {sharding}: the format has no number for "
                "PartitionSpec.UNCONSTRAINED. Name the mesh axes, or leave the sharding out."
            )
        partitions = []
        for p in spec.partitions:
            axes = () if p is None else p if isinstance(p, tuple) else (p,)
            partitions.append(self.table(1, {0: self.strings(axes)}, {}))
        fields = {
            _SPEC_PARTITIONS: self.offsets(partitions),
            _SPEC_REDUCED: self.strings(sorted(spec.reduced)),
            _SPEC_UNREDUCED: self.strings(sorted(spec.unreduced)),
        }
        return self.table(3, fields, {})

    def mesh(self, mesh: AbstractMesh) -> int:
        if not all(isinstance(name, str) for name in mesh.axis_names):
            raise ValueError(
                f"Cannot serialize the mesh {mesh}: the names of its axes must be strings."
            )
        device = mesh.abstract_device
        fields = {
            _MESH_SIZES: self.numbers(mesh.axis_sizes, "<I"),
            _MESH_NAMES: self.strings(mesh.axis_names),
            _MESH_TYPES: self.numbers([_AXIS_TYPES[t] for t in mesh.axis_types], "<b"),
            _MESH_DEVICE: None if device is None else self.device(device),
        }
        return self.table(4, fields, {})

    def device(self, device: AbstractDevice) -> int:
        fields = {
            _DEVICE_KIND: self.string(device.device_kind),
            _DEVICE_PLATFORM: None if device.platform is None else self.string(device.platform),
        }
        cores = device.num_cores
        return self.table(3, fields, {} if cores is None else {_DEVICE_CORES: ("<I", cores)})

    def effect(self, effect: Any) -> int:
        kind = type(effect)
        try:
            same = kind() == effect
        except TypeError:
            raise NotImplementedError(
                f"Cannot serialize the effect {effect}: {kind} must have a constructor without "
                "arguments, since only the name of the class is stored."
            ) from None
        if not same:
            raise NotImplementedError(
                f"Cannot serialize the effect {effect}: the constructor of {kind} without arguments "
                "must make an equal effect, since only the name of the class is stored."
            )
        return self.table(1, {0: self.string(_effect_name(kind))}, {})

    def check(self, check: DisabledSafetyCheck) -> int:
        target = check.is_custom_call()
        if target is not None:
            kind = {_CHECK_KIND: ("<b", _CHECK_CUSTOM_CALL)}
            return self.table(2, {_CHECK_TARGET: self.string(target)}, kind)
        for nr, known in _CHECKS.items():
            if check == known:
                return self.table(2, {}, {_CHECK_KIND: ("<b", nr)})
        raise ValueError(f"Cannot serialize the disabled safety check {check}, which is unknown.")


def _effect_name(kind: type) -> str:
    return str(kind)


# Reading


def deserialize(data: bytes | bytearray | memoryview, make: Callable[..., T]) -> T:
    """The exported program that `serialize` has turned into bytes.

    Args:
      data: the bytes.
      make: makes the program, of the fields of `Exported` as keyword arguments.

    Raises:
      TypeError: `data` is not bytes.
      ValueError: the bytes are damaged, or parts of the program are unknown here: the message says
        what is wrong.
    """
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise TypeError(f"expected the bytes of an exported program, got {type(data)}") from None
    tail = len(_MARK) + 4
    if bytes(view[-tail:-4]) == _MARK:
        if zlib.crc32(view[:-tail]) != int.from_bytes(view[-4:], "little"):
            raise ValueError("damaged exported program: its checksum is wrong")
        view = view[:-tail]
    try:
        return _read_exported(Buffer(view).root(), make)
    except (ValueError, MemoryError):
        raise
    except Exception as err:  # of the constructors of types, meshes and specs, and users' functions
        raise ValueError(f"damaged exported program: {type(err).__name__}: {err}") from err


def _read_exported(table: Table, make: Callable[..., T]) -> T:
    name = table.string(_NAME)
    data = table.bytes(_MODULE)
    if name is None or not data:
        raise ValueError("damaged exported program: it has no name or no module")
    if has_old_form(data):
        raise ValueError(
            f"the module of the exported program {name!r} has a form of 2024 or before, whose bytes cannot be checked "
            "for damage: export the program anew, with a JAX of 2025 or later"
        )
    trees_ = [_required(table, slot, "a tree") for slot in (_IN_TREE, _OUT_TREE)]
    in_tree, out_tree = map(trees.read, trees_)
    shardings = _Shardings(table)
    in_named, in_hlo = shardings.read(_IN_SHARDING_NRS, _IN_SHARDINGS)
    out_named, out_hlo = shardings.read(_OUT_SHARDING_NRS, _OUT_SHARDINGS)
    scope = SymbolicScope()  # of all types; the program itself checks the constraints
    scope._decision.limit_work(_MAX_DIM_WORK)
    avals = [_read_aval(t, scope) for t in table.tables(_UNIQUE_AVALS)]
    in_avals = _read_avals(table, avals, _IN_AVAL_NRS, _IN_AVALS, in_named, scope)
    out_avals = _read_avals(table, avals, _OUT_AVAL_NRS, _OUT_AVALS, out_named, scope)
    _check_dimensions(in_tree, in_avals, out_avals)
    _check_length("arguments", in_tree.num_leaves, in_avals, in_named, in_hlo)
    _check_length("results", out_tree.num_leaves, out_avals, out_named, out_hlo)
    kept = table.numbers(_KEPT, "<H")
    if list(kept) != sorted(set(kept)) or kept and kept[-1] >= len(in_avals):
        raise ValueError(
            f"damaged exported program: {len(kept)} kept arguments of {len(in_avals)}, which are not in "
            "order"
        )
    platforms = tuple(table.strings(_PLATFORMS))
    if not platforms:
        raise ValueError("damaged exported program: it has no platforms")
    nr_devices = table.number(_NR_DEVICES, "<I") or table.number(_OLD_NR_DEVICES, "<h")
    if nr_devices <= 0:
        raise ValueError(f"damaged exported program: it is for {nr_devices} devices")
    vjp = table.table(_VJP)
    derivative = None if vjp is None else _read_exported(vjp, make)
    return make(
        fun_name=name,
        in_tree=in_tree,
        in_avals=in_avals,
        out_tree=out_tree,
        out_avals=out_avals,
        _has_named_shardings=shardings.named,
        _in_named_shardings=in_named,
        _out_named_shardings=out_named,
        in_shardings_hlo=in_hlo,
        out_shardings_hlo=out_hlo,
        nr_devices=nr_devices,
        platforms=platforms,
        ordered_effects=tuple(map(_read_effect, table.tables(_ORDERED))),
        unordered_effects=tuple(map(_read_effect, table.tables(_UNORDERED))),
        disabled_safety_checks=tuple(map(_read_check, table.tables(_DISABLED))),
        mlir_module_serialized=data,
        calling_convention_version=check_calling_convention(table.number(_CONVENTION, "<H"), name),
        module_kept_var_idx=kept,
        uses_global_constants=bool(table.byte(_GLOBAL_CONSTANTS)),
        _get_vjp=None if derivative is None else lambda _: derivative,
    )


def _required(table: Table, slot: int, what: str) -> Table:
    found = table.table(slot)
    if found is None:
        raise ValueError(f"damaged exported program: {what} is missing")
    return found


def _check_length(what: str, n: int, *groups: Sequence[object]) -> None:
    if any(len(group) != n for group in groups):
        raise ValueError(
            f"damaged exported program: {n} {what}, but {', '.join(str(len(g)) for g in groups)} types"
            " and shardings of them"
        )


def _at(values: Sequence[T], number: int, what: str) -> T:
    if number >= len(values):
        raise ValueError(f"damaged exported program: it refers to {what} {number} of {len(values)}")
    return values[number]


def _read_avals(
    table: Table, unique: Sequence[core.ShapedArray], numbers: int, old: int, shardings: Sequence[Any],
    scope: SymbolicScope,
) -> tuple[core.ShapedArray, ...]:  # fmt: skip
    if table.has(numbers):
        avals = [_at(unique, n, "type") for n in table.numbers(numbers, "<I")]
    else:
        avals = [_read_aval(t, scope) for t in table.tables(old)]
    return tuple(
        [
            aval if s is None else aval_with_sharding(aval, s)
            for aval, s in itertools.zip_longest(avals, shardings[: len(avals)])
        ]
    )


def _check_dimensions(
    in_tree: trees.PyTreeDef, in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> None:
    """Checks that the shapes of arguments determine the dimension variables of all types."""
    if all(core.is_constant_shape(a.shape) for a in (*in_avals, *out_avals)):
        return
    if len(in_avals) != in_tree.num_leaves:
        raise ValueError("damaged exported program: its arguments do not match their tree")
    known = set(DimensionSolver(in_avals, argument_paths(in_tree)).variables)
    for aval in out_avals:
        for d in aval.shape:
            if core.is_symbolic_dim(d) and not d._get_vars() <= known:
                raise ValueError(
                    f"damaged exported program: no argument has the dimensions of the result {aval}"
                )


def _read_aval(table: Table, scope: SymbolicScope) -> core.ShapedArray:
    if table.byte(_AVAL_KIND):
        raise ValueError(
            f"damaged exported program: a type of the unknown kind {table.byte(_AVAL_KIND)}"
        )
    dtype = _of_number(_DTYPE_OF_NR, table.byte(_AVAL_DTYPE), "dtype")
    space = _of_number(_MEMORY_OF_NR, table.byte(_AVAL_MEMORY), "memory space")
    shape = tuple([_read_dim(text, scope) for text in table.strings(_AVAL_SHAPE)])
    return core.ShapedArray(shape, dtype, memory_space=space)


def _read_dim(text: str, scope: SymbolicScope) -> Any:
    if text.isdecimal() and text.isascii() and len(text) < 20:
        size = int(text)
        if size <= _MAX_DIM:
            return size
    if len(text) > _MAX_DIM_TEXT:
        raise ValueError(f"the exported program has a dimension of {len(text)} characters")
    shape = Parser(text, scope, "dimension of an exported program").shape()
    if len(shape) != 1 or type(shape[0]) is int and not 0 <= shape[0] <= _MAX_DIM:
        raise ValueError(f"the exported program has a dimension {text[:100]!r}, which is no size")
    return shape[0]


def _of_number(values: dict[int, T], number: int, what: str) -> T:
    if number not in values:
        raise ValueError(f"the exported program has a {what} with the unknown number {number}")
    return values[number]


class _Shardings:
    """Reads shardings, of which a program has a list of different ones.

    Attributes:
      named: whether the program has named shardings; earlier ones have XLA's.
    """

    def __init__(self, table: Table):
        self.table = table
        self.listed = table.has(_UNIQUE_SHARDINGS) or table.has(_IN_SHARDING_NRS)
        self.named = self.listed
        meshes = [_read_mesh(t) for t in table.tables(_UNIQUE_MESHES)]
        self.unique = [_read_named(t, meshes) for t in table.tables(_UNIQUE_SHARDINGS)]

    def read(self, numbers: int, old: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The shardings of arguments or results: named ones, and those in XLA's form."""
        if self.listed:
            named = tuple(
                [
                    None if n == 0 else _at(self.unique, n - 1, "sharding")
                    for n in self.table.numbers(numbers, "<I")
                ]
            )
            return named, (None,) * len(named)
        both = [_read_sharding(t) for t in self.table.tables(old)]
        if any(s is not None for s, _ in both):
            self.named = True
        return tuple([s for s, _ in both]), tuple([hlo for _, hlo in both])


def _read_sharding(table: Table) -> tuple[NamedSharding | None, Any]:
    named = table.table(_SHARDING_NAMED)
    if named is not None:
        return _read_named(named, ()), None
    proto = table.bytes(_SHARDING_HLO)
    if not proto:
        return None, None
    sharding = lib.hlo.OpSharding()
    try:
        sharding.ParseFromString(proto)
        return None, lib.hlo.HloSharding.from_proto(sharding)
    except Exception as err:  # jaxlib's own
        raise ValueError(f"damaged exported program: a sharding is not one ({err})") from None


def _read_named(table: Table, meshes: Sequence[AbstractMesh]) -> NamedSharding:
    own = table.table(_NAMED_MESH)
    if own is not None:
        mesh = _read_mesh(own)
    else:
        mesh = _at(meshes, table.number(_NAMED_MESH_NR, "<I"), "mesh")
    spec = _required(table, _NAMED_SPEC, "the spec of a sharding")
    partitions: list[Any] = []
    for t in spec.tables(_SPEC_PARTITIONS):
        axes = t.strings(0)
        partitions.append(tuple(axes) if len(axes) > 1 else axes[0] if axes else None)
    return NamedSharding(
        mesh,
        PartitionSpec(
            *partitions,
            reduced=frozenset(spec.strings(_SPEC_REDUCED)),
            unreduced=frozenset(spec.strings(_SPEC_UNREDUCED)),
        ),
        memory_kind=table.string(_NAMED_MEMORY),
    )


def _read_mesh(table: Table) -> AbstractMesh:
    device = table.table(_MESH_DEVICE)
    types = [
        _of_number(_AXIS_TYPE_OF_NR, n, "type of mesh axis")
        for n in table.numbers(_MESH_TYPES, "<b")
    ]
    sizes = table.numbers(_MESH_SIZES, "<I")
    if 0 in sizes:
        raise ValueError(f"damaged exported program: a mesh of the sizes {sizes}")
    return AbstractMesh(
        sizes,
        tuple(table.strings(_MESH_NAMES)),
        tuple(types),
        abstract_device=None if device is None else _read_device(device),
    )


def _read_device(table: Table) -> AbstractDevice:
    cores = table.number(_DEVICE_CORES, "<I") if table.has(_DEVICE_CORES) else None
    kind, platform = table.string(_DEVICE_KIND), table.string(_DEVICE_PLATFORM)
    return AbstractDevice(kind or "", cores, platform or "")


def _read_effect(table: Table) -> Any:
    name = table.string(0)
    kinds = list(effects_lib.lowerable_effects.types())
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        if _effect_name(kind) == name:
            try:
                return kind()
            except TypeError:
                break
    raise ValueError(
        f"the exported program has the effect {name}, which is not registered here: import the module"
        " that defines it, and register it with `lowerable_effects.add_type`"
    )


def _read_check(table: Table) -> DisabledSafetyCheck:
    kind = table.byte(_CHECK_KIND)
    if kind == _CHECK_CUSTOM_CALL:
        return DisabledSafetyCheck.custom_call(table.string(_CHECK_TARGET) or "")
    return _of_number(_CHECKS, kind, "disabled safety check")
