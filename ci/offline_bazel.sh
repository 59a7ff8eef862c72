#!/bin/bash
# Bazel for a machine that reaches Debian's packages and PyPI, but neither Bazelisk's downloads nor the central registry.
#
#   ci/offline_bazel.sh prepare           makes the root: Bazel and what it runs on, from Debian unstable, in a folder of its own
#   ci/offline_bazel.sh bazel ARGS...     runs it, in the current folder (makes the root when it is not there)
#   ci/offline_bazel.sh root              prints the root's folder
#   ci/offline_bazel.sh remove            deletes it
#
# JAX_BAZEL_ROOT      where the root is; default: $XDG_CACHE_HOME/jax-build/bazel-root (~/.cache/jax-build/bazel-root)
# JAX_BAZEL_PYTHON    the interpreter of the builds; default: python3
# JAX_DEBIAN_MIRROR   where Debian's packages are; default: what the host's apt uses, or http://deb.debian.org/debian
#
# Nothing is installed or mounted, and no rights are taken: the packages are unpacked, and their programs told where their own C
# library is. What Bazel starts is the host's, with the host's libraries.
set -euo pipefail

root=${JAX_BAZEL_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/jax-build/bazel-root}
packages=(bazel-bootstrap patchelf)
# Compilers, interpreters and documents, which Debian's package asks for and Bazel itself does without
needless='^(g\+\+.*|gcc(-[0-9]+)?(-x86.*|-aarch.*)?|cpp.*|binutils.*|.*-dev|.*-dev-bin|lib(a|l|t|ub|hwa)san[0-9]+|libcc1-0|(lib)?perl.*|(lib)?python3.*|.*-jdk-headless|libjs-.*|node-.*|dpkg-dev|libdpkg-perl|build-essential|make|patch|debconf|tzdata|junit4|libmaven.*|libtomcat.*|libjetty.*)$'
recipe=2 # to change with what is below, so that older roots are made anew
# Debian stable's sources of the modules that the central registry has too: package, version, sha256
sources=(
    "highway 1.2.0-2 7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343"
    "googletest 1.16.0-1 2f54382b5d13d6cd0be2afc524f1e510d37f8ba78c2d439c5bea64ef37e30d01"
)
release=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
workspace=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wanted=$(<"$workspace/.bazelversion")

