#!/bin/bash
# Remote execution on this machine (docs/remote_execution.md): a server, workers that run actions in a bare root, Bazel against them.
#
#   ci/remote.sh [ARGUMENTS OF PYTEST]   the tests of it
#   ci/remote.sh serve [ARGUMENTS]       runs server and workers until it is interrupted, and prints Bazel's settings for them
#   ci/remote.sh root                    makes the root and prints its folder
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/jax-build
release=bookworm
# The root has what Debian cannot be without, less Perl, and the C++ library that wheels expect of every Linux (PEP 600).
packages=libstdc++6
root=$cache/action-root-$release-1 # another number where the recipe changes

need_program() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]] || install_packages "$2"
}

make_root() {
    [[ ! -d $root ]] || return 0
    need_program mmdebstrap mmdebstrap
    [[ $(id -u) == 0 ]] || need_program newuidmap uidmap # for its user namespace
    [[ -f /usr/share/keyrings/debian-archive-keyring.gpg ]] || install_packages debian-archive-keyring
    say "making $root: Debian's essential packages, 150 MB in a minute"
    mkdir -p "$cache"
    local partial=$root.partial
    rm -rf "$partial"
    mmdebstrap --quiet --variant=essential --include="$packages" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
        --customize-hook='mkdir "$1/action" && rm -rf "$1"/usr/bin/perl* "$1"/usr/share/perl* "$1"/usr/lib/*/perl-base "$1"/usr/share/doc' \
        "$release" "$partial" ${JAX_DEBIAN_MIRROR:+"$JAX_DEBIAN_MIRROR"} >&2 || fail "Debian's packages cannot be had (see above)."
    mv "$partial" "$root"
}

need_python
need_program bwrap bubblewrap
make_root
[[ ${1:-} != root ]] || {
    echo "$root"
    exit
}
environment=$("$python" build/build.py remote)
case ${1:-} in
serve) exec "$environment" ci/remote/service.py --root "$root" --folder "$cache/remote" "${@:2}" ;;
esac
need_program nginx nginx-light
need_bazel
trap '"$python" build/build.py bazel shutdown >/dev/null 2>&1 || true' EXIT
JAX_REMOTE_ROOT=$root JAX_BUILD_PYTHON=$(command -v "$python") \
    "$environment" -m pytest -c ci/remote/pytest.ini --rootdir=ci/remote ci/remote/worker_test.py ci/remote/remote_test.py "$@"
