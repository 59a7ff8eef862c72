"""What programs and libraries of users do, each thing small: see op_cases.py."""

import collections

import numpy as np
from op_cases import Programs

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
from jax import lax
from jax._src import tree_util  # as libraries do, for its registry
from jax.extend.core import Primitive
from jax.interpreters import xla

CASES = Programs()
scenario = CASES.define


def policy_answering(answer):
    sin = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=lambda *_, **__: answer)
    return lambda: jax.grad(sin)(1.0)


for _name, _answer in {
    "none": None, "zero": 0, "one": 1, "text": "save", "true": True, "false": False,
    "recompute": jax.ad_checkpoint.Recompute, "saveable": jax.ad_checkpoint.Saveable,
}.items():  # fmt: skip
    CASES.add(f"checkpoint_policy_answers_{_name}_weak", policy_answering(_answer))


class Opaque:
    """With the usual text: its class and its address."""


@scenario
def addresses_in_texts_of_jaxprs():
    opaque_p = Primitive("opaque")
    opaque_p.def_abstract_eval(lambda x, **_: x)

    def fun(x):
        return opaque_p.bind(
            x, f=policy_answering, o=Opaque(), t=(Opaque(), 1), s="at 0x7fd479d26350"
        )

    return str(jax.make_jaxpr(fun)(1.0))


@scenario
def reducer_in_text_of_jaxpr():
    return str(jax.make_jaxpr(lambda x: lax.reduce(x, 1.5, lax.add, (0,)))(np.ones(3, np.float32)))


@scenario
def handlers_of_arguments():
    handlers = xla.canonicalize_dtype_handlers

    class Wrapper:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=np.float32)

    handlers[Wrapper] = handlers[np.ndarray]
    kinds = (np.ndarray, np.float32, float, int, bool)
    return [callable(handlers[kind]) for kind in kinds], handlers[np.ndarray](np.ones(2)).dtype.name


@scenario
def registry_of_nodes():
    registry = tree_util._registry
    named = collections.namedtuple("named", "x")
    kinds = (tuple, list, dict, type(None), collections.OrderedDict, int, named, tree_util.Partial)
    children, aux = registry[dict].to_iter({"b": 2, "a": 1})
    again = registry[dict].from_iter(aux, children)
    partial = tree_util.Partial(max, 1)
    children, aux = registry[tree_util.Partial].to_iter(partial)
    called = registry[tree_util.Partial].from_iter(aux, children)(3)
    nothing = registry[type(None)].from_iter(None, ()) is None
    return [kind in registry for kind in kinds], again, called, nothing


A = np.array([0.3, 1.5, 3.0, 20.0], np.float32)
X = np.array([0.2, 2.0, 1.0, 25.0], np.float32)


@scenario
def random_gamma_grad_forward():
    zero, one = np.zeros_like(A), np.ones_like(A)
    by_a = jax.jvp(lax.random_gamma_grad, (A, X), (one, zero))
    by_x = jax.jvp(lax.random_gamma_grad, (A, X), (zero, one))
    return [np.round(t, 3) for t in (*by_a, *by_x)]


@scenario
def forward_over_reverse_through_gamma_samples():
    sample = lambda a: jax.random.gamma(jax.random.key(0), a)
    return np.round(jax.jvp(jax.grad(sample), (2.0,), (1.0,))[1], 3)


@scenario
def reduce_window_of_several():
    x = np.arange(20, dtype=np.float32).reshape(4, 5) % 7
    both = lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1]))
    fun = lambda x, y: lax.reduce_window((x, y), (0.0, -np.inf), both, (2, 2), (1, 2), "SAME")
    return jax.jit(fun)(x, x)


@scenario
def conv_patches_dilated():
    x = np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6)
    patches = lambda x: lax.conv_general_dilated_patches(
        x, (2, 2), (1, 2), ((1, 0), (0, 2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)
    )
    return patches(x), jax.grad(lambda x: (patches(x) ** 2).sum())(x)
