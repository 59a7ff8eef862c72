"""Content-addressed files: a client of the server's storage with a store on the worker's disk."""

import hashlib
import os
import stat
import threading
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as re_pb2
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2_grpc import (
    ContentAddressableStorageStub,
)
from buildgrid._protos.google.bytestream import bytestream_pb2
from buildgrid._protos.google.bytestream.bytestream_pb2_grpc import ByteStreamStub

Digest = re_pb2.Digest
# Blobs of one message, which gRPC limits to 4 MiB; larger ones are streamed.
BATCH_BYTES = 2 << 20
BATCH_BLOBS = 400
CHUNK = 1 << 20


class CorruptedBlob(Exception):
    """Raised if the storage returns something else than what was asked for."""


class MissingBlob(Exception):
    """Raised if the storage does not have a blob."""

    def __init__(self, digest: Digest):
        super().__init__(f"the storage lacks {text(digest)}")
        self.digest = digest


def text(digest: Digest) -> str:
    return f"{digest.hash}/{digest.size_bytes}"


def digest_of(data: bytes) -> Digest:
    return Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def digest_of_file(path: Path) -> Digest:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Digest(hash=digest, size_bytes=file.tell())


def batches(sized: Iterable[tuple[object, int]]) -> Iterator[list]:
    """Groups items by their sizes into those of one message each."""
    group, total = [], 0
    for item, size in sized:
        if group and (total + size > BATCH_BYTES or len(group) == BATCH_BLOBS):
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group


class Storage:
    """The server's storage. Everything read from it is compared with its digest."""

    def __init__(self, channel: grpc.Channel, instance: str):
        self.instance = instance
        self._blobs = ContentAddressableStorageStub(channel)
        self._streams = ByteStreamStub(channel)

    def read(self, digest: Digest) -> bytes:
        return b"".join(self.chunks(digest))

    def message(self, digest: Digest, kind: type):
        return kind.FromString(self.read(digest))

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        name = f"{self.instance}/blobs/{text(digest)}"
        sha = hashlib.sha256()
        try:
            for response in self._streams.Read(bytestream_pb2.ReadRequest(resource_name=name)):
                sha.update(response.data)
                yield response.data
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                raise MissingBlob(digest) from error
            raise
        if sha.hexdigest() != digest.hash:
            raise CorruptedBlob(f"the storage's {text(digest)} has the digest {sha.hexdigest()}")

    def read_batch(self, digests: list[Digest]) -> Iterator[tuple[Digest, bytes]]:
        request = re_pb2.BatchReadBlobsRequest(instance_name=self.instance, digests=digests)
        lacking = {digest.hash: digest for digest in digests}
        for response in self._blobs.BatchReadBlobs(request).responses:
            lacking.pop(response.digest.hash, None)
            if response.status.code == grpc.StatusCode.NOT_FOUND.value[0]:
                raise MissingBlob(response.digest)
            if response.status.code:
                raise OSError(f"{text(response.digest)}: {response.status.message}")
            found = digest_of(response.data)
            if found != response.digest:
                raise CorruptedBlob(
                    f"the storage's {text(response.digest)} has the digest {text(found)}"
                )
            yield response.digest, response.data
        for digest in lacking.values():  # which the answer has left out
            raise MissingBlob(digest)

    def upload(self, blobs: dict[str, tuple[Digest, bytes | Path]]) -> int:
        """Uploads what the storage lacks of blobs by their hashes; returns how many bytes."""
        missing: list[Digest] = []
        digests = [digest for digest, _ in blobs.values()]
        for start in range(0, len(digests), BATCH_BLOBS):
            request = re_pb2.FindMissingBlobsRequest(
                instance_name=self.instance, blob_digests=digests[start : start + BATCH_BLOBS]
            )
            missing += self._blobs.FindMissingBlobs(request).missing_blob_digests
        small = [d for d in missing if d.size_bytes <= BATCH_BYTES]
        for group in batches((d, d.size_bytes) for d in small):
            request = re_pb2.BatchUpdateBlobsRequest(instance_name=self.instance)
            for digest in group:
                source = blobs[digest.hash][1]
                data = source if isinstance(source, bytes) else source.read_bytes()
                request.requests.add(digest=digest, data=data)
            for response in self._blobs.BatchUpdateBlobs(request).responses:
                if response.status.code:
                    raise OSError(f"{text(response.digest)}: {response.status.message}")
        for digest in missing:
            if digest.size_bytes > BATCH_BYTES:
                self._stream_up(digest, blobs[digest.hash][1])
        return sum(digest.size_bytes for digest in missing)

    def _stream_up(self, digest: Digest, source: bytes | Path) -> None:
        name = f"{self.instance}/uploads/{uuid.uuid4()}/blobs/{text(digest)}"

        def requests():
            for offset in range(0, digest.size_bytes, CHUNK):
                if isinstance(source, bytes):
                    data = source[offset : offset + CHUNK]
                else:
                    file.seek(offset)
                    data = file.read(CHUNK)
                yield bytestream_pb2.WriteRequest(
                    resource_name=name if offset == 0 else "",
                    write_offset=offset,
                    data=data,
                    finish_write=offset + len(data) == digest.size_bytes,
                )

        if isinstance(source, bytes):
            self._streams.Write(requests())
        else:
            with source.open("rb") as file:
                self._streams.Write(requests())


