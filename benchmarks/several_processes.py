"""A small program of several processes, whose start is timed."""

import socket
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 1)
jax.distributed.initialize(sys.argv[1], 4, int(sys.argv[2]))
mesh = jax.make_mesh((4,), ("x",))
x = jax.make_array_from_callback((4,), jax.NamedSharding(mesh, jax.P("x")), lambda i: np.ones(1))
assert jax.jit(lambda x: x.sum(), out_shardings=jax.NamedSharding(mesh, jax.P()))(x) == 4
"""


def run():
    """Runs the program as four processes."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as elsewhere:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, address, str(i)],
                stdout=subprocess.DEVNULL,
                cwd=elsewhere,
            )
            for i in range(4)
        ]
        assert [process.wait() for process in started] == [0] * 4
