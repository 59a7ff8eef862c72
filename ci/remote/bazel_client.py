"""Runs Bazel against a service, and reads from its events what it did."""

import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent.parent


@dataclasses.dataclass
class Outcome:
    """What a command of Bazel did.

    Attributes:
      status: its exit status.
      output: what it printed.
      runners: how many actions ran where: `remote`, `remote cache hit`, `linux-sandbox`, ...
      tests: the status of each test, as PASSED.
    """

    status: int
    output: str
    runners: collections.Counter
    tests: dict[str, str]

    @property
    def actions(self) -> int:
        """All but Bazel's own, wherever their results come from."""
        return self.runners["total"] - self.runners["internal"]

    @property
    def executed(self) -> int:
        """Actions that ran anywhere, neither found in a cache nor Bazel's own."""
        found = ("total", "internal", "remote cache hit", "disk cache hit")
        return sum(count for name, count in self.runners.items() if name not in found)


class Bazel:
    """The project's Bazel with an output base of its own. `close` ends its server."""

    def __init__(self, settings: list[str], output_base: Path | None = None):
        self.python = os.environ.get("JAX_BUILD_PYTHON", sys.executable)
        self.settings = settings
        self.startup = [f"--output_base={output_base}"] if output_base else []

    def command(self, name: str, *arguments: str) -> list[str]:
        build = [self.python, str(ROOT / "build" / "build.py"), "bazel"]
        return [*build, *self.startup, name, *arguments]

    def start(self, name: str, *arguments: str, events: Path, log: Path) -> subprocess.Popen:
        """Starts `build` or `test` with the settings and `arguments`."""
        command = self.command(name, "--color=no", "--curses=no", "--noshow_progress")
        command += [*self.settings, f"--build_event_json_file={events}", *arguments]
        with log.open("wb") as file:
            return subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)

    def run(self, name: str, *arguments: str, succeeds: bool = True) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            events, log = Path(folder, "events"), Path(folder, "log")
            process = self.start(name, *arguments, events=events, log=log)
            process.wait()
            result = outcome(process.returncode, events, log)
        assert (result.status == 0) == succeeds, result.output
        return result

    def clean(self) -> None:
        """Forgets what was built here."""
        subprocess.run(self.command("clean"), cwd=ROOT, check=True, capture_output=True)

    def close(self) -> None:
        subprocess.run(self.command("shutdown"), cwd=ROOT, check=True, capture_output=True)


def outcome(status: int, events: Path, log: Path) -> Outcome:
    runners: collections.Counter = collections.Counter()
    tests = {}
    for line in events.read_text().splitlines() if events.exists() else ():
        event = json.loads(line)
        if "buildMetrics" in event:
            for runner in event["buildMetrics"]["actionSummary"].get("runnerCount", ()):
                runners[runner["name"]] += runner["count"]
        elif "testSummary" in event:
            tests[event["id"]["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
    return Outcome(status, log.read_text(errors="replace"), runners, tests)
