#!/bin/bash
# All wheels and the source archive into a folder, each checked and installed: ci/wheels.sh [FOLDER]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
settings=("${bazel_settings[@]/#/--bazel_options=}")
"$python" build/build.py build --wheels=all --sdist --output_path="${1:-dist}" "${settings[@]}"
bazel test --config=cpu //build/wheels:all
# the extension for the other machine too
other=x86_64
[[ $(uname -m) != "$other" ]] || other=aarch64
bazel test --config=cpu "--config=$other" --config=local_python //build/wheels:jaxlib_ext_test
