"""`jax.export`: exported programs; files that the oracle wrote and reads, in the table."""

import dataclasses
import gc
import pathlib
import re
import struct
import subprocess
import sys
import tracemalloc
import weakref
import zipfile

import export_fuzz
import numpy as np
import pytest
from absl.testing import absltest
from export_files import archive
from export_programs import GROUPS
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import export
from jax._src import config, core, effects, errors, test_util as jtu
from jax._src.export import _export, bytecode, calling, serialization
from jax._src.export.bytecode import check_module
from jax._src.export.versions import stablehlo_version
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func, hlo

jtu.request_cpu_devices(8)

reference, test_reference, _ = case_tests(__file__)

x4 = np.arange(4, dtype=np.float32)


def sin():
    return export.export(jax.jit(jnp.sin))(x4)


@pytest.mark.parametrize("name", ["own", "oracle"])
def test_files_have_all_programs(name):
    expected = [f"{group}/{program}" for group, programs in GROUPS.items() for program in programs]
    with zipfile.ZipFile(archive(name)) as file:
        assert file.namelist() == expected, f"run `PYTHON tests/export_files.py write {name}`"


# Damaged bytes


def test_damaged_files_are_errors_or_other_programs():
    errors, memory = export_fuzz.run(3000)
    assert errors > 1000 and memory < 2


def test_damaged_modules_are_errors_or_other_modules():
    """In a process of its own, since a crash of the compiler's reader would end it."""
    fuzz = pathlib.Path(export_fuzz.__file__)
    done = subprocess.run(
        [sys.executable, str(fuzz), "modules", "1000"], cwd=fuzz.parent, capture_output=True
    )
    assert done.returncode == 0, done.stderr[-3000:].decode(errors="replace")
    errors, longest = map(float, done.stdout.split()[-2:])
    assert errors > 500 and longest < 5


def varint(n):
    return (n << 1 | 1).to_bytes(1, "little") if n < 128 else (n << 3 | 4).to_bytes(3, "little")


def module_of(attributes, body=b"\1", texts=()):
    """A module with these attributes, of the dialect builtin, and texts "builtin", "a" and others."""
    section = lambda number, data: bytes([number]) + varint(len(data)) + data
    sizes = b"".join(varint(len(a) << 1 | 1) for a in attributes)
    group = varint(0) + varint(len(attributes)) if attributes else b""
    offsets = varint(len(attributes)) + varint(0) + group + sizes
    return b"".join([
        b"ML\xefR", varint(6), b"StableHLO_v1.0.0\0", section(1, varint(1) + varint(0) + varint(0)),
        section(3, offsets), section(2, b"".join(attributes)), section(4, body),
        section(0, texts_of(b"builtin", b"a", *texts)),
    ])  # fmt: skip


def texts_of(*texts):
    lengths = b"".join(varint(len(text) + 1) for text in reversed(texts))
    return varint(len(texts)) + lengths + b"".join(text + b"\0" for text in texts)


def array_of(*parts):
    return b"".join(map(varint, (0, len(parts), *parts)))


def test_attributes_of_modules():
    text = varint(2) + varint(1)
    check_module(module_of([text, array_of(0, 0), array_of(0, 1)]))
    for attributes, match in [
        ([array_of(1)], "list of|refers to the attribute 1 of 1"),
        ([array_of(0)], "holds itself"),
        ([array_of(1), array_of(2), array_of(0)], "holds itself"),
        ([*[array_of(i + 1) for i in range(4000)], text], "too deep"),
        ([text, *[array_of(i, i) for i in range(40)]], "too large"),
        ([varint(2) + varint(9)], "refers to the text 9 of 2"),
        ([varint(14) + varint(0) + varint(0)], "another kind belongs"),  # a location without a name
        ([varint(99)], "attribute or type 99"),
        ([text + b"\1"], "1 bytes too many"),
    ]:
        with pytest.raises(ValueError, match=match):
            check_module(module_of(attributes))
    long = [text, array_of(*[0] * 60_000), *[array_of(1)] * 10]  # read in linear time
    check_module(module_of(long))


