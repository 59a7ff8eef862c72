#!/bin/bash
# The native code's tests and fuzz targets under sanitizers: ci/sanitizers.sh [asan|ubsan|tsan ...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
command -v g++ >/dev/null || install_packages g++ # its sanitizers: Zig has none
[[ $# -gt 0 ]] || set -- asan ubsan tsan
for sanitizer in "$@"; do
    say "$sanitizer"
    bazel test "--config=$sanitizer" --build_tests_only //jaxlib/...
done
