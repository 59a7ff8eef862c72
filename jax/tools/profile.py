"""Reports what a program's time and memory go into: `python -m jax.tools.profile PROGRAM` (`--help` for options)."""

import sys

from jax._src.profile_report.command import main

if __name__ == "__main__":
    sys.exit(main())