class Store:
    """Files on the worker's disk by digest, to which input trees are hard links.

    They are read-only. A file that may be executed has a name of its own, since links share their
    permissions. Folders with many files that come again (compilers, interpreters, packages) are
    laid out once, and mounted. `downloaded` counts bytes.
    """

    # The number of files from which on a folder that comes again is mounted.
    MANY = 300

    def __init__(self, folder: Path, storage: Storage):
        self.folder, self.storage = folder, storage
        self.downloaded = 0
        self._lock = threading.Lock()
        self._trees: dict[str, re_pb2.Directory] = {}
        self._sizes: dict[str, int] = {}
        self._seen: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, digest: Digest, executable: bool) -> Path:
        return self.folder / digest.hash[:2] / f"{digest.hash}{'.x' * executable}"

    def lay_out(
        self, root: Digest, target: Path, writable: Iterable[str]
    ) -> list[tuple[Path, str]]:
        """Makes the tree of the directory `root` in `target`, which exists.

        Args:
          root: of a Directory.
          target: where to.
          writable: paths in it, the parts of which have to be folders of the action's own.

        Returns:
          Folders that have to be mounted, and where, as a path in `target`.
        """
        self._fetch_directories(root)
        self._fetch_files(root)
        mounts: list[tuple[Path, str]] = []
        own = {"", *(str(p) for path in writable for p in (Path(path), *Path(path).parents))}
        self._fill(root, target, "", own, mounts)
        return mounts

    def _fill(
        self,
        digest: Digest,
        target: Path,
        path: str,
        own: set[str],
        mounts: list[tuple[Path, str]] | None,
    ) -> None:
        """Lays out a directory; without `mounts` all of it is links."""
        again = digest.hash in self._seen
        if mounts is not None and path not in own:
            if again and self._size(digest) >= self.MANY:
                mounts.append((self._tree(digest), path))
                return
            self._seen.add(digest.hash)
        directory = self._trees[digest.hash]
        for node in directory.files:
            os.link(self.path(node.digest, node.is_executable), target / node.name)
        for link in directory.symlinks:
            os.symlink(link.target, target / link.name)
        for node in directory.directories:
            (target / node.name).mkdir()
            inner = f"{path}/{node.name}" if path else node.name
            self._fill(node.digest, target / node.name, inner, own, mounts)

    def _size(self, digest: Digest) -> int:
        if digest.hash not in self._sizes:
            directory = self._trees[digest.hash]
            inner = sum(self._size(node.digest) for node in directory.directories)
            self._sizes[digest.hash] = len(directory.files) + inner
        return self._sizes[digest.hash]

    def _tree(self, digest: Digest) -> Path:
        """A folder with a whole directory, made once."""
        path = self.folder / "trees" / digest.hash
        if not path.exists():
            partial = path.with_name(f"{digest.hash}.{uuid.uuid4()}")
            partial.mkdir(parents=True)
            self._fill(digest, partial, "", set(), None)
            partial.rename(path)
        return path

    def _fetch_directories(self, root: Digest) -> None:
        wanted = {root.hash: root}
        while wanted:
            unknown = [d for d in wanted.values() if d.hash not in self._trees]
            for group in batches((d, d.size_bytes) for d in unknown):
                for digest, data in self.storage.read_batch(group):
                    self._trees[digest.hash] = re_pb2.Directory.FromString(data)
            wanted = {
                node.digest.hash: node.digest
                for digest in wanted.values()
                for node in self._trees[digest.hash].directories
            }

    def _directories(self, root: Digest) -> Iterator[re_pb2.Directory]:
        seen, pending = {root.hash}, [root]
        while pending:
            directory = self._trees[pending.pop().hash]
            yield directory
            for node in directory.directories:
                if node.digest.hash not in seen:
                    seen.add(node.digest.hash)
                    pending.append(node.digest)

    def _fetch_files(self, root: Digest) -> None:
        missing: dict[tuple[str, bool], Digest] = {}
        for directory in self._directories(root):
            for node in directory.files:
                key = node.digest.hash, node.is_executable
                if key not in missing and not self.path(node.digest, node.is_executable).exists():
                    missing[key] = node.digest
        small = {d.hash: d for d in missing.values() if d.size_bytes <= BATCH_BYTES}
        for group in batches((d, d.size_bytes) for d in small.values()):
            for digest, data in self.storage.read_batch(group):
                for executable in (False, True):
                    if (digest.hash, executable) in missing:
                        self._keep(digest, executable, [data])
        for (name, executable), digest in missing.items():
            if name not in small:
                self._keep(digest, executable, self.storage.chunks(digest))

    def _keep(self, digest: Digest, executable: bool, chunks: Iterable[bytes]) -> None:
        path = self.path(digest, executable)
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(f"{path.name}.{uuid.uuid4()}")
        try:
            with partial.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            partial.chmod(0o555 if executable else 0o444)
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
        with self._lock:
            self.downloaded += digest.size_bytes


