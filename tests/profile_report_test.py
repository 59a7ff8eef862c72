"""`jax.profiler.report` and `python -m jax.tools.profile`: planted costs are found and named, as page and as text."""

import inspect
import os
import re
import subprocess
import sys
import threading

import browser
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import compiler, config, monitoring
from jax._src.interpreters.pxla import lowering
from jax._src.profile_report import collector, programs
from jax._src.profile_report.collector import Collected
from jax._src.profile_report.hints import hints
from jax._src.profile_report.report import Report
from jax._src.profile_report.trace_events import covered
from jax._src.profiler import tracing
from jax._src.xla_bridge import registry

X = np.ones((20, 30), np.float32)
BIG = np.ones((300, 1000), np.float32)  # 1.2 MB


def this_line() -> int:
    return inspect.currentframe().f_back.f_lineno


def section(report, title):
    (found,) = [s for s in report.sections if s.title == title]
    return [dict(zip(found.columns, row)) for row in found.texts]


def row_of(rows, column, value):
    (row,) = [row for row in rows if row[column] == value]
    return row


@pytest.fixture(scope="module")
def planted():
    """A report of a program with an array that is captured, a value that is kept, and calls that miss."""
    table = jnp.asarray(BIG)

    @jax.jit
    def planted_step(x):
        def loss(x):
            h = jnp.sin(x @ x.T)
            return jnp.sum(h @ h) + jnp.sum(table[0])

        return jax.grad(loss)(x)

    with jax.profiler.report(title="<planted>") as report:
        for rows in (20, 20, 20, 10):
            planted_step(X[:rows]).block_until_ready()
    report.lines = {"table": this_line() - 7, "sin": this_line() - 8, "call": this_line() - 1}
    return report


# What is found


def test_functions(planted):
    row = row_of(section(planted, "Functions"), "function", "planted_step")
    for stage in ("traced", "lowered", "compiled"):
        assert re.fullmatch(r"2x [\d.]+ (s|ms|µs)", row[stage])
    assert re.fullmatch(r"4x [\d.]+ (s|ms|µs)", row["run"])
    assert row["cache hits"] == "2 of 4"


def test_misses(planted):
    (row,) = section(planted, "Calls that were traced or compiled again")
    assert row["function"] == "planted_step" and row["changed"].startswith("x: f32[20,30] -> f32[10,30]")  # fmt: skip
    assert row["called at"].startswith(f"{__file__}:{planted.lines['call']}")
    assert any("planted_step missed its cache once (shape of x" in h for h in planted.hints)


def test_constants(planted):
    row = section(planted, "Biggest constants")[0]
    assert (row["type"], row["bytes"], row["function"]) == ("f32[300,1000]", "1.2 MB", "planted_step")  # fmt: skip
    assert row["line"].startswith(f"{__file__}:{planted.lines['table']}:")
    (hint,) = [h for h in planted.hints if "captures" in h]
    assert hint.startswith("planted_step captures f32[300,1000] (1.2 MB), which ")
    assert hint.endswith("pass it as an argument")


def test_residuals(planted):
    rows = section(planted, "Biggest values kept for backward passes")
    row = next(row for row in rows if row["of"] == "cos")
    assert (row["type"], row["bytes"]) == ("f32[20,20]", "1.6 kB")
    assert row["line"].startswith(f"{__file__}:{planted.lines['sin']}:")


def test_passes_and_operations(planted):
    passes = section(planted, "Compiler")
    assert len(passes) > 10 and all(int(row["times"]) > 0 for row in passes)
    operations = [r for r in section(planted, "Operations") if r["program"] == "jit_planted_step"]
    assert any(row["line"] == f"{__file__}:{planted.lines['sin']}" for row in operations)
    assert any("dot_general" in row["of"] for row in operations)


def test_memory(planted):
    peak, before = section(planted, "Peak memory since the start")[:2]
    assert peak["peak"].endswith("MB") or peak["peak"].endswith("GB")
    rows = [r for r in section(planted, "Memory of programs") if r["program"] == "planted_step"]
    assert [row["arguments"] for row in rows] == ["2.4 kB", "1.2 kB"]


def test_times_add_up(planted):
    shares = {row[""]: row["share"] for row in section(planted, "Time")}
    assert set(shares) == {"tracing", "lowering", "compiling", "running on devices"}
    assert sum(int(share.removesuffix(" %")) for share in shares.values()) <= 102


def test_text_and_page(planted):
    text = str(planted)
    assert text.startswith("<planted>\n") and text.splitlines()[1].endswith("B")
    for found in planted.sections:
        assert found.title in text and f"<h2>{found.title}</h2>" in planted.html
        for cell in (cell for row in found.texts for cell in row):
            assert cell in text
    assert "<title>&lt;planted&gt;</title>" in planted.html and "<planted>" not in planted.html
    assert repr(planted).startswith("<Report of <planted>: ") and " in all, " in repr(planted)
    assert not re.search(r"https?://|@import|url\(|<link|src=", planted.html)


