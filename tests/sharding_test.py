"""Partition specs, shardings and layouts: what they say, the compiler's forms, errors."""

import copy
import gc
import itertools
import math
import pickle
import types
import weakref

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
from absl.testing import absltest, parameterized

from jax._src import (
    config,
    layout as layout_lib,
    lib,
    mesh as mesh_lib,
    sharding_impls,
    xla_bridge as xb,
)
from jax._src.layout import Format, Layout
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import sdy
from jax._src.mesh import AbstractMesh, AxisType, Mesh
from jax._src.named_sharding import (
    DuplicateSpecError,
    NamedSharding,
    SdyArray,
    SdyDim,
    array_mapping_to_axis_resources,
    check_pspec,
    flatten_spec,
    get_array_mapping,
    get_non_one_sized_mesh_spec,
    named_sharding_to_sdy_sharding,
    remove_size_one_mesh_axis,
)
from jax._src.op_shardings import (
    are_hlo_shardings_equal,
    get_num_ways_dim_sharded,
    op_sharding_to_indices,
)
from jax._src.partition_spec import PartitionSpec as P
from jax._src.sharding import IndivisibleError, Sharding
from jax._src.sharding_impls import (
    UNSPECIFIED,
    GSPMDSharding,
    NonUniformShardingError,
    SingleDeviceSharding,
    parse_flatten_op_sharding,
)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

AUTO, EXPLICIT, MANUAL = AxisType


def devices(*shape):
    found = xb.devices("cpu")
    if math.prod(shape) > len(found):
        raise absltest.SkipTest(f"needs {math.prod(shape)} CPU devices")
    return np.array(found[: math.prod(shape)]).reshape(shape)


def mesh(*axis_types, shape=(4, 2), names="xyz"):
    axis_types = axis_types or (AUTO,) * len(shape)
    return Mesh(devices(*shape), tuple(names[: len(shape)]), axis_types)


class PartitionSpecTest(parameterized.TestCase):
    @parameterized.parameters(
        (P(), "P()"),
        (P("a"), "P('a',)"),
        (P("a", None), "P('a', None)"),
        (P(("a", "b"), "c"), "P(('a', 'b'), 'c')"),
        (P(None, P.UNCONSTRAINED), "P(None, UNCONSTRAINED)"),
        (P("a", unreduced={"c", "b"}), "P('a', unreduced={'b', 'c'})"),
        (P("a", reduced={"b"}), "P('a', reduced={'b'})"),
        (P(3), "P(3,)"),
    )
    def test_repr(self, spec, expected):
        self.assertEqual(repr(spec), expected)
        self.assertIs(pickle.loads(pickle.dumps(spec)), spec)
        self.assertIs(copy.deepcopy(spec), spec)

    def test_canonical(self):
        self.assertIs(P(("a",)), P("a"))
        self.assertIs(P(["a"]), P("a"))
        self.assertIs(P(()), P(None))
        self.assertIs(P("a", unreduced=set()), P("a"))
        self.assertNotEqual(P("a"), P("a", None))
        self.assertNotEqual(P("a"), ("a",))
        self.assertEqual(hash(P("a")), hash(P("a")))

    def test_let_go(self):
        ref = weakref.ref(P("only here"))
        gc.collect()
        self.assertIsNone(ref())

    def test_like_a_tuple(self):
        spec = P("a", None, ("b", "c"))
        self.assertLen(spec, 3)
        self.assertEqual(list(spec), ["a", None, ("b", "c")])
        self.assertEqual(spec[2], ("b", "c"))
        self.assertEqual(spec[:1], ("a",))
        self.assertEqual(spec.partitions, tuple(spec))
        self.assertIn("a", spec)
        self.assertEqual(spec.index(None), 1)
        self.assertEqual(spec.count(("b", "c")), 1)
        self.assertEqual(P("a") + P("b"), P("a", "b"))
        self.assertEqual(P("a") + ("b",), P("a", "b"))
        self.assertEqual(("b",) + P("a"), P("b", "a"))
        self.assertEqual(P("a", unreduced={"u"}) + P("b"), P("a", "b", unreduced={"u"}))
        with self.assertRaises(TypeError):
            P("a") + ["b"]

    def test_unreduced_specs_are_no_tuples(self):
        spec = P("a", unreduced={"b"})
        for use in (list, lambda s: s[0]):
            with self.assertRaisesRegex(ValueError, "spec.partitions"):
                use(spec)
        self.assertLen(spec, 1)

    def test_updates(self):
        self.assertEqual(P("a").update(unreduced={"b"}), P("a", unreduced={"b"}))
        self.assertEqual(P("a").update(partitions=("b",)), P("b"))
        self.assertEqual(P("a", unreduced={"b"}).to_ct_spec(), P("a", reduced={"b"}))
        self.assertEqual(P("a", unreduced={"b"}).to_tangent_spec(), P("a", unreduced={"b"}))
        self.assertEqual(P("a").to_lo(), [P("a")])
        self.assertEqual(P("a", P.UNCONSTRAINED)._normalized_spec_for_aval(3), P("a", None, None))

    @parameterized.parameters(
        (dict(unreduced="b"), TypeError, "unreduced argument of PartitionSpec should be"),
        (dict(reduced=["b"]), TypeError, "reduced argument of PartitionSpec should be"),
        (dict(unreduced={None}), ValueError, "unreduced cannot contain None"),
        (dict(unreduced={"a"}), ValueError, "cannot overlap with unreduced"),
        (dict(reduced={"a"}), ValueError, "cannot overlap with reduced"),
        (dict(unreduced={"b"}, reduced={"b"}), ValueError, "`unreduced` and `reduced`"),
    )
    def test_errors(self, kwargs, error, message):
        with self.assertRaisesRegex(error, message):
            P("a", **kwargs)

    def test_closed(self):
        with self.assertRaises(AttributeError):
            P("a").unreduced = frozenset("b")
        with self.assertRaisesRegex(TypeError, "Subclassing"):
            type("Q", (P,), {})
        with self.assertRaisesRegex(ValueError, "rank at least 2.*rank 1"):
            P("x", "y")._check_compatible_wrt_shape((3,))


