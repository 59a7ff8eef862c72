"""Remote execution on this machine: what runs where, and what happens when a part of it fails.

Run by ci/remote.sh, which says where the bare root is (JAX_REMOTE_ROOT), behind worker_test.py. The tests of a
module share a service and a Bazel, and are in the order of what they cost.
"""

import contextlib
import json
import os
import shutil
import signal
import string
import subprocess
import time
from pathlib import Path

import pytest
from bazel_client import ROOT, Bazel, outcome
from service import Part, Service, free_port

PROBES = "//ci/remote/probes:"
HERE = Path(__file__).absolute().parent


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    root = Path(os.environ["JAX_REMOTE_ROOT"])
    folder = tmp_path_factory.mktemp("service")
    with Service(root, folder, silence=10, patience=15) as service:
        service.start_worker("cpu-0")
        service.start_worker("cpu-1")
        service.start_worker("gpu-0", "gpu", "cuda", 2)
        service.start_worker("tpu-0", "tpu", "tpu", 4)
        yield service


@pytest.fixture(scope="module")
def bazel(service):
    packed = ["--config=packed_python"]
    bazel = Bazel(["--config=rbe", "--jobs=4", *packed, *service.bazel_settings()])
    bazel.clean()
    yield bazel
    bazel.close()


def records(service, event="executed", **wanted):
    """The lines of the workers' logs that have these values. An action of Bazel's own is none of a test's."""
    found = []
    for log in sorted(service.folder.glob("workers/*/log.jsonl")):
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] != event or any(entry[k] != v for k, v in wanted.items()):
                continue
            if "test" not in wanted or entry["arguments"][0].endswith("test-setup.sh"):
                found.append(entry)
    return sorted(found, key=lambda entry: entry["time"])


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def long_test(service, bazel, tmp_path, name):
    """Bazel in the middle of the long probe; yields the record of its start, and waits for its end."""
    before = len(records(service, "executing", test=f"{PROBES}long"))
    arguments = [f"--test_env=PROBE={name}", f"{PROBES}long"]
    events, log = tmp_path / "events", tmp_path / "log"
    process = bazel.start("test", *arguments, events=events, log=log)
    try:
        started = wait_until(lambda: records(service, "executing", test=f"{PROBES}long")[before:])
        yield started[0]
        process.wait()
    finally:
        process.terminate()
        process.wait()
    result = outcome(process.returncode, events, log)
    assert result.status == 0, result.output
    assert result.tests == {f"{PROBES}long": "PASSED"}


def test_actions_have_their_inputs_and_nothing_else(service, bazel):
    result = bazel.run("build", f"{PROBES}letter")
    assert result.runners["remote"] == 2 and result.executed == 2
    names = [f"{PROBES}undeclared_{name}" for name in ("compiler", "file", "interpreter")]
    result = bazel.run("build", "--keep_going", *names, succeeds=False)
    for program in ("cc", "gcc", "clang", "python3", "perl"):
        assert f"{program}: command not found" in result.output
    assert "name.txt: No such file or directory" in result.output


def test_tests_go_to_workers_of_their_pool_with_its_devices(service, bazel):
    names = [f"{PROBES}devices_{name}" for name in ("cpu", "gpu", "gpus", "tpus")]
    result = bazel.run("test", *names)
    assert result.tests == dict.fromkeys(names, "PASSED")
    workers = {
        name: {entry["worker"][:3] for entry in records(service, test=f"{PROBES}devices_{name}")}
        for name in ("cpu", "gpu", "gpus", "tpus")
    }
    assert workers == {"cpu": {"cpu"}, "gpu": {"gpu"}, "gpus": {"gpu"}, "tpus": {"tpu"}}


def test_shards_run_on_different_workers_at_once(service, bazel):
    bazel.run("test", f"{PROBES}shards")
    first, second = records(service, test=f"{PROBES}shards", status="")[:2]
    assert {first["shard"], second["shard"]} == {"0", "1"}
    assert first["worker"] != second["worker"]
    assert max(first["start"], second["start"]) < min(first["time"], second["time"])


def test_a_property_that_nobody_has_is_an_error(service, bazel):
    result = bazel.run("build", f"{PROBES}nowhere", succeeds=False)
    assert "Could not find property set for" in result.output
    assert "('Pool', 'nowhere')" in result.output
    # a kind of worker that there can be, but is not
    nobody = f"{PROBES}devices_nobody"
    result = bazel.run("test", "--remote_retries=0", nobody, succeeds=False)
    assert "Operation has been queued for too long" in result.output


def test_a_killed_worker_s_action_is_done_by_another(service, bazel, tmp_path):
    with long_test(service, bazel, tmp_path, "killed") as started:
        victim = service.workers.pop(started["worker"])
        victim.send(signal.SIGKILL)
    done = records(service, test=f"{PROBES}long", status="")
    assert started["worker"] not in {entry["worker"] for entry in done}
    victim.stop()
    service.start_worker(started["worker"])


def test_the_build_goes_on_after_a_restart_of_the_server(service, bazel, tmp_path):
    with long_test(service, bazel, tmp_path, "restarted"):
        service.server.stop()
        service.start_server()


def test_the_second_run_is_cache_hits_alone(service, bazel):
    names = [f"{PROBES}{name}" for name in ("devices_cpu", "letter", "shards")]
    bazel.clean()  # the server forgets results when it is restarted
    bazel.run("test", *names)
    bazel.clean()
    before = len(records(service))
    result = bazel.run("test", *names)
    assert result.executed == 0 and result.runners["remote cache hit"] >= 4, result.runners
    assert len(records(service)) == before