@pytest.mark.browser
def test_page_in_a_browser(planted):
    script = """
    const q = s => [...document.querySelectorAll(s)];
    return {title: document.title, headings: q("h2").map(h => h.textContent), tables: q("table").length,
            bars: q("td.bar").filter(b => getComputedStyle(b).backgroundSize.startsWith("100%")).length,
            visible: q("td").every(td => td.getBoundingClientRect().height > 0),
            wide: q(".scroll").every(s => s.getBoundingClientRect().width <= innerWidth)};
    """
    result = browser.run_in_page(planted.html, script)
    assert result["title"] == "<planted>" and result["visible"] and result["wide"]
    assert result["headings"] == ["What to do", *[s.title for s in planted.sections]]
    assert result["tables"] == len([s for s in planted.sections if s.rows])
    assert result["bars"] >= 4  # the longest row of each table with bars


# Programs' other situations


def test_training_loops_in_one_program():
    """A backward pass inside of the body of a loop, and constants of inner functions."""
    table = jnp.asarray(BIG)
    lookup = jax.jit(lambda: table)

    def train(x):
        step = lambda x, _: (
            x - jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2 * lookup()[:20, :30]))(x),
            None,
        )
        return jax.lax.scan(step, x, None, length=3)[0]

    closed = jax.make_jaxpr(train)(X)
    kept = programs.kept_for_backward("train", closed.jaxpr)
    assert {"f32[20,30]"} == {held.type for held in kept if held.what == "tanh"}
    constants = programs.captured_constants("train", closed)
    assert [c.nbytes for c in constants if c.nbytes] == [BIG.nbytes]


def test_without_trace():
    with jax.profiler.report(trace=False) as report:
        jax.jit(lambda x: x + 1)(X)
    names = {s.title for s in report.sections}
    assert "Operations" not in names and "Compiler" not in names
    assert "There is no trace: it was not asked for." in report.text
    assert row_of(section(report, "Functions"), "function", "<lambda>")["compiled"].startswith("1x")


def test_the_programs_own_trace_wins(tmp_path):
    with jax.profiler.report() as report:
        jax.jit(lambda x: x + 1)(X)
        with jax.profiler.trace(tmp_path):
            jax.jit(lambda x: x + 2)(X)
        with jax.profiler.trace(tmp_path):
            pass
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert "after the program had started a trace of its own" in report.text
    assert section(report, "Operations")
    with jax.profiler.trace(tmp_path), jax.profiler.report() as report:
        jax.jit(lambda x: x + 3)(X)
    assert "There is no trace: another trace was running." in report.text


def test_one_at_a_time_and_nothing_is_left():
    listeners = [
        registry._backend_initialization_hooks, lowering.lowering_listeners, compiler.executable_listeners, monitoring._event_listeners,
        monitoring._event_time_span_listeners,
    ]  # fmt: skip
    before = [list(found) for found in listeners]
    with jax.profiler.report() as report:
        assert "not finished" in report.text and "not finished" in report.html
        with pytest.raises(RuntimeError, match="end the block of the other"):
            with jax.profiler.report():
                pass
        jax.monitoring.clear_event_listeners()  # a program may do so
        for found, earlier in zip(listeners[3:], before[3:]):
            found.extend(earlier)
    assert [list(found) for found in listeners] == before
    assert tracing.background is None and not config.explain_cache_misses.value
    jax.jit(lambda x: x + 4)(X)
    assert "<lambda>" not in report.text


def test_cache_hits_of_library_functions():
    jax.devices()  # the trace begins when backends have started
    with jax.profiler.report() as report:
        for size in (17, 18, 18):
            jnp.ones(size)
    row = row_of(section(report, "Functions"), "function", "ones")
    assert row["compiled"].startswith("2x") and row["cache hits"] == "1 of 3"


def test_interrupted_wait(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collector, "_wait_for_devices", interrupted)
        with pytest.raises(KeyboardInterrupt):
            with jax.profiler.report():
                jnp.sin(X)
    assert tracing.background is None and not config.explain_cache_misses.value
    with jax.profiler.report() as report:  # neither the lock nor the trace is left
        jnp.sin(X)
    assert "running on devices" in report.text and "There is no trace" not in report.text


def test_failing_blocks_are_reported(tmp_path):
    file = tmp_path / "report.html"
    with pytest.raises(ZeroDivisionError):
        with jax.profiler.report(file) as report:
            jax.jit(lambda x: x + 5)(X)
            raise ZeroDivisionError
    assert file.read_text(encoding="utf-8") == report.html
    assert row_of(section(report, "Functions"), "function", "<lambda>")


