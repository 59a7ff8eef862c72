#!/bin/bash
# Bazel for a machine that reaches Debian's packages and PyPI, but neither Bazelisk's downloads nor the central registry.
#
#   ci/offline_bazel.sh prepare           makes the root: Debian unstable with its Bazel, in a folder of its own
#   ci/offline_bazel.sh bazel ARGS...     runs Bazel in it, in the current folder (makes the root when it is not there)
#   ci/offline_bazel.sh root              prints the root's folder
#   ci/offline_bazel.sh remove            deletes it
#
# JAX_BAZEL_ROOT     where the root is; default: $XDG_CACHE_HOME/jax-build/bazel-root (~/.cache/jax-build/bazel-root)
# JAX_BAZEL_PYTHON   the interpreter of the builds, seen at the same path inside; default: python3
#
# The host's folders (home, work, tmp, opt, ...) are seen inside at their own paths, in a mount namespace that ends with the last
# process in it: nothing stays mounted. Mounting takes root's rights: the script uses sudo where it is not root, and Bazel itself
# runs as the user who called.
set -euo pipefail

root=${JAX_BAZEL_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/bazel-root}
packages=bazel-bootstrap,python3-minimal,libpython3-stdlib,git,ca-certificates,g++
recipe=1 # to change with what is below, so that older roots are made anew
# Debian stable's sources of the modules that the central registry has too: package, version, sha256
sources=(
    "highway 1.2.0-2 7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343"
    "googletest 1.16.0-1 2f54382b5d13d6cd0be2afc524f1e510d37f8ba78c2d439c5bea64ef37e30d01"
)
release=trixie
workspace=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wanted=$(<"$workspace/.bazelversion")

say() { echo "offline_bazel: $*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        fail "this needs root's rights (it mounts folders), and there is no sudo: run it as root."
    fi
}

root_ready() { [[ -f $root/.jax-bazel-root && $(<"$root/.jax-bazel-root") == "$recipe $wanted" ]]; }
overlays() { (cd "$workspace/build/bazel/offline" && printf '%s\n' "${sources[@]}" | cat - googletest/* highway/*) | sha256sum; }
sources_ready() { [[ -f $root/usr/src/jax/.ready && $(<"$root/usr/src/jax/.ready") == "$(overlays)" ]]; }
ready() { root_ready && sources_ready; }

install_mmdebstrap() {
    command -v mmdebstrap >/dev/null && return
    command -v apt-get >/dev/null ||
        fail "mmdebstrap makes the root and is not here, nor is apt-get to install it: install mmdebstrap."
    say "installing mmdebstrap"
    as_root apt-get update -q >&2 || fail "apt-get update failed: are Debian's packages within reach?"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends mmdebstrap >&2 ||
        fail "mmdebstrap cannot be installed (see above)."
}

prepare() {
    ready && return
    mkdir -p "$(dirname "$root")"
    exec 9>"$root.lock"
    if ! flock -n 9; then
        say "waiting for another one that makes $root"
        flock 9
    fi
    root_ready || make_root
    sources_ready || fetch_sources
    exec 9>&-
}

make_root() {
    local free
    free=$(df -Pk "$(dirname "$root")" | awk 'NR == 2 { print $4 }')
    ((free > 3000000)) || fail "the disk is too full: $(dirname "$root") has $((free / 1000)) MB left and this takes 3000 MB."
    install_mmdebstrap
    remove
    local partial=$root.partial log=$root.log start=$SECONDS
    as_root rm -rf --one-file-system "$partial"
    say "making $root: Debian unstable with Bazel $wanted, about 1.5 GB and three minutes (its log: $log)"
    # a stop kills mmdebstrap's whole group, and what it leaves has another name than what is used
    if ! as_root mmdebstrap --variant=minbase --mode=root --include="$packages" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
        sid "$partial" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        fail "Debian unstable cannot be installed: the last lines of $log are above. What is in the way is most often the network."
    fi
    local found
    found=$(as_root chroot "$partial" dpkg-query -W -f '${Version}' bazel-bootstrap)
    if [[ ${found%%+*} != "$wanted" ]]; then
        fail "Debian unstable has Bazel $found by now, and this project wants $wanted (.bazelversion)." \
            "Move .bazelversion up, or install Bazel $wanted another way and give it as build.py bazel --bazel_path."
    fi
    as_root sh -c 'echo "$1" >"$2/.jax-bazel-root" && mv "$2" "$3"' sh "$recipe $wanted" "$partial" "$root"
    say "made in $((SECONDS - start)) s"
}

fetch_sources() {
    local entry names=() checks=
    for entry in "${sources[@]}"; do
        read -r name version hash <<<"$entry"
        names+=("$name=$version")
        checks+="$hash  ${name}_${version%-*}.orig.tar.gz"$'\n'
    done
    say "fetching the sources of ${names[*]} from Debian $release"
    # the last step is a rename: a stop before it leaves nothing that looks whole
    as_root unshare --mount -- bash "${BASH_SOURCE[0]}" --enter "$root" 0 0 / none \
        sh -euc '
            release=$1 checks=$2 overlays=$3 stamp=$4
            shift 4
            rm -rf /usr/src/jax /usr/src/jax.partial
            mkdir /usr/src/jax.partial
            cd /usr/src/jax.partial
            mirror=$(sed -n "s/^deb .*\(https\{0,1\}:[^ ]*\) sid .*/\1/p" /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
            echo "deb-src ${mirror:-http://deb.debian.org/debian} $release main" >/etc/apt/jax.list
            only="-o Dir::Etc::sourcelist=/etc/apt/jax.list -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root"
            apt-get $only -q update
            apt-get $only -q source --download-only "$@"
            printf %s "$checks" | sha256sum -c -
            for archive in *.orig.tar.gz; do
                mkdir "${archive%%_*}"
                tar -xzf "$archive" -C "${archive%%_*}" --strip-components=1
            done
            find googletest \( -name BUILD -o -name BUILD.bazel -o -name "MODULE.bazel" \) -delete
            cp "$overlays"/googletest/* googletest/
            cp "$overlays"/highway/* highway/
            echo "$stamp" >.ready
            mv /usr/src/jax.partial /usr/src/jax' \
        sh "$release" "$checks" "$workspace/build/bazel/offline" "$(overlays)" "${names[@]}" >>"$root.log" 2>&1 || {
        tail -n 15 "$root.log" >&2
        fail "the sources of ${names[*]} cannot be fetched from Debian $release: the last lines of $root.log are above."
    }
}

remove() {
    [[ -e $root ]] || return 0
    [[ $root == */bazel-root* ]] || fail "$root does not look like a root of this script (its name should start with bazel-root): delete it by hand."
    as_root rm -rf --one-file-system "$root"
}

