"""A worker beside a server in this process, which gives it what a sound server would not: blobs that are not what their
digests say, actions that do not end, leases that are taken back.

Run by ci/remote.sh before the tests of the whole. It takes bwrap and the bare root (JAX_REMOTE_ROOT), no Bazel.
"""

import collections
import concurrent.futures
import json
import os
import threading
import time
from pathlib import Path

import grpc
import pytest
import worker as worker_module
from buildgrid._protos.build.bazel.remote.execution.v2 import (
    remote_execution_pb2 as re_pb2,
    remote_execution_pb2_grpc as re_grpc,
)
from buildgrid._protos.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2, bots_pb2_grpc
from content import BATCH_BYTES, digest_of
from sandbox import Sandbox
from worker import Worker

CODES = {code.value[0]: code.name for code in grpc.StatusCode}
RENEWAL = 0.1  # seconds


class Server(
    re_grpc.ContentAddressableStorageServicer,
    bytestream_pb2_grpc.ByteStreamServicer,
    bots_pb2_grpc.BotsServicer,
):
    """Storage and leases. `blobs` are by digest, so that one can be what its digest does not say."""

    def __init__(self):
        self.blobs: dict[str, bytes] = {}
        self.leases: dict[str, bots_pb2.Lease] = {}
        self.done: dict[str, bots_pb2.Lease] = {}
        self.words: collections.Counter = collections.Counter()  # of leases that are worked on
        self.left_out: set[str] = set()  # digests that answers to several leave out
        self.changed = threading.Condition()
        self.asked = threading.Event()  # for inputs
        self.open = threading.Event()  # whether they are given
        self.open.set()

    # Storage

    def put(self, data: bytes) -> re_pb2.Digest:
        digest = digest_of(data)
        self.blobs[digest.hash] = data
        return digest

    def put_message(self, message) -> re_pb2.Digest:
        return self.put(message.SerializeToString(deterministic=True))

    def FindMissingBlobs(self, request, context):
        missing = [d for d in request.blob_digests if d.hash not in self.blobs]
        return re_pb2.FindMissingBlobsResponse(missing_blob_digests=missing)

    def BatchReadBlobs(self, request, context):
        response = re_pb2.BatchReadBlobsResponse()
        self.asked.set()
        assert self.open.wait(30)
        for digest in request.digests:
            if digest.hash in self.left_out:
                continue
            each = response.responses.add(digest=digest)
            if digest.hash in self.blobs:
                each.data = self.blobs[digest.hash]
            else:
                each.status.code = grpc.StatusCode.NOT_FOUND.value[0]
        return response

    def BatchUpdateBlobs(self, request, context):
        response = re_pb2.BatchUpdateBlobsResponse()
        for each in request.requests:
            self.blobs[each.digest.hash] = each.data
            response.responses.add(digest=each.digest)
        return response

    def Read(self, request, context):
        name = request.resource_name.split("/")[-2]
        if name not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        data = self.blobs[name]
        for start in range(0, len(data), 1 << 20):
            yield bytestream_pb2.ReadResponse(data=data[start : start + (1 << 20)])

    # Leases

    def CreateBotSession(self, request, context):
        session = request.bot_session
        session.name = f"{request.parent}/1"
        return session

    def UpdateBotSession(self, request, context):
        session = request.bot_session
        with self.changed:
            for lease in session.leases:
                if lease.id in self.leases and lease.state == bots_pb2.COMPLETED:
                    del self.leases[lease.id]
                    self.done[lease.id] = lease
                elif lease.state == bots_pb2.ACTIVE:
                    self.words[lease.id] += 1
            if not session.leases and not self.leases:
                self.changed.wait(1)  # as a server without work
            del session.leases[:]
            session.leases.extend(self.leases.values())
            self.changed.notify_all()
        return session

    def wait_until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        with self.changed:
            while not (found := condition()):
                assert time.monotonic() < end, "it did not happen"
                self.changed.wait(0.05)
        return found

    def lend(self, name, action, state=bots_pb2.ACTIVE) -> None:
        lease = bots_pb2.Lease(id=name, state=state)
        lease.payload.Pack(action)
        with self.changed:
            self.leases[name] = lease
            self.changed.notify_all()

    def outcome(self, name):
        """The name of the status of a lease, what is said, and the result, once it is done."""
        lease = self.wait_until(lambda: self.done.get(name))
        result = re_pb2.ActionResult()
        lease.result.Unpack(result)
        return CODES[lease.status.code], lease.status.message, result

    def execute(self, name, action):
        self.lend(name, action)
        return self.outcome(name)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def worker(server, tmp_path, monkeypatch):
    """A worker that serves in a thread. Its folder is `tmp_path`."""
    monkeypatch.setattr(worker_module, "RENEWAL", RENEWAL)
    pool = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    re_grpc.add_ContentAddressableStorageServicer_to_server(server, pool)
    bots_pb2_grpc.add_BotsServicer_to_server(server, pool)
    bytestream_pb2_grpc.add_ByteStreamServicer_to_server(server, pool)
    port = pool.add_insecure_port("127.0.0.1:0")
    pool.start()
    sandbox = Sandbox(Path(os.environ["JAX_REMOTE_ROOT"]), tmp_path / "tmp")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        worker = Worker(channel, "main", "cpu-0", [("Pool", "cpu")], {}, sandbox, tmp_path)
        thread = threading.Thread(target=worker.serve)
        thread.start()
        yield worker
        worker.ending.set()
        worker.changed.set()
        with server.changed:
            server.changed.notify_all()
        thread.join()
    pool.stop(None).wait()