def test_bodies_of_modules():
    for body, match in [(b"\3", "operation 0 of 0|ends early"), (b"\1\1", "bytes too many")]:
        with pytest.raises(ValueError, match=match):
            check_module(module_of([], body))
    for data in (b"", b"ML\xefR", b"ML\xefR\x0d" + b"x" * 200, module_of([])[:-1]):
        with pytest.raises(ValueError, match="damaged module"):
            check_module(data)


def test_memory_of_the_check():
    """Not more than twice that of modules of many small parts, whether they are refused or not."""
    text = varint(2) + varint(1)
    for attributes, texts in [
        ([text] * 20_000, ()),
        ([text, *[array_of(0, 0, 0, 0)] * 8_000], ()),
        ([text, array_of(*[0] * 40_000)], ()),
        ([text, array_of(*[0] * 1000), *[array_of(1, 1, 1, 1)] * 8_000], ()),
        ([text], [b""] * 20_000),
        ([text], [b"abcde"] * 8_000),
    ]:
        data = module_of(attributes, texts=texts)
        tracemalloc.start()
        try:
            check_module(data)
        except ValueError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2 * len(data) + 20_000, (peak, len(data))


def test_large_attributes_of_many_operations(monkeypatch):
    """The compiler's reader converts them anew for each operation, which takes hours if nothing counts them."""
    monkeypatch.setattr(bytecode, "_MAX_CONVERTED", 10_000)
    monkeypatch.setattr(bytecode, "_CONVERTED_OF_BYTE", 0)

    def module(num_operations, attribute):
        with mlir.make_ir_context(), ir.Location.unknown():
            scalar = ir.RankedTensorType.get((), ir.F32Type.get())
            version = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4)
            extra = ir.Attribute.parse(attribute)
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                main = func.FuncOp("main", ir.FunctionType.get([scalar], [scalar]))
                (value,) = main.add_entry_block().arguments
                with ir.InsertionPoint(main.entry_block):
                    for _ in range(num_operations):
                        op = hlo.CustomCallOp(
                            [scalar], [value], call_target_name="f", api_version=version
                        )
                        op.attributes["x"] = extra
                        value = op.result
                    func.return_([value])
            return bytes(_jax.mlir.serialize_portable_artifact(module, stablehlo_version(), True))

    array = str([f"{i}" for i in range(300)]).replace("'", '"')
    text = f'"{"a" * 400_000}"'
    for attribute in (array, text):
        check_module(module(20, attribute))
        with pytest.raises(ValueError, match="large attributes of many operations"):
            check_module(module(200, attribute))


def test_names_that_are_no_text():
    """Python could not read them."""
    program = sin()
    module = program.mlir_module_serialized.replace(b"main", b"ma\xffn")
    with pytest.raises(ValueError, match="damaged module: the name"):
        check_module(module)


def test_every_byte_is_checked_by_the_checksum():
    data = bytes(sin().serialize())
    for i in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[i] ^= 0x10
        if (
            data[:i].endswith(export_fuzz.MARK[: max(0, i - len(data) + 10)])
            and i >= len(data) - 10
        ):
            continue  # the mark itself: a file without checksum
        with pytest.raises(ValueError):
            export.deserialize(damaged)


def test_cut_files():
    data = export_fuzz.without_checksum(bytes(sin().serialize()))
    length = len(data.rstrip(b"\0"))  # what follows may be padding, without which nothing is lost
    for size in [*range(0, length, 13), length - 1]:
        with pytest.raises(ValueError, match="damaged"):
            export.deserialize(data[:size])


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\xff" * 100, b"text" * 20])
def test_other_files(data):
    with pytest.raises(ValueError, match="damaged"):
        export.deserialize(data)


def test_not_bytes():
    with pytest.raises(TypeError, match="bytes of an exported program"):
        export.deserialize("text")


