#!/bin/bash
# Compiles for TPUs and GPUs that are not here, under Bazel, a vendor's compiler for each target: ci/bazel_aot.sh [TARGETS]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python_of_the_reference
need_bazel
trap keep_results EXIT
[[ $# -gt 0 ]] || set -- //tests:tpu_compile_tests //tests:cuda_compile_tests
bazel test --config=aot "$@"
