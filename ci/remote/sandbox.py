"""How an action runs: in a bare root, without network, and with nothing of the worker's machine."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

# Where an action finds its inputs. Every worker has the same place.
INSIDE = "/action"
# The user that an action is: Debian's `nobody`, whose name every root knows.
USER = 65534


class Sandbox:
    """Runs commands in `root`, a Debian system without compilers and interpreters of its own.

    An action may write to its own folder, to /tmp, which is its own, and to /var/tmp, which actions
    of a worker share: compilers keep there what is addressed by content.
    """

    def __init__(self, root: Path, shared: Path):
        self.root, self.shared = root.absolute(), shared.absolute()
        program = shutil.which("bwrap")
        if program is None:
            raise OSError("there is no bwrap (Debian: apt-get install bubblewrap)")
        if not (self.root / "usr" / "bin" / "bash").exists():
            raise OSError(f"{self.root} is no root: ci/remote.sh makes one")
        self.program = program
        self.shared.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        arguments: list[str],
        environment: Mapping[str, str],
        action: Path,
        mounts: list[tuple[Path, str]],
        working_directory: str,
        stdout: Path,
        stderr: Path,
    ) -> subprocess.Popen:
        user = str(USER)
        command = [self.program, "--unshare-all", "--die-with-parent", "--new-session"]
        command += ["--uid", user, "--gid", user, "--hostname", "worker", "--cap-drop", "ALL"]
        command += ["--ro-bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc"]
        command += ["--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
        command += ["--bind", str(self.shared), "/var/tmp"]
        command += ["--bind", str(action), INSIDE]
        for folder, place in mounts:
            command += ["--ro-bind", str(folder), f"{INSIDE}/{place}"]
        command += ["--chdir", f"{INSIDE}/{working_directory}"]
        command += ["--clearenv"]
        for name, value in environment.items():
            command += ["--setenv", name, value]
        with stdout.open("wb") as out, stderr.open("wb") as err:
            return subprocess.Popen(
                [*command, "--", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )


def kill(process: subprocess.Popen) -> None:
    """Ends an action: the namespace of its processes ends with the first of them."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
