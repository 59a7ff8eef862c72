#!/bin/bash
# The tests of AMD's GPUs in a container with ROCm: ci/rocm_container.sh [TARGETS]; needs Docker and the kernel's amdgpu.
# ROCM_IMAGE names the image with its digest: AMD's of ROCm 7 (docker.io/rocm/dev-ubuntu-24.04@sha256:...), or one that
# ci/containers/build.sh made of it (sha256:...). ROCR_VISIBLE_DEVICES says which GPUs, if not all.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if [[ ${1:-} == --inside ]]; then
    shift
    count_accelerators rocm
    need_bazel
    trap keep_results EXIT
    [[ $# -gt 0 ]] || set -- //tests:rocm_tests
    bazel test --config=rocm "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
    exit
fi
need_digest "${ROCM_IMAGE:-}" ROCM_IMAGE
command -v docker >/dev/null || fail "there is no docker here."
[[ -e /dev/kfd ]] || fail "there is no /dev/kfd: this lane needs an AMD GPU and the kernel's amdgpu driver."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/rocm
mkdir -p "$cache"
options=("--volume=$PWD:$PWD" "--volume=$cache:/root/.cache" "--workdir=$PWD" --env=ROCR_VISIBLE_DEVICES --env=HIP_VISIBLE_DEVICES --env=JAX_TEST_RESULTS)
if [[ -n ${JAX_BAZEL:-} ]]; then
    file=$(readlink -f "$(command -v "$JAX_BAZEL")") || fail "JAX_BAZEL is $JAX_BAZEL, which cannot be run."
    options+=("--volume=$file:$file:ro" "--env=JAX_BAZEL=$file")
fi
exec docker run --rm --init --privileged --device=/dev/kfd --device=/dev/dri --group-add=video --shm-size=16g \
    "${options[@]}" "$ROCM_IMAGE" bash ci/rocm_container.sh --inside "$@"
