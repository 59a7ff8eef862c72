"""Threads of the CPU backend, and bounds on the cores of a process."""

import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import config, cpu_threads, hardware_utils
from jax.experimental.cpu import limit_cores

linux = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="only Linux binds threads to cores"
)

_REPORT = """
import ctypes, json, os, pathlib
import jax, jax.numpy as jnp
x = jnp.ones((300, 300))
(x @ x).block_until_ready()
jnp.linalg.qr(x)[0].block_until_ready()
names = [(t / "comm").read_text().strip() for t in pathlib.Path("/proc/self/task").iterdir()]
(blas,) = {l.split()[-1] for l in open("/proc/self/maps") if "scipy.libs/" in l and "openblas" in l}
blas = ctypes.CDLL(blas).scipy_openblas_get_num_threads()
print(json.dumps([names.count("tf_XLAEigen"), blas, os.environ.get("NPROC")]))
"""


# What else has a part in the size of the pool: XLA makes a thread for each device at least.
_OTHERS = ("NPROC", "XLA_FLAGS", "JAX_NUM_CPU_DEVICES")


def _report(prefix="", **variables):
    environment = {k: v for k, v in os.environ.items() if k not in _OTHERS}
    done = subprocess.run(
        [sys.executable, "-c", prefix + _REPORT],
        env=environment | variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@linux
def test_the_pool_and_blas_have_as_many_threads_as_asked_for():
    assert _report(JAX_CPU_NUM_THREADS="3") == [3, 3, None]
    assert _report("import jax; jax.config.update('jax_cpu_num_threads', 1)\n") == [1, 1, None]


@linux
def test_a_quota_bounds_the_pool(tmp_path):
    (tmp_path / "groups").write_text("0::/a/b\n")
    for folder, quota in (("a", "150000 100000"), ("a/b", "max 100000")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cpu.max").write_text(quota)
    prefix = f"""
import pathlib
from jax._src import hardware_utils
hardware_utils.CGROUPS = pathlib.Path({str(tmp_path)!r})
hardware_utils.CGROUPS_OF_PROCESS = hardware_utils.CGROUPS / "groups"
hardware_utils.num_cores_in_affinity = lambda: 6
"""
    assert _report(prefix)[0] == 2
    assert _report(prefix, NPROC="4")[0] == 4  # the user's own


@pytest.mark.parametrize(
    "groups, files, expected",
    [
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("0::/x/y\n", {"x/cpu.max": "400000 100000", "x/y/cpu.max": "300000 100000"}, 3.0),
        ("0::/../outside\n", {"cpu.max": "100000 100000"}, 1.0),
        ("4:cpu,cpuacct:/d\n2:memory:/m\n", {
            "cpu/d/cpu.cfs_quota_us": "50000", "cpu/d/cpu.cfs_period_us": "100000"}, 0.5),
        ("4:cpu,cpuacct:/d\n", {
            "cpu/d/cpu.cfs_quota_us": "-1", "cpu/d/cpu.cfs_period_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "broken"}, None),
    ],
)  # fmt: skip
def test_quotas_of_control_groups(groups, files, expected, tmp_path, monkeypatch):
    root = tmp_path / "cgroup"
    root.mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(hardware_utils, "CGROUPS", root)
    monkeypatch.setattr(hardware_utils, "CGROUPS_OF_PROCESS", tmp_path / "groups")
    monkeypatch.setattr(hardware_utils, "num_cores_in_affinity", lambda: 8)
    assert hardware_utils.cpu_quota() == expected
    usable = {None: 8, 2.5: 3, 3.0: 3, 1.0: 1, 0.5: 1}[expected]
    assert hardware_utils.num_usable_cores() == usable


def test_the_number_of_threads_is_fixed_when_the_backend_runs():
    jnp.ones(1)
    with pytest.raises(RuntimeError, match="jax_cpu_num_threads config should be updated before"):
        jax.config.update("jax_cpu_num_threads", config.cpu_num_threads.value + 1)


def test_a_negative_number_of_threads_is_an_error():
    done = subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"],
        env=os.environ | {"JAX_CPU_NUM_THREADS": "-2", "JAX_PLATFORMS": "cpu"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode and "jax_cpu_num_threads must be a positive number" in done.stderr


def _masks():
    return {t: os.sched_getaffinity(t) for t in cpu_threads._threads()}


@linux
def test_all_threads_are_bound_and_freed_again():
    f = jax.jit(lambda x: jnp.sin(x @ x).sum())
    x = jnp.ones((200, 200))
    expected = f(x)
    before = _masks()
    with limit_cores(1):
        assert f(x) == expected
        within = _masks()
        assert {len(m) for m in within.values()} == {1} and len(set.union(*within.values())) == 1
        with limit_cores(10_000):
            assert {len(m) for m in _masks().values()} == {1}
    after = _masks()
    assert all(after[t] == mask for t, mask in before.items() if t in after)


@linux
def test_the_least_bound_holds_whoever_leaves_first():
    every = os.sched_getaffinity(0)
    outer, inner = limit_cores(10_000), limit_cores(1)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert len(os.sched_getaffinity(0)) == 1
    inner.__exit__(None, None, None)
    assert os.sched_getaffinity(0) == every


@linux
def test_threads_that_were_pinned_are_so_again():
    core = max(os.sched_getaffinity(0))
    ids, pinned, end = [], threading.Event(), threading.Event()

    def wait():
        os.sched_setaffinity(0, {core})
        ids.append(threading.get_native_id())
        pinned.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    pinned.wait()
    with limit_cores(1):
        pass
    assert os.sched_getaffinity(ids[0]) == {core}
    end.set()
    thread.join()


@linux
def test_threads_that_begin_while_others_are_bound(monkeypatch):
    set_to = {}
    lists = [[1, 2], [1, 2], [1, 2, 3], [1, 2, 3]] + [[1, 3]] * 2
    monkeypatch.setattr(cpu_threads, "_threads", lambda: lists.pop(0))
    monkeypatch.setattr(cpu_threads, "_set_affinity", set_to.__setitem__)
    monkeypatch.setattr(cpu_threads, "_affinity", lambda _: {0, 1})
    with limit_cores(1):
        assert set_to.keys() == {1, 2, 3} and {len(m) for m in set_to.values()} == {1}
    assert set_to[1] == {0, 1} and set_to[3] == os.sched_getaffinity(0)


@linux
def test_no_bound_is_left_where_one_cannot_be_set(monkeypatch):
    before = _masks()

    def fail(thread, cores):
        raise PermissionError(f"{thread} {cores}")

    with monkeypatch.context() as patch:
        patch.setattr(cpu_threads, "_set_affinity", fail)
        with pytest.raises(PermissionError), limit_cores(1):
            pass
    with limit_cores(10_000):
        assert _masks() == before


@pytest.mark.parametrize("chosen, threads", [(0, 2), (5, 5)])
def test_which_libraries_are_bound(monkeypatch, chosen, threads):
    """OpenBLAS wherever it is, to no more threads than its own variables say."""
    calls, folder = [], "/home/me/my openblas"
    maps = [
        f"7f00-7f01 r-xp 00000000 08:01 12   {folder}/{name}"
        for name in ("libscipy_openblas-c1.so", "weights.npy", "libopenblas.so.0 (deleted)")
    ]
    library = SimpleNamespace(
        scipy_openblas_get_num_threads=lambda: 2, scipy_openblas_set_num_threads=calls.append
    )
    opened = []
    monkeypatch.setattr(cpu_threads.pathlib.Path, "read_text", lambda *_, **__: "\n".join(maps))
    monkeypatch.setattr(cpu_threads.ctypes, "CDLL", lambda p: opened.append(p) or library)
    monkeypatch.setattr(config, "cpu_num_threads", SimpleNamespace(value=chosen))
    monkeypatch.setattr(cpu_threads, "num_threads", lambda: chosen or 4)
    cpu_threads.bound_blas()
    assert (opened, calls) == ([f"{folder}/libscipy_openblas-c1.so"], [threads])


@linux
def test_threads_that_begin_within_are_bound_and_freed_too():
    go, end = threading.Event(), threading.Event()
    masks = []

    def record():
        masks.append(os.sched_getaffinity(0))
        go.set()
        end.wait()
        masks.append(os.sched_getaffinity(0))

    every = os.sched_getaffinity(0)
    with pytest.raises(KeyError), limit_cores(1):
        thread = threading.Thread(target=record)
        thread.start()
        go.wait()
        raise KeyError
    end.set()
    thread.join()
    assert len(masks[0]) == 1 and masks[1] == every


@pytest.mark.parametrize(
    "count, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bounds_that_are_no_number_of_cores(count, error):
    with pytest.raises(error, match="limit_cores needs a"), limit_cores(count):
        pass


@linux
def test_bounds_take_integers_of_numpy():
    with limit_cores(np.int32(1)):
        assert len(os.sched_getaffinity(0)) == 1


def test_systems_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(NotImplementedError, match="JAX_CPU_NUM_THREADS"), limit_cores(1):
        pass
