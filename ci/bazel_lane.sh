#!/bin/bash
# What `.ci/run` does with Bazel: all wheels, each checked and installed into an empty environment, the native code's tests, and
# CPU tests in shards: of the kernels, with and without them, of what sorts with them, and of programs, compiled as users' are.
# Targets that are given are tested besides.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_bazel
settings=("${bazel_settings[@]/#/--bazel_options=}")
folder=$(mktemp -d)
# what runs next has the machine for itself
trap 'rm -rf "$folder"; "$python" build/build.py bazel shutdown >/dev/null 2>&1 || true' EXIT
start=$SECONDS
"$python" build/build.py build --wheels=all --sdist --output_path="$folder" "${settings[@]}" ||
    fail "Bazel cannot be had or the wheels cannot be built (see above)."
say "wheels built in $((SECONDS - start)) s"
bazel test --config=cpu --test_env=JAX_DISABLE_MOST_OPTIMIZATIONS=0 //build/wheels:all //jaxlib/... \
    //tests:kernels_cpu //tests:lax_sort_cpu //tests:numpy_sorting_with_kernels_cpu \
    //tests:user_programs_cpu //tests:random_programs_cpu "$@"
say "Bazel lane passed in $((SECONDS - start)) s"
