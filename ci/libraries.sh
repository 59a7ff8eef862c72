#!/bin/bash
# Runs programs that use published libraries, and compares with the reference's results: ci/libraries.sh [ARGUMENTS OF PYTEST]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python_of_the_reference
exec "$python" build/build.py test --libraries "$@"
