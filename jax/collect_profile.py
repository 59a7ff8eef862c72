"""Traces a running program: `python -m jax.collect_profile PORT MILLISECONDS` (`--help` for options)."""

from jax._src.profiler.collecting import main

if __name__ == "__main__":
    main()
