"""Forgets cached programs before the process has as many memory maps as Linux allows it.

The machine code of a program for the CPU takes three maps or more, and a process may have 65,530 (`vm.max_map_count`).
Beyond, no memory can be allocated, by anybody in the process. A test suite or a service for inputs of many shapes gets there
after some ten thousand programs, most of which are kept only for the case that they are called again.
"""

from __future__ import annotations

import gc
import itertools
import logging
from pathlib import Path

from jax._src import util

logger = logging.getLogger(__name__)

_MAPS = Path("/proc/self/maps")
_LIMIT = Path("/proc/sys/vm/max_map_count")
_PERIOD = 256  # in programs: the kernel takes a millisecond to list 1,000 maps
_SHARE = 0.75  # of the limit, which leaves room for the programs of some periods

_compiled = itertools.count(1)
_threshold = 0.0  # maps that are too many; unknown at first


def count_program() -> None:
    """Tells that a program for the CPU has been compiled or loaded."""
    if next(_compiled) % _PERIOD == 0:
        _keep_below_limit()


def _keep_below_limit() -> None:
    global _threshold
    try:
        limit, maps = int(_LIMIT.read_text()), _count_maps()
    except (OSError, ValueError):  # not Linux, or /proc is not mounted
        return
    if maps < (_threshold or _SHARE * limit):
        return
    logger.info(
        "Forgetting cached programs: the process has %d memory maps, vm.max_map_count allows %d.",
        maps,
        limit,
    )
    util.clear_all_caches()
    gc.collect()
    left = _count_maps()
    # What is left is in use, and forgetting would not help again until there is much more.
    _threshold = max(_SHARE * limit, (left + limit) / 2)
    if left > _SHARE * limit:
        logger.warning(
            "The process has %d memory maps, most of programs in use; vm.max_map_count allows %d. Raise it with "
            "`sysctl -w vm.max_map_count=%d`, or keep fewer compiled functions.",
            left,
            limit,
            8 * limit,
        )


def _count_maps() -> int:
    with _MAPS.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
