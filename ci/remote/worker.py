"""A worker of the Remote Workers API, which executes actions in a bare root.

    worker.py --server HOST:PORT --name NAME --root FOLDER --folder FOLDER
        [--property KEY=VALUE ...] [--accelerator cuda --accelerator-count 2]

It announces its properties, asks for leases, one at a time, and renews them while it works. A lease
that the server takes back is stopped. FOLDER/log.jsonl has a line for every action.
"""

import argparse
import json
import signal
import sys
import threading
import time
import uuid
from pathlib import Path

import grpc
from action import Execution
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as re_pb2
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2, worker_pb2
from buildgrid._protos.google.devtools.remoteworkers.v1test2.bots_pb2_grpc import BotsStub
from buildgrid._protos.google.rpc import code_pb2, status_pb2
from content import Storage, Store
from sandbox import Sandbox

# Seconds: how long the server may let a worker without work wait, how often a lease is renewed, and
# how long to leave a server alone that does not answer.
IDLE = 20.0
RENEWAL = 2.0
RETRY = 0.5
# The variables that tell a process which devices are its own, as in build/bazel/accelerator_slot.py.
DEVICE_VARIABLES = {
    "cuda": "CUDA_VISIBLE_DEVICES",
    "rocm": "ROCR_VISIBLE_DEVICES",
    "tpu": "TPU_VISIBLE_CHIPS",
}
GONE = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DATA_LOSS,
)


class Worker:
    """A session with the server, and the execution of the lease that it holds."""

    def __init__(
        self,
        channel: grpc.Channel,
        instance: str,
        name: str,
        properties: list[tuple[str, str]],
        devices: dict[str, str],
        sandbox: Sandbox,
        folder: Path,
    ):
        self.instance, self.name, self.sandbox, self.folder = instance, name, sandbox, folder
        self.properties, self.devices = properties, devices
        self.bots = BotsStub(channel)
        self.store = Store(folder / "store", Storage(channel, instance))
        self.session = bots_pb2.BotSession()
        self.execution: Execution | None = None
        self.thread: threading.Thread | None = None
        self.outcome: tuple[str, re_pb2.ActionResult, status_pb2.Status] | None = None
        self.changed = threading.Event()
        self.ending = threading.Event()

    def serve(self) -> None:
        """Works until `ending` is set."""
        while not self.ending.is_set():
            try:
                if not self.session.name:
                    self._open()
                else:
                    self._update()
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    continue
                self._say("the server does not answer", code=error.code().name, why=error.details())
                if error.code() in GONE:
                    self._drop()
                self.ending.wait(RETRY)
            self._follow()
        self._drop()

    def _open(self) -> None:
        worker = worker_pb2.Worker()
        device = worker.devices.add(handle="machine")
        for key, value in self.properties:
            device.properties.add(key=key, value=value)
        session = bots_pb2.BotSession(
            bot_id=self.name, status=bots_pb2.OK, worker=worker, version=""
        )
        request = bots_pb2.CreateBotSessionRequest(parent=self.instance, bot_session=session)
        self.session = self.bots.CreateBotSession(request, timeout=IDLE)
        self._say("announced", properties=[f"{k}={v}" for k, v in self.properties])

    def _update(self) -> None:
        # A lease that is worked on needs a word now and then; without one the server holds the call.
        if self.thread is not None:
            self.changed.wait(RENEWAL)
        self.changed.clear()
        self._report()
        request = bots_pb2.UpdateBotSessionRequest(name=self.session.name, bot_session=self.session)
        self.session = self.bots.UpdateBotSession(request, timeout=IDLE)

    def _report(self) -> None:
        """Notes in the session that its lease is done, where it is."""
        if self.outcome is None:
            return
        name, result, status = self.outcome
        for lease in self.session.leases:
            if lease.id == name:
                lease.state = bots_pb2.COMPLETED
                lease.status.CopyFrom(status)
                lease.result.Pack(result)

    def _follow(self) -> None:
        """Starts the lease that the session has, and stops one that it has no more."""
        going = [lease for lease in self.session.leases if lease.state != bots_pb2.CANCELLED]
        leases = {lease.id: lease for lease in going}
        if self.thread is not None and self.thread.name not in leases:
            self._drop_execution()
        for lease in leases.values():
            if lease.state in (bots_pb2.PENDING, bots_pb2.ACTIVE) and self.thread is None:
                lease.state = bots_pb2.ACTIVE
                folder = self.folder / "actions" / str(uuid.uuid4())
                self.execution = Execution(
                    self.name, self.store, self.sandbox, folder, self.devices, self._started
                )
                arguments = (lease, self.execution)
                self.thread = threading.Thread(target=self._work, args=arguments, name=lease.id)
                self.thread.start()

    def _work(self, lease: bots_pb2.Lease, execution: Execution) -> None:
        start, before = time.time(), self.store.downloaded
        try:
            action = re_pb2.Action()
            if not lease.payload.Unpack(action):
                raise TypeError(f"the lease has no Action, but a {lease.payload.TypeName()}")
            result, status = execution.run(action)
        except Exception as error:  # whatever it is, the server has to know
            result = re_pb2.ActionResult()
            status = status_pb2.Status(code=code_pb2.INTERNAL, message=repr(error))
        self._say(
            "executed",
            **_description(execution.command),
            start=start,
            exit_code=result.exit_code,
            status=status.message,
            downloaded=self.store.downloaded - before,
            uploaded=execution.uploaded,
        )
        self.outcome = lease.id, result, status
        self.changed.set()

    def _started(self, command: re_pb2.Command) -> None:
        self._say("executing", **_description(command))

    def _drop(self) -> None:
        """Forgets the session, and what was worked on in it."""
        self._drop_execution()
        self.session = bots_pb2.BotSession()

    def _drop_execution(self) -> None:
        if self.thread is not None:
            self.execution.stop()
            self.thread.join()
        self.thread = self.execution = self.outcome = None

    def _say(self, event: str, **details) -> None:
        line = {"time": time.time(), "worker": self.name, "event": event} | details
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _description(command: re_pb2.Command) -> dict:
    variables = {v.name: v.value for v in command.environment_variables}
    return {
        "arguments": list(command.arguments)[:3],
        "outputs": list(command.output_paths)[:1],
        "test": variables.get("TEST_TARGET", ""),
        "shard": variables.get("TEST_SHARD_INDEX", ""),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--instance", default="main")
    parser.add_argument("--name", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--property", action="append", default=[])
    parser.add_argument("--accelerator", choices=DEVICE_VARIABLES)
    parser.add_argument("--accelerator-count", type=int, default=1)
    options = parser.parse_args()
    properties = [tuple(p.split("=", 1)) for p in options.property]
    devices = {}
    if options.accelerator:
        count = options.accelerator_count
        properties.append(("Accelerator", options.accelerator))
        # who asks for fewer is served too
        properties += [("AcceleratorCount", str(n)) for n in range(1, count + 1)]
        devices[DEVICE_VARIABLES[options.accelerator]] = ",".join(map(str, range(count)))
    options.folder.mkdir(parents=True, exist_ok=True)
    sandbox = Sandbox(options.root, options.folder / "tmp")
    with grpc.insecure_channel(options.server) as channel:
        worker = Worker(
            channel,
            options.instance,
            options.name,
            properties,
            devices,
            sandbox,
            options.folder.absolute(),
        )
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: (worker.ending.set(), worker.changed.set()))
        worker.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
