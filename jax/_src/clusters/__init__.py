"""Clusters whose processes `jax.distributed` recognizes; one that comes earlier is preferred."""

# isort: off
from jax._src.clusters.cluster import (
    ClusterEnv as ClusterEnv,
    detection_methods as detection_methods,
)
from jax._src.clusters.launch_cluster import LaunchCluster as LaunchCluster
from jax._src.clusters.ompi_cluster import OmpiCluster as OmpiCluster
from jax._src.clusters.slurm_cluster import SlurmCluster as SlurmCluster
from jax._src.clusters.mpi4py_cluster import Mpi4pyCluster as Mpi4pyCluster
from jax._src.clusters.cloud_tpu_cluster import (
    GceTpuCluster as GceTpuCluster,
    GkeTpuCluster as GkeTpuCluster,
)
from jax._src.clusters.k8s_cluster import K8sCluster as K8sCluster
# isort: on
