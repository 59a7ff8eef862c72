"""Processes that Slurm's `srun` has started."""

from __future__ import annotations

import os
import re

from jax._src.clusters.cluster import ClusterEnv, port_of_job, variable

_JOB = "SLURM_JOB_ID"
_NODES = "SLURM_STEP_NODELIST"
_COUNT = "SLURM_NTASKS"
_ID = "SLURM_PROCID"
_LOCAL_ID = "SLURM_LOCALID"


class SlurmCluster(ClusterEnv):
    name = "slurm"

    @classmethod
    def is_env_present(cls) -> bool:
        # Without the variables of a step, this is an interactive shell or a batch script.
        return all(name in os.environ for name in (_JOB, _NODES, _COUNT, _ID, _LOCAL_ID))

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        port = override_coordinator_port or port_of_job(int(variable(_JOB)))
        return f"{_first_node(variable(_NODES))}:{port}"

    @classmethod
    def get_process_count(cls) -> int:
        return int(variable(_COUNT))

    @classmethod
    def get_process_id(cls) -> int:
        return int(variable(_ID))

    @classmethod
    def get_local_process_id(cls) -> int | None:
        return int(variable(_LOCAL_ID))


def _first_node(nodes: str) -> str:
    """The first name of a list like 'node[001-015,20],host3' or 'rack[1-2]node[3-4]x'."""
    first = re.match(r"(?:\[[^\]]*\]|[^\[,])*", nodes)[0]
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first)
