#!/bin/bash
# Tests with other versions of Python and jaxlib: ci/matrix.sh [CELLS AND OPTIONS OF build.py matrix]; all cells by default.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
need_compiler
[[ $# -gt 0 ]] || set -- all
exec "$python" build/build.py matrix "$@"
