"""Programs that run as several processes: started, killed, and waited for within a time limit.

    with process_testing.start(PROGRAM, 2) as run:
        run[1].wait_for("ready")
        run[1].kill()
        results = run.finish()

`PROGRAM` is the text of a program that calls `jax.distributed.initialize()`, without arguments;
`run(PROGRAM, n)` starts it n times and returns the output of each process, or fails with all of
their output if one ends with an error.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT = 60  # seconds; a test that takes so long has failed


@dataclass
class Result:
    """What has become of a process; a negative status is the number of a signal."""

    status: int
    stdout: str
    stderr: str


class Process:
    """A started process, whose output is read as it comes."""

    def __init__(self, command, env, cwd):
        self._popen = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._news = threading.Condition()
        self._lines = {"stdout": [], "stderr": []}
        self._readers = [threading.Thread(target=self._read, args=(name,)) for name in self._lines]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        for line in getattr(self._popen, name):
            with self._news:
                self._lines[name].append(line)
                self._news.notify_all()

    @property
    def pid(self):
        return self._popen.pid

    def output(self, name="stdout"):
        with self._news:
            return "".join(self._lines[name])

    def wait_for(self, text, name="stdout", seconds=TIME_LIMIT):
        """Waits until the process has printed a text."""
        with self._news:
            found = self._news.wait_for(
                lambda: any(text in line for line in self._lines[name]), seconds
            )
        assert found, f"no {text!r} in:\n{self.output('stdout')}\n{self.output('stderr')}"

    def kill(self, number=signal.SIGKILL):
        """Sends a signal to the process."""
        self._popen.send_signal(number)

    def finish(self, seconds) -> Result:
        """Waits for the end of the process.

        Raises:
          subprocess.TimeoutExpired: it is still there after so many seconds.
        """
        self._popen.wait(seconds)
        for reader in self._readers:
            reader.join()
        return Result(self._popen.returncode, self.output(), self.output("stderr"))

    def stop(self):
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        for reader in self._readers:
            reader.join()
        self._popen.stdout.close()
        self._popen.stderr.close()


class Run(list):
    """The processes of a program, by their numbers, which work in a folder of their own."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="jax-processes-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self:
            process.stop()
        self.folder.cleanup()

    def finish(self, seconds=TIME_LIMIT) -> list[Result]:
        """Waits until all processes have ended; fails if one is still there after so many seconds."""
        deadline = time.monotonic() + seconds
        results = []
        for i, process in enumerate(self):
            try:
                results.append(process.finish(max(deadline - time.monotonic(), 0.01)))
            except subprocess.TimeoutExpired:
                raise AssertionError(
                    f"process {i} is still there after {seconds} seconds:\n{self.report()}"
                ) from None
        return results

    def report(self) -> str:
        return "\n".join(
            f"--- process {i}, stdout:\n{process.output()}--- stderr:\n{process.output('stderr')}"
            for i, process in enumerate(self)
        )


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(program, n, *, devices=1, args=(), env=None, only=None) -> Run:
    """Starts a program n times, each time with so many CPU devices.

    Args:
      program: the text of a Python program, or a list of texts: one for each process.
      n: the number of processes.
      devices: the number of CPU devices of each.
      args: the program's arguments.
      env: environment variables to set, or to remove (None).
      only: the numbers of the processes to start; by default all.
    """
    port = free_port()
    run = Run()
    folder = run.folder.name
    for i in range(n) if only is None else only:
        path = Path(folder, f"program{i}.py")
        path.write_text(program if isinstance(program, str) else program[i])
        variables = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(devices),
            "JAX_LAUNCH_COORDINATOR": f"127.0.0.1:{port}",
            "JAX_LAUNCH_NUM_PROCESSES": str(n),
            "JAX_LAUNCH_PROCESS_ID": str(i),
            **(env or {}),
        }
        variables = {name: value for name, value in variables.items() if value is not None}
        run.append(Process([sys.executable, str(path), *map(str, args)], variables, folder))
    return run


def run(program, n, *, seconds=TIME_LIMIT, **options) -> list[str]:
    """Runs a program as n processes, which must all end without an error; returns their output."""
    with start(program, n, **options) as processes:
        results = processes.finish(seconds)
        assert not any(result.status for result in results), (
            f"{[result.status for result in results]}\n{processes.report()}"
        )
    return [result.stdout for result in results]
