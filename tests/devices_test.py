"""ci/run_on_devices.py: files on pretended devices, what is tried again and what is not, and what is kept."""

import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent

sys.path.insert(0, str(ROOT / "ci"))
import run_on_devices  # noqa: E402 (it is found through the line above)

REPORT = """\
<testsuites><testsuite name="pytest" tests="2">
<testcase classname="x_test" name="test_a"/>
<testcase classname="x_test" name="test_b"><failure message="{}">{}</failure></testcase>
</testsuite></testsuites>
"""
LOST = "INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"
# A program that stands for pytest: it writes a report and ends as the file says, the first time, on this device.
PROGRAM = """\
import os, sys, time
from pathlib import Path
path, report = map(Path, sys.argv[1:])
device = os.environ["CUDA_VISIBLE_DEVICES"]
print("on", device, os.environ["JAX_TEST_BACKEND"], os.environ["JAX_PLATFORMS"])
exec(path.read_text())
report.write_text('<testsuites><testsuite tests="1"><testcase classname="t" name="ok"/></testsuite></testsuites>')
"""


@pytest.mark.parametrize(
    ("status", "log", "report", "outcome", "reason"),
    [
        (0, "", "", "passed", ""),
        (5, "", "", "passed", "no test of it was chosen"),
        (1, LOST, REPORT.format("assert 1 == 2", ""), "failed", "1 tests, the first is x_test::test_b"),
        (1, "", REPORT.format("JaxRuntimeError", LOST), "machine", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        (1, "", REPORT.format("CUDA_ERROR_ILLEGAL_ADDRESS", ""), "failed", "1 tests, the first is x_test::test_b"),
        (1, "", REPORT.format("RESOURCE_EXHAUSTED: Out of memory", ""), "failed", "1 tests, the first is x_test::test_b"),
        (4, "The TPU is already in use by process with pid 7", "", "machine", "The TPU is already in use"),
        (-signal.SIGKILL, "", "", "machine", "killed by SIGKILL"),
        (-signal.SIGSEGV, "", "", "failed", "ended by SIGSEGV"),
        (-signal.SIGABRT, "GPU is lost", "<testsuites><tests", "machine", "GPU is lost"),
        (2, "Interrupted", "", "failed", "exit status 2"),
    ],
)  # fmt: skip
def test_only_the_machines_failures_are_infrastructure(
    tmp_path, status, log, report, outcome, reason
):
    path = tmp_path / "report.xml"
    if report:
        path.write_text(report)
    assert run_on_devices.judge(status, log, path) == (outcome, reason)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs files, given by their programs, on pretended devices."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    results = tmp_path / "results"
    results.mkdir()

    def run(groups, attempts=3, **texts):
        paths = []
        for name, text in texts.items():
            paths.append(tmp_path / f"{name}_test.py")
            paths[-1].write_text(text)
        command = lambda path, report: [sys.executable, "-I", str(program), str(path), str(report)]
        runner = run_on_devices.Run("cuda", groups, paths, results, attempts, command)
        found = runner()
        run_on_devices.write_results(found, results)
        return {path.name.removesuffix("_test.py"): result for path, result in found.items()}

    run.results = results
    return run


def test_files_are_split_among_devices(run):
    wait = """
(report.parent / f"{path.stem}.here").touch()
while len(list(report.parent.glob("*.here"))) < 2: time.sleep(0.01)
"""
    found = run([["0"], ["1"]], a=wait, b=wait)  # neither ends before the other has begun
    assert {tuple(result.attempts[0].devices) for result in found.values()} == {("0",), ("1",)}
    assert {result.outcome for result in found.values()} == {"passed"}
    logs = {(run.results / f"{name}_test.1.log").read_text() for name in found}
    assert logs == {f"on {i} gpu cuda,rocm,cpu\n" for i in (0, 1)}


def test_the_machines_failures_are_tried_elsewhere(run, capsys):
    lost = f"if device == '0': sys.exit({LOST!r})"
    found = run([["0"], ["1"]], **{f"f{i}": lost for i in range(6)})
    assert {result.outcome for result in found.values()} == {"passed"}
    failed = collections.Counter(len(result.attempts) for result in found.values())
    assert failed[3] == 0 and 1 <= failed[2] <= 2  # then device 0 gets no more files
    for result in found.values():
        assert result.attempts[-1].devices == ["1"]
    if failed[2] == 2:
        assert "0 gets no more files" in capsys.readouterr().out
    kept = json.loads((run.results / "results.json").read_text())
    assert {r["attempts"][0]["outcome"] for r in kept} <= {"machine", "passed"}
    assert len(list(run.results.glob("*.2.log"))) == failed[2]


def test_a_failed_test_is_not_tried_again(run):
    fail = "report.write_text({!r}); sys.exit(1)".format(REPORT.format("assert False", "here"))
    found = run([["0"]], bad=fail, good="")
    assert [a.outcome for a in found["bad"].attempts] == ["failed"]
    assert found["good"].outcome == "passed"
    suites = ET.parse(run.results / "report.xml").getroot()
    assert {suite.get("name") for suite in suites} == {"bad_test", "good_test"}
    assert len(list(suites.iter("failure"))) == 1 and len(list(suites.iter("testcase"))) == 3


def test_tries_end(run):
    before = threading.active_count()
    found = run([["0"]], attempts=2, dead="os.kill(os.getpid(), 9)")
    assert [a.reason for a in found["dead"].attempts] == ["killed by SIGKILL"] * 2
    (error,) = ET.parse(run.results / "report.xml").getroot().iter("error")
    assert error.get("message") == "killed by SIGKILL"
    assert threading.active_count() <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_nothing_and_keeps_results(tmp_path, number):
    files = [tmp_path / f"{name}_test.py" for name in "abc"]
    for path in files:
        text = "import pathlib, time\ndef test():\n    pathlib.Path(__file__ + '.here').touch()\n"
        path.write_text(text + "    time.sleep(300)\n")
    program = [sys.executable, str(ROOT / "ci" / "run_on_devices.py"), "cuda"]
    process = subprocess.Popen(
        [*program, f"--results={tmp_path / 'results'}", *map(str, files)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "0"},
    )
    end = time.monotonic() + 60
    while not list(tmp_path.glob("*.here")):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == 1
    assert len(list(tmp_path.glob("*.here"))) == 1
    kept = json.loads((tmp_path / "results" / "results.json").read_text())
    assert sorted(len(result["attempts"]) for result in kept) == [0, 0, 1]


def test_groups_of_devices(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,4")
    made = []

    class Nothing:
        def __init__(self, kind, groups, *rest):
            made.append((kind, groups))

        def __call__(self):
            return {}

    monkeypatch.setattr(run_on_devices, "Run", Nothing)
    own = [f"--results={tmp_path}", __file__]
    assert run_on_devices.main(["cuda", "--devices-per-file=2", *own]) == 0
    assert made == [("cuda", [["2", "3"]])]
    assert "1 files on 1 devices" in capsys.readouterr().out
    for arguments, message in (
        (["--devices-per-file=4", *own], "4 are wanted for each file, and there are 3"),
        ([*own, str(tmp_path / "no_test.py")], "there is no file"),
        ([*own, __file__], "two files have one name"),
        (["--devices-per-file=0", *own], "are 1 at least"),
        (["--attempts=0", *own], "are 1 at least"),
        (["--results=/dev/null/x", __file__], "folder of results cannot be made"),
    ):
        with pytest.raises(SystemExit, match=message):
            run_on_devices.main(["cuda", *arguments])


def test_a_run_of_nothing_fails(monkeypatch, tmp_path, capsys):
    """Such as with a name after -k that no test has; files without a chosen test beside others are fine."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for reasons, status in (
        (["no test of it was chosen"] * 2, 1),
        (["no test of it was chosen", ""], 0),
    ):
        attempts = [run_on_devices.Attempt(1, ["0"], "passed", reason, 0.1) for reason in reasons]
        found = {
            Path(f"x{i}"): run_on_devices.Result("x_test.py", [a]) for i, a in enumerate(attempts)
        }
        monkeypatch.setattr(run_on_devices, "Run", lambda *args: lambda: found)
        assert run_on_devices.main(["cuda", f"--results={tmp_path}", __file__]) == status
    assert "no test of it was chosen, for any file" in capsys.readouterr().out