# Runs inside a mount namespace of its own, as root: builds the view, goes into it, becomes the user again.
enter() {
    local root=$1 uid=$2 gid=$3 folder=$4 python=$5 entry
    shift 5
    mount --make-rprivate /
    mount --bind "$root" "$root"
    for entry in /*; do
        case $entry in
        /bin | /boot | /etc | /lib* | /lost+found | /sbin | /usr | /var) ;;
        *) if [[ -d $entry && ! -L $entry ]]; then
            mkdir -p "$root$entry"
            mount --rbind "$entry" "$root$entry"
        fi ;;
        esac
    done
    local seen=(/etc/hosts /etc/resolv.conf /etc/passwd /etc/group /etc/ssl /etc/pip.conf /etc/localtime /usr/local /usr/share/ca-certificates)
    # Debian's own Python is under /usr, which the root has itself: its folders are laid over, one by one
    case $python in
    /usr/bin/python3.*)
        local version=${python##*/}
        seen+=("$python" "/usr/lib/$version" "/usr/include/$version" "/usr/include/$(uname -m)-linux-gnu/$version" /usr/lib/python3/dist-packages /usr/share/python-wheels)
        ;;
    esac
    for entry in "${seen[@]}"; do
        if [[ -d $entry ]]; then
            mkdir -p "$root$entry"
            mount --rbind "$entry" "$root$entry"
        elif [[ -f $entry ]]; then
            [[ -e $root$entry ]] || touch "$root$entry"
            mount --bind "$(readlink -f "$entry")" "$root$(readlink -f "$entry")" 2>/dev/null || mount --bind "$entry" "$root$entry"
        fi
    done
    # the settings of Bazel in this root: the offline configuration of the workspace
    # (Debian's own say --sandbox_debug)
    printf 'common --config=offline\nbuild --nosandbox_debug\n' >"$root/etc/bazel.offline.bazelrc"
    mkdir -p "$root/.host"
    cd "$root"
    pivot_root . .host
    umount -l /.host
    cd "$folder"
    if [[ $uid != 0 ]]; then
        exec setpriv --reuid "$uid" --regid "$gid" --init-groups -- "$@"
    fi
    exec "$@"
}

run_bazel() {
    prepare
    local python
    python=$(readlink -f "$(command -v "${JAX_BAZEL_PYTHON:-python3}" || true)") ||
        fail "there is no ${JAX_BAZEL_PYTHON:-python3}: set JAX_BAZEL_PYTHON to a Python 3.11 or newer."
    # a shim (pyenv's, say) is not the interpreter
    python=$("$python" -c 'import os, sys; print(os.path.realpath(sys._base_executable))')
    local variables=()
    # sudo takes them away
    [[ $(id -u) == 0 ]] || variables=("PATH=$PATH" "HOME=$HOME" "USER=${USER:-$(id -un)}")
    as_root unshare --mount -- bash "${BASH_SOURCE[0]}" --enter "$root" "$(id -u)" "$(id -g)" "$PWD" "$python" \
        env "JAX_BAZEL_PYTHON=$python" "${variables[@]}" bazel --bazelrc=/etc/bazel.offline.bazelrc "$@"
}

case ${1:-} in
prepare) prepare ;;
bazel) run_bazel "${@:2}" ;;
root) echo "$root" ;;
remove) remove ;;
--enter)
    shift
    enter "$@"
    ;;
*)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
