"""Runs the examples in docstrings, for docstrings_test.py and its like."""

import doctest
import importlib
import inspect

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax


def find(modules):
    """The docstrings with examples of public objects of these modules, each by the first name it goes by."""
    return dict(_documented(modules))


def _documented(modules):
    seen = set()
    for name in modules:
        module = importlib.import_module(name)
        objects = [(name, module)]
        for attr in sorted(a for a in dir(module) if not a.startswith("_")):
            value = getattr(module, attr, None)
            if not inspect.ismodule(value):
                objects.append((f"{name}.{attr}", value))
        for path, value in objects:
            doc = getattr(value, "__doc__", None)
            if not (getattr(value, "__module__", None) or "jax").startswith("jax"):
                continue  # re-exported from NumPy
            if isinstance(doc, str) and ">>>" in doc and id(doc) not in seen:
                seen.add(id(doc))
                yield path, doc
            if inspect.isclass(value) and (value.__module__ or "").startswith("jax"):
                for attr, member in vars(value).items():
                    doc = getattr(member, "__doc__", None)
                    if isinstance(doc, str) and ">>>" in doc and id(doc) not in seen:
                        seen.add(id(doc))
                        yield f"{path}.{attr}", doc


def run(path, doc, **names):
    """Runs the examples of a docstring; `names` are what they use besides NumPy and jax."""
    namespace = {"jax": jax, "jnp": jnp, "np": np, "lax": lax, **names}
    test = doctest.DocTestParser().get_doctest(doc, namespace, path, None, 0)
    lines = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE
        | doctest.ELLIPSIS
        | doctest.IGNORE_EXCEPTION_DETAIL
    )
    runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)
