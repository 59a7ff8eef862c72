"""The interface of clusters."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

logger = logging.getLogger("jax._src.clusters")

# Ports that the system does not assign to other programs by itself begin here, on Linux.
_FIRST_PORT = 61440
_NUM_PORTS = 2**12


class ClusterEnv:
    """How the processes of a cluster learn where they are: a subclass for each cluster.

    A subclass is known as soon as it is defined.
    """

    name: str = ""
    # Whether the cluster is used only if `cluster_detection_method` names it.
    opt_in_only_method: bool = False
    _cluster_types: list[type[ClusterEnv]] = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._cluster_types.append(cls)

    @classmethod
    def auto_detect_unset_distributed_params(
        cls,
        coordinator_address: str | None,
        num_processes: int | None,
        process_id: int | None,
        local_device_ids: Sequence[int] | None,
        cluster_detection_method: str | None,
        initialization_timeout: int | None,
    ) -> tuple[str | None, int | None, int | None, Sequence[int] | None]:
        """The arguments, with missing ones from the cluster that this process runs in."""
        given = (coordinator_address, num_processes, process_id, local_device_ids)
        env = cls._detect(cluster_detection_method)
        if env is None:
            return given
        logger.debug("Cluster %s: looking for missing arguments", env.name)
        if coordinator_address is None:
            coordinator_address = env.get_coordinator_address(
                initialization_timeout, os.environ.get("JAX_COORDINATOR_PORT")
            )
        if num_processes is None:
            num_processes = env.get_process_count()
        if process_id is None:
            process_id = env.get_process_id()
        if local_device_ids is None:
            local_id = env.get_local_process_id()
            local_device_ids = None if local_id is None else [local_id]
        return coordinator_address, num_processes, process_id, local_device_ids

    @classmethod
    def _detect(cls, method: str | None) -> type[ClusterEnv] | None:
        if method is None:
            candidates = (env for env in cls._cluster_types if not env.opt_in_only_method)
            return next((env for env in candidates if env.is_env_present()), None)
        env = next((env for env in cls._cluster_types if env.name and env.name == method), None)
        if env is not None and not env.is_env_present():
            logger.warning(
                "cluster_detection_method=%r, but this does not seem to be such a cluster.", method
            )
        return env

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether this process runs in such a cluster."""
        raise NotImplementedError("ClusterEnv subclasses must implement is_env_present")

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        """'host:port' where process 0 starts the service; the same in all processes.

        Args:
          timeout_secs: how long to wait until the host is known.
          override_coordinator_port: the port, if the user has chosen one.
        """
        raise NotImplementedError("ClusterEnv subclasses must implement get_coordinator_address")

    @classmethod
    def get_process_count(cls) -> int:
        """The number of processes."""
        raise NotImplementedError("ClusterEnv subclasses must implement get_process_count")

    @classmethod
    def get_process_id(cls) -> int:
        """The number of this process."""
        raise NotImplementedError("ClusterEnv subclasses must implement get_process_id")

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """The number of this process among those of this machine, which is that of its GPU.

        None means that the process uses all devices.
        """
        return None


def detection_methods() -> list[str]:
    """The values of `cluster_detection_method`."""
    return [env.name for env in ClusterEnv._cluster_types if env.name] + ["deactivate"]


def variable(name: str) -> str:
    """An environment variable that a cluster sets.

    Raises:
      KeyError: it is not set.
    """
    if name not in os.environ:
        raise KeyError(
            f"{name}: this environment variable of the cluster is not set; pass the arguments of"
            " jax.distributed.initialize instead"
        )
    return os.environ[name]


def port_of_job(job: int) -> str:
    """A port for a job: the same in all its processes, and most likely not that of another job."""
    return str(job % _NUM_PORTS + _FIRST_PORT)