def fields_of(data):
    """The positions of the fields of the root table, by slot."""
    root = struct.unpack_from("<I", data, 0)[0]
    table = root - struct.unpack_from("<i", data, root)[0]
    size = struct.unpack_from("<H", data, table)[0]
    offsets = struct.unpack_from(f"<{(size - 4) // 2}H", data, table + 4)
    return [root + offset if offset else None for offset in offsets]


def vector_of(data, slot):
    at = fields_of(data)[slot]
    return at + struct.unpack_from("<I", data, at)[0] + 4


@pytest.mark.parametrize(
    "slot, format, value, match",
    [
        (22, "<I", 7, "type 7 of"), (24, "<I", 3, "sharding 2 of"), (15, "<H", 9, "kept arguments"),
        (14, "<H", 8, "calling convention version 8"), (18, "<I", 0, "for 0 devices"),
    ],
)  # fmt: skip
def test_numbers_out_of_range(slot, format, value, match):
    data = bytearray(export_fuzz.without_checksum(bytes(sin().serialize())))
    at = fields_of(data)[slot] if slot in (14, 18) else vector_of(data, slot)
    struct.pack_into(format, data, at, value)
    with pytest.raises(ValueError, match=match):
        export.deserialize(data)


def test_module_of_other_types():
    other = export.export(jax.jit(jnp.sin))(np.zeros(5, np.float32))
    fields = {name: getattr(sin(), name) for name in _export.Exported.__dataclass_fields__}
    mixed = export.Exported(**{**fields, "mlir_module_serialized": other.mlir_module_serialized})
    with pytest.raises(
        ValueError, match=r"arguments are \(tensor<5xf32>\) instead of \(tensor<4xf32>\)"
    ):
        mixed.call(x4)
    for data in (b"", b"module {}", sin().mlir_module_serialized[:60]):
        broken = export.Exported(**{**fields, "mlir_module_serialized": data})
        with pytest.raises(ValueError, match="cannot be read"):
            broken.call(x4)
        with pytest.raises(ValueError, match="cannot be read"):
            broken.mlir_module()


def test_modules_of_operations_with_wrong_types(capfd):
    """The reasons that MLIR has are part of the error, not printed."""
    exported = export.export(jax.jit(lambda x: x[1:3]))(x4)
    module = bytes(exported.mlir_module_serialized)
    found = []
    for old, new in ((1, 9), (3, 77)):
        value = old.to_bytes(8, "little")
        data = module.replace(value, new.to_bytes(8, "little"))
        assert data != module
        damaged = dataclasses.replace(exported, mlir_module_serialized=data)
        with pytest.raises(ValueError, match="cannot be read: its bytes are damaged") as info:
            damaged.call(x4)
        found.append(str(info.value))
    assert "start index 9 is larger than limit index 3 in dimension 0, at loc(" in found[0]
    assert "limit index 77 is larger than dimension size 4 in dimension 0, at loc(" in found[1]
    assert not capfd.readouterr().err


def test_unregistered_classes_and_effects():
    with zipfile.ZipFile(archive("own")) as file:
        data = bytearray(export_fuzz.without_checksum(file.read("trees/custom")))
    data = data.replace(b"tests.Scaled", b"tests.Scalex")
    with pytest.raises(ValueError, match="unregistered type `tests.Scalex`"):
        export.deserialize(data)


def test_specs_that_name_an_axis_twice():
    with zipfile.ZipFile(archive("own")) as file:
        data = export_fuzz.without_checksum(file.read("sharded/together"))
    messages = []
    for match in re.finditer(rb"\x01\0\0\0y\0", data):
        damaged = data[: match.start()] + b"\x01\0\0\0x\0" + data[match.end() :]
        try:  # some places are of lists that only earlier versions read
            export.deserialize(damaged)
        except ValueError as err:
            messages.append(str(err))
    assert any("DuplicateSpecError" in m for m in messages), messages


# Files of earlier versions


