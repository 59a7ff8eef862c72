"""Runs test files on the accelerators of this machine, each file on a device of its own, without Bazel.

    run_on_devices.py cuda|rocm|tpu [--results FOLDER] [--attempts N] [--devices-per-file N] FILES [-- PYTEST'S ARGUMENTS]

A file that fails because of the machine (a device that is lost, a driver that does not answer, a process that the system
has killed) runs again, on another device where there is one; a device to which that happens twice in a row gets no more
files. A file with a failed test does not run again: a test that fails now and then is a test that fails. The results have of
each attempt the log and the report (`<file>.<attempt>.log` and `.xml`), `report.xml` with the last report of every file, and
`results.json`.
"""

import argparse
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import count_accelerators

ROOT = Path(__file__).absolute().parent.parent
accelerator_slot = count_accelerators.accelerator_slot
BACKENDS = {"cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}
NO_TESTS = 5
NOTHING_RUN = "no test of it was chosen"
# What drivers and runtimes say of a machine that has failed, not of a program.
FAILED_MACHINE = re.compile(
    r"CUDA_ERROR_(ECC_UNCORRECTABLE|DEVICE_UNAVAILABLE|DEVICES_UNAVAILABLE|SYSTEM_NOT_READY|SYSTEM_DRIVER_MISMATCH"
    r"|HARDWARE_STACK_ERROR|NVLINK_UNCORRECTABLE|OPERATING_SYSTEM|NO_DEVICE|NOT_INITIALIZED|UNKNOWN)"
    r"|GPU is lost|Xid \(PCI|Failed to initialize NVML|NVML: Driver/library version mismatch"
    r"|hipError(NoDevice|ECCNotCorrectable|NotInitialized|SystemDriverMismatch)"
    r"|amdgpu: GPU reset|The TPU is already in use|TPU initialization failed|Failed to connect to the TPU"
    r"|No space left on device|Input/output error"
)
KILLED = (
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGHUP,
)  # by somebody else; a crash is the program's own


@dataclass
class Attempt:
    """One run of a file.

    Attributes:
      outcome: "passed", "failed" or "machine".
      reason: what says so, if it did not pass or had nothing to run.
    """

    number: int
    devices: list[str]
    outcome: str
    reason: str
    seconds: float


@dataclass
class Result:
    file: str
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return self.attempts[-1].outcome if self.attempts else "machine"


def judge(status: int, log: str, report: Path) -> tuple[str, str]:
    """What a run of pytest has come to, and why."""
    if status in (0, NO_TESTS):
        return "passed", NOTHING_RUN if status else ""
    failed = failures(report)
    if failed:
        others = [name for name, text in failed if not FAILED_MACHINE.search(text)]
        if others:
            return "failed", f"{len(failed)} tests, the first is {others[0]}"
        return "machine", FAILED_MACHINE.search(failed[0][1])[0]
    if found := FAILED_MACHINE.search(log):
        return "machine", found[0]
    if status < 0 and -status in KILLED:
        return "machine", f"killed by {signal.Signals(-status).name}"
    if status < 0:
        return "failed", f"ended by {signal.Signals(-status).name}"
    return "failed", f"exit status {status}"


def failures(report: Path) -> list[tuple[str, str]]:
    """The names of failed tests in a report, and what they say; none if the report was not finished."""
    try:
        tree = ET.parse(report)
    except (OSError, ET.ParseError):
        return []
    found = []
    for case in tree.iter("testcase"):
        for problem in (*case.findall("failure"), *case.findall("error")):
            text = f"{problem.get('message', '')}\n{problem.text or ''}"
            found.append((f"{case.get('classname')}::{case.get('name')}", text))
    return found


class Run:
    """Files on devices: a thread for each group of devices takes files until there are none."""

    def __init__(
        self,
        kind: str,
        groups: list[list[str]],
        files: list[Path],
        results: Path,
        attempts: int,
        command: Callable[[Path, Path], list[str]],
    ):
        self.kind, self.groups, self.results, self.attempts = kind, groups, results, attempts
        self.command = command
        self.found = {path: Result(str(path)) for path in files}
        self.waiting: queue.PriorityQueue = queue.PriorityQueue()
        for path in files:  # the longest first
            self.waiting.put((-path.stat().st_size, str(path)))
        self.left = len(files)  # files that are not done
        self.lock = threading.Condition()
        self.usable = len(groups)
        self.stopped = False
        self.serving = 0  # threads
        self.running: set[subprocess.Popen] = set()

    def __call__(self) -> dict[Path, Result]:
        self.serving = len(self.groups)
        for group in self.groups:
            threading.Thread(target=self._serve_to_the_end, args=(group,)).start()
        try:
            self._wait()
        except KeyboardInterrupt:
            self.stop()
            self._wait()
        return self.found

    def _wait(self) -> None:
        # not by `join`, which takes a thread for ended after it was interrupted once
        with self.lock:
            while self.serving:
                self.lock.wait()

    def _serve_to_the_end(self, group: list[str]) -> None:
        try:
            self._serve(group)
        finally:
            with self.lock:
                self.serving -= 1
                self.lock.notify_all()

    def stop(self) -> None:
        """Ends what runs, and starts nothing more: what was not done counts as not run."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()
            self.lock.notify_all()

    def _take(self, group: list[str]) -> Path | None:
        """A file for a group of devices, not one that the machine failed on there if another group is left."""
        with self.lock:
            while self.left and not self.stopped:
                put_back, taken = [], None
                while taken is None and not self.waiting.empty():
                    entry = self.waiting.get()
                    before = self.found[Path(entry[1])].attempts
                    if before and before[-1].devices == group and self.usable > 1:
                        put_back.append(entry)
                    else:
                        taken = Path(entry[1])
                for entry in put_back:
                    self.waiting.put(entry)
                if taken:
                    return taken
                self.lock.wait()
            return None

    def _serve(self, group: list[str]) -> None:
        in_a_row = 0
        while (path := self._take(group)) is not None:
            attempt = self._try(path, group)
            in_a_row = in_a_row + 1 if attempt.outcome == "machine" else 0
            with self.lock:
                result = self.found[path]
                result.attempts.append(attempt)
                again = attempt.outcome == "machine" and len(result.attempts) < self.attempts
                again = again and not self.stopped
                if again:
                    self.waiting.put((-path.stat().st_size, str(path)))
                else:
                    self.left -= 1
                aside = in_a_row == 2 and self.usable > 1
                self.usable -= aside
                say(f"{path.name} on {','.join(group)}: {attempt.outcome} in {attempt.seconds:.0f} s"
                    f"{f' ({attempt.reason})' if attempt.reason else ''}{', again' if again else ''}")  # fmt: skip
                self.lock.notify_all()
                if aside:
                    say(f"{','.join(group)} gets no more files")
                    return

    def _try(self, path: Path, group: list[str]) -> Attempt:
        number = len(self.found[path].attempts) + 1
        report, log = (self.results / f"{path.stem}.{number}.{kind}" for kind in ("xml", "log"))
        start = time.monotonic()
        with open(log, "wb") as output:
            with self.lock:
                if self.stopped:
                    return Attempt(number, group, "failed", "stopped", 0.0)
                process = subprocess.Popen(
                    self.command(path, report), stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, env=variables(self.kind, group), cwd=ROOT,
                )  # fmt: skip
                self.running.add(process)
            status = process.wait()
            with self.lock:
                self.running.remove(process)
        outcome, reason = judge(status, log.read_text(errors="replace"), report)
        if self.stopped and outcome == "machine":
            outcome, reason = "failed", "stopped"
        return Attempt(number, group, outcome, reason, round(time.monotonic() - start, 1))


def variables(kind: str, group: list[str]) -> dict[str, str]:
    told, *others = accelerator_slot.VARIABLES[kind]
    kept = {key: value for key, value in os.environ.items() if key not in others}
    backend = BACKENDS[kind]
    platforms = {"gpu": "cuda,rocm,cpu", "tpu": "tpu,cpu"}[backend]
    own = {told: ",".join(group), "JAX_PLATFORMS": platforms, "JAX_TEST_BACKEND": backend}
    return kept | own | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_ACCELERATOR_KIND": kind}


def write_results(found: dict[Path, Result], results: Path) -> None:
    """`results.json`, and one report of the last attempts."""
    text = json.dumps([asdict(result) for result in found.values()], indent=1)
    (results / "results.json").write_text(text + "\n")
    merged = ET.Element("testsuites")
    for path, result in found.items():
        report = results / f"{path.stem}.{len(result.attempts)}.xml"
        try:
            suites = list(ET.parse(report).iter("testsuite"))
        except (OSError, ET.ParseError):  # the process ended before it was written
            suite = ET.Element("testsuite", name=path.stem, tests="1", errors="1")
            case = ET.SubElement(suite, "testcase", classname=path.stem, name="process")
            ET.SubElement(case, "error", message=result.attempts[-1].reason if result.attempts else "not run")  # fmt: skip
            suites = [suite]
        for suite in suites:
            suite.set("name", path.stem)
            merged.append(suite)
    ET.ElementTree(merged).write(results / "report.xml", encoding="utf-8", xml_declaration=True)


def devices_of(kind: str) -> list[str]:
    given = accelerator_slot.allocated(kind, dict(os.environ))
    if given is not None:
        return given
    return [str(i) for i in range(count_accelerators.on_this_machine(kind))]


def say(text: str) -> None:
    print(f"devices: {text}", flush=True)


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=list(BACKENDS))
    parser.add_argument("files", nargs="*", type=Path, help="by default all of tests/")
    parser.add_argument("--results", type=Path, default=ROOT / "device-results")
    parser.add_argument("--attempts", type=int, default=3, help="of a file; default: 3")
    parser.add_argument("--devices-per-file", type=int, default=1)
    options = parser.parse_intermixed_args(arguments[:split])
    try:
        devices = devices_of(options.kind)
    except accelerator_slot.SlotError as error:
        raise SystemExit(f"devices: {error}") from None
    per_file = options.devices_per_file
    if per_file < 1 or options.attempts < 1:
        raise SystemExit("devices: --devices-per-file and --attempts are 1 at least")
    groups = [devices[i : i + per_file] for i in range(0, len(devices) - per_file + 1, per_file)]
    if not groups:
        raise SystemExit(
            f"devices: {per_file} are wanted for each file, and there are {len(devices)}"
        )
    files = options.files or sorted((ROOT / "tests").glob("*_test.py"))
    if absent := [path for path in files if not path.is_file()]:
        raise SystemExit(f"devices: there is no file {absent[0]}")
    if len({path.stem for path in files}) < len(files):
        raise SystemExit("devices: two files have one name, and so would their results")
    results = options.results.absolute()
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise SystemExit(f"devices: the folder of results cannot be made: {e}") from None

    def command(path: Path, report: Path) -> list[str]:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
        return [*pytest, f"--junit-xml={report}", *arguments[split + 1 :], str(path.absolute())]

    # a lane that is cancelled leaves no process on a device, and results of what is done
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = Run(options.kind, groups, files, results, options.attempts, command)()
    write_results(found, results)
    outcomes = [result.outcome for result in found.values()]
    counts = ", ".join(f"{outcomes.count(o)} {o}" for o in ("passed", "failed", "machine"))
    say(f"{len(files)} files on {len(groups)} devices: {counts}; logs and reports are in {results}")
    reasons = {result.attempts[-1].reason for result in found.values() if result.attempts}
    if reasons == {NOTHING_RUN}:
        say(f"{NOTHING_RUN}, for any file: look at the options that choose tests")
        return 1
    return int(any(outcome != "passed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
