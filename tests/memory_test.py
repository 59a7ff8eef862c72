"""What is made for a function goes when the function goes: traces, jaxprs, compiled programs."""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax

x = np.ones(3, np.float32)


pytestmark = pytest.mark.usefixtures("only_new_objects")


def live_objects():
    gc.collect()
    return len(gc.get_objects())


def check_no_growth(use, make, rounds=8, warm_up=4):
    """Functions that `make` makes are gone once used, and so is all that was made for them."""
    functions = []

    def once():
        fun = make()
        functions.append(weakref.ref(fun))
        use(fun)

    for _ in range(warm_up):
        once()
    before = live_objects()
    for _ in range(rounds):
        once()
    growth = live_objects() - before
    alive = sum(ref() is not None for ref in functions)
    assert alive == 0, f"{alive} of {len(functions)} functions are alive"
    # The weak references themselves, and now and then a cache of another's grows by a few.
    assert growth < 4 * rounds, f"{growth / rounds} objects more for each function"


def scale(k=2.0):
    return lambda x: x * k


def of_two(k=2.0):
    return lambda a, b: a * b * k


def carry(k=2.0):
    return lambda c, _: (c * k, None)


def custom_jvp(k=2.0):
    f = jax.custom_jvp(scale(k))
    f.defjvp(lambda p, t: (f(*p), t[0] * k))
    return f


def custom_vjp(k=2.0):
    f = jax.custom_vjp(scale(k))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * k,))
    return f


class Model:
    def __init__(self):
        self.w = jnp.ones(3)

    def apply(self, x):
        return self.w * x

    def __call__(self, x):
        return self.w + x


USES = dict(
    jit=(lambda f: jax.jit(f)(x), scale),
    jit_over_array=(lambda f: jax.jit(f)(x), lambda: scale(jnp.ones(3))),
    jit_nested=(lambda f: jax.jit(lambda x: jax.jit(f)(x))(x), scale),
    jit_partial=(lambda f: jax.jit(functools.partial(f, 2.0))(x), of_two),
    jit_bound_method=(lambda m: jax.jit(m.apply)(x), Model),
    jit_callable=(lambda m: jax.jit(m)(x), Model),
    jit_custom_jvp=(lambda f: jax.jit(f)(x), custom_jvp),
    jit_custom_vjp=(lambda f: jax.jit(f)(x), custom_vjp),
    aot=(lambda f: jax.jit(f).lower(x).compile()(x), scale),
    grad=(lambda f: jax.grad(lambda x: f(x).sum())(x), scale),
    jit_grad=(lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(x), scale),
    vjp=(lambda f: jax.vjp(f, x)[1](x), scale),
    linearize=(lambda f: jax.linearize(f, x)[1](x), scale),
    vmap=(lambda f: jax.vmap(f)(x), scale),
    jit_vmap=(lambda f: jax.jit(jax.vmap(f))(x), scale),
    custom_jvp=(lambda f: jax.jvp(f, (x,), (x,)), custom_jvp),
    custom_vjp=(lambda f: jax.vjp(f, x)[1](x), custom_vjp),
    sequential_vmap=(jax.vmap, lambda: jax.custom_batching.sequential_vmap(scale())),
    checkpoint=(lambda f: jax.checkpoint(f)(x), scale),
    grad_checkpoint=(lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(x), scale),
    scan=(lambda f: lax.scan(f, x, None, length=3), carry),
    grad_scan=(lambda f: jax.grad(lambda x: lax.scan(f, x, None, length=3)[0].sum())(x), carry),
    fori_loop=(lambda f: lax.fori_loop(0, 3, f, x), of_two),
    cond=(lambda f: lax.cond(True, f, f, x), scale),
    associative_scan=(lambda f: lax.associative_scan(f, x), of_two),
    eval_shape=(lambda f: jax.eval_shape(f, x), scale),
    make_jaxpr=(lambda f: jax.make_jaxpr(f)(x), scale),
)


@pytest.mark.parametrize("name", list(USES))
def test_no_growth(name):
    check_no_growth(*USES[name])


def test_many_lambdas():
    def churn(rounds):
        for _ in range(rounds):
            jax.jit(lambda x: x)(1.0)
        return live_objects(), sys.getallocatedblocks()

    objects, blocks = churn(100)
    more_objects, more_blocks = churn(200)
    assert more_objects - objects < 20
    # Python's allocator keeps more free blocks at first: one in a round, after 600 rounds none.
    assert more_blocks - blocks < 2 * 200


def test_equal_methods_share_their_programs():
    traced = []

    class Counted(Model):
        def apply(self, x):
            traced.append(1)
            return self.w * x

    m = Counted()
    jitted = [jax.jit(m.apply) for _ in range(3)]
    for f in jitted:
        f(x)
    assert len(traced) == 1


def test_clear_caches():
    def f(x):
        traced.append(1)
        return lax.fori_loop(0, 3, lambda i, c: c * 2, x)

    traced = []
    jitted = jax.jit(f)
    for _ in range(2):
        jitted(x)
        f(x)
        jax.clear_caches()
    assert len(traced) == 4
