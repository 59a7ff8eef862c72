"""`vmap` of containers with rules of their own: jax.interpreters.batching.register_vmappable."""

from dataclasses import dataclass

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.interpreters import batching


class Named:
    """An array with a name for each dimension."""

    def __init__(self, names, data):
        self.names, self.data = tuple(names), data


@dataclass(frozen=True)
class Axis:
    name: str
    position: int


def element(cont, get_idx, x, axis):
    assert x.names[axis.position] == axis.name
    names = [n for n in x.names if n != axis.name]
    return Named(names, cont(x.data, axis.position))


def container(cont, size, x, axis):
    names = [*x.names[: axis.position], axis.name, *x.names[axis.position :]]
    return Named(names, cont(size, x.data, axis.position))


@pytest.fixture
def registered():
    batching.register_vmappable(Named, Axis, int, element, container, None)
    yield
    batching.unregister_vmappable(Named)


@jax.tree_util.register_pytree_node_class
class Pair:
    """Two arrays, whose last axis is mapped."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def children(self):
        return self.a, self.b

    def tree_flatten(self):
        return self.children(), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


X = Named("ij", jnp.arange(6.0).reshape(2, 3))


def times(x, y):
    return Named(x.names, x.data * (y.data if isinstance(y, Named) else y))


def test_axes_of_containers(registered):
    f = jax.vmap(times, in_axes=Axis("j", 1), out_axes=Axis("k", 0), axis_size=3)
    out = f(X, X)
    assert out.names == ("k", "i")
    np.testing.assert_array_equal(out.data, (X.data**2).T)
    inner = jax.vmap(times, in_axes=Axis("i", 0), out_axes=Axis("i", 0), axis_size=2)
    both = jax.vmap(inner, in_axes=Axis("j", 1), out_axes=Axis("j", 1), axis_size=3)(X, X)
    assert both.names == ("i", "j")
    np.testing.assert_array_equal(both.data, X.data**2)


def test_containers_among_arrays_in_trees(registered):
    f = jax.vmap(lambda d, y: {"o": times(d["x"], y)}, in_axes=({"x": Axis("j", 1)}, 0),
                 out_axes={"o": Axis("j", 1)})  # fmt: skip
    out = f({"x": X}, jnp.arange(3.0))["o"]
    np.testing.assert_array_equal(out.data, X.data * np.arange(3))
    total = jax.vmap(lambda x: x.data.sum(), in_axes=Axis("j", 1), axis_size=3)(X)
    np.testing.assert_array_equal(total, [3, 5, 7])


def test_numbers_of_elements():
    class Table:
        def __init__(self, rows):
            self.rows = rows

    class Rows:
        pass

    batching.register_vmappable(
        Table, Rows, int, lambda cont, get_idx, x, spec: x.rows[get_idx()],
        lambda cont, size, x, spec: Table(cont(size, x.rows, 0)), lambda size: jnp.arange(size)[::-1],
    )  # fmt: skip
    try:
        table = Table(jnp.arange(4.0).reshape(2, 2))
        out = jax.vmap(lambda row: row * 2, in_axes=Rows(), axis_size=2)(table)
        np.testing.assert_array_equal(out, [[4, 6], [0, 2]])
    finally:
        batching.unregister_vmappable(Table)


def test_errors(registered):
    with pytest.raises(ValueError, match="axis_size must be specified"):
        jax.vmap(times, in_axes=Axis("j", 1))(X, X)
    batching.unregister_vmappable(Named)
    with pytest.raises(TypeError, match="in_axes must be an int"):
        jax.vmap(times, in_axes=Axis("j", 1), axis_size=3)(X, X)
    batching.register_vmappable(Named, Axis, int, element, container, None)


def test_containers_that_are_pytrees_are_leaves_anywhere(registered):
    x = jnp.arange(6.0).reshape(2, 3)

    def nested(x, y):
        return [Pair(x, y)], {"p": (Pair(y, x), None), "y": y}

    batching.register_vmappable(
        Pair, type(None), int, lambda cont, get_idx, p, axis: Pair(cont(p.a, 1), cont(p.b, 1)),
        lambda cont, size, p, axis: Pair(cont(size, p.a, 1), cont(size, p.b, 1)), None,
    )  # fmt: skip
    try:
        out = jax.vmap(nested, in_axes=(1, 1))(x, x + 1)
        (first,), rest = out
        # Arrays have the mapped axis in front, pairs behind.
        np.testing.assert_array_equal(rest["y"], x.T + 1)
        for pair in (first, Pair(*rest["p"][0].children()[::-1])):
            np.testing.assert_array_equal(pair.a, x)
            np.testing.assert_array_equal(pair.b, x + 1)
        alone = jax.vmap(lambda p: Pair(p.b, p.a), axis_size=3)(first)
        np.testing.assert_array_equal(alone.a, x + 1)
        total = jax.vmap(lambda d, *, y: d["p"].a.sum() + y, axis_size=3)({"p": first}, y=x[0])
        np.testing.assert_array_equal(total, x.sum(0) + x[0])
    finally:
        batching.unregister_vmappable(Pair)
