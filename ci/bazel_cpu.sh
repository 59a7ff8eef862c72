#!/bin/bash
# CPU tests under Bazel: ci/bazel_cpu.sh [TARGETS]; all of them by default.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
[[ $# -gt 0 ]] || set -- //...
bazel test --config=cpu "$@"
