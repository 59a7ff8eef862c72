"""Detection of the hardware of this machine, without drivers."""

from __future__ import annotations

import enum
import functools
import math
import os
import pathlib
import platform

_GOOGLE_PCI_VENDOR_ID = "0x1ae0"
_AMD_PCI_VENDOR_ID = 0x1002
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CGROUPS_OF_PROCESS = pathlib.Path("/proc/self/cgroup")
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
NVIDIA_GPU_DEVICES = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"]


class TpuVersion(enum.IntEnum):
    """Generations of TPU chips, oldest first."""

    v2 = 0
    v3 = 1
    plc = 2
    v4 = 3
    v5p = 4
    v5e = 5
    v6e = 6
    tpu7x = 7


_TPU_PCI_DEVICE_IDS = {
    "0x0027": TpuVersion.v3,
    "0x0056": TpuVersion.plc,
    "0x005e": TpuVersion.v4,
    "0x0062": TpuVersion.v5p,
    "0x0063": TpuVersion.v5e,
    "0x006f": TpuVersion.v6e,
    "0x0076": TpuVersion.tpu7x,
}


def num_available_tpu_chips_and_device_id() -> tuple[int, TpuVersion | None]:
    """The number of TPU chips on the PCI bus, and their generation."""
    count, version = 0, None
    for device in pathlib.Path("/sys/bus/pci/devices").glob("*"):
        if _read(device / "vendor") != _GOOGLE_PCI_VENDOR_ID:
            continue
        if (found := _TPU_PCI_DEVICE_IDS.get(_read(device / "device"))) is not None:
            count, version = count + 1, found
    return count, version


def has_visible_nvidia_gpu() -> bool:
    """Whether there is a driver's device file and $CUDA_VISIBLE_DEVICES does not hide all GPUs."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1", "none", "NoDevFiles"):
        return False
    return any(map(os.path.exists, NVIDIA_GPU_DEVICES))


def num_available_amd_gpus(stop_at: int | None = None) -> int:
    """The number of AMD GPUs that the kernel's compute driver lists.

    Args:
      stop_at: stop counting at this number.
    """
    count = 0
    for node in pathlib.Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties"):
        if stop_at is not None and count >= stop_at:
            break
        properties = dict(
            line.split(maxsplit=1) for line in _read(node).splitlines() if " " in line
        )
        vendor = properties.get("vendor_id", "0")  # CPUs are listed too, with vendor 0
        if vendor.isdigit() and int(vendor) == _AMD_PCI_VENDOR_ID:
            count += 1
    return count


def transparent_hugepages_enabled() -> bool:
    """Whether the kernel uses huge pages for all memory."""
    return "[always]" in _read(HUGE_PAGES)


def transparent_hugepages_on_request() -> bool:
    """Whether the kernel uses huge pages for memory of which a program asks for them."""
    return "[madvise]" in _read(HUGE_PAGES)


def c_library() -> str | None:
    """The C library's name and version, as "glibc 2.36", or None if it does not say."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def get_shm_size_in_mb() -> float:
    """The size of /dev/shm in MiB; 0 if there is none."""
    try:
        stat = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return 0.0
    return stat.f_blocks * stat.f_frsize / 2**20


def num_cores_in_affinity() -> int:
    """The number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """The number of cores whose time this process's control group, or one around it, may use; None if there is no limit."""
    quotas = []
    for line in _read(CGROUPS_OF_PROCESS).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            quotas += _quotas(CGROUPS, group, lambda folder: _read(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            quotas += _quotas(CGROUPS / "cpu", group, _quota_of_version_1)
    return min(quotas, default=None)


def _quotas(root, group, read) -> list[float]:
    # In a container the root is that of the container's group, and the group's name may be one outside of it.
    folders = [root / group.lstrip("/"), *(root / group.lstrip("/")).parents]
    found = [read(f) for f in folders if f == root or root in f.parents]
    return [int(q) / int(p) for q, p in (f for f in found if len(f) == 2) if q.isdigit()]


def _quota_of_version_1(folder) -> list[str]:
    return [_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]


def num_usable_cores() -> int:
    """The number of cores that this process can keep busy, by its affinity and its control group's quota."""
    quota = cpu_quota()
    cores = num_cores_in_affinity()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


@functools.cache
def processor_name() -> str:
    """This machine's processor, so far as the system tells: the architecture, and the model."""
    names = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part")
    known = [value for name, value in _processor_information() if name in names]
    # `platform.processor` starts another program, and says less.
    return " ".join([platform.machine(), *(known or [platform.processor()])])


@functools.cache
def processor_features() -> frozenset[str]:
    """The sets of instructions that this machine's processor has; empty if the system does not tell."""
    lines = (value for name, value in _processor_information() if name in ("flags", "Features"))
    return frozenset(feature for line in lines for feature in line.split())


def _processor_information() -> list[tuple[str, str]]:
    first = _read(pathlib.Path("/proc/cpuinfo")).partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _read(path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
