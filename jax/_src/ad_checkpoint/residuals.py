"""Inspection of the values that a function stores between its forward and backward pass."""

from collections.abc import Callable

from jax._src import api_util, core, source_info_util
from jax._src.ad_checkpoint.names import name_p
from jax._src.ad_checkpoint.split import origin
from jax._src.api_util import flatten_fun
from jax._src.core import Tracer, typeof
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.tree_util import tree_flatten


def saved_residuals(f: Callable, *args, **kwargs) -> list[tuple[core.AbstractValue, str]]:
    """Return types and origins of the values stored between the forward and the backward pass."""
    flat, in_tree = tree_flatten((args, kwargs))
    flat_fun, _ = flatten_fun(f, in_tree)
    info = api_util.debug_info("saved_residuals", f, args, kwargs)
    names = info.safe_arg_names(len(flat))
    trace = pe.DynamicJaxprTrace(info)
    tracers = [trace.new_arg(typeof(x)) for x in flat]
    with core.set_current_trace(trace):
        _, lin = ad.linearize(flat_fun, tracers)
        jaxpr, residuals = lin.to_jaxpr()
    index = {t.val: i for i, t in enumerate(tracers)}
    producers = {v: eqn for eqn in trace.eqns for v in eqn.outvars}
    constants, arguments, computed = [], {}, []
    for r in residuals:
        aval = typeof(r)
        val = getattr(r, "val", None) if isinstance(r, Tracer) else None
        if val in index:
            arguments[index[val]] = (aval, f"from the argument {names[index[val]]}")
        elif val in producers:
            eqn = origin(val, producers)
            what = f"output of {eqn.primitive.name}"
            if eqn.primitive is name_p:
                what = f"named '{eqn.params['name']}'"
            elif eqn.primitive.name == "jit":
                what = f"output of jitted function '{eqn.params['name']}'"
            computed.append((aval, f"{what} from {source_info_util.summarize(eqn.source_info)}"))
        else:
            constants.append((aval, "from a constant"))
    trace.finish()
    return [*constants, *[arguments[i] for i in sorted(arguments)], *computed]


def print_saved_residuals(f: Callable, *args, **kwargs) -> None:
    """Print the values stored between the forward and backward pass of a function."""
    for aval, what in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {what}")
