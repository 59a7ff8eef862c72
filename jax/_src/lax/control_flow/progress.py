"""Progress bars of loops.

A loop that shows its progress counts its steps, and each step applies the primitive `progress` to
that number. Compiled programs run such a loop as a loop over blocks of steps: the host is called
before each block, and within a block nothing is reported. On one device the host says how many
steps the next block has. On several, the device decides by itself, as it does where steps are not
those of a loop (unrolled ones, or those of each element of a batch): it calls the host at most 100
times a loop, or, if the number of steps is not known, 16 times while it doubles. The end is also
reported.
"""

import builtins
import functools
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, effects, host_functions, source_info_util, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.lax import lax, parallel
from jax._src.lax.control_flow.common import rearranged, split_at
from jax._src.lax.control_flow.conditionals import cond

traceback_util.register_exclusion(__file__)

_MAX_CALLS = 100
_SECONDS = 0.1  # between two reports, where the host decides
_GROWTH = 16  # of the number of steps between two reports, while that takes less time


class ProgressEffect(effects.Effect):
    """Reports of a loop's progress, which transformations may drop or repeat."""

    __slots__ = ()
    __str__ = lambda _: "Progress"


progress_effect = ProgressEffect()
effects.allow_everywhere(ProgressEffect)


class Bar(NamedTuple):
    """A loop's bar: its description, the number of steps if it is known, and the loop's line."""

    description: str
    total: int | None
    line: str


def bar_of(progress: bool | str, total: int | None) -> Bar | None:
    """Return the bar for the argument `progress` of a loop, or None if nothing is to be shown.

    Nothing is shown if stderr is neither a terminal nor a notebook's.
    """
    if progress is False:
        return None
    if not isinstance(progress, (bool, str)):
        raise TypeError(
            "The argument `progress` of a loop must be a bool or a description, got "
            f"{progress!r} of type {type(progress)}."
        )
    if total == 0 or not _is_visible():
        return None
    try:
        import tqdm  # noqa: F401 (only programs that show progress need it)
    except ImportError:
        raise ImportError(
            "The argument `progress` of a loop needs the package tqdm: run `python -m pip install tqdm`."
        ) from None
    line = source_info_util.summarize(source_info_util.current())
    # A bar has one line, which it returns to the start of.
    description = "" if progress is True else " ".join(progress.splitlines())
    return Bar(description, total, line)


def _is_visible() -> bool:
    return sys.stderr.isatty() or hasattr(builtins, "__IPYTHON__")


# Adding progress to the body of a loop


def first_device() -> list[Any]:
    """In the body of a `shard_map`, whether this is the first device: only that one reports."""
    env = core.get_axis_env()
    mapped = {core.no_axis_name, *env.vmap_axis_names}
    axes = tuple([a for a in env.sizes if a not in mapped])
    return [lax.eq(parallel.axis_index(axes), np.int32(0))] if axes else []


def first_step() -> Any:
    """The number of the first step, unknown to the compiler.

    It would otherwise compute the last one in advance, and report the end before the loop runs.
    """
    return lax.optimization_barrier(np.int32(0))


@core.cached_on_jaxpr
def with_progress(body: ClosedJaxpr, num_consts: int, bar: Bar, here: tuple) -> ClosedJaxpr:
    """Make a body count its steps and report them.

    The new body takes the values of `first_device`, of types `here`, before its constants, and
    carries the number of the step before its other values.
    """

    def run(*args):
        here, consts, (i,), rest = split_at(args, num_here, num_consts, 1)
        progress_p.bind(i, *here, bar=bar, final=False)
        return [lax.add(i, np.int32(1)), *core.jaxpr_as_fun(body)(*consts, *rest)]

    num_here = len(here)
    consts, rest = split_at(body.in_aval_qdds, num_consts)
    step = core.ShapedArray((), np.dtype(np.int32))
    info = body.debug_info.with_unknown_names()
    jaxpr, _, jaxpr_consts = pe.trace_to_jaxpr_dynamic(run, [*here, *consts, step, *rest], info)
    return ClosedJaxpr(jaxpr, jaxpr_consts)


