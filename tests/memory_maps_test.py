"""Programs are forgotten before the process has too many memory maps.

Most tests run in a process of their own: one that has run many others would need long to empty its caches.
"""

import logging
import subprocess
import sys

import pytest

import jax
from jax._src import memory_maps

pytestmark = pytest.mark.skipif(
    not memory_maps._MAPS.exists(), reason="only Linux tells a process's memory maps"
)

_BEGIN = """
import logging, pathlib, sys
import numpy as np
import jax, jax.numpy as jnp
from jax import lax
from jax._src import memory_maps

messages = []
handler = logging.Handler()
handler.emit = lambda record: messages.append(record.getMessage())
memory_maps.logger.addHandler(handler)
memory_maps.logger.setLevel(logging.INFO)
memory_maps.logger.propagate = False
memory_maps._PERIOD = 1
memory_maps._LIMIT = pathlib.Path(sys.argv[1])
limit = lambda maps: memory_maps._LIMIT.write_text(str(int(maps)))
"""


def run(program, tmp_path):
    """Runs a program that looks at its memory maps at each compilation; `limit` sets how many are allowed."""
    command = [sys.executable, "-c", _BEGIN + program, str(tmp_path / "max_map_count")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_maps_are_counted():
    before = memory_maps._count_maps()
    functions = [jax.jit(lambda x, n=n: x * 2 + n) for n in range(20)]
    assert [float(f(1.0)) for f in functions] == [2.0 + n for n in range(20)]
    assert before + 40 <= memory_maps._count_maps() <= before + 400


def test_cached_programs_are_forgotten(tmp_path):
    program = """
f = jax.jit(lambda x: jnp.sin(x) + 1)
for n in range(1, 41):
    f(np.ones(n, np.float32))
before = memory_maps._count_maps()
limit(before / memory_maps._SHARE)
f(np.ones(41, np.float32))
assert len(messages) == 1 and "Forgetting cached programs" in messages[0], messages
assert memory_maps._count_maps() <= before - 80
np.testing.assert_allclose(f(np.zeros(7, np.float32)), np.ones(7))
assert len(messages) == 1
"""
    run(program, tmp_path)


def test_programs_in_use_are_kept_and_told_of_once(tmp_path):
    program = """
kept = [jax.jit(lambda x, n=n: x + n).lower(1.0).compile() for n in range(40)]
limit(memory_maps._count_maps() + 100)
for n in range(3):
    jax.jit(lambda x, n=n: x - n)(2.0)
assert len([m for m in messages if "sysctl -w vm.max_map_count=" in m]) == 1, messages
assert [float(f(1.0)) for f in kept] == [1.0 + n for n in range(40)]
"""
    run(program, tmp_path)


def test_programs_run_while_caches_are_emptied(tmp_path):
    """Also in the middle of a function that others call."""
    program = """
limit(1)

@jax.jit
def inner(x):
    return jnp.sort(x) * 2

def loss(x):
    y = inner(x) + jnp.sum(inner(x[::-1]))
    return jnp.sum(lax.scan(lambda c, v: (c * v, c + v), 1.0, y)[1])

x = jnp.array([0.3, 0.1, 0.2])
for _ in range(2):
    memory_maps._threshold = 0.0
    value, grad = jax.value_and_grad(loss)(x)
    memory_maps._threshold = 0.0
    batch = jax.vmap(jax.jit(loss))(jnp.stack([x, x]))
    np.testing.assert_allclose(batch, [value, value], rtol=1e-6)
    assert grad.shape == (3,)
assert messages
"""
    run(program, tmp_path)


def test_another_system_has_no_limit(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(memory_maps, "_PERIOD", 1)
    monkeypatch.setattr(memory_maps, "_LIMIT", tmp_path / "absent")
    with caplog.at_level(logging.INFO, logger=memory_maps.logger.name):
        assert float(jax.jit(lambda x: x + 41)(1.0)) == 42
    assert not caplog.records
