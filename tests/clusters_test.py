"""Clusters beside the reference build (see clusters_scenarios.py), and those that ask servers, which are pretended."""

import contextlib
import http.server
import os
import sys
import threading
import types
from unittest import mock

import pytest
from op_testing import case_tests

import jax
from jax._src import clusters, distributed, xla_bridge
from jax._src.clusters import cloud_tpu_cluster, k8s_cluster

reference, test_reference, _ = case_tests(__file__)


@pytest.fixture
def environ():
    names = [
        n
        for n in os.environ
        if n.startswith(("JAX_COORDINATOR", "SLURM", "OMPI", "TPU_", "MEGASCALE"))
    ]
    with mock.patch.dict(os.environ):
        for name in names:
            del os.environ[name]
        yield os.environ


def found(method=None):
    return clusters.ClusterEnv.auto_detect_unset_distributed_params(
        None, None, None, None, method, 5
    )


def test_launched_processes(environ):
    environ.update(
        JAX_LAUNCH_COORDINATOR="127.0.0.1:77", JAX_LAUNCH_NUM_PROCESSES="3", JAX_LAUNCH_PROCESS_ID="2",
        SLURM_JOB_ID="1", SLURM_STEP_NODELIST="n", SLURM_NTASKS="4", SLURM_PROCID="3", SLURM_LOCALID="1",
    )  # fmt: skip
    assert found() == ("127.0.0.1:77", 3, 2, None)
    environ["JAX_COORDINATOR_PORT"] = "99"
    assert found("launch") == ("127.0.0.1:99", 3, 2, None)


@pytest.mark.parametrize(
    "nodes, first",
    [
        ("n[1-2]x,foo", "n1x"),
        ("node[1-2][3-4]", "node13"),
        ("rack[02,4]n[7]", "rack02n7"),
        ("", ""),
    ],
)
def test_names_of_slurm(environ, nodes, first):
    environ.update(SLURM_JOB_ID="1", SLURM_STEP_NODELIST=nodes)
    assert clusters.SlurmCluster.get_coordinator_address(5, "1") == f"{first}:1"


def test_addresses_of_open_mpi(environ):
    environ["OMPI_MCA_orte_hnp_uri"] = "1314521088.0;tcp6://[::1]:43552;tcp://10.5.0.1:1"
    assert clusters.OmpiCluster.get_coordinator_address(5, None) == "[::1]:62880"
    environ["OMPI_MCA_orte_hnp_uri"] = "?"
    with pytest.raises(RuntimeError, match="pass coordinator_address"):
        clusters.OmpiCluster.get_coordinator_address(5, None)


def test_missing_variables_are_named(environ):
    with pytest.raises(KeyError, match="SLURM_NTASKS: this environment variable"):
        clusters.SlurmCluster.get_process_count()


def test_mpi4py(environ, monkeypatch):
    class World:
        def Get_size(self):
            return 3

        def Get_rank(self):
            return 0

        def bcast(self, value, root):
            assert root == 0
            return value

        def Split_type(self, kind):
            assert kind == "shared"
            return self

    mpi = types.SimpleNamespace(COMM_WORLD=World(), COMM_TYPE_SHARED="shared")
    module = types.ModuleType("mpi4py")
    module.MPI = mpi
    module.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "mpi4py", module)
    assert clusters.Mpi4pyCluster.is_env_present()
    assert found() == (None, None, None, None)  # only if it is named
    address, *rest = found("mpi4py")
    host, port = address.split(":")
    assert host and 61440 <= int(port) <= 65535
    assert rest == [3, 0, [0]]
    environ["JAX_COORDINATOR_PORT"] = "99"
    assert found("mpi4py")[0] == f"{host}:99"


# Cloud TPUs