say() { echo "offline_bazel: $*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

stamp() { (cd "$workspace/build/bazel/offline" && printf '%s\n' "$recipe $wanted $root" "${sources[@]}" | cat - googletest/* highway/*) | sha256sum; }
ready() { [[ -f $root/.ready && $(<"$root/.ready") == "$(stamp)" ]]; }

prepare() {
    ready && return
    mkdir -p "$(dirname "$root")"
    exec 9>"$root.lock"
    if ! flock -n 9; then
        say "waiting for another one that makes $root"
        flock 9
    fi
    ready || make_root
    exec 9>&-
}

make_root() {
    command -v apt-get >/dev/null || fail "there is no apt-get, which fetches Debian's packages."
    [[ -f $keyring ]] || fail "there is no $keyring, which tells that packages are Debian's: apt-get install debian-archive-keyring."
    local free
    free=$(df -Pk "$(dirname "$root")" | awk 'NR == 2 { print $4 }')
    ((free > 1500000)) || fail "the disk is too full: $(dirname "$root") has $((free / 1000)) MB left and making it takes 1500 MB."
    local partial=$root.partial log=$root.log start=$SECONDS
    rm -rf "$partial"
    mkdir -p "$partial"
    say "making $root: Debian unstable's Bazel, 500 MB in a minute or two (its log: $log)"
    # the last step is a rename: a stop before it leaves nothing that looks whole
    if ! bash "${BASH_SOURCE[0]}" --make "$partial" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        fail "Debian's Bazel cannot be fetched: the last lines of $log are above. What is in the way is most often the network."
    fi
    rm -rf "$partial/apt" "$root"
    mv "$partial" "$root"
    say "made in $((SECONDS - start)) s"
}

mirror() {
    local found
    found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -nE 's#^(deb .*|URIs:.*)(https?://[^ ]*/debian)/?( .*|$)#\2#p' | head -n 1) || true
    echo "${JAX_DEBIAN_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

# Debian's packages, checked against its signatures, into $partial/apt
fetch() {
    local apt=$partial/apt entry names=() checks="" found
    mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts,debs,sources}
    : >"$apt/status"
    printf 'deb [signed-by=%s] %s sid main\ndeb-src [signed-by=%s] %s %s main\n' \
        "$keyring" "$(mirror)" "$keyring" "$(mirror)" "$release" >"$apt/sources.list"
    local get=(apt-get -q -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
        -o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/parts" -o APT::Install-Recommends=false
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3
        -o APT::Get::List-Cleanup=false -o APT::Update::Post-Invoke= -o Debug::NoLocking=true)
    "${get[@]}" update
    "${get[@]}" --simulate install "${packages[@]}" >"$apt/plan"
    found=$(sed -nE 's/^Inst bazel-bootstrap \(([^ ]+) .*/\1/p' "$apt/plan")
    # Debian has one version at a time: another of the same series will do
    if [[ ${found%%.*} != "${wanted%%.*}" ]]; then
        say "Debian unstable has Bazel $found by now, and this project wants $wanted (.bazelversion)." \
            "Move .bazelversion up, or install Bazel $wanted another way and give it as build.py bazel --bazel_path."
        exit 1
    fi
    mapfile -t names < <(sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' "$apt/plan" | grep -vE "${needless/)\$/)=}")
    (cd "$apt/debs" && "${get[@]}" download "${names[@]}")
    names=()
    for entry in "${sources[@]}"; do
        read -r name version hash <<<"$entry"
        names+=("$name=$version")
        checks+="$hash  ${name}_${version%-*}.orig.tar.gz"$'\n'
    done
    cd "$apt/sources"
    "${get[@]}" source --download-only "${names[@]}"
    printf %s "$checks" | sha256sum -c -
}

unpack() {
    local deb archive name
    for deb in "$partial"/apt/debs/*.deb; do
        dpkg-deb --extract "$deb" "$partial"
    done
    for archive in "$partial"/apt/sources/*.orig.tar.gz; do
        name=${archive##*/} name=${name%%_*}
        mkdir -p "$partial/modules/$name"
        tar -xzf "$archive" -C "$partial/modules/$name" --strip-components=1
    done
    find "$partial/modules/googletest" \( -name BUILD -o -name BUILD.bazel -o -name MODULE.bazel \) -delete
    cp "$workspace"/build/bazel/offline/googletest/* "$partial/modules/googletest/"
    cp "$workspace"/build/bazel/offline/highway/* "$partial/modules/highway/"
}

# Lets what was unpacked find itself at $root: links, programs, Java's class path, Bazel's settings
settle() {
    local link target libraries loader java module file
    while IFS=$'\t' read -r link target; do
        ln -sfn "$root$target" "$link"
    done < <(find "$partial" -type l -lname '/*' -printf '%p\t%l\n')
    cd "$partial"
    loader=$(echo usr/lib/*-linux-gnu/ld-linux-*.so.*)
    libraries=$(dirname "$loader")
    java=$(find usr/lib/jvm -mindepth 1 -maxdepth 1 -type d -name 'java-*-openjdk-*')
    [[ -x $loader && -x $java/bin/java ]]
    for file in usr/bin/bazel usr/libexec/*/bazel/* "$java"/bin/java "$java"/lib/jspawnhelper; do
        "$loader" --library-path "$libraries" usr/bin/patchelf --set-interpreter "$root/$loader" --force-rpath \
            --set-rpath "\$ORIGIN:\$ORIGIN/../lib:$root/$libraries" "$file"
    done
    # and what those jars name in their own class paths, which have Debian's places
    local jars=usr/share/bazel/bazel_classpath_debian_depends.txt
    sed -i "s#^/usr/share/java/#$root/usr/share/java/#" "$jars"
    find usr/share/java -name '*.jar' -type f -printf "$root/%p\n" | sort >>"$jars"
    {
        echo "startup --install_base=$root/usr/share/bazel --trust_install_base --server_javabase=$root/$java"
        sed -nE "s#^(common --override_module=[a-z_]+=)/#\1$root/#p" etc/bazel/bazelrc
        for module in modules/*; do
            echo "common:offline --override_module=${module##*/}=$root/$module"
        done
        echo "common --config=offline"
    } >bazel.rc
    stamp >.ready
}

remove() {
    [[ -e $root ]] || return 0
    [[ $root == */bazel-root* ]] || fail "$root does not look like a root of this script (its name should start with bazel-root): delete it by hand."
    rm -rf --one-file-system "$root"
}

run_bazel() {
    prepare
    local python
    python=$(readlink -f "$(command -v "${JAX_BAZEL_PYTHON:-python3}" || true)") ||
        fail "there is no ${JAX_BAZEL_PYTHON:-python3}: set JAX_BAZEL_PYTHON to a Python 3.11 or newer."
    # a shim (pyenv's, say) is not the interpreter
    JAX_BAZEL_PYTHON=$("$python" -c 'import os, sys; print(os.path.realpath(sys._base_executable))')
    export JAX_BAZEL_PYTHON
    exec "$root/usr/bin/bazel" --nosystem_rc "--bazelrc=$root/bazel.rc" "$@"
}

case ${1:-} in
prepare) prepare ;;
bazel) run_bazel "${@:2}" ;;
root) echo "$root" ;;
remove) remove ;;
--make)
    partial=$2
    fetch
    unpack
    settle
    ;;
*)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
