#!/bin/bash
# Compiles for TPUs and GPUs that are not here, and compares with the reference's programs: ci/aot.sh [ARGUMENTS OF PYTEST]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
if command -v python3.11 >/dev/null && usable_python python3.11; then
    python=python3.11
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    say "left out: what the reference's programs cost is of the jaxlib that is pinned for Python 3.11, and $python is another"
    exit 0
fi
exec "$python" build/build.py test --aot "$@"
