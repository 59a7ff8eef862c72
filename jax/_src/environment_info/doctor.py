"""The doctor: runs all checks of the environment, and says what is wrong and what mends it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from jax._src.environment_info import devices, packages, resources
from jax._src.environment_info.findings import Finding, Level, error, report

_CHECKS: tuple[Callable[[], Iterable[Finding]], ...] = (
    devices.check_flags,
    packages.check_packages,
    devices.check_plugins,
    devices.check_devices,
    resources.check_cache,
    resources.check_threads,
    resources.check_memory,
    resources.check_variables,
)


def diagnose() -> list[Finding]:
    """Runs all checks. Starts the backends, unless XLA or a plugin would end the process at that.

    Returns:
      What was found, in the order of the checks.
    """
    findings: list[Finding] = []
    for check in _CHECKS:
        if check is devices.check_devices and _would_end(findings):
            continue
        try:
            findings += check()
        except (Exception, SystemExit) as err:
            # A bug in one check must not hide what the others find.
            findings.append(error("doctor", f"{check.__name__} failed: {err!r}"))
    return findings


def _would_end(findings: list[Finding]) -> bool:
    topics = (devices.FLAGS, devices.PLUGINS)
    return any(f.topic in topics and f.level is Level.ERROR for f in findings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is wrong with this environment.

    Args:
      arguments: those of the command line; see `python -m jax.doctor --help`.

    Returns:
      The exit status: 1 if something does not work, otherwise 0. With `--strict` also warnings count.
    """
    parser = argparse.ArgumentParser(
        prog="python -m jax.doctor",
        description="Checks versions, plugins, drivers, caches, threads and memory, and says what mends them.",
        epilog="Exit status: 1 if something does not work, otherwise 0.",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 also after warnings")
    parser.add_argument("--problems", action="store_true", help="leave out what is in order")
    options = parser.parse_args(arguments)
    findings = diagnose()
    least = Level.WARNING if options.problems else Level.OK
    print(report(f for f in findings if f.level >= least))
    worst = max(f.level for f in findings)
    return int(worst >= (Level.WARNING if options.strict else Level.ERROR))
