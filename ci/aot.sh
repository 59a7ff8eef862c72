#!/bin/bash
# Compiles for TPUs and GPUs that are not here, and compares with the reference's programs: ci/aot.sh [ARGUMENTS OF PYTEST]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python_of_the_reference
exec "$python" build/build.py test --aot "$@"