@contextlib.contextmanager
def metadata_server(attributes):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix("/computeMetadata/v1/instance/attributes/")
            known = self.headers["Metadata-Flavor"] == "Google" and name in attributes
            self.send_response(200 if known else 404)
            self.end_headers()
            if known:
                self.wfile.write(attributes[name].encode())

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with mock.patch.dict(os.environ, GCE_METADATA_IP=f"127.0.0.1:{server.server_port}"):
                yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def tpu_machine(environ, monkeypatch):
    monkeypatch.setattr(cloud_tpu_cluster, "_on_tpu_machine", lambda: True)
    monkeypatch.setattr(cloud_tpu_cluster, "_wait", lambda seconds: None)
    monkeypatch.setattr(cloud_tpu_cluster.socket, "gethostbyname", lambda host: host)
    return environ


ENDPOINTS = "unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2"


def test_compute_engine(tpu_machine):
    attributes = {
        "agent-worker-number": "1",
        "worker-network-endpoints": ENDPOINTS,
        "tpu-env": "ACCELERATOR_TYPE: 'v4-16'\nWORKER_ID: '1'\n",
    }
    with metadata_server(attributes):
        assert found() == ("10.0.0.1:8482", 2, 1, None)
        assert found("gcetpu")[0] == "10.0.0.1:8482"
        attributes["tpu-env"] += (
            "MEGASCALE_COORDINATOR_ADDRESS: '1.2.3.4:80'\nMEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'\n"
        )
        assert found() == ("1.2.3.4:8482", 6, 5, None)
        tpu_machine["TPU_SKIP_MDS_QUERY"] = "1"
        assert found() == (None, None, None, None)
        del tpu_machine["TPU_SKIP_MDS_QUERY"], attributes["agent-worker-number"]
        assert not clusters.GceTpuCluster.is_env_present()
        with pytest.raises(
            RuntimeError, match="'agent-worker-number' cannot be read.*HTTP status 404"
        ):
            clusters.GceTpuCluster.get_process_id()


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"TPU_WORKER_HOSTNAMES": "a,b,c"}, ("a:8482", 3, 1, None)),
        ({"TPU_PROCESS_ADDRESSES": "a:8476,b:8476"}, ("a:8482", 2, 1, None)),
        (
            {
                "TPU_WORKER_HOSTNAMES": "a,b", "MEGASCALE_COORDINATOR_ADDRESS": "mc:1234",
                "MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "2",
            },
            ("mc:8482", 6, 5, None),
        ),
    ],
)  # fmt: skip
def test_kubernetes_engine(tpu_machine, env, expected):
    tpu_machine.update(env, TPU_WORKER_ID="1", TPU_SKIP_MDS_QUERY="1")
    with metadata_server({}):
        assert found() == expected


def test_the_coordinator_is_waited_for(tpu_machine, monkeypatch):
    tries = []

    def fail(host):
        tries.append(host)
        if len(tries) < 3:
            raise OSError
        return host

    monkeypatch.setattr(cloud_tpu_cluster.socket, "gethostbyname", fail)
    clusters.GkeTpuCluster.wait_for_coordinator("a", 5)
    assert tries == ["a"] * 3
    tries.clear()
    with pytest.raises(RuntimeError, match="has not been found within 0 seconds"):
        clusters.GkeTpuCluster.wait_for_coordinator("a", 0)


def test_other_machines_are_not_asked(environ):
    environ.update(TPU_WORKER_HOSTNAMES="a,b", TPU_WORKER_ID="0")
    with mock.patch.object(cloud_tpu_cluster, "get_metadata", side_effect=AssertionError):
        if not cloud_tpu_cluster._on_tpu_machine():
            assert found() == (None, None, None, None)


# Kubernetes


def space(**attributes):
    return types.SimpleNamespace(**attributes)


class ApiException(Exception):
    status = 403


