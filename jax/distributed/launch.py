"""`python -m jax.distributed.launch -n 4 PROGRAM`: runs a program as several processes."""

import sys

from jax._src.launch import main as main

if __name__ == "__main__":
    sys.exit(main())
