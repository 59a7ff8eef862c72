#!/bin/bash
# The test suite on the CPU, as the README runs it: ci/pytest_cpu.sh [ARGUMENTS OF PYTEST]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
need_compiler
need_browser
need_onnxruntime_headers
exec "$python" build/build.py test "$@"
