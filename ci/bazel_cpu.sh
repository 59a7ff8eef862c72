#!/bin/bash
# CPU tests under Bazel, all programs compiled as users' are: ci/bazel_cpu.sh [TARGETS]; all of them by default.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
[[ $# -gt 0 ]] || set -- //...
bazel test --config=cpu --test_env=JAX_DISABLE_MOST_OPTIMIZATIONS=0 "$@"
