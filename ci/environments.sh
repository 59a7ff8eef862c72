#!/bin/bash
# Makes the environments of the tests' lanes, which make them themselves otherwise.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
exec "$python" build/build.py environments
