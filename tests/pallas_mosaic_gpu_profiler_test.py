"""The profiler of kernels for GPUs (Mosaic GPU): what it records, run by a machine, and the traces made of it."""

import json
import os

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import lowered
from pallas_mosaic_gpu_kernels import f32, like

import jax
from jax._src.interpreters import mlir
from jax._src.pallas.mosaic_gpu import traces
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

X = np.arange(256, dtype=np.float32).reshape(2, 128)
SPACE = 20


def options(directory="traces", space=SPACE, **more):
    return plgpu.CompilerParams(profile_space=space, profile_dir=str(directory), **more)


def scopes(x_ref, o_ref):
    i = jax.lax.axis_index("i")
    with jax.named_scope("outer"):
        with jax.named_scope("load"):
            x = x_ref[i]

        def step(j, x):
            with jax.named_scope("step"):
                return x + 1

        x = jax.lax.fori_loop(0, 2 + i, step, x)

        @pl.when(i == 1)
        def _():
            with jax.named_scope("only"):
                o_ref[i] = x

        with jax.named_scope("store"):
            o_ref[i] = x * 2


def kernel_of(body, params, **more):
    more = dict(grid=(2,), grid_names=("i",)) | more
    return plgpu.kernel(body, out_type=like(2, 128), compiler_params=params, **more)


def spans(events):
    """The names of scopes of each recorder, with brackets around those that are within."""
    out = {}
    for e in events:
        if e["ph"] != "M":
            text = f"{e['name']}(" if e["ph"] == "B" else ")"
            out[e["pid"], e["tid"]] = out.get((e["pid"], e["tid"]), "") + text
    return out


@pytest.fixture
def written(monkeypatch):
    """The functions that lowered kernels call on the host, in order."""
    found = []
    monkeypatch.setattr(
        mlir, "emit_python_callback", lambda ctx, call, *args, **_: found.append(call)
    )
    return found


def test_records_scopes_and_writes_them(tmp_path, written):
    directory = tmp_path / "new" / "traces"
    low = lowered(kernel_of(scopes, options(directory)), X)
    (out,), records = mosaic_gpu_machine.run_profiled(
        low, X, outputs=[like(2, 128)], recorders=2, words=traces.row_words(SPACE)
    )
    np.testing.assert_array_equal(out, (X + [[2], [3]]) * 2)
    (write,) = written
    assert write(records) == () and write(records) == ()
    first, second = sorted(os.listdir(directory))  # each run has a file
    assert first.startswith("scopes-") and first.endswith("-trace.json")
    trace = json.loads((directory / second).read_text())
    assert trace["displayTimeUnit"] == "ns"
    begins = "scopes(outer(load()" + "step()" * 2
    assert spans(trace["traceEvents"]) == {
        (6, 1): begins + "store()))",
        (7, 2): begins + "step()only()store()))",
    }
    times = [e["ts"] for e in trace["traceEvents"] if e.get("tid") == 1 and e["ph"] != "M"]
    assert times == sorted(times) and times[0] == 0


def test_records_single_warps(written):
    def body(x_ref, o_ref):
        @plgpu.warp_map
        def each(w):
            with jax.named_scope("each"):

                @pl.when(w == 2)
                def _():
                    with jax.named_scope("third"):
                        o_ref[0, 0] = x_ref[0, 0]

    found = {}
    for scope, recorders in ((plgpu.TraceScope.WARP, 4), (plgpu.TraceScope.WARPGROUP, 1)):
        call = kernel_of(body, options(profile_trace_scope=scope), grid=(1,))
        _, records = mosaic_gpu_machine.run_profiled(
            lowered(call, X), X, outputs=[like(2, 128)], recorders=recorders, words=traces.row_words(SPACE)
        )  # fmt: skip
        names = [f"warp {i}" for i in range(recorders)]
        found[scope] = traces.trace_events(records, "k", ["each", "third"], names)
    one = "k(each())"
    third = "k(each(third()))"
    assert spans(found[plgpu.TraceScope.WARP]) == {
        (6, 1): one,
        (6, 2): one,
        (6, 3): third,
        (6, 4): one,
    }
    assert spans(found[plgpu.TraceScope.WARPGROUP]) == {(6, 1): one}


def test_records_beside_semaphores(written):
    def body(x_ref, o_ref, semaphore):
        with jax.named_scope("signal"):
            pl.semaphore_signal(semaphore)
        with jax.named_scope("wait"):
            pl.semaphore_wait(semaphore)
        o_ref[...] = x_ref[...]

    call = kernel_of(body, options(), grid=(1,), scratch_types=[plgpu.SemaphoreType.REGULAR])
    (out,), records = mosaic_gpu_machine.run_profiled(
        lowered(call, X), X, outputs=[like(2, 128)], recorders=1, words=traces.row_words(SPACE), counters=1,
    )  # fmt: skip
    np.testing.assert_array_equal(out, X)
    events = traces.trace_events(records, "k", ["signal", "wait"], ["thread 0"])
    assert spans(events) == {(6, 1): "k(signal()wait())"}


