"""Processes that `python -m jax.distributed.launch` has started."""

from __future__ import annotations

import os

from jax._src.clusters.cluster import ClusterEnv, variable

COORDINATOR = "JAX_LAUNCH_COORDINATOR"
NUM_PROCESSES = "JAX_LAUNCH_NUM_PROCESSES"
PROCESS_ID = "JAX_LAUNCH_PROCESS_ID"


class LaunchCluster(ClusterEnv):
    name = "launch"

    @classmethod
    def is_env_present(cls) -> bool:
        return PROCESS_ID in os.environ

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        address = variable(COORDINATOR)
        if override_coordinator_port:
            return f"{address.rpartition(':')[0]}:{override_coordinator_port}"
        return address

    @classmethod
    def get_process_count(cls) -> int:
        return int(variable(NUM_PROCESSES))

    @classmethod
    def get_process_id(cls) -> int:
        return int(variable(PROCESS_ID))