def without_lists_of_unique_values(data):
    """The bytes as they were before the format had lists of different types and shardings."""
    data = bytearray(export_fuzz.without_checksum(bytes(data)))
    root = struct.unpack_from("<I", data, 0)[0]
    table = root - struct.unpack_from("<i", data, root)[0]
    for slot in range(19, 26):
        struct.pack_into("<H", data, table + 4 + 2 * slot, 0)
    return data


def sharded():
    mesh = jax.make_mesh((8,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    return export.export(jax.jit(lambda x: x + 1, in_shardings=rows))(np.arange(8.0)), rows


class OldWriter(serialization._ExportedWriter):
    """Writes shardings in XLA's form."""

    def sharding(self, sharding):
        if sharding is None:
            return self.table(3, {}, {})
        proto = sharding._to_xla_hlo_sharding(1).to_proto().SerializeToString()
        return self.table(3, {1: self.bytes(proto)}, {0: ("<b", 1)})


@pytest.mark.parametrize("named", [True, False])
def test_files_without_lists_of_unique_values(named):
    exported, rows = sharded()
    if named:
        data = exported.serialize()
    else:
        writer = OldWriter()
        data = writer.finish(writer.exported(exported, 0))
    old = export.deserialize(without_lists_of_unique_values(data))
    assert (old.in_avals, old.out_avals) == (exported.in_avals, exported.out_avals)
    assert old._has_named_shardings == named
    assert (old.in_shardings_hlo[0] is None) == named
    assert old.in_shardings_jax(rows.mesh)[0].is_equivalent_to(rows, 1)
    assert old.out_shardings_jax(rows.mesh) == (None,)
    x = jax.device_put(np.arange(8, dtype=np.float32), rows)
    result = old.call(x)
    np.testing.assert_array_equal(result, x + 1)
    assert result.sharding.is_equivalent_to(rows, 1)
    if not named:
        with pytest.raises(ValueError, match="earlier version"):
            old.serialize()


# Effects


class Ordered(effects.Effect):
    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return type(self).__name__


class Second(Ordered):
    pass


class Unordered(effects.Effect):
    __eq__, __hash__ = Ordered.__eq__, Ordered.__hash__


class Unknown(Unordered):
    def __init__(self, name):
        self.name = name


for kind in (Ordered, Second, Unordered):
    effects.lowerable_effects.add_type(kind)
effects.ordered_effects.add_type(Ordered)
for allowed in (effects.control_flow_allowed_effects, effects.custom_derivatives_allowed_effects):
    allowed.add_type(Ordered)
    allowed.add_type(Unordered)

effect_p = core.Primitive("export_test_effect")
effect_p.def_effectful_abstract_eval(lambda x, effect: (x, {effect}))


def _lower_effect(ctx, x, *, effect):
    if effects.ordered_effects.contains(effect):
        ctx.set_tokens_out(mlir.TokenSet({effect: ctx.tokens_in.get(effect)}))
    return [hlo.add(x, x)]


mlir.register_lowering(effect_p, _lower_effect)


def with_effects(x):
    for effect in (Second(), Ordered(), Unordered()):
        x = effect_p.bind(x, effect=effect)
    return x


@pytest.mark.parametrize("platforms", [("cpu",), ("tpu", "cpu")])
def test_effects(platforms):
    exported = export.export(jax.jit(with_effects), platforms=platforms)(x4)
    for program in (exported, export.deserialize(exported.serialize())):
        assert program.ordered_effects == (Ordered(), Second())
        assert program.unordered_effects == (Unordered(),)
        np.testing.assert_array_equal(program.call(x4), 8 * x4)
        np.testing.assert_array_equal(jax.jit(program.call)(x4), 8 * x4)
        jaxpr = jax.make_jaxpr(program.call)(x4)
        assert jaxpr.effects == {Ordered(), Second(), Unordered()}
        again = export.export(
            jax.jit(lambda x: effect_p.bind(program.call(x), effect=Second())), platforms=platforms
        )(x4)
        np.testing.assert_array_equal(again.call(x4), 16 * x4)
        (main,) = [line for line in again.mlir_module().splitlines() if "@main" in line]
        assert main.count("jax.token") == 4


def test_effects_that_cannot_be_stored():
    exported = export.export(jax.jit(lambda x: effect_p.bind(x, effect=Unknown("a"))))(x4)
    with pytest.raises(NotImplementedError, match="constructor without arguments"):
        exported.serialize()


def test_effects_that_are_unknown_to_the_reader():
    data = export_fuzz.without_checksum(bytes(export.export(jax.jit(with_effects))(x4).serialize()))
    with pytest.raises(ValueError, match="effect <class '.*Orderex'>, which is not registered"):
        export.deserialize(data.replace(b".Ordered'", b".Orderex'"))


# Lowering


def test_override_lowering_rules():
    rule = lambda ctx, x, **_: [hlo.negate(x)]
    exported = export.export(jax.jit(jnp.sin), _override_lowering_rules=[(jax.lax.sin_p, rule)])(x4)
    np.testing.assert_array_equal(exported.call(x4), -x4)
    np.testing.assert_array_equal(jax.jit(jnp.sin)(x4), jnp.sin(x4))


def test_version_of_stablehlo():
    version = lambda e: tuple(
        map(int, re.search(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)", e.mlir_module_serialized).groups())
    )
    older = version(sin())
    with config.export_ignore_forward_compatibility(True):
        newest = version(sin())
    current = tuple(map(int, hlo.get_current_version().split(".")))
    assert older <= newest == current


def test_module_in_a_context_of_the_user():
    with mlir.make_ir_context() as context:
        module = sin().mlir_module(serialized=False)
        assert module.context == context
    assert isinstance(sin().mlir_module(serialized=False), ir.Module)


def test_module_is_merged_once():
    exported = sin()
    text = jax.jit(lambda x: exported.call(exported.call(x))).lower(x4).as_text()
    assert text.count("func.func private @call_exported_sin") == 1


def test_closed_over_values():
    def outer(y):
        return export.export(jax.jit(lambda x: x * y))(x4).call(x4)

    with pytest.raises(ValueError, match="closes over values that are being traced"):
        jax.jit(outer)(2.0)


def test_references():
    with pytest.raises(ValueError, match="references"):
        export.export(jax.jit(lambda r: r[...]))(jax.new_ref(x4))


def test_what_is_not_jitted():
    with pytest.raises(ValueError, match="jax.jit"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match="pmap"):
        export.export(jax.pmap(lambda x: x))
    with pytest.raises(ValueError, match=r"\('cpu',\)"):
        export.export(jax.jit(jnp.sin), platforms="cpu")
    with pytest.raises(TypeError, match="DisabledSafetyCheck"):
        export.export(jax.jit(jnp.sin), disabled_checks=["platform"])


def test_wide_specs_have_no_form():
    mesh = jax.make_mesh((8,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    named = jax.NamedSharding(mesh.abstract_mesh, jax.P(jax.P.UNCONSTRAINED))
    fields = {name: getattr(sin(), name) for name in _export.Exported.__dataclass_fields__}
    program = export.Exported(**{**fields, "_in_named_shardings": (named,)})
    with pytest.raises(ValueError, match="UNCONSTRAINED"):
        program.serialize()


def test_shardings_over_the_mesh_of_the_export():
    exported, rows = sharded()
    (sharding,) = exported.in_shardings_jax(None)
    assert (sharding.mesh, sharding.spec) == (rows.mesh.abstract_mesh, rows.spec)
    assert exported.out_shardings_jax(None) == (None,) == sin().in_shardings_jax(None)
    for mesh in (3, "a"):
        with pytest.raises(TypeError, match="Expected a jax.sharding.Mesh or AbstractMesh"):
            exported.out_shardings_jax(mesh)


def test_types_have_the_explicit_shardings_of_arguments():
    mesh = jax.make_mesh((8,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    exported = export.export(jax.jit(lambda x: x + 1, in_shardings=rows))(np.arange(8.0))
    assert str(exported.in_avals) == "(ShapedArray(float32[8@a]),)"
    assert export.deserialize(exported.serialize()).in_avals == exported.in_avals


@pytest.mark.parametrize(
    "how", ["in_shardings", "argument", "out_shardings", "shard_map", "reshard"]
)
def test_symbolic_sizes_over_sharded_axes(how):
    """Where the size need not be divisible, PyPI's jax raises errors of the same classes."""
    kind = jax.sharding.AxisType.Explicit if how == "reshard" else jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((8,), ("a",), axis_types=(kind,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    f = {
        "in_shardings": jax.jit(jnp.sin, in_shardings=rows),
        "argument": jax.jit(jnp.sin),
        "out_shardings": jax.jit(jnp.sin, out_shardings=rows),
        "shard_map": jax.jit(
            jax.shard_map(jnp.sin, mesh=mesh, in_specs=jax.P("a"), out_specs=jax.P("a"))
        ),
        "reshard": jax.jit(lambda x: jax.sharding.reshard(x, rows)),
    }[how]
    b, c = export.symbolic_shape("b, c", constraints=["mod(c, 8) == 0"])
    for size in (8 * b, c, 16 * b + 8, b, 4 * b, 8 * b + 1):
        x = jax.ShapeDtypeStruct((size,), np.float32, sharding=rows if how == "argument" else None)
        if size % 8 == 0:
            export.export(f)(x)
            continue
        with pytest.raises(ValueError, match=re.escape(f"'mod({size}, 8) == 0'")) as info:
            export.export(f)(x)
        indivisible = how not in ("shard_map", "reshard")
        assert isinstance(info.value, errors.IndivisibleError) == indivisible


def test_functions_of_users_that_fail():
    class Node:
        pass

    def fail(*_):
        raise KeyError("mine")

    name = "tests.export_test.fails"
    jax.tree_util.register_pytree_node(Node, lambda n: ((1.0,), "aux"), lambda *_: Node())
    export.register_pytree_node_serialization(
        Node, serialized_name=name, serialize_auxdata=str.encode, deserialize_auxdata=fail
    )
    data = export.export(jax.jit(lambda n: 1.0))(Node()).serialize()
    match = f"`deserialize_auxdata` that is registered for `{name}` raised KeyError: 'mine'.*b'aux'"
    with pytest.raises(ValueError, match=match) as info:
        export.deserialize(data)
    assert isinstance(info.value.__cause__, KeyError) and "damaged" not in str(info.value)


def test_calls_use_programs_again():
    exported = sin()
    exported.call(x4)
    with jtu.count_jit_compilation_cache_miss() as count:
        exported.call(x4 + 1)
        exported.call(x4 + 2)
        with jax.disable_jit():
            exported.call(x4)
    assert count() == 0
    first, second = (export.deserialize(exported.serialize()) for _ in range(2))
    gradient = jax.grad(lambda x: exported.call(x).sum())
    first.call(x4), gradient(x4)
    with jtu.count_jit_compilation_cache_miss() as count:
        second.call(x4), gradient(x4)
    assert count() == 0


def test_programs_that_are_read_for_each_call():
    data = bytes(sin().serialize())
    export.deserialize(data).call(x4)
    gc.collect()
    with jtu.count_jit_compilation_cache_miss() as count:
        export.deserialize(data).call(x4)
    assert count() == 0


def test_programs_are_freed():
    """Those of eager calls when others have been called, or caches are cleared."""
    for use in (
        lambda e: e.call(x4),
        lambda e: jax.grad(lambda x: e.call(x).sum())(x4),
        lambda e: jax.jit(lambda x: e.call(x))(x4),
        lambda e: export.export(jax.jit(e.call))(x4),
    ):
        exported = export.export(jax.jit(lambda x: jnp.cos(x) * 2))(x4)
        use(exported)
        reference_to = weakref.ref(exported)
        del exported
        calling.eager_program.cache_clear()
        gc.collect()
        assert reference_to() is None
    assert calling.eager_program.cache_info().maxsize == 16


if __name__ == "__main__":
    absltest.main()
