"""Meshes, axis types, the mesh in context, the order of devices on meshes."""

import copy
import functools
import gc
import itertools
import math
import pickle
import threading
import warnings
import weakref
from dataclasses import dataclass

import numpy as np
from absl.testing import absltest, parameterized

from jax._src import config, mesh as mesh_lib, mesh_utils, xla_bridge as xb
from jax._src.core import ManualAxisType
from jax._src.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from jax._src.sharding_impls import get_mesh, make_mesh, set_mesh

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

AUTO, EXPLICIT, MANUAL = AxisType


def devices(*shape):
    found = xb.devices("cpu")
    if math.prod(shape) > len(found):
        raise absltest.SkipTest(f"needs {math.prod(shape)} CPU devices")
    return np.array(found[: math.prod(shape)]).reshape(shape)


class MeshTest(parameterized.TestCase):
    def test_attributes(self):
        mesh = Mesh(devices(4, 2), ("x", "y"), (EXPLICIT, AUTO))
        self.assertEqual(mesh.axis_names, ("x", "y"))
        self.assertEqual(mesh.axis_types, (EXPLICIT, AUTO))
        self.assertEqual(mesh.axis_sizes, (4, 2))
        self.assertEqual(dict(mesh.shape), {"x": 4, "y": 2})
        self.assertEqual(mesh.shape_tuple, (("x", 4), ("y", 2)))
        self.assertEqual(mesh.size, 8)
        self.assertEqual(mesh.devices.shape, (4, 2))
        self.assertEqual(mesh.device_ids.tolist(), [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual(mesh.local_devices, list(mesh.devices.flat))
        self.assertIs(mesh.local_mesh, mesh)
        self.assertFalse(mesh.empty or mesh.is_scalar or mesh.is_multi_process)
        self.assertEqual(
            (mesh.explicit_axes, mesh.auto_axes, mesh.manual_axes), (("x",), ("y",), ())
        )
        self.assertFalse(mesh.are_all_axes_auto or mesh.are_all_axes_explicit)
        self.assertTrue(mesh._any_axis_explicit and mesh._any_axis_auto)
        self.assertFalse(mesh._any_axis_manual)
        self.assertEqual(str(mesh), "Mesh('x': 4, 'y': 2, axis_types=(Explicit, Auto))")
        self.assertEqual(
            repr(mesh),
            "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Explicit, Auto))",
        )

    def test_interned(self):
        mesh = Mesh(devices(4, 2), ("x", "y"))
        self.assertIs(Mesh(devices(4, 2).tolist(), ["x", "y"]), mesh)
        self.assertIs(copy.deepcopy(mesh), mesh)
        self.assertIsNot(Mesh(devices(4, 2)[::-1], ("x", "y")), mesh)
        self.assertIsNot(Mesh(devices(4, 2), ("x", "z")), mesh)
        self.assertIsNot(mesh.update(axis_types=(EXPLICIT, EXPLICIT)), mesh)
        self.assertIs(mesh.update(axis_names=("p", "q")).update(axis_names=("x", "y")), mesh)
        self.assertIs(Mesh(devices(4, 2)[::-1], ("x", "y")).abstract_mesh, mesh.abstract_mesh)

    def test_let_go(self):
        mesh = Mesh(devices(2), ("only here",))
        ref = weakref.ref(mesh)
        del mesh
        gc.collect()
        self.assertIsNone(ref())

    def test_immutable(self):
        mesh = Mesh(devices(2), ("x",))
        with self.assertRaises(AttributeError):
            mesh.axis_names = ("y",)
        with self.assertRaises(AttributeError):
            del mesh.axis_names
        with self.assertRaises(ValueError):
            mesh.devices[0] = None

    def test_scalar_and_empty(self):
        scalar = Mesh(devices(), ())
        self.assertTrue(scalar.is_scalar)
        self.assertFalse(scalar.empty)
        self.assertEqual(scalar.size, 1)
        for empty in (mesh_lib.empty_concrete_mesh, Mesh(devices(2)[:0], ("x",))):
            self.assertTrue(empty.empty)
            self.assertEqual(empty.size, 0)
            self.assertEqual(empty.local_devices, [])
            self.assertEqual(empty.device_ids.size, 0)
            self.assertEqual(str(empty), "Mesh()")
            self.assertIs(empty.abstract_mesh, mesh_lib.empty_abstract_mesh)

    def test_names(self):
        self.assertEqual(Mesh(devices(2), "xy").axis_names, ("xy",))
        self.assertEqual(Mesh(devices(2), (3,)).axis_names, (3,))

    @parameterized.parameters(
        (("x", "y"), None, ValueError, r"ndim == 1 and len\(axis_names\) == 2"),
        ((None,), None, ValueError, "cannot be None"),
        (("x",), (AUTO, AUTO), ValueError, "Number of axis names should match"),
        (("x",), ("Auto",), TypeError, "must be of type `jax.sharding.AxisType`"),
    )
    def test_errors(self, names, types, error, message):
        with self.assertRaisesRegex(error, message):
            Mesh(devices(2), names, types)

    def test_more_errors(self):
        with self.assertRaisesRegex(ValueError, "different from each other"):
            Mesh(devices(2, 2), ("x", "x"))
        with self.assertRaisesRegex(TypeError, "array of jax.Device objects"):
            Mesh(np.array([1, 2]), ("x",))


class AbstractMeshTest(parameterized.TestCase):
    def test_attributes(self):
        mesh = AbstractMesh((4, 2), ("x", "y"), (MANUAL, EXPLICIT))
        self.assertEqual(mesh.size, 8)
        self.assertEqual(dict(mesh.shape), {"x": 4, "y": 2})
        self.assertIs(mesh.abstract_mesh, mesh)
        self.assertIs(AbstractMesh([4, 2], ["x", "y"], (MANUAL, EXPLICIT)), mesh)
        self.assertIsNone(mesh.abstract_device)
        self.assertIsNone(mesh._internal_device_list)
        self.assertEqual(repr(mesh), "AbstractMesh('x': 4, 'y': 2, axis_types=(Manual, Explicit))")
        self.assertEqual(
            mesh.update_axis_types({"x": AUTO}), AbstractMesh((4, 2), ("x", "y"), (AUTO, EXPLICIT))
        )
        self.assertEqual(mesh.update(axis_sizes=(2, 4)).shape_tuple, (("x", 2), ("y", 4)))
        self.assertIs(pickle.loads(pickle.dumps(mesh)), mesh)
        self.assertIs(copy.deepcopy(mesh), mesh)

    def test_of_a_concrete_mesh(self):
        mesh = Mesh(devices(2), ("x",)).abstract_mesh
        device = xb.devices("cpu")[0]
        self.assertEqual(mesh.abstract_device, AbstractDevice(device.device_kind, None, "cpu"))
        self.assertIn("platform=cpu", repr(mesh))
        self.assertNotEqual(mesh, AbstractMesh((2,), ("x",)))
        self.assertEqual(mesh.update(abstract_device=None), AbstractMesh((2,), ("x",)))

    def test_empty(self):
        self.assertIs(AbstractMesh((), ()), mesh_lib.empty_abstract_mesh)
        self.assertTrue(mesh_lib.empty_abstract_mesh.empty)
        self.assertEqual(mesh_lib.empty_abstract_mesh.size, 0)
        self.assertEqual(repr(mesh_lib.empty_abstract_mesh), "AbstractMesh((), axis_types=())")

    @parameterized.parameters(
        "devices", "device_ids", "local_devices", "local_mesh", "is_multi_process"
    )
    def test_no_devices(self, name):
        with self.assertRaisesRegex(ValueError, f"does not implement {name}"):
            getattr(AbstractMesh((2,), ("x",)), name)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "axis sizes should match"):
            AbstractMesh((4,), ("x", "y"))
        with self.assertRaisesRegex(TypeError, "sequence of ints"):
            AbstractMesh((4.5,), ("x",))
        with self.assertRaisesRegex(ValueError, "different from each other"):
            AbstractMesh((4, 2), ("x", "x"))
        with self.assertRaises(ValueError):
            with AbstractMesh((4,), ("x",)):
                pass


class ContextTest(parameterized.TestCase):
    def test_set_mesh(self):
        mesh = Mesh(devices(2), ("x",), (EXPLICIT,))
        key = config.trace_context()
        with set_mesh(mesh) as nothing:
            self.assertIsNone(nothing)
            self.assertIs(get_mesh(), mesh)
            self.assertIs(mesh_lib.get_abstract_mesh(), mesh.abstract_mesh)
            self.assertNotEqual(config.trace_context(), key)
            with set_mesh(None):
                self.assertTrue(get_mesh().empty)
                self.assertEqual(config.trace_context(), key)
            self.assertIs(get_mesh(), mesh)
        self.assertTrue(get_mesh().empty)
        self.assertTrue(mesh_lib.get_abstract_mesh().empty)
        self.assertEqual(config.trace_context(), key)

    def test_set_mesh_for_good(self):
        mesh = Mesh(devices(2), ("x",))
        set_mesh(mesh)
        try:
            self.assertIs(get_mesh(), mesh)
        finally:
            set_mesh(None)
        self.assertTrue(get_mesh().empty)

    def test_leaves_after_an_error(self):
        with self.assertRaises(ZeroDivisionError):
            with set_mesh(Mesh(devices(2), ("x",))):
                1 / 0  # noqa: B018
        self.assertTrue(get_mesh().empty)

    def test_other_threads_do_not_see_it(self):
        seen = []
        with set_mesh(Mesh(devices(2), ("x",))):
            thread = threading.Thread(target=lambda: seen.append(get_mesh()))
            thread.start()
            thread.join()
        self.assertTrue(seen[0].empty)

    def test_errors(self):
        abstract = AbstractMesh((2,), ("x",))
        for wrong in (3, abstract):
            with self.assertRaisesRegex(ValueError, "Expected mesh of type `jax.sharding.Mesh`"):
                set_mesh(wrong)
        with self.assertRaisesRegex(ValueError, "contains manual axes"):
            set_mesh(Mesh(devices(2), ("x",), (MANUAL,)))
        with self.assertRaisesRegex(
            ValueError, "Expected mesh of type `jax.sharding.AbstractMesh`"
        ):
            mesh_lib.use_abstract_mesh(Mesh(devices(2), ("x",)))

    def test_use_abstract_mesh(self):
        mesh = AbstractMesh((2,), ("x",))
        with mesh_lib.use_abstract_mesh(mesh):
            self.assertIs(mesh_lib.get_abstract_mesh(), mesh)
            self.assertTrue(get_mesh().empty)
            with mesh_lib.use_abstract_mesh(mesh_lib.empty_abstract_mesh):
                self.assertTrue(mesh_lib.get_abstract_mesh().empty)
            with mesh_lib.use_abstract_mesh(mesh.update_axis_types({"x": MANUAL})):
                self.assertEqual(mesh_lib.get_abstract_mesh().manual_axes, ("x",))
            with self.assertRaisesRegex(ValueError, "cannot change the size of the mesh"):
                with mesh_lib.use_abstract_mesh(AbstractMesh((4,), ("x",))):
                    pass
            self.assertIs(mesh_lib.get_abstract_mesh(), mesh)
        self.assertTrue(mesh_lib.get_abstract_mesh().empty)

    def test_with_mesh(self):
        mesh = Mesh(devices(2), ("x",))
        key = config.trace_context()
        with self.assertWarnsRegex(DeprecationWarning, "jax.set_mesh"):
            with mesh as entered:
                self.assertIs(entered, mesh)
                self.assertIs(mesh_lib.thread_resources.env.physical_mesh, mesh)
                self.assertNotEqual(config.trace_context(), key)
                self.assertTrue(get_mesh().empty)
        self.assertTrue(mesh_lib.thread_resources.env.physical_mesh.empty)
        self.assertEqual(config.trace_context(), key)

        @mesh
        def decorated():
            return mesh_lib.thread_resources.env.physical_mesh

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertIs(decorated(), mesh)

    def test_with_mesh_disallowed(self):
        with config.disallow_mesh_context_manager(True):
            with self.assertRaisesRegex(RuntimeError, "jax_disallow_mesh_context_manager"):
                with Mesh(devices(2), ("x",)):
                    pass


class MakeMeshTest(parameterized.TestCase):
    def test_make(self):
        devices(8)
        mesh = make_mesh((4, 2), ("x", "y"))
        self.assertEqual(mesh.axis_types, (EXPLICIT, EXPLICIT))
        self.assertEqual(mesh.device_ids.tolist(), [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual(make_mesh((2,), ("x",)).device_ids.tolist(), [0, 1])
        self.assertEqual(make_mesh((2,), "xy", (AUTO,)).axis_names, ("xy",))
        some = devices(8)[4:]
        self.assertEqual(
            make_mesh((2, 2), ("x", "y"), devices=some).device_ids.tolist(), [[4, 5], [6, 7]]
        )

    def test_errors(self):
        devices(8)
        with self.assertRaisesRegex(
            ValueError, r"Number of devices 8 must be >= the product.*\(16,\)"
        ):
            make_mesh((16,), ("x",))
        with self.assertRaisesRegex(ValueError, "a name for each axis size"):
            make_mesh((4, 2), ("x",))
        for sizes in ((4, -1), (0, 4), (2.5, 1), ("a", 1)):
            with self.assertRaisesRegex(ValueError, "positive integers"):
                make_mesh(sizes, ("x", "y"))


class TorusTest(parameterized.TestCase):
    """Functions that outside code imports."""

    @parameterized.parameters(
        ((4, 4), (2, 2, 4), [[1, 1, 4], [2, 2, 1]]),
        ((8, 8), (2, 2, 16), [[1, 1, 8], [2, 2, 2]]),
        ((4, 4, 4), (4, 16), [[1, 4], [1, 4], [4, 1]]),
        ((4, 8, 8), (2, 128), [[2, 2], [1, 8], [1, 8]]),
        ((8, 16, 16), (128, 16), [[8, 1], [1, 16], [16, 1]]),
    )
    def test_axes_split_as_by_the_reference(self, physical, logical, assignment):
        torus = np.arange(math.prod(physical)).reshape(physical)
        found, how = mesh_utils._create_device_mesh_for_nd_torus_splitting_axes(torus, logical)
        self.assertEqual(how.tolist(), assignment)
        self.assertEqual(found.shape, logical)
        self.assertEqual(sorted(found.ravel()), list(range(torus.size)))

    def test_sizes_must_match(self):
        with self.assertRaisesRegex(ValueError, "does not match the number of devices"):
            mesh_utils._create_device_mesh_for_nd_torus_splitting_axes(np.zeros((4, 4)), (3, 5))

    def test_candidates(self):
        taken = np.array([[2], [1]])
        candidates = mesh_utils._enumerate_feasible_logical_axis_assignments((4, 4), taken, 4)
        self.assertEqual(sorted(c.tolist() for c in candidates), [[1, 4], [2, 2]])
        prefer = functools.partial(
            mesh_utils._prefer_first_logical_axis_assignment,
            physical_mesh_shape=(4, 4), assignment=taken,
        )  # fmt: skip
        self.assertTrue(prefer(np.array([1, 4]), np.array([2, 2])))
        self.assertFalse(prefer(np.array([2, 2]), np.array([1, 4])))
        self.assertEqual(mesh_utils._get_prime_factors(360), [2, 2, 2, 3, 3, 5])
        self.assertEqual(mesh_utils._TPU_V4, "TPU v4")


class ManualAxisTypeTest(absltest.TestCase):
    def test_sets_of_axes(self):
        mat = ManualAxisType(varying={"x"}, unreduced={"y"})
        self.assertEqual((mat.vur, mat.empty), (frozenset("xy"), False))
        self.assertEqual(mat.to_ct_mat(), ManualAxisType(varying={"x"}, reduced={"y"}))
        self.assertEqual(mat.update(varying=set()), ManualAxisType(unreduced={"y"}))
        self.assertEqual(pickle.loads(pickle.dumps(mat)), mat)
        with self.assertRaisesRegex(AttributeError, "immutable"):
            mat.varying = frozenset()

    def test_bad_sets(self):
        for bad in ("x", ["x"], ("x",), None):
            for name in ("varying", "unreduced", "reduced"):
                with self.assertRaisesRegex(TypeError, f"{name} of ManualAxisType must be a set"):
                    ManualAxisType(**{name: bad})
        for name in ("unreduced", "reduced"):
            with self.assertRaisesRegex(ValueError, f"varying and {name} cannot have common"):
                ManualAxisType(**{"varying": {"x"}, name: {"x"}})


@dataclass
class FakeTpu:
    id: int
    device_kind: str
    coords: tuple[int, int, int]
    core_on_chip: int = 0
    platform: str = "tpu"
    process_index: int = 0
    slice_index: int = 0


def torus(kind, x, y, z, cores=1, slice_index=0, first_id=0):
    positions = itertools.product(range(z), range(y), range(x), range(cores))
    return [
        FakeTpu(first_id + i, kind, (px, py, pz), core, slice_index=slice_index)
        for i, (pz, py, px, core) in enumerate(positions)
    ]


def ids(mesh):
    return np.vectorize(lambda d: d.id)(mesh).tolist()


class DeviceOrderTest(parameterized.TestCase):
    @parameterized.parameters(
        ("TPU v3", (2, 2, 1, 2), (8,), [0, 1, 2, 3, 6, 7, 4, 5]),
        ("TPU v5 lite", (2, 2, 1), (2, 2), [[0, 1], [3, 2]]),
        ("TPU v5 lite", (2, 4, 1), (2, 4), [[0, 1, 2, 3], [7, 6, 5, 4]]),
        ("TPU v5 lite", (4, 4, 1), (16,), [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]),
        ("TPU v4", (2, 2, 1), (4,), [0, 2, 1, 3]),
        ("TPU v4", (2, 2, 2), (2, 4), [[0, 2, 1, 3], [4, 6, 5, 7]]),
        ("TPU v5p", (2, 2, 2), (8,), [0, 1, 3, 2, 6, 7, 5, 4]),
        ("TPU7x", (2, 2, 1, 2), (2, 4), [[0, 1, 2, 3], [6, 7, 4, 5]]),
    )
    def test_small(self, kind, physical, logical, expected):
        self.assertEqual(
            ids(mesh_utils.create_device_mesh(logical, torus(kind, *physical))), expected
        )

    @parameterized.parameters(
        ((4, 4, 16), (16, 16), [[1, 4], [1, 4], [16, 1]]),
        ((4, 4, 4), (4, 16), [[1, 4], [1, 4], [4, 1]]),
        ((8, 8), (2, 2, 16), [[1, 1, 8], [2, 2, 2]]),
        ((4, 4, 4), (2, 4, 8), [[1, 1, 4], [2, 1, 2], [1, 4, 1]]),
    )
    def test_torus(self, physical, logical, expected):
        mesh, assignment = mesh_utils._create_device_mesh_for_nd_torus(
            np.arange(math.prod(physical)).reshape(physical),
            logical,
            allow_split_physical_axes=True,
        )
        self.assertEqual(assignment.tolist(), expected)
        self.assertEqual(mesh.shape, logical)
        self.assertEqual(sorted(mesh.flat), list(range(math.prod(physical))))

    def test_splitting_has_to_be_allowed(self):
        chips = torus("TPU v4", 4, 4, 4)
        with self.assertRaisesRegex(NotImplementedError, "allow_split_physical_axes=True"):
            mesh_utils.create_device_mesh((2, 32), chips)
        mesh = mesh_utils.create_device_mesh((2, 32), chips, allow_split_physical_axes=True)
        self.assertEqual(mesh.shape, (2, 32))

    def test_contiguous_submeshes(self):
        chips = torus("TPU v4", 4, 4, 4)
        mesh = mesh_utils.create_device_mesh((16, 4), chips, contiguous_submeshes=True)
        self.assertEqual(ids(mesh)[:2], [[0, 1, 2, 3], [4, 5, 6, 7]])
        with self.assertRaisesRegex(ValueError, r"Available mesh_shapes: \[\(16, 4\)\]"):
            mesh_utils.create_device_mesh((4, 16), chips, contiguous_submeshes=True)

    def test_hybrid(self):
        chips = torus("TPU v4", 2, 2, 1) + torus("TPU v4", 2, 2, 1, slice_index=1, first_id=4)
        hybrid = mesh_utils.create_hybrid_device_mesh
        self.assertEqual(ids(hybrid((2, 2), (2, 1), chips)), [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual(ids(hybrid((2, 2), (1, 2), chips)), [[0, 1, 4, 5], [2, 3, 6, 7]])
        self.assertEqual(ids(hybrid((4,), (2,), chips[::-1]))[0], 0)
        self.assertEqual(
            ids(hybrid((4,), (2,), chips[::-1], should_sort_granules_by_key=False))[0], 4
        )
        with self.assertRaisesRegex(ValueError, "Number of slices 2"):
            hybrid((2, 2), (2, 2), chips)
        with self.assertRaisesRegex(ValueError, "slice_index"):
            hybrid((1,), (1,), xb.devices("cpu")[:1])
        self.assertEqual(
            hybrid((1,), (1,), xb.devices("cpu")[:1], process_is_granule=True).shape, (1,)
        )

    def test_errors(self):
        cpus = xb.devices("cpu")
        with self.assertRaisesRegex(ValueError, "must equal the product of mesh_shape"):
            mesh_utils.create_device_mesh((len(cpus) + 1,), cpus)
        with self.assertRaisesRegex(ValueError, "do not fill their box"):
            mesh_utils.create_device_mesh((3,), torus("TPU v4", 2, 2, 1)[:3])


if __name__ == "__main__":
    absltest.main()
