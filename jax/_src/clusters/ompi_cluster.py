"""Processes that Open MPI's `mpirun` has started."""

from __future__ import annotations

import os
import re

from jax._src.clusters.cluster import ClusterEnv, port_of_job, variable

# Where mpirun listens: 'job.0;tcp://address,address:port;tcp6://[address]:port'.
_URI = "OMPI_MCA_orte_hnp_uri"


class OmpiCluster(ClusterEnv):
    name = "ompi"

    @classmethod
    def is_env_present(cls) -> bool:
        return _URI in os.environ

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        uri = variable(_URI)
        job = re.match(r"(\d+)\.", uri)
        host = re.search(r"tcp6?://\[?([^\],]+?)\]?(?:,[^;]*)?(?::\d+)?(?:;|$)", uri)
        if host is None or (job is None and not override_coordinator_port):
            raise RuntimeError(
                f"The address of mpirun cannot be read from {_URI}={uri!r}: pass"
                " coordinator_address to jax.distributed.initialize."
            )
        address = f"[{host[1]}]" if ":" in host[1] else host[1]
        # The lowest 12 bits of the number are those of processes, the others are the job's.
        return f"{address}:{override_coordinator_port or port_of_job(int(job[1]) >> 12)}"

    @classmethod
    def get_process_count(cls) -> int:
        return int(variable("OMPI_COMM_WORLD_SIZE"))

    @classmethod
    def get_process_id(cls) -> int:
        return int(variable("OMPI_COMM_WORLD_RANK"))

    @classmethod
    def get_local_process_id(cls) -> int | None:
        return int(variable("OMPI_COMM_WORLD_LOCAL_RANK"))