class Outputs:
    """Collects an action's outputs as messages, and their blobs to upload."""

    def __init__(self, root: Path):
        self.root = root
        self.blobs: dict[str, tuple[Digest, bytes | Path]] = {}

    def add_blob(self, data: bytes) -> Digest:
        digest = digest_of(data)
        self.blobs[digest.hash] = digest, data
        return digest

    def add_file(self, path: Path) -> tuple[Digest, bool]:
        digest = digest_of_file(path)
        self.blobs[digest.hash] = digest, path
        return digest, bool(path.stat().st_mode & stat.S_IXUSR)

    def add(self, result: re_pb2.ActionResult, name: str) -> None:
        """Adds an output to `result`, by its name under `root`; one that is not there is left out."""
        path = self.root / name
        if path.is_symlink() and not self._inside(path):
            result.output_symlinks.add(path=name, target=os.readlink(path))
        elif path.is_dir():
            tree = re_pb2.Tree()
            children: dict[str, re_pb2.Directory] = {}
            tree.root.CopyFrom(self._directory(path, children))
            tree.children.extend(children.values())
            digest = self.add_blob(tree.SerializeToString(deterministic=True))
            result.output_directories.add(path=name, tree_digest=digest)
        elif path.is_file():
            digest, executable = self.add_file(path)
            result.output_files.add(path=name, digest=digest, is_executable=executable)

    def _inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.root.resolve())

    def _directory(self, path: Path, children: dict[str, re_pb2.Directory]) -> re_pb2.Directory:
        directory = re_pb2.Directory()
        for entry in sorted(path.iterdir()):
            if entry.is_symlink() and not self._inside(entry):
                directory.symlinks.add(name=entry.name, target=os.readlink(entry))
            elif entry.is_dir():
                child = self._directory(entry, children)
                digest = digest_of(child.SerializeToString(deterministic=True))
                children[digest.hash] = child
                directory.directories.add(name=entry.name, digest=digest)
            elif entry.is_file():
                digest, executable = self.add_file(entry)
                directory.files.add(name=entry.name, digest=digest, is_executable=executable)
        return directory
