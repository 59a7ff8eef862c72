"""Cloud TPUs: machines of Compute Engine, and pods of Kubernetes Engine."""

from __future__ import annotations

import os
import re
import socket
import threading
import time

from jax._src import hardware_utils
from jax._src.clusters.cluster import ClusterEnv, variable

coordinator_port = "8482"
_METADATA_TRIES = 6
_SECONDS_BETWEEN_TRIES = 0.5


def get_metadata(key: str) -> tuple[str, int]:
    """An attribute of this machine in Compute Engine, and the HTTP status."""
    import urllib.error  # imported here: it is slow
    import urllib.request

    host = os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/instance/attributes/{key}",
        headers={"Metadata-Flavor": "Google"},
    )
    status = 0
    for i in range(_METADATA_TRIES):
        if i:
            _wait(_SECONDS_BETWEEN_TRIES)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.read().decode(), response.status
        except urllib.error.HTTPError as e:
            status = e.code
            e.close()
        except OSError:
            pass
    return "", status


def _metadata(key: str) -> str:
    text, status = get_metadata(key)
    if not text:
        raise RuntimeError(
            f"The machine's attribute {key!r} cannot be read from Compute Engine (HTTP status"
            f" {status}): pass the arguments of jax.distributed.initialize."
        )
    return text


def get_tpu_env_value(key: str) -> str | None:
    """A variable of the environment, or else of the machine's attribute 'tpu-env'."""
    if (value := os.environ.get(key)) is not None:
        return value
    text, _ = get_metadata("tpu-env")
    match = re.search(rf"^{re.escape(key)}\s*:\s*'([^']*)'", text, re.MULTILINE)
    return match[1] if match else None


def _on_tpu_machine() -> bool:
    forced = os.environ.get("JAX_FORCE_TPU_INIT", "").lower() not in ("", "0", "false")
    return forced or hardware_utils.num_available_tpu_chips_and_device_id()[0] > 0


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class BaseTpuCluster(ClusterEnv):
    """TPU slices, of which a program may use several: their workers are numbered slice by slice."""

    @classmethod
    def is_env_present(cls) -> bool:
        return False

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        # The slices' own coordinator is in the first worker of the first slice as well.
        address = get_tpu_env_value("MEGASCALE_COORDINATOR_ADDRESS")
        host = (address or cls._get_worker_list_in_slice()[0]).split(":")[0]
        cls.wait_for_coordinator(host, timeout_secs)
        return f"{host}:{override_coordinator_port or coordinator_port}"

    @classmethod
    def wait_for_coordinator(cls, coordinator_address: str, timeout_secs: int | None) -> None:
        """Waits until the name of the coordinator's host is known."""
        deadline = None if timeout_secs is None else time.monotonic() + timeout_secs
        while True:
            try:
                socket.gethostbyname(coordinator_address)
                return
            except OSError as e:
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(
                        f"The coordinator's host {coordinator_address!r} has not been found within"
                        f" {timeout_secs} seconds (initialization_timeout)."
                    ) from e
                _wait(1.0)

    @classmethod
    def get_process_count(cls) -> int:
        return len(cls._get_worker_list_in_slice()) * cls._get_num_slices()

    @classmethod
    def get_process_id(cls) -> int:
        in_slice = cls._get_process_id_in_slice()
        return in_slice + cls._get_slice_id() * len(cls._get_worker_list_in_slice())

    @staticmethod
    def _get_num_slices() -> int:
        return int(get_tpu_env_value("MEGASCALE_NUM_SLICES") or 1)

    @staticmethod
    def _get_slice_id() -> int:
        return int(get_tpu_env_value("MEGASCALE_SLICE_ID") or 0)

    @staticmethod
    def _get_process_id_in_slice() -> int:
        """The number of this process among those of its slice."""
        raise NotImplementedError("subclasses must implement _get_process_id_in_slice")

    @staticmethod
    def _get_worker_list_in_slice() -> list[str]:
        """The addresses of the slice's processes, in their order."""
        raise NotImplementedError("subclasses must implement _get_worker_list_in_slice")


class GceTpuCluster(BaseTpuCluster):
    name = "gcetpu"

    @classmethod
    def is_env_present(cls) -> bool:
        if not _on_tpu_machine() or os.environ.get("TPU_SKIP_MDS_QUERY"):
            return False
        return get_metadata("agent-worker-number")[1] == 200

    @staticmethod
    def _get_process_id_in_slice() -> int:
        return int(_metadata("agent-worker-number"))

    @staticmethod
    def _get_worker_list_in_slice() -> list[str]:
        # 'unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2'
        return [
            worker.split(":")[-1] for worker in _metadata("worker-network-endpoints").split(",")
        ]


class GkeTpuCluster(BaseTpuCluster):
    name = "gketpu"

    @classmethod
    def is_env_present(cls) -> bool:
        return _on_tpu_machine() and cls._get_worker_host_names_env_var() is not None

    @staticmethod
    def _get_worker_host_names_env_var() -> str | None:
        """The workers of the slice, separated by commas."""
        return os.environ.get("TPU_PROCESS_ADDRESSES") or os.environ.get("TPU_WORKER_HOSTNAMES")

    @staticmethod
    def _get_process_id_in_slice() -> int:
        return int(variable("TPU_WORKER_ID"))

    @staticmethod
    def _get_worker_list_in_slice() -> list[str]:
        names = GkeTpuCluster._get_worker_host_names_env_var()
        return (names or variable("TPU_WORKER_HOSTNAMES")).split(",")
