#!/bin/bash
# The tests of TPUs, one test at a time on each chip: ci/tpu.sh [TARGETS]; needs a TPU VM. TPU_VISIBLE_CHIPS says
# which chips, if not all.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
count_accelerators tpu
need_bazel
trap keep_results EXIT
[[ $# -gt 0 ]] || set -- //tests:tpu_tests
bazel test --config=tpu "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
