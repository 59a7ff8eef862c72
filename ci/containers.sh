#!/bin/bash
# Makes the runners' containers that are Debian's, without privileges, and looks whether lanes lack anything in them:
# ci/containers.sh [RUNNERS]; all of them by default.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ $# -gt 0 ]] || set -- cpu cuda13 tpu
command -v bwrap >/dev/null || install_packages bubblewrap
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
for runner; do
    ci/containers/build.sh "$runner" "$folder/$runner.tar"
    mkdir "$folder/$runner"
    # devices are no files that everybody may make, and there are others in the sandbox
    tar -x -C "$folder/$runner" --exclude='./dev/*' --no-same-owner -f "$folder/$runner.tar"
    rm "$folder/$runner.tar"
    # There is no network there, so what a lane would install is missed; and no privileges.
    bwrap --unshare-all --die-with-parent --uid 65534 --gid 65534 --cap-drop ALL --clearenv \
        --setenv PATH /usr/bin:/bin:/usr/sbin --setenv RUNNER "$runner" \
        --ro-bind "$folder/$runner" / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /mnt --ro-bind "$PWD" /mnt --chdir /mnt \
        bash -euo pipefail -c '
            . ci/common.sh
            install_packages() { fail "the container of $RUNNER lacks $*"; }
            need_python
            need_python_headers
            need_compiler
            need_debian_keys
            [[ $RUNNER != cpu ]] || need_browser
            git --version
            "$python" build/build.py --help >/dev/null
            "$python" -m venv --without-pip /tmp/environment
            say "$RUNNER: $("$python" --version), $(c++ --version | head -n 1)"'
    chmod -R u+w "$folder/$runner"
    rm -rf "${folder:?}/$runner"
done
