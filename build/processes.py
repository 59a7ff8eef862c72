"""Running the programs that build.py starts."""

import subprocess
from pathlib import Path


def call(
    command: list[str], variables: dict[str, str] | None = None, folder: str | Path | None = None
) -> int:
    """Runs a program and returns its exit status, as a shell reports it.

    Ctrl-C reaches the program too, which decides how to react. If this process is killed
    (SystemExit), it stops the program first.
    """
    with subprocess.Popen(command, env=variables, cwd=folder) as process:
        while True:
            try:
                status = process.wait()
                return 128 - status if status < 0 else status
            except KeyboardInterrupt:
                continue
            except SystemExit:
                process.terminate()
                raise
