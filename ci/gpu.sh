#!/bin/bash
# The tests of GPUs, one test at a time on each: ci/gpu.sh [TARGETS]; needs NVIDIA's driver.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v nvidia-smi >/dev/null || fail "there is no nvidia-smi here: this lane needs an NVIDIA GPU and its driver."
count=$(nvidia-smi --list-gpus | wc -l)
((count > 0)) || fail "nvidia-smi lists no GPU."
need_bazel
[[ $# -gt 0 ]] || set -- //tests:gpu_tests
say "$count GPUs"
bazel test --config=cuda "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
