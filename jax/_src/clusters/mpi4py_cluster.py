"""Processes of any MPI, by means of the package mpi4py; used only if it is named."""

from __future__ import annotations

import importlib.util
import os
import socket

from jax._src.clusters.cluster import ClusterEnv, port_of_job


class Mpi4pyCluster(ClusterEnv):
    name = "mpi4py"
    opt_in_only_method = True

    @classmethod
    def is_env_present(cls) -> bool:
        return importlib.util.find_spec("mpi4py") is not None

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        address = None
        if cls.get_process_id() == 0:
            host = socket.gethostname()
            # Another port for every job on the host.
            port = override_coordinator_port or port_of_job(os.getpid())
            address = f"{host}:{port}"
        return _mpi().COMM_WORLD.bcast(address, root=0)

    @classmethod
    def get_process_count(cls) -> int:
        return int(_mpi().COMM_WORLD.Get_size())

    @classmethod
    def get_process_id(cls) -> int:
        return int(_mpi().COMM_WORLD.Get_rank())

    @classmethod
    def get_local_process_id(cls) -> int | None:
        mpi = _mpi()
        return int(mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED).Get_rank())


def _mpi():
    from mpi4py import MPI  # starts MPI

    return MPI