def directory(server, files=(), folders=()) -> re_pb2.Digest:
    """The digest of a Directory of files and folders, which are pairs of names and digests."""
    message = re_pb2.Directory()
    for name, digest in files:
        message.files.add(name=name, digest=digest)
    for name, digest in folders:
        message.directories.add(name=name, digest=digest)
    return server.put_message(message)


def shell(server, script, root=None, seconds=0.0) -> re_pb2.Action:
    """An action that runs a script, whose output is the file `out`."""
    command = re_pb2.Command(arguments=["/bin/bash", "-c", script], output_paths=["out"])
    command.environment_variables.add(name="PATH", value="/usr/bin:/bin")
    action = re_pb2.Action(
        command_digest=server.put_message(command), input_root_digest=root or directory(server)
    )
    action.timeout.FromMilliseconds(int(1000 * seconds))
    return action


def changed(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_an_action_is_done(server, worker):
    root = directory(server, [("name", server.put(b"world"))])
    action = shell(server, "echo Hello, $(cat name) >out; echo said; echo wrong >&2; exit 3", root)
    code, message, result = server.execute("1", action)
    assert (code, message, result.exit_code) == ("OK", "", 3)
    (out,) = result.output_files
    assert (out.path, server.blobs[out.digest.hash]) == ("out", b"Hello, world\n")
    assert server.blobs[result.stdout_digest.hash] == b"said\n"
    assert server.blobs[result.stderr_digest.hash] == b"wrong\n"
    assert result.execution_metadata.worker == "cpu-0"


@pytest.mark.parametrize("kind", ["command", "directory", "folder", "small", "large"])
def test_an_input_that_is_not_what_its_digest_says_is_refused(server, worker, tmp_path, kind):
    small, large = server.put(b"a file"), server.put(bytes(BATCH_BYTES + 1))
    folder = directory(server, [("small", small)])
    root = directory(server, [("large", large)], [("folder", folder)])
    action = shell(server, "cat folder/small >out; touch /var/tmp/it-ran", root)
    digests = {"command": action.command_digest, "directory": root, "folder": folder}
    digest = (digests | {"small": small, "large": large})[kind]
    right = server.blobs[digest.hash]
    for n, wrong in enumerate((changed(right), right + b"x", right[:-1], b"")):
        server.blobs[digest.hash] = wrong
        code, message, result = server.execute(str(n), action)
        assert code == "DATA_LOSS", message
        assert digest.hash in message and digest_of(wrong).hash in message
        assert not result.output_files
    assert not (tmp_path / "tmp" / "it-ran").exists()
    # nothing of it is kept, and the worker goes on
    kept = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert all(digest_of(path.read_bytes()).hash == path.stem for path in kept)
    server.blobs[digest.hash] = right
    code, message, result = server.execute("last", action)
    assert (code, result.exit_code) == ("OK", 0), message
    assert server.blobs[result.output_files[0].digest.hash] == b"a file"


@pytest.mark.parametrize("how", ["not found", "left out of the answer"])
@pytest.mark.parametrize("kind", ["folder", "small"])
def test_an_input_that_the_storage_lacks_is_named(server, worker, kind, how):
    small = server.put(b"a file")
    folder = directory(server, [("small", small)])
    action = shell(server, "cat folder/small >out", directory(server, [], [("folder", folder)]))
    digest = {"folder": folder, "small": small}[kind]
    if how == "not found":
        del server.blobs[digest.hash]
    else:
        server.left_out.add(digest.hash)
    code, message, _ = server.execute("1", action)
    assert code == "FAILED_PRECONDITION"
    assert message == f"the storage lacks {digest.hash}/{digest.size_bytes}"
    violation = server.done["1"].status.details[0].value
    assert b"MISSING" in violation and digest.hash.encode() in violation


def test_an_action_that_is_longer_than_its_time_out_ends(server, worker, tmp_path):
    script = "echo begun; echo part >out; (while sleep 0.05; do date +%N >/var/tmp/beat; done) & sleep 60"
    start = time.monotonic()
    code, message, result = server.execute("1", shell(server, script, seconds=3.5))
    assert 3.5 < time.monotonic() - start < 30
    assert (code, message) == ("DEADLINE_EXCEEDED", "ran longer than 3.5 s")
    assert result.exit_code == 137
    # what it printed and wrote is there, and no process of it is left
    assert server.blobs[result.stdout_digest.hash] == b"begun\n"
    assert server.blobs[result.output_files[0].digest.hash] == b"part\n"
    beat = (tmp_path / "tmp" / "beat").read_text()
    time.sleep(0.5)
    assert (tmp_path / "tmp" / "beat").read_text() == beat
    assert not list((tmp_path / "actions").iterdir())
    assert server.execute("2", shell(server, "true", seconds=60))[0] == "OK"


def test_a_lease_is_renewed_while_its_action_runs(server, worker):
    server.lend("1", shell(server, "sleep 2"))
    server.wait_until(lambda: server.words["1"])
    before, start = server.words["1"], time.monotonic()
    code, message, _ = server.outcome("1")
    # at least every half second on a busy machine, and not much more often than RENEWAL says
    passed = time.monotonic() - start
    assert (code, message) == ("OK", "")
    assert passed / 0.5 - 1 < server.words["1"] - before <= passed / RENEWAL + 1


def test_a_lease_is_renewed_while_inputs_are_fetched(server, worker):
    server.open.clear()
    server.lend("1", shell(server, "true"))
    assert server.asked.wait(30)
    before = server.words["1"]
    server.wait_until(lambda: server.words["1"] >= before + 5)
    assert "1" not in server.done
    server.open.set()
    assert server.outcome("1")[0] == "OK"


def test_a_lease_that_waits_to_be_accepted_is(server, worker):
    server.lend("1", shell(server, "true"), bots_pb2.PENDING)
    assert server.outcome("1")[0] == "OK"


@pytest.mark.parametrize("how", ["taken back", "cancelled"])
def test_a_lease_that_the_server_ends_is_stopped(server, worker, tmp_path, how):
    beat = tmp_path / "tmp" / "beat"
    server.lend("1", shell(server, "while sleep 0.05; do date +%N >/var/tmp/beat; done"))
    server.wait_until(beat.exists)
    with server.changed:
        if how == "cancelled":
            server.leases["1"].state = bots_pb2.CANCELLED
        else:
            del server.leases["1"]
    server.wait_until(lambda: not list((tmp_path / "actions").iterdir()))
    last = beat.read_text()
    with server.changed:
        server.leases.clear()
    assert server.execute("2", shell(server, "true"))[0] == "OK"
    assert beat.read_text() == last and "1" not in server.done


def test_a_lease_of_something_else_is_refused(server, worker, tmp_path):
    code, message, _ = server.execute("1", digest_of(b""))
    assert code == "INTERNAL" and "build.bazel.remote.execution.v2.Digest" in message
    (line,) = [
        line for line in map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
        if line["event"] == "executed"
    ]  # fmt: skip
    assert line["status"] == message