def blob_of(service, content: bytes) -> Path:
    files = [path for path in service.content.glob("*/*") if path.stat().st_size == len(content)]
    (found,) = [path for path in files if path.read_bytes() == content]
    return found


def corrupt(path: Path) -> None:
    """Changes a file's first byte."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def test_a_corrupted_result_is_refused_and_made_again(service, bazel):
    content = b"Hello, world\n"
    bazel.run("build", f"{PROBES}greeting")
    corrupt(blob_of(service, content))
    bazel.clean()
    everything = "--remote_download_outputs=all"
    result = bazel.run("build", everything, f"{PROBES}letter", succeeds=False)
    assert "does not match received digest" in result.output
    service.server.stop()
    service.start_server()
    bazel.run("build", everything, f"{PROBES}letter")
    output = subprocess.run(
        bazel.command("info", *bazel.settings, "bazel-bin"),
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    assert Path(output, "ci/remote/probes/greeting.txt").read_bytes() == content
    assert Path(output, "ci/remote/probes/letter.txt").read_bytes() == content + b"How are you?\n"


@pytest.fixture
def http_cache(tmp_path):
    """nginx as a cache: the folder of what it keeps, and its address."""
    port, folder = free_port(), tmp_path / "cache"
    folder.mkdir()
    settings = tmp_path / "nginx.conf"
    template = string.Template((HERE / "nginx.conf").read_text())
    settings.write_text(template.substitute(folder=tmp_path, port=port))
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    command = [program, "-c", str(settings), "-p", str(tmp_path), "-e", str(tmp_path / "error.log")]
    part = Part("nginx", command, tmp_path / "nginx.log")
    part.wait_for((tmp_path / "nginx.pid").exists)
    yield folder, f"http://127.0.0.1:{port}/cache"
    part.stop()


def test_a_plain_http_cache_shares_results(http_cache):
    folder, address = http_cache
    bazel = Bazel(
        ["--config=remote_cache", f"--remote_cache={address}", "--noremote_cache_compression"]
    )
    try:
        bazel.clean()
        first = bazel.run("build", f"{PROBES}letter")
        assert first.executed == 2
        assert list(folder.glob("ac/*")) and list(folder.glob("cas/*"))
        bazel.clean()
        second = bazel.run("build", f"{PROBES}letter")
        assert second.executed == 0 and second.runners["remote cache hit"] == 2
    finally:
        bazel.close()


TESTS = ("core_cpu", "dtypes_cpu", "mesh_cpu", "tree_util_cpu")


@contextlib.contextmanager
def another_line(path: Path):
    """A file of the sources with a line more, which changes no result."""
    content = path.read_bytes()
    path.write_bytes(content + b"# another line\n")
    try:
        yield
    finally:
        path.write_bytes(content)


def test_a_changed_line_uploads_and_runs_little_again(tmp_path, capsys):
    """Prints what docs/remote_execution.md tells; its server has nothing to begin with."""
    targets = [f"//tests:{name}" for name in TESTS]

    def measured(what: str):
        stored, before = sizes(), len(records(service, "executed"))
        start = time.monotonic()
        result = bazel.run("test", *targets)
        seconds = time.monotonic() - start
        assert result.tests == dict.fromkeys(targets, "PASSED")
        now = sizes()
        new = now.keys() - stored.keys()
        done = records(service, "executed")[before:]
        # workers upload outputs: the rest is Bazel's, inputs and descriptions of actions
        size = sum(now[name] for name in new) - sum(entry["uploaded"] for entry in done)
        ran = sum(entry["arguments"][0].endswith("test-setup.sh") for entry in done)
        with capsys.disabled():
            print(
                f"\n{what}: {result.actions} actions, of which workers executed {result.executed} "
                f"({ran} of tests' shards), {result.runners['remote cache hit']} results were in the cache; "
                f"{len(new)} new blobs; {size} bytes of inputs; {seconds:.0f} s"
            )
        return done, ran, size

    def sizes():
        return {
            path.parent.name + path.name: path.stat().st_size
            for path in service.content.glob("*/*")
        }

    with Service(Path(os.environ["JAX_REMOTE_ROOT"]), tmp_path) as service:
        service.start_worker("cpu-0")
        service.start_worker("cpu-1")
        settings = ["--config=rbe", "--jobs=4", "--config=packed_python", *service.bazel_settings()]
        bazel = Bazel(settings)
        try:
            bazel.clean()
            _, ran, size = measured("a clean build")
            assert ran >= len(TESTS) and size > 1e8
            source = ROOT / "jax" / "_src"
            with another_line(source / "lax" / "lax" / "arithmetic.py"):
                done, again, size = measured("another line in lax/lax/arithmetic.py")
                assert again == ran and size < 1e6
                assert all(entry["test"] for entry in done)  # nothing but the tests
            bazel.run("test", *targets)
            with another_line(source / "numpy" / "setops.py"):
                done, _, size = measured("another line in numpy/setops.py")
                assert not done and size < 1e6
        finally:
            bazel.close()


def test_python_tests_have_their_interpreter_as_an_input(service, bazel):
    name = f"{PROBES}slot_test"
    result = bazel.run("test", "--config=cuda", name)
    assert result.tests == {name: "PASSED"}
    assert {entry["worker"] for entry in records(service, test=name)} == {"gpu-0"}


def test_the_native_extension_is_compiled_and_tested(service, bazel):
    name = "//jaxlib/tests:workspace_test"
    result = bazel.run("test", name)
    assert result.tests == {name: "PASSED"}
    assert result.runners.keys() <= {"total", "internal", "remote", "remote cache hit"}
