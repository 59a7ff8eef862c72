"""Programs that are recomputed in their derivatives: see op_cases.py."""

import numpy as np
from op_cases import Programs
from transform_functions import F, cube, poly, until10, v3, x1

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
from jax import lax

CASES = Programs()
scenario, add = CASES.define, CASES.group

names = jax.ad_checkpoint.checkpoint_name
policies = jax.checkpoint_policies
mlp = lambda w, x: lax.sin(lax.dot(lax.sin(lax.dot(w, x)), x))
w33 = (np.arange(9, dtype=F).reshape(3, 3) - 4) / 5


def printed(fun, *args):
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        jax.ad_checkpoint.print_saved_residuals(fun, *args)
    return out.getvalue().splitlines()


def saved(fun, *args):
    # Types only, in any order: the places are another matter.
    return sorted(line.split()[0] for line in printed(fun, *args))


def origins(policy, fun, *args):
    # Without the lines of the source, which formatting changes.
    import re

    lines = printed(jax.checkpoint(fun, policy=policy), *args)
    return sorted(re.sub(r" from (?!the argument|a constant).*", "", line) for line in lines)


def named(x):
    y = names(lax.sin(x), "y")
    return lax.sin(names(lax.cos(y), "z"))


add(
    "remat",
    **{
        f"policy_{name}": lambda p=p: [
            jax.grad(jax.checkpoint(lambda w: mlp(w, v3), policy=p))(w33),
            jax.jit(jax.grad(jax.checkpoint(lambda w: mlp(w, v3), policy=p)))(w33),
            jax.vmap(jax.grad(jax.checkpoint(lambda w: mlp(w, v3), policy=p)))(np.stack([w33, w33])),
            jax.grad(lambda w: lax.scan(lambda c, x: (lax.add(c, jax.checkpoint(lambda w: mlp(w, lax.mul(v3, x)), policy=p)(w)), None), F(0), v3)[0])(w33),
            jax.hessian(jax.checkpoint(lambda w: mlp(w, v3), policy=p))(w33),
        ]
        for name, p in dict(
            none=None, everything=policies.everything_saveable, nothing=policies.nothing_saveable,
            dots=policies.dots_saveable, dots_no_batch=policies.dots_with_no_batch_dims_saveable,
        ).items()
    },
    **{
        f"names_{name}": lambda p=p: [jax.grad(jax.checkpoint(named, policy=p))(x1)]
        for name, p in dict(
            only=policies.save_only_these_names("y"), any_but=policies.save_any_names_but_these("y"),
            anything_except=policies.save_anything_except_these_names("y"), only_two=policies.save_only_these_names("y", "z"),
            both=policies.save_from_both_policies(policies.save_only_these_names("y"), policies.save_only_these_names("z")),
        ).items()
    },
    **{
        f"origins_{name}": lambda p=p: origins(p, lambda w, x: named(mlp(w, x)).sum(), w33, v3)
        for name, p in dict(
            y=policies.save_only_these_names("y"), y_and_z=policies.save_only_these_names("y", "z"),
            dots=policies.dots_saveable, nothing=None,
            offloaded=policies.save_and_offload_only_these_names(
                names_which_can_be_saved=["y"], names_which_can_be_offloaded=["z"],
                offload_src="device", offload_dst="pinned_host"),
        ).items()
    },
    origins_half=lambda: origins(policies.dots_saveable, lambda w, x: mlp(w, x).sum(), w33.astype(jnp.bfloat16), v3.astype(jnp.bfloat16)),
    saved_plain=lambda: saved(lambda w: mlp(w, v3), w33),
    static=lambda: jax.grad(jax.checkpoint(lambda x, n: lax.mul(x, float(n)) if n > 1 else x, static_argnums=1))(x1, 3),
    static_negative=lambda: jax.grad(jax.checkpoint(lambda x, n: lax.mul(x, float(n)), static_argnums=-1))(x1, 3),
    concrete_error=lambda: jax.checkpoint(cube, concrete=True),
    if_error=lambda: jax.checkpoint(lambda x: x if x > 0 else -x)(x1),
    kwargs=lambda: jax.grad(jax.checkpoint(poly))(x1, y=F(2)),
    tree=lambda: jax.grad(jax.checkpoint(lambda d: {"o": lax.mul(d["a"], lax.sin(d["b"]))}["o"]))({"a": x1, "b": F(2)}),
    closure=lambda: jax.grad(lambda w: jax.checkpoint(lambda x: lax.sin(lax.mul(w, x)))(w))(x1),
    nested=lambda: jax.grad(jax.checkpoint(lambda x: jax.checkpoint(lax.sin)(lax.sin(jax.checkpoint(lax.cos)(x)))))(x1),
    jit_inside=lambda: jax.grad(jax.checkpoint(jax.jit(lambda x: lax.sin(lax.sin(x)))))(x1),
    while_inside=lambda: jax.jvp(jax.checkpoint(until10), (x1,), (x1,)),
    prevent_cse=lambda: jax.grad(jax.checkpoint(lambda x: lax.sin(lax.sin(x)), prevent_cse=False))(x1),
    offload_error=lambda: policies.save_and_offload_only_these_names(names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"], offload_src="device", offload_dst="pinned_host"),
    name_tree=lambda: names({"a": x1, "b": v3}, "n"),
    int_argument=lambda: jax.grad(jax.checkpoint(lambda x, n: lax.mul(x, lax.convert_element_type(n, F))))(x1, 3),
)  # fmt: skip
