#!/bin/bash
# Writes every lock file anew from lock.in and oracle.in: bash build/requirements/update.sh
# Needs the network and a Python with venv; uv resolves for all the Python versions from any one of them.
set -euo pipefail
cd "$(dirname "$0")"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet uv

for version in 3.11 3.12 3.13; do
    for name in lock oracle; do
        "$tools/bin/uv" pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
            --no-emit-index-url --no-emit-find-links --python-version "$version" \
            "$name.in" --output-file "$name-$version.txt"
    done
done