def with_step(cond: ClosedJaxpr, num_consts: int) -> ClosedJaxpr:
    """Make a condition take the number of the step before the carried values."""
    consts, carry = split_at(range(len(cond.in_avals)), num_consts)
    return rearranged(cond, (*consts, core.ShapedArray((), np.dtype(np.int32)), *carry))


def finish(bar: Bar, steps: Any, here: Sequence[Any]) -> None:
    """Report the end of a loop, given its number of steps."""
    progress_p.bind(steps, *here, bar=bar, final=True)


# The primitive

progress_p = Primitive("progress", multiple_results=True)


def _types(step, *here, bar, final):
    return [], {progress_effect}


def _jvp(primals, tangents, **params):
    return progress_p.bind(*primals, **params), []


def _transpose(cts, *args, **params):
    return [Zero(x.aval.to_ct_aval()) if hasattr(x, "aval") else None for x in args]


def _batch(axis_data, args, dims, **params):
    step, *here = args
    if dims[0] is not None:  # the step of the element that goes on longest
        step = lax.reduce_max(step, (dims[0],))
    here = [x if d is None else lax.reduce_or(x, (d,)) for x, d in zip(here, dims[1:])]
    return progress_p.bind(step, *here, **params), []


progress_p.def_effectful_abstract_eval(_types)
progress_p.jvp = _jvp
progress_p.transpose = _transpose
progress_p.axis_batch = _batch


def _report_if_due(step, *here, bar, final):
    due = [] if final else [_is_due(step, bar.total)]
    _report_if([*due, *here], step, bar, final)
    return []


def _report_if(conditions: Sequence[Any], step, bar: Bar, final: bool = False) -> None:
    report = lambda: report_p.bind(step, bar=bar, final=final, paced=False)
    if not conditions:
        report()
    else:
        cond(functools.reduce(lax.bitwise_and, conditions), report, list)


def _is_due(step, total: int | None):
    interval = _interval(step, total)
    if total is not None:
        return lax.eq(lax.rem(step, interval), np.int32(0))
    return lax.eq(lax.bitwise_and(step, lax.sub(interval, np.int32(1))), np.int32(0))


