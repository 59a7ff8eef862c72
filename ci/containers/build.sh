#!/bin/bash
# Makes the root of a runner's container; see README.md here.
#
#   ci/containers/build.sh cpu|cuda13|tpu FILE.tar     by mmdebstrap, in a user namespace: no Docker, no privileges
#   ci/containers/build.sh --changes cpu|cuda13|tpu    prints what `docker import` has to be told of its variables
#   ci/containers/build.sh rocm7 --base=IMAGE@sha256:DIGEST [--tag=NAME]    by docker, podman or buildah
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# common.sh goes to the checkout's top, and what is named here is meant from where it was called
folder=$PWD
. "$here/../common.sh"
release=bookworm

packages_of() { sed -nE '/^[a-z0-9][a-z0-9+.-]*$/p' "$here/$1.debian"; }
variables_of() { sed -nE '/^[A-Z_]+=/p' "$here/$1.debian"; }

debian() { # RUNNER FILE
    local file=$2 names partial
    [[ $file == *.tar ]] || fail "$file: name a file that ends in .tar"
    [[ $file == /* ]] || file=$folder/$file
    command -v mmdebstrap >/dev/null || install_packages mmdebstrap
    [[ -f /usr/share/keyrings/debian-archive-keyring.gpg ]] || install_packages debian-archive-keyring
    names=$(packages_of "$1" | paste -sd,)
    partial=${file%.tar}.partial.tar
    mmdebstrap --quiet --mode=unshare --variant=apt --include="$names" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        "$release" "$partial" ${JAX_DEBIAN_MIRROR:+"$JAX_DEBIAN_MIRROR"} >&2 || fail "Debian's packages cannot be had (see above)."
    mv "$partial" "$file"
    say "made $file"
}

rocm() { # --base=IMAGE@sha256:DIGEST [--tag=NAME]
    local argument base="" tag=jax-runner-rocm7 program
    for argument; do
        case $argument in
        --base=*) base=${argument#*=} ;;
        --tag=*) tag=${argument#*=} ;;
        *) fail "rocm7 takes --base=IMAGE@sha256:DIGEST and --tag=NAME, got $argument" ;;
        esac
    done
    need_digest "$base" --base
    for program in docker podman buildah; do
        if command -v "$program" >/dev/null; then
            exec "$program" build --build-arg "BASE=$base" --tag "$tag" --file "$here/rocm7.Containerfile" "$here"
        fi
    done
    fail "there is no docker, podman or buildah here."
}

case ${1:-} in
cpu | cuda13 | tpu)
    [[ $# == 2 ]] || fail "say into which file: $1 FILE.tar"
    debian "$@"
    ;;
--changes)
    [[ -f $here/${2:-}.debian ]] || fail "there is no ${2:-}.debian"
    variables_of "$2" | sed 's/^/--change ENV=/; s/ENV=/ENV /' | paste -sd' '
    ;;
rocm7) rocm "${@:2}" ;;
*)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
