"""Programs are forgotten before the process has too many memory maps."""

import logging

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import memory_maps

pytestmark = pytest.mark.skipif(
    not memory_maps._MAPS.exists(), reason="only Linux tells a process's memory maps"
)


@pytest.fixture
def limit(tmp_path, monkeypatch):
    """Sets the limit, and asks for it at each program."""
    monkeypatch.setattr(memory_maps, "_PERIOD", 1)
    monkeypatch.setattr(memory_maps, "_threshold", 0.0)
    monkeypatch.setattr(memory_maps, "_LIMIT", tmp_path / "max_map_count")
    return memory_maps._LIMIT.write_text


def test_maps_are_counted():
    before = memory_maps._count_maps()
    functions = [jax.jit(lambda x, n=n: x * 2 + n) for n in range(20)]
    assert [float(f(1.0)) for f in functions] == [2.0 + n for n in range(20)]
    assert before + 40 <= memory_maps._count_maps() <= before + 400


def test_cached_programs_are_forgotten(limit, caplog):
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    for n in range(1, 41):
        f(np.ones(n, np.float32))
    before = memory_maps._count_maps()
    limit(str(int(before / memory_maps._SHARE)))
    with caplog.at_level(logging.INFO, logger=memory_maps.logger.name):
        f(np.ones(41, np.float32))
    assert "Forgetting cached programs" in caplog.text
    assert memory_maps._count_maps() <= before - 80
    caplog.clear()
    np.testing.assert_allclose(f(np.zeros(7, np.float32)), np.ones(7))
    assert not caplog.records


def test_programs_in_use_are_kept_and_told_of_once(limit, caplog):
    kept = [jax.jit(lambda x, n=n: x + n).lower(1.0).compile() for n in range(40)]
    limit(str(memory_maps._count_maps() + 100))
    with caplog.at_level(logging.WARNING, logger=memory_maps.logger.name):
        for n in range(3):
            jax.jit(lambda x, n=n: x - n)(2.0)
    (record,) = caplog.records
    assert "sysctl -w vm.max_map_count=" in record.getMessage()
    assert [float(f(1.0)) for f in kept] == [1.0 + n for n in range(40)]


def test_programs_run_while_caches_are_emptied(limit):
    """Also in the middle of a function that others call."""
    limit("1")

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
        batch = jax.vmap(jax.jit(loss))(jnp.stack([x, x]))
        np.testing.assert_allclose(batch, [value, value], rtol=1e-6)
        assert grad.shape == (3,)


def test_another_system_has_no_limit(limit, caplog):
    del limit  # the file is not there
    with caplog.at_level(logging.INFO, logger=memory_maps.logger.name):
        assert float(jax.jit(lambda x: x + 41)(1.0)) == 42
    assert not caplog.records
