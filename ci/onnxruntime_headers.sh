#!/bin/bash
# Prints the folder of onnxruntime's C++ headers, which its wheel lacks: those that are installed, or else those of the
# package libonnxruntime-dev of Debian 13, unpacked under ~/.cache/jax-build (JAX_ONNXRUNTIME_HEADERS), without installing it.
set -euo pipefail
installed=/usr/include/onnxruntime
root=${JAX_ONNXRUNTIME_HEADERS:-${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/onnxruntime-headers}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

if [[ -f $installed/onnxruntime_cxx_api.h ]]; then
    echo "$installed"
    exit
fi
if [[ ! -f $root/onnxruntime_cxx_api.h ]]; then
    partial=$root.partial-$$
    trap 'rm -rf "$partial"' EXIT
    mkdir -p "$partial"/apt/{lists/partial,cache/archives/partial,parts}
    cd "$partial"
    : >apt/status
    echo "deb [signed-by=$keyring] ${JAX_DEBIAN_MIRROR:-http://deb.debian.org/debian} trixie main" >apt/sources.list
    get=(apt-get -q -o "Dir::State=$partial/apt" -o "Dir::State::lists=$partial/apt/lists" -o "Dir::State::status=$partial/apt/status"
        -o "Dir::Cache=$partial/apt/cache" -o "Dir::Etc::sourcelist=$partial/apt/sources.list" -o "Dir::Etc::sourceparts=$partial/apt/parts"
        -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke= -o Debug::NoLocking=true)
    "${get[@]}" update >&2
    "${get[@]}" download libonnxruntime-dev >&2
    dpkg-deb --extract libonnxruntime-dev_*.deb unpacked
    rm -rf "$root"
    mv unpacked/usr/include/onnxruntime "$root"
fi
echo "$root"