class NamedShardingTest(parameterized.TestCase):
    def test_attributes(self):
        s = NamedSharding(mesh(), P("x", None))
        self.assertEqual(s.num_devices, 8)
        self.assertEqual(s.device_set, set(devices(8)))
        self.assertEqual(s.addressable_devices, set(devices(8)))
        self.assertEqual(s._device_assignment, tuple(devices(8)))
        self.assertTrue(s.is_fully_addressable and s.has_addressable_devices and s._is_concrete)
        self.assertFalse(s.is_fully_replicated)
        self.assertEqual(s.memory_kind, "device")
        self.assertEqual(s.replicated_axes, {"y"})
        self.assertIsInstance(s, Sharding)
        self.assertEqual(
            repr(s),
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x', None),"
            " memory_kind=device)",
        )

    def test_equality(self):
        s = NamedSharding(mesh(), P("x"))
        self.assertEqual(s, NamedSharding(mesh(), P("x")))
        self.assertEqual(hash(s), hash(NamedSharding(mesh(), P("x"))))
        for other in (
            NamedSharding(mesh(), P("y")),
            NamedSharding(mesh(), P("x", None)),
            NamedSharding(mesh().abstract_mesh, P("x")),
            NamedSharding(mesh(), P("x"), memory_kind="pinned_host"),
            SingleDeviceSharding(devices(1)[0]),
        ):
            self.assertNotEqual(s, other)

    def test_equivalence(self):
        s = NamedSharding(mesh(), P("x"))
        self.assertTrue(s.is_equivalent_to(NamedSharding(mesh(), P("x", None)), 2))
        self.assertTrue(s.is_equivalent_to(NamedSharding(mesh(EXPLICIT, EXPLICIT), P("x")), 1))
        self.assertTrue(
            s.is_equivalent_to(NamedSharding(mesh(shape=(4, 2), names="ab"), P("a")), 1)
        )
        gspmd = GSPMDSharding(tuple(devices(8)), s._to_xla_hlo_sharding(2))
        self.assertTrue(s.is_equivalent_to(gspmd, 2) and gspmd.is_equivalent_to(s, 2))
        self.assertFalse(s.is_equivalent_to(NamedSharding(mesh(), P("y")), 1))
        self.assertFalse(s.is_equivalent_to(s.with_memory_kind("pinned_host"), 1))
        self.assertFalse(s.is_equivalent_to(NamedSharding(mesh().abstract_mesh, P("x")), 1))
        self.assertFalse(s.is_equivalent_to(NamedSharding(mesh(shape=(2, 4)), P("x")), 1))
        replicated = NamedSharding(mesh(), P())
        self.assertFalse(replicated.is_equivalent_to(SingleDeviceSharding(devices(1)[0]), 2))
        one = NamedSharding(mesh(shape=(1,)), P("x"))
        self.assertTrue(one.is_equivalent_to(SingleDeviceSharding(devices(1)[0]), 2))

    def test_update(self):
        s = NamedSharding(mesh(), P("x"))
        self.assertEqual(s.update(spec=P("y")).spec, P("y"))
        self.assertEqual(s.update(spec=("y", None)).spec, P("y", None))
        self.assertEqual(s.update(mesh=mesh(EXPLICIT, AUTO)).mesh, mesh(EXPLICIT, AUTO))
        self.assertEqual(s.with_memory_kind("pinned_host").memory_kind, "pinned_host")
        with self.assertRaises(TypeError):
            s.update(speck=P())

    @parameterized.parameters(
        (P("z"), ValueError, r"Resource axis: z of P\('z',\) is not found in mesh: \('x', 'y'\)"),
        (P("x", "x"), DuplicateSpecError, "at most one positional dimension.*`x`"),
        (P(("x", "y"), "x"), DuplicateSpecError, "duplicate entries for `x`"),
        (P("x", unreduced={"z"}), ValueError, "Unreduced axes z is not found in mesh.axis_names"),
        (P("x", unreduced={"y"}), ValueError, "Unreduced axes can only refer to.*Explicit"),
        (P("x", reduced={"y"}), ValueError, "Reduced axes can only refer to.*Explicit"),
        ("x", TypeError, "Write PartitionSpec"),
        (("x",), TypeError, "Write PartitionSpec"),
    )
    def test_errors(self, spec, error, message):
        with self.assertRaisesRegex(error, message):
            NamedSharding(mesh(), spec)

    def test_memory_kind_errors(self):
        with self.assertRaisesRegex(ValueError, "Got memory kind: attic"):
            NamedSharding(mesh(), P("x"), memory_kind="attic")

    def test_duplicates_carry_what_is_wrong(self):
        with self.assertRaises(DuplicateSpecError) as cm:
            check_pspec(mesh(), P("x", "x"))
        self.assertIs(cm.exception.mesh, mesh())
        self.assertEqual(cm.exception.pspec, P("x", "x"))

    def test_abstract(self):
        s = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x"))
        self.assertEqual(s.num_devices, 8)
        self.assertEqual(s.shard_shape((8, 3)), (2, 3))
        self.assertIsNone(s.memory_kind)
        self.assertFalse(s._is_concrete or s.is_fully_replicated)
        self.assertEqual(pickle.loads(pickle.dumps(s)), s)
        for name in (
            "device_set",
            "addressable_devices",
            "is_fully_addressable",
            "_device_assignment",
        ):
            with self.assertRaisesRegex(ValueError, f"{name} is not implemented"):
                getattr(s, name)
        with self.assertRaises(ValueError):
            s.devices_indices_map((8,))

    def test_shard_shape(self):
        s = NamedSharding(mesh(), P("x", "y"))
        self.assertEqual(s.shard_shape((8, 8)), (2, 4))
        self.assertEqual(s.shard_shape((8, 8, 5)), (2, 4, 5))
        self.assertEqual(s.shard_shape((0, 8)), (0, 4))
        self.assertEqual(NamedSharding(mesh(), P(None, ("y", "x"))).shard_shape((3, 16)), (3, 2))
        self.assertEqual(NamedSharding(mesh(), P()).shard_shape(()), ())
        with self.assertRaisesRegex(IndivisibleError, "axis 0 is partitioned 4 times.* size is 7"):
            s.shard_shape((7, 8))
        with self.assertRaisesRegex(ValueError, "rank at least 2.*rank 1"):
            s.shard_shape((8,))
        with self.assertRaisesRegex(ValueError, r"should be P\(\)"):
            s.check_compatible_aval(())

    def test_indices(self):
        s = NamedSharding(mesh(), P(("y", "x")))
        found = {d.id: index for d, index in s.devices_indices_map((8,)).items()}
        starts = [0, 4, 1, 5, 2, 6, 3, 7]
        self.assertEqual(found, {i: (slice(k, k + 1),) for i, k in enumerate(starts)})
        self.assertEqual(s.addressable_devices_indices_map((8,)), s.devices_indices_map((8,)))
        replicas = sharding_impls.device_replica_id_map(NamedSharding(mesh(), P("x")), (8,))
        self.assertEqual([replicas[d] for d in devices(8)], [0, 1] * 4)
        with self.assertRaises(IndivisibleError):
            s.devices_indices_map((6,))

    def test_unreduced(self):
        s = NamedSharding(mesh(EXPLICIT, EXPLICIT), P("y", unreduced={"x"}))
        self.assertEqual(s.shard_shape((4, 3)), (2, 3))
        self.assertFalse(s.is_fully_replicated)
        self.assertEqual(s.replicated_axes, frozenset())
        with self.assertRaisesRegex(NotImplementedError, "summands, not slices"):
            s.devices_indices_map((4,))

    @hypothesis.given(st.data())
    @hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    def test_indices_are_what_the_spec_says(self, data):
        the_mesh = mesh(shape=(2, 2, 2))
        names = data.draw(st.permutations("xyz"))
        entries = data.draw(st.lists(st.integers(0, 2), min_size=0, max_size=3))
        spec, used = [], 0
        for count in entries:
            axes = tuple(names[used : used + count])
            used += len(axes)
            spec.append(axes or None)
        shape = (8,) * len(spec)
        s = NamedSharding(the_mesh, P(*spec))
        for position in itertools.product(range(2), repeat=3):
            expected = []
            for axes in spec:
                if axes is None:
                    expected.append(slice(None))
                    continue
                part = 0
                for name in axes:
                    part = 2 * part + position["xyz".index(name)]
                size = 8 // 2 ** len(axes)
                expected.append(slice(part * size, (part + 1) * size))
            device = the_mesh.devices[position]
            self.assertEqual(s.devices_indices_map(shape)[device], tuple(expected))
        specs = parse_flatten_op_sharding(s._to_xla_hlo_sharding(len(spec)), the_mesh)
        self.assertTrue(s.is_equivalent_to(NamedSharding(the_mesh, specs[0]), len(spec)))


