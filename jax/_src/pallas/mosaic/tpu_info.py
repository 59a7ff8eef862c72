"""What TPUs of each generation have: cores, units, memory, speed."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from jax._src import dtypes
from jax._src.mesh import get_abstract_mesh
from jax._src.xla_bridge import devices


class ChipVersion(enum.Enum):
    """The generations of TPUs."""

    TPU_V2 = "v2"
    TPU_V3 = "v3"
    TPU_V4I = "v4i"
    TPU_V4 = "v4"
    TPU_V5E = "v5e"
    TPU_V5P = "v5p"
    TPU_V6E = "v6e"
    TPU_7 = "7"
    TPU_7X = "7x"
    TPU_8I = "8i"

    def __str__(self) -> str:
        return str(self.value)


_LITE = (ChipVersion.TPU_V4I, ChipVersion.TPU_V5E, ChipVersion.TPU_V6E, ChipVersion.TPU_8I)
_MEGACORE = (ChipVersion.TPU_V4, ChipVersion.TPU_V5P)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseCoreInfo:
    """The SparseCores of a chip.

    Attributes:
      num_cores, num_subcores, num_lanes: how many there are, of vector units in each, and of lanes.
      vmem_capacity_bytes: memory of each vector unit.
      dma_granule_size_bytes: the unit of copies.
    """

    num_cores: int
    num_subcores: int
    num_lanes: int
    vmem_capacity_bytes: int
    dma_granule_size_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuInfo:
    """A TensorCore of a chip, or the two that are used as one.

    Attributes:
      chip_version, generation: which chip it is.
      num_cores: how many TensorCores a device has.
      num_lanes, num_sublanes: the shape of a vector register.
      mxu_column_size, num_mxus, num_accumulators: the units for products.
      vmem_capacity_bytes, cmem_capacity_bytes, smem_capacity_bytes, hbm_capacity_bytes: memories.
      mem_bw_bytes_per_second: how fast HBM is.
      bf16_ops_per_second, int8_ops_per_second, fp8_ops_per_second, int4_ops_per_second: how fast products
        are; 0 where there are none.
      sparse_core: the SparseCores, or None.
    """

    chip_version: ChipVersion
    generation: int
    num_cores: int
    num_lanes: int
    num_sublanes: int
    mxu_column_size: int
    num_mxus: int
    num_accumulators: int
    vmem_capacity_bytes: int
    cmem_capacity_bytes: int
    smem_capacity_bytes: int
    hbm_capacity_bytes: int
    mem_bw_bytes_per_second: int
    bf16_ops_per_second: int
    int8_ops_per_second: int
    fp8_ops_per_second: int
    int4_ops_per_second: int
    sparse_core: SparseCoreInfo | None = None

    @property
    def is_lite(self) -> bool:
        """Whether the chip has a single TensorCore."""
        return self.chip_version in _LITE

    @property
    def is_megacore(self) -> bool:
        """Whether two TensorCores are one device."""
        return self.num_cores == 2

    @property
    def is_split_chip(self) -> bool:
        """Whether each of the two TensorCores is a device."""
        return self.num_cores == 1 and not self.is_lite

    def get_sublane_tiling(self, dtype: Any) -> int:
        """Return the number of rows of a tile of an array in HBM.

        Raises:
          NotImplementedError: if it is not known for this chip.
        """
        if self.generation > 7:
            raise NotImplementedError(f"tiles of arrays on TPU {self.chip_version}")
        bits = int(dtypes.itemsize_bits(dtypes.check_and_canonicalize_user_dtype(dtype, "TpuInfo")))
        rows = self.num_sublanes * 32 // bits
        return self.num_sublanes if bits == 16 and self.generation < 7 else rows

    def is_matmul_supported(self, lhs_dtype: Any, rhs_dtype: Any) -> bool:
        """Return whether the units for products take these types without conversion."""
        names = [
            dtypes.dtype_name(dtypes.check_and_canonicalize_user_dtype(d, "TpuInfo"))
            for d in (lhs_dtype, rhs_dtype)
        ]
        return any(names[0] in a and names[1] in b for a, b in _products(self.generation))


def _products(generation: int) -> Any:
    """Pairs of groups of types of which there are products."""
    if generation < 4:
        return ((("float32",), ("float32",)),)
    if generation == 4:
        return ((("float32", "bfloat16"), ("float32", "bfloat16", "int8")),)
    if generation > 6:
        floats: tuple[str, ...] = ("float32", "bfloat16", "float8_e5m2", "float8_e4m3fn")
        return ((floats, floats),)
    floats = ("float32", "bfloat16", "float8_e5m2", "float8_e4m3b11fnuz")
    bytes_, nibbles = ("int8", "uint8"), ("int4", "uint4")
    return (floats, floats), (bytes_, bytes_), (nibbles, nibbles)


_T = 10**12
_SPARSE = {
    ChipVersion.TPU_V5P: (4, 16, 8, 2**19, 32),
    ChipVersion.TPU_V6E: (2, 16, 8, 2**18, 32),
    ChipVersion.TPU_7: (2, 16, 16, 2**19, 32),
    ChipVersion.TPU_7X: (2, 16, 16, 2**19, 32),
    ChipVersion.TPU_8I: (1, 4, 16, 2**19, 64),
}
# generation; columns and number of units for products, accumulators; VMEM, CMEM, SMEM and HBM in bytes;
# bytes a second; operations a second with bfloat16, int8, fp8 and int4.
_FACTS = {
    "v2": (2, 128, 1, 0, 2**24, 0, 2**14, 8 * 10**9, 358 * 10**9, 23 * _T, 0, 0, 0),
    "v3": (3, 128, 2, 0, 2**24, 0, 2**14, 17_200_000_000, 412_500_000_000, 70 * _T, 0, 0, 0),
    "v4i": (4, 128, 4, 0, 2**24, 134 * 10**6, 2**20, 8_590_000_000, 614 * 10**9, 137 * _T, 0, 0, 0),
    "v4": (
        4, 128, 4, 0, 2**24, 67 * 10**6, 2**20, 17_200_000_000, 615 * 10**9, 137_500_000_000_000, 0, 0, 0,
    ),
    "v5e": (
        5, 128, 4, 0, 2**27, 0, 2**20, 17_200_000_000, 820 * 10**9, 197 * _T, 394 * _T, 0, 788 * _T,
    ),
    "v5p": (
        5, 128, 4, 0, 2**26, 0, 2**20, 51_500_000_000, 1230 * 10**9, 229_500_000_000_000, 459 * _T, 0, 920 * _T,
    ),
    "v6e": (
        6, 256, 2, 0, 2**27, 0, 2**20, 34_400_000_000, 1640 * 10**9, 920 * _T, 1840 * _T, 920 * _T, 3680 * _T,
    ),
    "7": (7, 256, 2, 128, 2**26, 0, 2**20, 103 * 10**9, 3700 * 10**9, 1155 * _T, 0, 2300 * _T, 0),
    "7x": (7, 256, 2, 128, 2**26, 0, 2**20, 103 * 10**9, 3700 * 10**9, 1155 * _T, 0, 2300 * _T, 0),
    "8i": (
        8, 256, 2, 256, 201326592, 0, 2**20, 154_500_000_000, 4300 * 10**9, 550_500_000_000_000, 0, 4404 * _T, 0,
    ),
}  # fmt: skip


def get_tpu_info_for_chip(
    chip_version: ChipVersion, num_tensor_cores_per_logical_device: int
) -> TpuInfo:
    """Return what a chip has, for each TensorCore.

    Args:
      chip_version: the chip.
      num_tensor_cores_per_logical_device: 2 if two TensorCores are used as one device, which v4 and v5p
        can; else 1.

    Raises:
      ValueError: if the chip cannot be used so.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1).mxu_column_size
    256
    """
    cores = num_tensor_cores_per_logical_device
    if cores not in ((1, 2) if chip_version in _MEGACORE else (1,)):
        raise ValueError(
            "Lite chips and dual-core chips that do not support Megacore must have num_tensor_cores_per_logical_device=1, "
            f"but got {cores} for {chip_version}."
        )
    generation, columns, mxus, accumulators, vmem, cmem, smem, hbm, *rates = _FACTS[
        chip_version.value
    ]
    sparse = _SPARSE.get(chip_version)
    names = [f.name for f in dataclasses.fields(SparseCoreInfo)]
    return TpuInfo(
        chip_version=chip_version,
        generation=generation,
        num_cores=cores,
        num_lanes=128,
        num_sublanes=8,
        mxu_column_size=columns,
        num_mxus=mxus,
        num_accumulators=accumulators,
        vmem_capacity_bytes=vmem,
        cmem_capacity_bytes=cmem,
        smem_capacity_bytes=smem,
        hbm_capacity_bytes=hbm,
        mem_bw_bytes_per_second=rates[0],
        bf16_ops_per_second=rates[1],
        int8_ops_per_second=rates[2],
        fp8_ops_per_second=rates[3],
        int4_ops_per_second=rates[4],
        sparse_core=None if sparse is None else SparseCoreInfo(**dict(zip(names, sparse))),
    )


# Names of devices, and how many TensorCores they are.
_KINDS = {
    "TPU v2": (ChipVersion.TPU_V2, 1),
    "TPU v3": (ChipVersion.TPU_V3, 1),
    "TPU v4 lite": (ChipVersion.TPU_V4I, 1),
    "TPU v4": (ChipVersion.TPU_V4, 2),
    "TPU v5 lite": (ChipVersion.TPU_V5E, 1),
    "TPU v5e": (ChipVersion.TPU_V5E, 1),
    "TPU v5": (ChipVersion.TPU_V5P, 2),
    "TPU v5p": (ChipVersion.TPU_V5P, 2),
    "TPU v6 lite": (ChipVersion.TPU_V6E, 1),
    "TPU v6e": (ChipVersion.TPU_V6E, 1),
    "TPU7": (ChipVersion.TPU_7, 1),
    "TPU7x": (ChipVersion.TPU_7X, 1),
}


def _kind() -> str:
    abstract = get_abstract_mesh().abstract_device
    return devices()[0].device_kind if abstract is None else abstract.device_kind


def is_tpu_device() -> bool:
    """Return whether the default device, or that of the mesh in use, is a TPU of a known kind."""
    return _kind() in _KINDS


def get_tpu_info() -> TpuInfo:
    """Return what the default device has, for each TensorCore; or that of the mesh in use, if it says so.

    Raises:
      ValueError: if it is no TPU of a known kind.
    """
    kind = _kind()
    if kind not in _KINDS:
        raise ValueError(
            f"Unsupported TPU device kind: {kind}. Use get_tpu_info_for_chip to ask about a device that is not there."
        )
    return get_tpu_info_for_chip(*_KINDS[kind])
