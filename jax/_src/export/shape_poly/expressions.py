"""Symbolic dimensions: polynomials with integer coefficients over dimension variables.

A factor is a variable or an operation (floordiv, mod, max, min); a term is a product of powers of
factors; an expression is a sum of terms with coefficients. All three are immutable, and have a key:
a nested tuple that orders them. Terms are kept in descending order of their keys, so an expression
has one form, and equal forms have equal keys. Larger terms come first, and operations after the
variables they are made of, which is also the order of the text.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import core, dtypes
from jax._src.errors import InconclusiveDimensionOperation
from jax._src.export.shape_poly.values import Algebra, IrAlgebra, dimension_as_value_p, value_aval

if TYPE_CHECKING:
    from jax._src.export.shape_poly.scope import Rule, SymbolicScope

FLOORDIV = "floordiv"
MOD = "mod"
MAX = "max"
MIN = "min"
OPERATIONS = (FLOORDIV, MOD, MAX, MIN)

_MAX_DIVISION = 256  # steps of a division, and terms of its rest

Size = Any  # an int or an expression


class DimFactor:
    """A dimension variable, or an operation on expressions.

    Args:
      operation: the name of the operation, or None for a variable.
      operands: the variable's name, or the two operands: ints and expressions.

    Attributes:
      length: the number of factors that it is made of, as often as they occur.
    """

    __slots__ = ("_hash", "key", "length", "operands", "operation")

    def __init__(self, operation: str | None, operands: tuple[Any, ...]):
        self.operation = operation
        self.operands = operands
        if operation is None:
            self.key: tuple[Any, ...] = (1, operands[0], ())
            self.length = 1
        else:
            keys = tuple(size_key(x) for x in operands)
            self.key = (1 + sum(k[0] for k in keys), operation, keys)
            self.length = 1 + sum(map(size_length, operands))
        self._hash = hash(self.key)  # keys are as long as the text

    @property
    def var(self) -> str | None:
        """The variable's name; None for an operation."""
        return None if self.operation is not None else self.operands[0]

    def get_vars(self) -> set[str]:
        if self.operation is None:
            return {self.operands[0]}
        return set().union(*(x._get_vars() for x in self.operands if is_symbolic_dim(x)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, DimFactor) and self._hash == other._hash and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.operation is None:
            return str(self.operands[0])
        # A negative constant is printed as the expression that it is.
        texts = [f"- {-x}" if type(x) is int and x < 0 else str(x) for x in self.operands]
        return f"{self.operation}({', '.join(texts)})"


class DimTerm:
    """A product of powers of factors; the empty product is one.

    Args:
      factors: pairs of a factor and an exponent, in ascending order of the factors' keys.
    """

    __slots__ = ("_hash", "factors", "key")

    def __init__(self, factors: tuple[tuple[DimFactor, int], ...]):
        self.factors = factors
        size = sum(f.key[0] * e + 1 for f, e in factors)
        self.key = (size, tuple((f.key, e) for f, e in reversed(factors)))
        self._hash = hash(factors)

    @property
    def is_constant(self) -> bool:
        return not self.factors

    def to_factor(self) -> DimFactor | None:
        """The factor, if the term is one to the power one."""
        if len(self.factors) == 1 and self.factors[0][1] == 1:
            return self.factors[0][0]
        return None

    def mul(self, other: DimTerm) -> DimTerm:
        return _term(_merged(self.factors, other.factors, 1))

    def divide(self, other: DimTerm) -> DimTerm | None:
        """The quotient, or None if `other` does not divide the term."""
        exponents = _merged(self.factors, other.factors, -1)
        return None if any(e < 0 for e in exponents.values()) else _term(exponents)

    def get_vars(self) -> set[str]:
        return set().union(*(f.get_vars() for f, _ in self.factors))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, DimTerm) and self._hash == other._hash and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return "*".join(f"{f}^{e}" if e != 1 else str(f) for f, e in self.factors)


