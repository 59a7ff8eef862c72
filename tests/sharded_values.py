"""Results of programs on eight CPU devices, as text: for tables of such programs (see op_cases.py)."""

import re

import numpy as np

import jax
from jax.sharding import NamedSharding

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass


def show(x):
    """A result as text: arrays with their types, shardings and values."""
    if isinstance(x, (tuple, list)):
        return "(" + ", ".join(map(show, x)) + ")"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in sorted(x.items())) + "}"
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        kind = "weak " if getattr(x, "weak_type", False) else ""  # keys do not have it
        kind += "committed" if x.committed else "uncommitted"
        ids = [s.device.id for s in x.addressable_shards]
        return f"{jax.typeof(x)} {kind} {placed(x.sharding)} {ids} {values(x)}"
    if type(x).__name__ == "ClosedJaxpr":
        return text(x)
    return str(x)


def values(x):
    """The elements of an array, rounded; those of keys are their data."""
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
        x = jax.random.key_data(x)
    out = np.asarray(x)
    if out.dtype != np.bool_:
        kind = np.complex128 if np.iscomplexobj(out) else np.float64
        out = (out.astype(kind) + 0.0).round(3)
    return out.tolist()


def placed(sharding):
    """A sharding without the Nones at the end of its spec."""
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    spec = list(sharding.spec)
    while spec and spec[-1] is None:
        spec.pop()
    return f"{sharding.mesh} {spec} {sharding.memory_kind}"


def text(jaxpr):
    """A jaxpr with sets in alphabetical order, and without what a mesh knows of its devices."""
    out = str(jaxpr)
    for names in re.findall(r"frozenset\(\{(.*?)\}\)", out):
        ordered = ", ".join(sorted(names.split(", ")))
        out = out.replace(f"frozenset({{{names}}})", f"{{{ordered}}}")
    return re.sub(r", device_kind=cpu, num_cores=None, platform=cpu", "", out)


def scenarios(cases, make_mesh, show=show):
    """A function that adds programs to a table: their results, or the classes of their errors."""

    def scenario(name, fun, mesh=None, **options):
        """`fun` as a scenario; with `mesh`, the argument of `make_mesh`, in its context."""

        def run():
            try:
                if mesh is None:
                    return show(fun())
                with jax.set_mesh(make_mesh(mesh)):
                    return show(fun())
            except Exception as err:
                return f"raises {type(err).__name__}"

        cases.add(name, run, **options)

    return scenario
