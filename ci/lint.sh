#!/bin/bash
# Style and structure: ruff, layers, types, BUILD files. Needs npm for buildifier.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_python
"$python" build/build.py run -m ruff check .
"$python" build/build.py run -m ruff format --check .
"$python" build/build.py run -m mypy
.venv/bin/lint-imports
"$python" build/build_files.py
command -v npm >/dev/null || install_packages npm
npm exec --yes --package=@bazel/buildifier@8.2.1 -- buildifier -mode=check -lint=warn -r .
