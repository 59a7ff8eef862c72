"""Executes an action: fetches its inputs, runs it, uploads its outputs."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as re_pb2
from buildgrid._protos.google.rpc import error_details_pb2, status_pb2
from content import CorruptedBlob, MissingBlob, Outputs, Storage, Store, text
from sandbox import Sandbox, kill

DEFAULT_TIMEOUT = 3600.0


class Execution:
    """One action on this worker. `run` ends early with the process after `stop`."""

    def __init__(
        self,
        worker: str,
        store: Store,
        sandbox: Sandbox,
        folder: Path,
        devices: dict[str, str],
        started: Callable[[re_pb2.Command], None],
    ):
        self.worker, self.store, self.sandbox, self.folder = worker, store, sandbox, folder
        self.devices, self.started = devices, started
        self.stopped = threading.Event()
        self.uploaded = 0
        self.command = re_pb2.Command()

    @property
    def storage(self) -> Storage:
        return self.store.storage

    def stop(self) -> None:
        self.stopped.set()

    def run(self, action: re_pb2.Action) -> tuple[re_pb2.ActionResult, status_pb2.Status]:
        """Returns the result, and a status that is not OK where the action could not be done."""
        result = re_pb2.ActionResult()
        result.execution_metadata.worker = self.worker
        try:
            status = self._run(action, result)
        except MissingBlob as error:
            status = _status(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            failure = error_details_pb2.PreconditionFailure()
            failure.violations.add(type="MISSING", subject=f"blobs/{text(error.digest)}")
            status.details.add().Pack(failure)
        except CorruptedBlob as error:
            status = _status(grpc.StatusCode.DATA_LOSS, str(error))
        except (OSError, grpc.RpcError) as error:
            # Another worker, or another try, may do it.
            status = _status(grpc.StatusCode.UNAVAILABLE, f"worker {self.worker}: {error}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return result, status

    def _run(self, action: re_pb2.Action, result: re_pb2.ActionResult) -> status_pb2.Status:
        times = result.execution_metadata
        times.worker_start_timestamp.GetCurrentTime()
        self.command = self.storage.message(action.command_digest, re_pb2.Command)
        times.input_fetch_start_timestamp.GetCurrentTime()
        root = self.folder / "root"
        root.mkdir(parents=True)
        directory = self.command.working_directory
        work = root / directory
        names = list(self.command.output_paths) or [
            *self.command.output_files,
            *self.command.output_directories,
        ]
        writable = [str(Path(directory, name).parent) for name in names]
        writable += [str(Path(directory, name)) for name in names]
        mounts = self.store.lay_out(action.input_root_digest, root, [directory, *writable])
        for name in names:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
        for name in self.command.output_directories:
            (work / name).mkdir(parents=True, exist_ok=True)
        times.input_fetch_completed_timestamp.GetCurrentTime()

        self.started(self.command)
        times.execution_start_timestamp.GetCurrentTime()
        limit = action.timeout.ToTimedelta().total_seconds() or DEFAULT_TIMEOUT
        status = self._execute(root, mounts, limit, result)
        times.execution_completed_timestamp.GetCurrentTime()

        times.output_upload_start_timestamp.GetCurrentTime()
        outputs = Outputs(work)
        for name in sorted(set(names)):
            outputs.add(result, name)
        result.stdout_digest.CopyFrom(outputs.add_file(self.folder / "stdout")[0])
        result.stderr_digest.CopyFrom(outputs.add_file(self.folder / "stderr")[0])
        self.uploaded = self.storage.upload(outputs.blobs)
        times.output_upload_completed_timestamp.GetCurrentTime()
        times.worker_completed_timestamp.GetCurrentTime()
        return status

    def _execute(
        self,
        root: Path,
        mounts: list[tuple[Path, str]],
        limit: float,
        result: re_pb2.ActionResult,
    ) -> status_pb2.Status:
        environment = {v.name: v.value for v in self.command.environment_variables}
        process = self.sandbox.start(
            list(self.command.arguments),
            environment | self.devices,
            root,
            mounts,
            self.command.working_directory,
            self.folder / "stdout",
            self.folder / "stderr",
        )
        end = time.monotonic() + limit
        try:
            while not self.stopped.is_set():
                try:
                    code = process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    if time.monotonic() < end:
                        continue
                    result.exit_code = 128 + 9
                    return _status(
                        grpc.StatusCode.DEADLINE_EXCEEDED, f"ran longer than {limit:g} s"
                    )
                result.exit_code = code if code >= 0 else 128 - code
                return status_pb2.Status()
            return _status(grpc.StatusCode.CANCELLED, "cancelled")
        finally:
            kill(process)


def _status(code: grpc.StatusCode, message: str) -> status_pb2.Status:
    return status_pb2.Status(code=code.value[0], message=message)
