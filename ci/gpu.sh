#!/bin/bash
# The tests of GPUs, one test at a time on each: ci/gpu.sh [TARGETS]; needs NVIDIA's driver. CUDA_VISIBLE_DEVICES
# says which GPUs, if not all.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
count_accelerators cuda
need_bazel
trap keep_results EXIT
[[ $# -gt 0 ]] || set -- //tests:gpu_tests
bazel test --config=cuda "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