def _interval(step, total: int | None):
    """The number of steps from one report to the next, where the device decides."""
    if total is not None:
        return np.int32(-(-total // _MAX_CALLS))
    # At least 16 reports while the number of steps doubles.
    shift = lax.max(lax.sub(np.int32(27), lax.clz(step)), np.int32(0))
    return lax.shift_left(np.int32(1), shift)


mlir.register_lowering(progress_p, mlir.lower_fun(_report_if_due, multiple_results=True))

# Calls the host. If it is paced, the result is the number of steps until the next call.
report_p = Primitive("progress_report", multiple_results=True)


def _report_types(step, *, bar, final, paced):
    return [core.ShapedArray((), np.dtype(np.int32))] * paced, {progress_effect}


report_p.def_effectful_abstract_eval(_report_types)


def _lower_report(ctx, step, *, bar, final, paced):
    results, _, _ = mlir.emit_python_callback(
        ctx, Report(bar, final, paced), None, [step], ctx.avals_in, ctx.avals_out,
        has_side_effect=True,
    )  # fmt: skip
    return results


mlir.register_lowering(report_p, _lower_report)


class Blocks(NamedTuple):
    """How to run a loop in blocks of steps, between which it reports its progress.

    `step` is the position of the number of the step in the carry, `here` are those of the values of
    `first_device` in the body's constants, and `body` does not report.
    """

    bar: Bar
    step: int
    here: tuple[int, ...]
    body: ClosedJaxpr

    def start(self, step, consts: Sequence[Any], one_device: bool):
        """Report the step before a block, and return the number of steps in it."""
        here = [consts[i] for i in self.here]
        if one_device and not here:
            return report_p.bind(step, bar=self.bar, final=False, paced=True)[0]
        _report_if(here, step, self.bar)
        return _interval(step, self.bar.total)


def blocks_of(body: ClosedJaxpr, num_consts: int) -> Blocks | None:
    """Return how to run a loop with this body in blocks, or None if it does not report its steps."""
    consts, carry = split_at(body.jaxpr.invars, num_consts)
    reports = [e for e in body.jaxpr.eqns if e.primitive is progress_p and not e.params["final"]]
    for eqn in reports:
        step, *here = eqn.invars
        if step in carry and all(x in consts for x in here):
            break
    else:
        return None
    bar = eqn.params["bar"]
    # In a loop that is unrolled, there is a report for each of the steps of an iteration.
    dropped = [e for e in reports if e.params["bar"] is bar]
    eqns = [e for e in body.jaxpr.eqns if e not in dropped]
    rest = ClosedJaxpr(body.jaxpr.replace(eqns=eqns), body.consts)
    return Blocks(bar, carry.index(step), tuple(map(consts.index, here)), rest)


def counter_of(body: ClosedJaxpr, num_consts: int) -> int | None:
    """Return the position in the carry of the number of the step, if a loop reports it."""
    blocks = blocks_of(body, num_consts)
    return None if blocks is None else blocks.step


# On the host


class Report(NamedTuple):
    """The function that compiled programs call."""

    bar: Bar
    final: bool
    paced: bool

    def __call__(self, step: Any) -> Sequence[Any]:
        step = int(step)
        _compiled.add(self.bar)
        show(self.bar, step, self.final)
        return (np.int32(steps_until_next(self.bar, step)),) if self.paced else ()


_open: dict[Bar, Any] = {}  # the bars of loops that run
_compiled: set[Bar] = set()  # those of loops in compiled programs
_last: dict[Bar, tuple[int, float]] = {}  # their last steps, and when those were reported
_short: set[Bar] = set()  # loops whose last run took less than `_SECONDS`


def steps_until_next(bar: Bar, step: int) -> int:
    """Return the number of steps that take about `_SECONDS`, but at most `_GROWTH` times the last."""
    now = time.perf_counter()
    last, then = _last.get(bar, (step, now))
    _last[bar] = step, now
    if step <= last:  # the first report, or the loop runs again
        return _GROWTH if bar in _short else 1
    done = step - last
    return min(max(int(done * _SECONDS / max(now - then, 1e-9)), 1), _GROWTH * done)


def show(bar: Bar, step: int, final: bool = False) -> None:
    """Show that a loop has taken `step` steps."""
    import tqdm.auto

    shown = _open.get(bar)
    if shown is not None and step < shown.n and not final:  # the loop runs again
        _open.pop(bar).close()
        shown = None
    if shown is None:
        # Most of what a bar costs is printing it, so that of a short loop is printed at its end.
        shown = tqdm.auto.tqdm(
            total=bar.total, desc=bar.description or None, unit="step", leave=not _open,
            dynamic_ncols=True, mininterval=_SECONDS / 2, file=sys.stderr,
            delay=_SECONDS if bar in _short else 0,
        )  # fmt: skip
        _open[bar] = shown
    if not final:
        shown.update(step - shown.n)
        return
    shown.n = step
    if shown.leave:
        shown.delay = 0  # `close` shows the end
    elif not shown.delay:
        shown.refresh()
    is_short = time.time() - shown.start_t < _SECONDS
    (_short.add if is_short else _short.discard)(bar)
    _open.pop(bar).close()
    _compiled.discard(bar)
    _last.pop(bar, None)


def _close_compiled() -> None:
    """Close the bars of loops that do not report their end, because their program has failed.

    A loop that goes on, in another program, gets a new bar with its next report.
    """
    for bar in _compiled:
        _last.pop(bar, None)
        if (shown := _open.pop(bar, None)) is not None:
            shown.close()
    _compiled.clear()


host_functions.call_after_failure(_close_compiled)


def of_range(bar: Bar | None, steps: Any) -> Any:
    """Iterate over steps of a loop that runs in Python, and show its progress."""
    if bar is None:
        yield from steps
        return
    i = 0
    try:
        for i, step in enumerate(steps, 1):
            show(bar, i - 1)
            yield step
    except GeneratorExit:  # the loop breaks before this step
        i -= 1
        raise
    finally:
        show(bar, i, True)
