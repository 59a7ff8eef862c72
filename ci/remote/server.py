"""BuildGrid's server with a storage that hands out nothing damaged, and a queue that knows who works.

    server.py server start FILE          FILE: its configuration, as server.yml

It takes the arguments of BuildGrid's `bgd`.
"""

import datetime
import hashlib
import os
import sys
import threading
import time
from typing import IO

from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2 import Digest
from buildgrid._protos.google.rpc import code_pb2
from buildgrid._protos.google.rpc.status_pb2 import Status
from buildgrid.server.app import cli
from buildgrid.server.app.settings import parser
from buildgrid.server.cas.storage.disk import DiskStorage
from buildgrid.server.enums import OperationStage
from buildgrid.server.scheduler import Scheduler
from buildgrid.server.scheduler.properties import PropertyLabel
from buildgrid.server.sql.models import JobEntry, PropertyLabelEntry
from sqlalchemy import select


class CheckedStorage(DiskStorage):
    """Files by digest, of which those that are not what their digests say are removed.

    So they are missing wherever they are asked for: by the action cache, which then has no result, and the action
    is executed; by Bazel for inputs, which it uploads again, or makes again; by workers. What is read is always
    compared with its digest. What is only asked for is so once, and again where the file has changed since.
    """

    def __init__(self, path: str):
        super().__init__(path)
        self._sound: dict[str, tuple[int, ...]] = {}
        self._removing = threading.Lock()

    def has_blob(self, digest: Digest) -> bool:
        return not self.missing_blobs([digest])

    def missing_blobs(self, digests: list[Digest]) -> list[Digest]:
        return [digest for digest in digests if not self._is_sound(digest)]

    def get_blob(self, digest: Digest) -> IO[bytes] | None:
        file = super().get_blob(digest)
        if file is None or self._compare(digest, file):
            return file
        file.close()
        return None

    def bulk_read_blobs(self, digests: list[Digest]) -> dict[str, bytes]:
        found = super().bulk_read_blobs(digests)
        for digest in digests:
            # read anew where it is damaged, so that what is removed is what was looked at
            data = found.get(digest.hash)
            if data is not None and hashlib.sha256(data).hexdigest() != digest.hash:
                del found[digest.hash]
                self.get_blob(digest)
        return found

    def commit_write(self, digest: Digest, write_session: IO[bytes]) -> None:
        self.missing_blobs([digest])  # what is there already is not written
        super().commit_write(digest, write_session)

    def bulk_update_blobs(self, blobs: list[tuple[Digest, bytes]]) -> list[Status]:
        self.missing_blobs([digest for digest, _ in blobs])
        return super().bulk_update_blobs(blobs)

    def _is_sound(self, digest: Digest) -> bool:
        try:
            if self._sound.get(digest.hash) == _identity(os.stat(self._get_object_path(digest))):
                return True
        except FileNotFoundError:
            return False
        if file := self.get_blob(digest):
            file.close()
        return file is not None

    def _compare(self, digest: Digest, file: IO[bytes]) -> bool:
        """Whether an open file is what its digest says. It is removed if it is not."""
        identity = _identity(os.fstat(file.fileno()))
        sha = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        if sha == digest.hash:
            self._sound[digest.hash] = identity
            return True
        path = self._get_object_path(digest)
        with self._removing:
            # unless another thread has, and a right one is there by now
            if os.path.exists(path) and _identity(os.stat(path)) == identity:
                os.remove(path)
                print(f"removed what was not {digest.hash}/{digest.size_bytes}", flush=True)
        return False


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class PatientScheduler(Scheduler):
    """A queue in which actions wait for busy workers as long as it takes, but not for workers that there are not.

    BuildGrid's own limit of the time in the queue (`queue-timeout-job-max-age`, which is the patience here) does not
    tell them apart, and Bazel asks again after its error.
    """

    def queue_timer_loop(self, shutdown_requested: threading.Event) -> None:
        options = self.queue_timeout_options
        seen: dict[str, float] = {}
        start = time.monotonic()
        while not shutdown_requested.wait(options.handling_period.total_seconds()):
            now = time.monotonic()
            try:
                seen |= dict.fromkeys(self._announced(), now)
                for kind in self.property_set.property_labels:
                    if now - seen.get(kind.label, start) > options.job_max_age.total_seconds():
                        self._refuse(kind, options.job_max_age)
            except Exception as error:  # the database may answer the next time
                print(f"the queue cannot be read: {error!r}", flush=True)

    def _announced(self) -> set[str]:
        """The kinds of workers that there are at the moment."""
        with self._sql.session() as session:
            return set(session.execute(select(PropertyLabelEntry.property_label)).scalars())

    def _refuse(self, kind: PropertyLabel, patience: datetime.timedelta) -> None:
        """Ends the actions that have waited for a kind of worker."""
        waiting = select(JobEntry).where(
            JobEntry.stage == OperationStage.QUEUED.value,
            JobEntry.assigned.is_not(True),
            JobEntry.property_label == kind.label,
            # in BuildGrid's tables times are UTC's, and do not say so
            JobEntry.queued_timestamp
            < datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - patience,
        )
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(kind.properties))
        seconds = patience.total_seconds()
        # after this code, unlike that of a server that is not there, Bazel does not ask again
        self._batch_timeout_jobs(
            waiting.with_for_update(skip_locked=True),
            code_pb2.FAILED_PRECONDITION,
            f"no worker with {wanted} has been there for {seconds:g} s: start one, or ask for what there is",
        )


# BuildGrid makes what its configuration says (`!disk-storage`, `!sql-scheduler`) of these.
parser.DiskStorage = CheckedStorage
parser.Scheduler = PatientScheduler

if __name__ == "__main__":
    sys.exit(cli())