@pytest.fixture
def kubernetes(environ, monkeypatch, tmp_path):
    environ.update(KUBERNETES_SERVICE_HOST="10.0.0.1", JOB_COMPLETION_INDEX="2", HOSTNAME="pod")
    (tmp_path / "namespace").write_text("ns\n")
    owner = space(controller=True, kind="Job", name="myjob")
    pod = space(
        metadata=space(name="myjob-2", labels={"job-name": "myjob"}, owner_references=[owner]),
        spec=space(subdomain="svc"),
    )
    job = space(metadata=space(name="myjob"), spec=space(parallelism=4, completions=8))
    service = space(
        metadata=space(name="found"), spec=space(cluster_ip="None", selector={"job-name": "myjob"})
    )
    cluster = space(pods=[pod], pod=pod, job=job, services=[service], owner=owner, error=None)

    class Core:
        def list_namespaced_pod(self, namespace, field_selector):
            assert (namespace, field_selector) == ("ns", "status.podIP=10.1.2.3")
            if cluster.error:
                raise cluster.error
            return space(items=cluster.pods)

        def list_namespaced_service(self, namespace):
            return space(items=cluster.services)

    class Batch:
        def read_namespaced_job(self, name, namespace):
            assert (name, namespace) == ("myjob", "ns")
            return job

    package = types.ModuleType("kubernetes")
    package.config = space(load_incluster_config=lambda: None)
    package.client = space(CoreV1Api=Core, BatchV1Api=Batch, rest=space(ApiException=ApiException))
    monkeypatch.setitem(sys.modules, "kubernetes", package)
    monkeypatch.setattr(k8s_cluster, "_NAMESPACE_FILE", str(tmp_path / "namespace"))
    monkeypatch.setattr(k8s_cluster, "_wait", lambda seconds: None)
    monkeypatch.setattr(k8s_cluster.socket, "gethostbyname", lambda host: "10.1.2.3")
    clear_caches()
    yield cluster
    clear_caches()


def clear_caches():
    k8s_cluster._kubernetes.cache_clear()
    for name in ("_namespace", "_pod", "_job"):
        vars(clusters.K8sCluster)[name].__func__.cache_clear()


def test_kubernetes(kubernetes, environ):
    assert found() == ("myjob-0.svc:55527", 4, 2, None)
    environ["JAX_COORDINATOR_PORT"] = "99"
    assert found("k8s")[0] == "myjob-0.svc:99"
    kubernetes.pod.metadata.labels["jobset.sigs.k8s.io/jobset-name"] = "set"
    assert found()[0] == "myjob-0.set:99"


def test_problems_of_kubernetes(kubernetes, environ):
    kubernetes.pod.spec.subdomain = None
    with pytest.raises(RuntimeError, match="(?s)'found' selects them.*subdomain: found"):
        found()
    kubernetes.services.clear()
    with pytest.raises(
        RuntimeError, match="(?s)there is none.*job-name: myjob.*subdomain: jaxpods"
    ):
        found()
    del environ["JOB_COMPLETION_INDEX"]
    with pytest.raises(RuntimeError, match='completionMode: "Indexed"'):
        clusters.K8sCluster.get_process_id()
    kubernetes.owner.kind = "ReplicaSet"
    clear_caches()
    with pytest.raises(RuntimeError, match="of the kind ReplicaSet: pass the arguments"):
        found()
    kubernetes.pods.clear()
    clear_caches()
    with pytest.raises(RuntimeError, match="No pod, or more than one, has the address 10.1.2.3"):
        found()
    kubernetes.error = ApiException()
    with pytest.raises(RuntimeError, match="service account may not read pods"):
        found()


