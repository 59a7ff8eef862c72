# Sourced by the lanes: goes to the checkout's top, finds a Python, installs what a new machine lacks.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

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
    local locks=${XDG_CACHE_HOME:-$HOME/.cache}/jax-build
    mkdir -p "$locks"
    (
        flock 9 # lanes that run beside this one may be installing, too
        $sudo apt-get update -q
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
    ) 9>"$locks/packages.lock"
}

# Whether a Python makes environments and has packages pinned for it.
usable_python() {
    "$1" -c 'import os, sys, ensurepip, venv
sys.exit(not os.path.exists("build/requirements/lock-%d.%d.txt" % sys.version_info[:2]))' 2>/dev/null
}

# Ends where an image is not named by its digest: need_digest IMAGE WHAT. The same name may be another image tomorrow.
need_digest() {
    [[ $1 =~ (^|@)sha256:[0-9a-f]{64}$ ]] ||
        fail "$2=$1 has no digest: name IMAGE@sha256:..., or sha256:... of an image that was made here."
}

# Sets `python`: one that the pinned requirements are for, with venv.
need_python() {
    local candidate versions=(build/requirements/lock-*.txt)
    versions=("${versions[@]#*lock-}")
    for candidate in python3 "${versions[@]/#/python}" /usr/bin/python3; do
        python=${candidate%.txt}
        if command -v "$python" >/dev/null && usable_python "$python"; then
            return
        fi
    done
    install_packages python3 python3-venv
    usable_python "$python" ||
        fail "there is no Python here that packages are pinned for: install one of ${versions[*]%.txt}, with venv."
}

# Sets `python` to one of the version that stored results are for; ends the lane where there is none.
need_python_of_the_reference() {
    need_python
    if command -v python3.11 >/dev/null && usable_python python3.11; then
        python=python3.11
    fi
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
        say "left out: the reference's results are of the jaxlib that is pinned for Python 3.11, and $python is another"
        exit 0
    fi
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

# A browser, for tests of pages.
need_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        ! command -v "$name" >/dev/null || return 0
    done
    install_packages chromium
}

# onnxruntime's C++ headers and make, for the example that serves models.
need_onnxruntime_headers() {
    command -v make >/dev/null || install_packages make
    [[ -f /usr/include/onnxruntime/onnxruntime_cxx_api.h || -f /usr/share/keyrings/debian-archive-keyring.gpg ]] ||
        install_packages debian-archive-keyring
    ci/onnxruntime_headers.sh >/dev/null
}

# Sets `count`: how many accelerators of a kind (cuda, rocm, tpu) the tests may use here. Fails where there are none.
count_accelerators() {
    need_python
    count=$("$python" ci/count_accelerators.py "$1") || fail "this lane needs an accelerator (see above)."
    say "tests run on $count"
}

# Where there is no Bazel: the keys that tell that packages of ci/offline_bazel.sh are Debian's, which Ubuntu lacks.
need_debian_keys() {
    [[ -n ${JAX_BAZEL:-} || -f /usr/share/keyrings/debian-archive-keyring.gpg ]] ||
        type -P bazelisk >/dev/null || type -P bazel >/dev/null || ! type -P apt-get >/dev/null ||
        install_packages debian-archive-keyring
}

# Sets `bazel_settings`, those of lanes, with which `bazel` runs build.py's Bazel. What was built or tested once is kept
# in JAX_BAZEL_DISK_CACHE, also for other checkouts.
need_bazel() {
    need_python
    need_python_headers
    need_debian_keys
    local cache=${JAX_BAZEL_DISK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/disk-cache}
    mkdir -p "$cache"
    bazel_settings=(--config=ci "--disk_cache=$cache" "--jobs=$(nproc)" "--local_test_jobs=$(nproc)")
}

bazel() {
    local command=$1
    shift
    "$python" build/build.py bazel "$command" "${bazel_settings[@]}" "$@"
}

# Copies logs and reports (JUnit's) of what Bazel has tested to JAX_TEST_RESULTS, if that names a folder.
keep_results() {
    [[ -n ${JAX_TEST_RESULTS:-} && -d bazel-testlogs ]] || return 0
    mkdir -p "$JAX_TEST_RESULTS"
    (cd bazel-testlogs/ && find . \( -name test.log -o -name test.xml -o -path '*/test_attempts/*' \) -type f -print0 | tar -c --null -T -) |
        tar -x -C "$JAX_TEST_RESULTS"
}
