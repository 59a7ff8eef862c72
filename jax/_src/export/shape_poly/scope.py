"""Scopes of dimension variables, with their constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax._src import source_info_util
from jax._src.core import ShapedArray
from jax._src.export.shape_poly import expressions as ex
from jax._src.export.shape_poly.decision import Bounds, Decision
from jax._src.export.shape_poly.expressions import DimTerm
from jax._src.export.shape_poly.parsing import Parser


class Rule(NamedTuple):
    """An equality: coefficient * term is replaced by value."""

    term: DimTerm
    coefficient: int
    value: Any

    @property
    def is_of_quotient(self) -> bool:
        """Whether it is n * floordiv(x, n) == x."""
        factor = self.term.to_factor()
        return self.coefficient > 1 and factor is not None and factor.operation == ex.FLOORDIV


class Constraint(NamedTuple):
    """What must hold when the program runs: `difference` is zero, or not negative.

    Attributes:
      text: as the user wrote it.
      difference: the left side minus the right side, without use of the constraint.
      is_equality: whether it must be zero.
    """

    text: str
    difference: Any
    is_equality: bool


class SymbolicScope:
    """The scope of dimension variables: variables of one name in one scope are the same.

    All shapes of the arguments of an exported function must be of one scope.

    Args:
      constraints_str: constraints like 'a >= 2*b', 'a <= 8', 'mod(a, 4) == 0'. The left side of an
        equality is a term times a number, which is replaced by the right side.

    Raises:
      ValueError: if a constraint cannot be read, or they contradict each other.

    >>> from jax import export
    >>> scope = export.SymbolicScope(["a >= 4"])
    >>> a, = export.symbolic_shape("a", scope=scope)
    >>> a >= 3
    True
    """

    def __init__(self, constraints_str: Sequence[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(
                "The symbolic constraints should be a sequence of strings. "
                f"Got the string {constraints_str!r}."
            )
        self._where = source_info_util.summarize(source_info_util.current()) or "unknown"
        self._avals: dict[Any, ShapedArray] = {}  # with dimensions of this scope
        self._rules: list[Rule] = []
        self._constraints: list[Constraint] = []
        self._decision = Decision(self)
        for text in constraints_str:
            if not isinstance(text, str):
                raise ValueError(f"a constraint of a SymbolicScope must be a string, got {text!r}")
            self._add(text)
        self._decision.conclude()

    @property
    def _constraint_texts(self) -> list[str]:
        return [c.text for c in self._constraints]

    def __str__(self) -> str:
        text = f"{id(self)} created at {self._where}"
        if self._constraints:
            text += " with constraints:\n" + "\n".join(f"  {c}" for c in self._constraint_texts)
        return text

    __repr__ = __str__

    def _bounds(self, x: Any) -> Bounds:
        """The least and largest values that a size may have, as far as is known."""
        return self._decision.bounds(x)

    def _normal_term(self, term: DimTerm) -> Any:
        """The size that a term is equal to by the rules."""
        return ex.normal_form(self, {term: 1})

    def _check_same_scope(self, x: Any, y: Any, what: str) -> None:
        if x._scope is not y._scope:
            raise ValueError(
                f"Invalid mixing of symbolic scopes in {what} '{x}' and '{y}'. The first has the "
                f"scope {x._scope}\nand the second has the scope {y._scope}\nMake all dimensions that "
                "are used together in one call of jax.export.symbolic_shape, or pass it `scope`."
            )

    # Constraints

    def _add(self, text: str) -> None:
        free = SymbolicScope() if self._constraints else self
        left, relation, right = Parser(text, free, "symbolic constraint").constraint()
        if relation == "<=":
            left, right = right, left
        difference = left - right
        if type(difference) is int:
            if difference < 0 or (relation == "==" and difference != 0):
                raise ValueError(f"Unsatisfiable constraint: {text} is false for all values.")
            return
        if relation == "==":
            self._add_equality(text, left, right)
        else:
            self._assume(_moved(difference, self))
        self._constraints.append(Constraint(text, difference, relation == "=="))

    def _assume(self, difference: Any) -> None:
        if type(difference) is int:
            if difference < 0:
                raise ValueError(
                    "Unsatisfiable constraint: the constraints "
                    f"{self._constraint_texts} contradict one that follows."
                )
            return
        self._decision.assume(difference)

    def _add_equality(self, text: str, left: Any, right: Any) -> None:
        single = None if type(left) is int else left._to_single_term()
        if single is None:
            raise ValueError(
                f"Invalid equality constraint: {text}. The left-hand-side must be of the form "
                "`term * coefficient`, like `2*a` or `mod(a, 4)`."
            )
        term, k = single
        if k < 0:
            k, right = -k, -right
        term = _moved_term(term, self)
        value = _moved(right, self)
        left = self._normal_term(term) * k  # differs if the term has been replaced before
        self._equal(left, value, left - value)
        self._divisibility(term, k, value)

    def _equal(self, left: Any, value: Any, difference: Any) -> None:
        """Adds left == value: as a rule where it can be one, and as two inequalities."""
        if type(difference) is int:
            if difference != 0:
                raise ValueError(f"Unsatisfiable constraint: {left} == {value}")
            return
        self._assume(difference)
        self._assume(-difference)
        single = None if type(left) is int else left._to_single_term()
        if single is None or single[1] < 0 or _contains(value, single[0]):
            return
        self._rules = [
            Rule(r.term, r.coefficient, _replaced(r.value, single, value, self))
            for r in self._rules
        ]
        self._rules.append(Rule(single[0], single[1], value))

    def _divisibility(self, term: DimTerm, k: int, value: Any) -> None:
        """mod(x, n) == 0 says that n * floordiv(x, n) is x."""
        factor = term.to_factor()
        if factor is None or factor.operation != ex.MOD or k != 1 or value != 0:
            return
        x, n = factor.operands
        if type(n) is int and type(x) is not int:
            quotient = DimTerm(((ex.DimFactor(ex.FLOORDIV, (x, n)), 1),))
            left = ex.DimExpr(((quotient, n),), self)
            self._equal(left, x, left - x)


def _contains(x: Any, term: DimTerm) -> bool:
    if type(x) is int:
        return False
    names = term.get_vars()
    factor = term.to_factor()
    if factor is not None and factor.operation is None:
        return bool(names & x._get_vars())
    return any(t == term for t, _ in x._terms)


def _moved(x: Any, scope: SymbolicScope) -> Any:
    """The size with its variables in the scope, by whose rules it is simplified."""
    if type(x) is int:
        return x
    return x._evaluate({name: ex.variable(name, scope) for name in x._get_vars()})


def _moved_term(term: DimTerm, scope: SymbolicScope) -> DimTerm:
    """The same product in the scope: only the operands of its operations are simplified."""
    factors = [
        (f if f.operation is None else ex.DimFactor(f.operation, _moved_operands(f, scope)), e)
        for f, e in term.factors
    ]
    return DimTerm(tuple(sorted(factors, key=lambda item: item[0].key)))


def _moved_operands(factor: ex.DimFactor, scope: SymbolicScope) -> tuple[Any, ...]:
    return tuple(_moved(x, scope) for x in factor.operands)


def _replaced(x: Any, single: tuple[DimTerm, int], value: Any, scope: SymbolicScope) -> Any:
    term, k = single
    if type(x) is int:
        return x
    factor = term.to_factor()
    if factor is not None and factor.operation is None and k == 1:
        env = {name: ex.variable(name, scope) for name in x._get_vars()}
        return x._evaluate({**env, factor.operands[0]: value})
    return x