def test_kubernetes_without_its_package(environ, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    clear_caches()
    environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    with pytest.warns(UserWarning, match="without the package kubernetes"):
        assert found() == (None, None, None, None)
    clear_caches()


# Arguments of initialize

GIVEN = {"coordinator_address": "h:1", "num_processes": 2, "process_id": 1}
LIMITS = "must be a number of seconds from 1 to 2147483647, got "


@pytest.fixture
def initialize(environ, monkeypatch):
    """`jax.distributed.initialize`, which must fail before anything has started."""
    monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: False)
    yield jax.distributed.initialize
    state = distributed.global_state
    assert state.client is None and state.service is None


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"coordinator_address": "h"}, ValueError, "like 'host:port'.*got 'h'"),
        ({"coordinator_address": "h:"}, ValueError, "like 'host:port'"),
        ({"coordinator_address": ":1"}, ValueError, "like 'host:port'"),
        ({"coordinator_address": "h:0"}, ValueError, "like 'host:port'"),
        ({"coordinator_address": "h:65536"}, ValueError, "like 'host:port'.*got 'h:65536'"),
        ({"coordinator_address": "http://h:1"}, ValueError, "like 'host:port'"),
        ({"coordinator_address": "::1:80"}, ValueError, r"'\[::1\]:port' for an address of IPv6"),
        ({"coordinator_address": 5}, TypeError, "must be a string like 'host:port', got 5"),
        ({"coordinator_bind_address": "h"}, ValueError, "coordinator_bind_address must be like"),
        ({"coordinator_bind_address": 5}, TypeError, "coordinator_bind_address must be a string"),
        ({"process_id": 2}, ValueError, "process_id < num.*process_id=2, num_processes=2"),
        ({"process_id": -1}, ValueError, "nonnegative"),
        ({"num_processes": 0, "process_id": 0}, ValueError, "process_id < num"),
        ({"num_processes": "2"}, TypeError, "num_processes .* must be an integer, got '2'"),
        ({"process_id": 0.0}, TypeError, "process_id .* must be an integer, got 0.0"),
        ({"local_device_ids": "0,1"}, TypeError, "local_device_ids"),
        ({"local_device_ids": -1}, ValueError, r"local_device_ids must be different.*\[-1\]"),
        ({"local_device_ids": [0, 0]}, ValueError, r"local_device_ids must be different.*\[0, 0\]"),
        ({"partition_index": -1}, ValueError, "partition_index must be nonnegative, got -1"),
        ({"partition_index": "a"}, TypeError, "partition_index .* must be an integer"),
        ({"initialization_timeout": 0}, ValueError, f"initialization_timeout .*{LIMITS}0"),
        ({"initialization_timeout": 2**31}, ValueError, LIMITS),
        ({"heartbeat_timeout_seconds": -1}, ValueError, f"heartbeat_timeout_.*{LIMITS}-1"),
        ({"heartbeat_timeout_seconds": 1.5}, TypeError, "heartbeat_timeout_seconds.*1.5"),
        ({"shutdown_timeout_seconds": 0}, ValueError, f"shutdown_timeout_.*{LIMITS}0"),
        ({"cluster_detection_method": "SLURM"}, ValueError, "'SLURM' is not one of launch, ompi"),
    ],
)
def test_wrong_arguments(initialize, arguments, error, text):
    with pytest.raises(error, match=text):
        initialize(**{**GIVEN, **arguments})


@pytest.mark.parametrize(
    "name, text",
    [
        ("coordinator_address", "coordinator_address should be defined. No cluster was recognized"),
        ("num_processes", "Number of processes must be defined"),
        ("process_id", "process id of the current"),
    ],
)
def test_missing_arguments(initialize, name, text):
    with pytest.raises(ValueError, match=text):
        initialize(**{**GIVEN, name: None})


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("JAX_LOCAL_DEVICE_IDS", "a", "JAX_LOCAL_DEVICE_IDS must be like '0,1', got 'a'"),
        ("JAX_LOCAL_DEVICE_IDS", "1,1", "JAX_LOCAL_DEVICE_IDS must be different"),
        ("JAX_COORDINATOR_BIND_ADDRESS", "h", "coordinator_bind_address must be like"),
    ],
)
def test_wrong_variables(initialize, environ, name, value, text):
    environ[name] = value
    with pytest.raises(ValueError, match=text):
        initialize(**GIVEN)
