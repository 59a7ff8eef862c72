"""Says what is wrong with an environment, and what mends it: `python -m jax.doctor` (`--help` for options)."""

import sys

from jax._src.environment_info import main

if __name__ == "__main__":
    sys.exit(main())
