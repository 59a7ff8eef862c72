"""What processes of clusters find in their (pretended) environment: see op_cases.py."""

import os
from unittest import mock

from op_cases import Programs

from jax._src import clusters

CASES = Programs()


def answers(cluster, env):
    """What a cluster finds, or the class of the error."""

    def ask(method, *args):
        try:
            return method(*args)
        except Exception as e:
            return type(e).__name__

    def program():
        with mock.patch.dict(os.environ, env):
            return "\n".join(
                map(
                    repr,
                    [
                        ask(cluster.is_env_present),
                        ask(cluster.get_coordinator_address, 5, None),
                        ask(cluster.get_coordinator_address, 5, "4242"),
                        ask(cluster.get_process_count),
                        ask(cluster.get_process_id),
                        ask(cluster.get_local_process_id),
                    ],
                )
            )

    return program


def detected(env, *given, method=None):
    """The arguments that are found."""
    given = (*given, None, None, None, None)[:4]

    def program():
        with mock.patch.dict(os.environ, env):
            return repr(clusters.ClusterEnv.auto_detect_unset_distributed_params(*given, method, 5))

    return program


OMPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
for i, uri in enumerate([
    "1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911", "0.0;tcp://10.96.0.1:34911",
    "12345.0;usock;tcp://10.96.0.1:34911", "4294967295.0;tcp://10.96.0.1:34911;tcp6://[::1]:43552",
]):  # fmt: skip
    CASES.add(f"ompi_{i}", answers(clusters.OmpiCluster, {**OMPI, "OMPI_MCA_orte_hnp_uri": uri}))
CASES.add("ompi_absent", answers(clusters.OmpiCluster, {}))
uri = {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:1"}

SLURM = {
    "SLURM_JOB_ID": "8765", "SLURM_STEP_NODELIST": "node001", "SLURM_NTASKS": "4", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}  # fmt: skip
for i, nodes in enumerate([
    "node001", "node001,host2", "node[001-0015],host3", "node[001,007-015],host3", "node[001-003,7]",
    "a-b-1", "host",
]):  # fmt: skip
    CASES.add(f"slurm_{i}", answers(clusters.SlurmCluster, {**SLURM, "SLURM_STEP_NODELIST": nodes}))
for job in ("1", "4096", "61439", "100000"):
    CASES.add(f"slurm_job_{job}", answers(clusters.SlurmCluster, {**SLURM, "SLURM_JOB_ID": job}))
for name in SLURM:
    rest = {key: value for key, value in SLURM.items() if key != name}
    CASES.add(f"slurm_without_{name}", answers(clusters.SlurmCluster, rest))

CASES.group(
    "detected",
    none=detected({}),
    slurm=detected(SLURM),
    port=detected({**SLURM, "JAX_COORDINATOR_PORT": "99"}),
    given_address=detected(SLURM, "a:1"),
    given=detected(SLURM, "a:1", 2, 1),
    given_devices=detected(SLURM, None, None, None, [0, 5]),
    ompi_before_slurm=detected({**SLURM, **OMPI, **uri}),
    chosen_slurm=detected({**SLURM, **OMPI, **uri}, method="slurm"),
    chosen_ompi=detected({**SLURM, **OMPI, **uri}, method="ompi"),
    unknown=detected(SLURM, method="SLURM"),
)
