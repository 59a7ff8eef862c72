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
    start = time.monotonic()
    result = bazel.run("test", nobody, succeeds=False)
    assert time.monotonic() - start < 60
    wanted = "no worker with AcceleratorCount=8, OSFamily=linux, Pool=gpu has been there for 15 s"
    assert wanted in result.output


def test_an_action_waits_for_a_busy_worker(service, bazel):
    """Longer than for one that there is not: its pool has one, which does one after the other."""
    names = [f"{PROBES}long_{n}" for n in range(4)]
    result = bazel.run("test", *names)
    assert result.tests == dict.fromkeys(names, "PASSED")
    starts = [entry["time"] for name in names for entry in records(service, "executing", test=name)]
    assert max(starts) - min(starts) > 16


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


GREETING = b"Hello, world\n"
LETTER = GREETING + b"How are you?\n"
REPLY = GREETING + b"I am well.\n"


def corrupt(content: Path, data: bytes, how: str) -> None:
    """Damages the file of a blob in a storage's folder."""
    files = [path for path in content.rglob("*") if path.is_file()]
    (path,) = [path for path in files if path.read_bytes() == data]
    path.unlink()
    path.write_bytes({"changed": changed(data), "cut off": data[:-3], "empty": b""}[how])


def changed(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def results(bazel) -> dict[str, bytes]:
    """The files of probes that are here."""
    command = bazel.command("info", *bazel.settings, "bazel-bin")
    output = subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True).stdout
    return {
        path.stem: path.read_bytes() for path in Path(output.strip(), PROBES[2:-1]).glob("*.txt")
    }


@pytest.mark.parametrize(
    "wanted, how",
    [("all", "changed"), ("all", "empty"), ("toplevel", "changed"), ("toplevel", "cut off")],
)
def test_a_corrupted_output_is_made_again_in_the_same_build(service, bazel, wanted, how):
    option = f"--remote_download_outputs={wanted}"
    bazel.run("build", option, f"{PROBES}letter")
    corrupt(service.content, LETTER, how)
    bazel.clean()
    result = bazel.run("build", option, f"{PROBES}letter")
    assert (result.runners["remote"], result.runners["remote cache hit"]) == (1, 1)
    assert results(bazel)["letter"] == LETTER
    bazel.clean()
    assert bazel.run("build", option, f"{PROBES}letter").executed == 0


def test_what_a_corrupted_output_is_needed_for_is_made_in_the_same_build(service, bazel):
    bazel.clean()
    bazel.run("build", f"{PROBES}letter")
    corrupt(service.content, GREETING, "changed")
    # Bazel has made the output before, and does not ask for it again
    bazel.run("build", f"{PROBES}reply")
    assert results(bazel)["reply"] == REPLY


def test_a_storage_of_which_everything_is_corrupted_is_filled_again(service, bazel):
    """Actions, commands, folders, inputs, outputs, and the results in the action cache."""
    names = [f"{PROBES}{name}" for name in ("devices_cpu", "letter", "shards")]
    bazel.run("test", *names)
    for path in [path for path in service.content.glob("*/*") if path.stat().st_size]:
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(changed(data))
    bazel.clean()
    result = bazel.run("test", *names)
    assert set(result.tests.values()) == {"PASSED"} and results(bazel)["letter"] == LETTER
    assert result.runners["remote cache hit"] == 0 and result.executed >= 4
    bazel.clean()
    assert bazel.run("test", *names).executed == 0


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


@pytest.fixture
def cached_bazel(http_cache):
    _, address = http_cache
    settings = ["--config=remote_cache", f"--remote_cache={address}"]
    bazel = Bazel([*settings, "--noremote_cache_compression"])
    bazel.clean()
    yield bazel
    bazel.close()


def test_a_plain_http_cache_shares_results(http_cache, cached_bazel):
    folder, _ = http_cache
    first = cached_bazel.run("build", f"{PROBES}letter")
    assert first.executed == 2
    assert list(folder.glob("ac/*")) and list(folder.glob("cas/*"))
    cached_bazel.clean()
    second = cached_bazel.run("build", f"{PROBES}letter")
    assert second.executed == 0 and second.runners["remote cache hit"] == 2


def test_what_is_corrupted_in_a_plain_http_cache_is_made_again(http_cache, cached_bazel):
    folder, _ = http_cache
    bazel, letter = cached_bazel, f"{PROBES}letter"
    bazel.run("build", letter)
    damages = [
        ("changed", [LETTER]),
        ("changed", [GREETING]),  # on the way to the other
        ("cut off", [LETTER]),
        ("empty", [GREETING, LETTER]),
    ]
    for how, contents in damages:
        for content in contents:
            corrupt(folder, content, how)
        bazel.clean()
        result = bazel.run("build", letter)
        assert "does not match received digest" in result.output
        assert result.executed == len(contents), (how, contents)
        assert results(bazel) == {"greeting": GREETING, "letter": LETTER}
    bazel.clean()
    assert bazel.run("build", letter).executed == 0  # what was made again is in the cache
    for wrong in (b"", b"\xff\x00no message"):
        for path in folder.glob("ac/*"):
            path.write_bytes(wrong)
        bazel.clean()
        assert bazel.run("build", letter).executed == 2
        assert results(bazel)["letter"] == LETTER


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
