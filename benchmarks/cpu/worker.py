"""One side of the comparison of speeds on the CPU, by the protocol of benchmarks/protocol.py.

    {"do": "list"}                         -> {"programs": [...], "has": "jax" or "torch"}
    {"do": "peaks"}                        -> {"flop": per second, "byte": per second}
    {"do": "prepare", "name": NAME}        -> {"first": seconds, "compile": seconds} or {"missing": true}
    {"do": "fastest", "name": NAME, "seconds": S} -> {"seconds": of the fastest call in that time}
    {"do": "forget", "name": NAME}         -> {}

The first call's seconds are those of tracing, lowering and compiling, for jax.
"""

import gc
import time

import numpy as np
import protocol
from cpu import arrays, convolutions, dense, inference, sequences  # noqa: F401 (add programs)
from cpu.frameworks import jax, jnp, torch
from cpu.programs import PROGRAMS


class Worker:
    def __init__(self):
        self._calls = {}

    def list(self):
        has = "torch" if jax is None else "jax"
        return {
            "has": has,
            "version": torch.__version__ if jax is None else jax.__version__,
            "programs": [
                {"name": p.name, "flop": p.flop, "byte": p.byte, "beside": _beside(p)}
                for p in PROGRAMS.values()
            ],
        }

    def peaks(self):
        """The most that a large product and a large copy attain here."""
        n, size = 1024, 1 << 24
        if jax is None:
            a, x = torch.rand(n, n), torch.rand(size)
            y = torch.empty_like(x)
            product, copy = lambda: a @ a, lambda: y.copy_(x)
        else:
            a, x = jnp.ones((n, n)), jnp.ones(size)
            dot = jax.jit(jnp.dot)
            product = lambda: dot(a, a)
            buffers = [x]  # written over: new memory would have to be mapped first
            negative = jax.jit(jnp.negative, donate_argnums=0)
            copy = lambda: buffers.append(negative(buffers.pop())) or buffers[0]
        return {
            "flop": 2 * n**3 / _fastest(product, 0.2),
            "byte": 8 * size / _fastest(copy, 0.2),
        }

    def prepare(self, name):
        program = PROGRAMS[name]
        inputs = program.inputs(np.random.default_rng(0))
        if jax is None:
            return self._prepare_other(program, inputs)
        jax.config.update("jax_enable_x64", program.x64)
        jax.clear_caches()
        inputs = jax.block_until_ready(jax.tree.map(jnp.asarray, inputs))
        start = time.perf_counter()
        lowered = jax.jit(lambda *inputs: program.jax(*inputs)).lower(*inputs)
        lowering = time.perf_counter() - start
        call = lowered.compile()
        compiling = time.perf_counter() - start - lowering
        # Jitted, not `call`, would compile again: a compiled program's call costs the same.
        self._calls[name] = lambda: call(*inputs)
        jax.block_until_ready(self._calls[name]())
        return {"first": lowering + compiling, "compile": compiling}

    def _prepare_other(self, program, inputs):
        if program.torch is not None:
            self._calls[program.name] = program.torch(*_tensors(inputs))
        elif program.numpy is not None:
            self._calls[program.name] = program.numpy(*inputs)
        else:
            return {"missing": True}
        self._calls[program.name]()
        return {}

    def fastest(self, name, seconds):
        gc.collect()
        return {"seconds": _fastest(self._calls[name], seconds)}

    def forget(self, name):
        self._calls.pop(name, None)
        return {}


def _beside(program):
    if program.torch is not None:
        return "PyTorch"
    return None if program.numpy is None else "NumPy"


def _fastest(call, seconds):
    taken = []
    end = time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        result = call()
        if jax is not None:
            jax.block_until_ready(result)
        taken.append(time.perf_counter() - start)
    return min(taken)


def _tensors(tree):
    if isinstance(tree, dict):
        return {key: _tensors(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_tensors(value) for value in tree]
    return torch.from_numpy(np.asarray(tree))


if __name__ == "__main__":
    protocol.serve(Worker())
