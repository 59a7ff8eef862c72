"""Runs mypy under Bazel, with the settings in pyproject.toml."""

import os
import sys

from mypy import api


def main() -> int:
    cache = os.path.join(os.environ.get("TEST_TMPDIR", "/tmp"), "mypy")
    output, errors, status = api.run(["--config-file", "pyproject.toml", "--cache-dir", cache])
    print(output + errors, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
