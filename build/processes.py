"""Running the programs that build.py starts."""

import signal
import subprocess
import sys
from pathlib import Path


def call(
    command: list[str], variables: dict[str, str] | None = None, folder: str | Path | None = None
) -> int:
    """Runs a program and returns its exit status, as a shell reports it.

    Ctrl-C reaches the program too, which decides how to react. If this process is killed, it stops
    the program, waits for its end and exits.
    """
    process = None
    killed = False

    def stop(*_) -> None:
        nonlocal killed
        killed = True
        if process is not None:
            process.terminate()

    # An exception would be lost with the program's handle if it came while the program starts.
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        process = subprocess.Popen(command, env=variables, cwd=folder)
        if killed:
            process.terminate()
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGTERM, previous)
    if killed:
        sys.exit(128 + signal.SIGTERM)
    return 128 - status if status < 0 else status
