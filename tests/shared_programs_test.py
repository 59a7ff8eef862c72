"""Programs that one process compiles and sends to the others: `jax_share_binary_between_hosts`."""

import process_testing

PROGRAM = """
import logging, sys
import jax
import numpy as np

jax.distributed.initialize()
for name in ("compilation_cache", "compiler"):
    logging.getLogger("jax._src." + name).setLevel(logging.DEBUG)
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("@@ %(message)s"))
logging.getLogger("jax._src.compilation_cache").addHandler(handler)
jax.config.update("jax_compilation_cache_dir", sys.argv[1] + str(jax.process_index()))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_share_binary_between_hosts", True)
jax.config.update("jax_share_binary_between_hosts_timeout_ms", TIMEOUT)
mesh = jax.make_mesh((2,), ("x",))
rows, whole = jax.NamedSharding(mesh, jax.P("x")), jax.NamedSharding(mesh, jax.P())
x = jax.make_array_from_callback((4,), rows, lambda index: np.arange(4.0, dtype=np.float32)[index])
if ONE_DOES_NOT_SHARE and jax.process_index() == 0:
    jax.config.update("jax_share_binary_between_hosts", False)
f = jax.jit(lambda x: (x * x).sum(), out_shardings=whole)
print("@@ RESULT", float(f(x)))
alone = jax.jit(lambda x: x + 1)
print("@@ ALONE", float(alone(np.float32(1))))
"""


def lines(tmp_path, timeout, one_does_not_share=False):
    program = PROGRAM.replace("TIMEOUT", str(timeout))
    program = program.replace("ONE_DOES_NOT_SHARE", str(one_does_not_share))
    program = program.replace("sys.argv[1]", repr(str(tmp_path / "cache")))
    outputs = process_testing.run(program, 2, devices=1)
    return ["\n".join(s for s in o.splitlines() if s.startswith("@@")) for o in outputs]


def test_one_process_compiles(tmp_path):
    first, second = lines(tmp_path, 30_000)
    assert "Sent the program 'jit__lambda" in first and "Received" not in first
    assert "Received the program 'jit__lambda" in second and "from process 0" in second
    assert "Sent" not in second
    for output in (first, second):
        assert "RESULT 14.0" in output and "ALONE 2.0" in output


def test_a_process_that_waits_in_vain(tmp_path):
    first, second = lines(tmp_path, 500, one_does_not_share=True)
    assert "Sent" not in first
    assert "did not come from process 0 within 500 ms, so this process compiles it" in second
    assert "RESULT 14.0" in first and "RESULT 14.0" in second
