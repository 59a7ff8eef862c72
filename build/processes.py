"""Programs that build.py starts and waits for."""

import subprocess
from pathlib import Path


def call(
    command: list[str], variables: dict[str, str] | None = None, folder: str | Path | None = None
) -> int:
    """Runs a program to its end; its exit status, as a shell has it.

    Ctrl-C reaches the program as well, which decides what to do. What stops this process otherwise (SystemExit,
    from a plain kill) stops the program first.
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
