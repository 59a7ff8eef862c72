"""The values of dimension variables from the shapes of arguments, and the checks of these.

Equations are solved one after another: each linear equation in one unknown variable gives it, all
others are checked. The same steps run in Python, where a call is traced, and in a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax._src import core
from jax._src.export.shape_poly import expressions as ex
from jax._src.export.shape_poly.values import Algebra

_DOCS = "https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors"


class Dimension(NamedTuple):
    """A dimension of an argument whose size is symbolic.

    Attributes:
      argument, axis: its position.
      size: the expression.
      name: how messages name it, like 'args[0].shape[1]'.
    """

    argument: int
    axis: int
    size: Any
    name: str


class Solved(NamedTuple):
    """A step: variable = (dimension - rest) / coefficient, without remainder and at least 1."""

    variable: str
    dimension: Dimension
    rest: Any
    coefficient: int


class Check(NamedTuple):
    """A condition on sizes.

    Attributes:
      relation: 'EQ' or 'GE'.
      left, right: sizes; what a dimension of an argument is, is a variable of its name.
      message: what is wrong if it does not hold; '{0}' and so on stand for the values of `shown`.
      shown: sizes to show.
    """

    relation: str
    left: Any
    right: Any
    message: str
    shown: tuple[Any, ...]


class DimensionSolver:
    """Finds the values of the variables in the shapes of arguments.

    Args:
      avals: types of the arguments.
      names: names of the arguments for messages, like 'args[0]'.

    Raises:
      ValueError: if the shapes do not determine all variables, or are of several scopes.
    """

    def __init__(self, avals: Sequence[Any], names: Sequence[str]):
        self.dimensions = [
            Dimension(i, axis, size, f"{name}.shape[{axis}]")
            for i, (aval, name) in enumerate(zip(avals, names, strict=True))
            for axis, size in enumerate(getattr(aval, "shape", ()))
            if core.is_symbolic_dim(size)
        ]
        self._texts = ", ".join(
            f"{name}.shape = {aval.shape}"
            for aval, name in zip(avals, names, strict=True)
            if not core.is_constant_shape(getattr(aval, "shape", ()))
        )
        self.scope = check_one_scope([(d.size, d.name) for d in self.dimensions])
        self.variables = sorted({v for d in self.dimensions for v in d.size._get_vars()})
        self.solved: list[Solved] = []
        self.rest: list[Dimension] = []
        self._solve()

    def _solve(self) -> None:
        known: set[str] = set()
        todo = list(self.dimensions)
        progress = True
        while progress:
            progress, left = False, []
            for d in todo:
                step = _linear_step(d, known)
                if step is None:
                    left.append(d)
                else:
                    self.solved.append(step)
                    known.add(step.variable)
                    progress = True
            todo = left
        self.rest = todo
        unknown = [v for v in self.variables if v not in known]
        if unknown:
            unsolved = [d for d in todo if not d.size._get_vars() <= known]
            raise ValueError(
                f"Cannot solve for values of dimension variables {set(unknown)}: each must be the only "
                f"unknown of a size that is linear in it. The shapes are {self._texts}. Sizes that "
                "determine no variable: "
                + ", ".join(f"'{d.size}' of {d.name}" for d in unsolved)
                + ". Pass an argument that has the variable as a dimension, even if the function does "
                "not use it."
            )

    def assign(
        self, algebra: type[Algebra], size_of: Callable[[Dimension], Any],
        check: Callable[[Check, Mapping[str, Any]], None],
    ) -> dict[str, Any]:  # fmt: skip
        """Computes the variables and checks all that must hold.

        Args:
          algebra: how values are computed.
          size_of: the value of a dimension of an argument.
          check: called with each check and the values of the variables in it, in the order in which
            they become known.

        Returns:
          The values of the variables.
        """
        env: dict[str, Any] = {}
        for step in self.solved:
            env[step.dimension.name] = size_of(step.dimension)
            self._assign_step(step, algebra, env, check)
        for d in self.rest:
            env[d.name] = size_of(d)
            size = self._named(d.name)
            check(self._check(
                "EQ", size, d.size,
                f"Found inconsistency between dimension size {d.name} (= {{0}}) and the specification "
                f"'{d.size}' (= {{1}})", (size, d.size),
            ), env)  # fmt: skip
        if self.scope is not None:
            for constraint in self.scope._constraints:
                self._check_constraint(constraint, env, check)
        return {v: env[v] for v in self.variables}

    def _assign_step(
        self, step: Solved, algebra: type[Algebra], env: dict[str, Any],
        check: Callable[[Check, Mapping[str, Any]], None],
    ) -> None:  # fmt: skip
        ops = algebra(env)
        scope = step.dimension.size._scope
        difference = self._named(step.dimension.name) - step.rest
        value = difference
        if step.coefficient != 1:
            quotient, remainder = (
                ex.from_factor(ex.DimFactor(op, (difference, step.coefficient)), scope)
                for op in (ex.FLOORDIV, ex.MOD)
            )
            check(self._check(
                "EQ", remainder, 0,
                f"Division had remainder {{0}} when computing the value of '{step.variable}' from "
                f"'{step.dimension.size}' for {step.dimension.name} (= {{1}})",
                (remainder, self._named(step.dimension.name)),
            ), env)  # fmt: skip
            value = quotient
        env[step.variable] = ops.size(value)
        variable = self._named(step.variable)
        check(self._check(
            "GE", variable, 1,
            f"Expected value >= 1 for dimension variable '{step.variable}', which is {{0}} by "
            f"{step.dimension.name} (= {{1}}), specified as '{step.dimension.size}'",
            (variable, self._named(step.dimension.name)),
        ), env)  # fmt: skip

    def _check_constraint(self, constraint: Any, env: Mapping[str, Any], check: Any) -> None:
        difference = constraint.difference
        if type(difference) is int or not difference._get_vars() <= env.keys():
            return  # about variables that no shape has
        relation, words = ("EQ", "equal to") if constraint.is_equality else ("GE", "at least")
        message = (
            f"Input shapes do not match the symbolic shape constraint {constraint.text}: expected "
            f"'{difference}' to be {words} 0, but found {{0}}"
        )
        check(self._check(relation, difference, 0, message, (difference,), prefix=False), env)

    def _named(self, name: str) -> Any:
        """A size for the value of that name, without the scope's rules."""
        term = ex.DimTerm(((ex.DimFactor(None, (name,)), 1),))
        return ex.DimExpr(((term, 1),), self.scope)

    def _check(
        self, relation: str, left: Any, right: Any, problem: str, shown: tuple[Any, ...],
        prefix: bool = True,
    ) -> Check:  # fmt: skip
        start = "Input shapes do not match the polymorphic shapes specification. " if prefix else ""
        message = f"{start}{problem}. The specification is {self._texts}. See {_DOCS}."
        return Check(relation, left, right, message, shown)