def _merged(
    xs: Iterable[tuple[DimFactor, int]], ys: Iterable[tuple[DimFactor, int]], sign: int
) -> dict[DimFactor, int]:
    exponents = dict(xs)
    for f, e in ys:
        exponents[f] = exponents.get(f, 0) + sign * e
    return exponents


def _term(exponents: Mapping[DimFactor, int]) -> DimTerm:
    items = sorted(((f, e) for f, e in exponents.items() if e), key=lambda item: item[0].key)
    return DimTerm(tuple(items))


ONE = DimTerm(())


def size_key(x: Size) -> tuple[Any, ...]:
    """The key that orders sizes: ints and expressions."""
    if type(x) is int:
        return _terms_key(((ONE, x),) if x else ())
    return x._key


def size_length(x: Size) -> int:
    """The number of factors in a size, as often as they occur; work with it takes that long."""
    if type(x) is int:
        return 0
    return sum(e * f.length for t, _ in x._terms for f, e in t.factors)


def _terms_key(terms: Sequence[tuple[DimTerm, int]]) -> tuple[Any, ...]:
    size = sum(1 + abs(k) * t.key[0] for t, k in terms)
    return (size, tuple((t.key, k) for t, k in terms))


def is_symbolic_dim(p: object) -> bool:
    """Whether a dimension size is symbolic.

    Args:
      p: an int or a symbolic dimension.

    >>> from jax import export
    >>> n, = export.symbolic_shape("n")
    >>> export.is_symbolic_dim(n), export.is_symbolic_dim(3)
    (True, False)
    """
    return isinstance(p, DimExpr)


