#!/bin/bash
# The tests of AMD's GPUs in a container with ROCm: ci/rocm_container.sh [TARGETS]; needs Docker and the kernel's amdgpu.
# ROCM_IMAGE: the container, by default AMD's of ROCm 7 for Debian's neighbour Ubuntu 24.04.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
image=${ROCM_IMAGE:-docker.io/rocm/dev-ubuntu-24.04:7.0-complete}
[[ ${1:-} == --inside ]] || command -v docker >/dev/null || fail "there is no docker here."
[[ -e /dev/kfd ]] || fail "there is no /dev/kfd: this lane needs an AMD GPU and the kernel's amdgpu driver."
if [[ ${1:-} == --inside ]]; then
    shift
    need_bazel
    count=$(find /dev/dri -name 'renderD*' | wc -l)
    [[ $# -gt 0 ]] || set -- //tests:gpu_tests
    bazel test --config=rocm "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
    exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/rocm
mkdir -p "$cache"
exec docker run --rm --init --privileged --device=/dev/kfd --device=/dev/dri --group-add=video --shm-size=16g \
    --volume="$PWD:$PWD" --volume="$cache:/root/.cache" --workdir="$PWD" --env=JAX_BAZEL \
    "$image" bash ci/rocm_container.sh --inside "$@"