def _linear_step(d: Dimension, known: set[str]) -> Solved | None:
    """The step that computes a variable from a dimension, if that is its only unknown."""
    unknown = d.size._get_vars() - known
    if len(unknown) != 1:
        return None
    (variable,) = unknown
    coefficient, rest = 0, []
    for term, k in d.size._terms:
        if variable not in term.get_vars():
            rest.append((term, k))
            continue
        factor = term.to_factor()
        if factor is None or factor.var != variable:
            return None
        coefficient = k
    return Solved(variable, d, ex.normal_form(d.size._scope, dict(rest)), coefficient)


def check_one_scope(sizes: Sequence[tuple[Any, str]]) -> Any:
    """The scope of symbolic sizes; None if there are none.

    Args:
      sizes: pairs of a size and what it is, for the message.

    Raises:
      ValueError: if they have several scopes.
    """
    if not sizes:
        return None
    first, where = sizes[0]
    for size, name in sizes[1:]:
        if size._scope is not first._scope:
            raise ValueError(
                f"Invalid mixing of symbolic scopes: '{first}' of {where} has the scope {first._scope}\n"
                f"and '{size}' of {name} has the scope {size._scope}\nMake all shapes by one call of "
                "jax.export.symbolic_args_specs, or pass `scope` to jax.export.symbolic_shape."
            )
    return first._scope


def solve_for_sizes(
    avals: Sequence[Any], names: Sequence[str], sizes: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """The values of the variables for arguments of given shapes.

    Args:
      avals: the specified types.
      names: names of the arguments for messages.
      sizes: the shapes of the arguments: ints, or symbolic dimensions of another scope.

    Raises:
      ValueError: if the shapes do not match the specification. What depends on symbolic dimensions
        of the other scope is not checked here.
    """
    return DimensionSolver(avals, names).assign(
        Algebra, lambda d: sizes[d.argument][d.axis], check_now
    )


def evaluate_shape(shape: Sequence[Any], sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """A symbolic shape for given values of its variables."""
    return tuple([Algebra(sizes).size(d) for d in shape])


def check_now(check: Check, env: Mapping[str, Any]) -> None:
    """Checks values that are known.

    Raises:
      ValueError: if it does not hold for any values of symbolic dimensions in it.
    """
    left, right = Algebra(env).size(check.left), Algebra(env).size(check.right)
    fails = core.definitely_greater(right, left)
    if fails or check.relation == "EQ" and core.definitely_greater(left, right):
        message = check.message
        for i, x in enumerate(check.shown):  # names of arguments may have other braces
            message = message.replace(f"{{{i}}}", str(Algebra(env).size(x)))
        raise ValueError(message)