class DimExpr:
    """A symbolic dimension size: a sum of terms with integer coefficients, not constant.

    Made by `jax.export.symbolic_shape`; arithmetic with ints and other dimensions of the same scope
    gives dimensions, arithmetic with arrays gives arrays.

    Args:
      terms: pairs of a term and a coefficient that is not zero, in descending order.
      scope: the scope, which holds the constraints on the variables.
    """

    __slots__ = ("_lazy_hash", "_lazy_key", "_scope", "_terms")
    __array_priority__ = 1000
    _is_symbolic_dim = True

    def __init__(self, terms: tuple[tuple[DimTerm, int], ...], scope: SymbolicScope):
        self._terms = terms
        self._scope = scope
        # Most expressions that a decision makes are neither compared nor looked up.
        self._lazy_key: tuple[Any, ...] | None = None
        self._lazy_hash: int | None = None

    @property
    def _key(self) -> tuple[Any, ...]:
        if self._lazy_key is None:
            self._lazy_key = _terms_key(self._terms)
        return self._lazy_key

    # Parts

    @property
    def scope(self) -> SymbolicScope:
        """The scope of the dimension's variables."""
        return self._scope

    def _get_vars(self) -> set[str]:
        return set().union(*(t.get_vars() for t, _ in self._terms))

    get_vars = _get_vars

    @property
    def _constant(self) -> int:
        term, k = self._terms[-1]
        return k if term.is_constant else 0

    def _to_var(self) -> str | None:
        """The variable's name if the dimension is a variable."""
        single = self._to_single_term()
        factor = single[0].to_factor() if single is not None and single[1] == 1 else None
        return None if factor is None else factor.var

    def _to_single_term(self) -> tuple[DimTerm, int] | None:
        """The term and its coefficient, if there is only one and no constant."""
        return self._terms[0] if len(self._terms) == 1 else None

    def _evaluate(self, env: Mapping[str, Any]) -> Any:
        """The value for given values of the variables: ints or sizes."""
        return Algebra(env).size(self)

    # Arithmetic

    def __add__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() + other
        return linear_combination(self._scope, ((self, 1), (y, 1)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() - other
        return linear_combination(self._scope, ((self, 1), (y, -1)))

    def __rsub__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return other - self.dimension_as_value()
        return linear_combination(self._scope, ((y, 1), (self, -1)))

    def __neg__(self) -> Any:
        return linear_combination(self._scope, ((self, -1),))

    def __mul__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() * other
        if type(y) is int:
            return linear_combination(self._scope, ((self, y),))
        self._scope._check_same_scope(self, y, "the product of")
        coefficients: dict[DimTerm, int] = {}
        for t1, k1 in self._terms:
            for t2, k2 in y._terms:
                _add_scaled(coefficients, self._scope._normal_term(t1.mul(t2)), k1 * k2)
        return normal_form(self._scope, coefficients)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        n = _as_size(power)
        if type(n) is not int:
            return self.dimension_as_value() ** power
        if n < 0:
            raise ValueError(
                f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{n}'"
            )
        result: Any = 1
        for _ in range(n):
            result = self * result
        return result

    def __rpow__(self, other: Any) -> Any:
        return other ** self.dimension_as_value()

    def __divmod__(self, divisor: Any) -> Any:
        y = _as_size(divisor)
        if y is None:
            return self // divisor, self % divisor
        return divide(self, y, self._scope)

    def __rdivmod__(self, dividend: Any) -> Any:
        x = _as_size(dividend)
        if x is None:
            return dividend // self, dividend % self
        return divide(x, self, self._scope)

    def __floordiv__(self, divisor: Any) -> Any:
        y = _as_size(divisor)
        if y is None:
            return self.dimension_as_value() // divisor
        return divide(self, y, self._scope)[0]

    def __rfloordiv__(self, dividend: Any) -> Any:
        x = _as_size(dividend)
        if x is None:
            return dividend // self.dimension_as_value()
        return divide(x, self, self._scope)[0]

    def __mod__(self, divisor: Any) -> Any:
        y = _as_size(divisor)
        if y is None:
            return self.dimension_as_value() % divisor
        return divide(self, y, self._scope)[1]

    def __rmod__(self, dividend: Any) -> Any:
        x = _as_size(dividend)
        if x is None:
            return dividend % self.dimension_as_value()
        return divide(x, self, self._scope)[1]

    def __truediv__(self, divisor: Any) -> Any:
        return self.dimension_as_value() / divisor

    def __rtruediv__(self, dividend: Any) -> Any:
        return dividend / self.dimension_as_value()

    def max(self, other: Size) -> Size:
        return operation(MAX, self, other, self._scope)

    def min(self, other: Size) -> Size:
        return operation(MIN, self, other, self._scope)

    def rmax(self, other: Size) -> Size:
        return operation(MAX, other, self, self._scope)

    def rmin(self, other: Size) -> Size:
        return operation(MIN, other, self, self._scope)

    # Comparison

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is DimExpr:
            if self._scope is not other._scope:
                return False
            if self._key == other._key:
                return True
            # With an equality like 2*a == b, different forms may have the same value.
            return bool(self._scope._rules) and type(self - other) is int and self - other == 0
        return False  # an expression is not constant

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        if self._lazy_hash is None:
            self._lazy_hash = hash((self._terms, id(self._scope)))
        return self._lazy_hash

    def __ge__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() >= other
        return is_at_least(self, y, lambda: (f"'{self}' >= '{y}'", *_cases(self, y)))

    def __le__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() <= other
        return is_at_least(y, self, lambda: (f"'{self}' <= '{y}'", *_cases(self, y + 1)[::-1]))

    def __gt__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() > other
        return not is_at_least(y, self, lambda: (f"'{self}' > '{y}'", *_cases(self, y + 1)))

    def __lt__(self, other: Any) -> Any:
        y = _as_size(other)
        if y is None:
            return self.dimension_as_value() < other
        return not is_at_least(self, y, lambda: (f"'{self}' < '{y}'", *_cases(self, y)[::-1]))

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"The symbolic dimension '{self}' is used where a constant is required. Use "
            f"`jnp.asarray(dimension)` for its value as an array, or export for a constant size."
        )

    # As a value

    def dimension_as_value(self) -> Any:
        """The dimension as an integer array, in a function that is traced for export."""
        return dimension_as_value_p.bind(dim=self)

    def __jax_array__(self) -> Any:
        return self.dimension_as_value()

    def _lower(self, ctx: Any, values: Mapping[str, Any]) -> Any:
        """The dimension as a 0-d int32 value of the module that is being lowered."""
        return IrAlgebra(values).size(self)

    # Identity and text

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    def __copy__(self) -> DimExpr:
        return self

    def __str__(self) -> str:
        return terms_text(self._terms)

    __repr__ = __str__


def terms_text(terms: Sequence[tuple[DimTerm, int]]) -> str:
    """A sum of terms as text, like '2*b - a + 1'."""
    if not terms:
        return "0"
    parts = []
    for i, (term, k) in enumerate(terms):
        sign = "- " if k < 0 else "" if i == 0 else "+ "
        size = abs(k)
        text = str(size) if term.is_constant else str(term) if size == 1 else f"{size}*{term}"
        parts.append(sign + text)
    return " ".join(parts)


# Construction of normal forms


def _as_size(x: object) -> Size | None:
    """`x` as an int or expression; None if it is neither."""
    if type(x) is int or type(x) is DimExpr:
        return x
    if isinstance(x, (int, np.integer)):
        return operator.index(x)
    return None


def _add_scaled(coefficients: dict[DimTerm, int], x: Size, k: int) -> None:
    """Adds k times the size to a sum of terms."""
    terms = ((ONE, x),) if type(x) is int else x._terms
    for term, c in terms:
        coefficients[term] = coefficients.get(term, 0) + k * c


def normal_form(scope: SymbolicScope, coefficients: Mapping[DimTerm, int]) -> Size:
    """The size that is the sum of the terms: an int if it is constant."""
    for rule in scope._rules:
        c = coefficients.get(rule.term, 0)
        if c and c % rule.coefficient == 0:
            rest = {t: k for t, k in coefficients.items() if t != rule.term}
            _add_scaled(rest, rule.value, c // rule.coefficient)
            coefficients = rest
        if rule.is_of_quotient:
            coefficients = _replaced_in_products(coefficients, rule)
    items = [(t, k) for t, k in coefficients.items() if k]
    if not items:
        return 0
    if len(items) == 1 and items[0][0].is_constant:
        return items[0][1]
    items.sort(key=lambda item: item[0].key, reverse=True)
    return DimExpr(tuple(items), scope)


def _replaced_in_products(coefficients: Mapping[DimTerm, int], rule: Rule) -> Mapping[DimTerm, int]:
    """The sum with n * floordiv(x, n) replaced by x in products too."""
    found = {
        t: rest
        for t, k in coefficients.items()
        if len(t.factors) > 1
        and k % rule.coefficient == 0
        and (rest := t.divide(rule.term)) is not None
    }
    if not found:
        return coefficients
    out = {t: k for t, k in coefficients.items() if t not in found}
    values = ((ONE, rule.value),) if type(rule.value) is int else rule.value._terms
    for t, rest in found.items():
        for v, c in values:
            product = rest.mul(v)
            out[product] = out.get(product, 0) + coefficients[t] // rule.coefficient * c
    return out


def _plus(x: DimExpr, constant: int) -> DimExpr:
    """The sum with a constant, whose term is the last."""
    if not constant:
        return x
    terms = x._terms
    if terms[-1][0].is_constant:
        constant += terms[-1][1]
        terms = terms[:-1]
    return DimExpr((*terms, (ONE, constant)) if constant else terms, x._scope)


def linear_combination(scope: SymbolicScope, sizes: Sequence[tuple[Size, int]]) -> Size:
    """The sum of sizes times coefficients."""
    (x, k), *rest = sizes
    if k == 1 and type(x) is not int and len(rest) == 1 and type(rest[0][0]) is int:
        return _plus(x, rest[0][0] * rest[0][1])
    coefficients: dict[DimTerm, int] = {}
    first = None
    for x, k in sizes:
        if type(x) is not int:
            if first is None:
                first = x
            scope._check_same_scope(first, x, "the sum of")
        _add_scaled(coefficients, x, k)
    return normal_form(scope, coefficients)


def variable(name: str, scope: SymbolicScope) -> Size:
    """The dimension variable of that name, or what the constraints say it is equal to."""
    return normal_form(scope, {DimTerm(((DimFactor(None, (name,)), 1),)): 1})


def from_factor(factor: DimFactor, scope: SymbolicScope) -> Size:
    return normal_form(scope, {DimTerm(((factor, 1),)): 1})


def operation(name: str, x: Size, y: Size, scope: SymbolicScope) -> Size:
    """The result of floordiv, mod, max or min, as simple as the constraints allow.

    Raises:
      ZeroDivisionError: if a divisor is zero.
    """
    x, y = _operands(x, y)
    if type(x) is int and type(y) is int:
        return getattr(Algebra({}), name)(x, y)
    if name == FLOORDIV:
        return divide(x, y, scope)[0]
    if name == MOD:
        return divide(x, y, scope)[1]
    if name in (MAX, MIN):
        difference = linear_combination(scope, ((x, 1), (y, -1)))
        if type(difference) is int or not scope._decision.takes_both_signs(difference):
            low, high = scope._bounds(difference)
            if low >= 0:
                return x if name == MAX else y
            if high <= 0:
                return y if name == MAX else x
    return from_factor(DimFactor(name, (x, y)), scope)


def _operands(x: Any, y: Any) -> tuple[Size, Size]:
    sizes = _as_size(x), _as_size(y)
    if sizes[0] is None or sizes[1] is None:
        raise TypeError(f"expected two dimension sizes, got {x!r} and {y!r}")
    return sizes


def divide(x: Size, y: Size, scope: SymbolicScope) -> tuple[Size, Size]:
    """Quotient, rounded down, and remainder, which has the sign of the divisor.

    Polynomial division: as long as the largest term of the divisor divides that of the rest, it is
    subtracted. The result is used if the rest is a remainder, or else nothing is known, also if the
    division takes too long: the rest may grow exponentially before it gets smaller.
    """
    if type(x) is not int and type(y) is not int:
        scope._check_same_scope(x, y, "the quotient of")
    if type(y) is int and y == 0:
        raise ZeroDivisionError(f"division of '{x}' by zero")
    if type(x) is int and type(y) is int:
        return divmod(x, y)
    quotient, rest = _polynomial_division(x, y, scope)
    if _is_remainder(rest, y, scope):
        return quotient, rest
    if type(y) is int:
        multiple, others = _product_division(rest, y, scope)
        if others != rest:
            of_others, remainder = divide(others, y, scope)
            parts = ((quotient, 1), (multiple, 1), (of_others, 1))
            return linear_combination(scope, parts), remainder
    elif (reduced := _without_common_term(x, y, scope)) is not None:
        quotient, rest = divide(*reduced, scope)
        if type(rest) is int and rest == 0:
            return quotient, 0
    return tuple(from_factor(DimFactor(op, (x, y)), scope) for op in (FLOORDIV, MOD))  # type: ignore[return-value]


def _polynomial_division(x: Size, y: Size, scope: SymbolicScope) -> tuple[Size, Size]:
    (y_term, y_k) = (ONE, y) if type(y) is int else y._terms[0]
    quotient: dict[DimTerm, int] = {}
    rest = x
    for _ in range(_MAX_DIVISION):
        if rest == 0 or type(rest) is not int and len(rest._terms) > _MAX_DIVISION:
            break
        term, k = (ONE, rest) if type(rest) is int else rest._terms[0]
        q_term = term.divide(y_term)
        if q_term is None:
            break
        if term.is_constant and y_term.is_constant:
            q_k = k // y_k  # the last step leaves a remainder of the right sign
            if q_k == 0:
                break
        elif k % y_k:
            break
        else:
            q_k = k // y_k
        step = normal_form(scope, {q_term: q_k})
        smaller = rest - step * y
        if not term.is_constant and size_key(smaller) >= size_key(rest):
            break  # rules for equal terms have made it larger
        _add_scaled(quotient, step, 1)
        rest = smaller
    return normal_form(scope, quotient), rest


def _without_common_term(x: Size, y: DimExpr, scope: SymbolicScope) -> tuple[Size, int] | None:
    """For y = k t and x = t z with a term t > 0: z and k, which have the same quotient."""
    single = y._to_single_term()
    if single is None or type(x) is int:
        return None
    term, k = single
    divided = {t.divide(term): c for t, c in x._terms}
    if None in divided or scope._bounds(normal_form(scope, {term: 1}))[0] <= 0:
        return None
    return normal_form(scope, divided), k


def _product_division(x: Size, y: int, scope: SymbolicScope) -> tuple[Size, Size]:
    """Divides the products in x by y that have a factor which the constraints say to be divisible."""
    quotient: Size = 0
    rest = x
    for term, k in x._terms if type(x) is not int else ():
        divisor = y // math.gcd(y, k)
        if term.is_constant or term.to_factor() is not None:
            continue
        for factor, _ in term.factors:
            f = from_factor(factor, scope)
            if operation(MOD, f, divisor, scope) == 0:
                part = operation(FLOORDIV, f, divisor, scope)
                others = normal_form(scope, {term.divide(DimTerm(((factor, 1),))): 1})
                part = part * others * (k * divisor // y)
                quotient = linear_combination(scope, ((quotient, 1), (part, 1)))
                rest = linear_combination(scope, ((rest, 1), (normal_form(scope, {term: k}), -1)))
                break
    return quotient, rest


def _is_remainder(rest: Size, y: Size, scope: SymbolicScope) -> bool:
    if type(rest) is int and rest == 0:
        return True
    if type(rest) is int and type(y) is int:
        return 0 <= rest < y or y < rest <= 0
    if type(y) is int or scope._bounds(y)[0] <= 0 or scope._bounds(rest)[0] < 0:
        return False
    return bool(scope._bounds(linear_combination(scope, ((y, 1), (rest, -1))))[0] > 0)


def _cases(x: Size, y: Size) -> tuple[str, str]:
    """Constraints that x is at least y, and that it is smaller."""
    return f"{x} >= {y}", f"{x} <= {y - 1}"


def is_at_least(x: Size, y: Size, describe: Callable[[], tuple[str, str, str]]) -> bool:
    """Whether x >= y for all values of the variables.

    Args:
      x, y: sizes, one of them symbolic.
      describe: returns what was compared, and what to state where it is true, and where it is false,
        for the message.

    Raises:
      InconclusiveDimensionOperation: if it depends on the values.
    """
    symbolic = x if type(x) is not int else y
    scope = symbolic._scope
    if type(x) is not int and type(y) is not int:
        scope._check_same_scope(x, y, "the comparison of")
    difference = linear_combination(scope, ((x, 1), (y, -1)))
    decision = scope._decision
    low, high = decision.interval(difference)  # decides most comparisons
    if low < 0 <= high:
        if decision.is_natural(difference):
            return True
        if not decision.takes_both_signs(difference):
            low, high = decision.bounds(difference)
    if low >= 0:
        return True
    if high < 0:
        return False
    comparison, if_true, if_false = describe()
    known = "".join(f"\n  {c}" for c in scope._constraint_texts)
    raise InconclusiveDimensionOperation(
        f"Symbolic dimension comparison {comparison} is inconclusive: it is true for some values of "
        f"the dimension variables and false for others.\n"
        + (f"The constraints of their scope are:{known}\n" if known else "")
        + "If it always holds in your program, state it when the dimensions are made: "
        f"jax.export.symbolic_shape(..., constraints=[{if_true!r}]); if it never holds, "
        f"constraints=[{if_false!r}]. If both happen, export the function once for each."
    )


# A dimension is a value like a Python int: of the default integer type, weakly typed.
core.pytype_aval_mappings[DimExpr] = lambda x: value_aval()
dtypes.register_python_scalar_type(DimExpr, int)
dtypes.canonicalize_value_handlers[DimExpr] = lambda x: x.dimension_as_value()
