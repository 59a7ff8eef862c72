"""`custom_vjp3`: `custom_vjp` with the attributes that code of high types uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax._src.custom_derivatives.vjp import custom_vjp


class custom_vjp3(custom_vjp):
    """A `custom_vjp` function that also hands on rules to the function that it wraps.

    It differs from `jax.custom_vjp` in its attributes: `f` is the wrapped function, `static_argnums`
    the positions of arguments that are not differentiated, `symz` and `opt_remat` what `defvjp` got
    as `symbolic_zeros` and `optimize_remat`; and `defvjp` returns the function.

    >>> import jax, jax.numpy as jnp
    >>> from jax._src.hijax import custom_vjp3
    >>> twice = custom_vjp3(jax.custom_batching.custom_vmap(lambda x: 2 * x))
    >>> twice = twice.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))
    >>> _ = twice.def_vmap(lambda axis_size, in_batched, x: (x + x, True))
    >>> print(jax.vmap(twice)(jnp.arange(3)), jax.grad(twice)(1.0))
    [0 2 4] 2.0
    """

    def __init__(
        self,
        f: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Iterable[str] = (),
    ):
        super().__init__(f, nondiff_argnums, nondiff_argnames)

    @property
    def f(self) -> Callable[..., Any]:
        return self.fun

    @property
    def static_argnums(self) -> frozenset[int]:
        return frozenset(self.nondiff_argnums)

    @property
    def symz(self) -> bool:
        return self.symbolic_zeros

    @property
    def opt_remat(self) -> bool:
        return self.optimize_remat

    def defvjp(  # type: ignore[override]
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        *,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> custom_vjp3:
        """Set the rule, as `jax.custom_vjp.defvjp` does; returns the function."""
        super().defvjp(fwd, bwd, symbolic_zeros, optimize_remat)
        return self

    def def_vmap(self, rule: Callable[..., Any], /) -> Any:
        """Set the rule for batches of the wrapped function, a `jax.custom_batching.custom_vmap`."""
        return self.fun.def_vmap(rule)

    def def_transpose(self, rule: Callable[..., Any], /) -> Any:
        """Set the transposition rule of the wrapped function, which must have a `def_transpose`."""
        return self.fun.def_transpose(rule)