def test_records_no_more_than_there_is_space_for(written):
    low = lowered(kernel_of(scopes, options(space=3)), X)
    (out,), records = mosaic_gpu_machine.run_profiled(
        low, X, outputs=[like(2, 128)], recorders=2, words=traces.row_words(3)
    )
    np.testing.assert_array_equal(out, (X + [[2], [3]]) * 2)
    with pytest.raises(RuntimeError, match="entered 7 scopes .* profile_space is 3: .*space=7"):
        written[0](records)


# Decoding


def row(start, end, clocks, numbers, multiprocessor=0, space=4):
    """What a recorder has recorded: the clocks at the beginning, of each event, and at the end."""
    words = np.zeros(traces.row_words(space), np.uint32)
    words[:8] = [start % 2**32, start >> 32, end % 2**32, end >> 32, clocks[0] % 2**32, clocks[-1] % 2**32, multiprocessor,
                 len(numbers)]  # fmt: skip
    events = [[n, c % 2**32] for n, c in zip(numbers, clocks[1:-1])]
    words[8 : 8 + 2 * len(events)] = np.array(events, np.uint32).reshape(-1)
    return words


def test_traces_have_the_times_of_the_device():
    since, left = 2**40 + 2**32 - 50, traces.LEFT
    records = np.stack([
        row(since + 100, since + 1100, [2**32 - 200, 0, 600, 1000, 1200, 1800], [0, 1, left + 1, left], 3),
        np.zeros(traces.row_words(4), np.uint32),  # a block that did not run
        row(since, since + 1000, [7, 2007], [], 2),
    ])  # fmt: skip
    got = traces.trace_events(records, "kernel", ["a", "b"], ["thread 0"])
    name = lambda what, text, pid, tid: {
        "name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}
    }  # fmt: skip
    event = lambda name, kind, ts, pid, tid: {"name": name, "ph": kind, "ts": ts, "pid": pid, "tid": tid}  # fmt: skip
    assert got == [
        name("process_name", "SM 2", 3, 3), name("thread_name", "block 2, thread 0", 3, 3),
        event("kernel", "B", 0.0, 3, 3), event("kernel", "E", 1.0, 3, 3),
        name("process_name", "SM 3", 4, 1), name("thread_name", "block 0, thread 0", 4, 1),
        event("kernel", "B", 0.1, 4, 1), event("a", "B", 0.2, 4, 1), event("b", "B", 0.5, 4, 1),
        event("b", "E", 0.7, 4, 1), event("a", "E", 0.8, 4, 1), event("kernel", "E", 1.1, 4, 1),
    ]  # fmt: skip


def test_traces_of_kernels_shorter_than_the_time_is_exact():
    (_, _, begin, end) = traces.trace_events(row(5, 5, [10, 30], [])[None], "k", [], ["thread 0"])
    assert (begin["ts"], end["ts"]) == (0.0, 0.02)
    assert traces.trace_events(np.zeros((2, 8), np.uint32), "k", [], ["thread 0"]) == []


# Calls


def test_calls_have_an_effect_and_one_more_array():
    profiled, plain = kernel_of(scopes, options()), kernel_of(scopes, plgpu.CompilerParams())
    assert [str(e) for e in jax.make_jaxpr(profiled)(X).effects] == ["Debug"]
    assert not jax.make_jaxpr(plain)(X).effects
    text = lowered(profiled, X).as_text()
    assert f"tensor<2x{traces.row_words(SPACE)}xui32>" in text and "callback" in text
    assert "callback" not in lowered(plain, X).as_text()
    mapped = lowered(jax.vmap(profiled), np.stack([X] * 3)).as_text()
    assert f"tensor<6x{traces.row_words(SPACE)}xui32>" in mapped


def test_interpreted_kernels_are_not_profiled(tmp_path):
    call = kernel_of(scopes, options(tmp_path), interpret=plgpu.InterpretParams())
    np.testing.assert_array_equal(call(X), (X + [[2], [3]]) * 2)
    assert not jax.make_jaxpr(call)(X).effects
    jax.effects_barrier()
    assert not os.listdir(tmp_path)


def test_too_much_space():
    with pytest.raises(ValueError, match="bytes of shared memory, .* or less profile_space"):
        lowered(kernel_of(scopes, options(space=20000)), X)


def test_options_that_cannot_be():
    with pytest.raises(ValueError, match="profile_space must be at least 0, but got -3"):
        options(space=-3)
    with pytest.raises(ValueError, match=r"must be a plgpu\.TraceScope, but got 'warp'"):
        options(profile_trace_scope="warp")


def test_scopes_of_pipelines(written):
    def body(x_ref, o_ref):
        with jax.named_scope("twice"):
            o_ref[...] = x_ref[...] * 2

    spec = plgpu.BlockSpec((1, 128), lambda i: (i, 0))
    call = pl.pallas_call(
        body, out_shape=like(2, 128), grid=(2,), in_specs=[spec], out_specs=spec,
        compiler_params=options(dimension_semantics=["sequential"]), name="my_call",
    )  # fmt: skip
    (out,), records = mosaic_gpu_machine.run_profiled(
        lowered(call, X), X, outputs=[jax.ShapeDtypeStruct((2, 128), f32)], recorders=1, words=traces.row_words(SPACE),
    )  # fmt: skip
    np.testing.assert_array_equal(out, X * 2)
    events = traces.trace_events(records, "my_call", ["twice"], ["thread 0"])
    assert spans(events) == {(6, 1): "my_call(twice()twice())"}
