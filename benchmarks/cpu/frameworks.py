"""What this process has: each environment has either jax or PyTorch, and a name that it lacks is None.

The functions of the programs are only called where their framework is.
"""

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError:
    jax = jnp = lax = None

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = functional = None

try:
    import numba
except ImportError:
    numba = None

try:
    import scipy.sparse as scipy_sparse
except ImportError:
    scipy_sparse = None


def compiled(function):
    """Compiles a function by Numba, where there is one."""
    return numba.njit(function, fastmath=False) if numba is not None else function


def trained(loss, parameters, *inputs, rate=1e-3):
    """PyTorch's step of gradient descent: a call that returns new parameters and the loss."""
    leaves, rebuild = _flatten(parameters)
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    parameters = rebuild(iter(leaves))

    def step():
        value = loss(parameters, *inputs)
        gradients = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            return [p - rate * g for p, g in zip(leaves, gradients, strict=True)], value

    return step


def descended(loss):
    """Jax's step of gradient descent, for a function of parameters and inputs."""

    def step(parameters, *inputs):
        value, gradients = jax.value_and_grad(loss)(parameters, *inputs)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, parameters, gradients), value

    return step


def _flatten(tree):
    if isinstance(tree, dict):
        tree, keys = list(tree.values()), list(tree)
        leaves, rebuild = _flatten(tree)
        return leaves, lambda found: dict(zip(keys, rebuild(found), strict=True))
    if isinstance(tree, (list, tuple)):
        parts = [_flatten(part) for part in tree]
        leaves = [leaf for part, _ in parts for leaf in part]
        return leaves, lambda found: [rebuild(found) for _, rebuild in parts]
    return [tree], next
