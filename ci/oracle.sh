#!/bin/bash
# Asks PyPI's jax again about all tables of cases, and compares with what is stored in tests/testdata: ci/oracle.sh [TABLES]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
exec "$python" build/build.py oracle --aot --verify "--jobs=$(nproc)" "$@"