def test_threads():
    with jax.profiler.report() as report:
        threads = [
            threading.Thread(target=lambda n=n: jax.jit(lambda x: x * n)(X)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert row_of(section(report, "Functions"), "function", "<lambda>")["traced"].startswith("4x")


def test_compilation_cache(tmp_path):
    from jax._src import compilation_cache

    seconds = config.persistent_cache_min_compile_time_secs.value
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        for found in ("programs not found there", "programs found in the compilation cache"):
            with jax.profiler.report() as report:
                jax.jit(lambda x: jnp.cos(x) * 6)(X)
            assert row_of(section(report, "Compilation cache"), "", found)["count"] == "1"
    finally:
        config.update("jax_persistent_cache_min_compile_time_secs", seconds)
        config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()


def test_hints():
    residual = programs.Held("f", "f32[9]", 900_000_000, "sin", "model.py:3 (loss)")
    found = hints(
        Collected(peak_bytes=10**9, residuals=[residual, residual], stage_seconds={"compile": 12.0})
    )
    assert "f keeps 900 MB for its backward pass, most of it f32[9] at model.py:3 (loss)" in found[0]  # fmt: skip
    assert "jax.checkpoint" in found[0]
    assert "compiling took 12 s" in found[1] and "JAX_COMPILATION_CACHE_DIR" in found[1]
    assert hints(Collected()) == []


def test_unions_of_intervals():
    assert covered([]) == 0
    assert covered([(0, 10), (1, 2), (3, 12), (20, 21)]) == 13


def test_empty_report():
    report = Report("empty")
    report.finish(Collected())
    assert "Time" in report.text and "<h2>Time</h2>" in report.html


# The command


PROGRAM = """
import sys
import jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 3)  # must be possible: devices have not started
def planted(x):
    return jnp.sin(x) * len(jax.devices())
for n in (2, 3):
    jax.jit(planted)(jnp.ones(n))
print(sys.argv[1:], __name__)
if sys.argv[1:] == ["fail"]:
    raise ZeroDivisionError("planted")
sys.exit(7)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    # 3 devices are asked for by the program; a variable of the tests would be the answer otherwise
    environment = {k: v for k, v in os.environ.items() if k != "JAX_NUM_CPU_DEVICES"}

    def call(*arguments):
        command = [sys.executable, "-m", "jax.tools.profile", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return call


@pytest.mark.slow
def test_command(run, tmp_path):
    result = run("program.py", "--steps", "3")
    assert result.returncode == 7 and result.stdout == "['--steps', '3'] __main__\n"
    lines = result.stderr.splitlines()
    assert lines[0] == "program.py --steps 3" and " in all, " in lines[1]
    assert any(line.startswith("planted ") for line in lines)
    assert "planted missed its cache once (shape of x" in result.stderr
    assert "\x1b" not in result.stderr and "Operations" not in result.stderr
    page = tmp_path / "jax_profile.html"
    assert lines[-1] == f"report: {page}" and "Operations" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_command_with_a_failing_module(run, tmp_path):
    result = run("--text", "-o", "out.html", "-m", "program", "fail")
    assert result.returncode == 1 and "ZeroDivisionError: planted" in result.stderr
    assert "Operations" in result.stderr and (tmp_path / "out.html").exists()


@pytest.mark.slow
def test_command_waits_for_the_programs_threads(run, tmp_path):
    (tmp_path / "threads.py").write_text(
        "import threading, jax, jax.numpy as jnp\n"
        "def planted(x): return jnp.sin(x)\n"
        "threading.Thread(target=lambda: jax.jit(planted)(1.0)).start()\n"
    )
    result = run("threads.py")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("planted ")]
    assert line.count("1x ") >= 3, result.stderr  # traced, lowered and compiled


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("-o", "absent/page.html", "program.py"), "cannot be written to"),
        (("-o", ".", "program.py"), "cannot be written to"),
        (("absent.py",), "there is no program absent.py"),
    ],
)
def test_command_looks_at_its_arguments_first(tmp_path, monkeypatch, capsys, arguments, message):
    from jax._src.profile_report import command

    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("raise AssertionError('the program runs')")
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_command_on_a_terminal(capsys, monkeypatch, planted):
    from jax._src.profile_report import command

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    command._print(planted, sys.stderr, is_short=False)
    text = capsys.readouterr().err
    assert "Biggest constants" in text and "planted_step" in text
    monkeypatch.setitem(sys.modules, "rich.console", None)  # not installed
    command._print(planted, sys.stderr, is_short=True)
    text = capsys.readouterr().err
    assert "Functions" in text and "Biggest constants" not in text
