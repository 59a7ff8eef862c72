"""Progress bars of loops.

A loop that shows its progress counts its steps, and each step applies the primitive `progress` to
that number. Compiled programs decide on the device whether to call the host: at most 100 times a
loop, or, if the number of steps is not known, 16 times while it doubles; and once at the end.
"""

import builtins
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, effects, source_info_util, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.lax import lax, parallel
from jax._src.lax.control_flow.common import rearranged, split_at
from jax._src.lax.control_flow.conditionals import cond

traceback_util.register_exclusion(__file__)

_MAX_CALLS = 100


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
    return Bar("" if progress is True else progress, total, line)


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
    due.extend(here)
    if not due:
        return _report_p.bind(step, bar=bar, final=final)
    condition = due[0] if len(due) == 1 else lax.bitwise_and(*due)
    cond(condition, lambda: _report_p.bind(step, bar=bar, final=final), list)
    return []


def _is_due(step, total: int | None):
    if total is not None:
        every = -(-total // _MAX_CALLS)
        return lax.eq(lax.rem(step, np.int32(every)), np.int32(0))
    # The step's lower bits are zero, but for the five highest ones from its first set bit on.
    shift = lax.max(lax.sub(np.int32(27), lax.clz(step)), np.int32(0))
    mask = lax.sub(lax.shift_left(np.int32(1), shift), np.int32(1))
    return lax.eq(lax.bitwise_and(step, mask), np.int32(0))


mlir.register_lowering(progress_p, mlir.lower_fun(_report_if_due, multiple_results=True))

# Calls the host.
_report_p = Primitive("progress_report", multiple_results=True)
_report_p.def_effectful_abstract_eval(_types)


def _lower_report(ctx, step, *, bar, final):
    mlir.emit_python_callback(
        ctx, Report(bar, final), None, [step], ctx.avals_in, [], has_side_effect=True
    )
    return []


mlir.register_lowering(_report_p, _lower_report)


# On the host


class Report(NamedTuple):
    """The function that compiled programs call."""

    bar: Bar
    final: bool

    def __call__(self, step: Any) -> Sequence[Any]:
        show(self.bar, int(step), self.final)
        return ()


_open: dict[Bar, Any] = {}  # the bars of loops that run


def show(bar: Bar, step: int, final: bool = False) -> None:
    """Show that a loop has taken `step` steps."""
    import tqdm.auto

    shown = _open.get(bar)
    if shown is not None and step < shown.n and not final:  # the loop runs again
        _open.pop(bar).close()
        shown = None
    if shown is None:
        shown = tqdm.auto.tqdm(
            total=bar.total, desc=bar.description or None, unit="step", leave=not _open,
            dynamic_ncols=True, file=sys.stderr,
        )  # fmt: skip
        _open[bar] = shown
    shown.update(step - shown.n)
    if final:
        shown.refresh()
        _open.pop(bar).close()


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
