#!/bin/bash
# The tests of TPUs: ci/tpu.sh [TARGETS]; needs a TPU VM.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
shopt -s nullglob
chips=(/dev/accel[0-9]* /dev/vfio/[0-9]*)
count=${#chips[@]}
((count > 0)) || fail "there is no TPU here: neither /dev/accel* nor /dev/vfio/*."
need_bazel
[[ $# -gt 0 ]] || set -- //tests:tpu_tests
say "$count chips"
bazel test --config=tpu "--test_env=JAX_ACCELERATOR_COUNT=$count" "--local_test_jobs=$count" "$@"
