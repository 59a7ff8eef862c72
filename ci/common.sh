# Sourced by the lanes: goes to the checkout's top, finds a Python, installs what a new machine lacks.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "ci: $*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

# Installs Debian packages: install_packages PACKAGE...
install_packages() {
    say "installing $*"
    command -v apt-get >/dev/null || fail "there is no apt-get: install $* (or what they are called here) and run this again."
    local sudo=
    if [[ $(id -u) != 0 ]]; then
        command -v sudo >/dev/null || fail "$* are missing, and installing them takes root or sudo."
        sudo=sudo
    fi
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

usable_python() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Sets `python`: a Python 3.11 or newer with venv.
need_python() {
    local candidate
    python=
    for candidate in python3 python3.11 python3.12 python3.13; do
        if command -v "$candidate" >/dev/null && usable_python "$candidate"; then
            python=$candidate
            return
        fi
    done
    install_packages python3 python3-venv
    python=/usr/bin/python3
}

# What building the native extension takes besides: the interpreter's headers.
need_python_headers() {
    "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h")))' ||
        install_packages python3-dev
}

# A C++ compiler, for tests that compile.
need_compiler() {
    [[ -n ${CXX:-} ]] || command -v c++ >/dev/null || command -v g++ >/dev/null || install_packages g++
}

# Sets `bazel`: build.py's Bazel, with the settings of lanes. What was built or tested once is kept in
# JAX_BAZEL_DISK_CACHE, also for other checkouts.
need_bazel() {
    need_python
    need_python_headers
    local cache=${JAX_BAZEL_DISK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/disk-cache}
    mkdir -p "$cache"
    bazel_settings=(--config=ci "--disk_cache=$cache" "--jobs=$(nproc)" "--local_test_jobs=$(nproc)")
}

bazel() {
    local command=$1
    shift
    "$python" build/build.py bazel "$command" "${bazel_settings[@]}" "$@"
}
