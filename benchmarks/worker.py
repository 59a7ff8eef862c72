"""One side of a comparison: runs the registered benchmarks with the jax that it imports.

By the protocol of protocol.py:

    {"do": "list"}                                       -> {"benchmarks": [...], "jax": path, "jaxlib": version}
    {"do": "prepare", "name": NAME, "as_oracle": BOOL}   -> {"seconds": of one call} or {"value": number}
    {"do": "time", "name": NAME, "calls": N}             -> {"seconds": of one call}
    {"do": "fastest", "name": NAME, "seconds": S}        -> {"seconds": of the fastest call in that time}
    {"do": "forget", "name": NAME}                       -> {}
"""

import gc
import os
import time

import debug_modes  # noqa: F401 (adds benchmarks)
import eager_calls  # noqa: F401 (adds benchmarks)
import exports  # noqa: F401 (adds benchmarks)
import jaxlib.version
import kernels  # noqa: F401 (adds benchmarks)
import libraries  # noqa: F401 (adds benchmarks)
import loops  # noqa: F401 (adds benchmarks)
import numerics  # noqa: F401 (adds benchmarks)
import protocol
import suite  # noqa: F401 (adds benchmarks)
import tools  # noqa: F401 (adds benchmarks)
from registry import BENCHMARKS

import jax

ROW_KEYS = ("name", "group", "mark", "unit", "beside", "new_workers")


class Worker:
    def __init__(self):
        self._calls = {}

    def list(self):
        rows = [{key: getattr(b, key) for key in ROW_KEYS} for b in BENCHMARKS.values()]
        folder = os.path.dirname(os.path.dirname(jax.version.__file__))
        return {"benchmarks": rows, "jax": folder, "jaxlib": jaxlib.version.__version__}

    def prepare(self, name, as_oracle):
        benchmark = BENCHMARKS[name]
        made = (benchmark.numpy if as_oracle and benchmark.numpy else benchmark.make)()
        if benchmark.unit != "s":
            return {"value": made}
        self._calls[name] = made
        # The first call compiles, and the second one may still fill caches.
        jax.block_until_ready([_ready(made()) for _ in range(2)])
        return self.time(name, 1)

    def time(self, name, calls):
        call = self._calls[name]
        gc.collect()
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
        jax.block_until_ready(_ready(result))
        return {"seconds": (time.perf_counter() - start) / calls}

    def fastest(self, name, seconds):
        call = self._calls[name]
        gc.collect()
        taken = []
        end = time.perf_counter() + seconds
        while not taken or time.perf_counter() < end:
            start = time.perf_counter()
            jax.block_until_ready(_ready(call()))
            taken.append(time.perf_counter() - start)
        return {"seconds": min(taken)}

    def forget(self, name):
        self._calls.pop(name, None)
        return {}


def _ready(result):
    """Returns the arrays in a result; results of tracing and lowering have none."""
    return [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]


if __name__ == "__main__":
    protocol.serve(Worker())
