#!/bin/bash
# All that a release has to be, of the version that the sources have: ci/release.sh [VERSION|nightly [FOLDER]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
version=${1:-$("$python" -c 'import sys; sys.path.insert(0, "build"); import versions; print(versions.project_version(versions.Path()))')}
settings=("${bazel_settings[@]/#/--bazel_options=}")
exec "$python" build/build.py release "--version=$version" "--output_path=${2:-dist}" "${settings[@]}"