class CompilerFormsTest(parameterized.TestCase):
    @parameterized.parameters(
        ((AUTO,) * 3, P("x"), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
        ((AUTO,) * 3, P(), "{replicated}"),
        ((AUTO,) * 3, P(P.UNCONSTRAINED, "x"), "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"),
        ((AUTO,) * 3, P(("y", "x"), "z"), "{devices=[4,2]<=[2,2,2]T(1,0,2)}"),
        ((EXPLICIT,) * 3, P("x", reduced={"y"}), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
        (
            (EXPLICIT,) * 3,
            P("x", unreduced={"y"}),
            "{devices=[2,1,2,2]<=[8] last_tile_dims={unreduced, replicated}}",
        ),
        ((EXPLICIT,) * 3, P(unreduced={"x", "y", "z"}), "{unreduced}"),
        (
            (MANUAL, AUTO, AUTO),
            P("y"),
            "{devices=[2,1,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}",
        ),
        ((MANUAL,) * 3, P(), "{manual}"),
        (
            (MANUAL, EXPLICIT, EXPLICIT),
            P(unreduced={"y"}),
            "{devices=[1,1,2,2,2]<=[8] last_tile_dims={manual, unreduced, replicated}}",
        ),
    )
    def test_hlo(self, axis_types, spec, expected):
        s = NamedSharding(mesh(*axis_types, shape=(2, 2, 2)), spec)
        self.assertEqual(str(s._to_xla_hlo_sharding(2)), expected)

    def test_hlo_of_logical_ids(self):
        s = NamedSharding(
            mesh(shape=(2, 2, 2)), P("x"), _logical_device_ids=(7, 6, 5, 4, 3, 2, 1, 0)
        )
        self.assertEqual(
            str(s._to_xla_hlo_sharding(2)),
            "{devices=[2,1,4]4,5,6,7,0,1,2,3 last_tile_dim_replicate}",
        )
        self.assertIn("logical_device_ids=(7, 6", repr(s))

    def test_hlo_errors(self):
        with self.assertRaisesRegex(ValueError, "type Manual, `x`"):
            NamedSharding(mesh(MANUAL, AUTO), P("x"))._to_xla_hlo_sharding(1)
        with self.assertRaisesRegex(ValueError, "rank at least 2"):
            NamedSharding(mesh(), P("x", "y"))._to_xla_hlo_sharding(1)

    @parameterized.parameters(
        ((AUTO,) * 3, P("x"), "[{'x'}, {}]", "[{'x', ?}, {?}]"),
        ((AUTO,) * 3, P(P.UNCONSTRAINED, "x"), "[{?}, {'x'}]", "[{?}, {'x', ?}]"),
        ((EXPLICIT,) * 3, P(("y", "x")), "[{'y', 'x'}, {}]", "[{'y', 'x'}, {}]"),
        (
            (EXPLICIT, EXPLICIT, AUTO),
            P("y"),
            "[{'y'}, {}]",
            "[{'y', ?}, {?}], replicated_axes=frozenset({'x'})",
        ),
        ((MANUAL, EXPLICIT, AUTO), P("y"), "[{'y'}, {}]", "[{'y', ?}, {?}]"),
    )
    def test_sdy(self, axis_types, spec, closed, opened):
        s = NamedSharding(mesh(*axis_types, shape=(2, 2, 2)), spec)
        self.assertEqual(str(s._to_sdy_sharding(2)), f"SdyArray({closed})")
        self.assertEqual(str(named_sharding_to_sdy_sharding(s, 2, True)), f"SdyArray({opened})")

    def test_sdy_attributes(self):
        s = NamedSharding(mesh(EXPLICIT, EXPLICIT), P(None, "x", unreduced={"y"}))
        with ir.Context() as ctx:
            sdy.register_dialect(ctx)
            cache = {}
            attr = s._to_sdy_sharding(2).build(cache)
            self.assertEqual(
                str(attr), '#sdy.sharding<mesh<["x"=4, "y"=2]>, [{}, {"x"}], unreduced={"y"}>'
            )
            self.assertIs(s._to_sdy_sharding(2).build(cache), attr)
            single = SingleDeviceSharding(devices(1)[0])._to_sdy_sharding(1)
            self.assertEqual(str(single.build()), "#sdy.sharding<mesh<[]>, [{}]>")
            both = sharding_impls.SdyArrayList((single, s._to_sdy_sharding(2))).build(cache)
            self.assertIn("sharding_per_value", str(both))
            array = SdyArray(
                mesh_shape=(("a", 2), ("b", 4)),
                dim_shardings=(SdyDim(("a",), True),),
                logical_device_ids=(1, 0),
                replicated_axes=frozenset({"b"}),
            )
            self.assertEqual(
                str(array.replace(logical_device_ids=None).build()),
                '#sdy.sharding<mesh<["a"=2, "b"=4]>, [{"a", ?}], replicated={"b"}>',
            )

    def test_parse(self):
        the_mesh = mesh(shape=(2, 2, 2))
        for spec in (P(), P("x"), P(None, "y"), P(("x", "y"), "z"), P("z", ("y", "x"))):
            hlo = NamedSharding(the_mesh, spec)._to_xla_hlo_sharding(3)
            self.assertEqual(parse_flatten_op_sharding(hlo, the_mesh), [spec])
            self.assertEqual(parse_flatten_op_sharding(hlo.to_proto(), the_mesh), [spec])
        explicit = mesh(EXPLICIT, EXPLICIT, EXPLICIT, shape=(2, 2, 2))
        for spec in (P("y", unreduced={"x"}), P(unreduced={"x", "y", "z"})):
            hlo = NamedSharding(explicit, spec)._to_xla_hlo_sharding(2)
            self.assertEqual(parse_flatten_op_sharding(hlo, explicit), [spec])
        manual = mesh(MANUAL, AUTO, AUTO, shape=(2, 2, 2))
        hlo = NamedSharding(manual, P("y"))._to_xla_hlo_sharding(1)
        self.assertEqual(parse_flatten_op_sharding(hlo, manual), [P("y")])
        pair = lib.hlo.OpSharding()
        pair.type = lib.hlo.OpSharding.Type.TUPLE
        pair.tuple_shardings = [
            NamedSharding(the_mesh, P(name))._to_xla_hlo_sharding(1).to_proto() for name in "xy"
        ]
        self.assertEqual(parse_flatten_op_sharding(pair, the_mesh), [P("x"), P("y")])

    def test_parse_over_another_mesh(self):
        hlo = NamedSharding(mesh(shape=(2, 2, 2)), P(("x", "y")))._to_xla_hlo_sharding(1)
        self.assertEqual(parse_flatten_op_sharding(hlo, mesh(names="pq")), [P("p")])
        with self.assertRaises(IndivisibleError):
            parse_flatten_op_sharding(hlo, mesh(shape=(8,)))
        with self.assertRaises(IndivisibleError):
            parse_flatten_op_sharding(hlo, mesh(shape=(4,)))

    def test_op_sharding_indices(self):
        hlo = NamedSharding(mesh(), P("x"))._to_xla_hlo_sharding(2)
        self.assertEqual(get_num_ways_dim_sharded(hlo), ([4, 1], 2))
        indices = op_sharding_to_indices(hlo, (8, 3), 8)
        self.assertEqual(indices[5], (slice(4, 6), slice(None)))
        replicated = lib.hlo.HloSharding.replicate()
        self.assertEqual(op_sharding_to_indices(replicated, (3,), 2), ((slice(None),),) * 2)
        self.assertTrue(
            are_hlo_shardings_equal(hlo, lib.hlo.HloSharding.from_proto(hlo.to_proto()))
        )
        for shape, n in (((7, 3), 8), ((8,), 8), ((8, 3), 4)):
            with self.assertRaises(ValueError):
                op_sharding_to_indices(hlo, shape, n)


class OtherShardingsTest(parameterized.TestCase):
    def test_single_device(self):
        first, second = devices(2)
        s = SingleDeviceSharding(first)
        self.assertEqual(s, sharding_impls.make_single_device_sharding(first))
        self.assertEqual(hash(s), hash(SingleDeviceSharding(first)))
        self.assertNotEqual(s, SingleDeviceSharding(second))
        self.assertNotEqual(s, s.with_memory_kind("pinned_host"))
        self.assertEqual(
            repr(s), "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
        )
        self.assertEqual(s.device_set, {first})
        self.assertEqual(s.num_devices, 1)
        self.assertEqual(s.shard_shape((3, 4)), (3, 4))
        self.assertEqual(s.devices_indices_map((3,)), {first: (slice(None),)})
        self.assertTrue(s.is_fully_replicated and s.is_fully_addressable and s._is_concrete)
        self.assertEqual(s._device_assignment, (first,))
        self.assertEqual(str(s._to_xla_hlo_sharding(2)), "{replicated}")
        self.assertEqual(s.memory_kind, "device")
        with self.assertRaisesRegex(ValueError, "Got memory kind: attic"):
            SingleDeviceSharding(first, memory_kind="attic")

    def test_gspmd(self):
        all_devices = tuple(devices(8))
        hlo = NamedSharding(mesh(), P("x", "y"))._to_xla_hlo_sharding(2)
        s = GSPMDSharding(all_devices, hlo)
        self.assertEqual(s, GSPMDSharding(all_devices, hlo.to_proto()))
        self.assertEqual(hash(s), hash(GSPMDSharding(all_devices, hlo)))
        self.assertNotEqual(s, GSPMDSharding(all_devices[::-1], hlo))
        self.assertEqual(repr(s), "GSPMDSharding({devices=[4,2]<=[8]}, memory_kind=device)")
        self.assertEqual(s.shard_shape((8, 8)), (2, 4))
        self.assertEqual(s.num_devices, 8)
        self.assertEqual(
            s.devices_indices_map((8, 8)),
            NamedSharding(mesh(), P("x", "y")).devices_indices_map((8, 8)),
        )
        self.assertFalse(s.is_fully_replicated)
        replicated = GSPMDSharding.get_replicated(all_devices)
        self.assertTrue(replicated.is_fully_replicated)
        self.assertEqual(replicated.shard_shape((3,)), (3,))
        self.assertEqual(str(s._to_sdy_sharding(2)), "SdyArray([{'_axis_0'}, {'_axis_1'}])")
        with self.assertRaises(IndivisibleError):
            s.shard_shape((7, 8))
        with self.assertRaisesRegex(ValueError, "rank at least 2"):
            s.check_compatible_aval((8,))
        via = sharding_impls._gspmd_to_named_sharding_via_mesh(s, mesh())
        self.assertEqual(via, NamedSharding(mesh(), P("x", "y")))

    def test_own_kinds(self):
        class Whole(Sharding):
            @property
            def device_set(self):
                return set(devices(2))

            @property
            def _device_assignment(self):
                return tuple(devices(2))

            def _to_xla_hlo_sharding(self, num_dimensions):
                return lib.hlo.HloSharding.replicate()

        s = Whole()
        self.assertEqual(s.shard_shape((3,)), (3,))
        self.assertEqual(s.addressable_devices, set(devices(2)))
        self.assertEqual(s.devices_indices_map((3,)), {d: (slice(None),) for d in devices(2)})
        with self.assertRaisesRegex(NotImplementedError, "Whole must define memory_kind"):
            s.memory_kind  # noqa: B018


class ProcessesTest(parameterized.TestCase):
    def test_one_process(self):
        s = NamedSharding(mesh(), P("x", "y"))
        self.assertEqual(sharding_impls.get_process_index_and_count(s, 0, 2), (0, 1))
        self.assertEqual(sharding_impls.local_to_global_shape(s, (2, 4)), (2, 4))
        self.assertEqual(sharding_impls.num_addressable_indices(s, 0, (8, 8)), 8)

    def fake(self, processes, parts):
        """A sharding of a vector; device i belongs to processes[i] and holds part parts[i]."""

        class Fake(Sharding):
            num_devices = len(processes)
            is_fully_replicated = False
            fakes = [
                types.SimpleNamespace(
                    process_index=p, client=types.SimpleNamespace(process_index=lambda: 0)
                )
                for p in processes
            ]

            @property
            def device_set(self):
                return self.fakes

            def devices_indices_map(self, shape):
                size = shape[0] // (max(parts) + 1)
                return {
                    _Hashed(d): (slice(k * size, (k + 1) * size),)
                    for d, k in zip(self.fakes, parts)
                }

        return Fake()

    def test_several_processes(self):
        count = sharding_impls.get_process_index_and_count
        self.assertEqual(count(self.fake([0, 0, 1, 1], [0, 1, 2, 3]), 0, 1), (0, 2))
        self.assertEqual(count(self.fake([1, 1, 0, 0], [0, 1, 2, 3]), 0, 1), (1, 2))
        self.assertEqual(count(self.fake([0, 1, 0, 1], [0, 0, 1, 1]), 0, 1), (0, 1))
        with self.assertRaises(NonUniformShardingError):
            count(self.fake([0, 0, 0, 1], [0, 1, 2, 2]), 0, 1)
        self.assertEqual(
            sharding_impls.local_to_global_shape(self.fake([0, 0, 1, 1], [0, 1, 2, 3]), (4,)), (8,)
        )


class _Hashed:
    def __init__(self, device):
        self.process_index = device.process_index


class SpecHelpersTest(parameterized.TestCase):
    def test_helpers(self):
        spec = P("x", ("y", "z"), None)
        self.assertEqual(flatten_spec(spec), ["x", "y", "z", None])
        self.assertEqual(dict(get_array_mapping(spec)), {"x": 0, "y": 1, "z": 1})
        self.assertEqual(array_mapping_to_axis_resources({"x": 1, "y": 1}), P(None, ("x", "y")))
        self.assertEqual(array_mapping_to_axis_resources({}), P())
        self.assertIs(get_array_mapping(UNSPECIFIED), UNSPECIFIED)
        narrow = mesh(shape=(1, 8))
        self.assertEqual(remove_size_one_mesh_axis(P("x", ("x", "y")), narrow), P(None, "y"))
        new_mesh, new_spec = get_non_one_sized_mesh_spec(narrow, P("x", "y"))
        self.assertEqual((new_mesh, new_spec), (AbstractMesh((8,), ("y",)), P(None, "y")))


class ArgumentsTest(parameterized.TestCase):
    def test_canonicalize(self):
        canonicalize = sharding_impls.canonicalize_sharding
        explicit = mesh(EXPLICIT, EXPLICIT)
        self.assertIsNone(canonicalize(None, "f"))
        expected = NamedSharding(explicit.abstract_mesh, P("x"))
        self.assertEqual(canonicalize(NamedSharding(explicit, P("x")), "f"), expected)
        with sharding_impls.set_mesh(explicit):
            self.assertEqual(canonicalize(P("x"), "f"), expected)
            with self.assertRaisesRegex(
                ValueError, "should match the mesh of sharding.*passed to f"
            ):
                canonicalize(NamedSharding(mesh(EXPLICIT, AUTO), P("x")), "f")
            canonicalize(NamedSharding(mesh(EXPLICIT, AUTO), P("x")), "f", False)
            with self.assertRaisesRegex(ValueError, "cannot contain `P.UNCONSTRAINED`"):
                canonicalize(P(P.UNCONSTRAINED), "f")
            with self.assertRaisesRegex(ValueError, "Resource axis: q"):
                canonicalize(P("q"), "f")
        with sharding_impls.set_mesh(mesh(EXPLICIT, AUTO)):
            with self.assertRaisesRegex(ValueError, "axis name: y of type: AxisType.Auto"):
                canonicalize(P("x", "y"), "f")
        with self.assertRaisesRegex(ValueError, "not under a mesh context"):
            canonicalize(P("x"), "f")
        with self.assertRaisesRegex(TypeError, "`out_sharding` argument of f"):
            canonicalize(SingleDeviceSharding(devices(1)[0]), "f")

    def test_jit(self):
        canonicalize = sharding_impls.canonicalize_jit_sharding
        named = NamedSharding(mesh(), P("x"))
        for kept in (named, UNSPECIFIED, Format(None, named), SingleDeviceSharding(devices(1)[0])):
            self.assertIs(canonicalize(kept, "in_shardings"), kept)
            self.assertTrue(sharding_impls.is_leaf_sharding(kept))
        self.assertIs(canonicalize(None, "in_shardings"), UNSPECIFIED)
        with sharding_impls.set_mesh(mesh()):
            self.assertEqual(canonicalize(P("x"), "in_shardings"), named)
        with mesh_lib.use_abstract_mesh(mesh().abstract_mesh):
            self.assertEqual(
                canonicalize(P("x"), "in_shardings"), NamedSharding(mesh().abstract_mesh, P("x"))
            )
        with self.assertRaisesRegex(
            RuntimeError, "in_shardings requires a non-empty mesh in context"
        ):
            canonicalize(P("x"), "in_shardings")
        with self.assertRaisesRegex(TypeError, "in_shardings leaf specifications"):
            canonicalize("x", "in_shardings")
        with self.assertRaisesRegex(ValueError, "Unconstrained dims"):
            canonicalize(P(P.UNCONSTRAINED), "in_shardings")
        self.assertFalse(sharding_impls.is_leaf_sharding((named, None)))

    def test_prepare_axis_resources(self):
        prepare = sharding_impls.prepare_axis_resources
        named = NamedSharding(mesh(), P("x"))
        self.assertEqual(prepare([P("x"), None, named], "a"), [P("x"), None, named])
        self.assertIsNone(prepare(None, "a"))
        with self.assertRaisesRegex(DuplicateSpecError, "A single a specification"):
            prepare({"k": P("x", "x")}, "a")
        with self.assertRaisesRegex(TypeError, "a leaf specifications"):
            prepare(["x"], "a")
        with self.assertRaisesRegex(ValueError, "Unconstrained dims"):
            prepare(P(P.UNCONSTRAINED), "a")
        prepare(P(P.UNCONSTRAINED), "a", allow_unconstrained_dims=True)

    def test_device_or_backend(self):
        of = sharding_impls.sharding_of_device_or_backend
        self.assertEqual(of(devices(2)[1], None), SingleDeviceSharding(devices(2)[1]))
        self.assertEqual(of(None, "cpu"), SingleDeviceSharding(devices(1)[0]))
        with self.assertRaisesRegex(TypeError, "must be a jax.Device"):
            of(3, None)
        with self.assertRaisesRegex(RuntimeError, "Unknown backend"):
            of(None, "abacus")

    def test_batched(self):
        batched = sharding_impls.batched_sharding
        axis = types.SimpleNamespace(spmd_name=None, explicit_mesh_axis=None)
        spmd = types.SimpleNamespace(spmd_name="y", explicit_mesh_axis=None)
        s = NamedSharding(mesh(), P("x"))
        self.assertEqual(batched(s, 0, axis).spec, P(None, "x"))
        self.assertEqual(batched(s, 2, axis).spec, P("x", None, None))
        self.assertEqual(batched(s, 0, axis, P.UNCONSTRAINED).spec, P(P.UNCONSTRAINED, "x"))
        self.assertEqual(batched(s, 0, spmd).spec, P("y", "x"))
        self.assertIs(batched(s, None, spmd), s)
        self.assertIs(batched(UNSPECIFIED, 0, spmd), UNSPECIFIED)
        with self.assertRaisesRegex(DuplicateSpecError, "spmd_axis_name.*`y`"):
            batched(NamedSharding(mesh(), P("y")), 0, spmd)
        gspmd = GSPMDSharding(tuple(devices(8)), s._to_xla_hlo_sharding(1))
        self.assertTrue(batched(gspmd, 0, axis).is_equivalent_to(batched(s, 0, axis), 2))


class LayoutTest(parameterized.TestCase):
    def test_layout(self):
        layout = Layout((1, 0), ((8, 128),), 4)
        self.assertEqual(layout, Layout([1, 0], [[8, 128]], 4))
        self.assertEqual(hash(layout), hash(Layout((1, 0), ((8, 128),), 4)))
        self.assertNotEqual(layout, Layout((1, 0)))
        self.assertEqual(layout.update(tiling=None), Layout((1, 0), None, 4))
        self.assertEqual(
            repr(Layout((1, 0))),
            "Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)",
        )
        self.assertIs(pickle.loads(pickle.dumps(Layout.AUTO)), Layout.AUTO)
        self.assertEqual(repr(Layout.AUTO), "AUTO")
        layout.check_compatible_aval((3, 4))
        with self.assertRaisesRegex(ValueError, "rank of the value should match"):
            layout.check_compatible_aval((3,))
        with self.assertRaisesRegex(ValueError, "each dimension from 0 once"):
            Layout((0, 0))
        with self.assertRaises(TypeError):
            layout.update(order=(0, 1))

    @parameterized.parameters(
        (Layout((1, 0)), np.float32, "{0,1}"),
        (Layout((0, 1), ((8, 128),)), np.float32, "{1,0:T(8,128)}"),
        (Layout((1, 0), ((8, 128),)), ml_dtypes.int4, "{0,1:T(8,128)E(4)}"),
        (Layout((1, 0)), ml_dtypes.int4, "{0,1}"),
    )
    def test_compilers_form(self, layout, dtype, expected):
        self.assertEqual(layout._to_xla_layout(np.dtype(dtype)).to_string(), expected)

    def test_from_the_runtime(self):
        client = xb.get_backend("cpu")
        found = client.get_default_layout(np.dtype(np.float32), (3, 4), client.devices()[0])
        self.assertEqual(Layout.from_pjrt_layout(found).major_to_minor, (0, 1))

    def test_vmap(self):
        layout = Layout((1, 0))
        self.assertEqual(layout_lib.get_layout_for_vmap(0, layout), Layout((0, 2, 1)))
        self.assertEqual(layout_lib.get_layout_for_vmap(1, layout), Layout((1, 2, 0)))

    def test_format(self):
        s = SingleDeviceSharding(devices(1)[0])
        self.assertEqual(Format(Layout((0,)), s), Format(Layout((0,)), s))
        self.assertEqual(hash(Format(None, s)), hash(Format(None, s)))
        self.assertEqual(repr(Format()), "Format(layout=None, sharding=None)")
        for layout, sharding, error, message in (
            (3, s, TypeError, "layout argument"),
            (None, 3, TypeError, "sharding argument.*Got 3 of type <class 'int'>"),
            (Layout((0,)), 3, TypeError, "sharding argument.*Got 3 of type <class 'int'>"),
            (Layout.AUTO, 3, TypeError, "sharding argument.*Got 3 of type <class 'int'>"),
            (Layout((0,)), None, ValueError, "has to be concrete"),
            (Layout((0,)), NamedSharding(AbstractMesh((1,), ("x",)), P()), ValueError, "concrete"),
        ):
            with self.assertRaisesRegex(error, message):
                Format(layout, sharding)


if __name__ == "__main__":
    absltest.main()
