"""Pods of an indexed job of Kubernetes, by means of the package kubernetes."""

from __future__ import annotations

import functools
import importlib
import os
import socket
import threading
import time
import warnings
from typing import Any

from jax._src.clusters.cluster import ClusterEnv, variable

_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_INDEX = "JOB_COMPLETION_INDEX"
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_TRIES = 6


class K8sCluster(ClusterEnv):
    name = "k8s"
    _coordinator_port = "55527"

    @classmethod
    def is_env_present(cls) -> bool:
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            return False
        if _kubernetes() is None:
            warnings.warn(
                "This process runs in Kubernetes, but without the package kubernetes (`pip install"
                " kubernetes`) jax.distributed.initialize cannot find its arguments.",
                stacklevel=2,
            )
            return False
        return True

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None, override_coordinator_port: str | None
    ) -> str:
        host = f"{cls._job().metadata.name}-0.{cls._headless_svc()}"
        deadline = time.monotonic() + (300 if timeout_secs is None else timeout_secs)
        while True:
            _wait(0.5)  # until the pod has a name
            try:
                socket.gethostbyname(host)
                return f"{host}:{override_coordinator_port or cls._coordinator_port}"
            except OSError as e:
                if time.monotonic() >= deadline:
                    raise RuntimeError(
                        f"The pod of process 0, {host}, has not been found within {timeout_secs}"
                        " seconds (initialization_timeout)."
                    ) from e

    @classmethod
    def get_process_count(cls) -> int:
        # `completions` may be larger: pods that start once others have ended.
        return int(cls._job().spec.parallelism)

    @classmethod
    def get_process_id(cls) -> int:
        if _INDEX not in os.environ:
            raise RuntimeError(
                "To enable automatic bootstrap in a K8s cluster, jobs must be indexed by setting"
                ' `completionMode: "Indexed"`.'
            )
        return int(variable(_INDEX))

    @classmethod
    @functools.cache
    def _namespace(cls) -> str:
        with open(_NAMESPACE_FILE) as file:
            return file.read().strip()

    @classmethod
    @functools.cache
    def _pod(cls) -> Any:
        """This process's pod, found by its address: names of hosts may be shortened."""
        core, _, _ = _kubernetes()
        for i in range(_TRIES):  # the address is announced some time after the pod has started
            _wait(0.25 * (2**i - 1))
            address = socket.gethostbyname(os.environ.get("HOSTNAME") or socket.gethostname())
            pods = _ask(
                core.list_namespaced_pod,
                namespace=cls._namespace(),
                field_selector=f"status.podIP={address}",
            ).items
            if len(pods) == 1:
                return pods[0]
        raise RuntimeError(f"No pod, or more than one, has the address {address} of this process.")

    @classmethod
    @functools.cache
    def _job(cls) -> Any:
        _, batch, _ = _kubernetes()
        name = cls._controller().name
        return _ask(batch.read_namespaced_job, name=name, namespace=cls._namespace())

    @classmethod
    def _controller(cls) -> Any:
        owners = cls._pod().metadata.owner_references or []
        owner = next((o for o in owners if o.controller), None)
        if owner is None or owner.kind != "Job":
            found = "no controller" if owner is None else f"a controller of the kind {owner.kind}"
            raise RuntimeError(
                "jax.distributed.initialize finds its arguments in Kubernetes only in pods of a Job,"
                f" and this pod, {cls._pod().metadata.name}, has {found}: pass the arguments."
            )
        return owner

    @classmethod
    def _headless_svc(cls) -> str:
        """The service that gives names to the job's pods."""
        pod = cls._pod()
        labels = pod.metadata.labels or {}
        if _JOBSET_LABEL in labels:
            return labels[_JOBSET_LABEL]
        if pod.spec.subdomain:
            return pod.spec.subdomain
        core, _, _ = _kubernetes()
        job = cls._job().metadata.name
        for service in _ask(core.list_namespaced_service, cls._namespace()).items:
            selector = service.spec.selector or {}
            headless = service.spec.cluster_ip == "None"
            if headless and selector and selector.items() <= labels.items():
                name = service.metadata.name
                problem = f"the service {name!r} selects them, but is not the job's subdomain"
                remedy = _JOB_PART.format(name=name)
                break
        else:
            problem = "there is none"
            remedy = _SERVICE_PART.format(job=job) + _JOB_PART.format(name="jaxpods")
        raise RuntimeError(
            "The pods of a job reach one another through a headless service, and"
            f" {problem}. Add this to the job's specification:\n{remedy}"
        )


_SERVICE_PART = """\
apiVersion: v1
kind: Service
metadata:
  name: jaxpods
spec:
  publishNotReadyAddresses: true
  clusterIP: None
  selector:
    job-name: {job}
---
"""

_JOB_PART = """\
kind: Job
spec:
  ...
  template:
    spec:
      subdomain: {name}
"""


@functools.cache
def _kubernetes() -> tuple[Any, Any, type[Exception]] | None:
    """The cluster's interfaces for pods and for jobs, and the class of their errors."""
    try:
        package = importlib.import_module("kubernetes")
    except ModuleNotFoundError:
        return None
    package.config.load_incluster_config()
    client = package.client
    return client.CoreV1Api(), client.BatchV1Api(), client.rest.ApiException


def _ask(request: Any, *args: Any, **kwargs: Any) -> Any:
    *_, error = _kubernetes()
    try:
        return request(*args, **kwargs)
    except error as e:
        if e.status != 403:
            raise
        raise RuntimeError(
            "This pod's service account may not read pods, services and jobs, which"
            " jax.distributed.initialize needs to find its arguments: bind it to a role with the verbs"
            " 'get' and 'list' for pods and services, and for jobs of the API group 'batch'."
        ) from e


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
