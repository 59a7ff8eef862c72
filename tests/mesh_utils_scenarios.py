"""The order of devices on meshes, for networks of all kinds: see op_cases.py."""

import itertools
from dataclasses import dataclass

from op_cases import Programs

from jax.experimental import mesh_utils

CASES = Programs()


@dataclass(frozen=True)
class Device:
    """What `mesh_utils` reads of a device."""

    id: int
    device_kind: str
    coords: tuple[int, int, int]
    core_on_chip: int
    process_index: int = 0
    slice_index: int = 0
    platform: str = "tpu"


def box(kind, dims, cores=1, origin=(0, 0, 0), shuffled=False, slice_index=0):
    places = itertools.product(*(range(n) for n in dims[::-1]), range(cores))
    devices = [
        Device(i, kind, tuple(o + c for o, c in zip(origin, (x, y, z))), core, i // 4, slice_index)
        for i, (z, y, x, core) in enumerate(places)
    ]
    # 7 is coprime to the numbers of devices here
    return [devices[i * 7 % len(devices)] for i in range(len(devices))] if shuffled else devices


def shapes(n, rank):
    """All shapes of `n` devices."""
    if rank == 1:
        return [(n,)]
    return [(d, *rest) for d in range(1, n + 1) if n % d == 0 for rest in shapes(n // d, rank - 1)]


def order(shape, devices, **options):
    try:
        mesh = mesh_utils.create_device_mesh(shape, devices, **options)
    except AssertionError:
        return "ValueError"  # of this library, which asserts nothing of arguments
    except Exception as err:
        return type(err).__name__
    assert mesh.shape == tuple(shape)
    return " ".join(str(d.id) for d in mesh.flat)


def boards(kind):
    lines = []
    dims = [(1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 2, 2), (2, 4, 1), (4, 2, 1), (2, 2, 2), (8, 1, 1),
            (4, 4, 1), (2, 2, 4), (4, 2, 2), (2, 2, 3)]  # fmt: skip
    for d, cores, origin in itertools.product(dims, (1, 2), [(0, 0, 0), (2, 0, 0), (1, 0, 0)]):
        for shuffled in (False, True):
            devices = box(kind, d, cores, origin, shuffled)
            n = len(devices)
            for shape in {(n,), (n // 2, 2) if n % 2 == 0 else (n, 1), (1, n, 1)}:
                lines.append(f"{d} {cores} {origin} {shuffled} {shape}: {order(shape, devices)}")
    return sorted(lines)


def splits(dims):
    devices = box("TPU v5", dims)
    lines = []
    for rank in (1, 2, 3):
        for shape in shapes(len(devices), rank)[::3]:
            split = order(shape, devices, allow_split_physical_axes=True)
            lines += [f"{shape}: {order(shape, devices)}", f"{shape} split: {split}"]
    return lines


for kind in ["TPU v2", "TPU v3", "TPU v4", "TPU v4 lite", "TPU v5", "TPU v5 lite", "TPU v5p",
             "TPU v6 lite", "TPU7", "TPU7x", "TPU8i", "TPU v9"]:  # fmt: skip
    CASES.add(f"boards_{kind}", lambda kind=kind: boards(kind))
for dims in [(4, 4, 1), (8, 8, 1), (4, 8, 1), (2, 4, 4), (4, 4, 4), (4, 4, 12), (2, 6, 12)]:
    CASES.add(f"splits_{dims}", lambda dims=dims: splits(dims))


@CASES.define
def contiguous_submeshes():
    lines = []
    for dims in [(2, 2, 1), (2, 2, 4), (4, 4, 4), (4, 8, 8), (8, 8, 8), (2, 2, 2), (4, 4, 1)]:
        devices = box("TPU v5", dims)
        n = len(devices)
        for last in (1, 2, 4, 8, 16, 64):
            for shape in [(n // last, last), (1, n // last, last), (n // last, 1, last)]:
                if n % last == 0:
                    found = order(shape, devices, contiguous_submeshes=True)
                    lines.append(f"{dims} {shape}: {found}")
    return lines


def hybrid(*args, **options):
    try:
        mesh = mesh_utils.create_hybrid_device_mesh(*args, **options)
    except Exception as err:
        return type(err).__name__
    return f"{mesh.shape}: " + " ".join(f"{d.slice_index}/{d.id}" for d in mesh.flat)


@CASES.define
def hybrid_meshes():
    slices = [d for i in (2, 0, 1) for d in box("TPU v5 lite", (4, 4, 1), slice_index=i)]
    one = box("TPU v5 lite", (4, 4, 1))
    return [
        hybrid((4, 4), (3, 1), slices),
        hybrid((4, 4), (1, 3), slices),
        hybrid((16,), (3,), slices),
        hybrid((4, 4), (3, 1), slices, should_sort_granules_by_key=False),
        hybrid((2, 8), (3, 1), slices),
        hybrid((2, 8), (3, 1), slices, allow_split_physical_axes=True),
        hybrid((4, 4), (2, 1), slices),
        hybrid((4, 4), (3,), slices),
        hybrid((4,), (4,), one, process_is_granule=True),
        hybrid((2, 2), (2, 2), one, process_is_granule=True),
        hybrid((2, 2), (1, 1), one),
    ]
