"""Bounds of symbolic dimensions, from which comparisons are decided.

A term is bounded by the bounds of its factors, an expression by those of its terms. Where that does
not decide, all that is known of the terms is written as linear inequalities, with each term as a
variable: the constraints of the scope, what floordiv, mod, max and min are, and products of bounds
(G. P. McCormick, "Computability of global solutions to factorable nonconvex programs", Mathematical
Programming 10, 1976). The least value of the expression then is that of a linear program, by its
dual: the largest constant c such that expression - c is a sum of inequalities with non-negative
coefficients (Farkas' lemma). All of it is exact, so a decision is never wrong.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

from jax._src.export.shape_poly import expressions as ex
from jax._src.export.shape_poly.expressions import ONE, DimFactor, DimTerm
from jax._src.export.shape_poly.linear_program import minimize

if TYPE_CHECKING:
    from jax._src.export.shape_poly.scope import SymbolicScope

Bound = Any  # an int, or minus or plus infinity
Bounds = tuple[Bound, Bound]

_MAX_TERMS = 48  # a limit to the size of linear programs
_MAX_CASES = 4  # of the factors min and max, whose cases are distinguished


class Decision:
    """Decides for one scope, and remembers what it has found.

    Args:
      scope: the scope.
    """

    def __init__(self, scope: SymbolicScope):
        self._scope = scope
        self.inequalities: list[Any] = []  # expressions that are not negative
        self._term_limits: dict[DimTerm, Bounds] = {}
        self._known: dict[Any, Bounds] = {}
        self._intervals: dict[DimFactor, Bounds] = {}
        self._busy: set[DimFactor] = set()
        self._work_left = math.inf
        # Bounds found without what the busy factors are, so perhaps not the tightest ones.
        self._partly_known: dict[Any, Bounds] = {}

    def limit_work(self, size: int) -> None:
        """Lets decisions raise ValueError when linear programs have had so many numbers in all."""
        self._work_left = size

    def assume(self, expression: Any) -> None:
        """Takes the expression to be not negative."""
        self.inequalities.append(expression)
        self._known.clear()
        self._intervals.clear()
        self._partly_known.clear()
        terms = [(t, k) for t, k in expression._terms if not t.is_constant]
        if len(terms) == 1:  # a limit of one term
            ((term, k),) = terms
            limit = -expression._constant
            if k > 0:
                self._limit(term, (-(-limit // k), math.inf))
            else:
                self._limit(term, (-math.inf, limit // k))

    def _limit(self, term: DimTerm, limits: Bounds) -> None:
        low, high = self._term_limits.get(term, (-math.inf, math.inf))
        self._term_limits[term] = max(low, limits[0]), min(high, limits[1])

    def conclude(self) -> None:
        """Ends the assumptions: finds the bounds of single variables that follow from all of them.

        Raises:
          ValueError: no values of the terms fulfil all inequalities.
        """
        if not self._least_values_fulfil_all():
            for e in self.inequalities:
                if self.interval(e)[1] < 0 or self._linear_bound(e, negate=True) < 0:
                    self._fail_unsatisfiable()
        if all(len(e._get_vars()) < 2 for e in self.inequalities):
            return
        for name in sorted(set().union(*(e._get_vars() for e in self.inequalities))):
            term = DimTerm(((DimFactor(None, (name,)), 1),))
            x = self._expression(term)
            self._limit(term, tuple([self._linear_bound(x, negate=n) for n in (False, True)]))
        self._known.clear()
        self._intervals.clear()
        self._partly_known.clear()

    def _least_values_fulfil_all(self) -> bool:
        return self._fulfils_all(self._least_values(set()))

    def _least_values(self, names: set[str]) -> dict[str, int]:
        """The least values of these variables and of those in inequalities."""
        names = names.union(*(e._get_vars() for e in self.inequalities))
        return {n: self._factor_bounds(DimFactor(None, (n,)))[0] for n in names}

    def _fulfils_all(self, env: dict[str, int]) -> bool:
        try:
            return all(e._evaluate(env) >= 0 for e in self.inequalities)
        except ZeroDivisionError:
            return False

    def takes_both_signs(self, x: Any) -> bool:
        """Whether an expression is negative for some values of the variables and positive for others.

        Only a few values are tried. If it is False, nothing is known.
        """
        names = x._get_vars()
        least = self._least_values(names)
        signs = set()
        for env in (least, *({**least, n: least[n] + k} for n in names for k in (1, 16))):
            try:
                value = x._evaluate(env)
            except ZeroDivisionError:
                continue
            sign = (value > 0) - (value < 0)
            if sign and sign not in signs and self._fulfils_all(env):
                signs.add(sign)
        return len(signs) == 2

    def _fail_unsatisfiable(self) -> NoReturn:
        constraints = ", ".join(repr(c) for c in self._scope._constraint_texts)
        raise ValueError(
            f"Unsatisfiable constraint: no dimensions, which are at least 1, fulfil all of {constraints}."
        )

    def is_natural(self, x: Any) -> bool:
        """Whether an expression is found to be not negative by one fact about one of its terms.

        This is quick, and most comparisons are of this kind. If it is False, nothing is known.
        """
        coefficients = dict(x._terms)
        for term in coefficients:
            for fact in self._quick_facts(term):
                for t, k in fact._terms if type(fact) is not int else ():
                    times, rest = divmod(coefficients.get(t, 0), k)
                    if times > 0 and not rest and not t.is_constant:
                        if self.interval(x - times * fact)[0] >= 0:
                            return True
        return False

    def _quick_facts(self, term: DimTerm) -> list[Any]:
        """Expressions with the term that are not negative, from the intervals of its parts."""
        if term.is_constant:
            return []
        facts = [e for e in self.inequalities if any(t == term for t, _ in e._terms)]
        t = self._expression(term)
        factor = term.to_factor()
        if factor is None:
            return facts + self._product_facts(term, t)
        if factor.operation is None:
            return facts
        x, y = factor.operands
        if factor.operation == ex.MAX:
            return [*facts, t - x, t - y]
        if factor.operation == ex.MIN:
            return [*facts, x - t, y - t]
        if self.interval(y)[0] <= 0:
            return facts
        if factor.operation == ex.FLOORDIV:
            rest = x - y * t
            return [*facts, rest, y - 1 - rest]
        return [*facts, y - 1 - t, *([x - t] if self.interval(x)[0] >= 0 else [])]

    def bounds(self, x: Any) -> Bounds:
        """The least and largest values known; for an int, it twice."""
        if type(x) is int:
            return x, x
        found = self._known.get(x._key)
        if found is not None:
            return found
        known = self._partly_known if self._busy else self._known
        found = known.get(x._key)
        if found is None:
            found = known[x._key] = self._bounds(x)
        return found

    def _bounds(self, x: Any) -> Bounds:
        low, high = self.interval(x)
        # The linear program is tried where the interval does not tell the sign.
        if low < 0 <= high:
            low = max(low, self._linear_bound(x, negate=False))
            if low < 0:
                high = min(high, self._linear_bound(x, negate=True))
        if low < 0 <= high:
            low = max(low, self._least_of_cases(x))
            if low < 0:
                high = min(high, -self._least_of_cases(-x))
        return low, high

    # By cases

    def _least_of_cases(self, x: Any) -> Bound:
        """A lower bound of x by those with each min and max replaced by one of its operands.

        Only those are replaced that make x larger where they are larger (min) or smaller (max):
        the inequalities of the others bound x from below.
        """
        factors = [
            factor
            for term, k in x._terms
            for factor, _ in term.factors
            if factor.operation == (ex.MIN if k > 0 else ex.MAX)
        ]
        if not 0 < len(factors) <= _MAX_CASES:
            return -math.inf
        return min(self._least_of_case(x, factors[0], y) for y in factors[0].operands)

    def _least_of_case(self, x: Any, factor: DimFactor, value: Any) -> Bound:
        replaced: Any = 0
        for term, k in x._terms:
            product = k
            for f, e in term.factors:
                size = value if f == factor else ex.from_factor(f, self._scope)
                product = size**e * product
            replaced = replaced + product
        return self.bounds(replaced)[0]

    # By intervals

    def interval(self, x: Any) -> Bounds:
        """The least and largest values by those of the terms alone."""
        if type(x) is int:
            return x, x
        least: Bound = 0
        largest: Bound = 0
        for term, k in x._terms:
            low, high = self._term_bounds(term)
            if k < 0:
                low, high = high, low
            least += k * low
            largest += k * high
        return least, largest

    def _term_bounds(self, term: DimTerm) -> Bounds:
        low, high = 1, 1
        if term.to_factor() is not None:
            low, high = self._factor_bounds(term.factors[0][0])
            return self._limited(term, low, high)
        for factor, exponent in term.factors:
            bounds = self._factor_bounds(factor)
            power = bounds
            for _ in range(exponent - 1):
                power = _product(power, bounds)
            if exponent % 2 == 0:
                power = (max(power[0], 0), power[1])
            low, high = _product((low, high), power)
        return self._limited(term, low, high)

    def _limited(self, term: DimTerm, low: Bound, high: Bound) -> Bounds:
        limits = self._term_limits.get(term)
        return (low, high) if limits is None else (max(low, limits[0]), min(high, limits[1]))

    def _factor_bounds(self, factor: DimFactor) -> Bounds:
        found = self._intervals.get(factor)
        if found is None:
            found = self._intervals[factor] = self._interval_of_factor(factor)
        return found

    def _interval_of_factor(self, factor: DimFactor) -> Bounds:
        limits = self._term_limits.get(DimTerm(((factor, 1),)), (-math.inf, math.inf))
        low, high = self._own_bounds(factor)
        low, high = max(low, limits[0]), min(high, limits[1])
        if low > high:
            self._fail_unsatisfiable()
        return low, high

    def _own_bounds(self, factor: DimFactor) -> Bounds:
        if factor.operation is None:
            return 1, math.inf
        x, y = (self.interval(v) for v in factor.operands)
        if factor.operation == ex.MAX:
            return max(x[0], y[0]), max(x[1], y[1])
        if factor.operation == ex.MIN:
            return min(x[0], y[0]), min(x[1], y[1])
        if factor.operation == ex.MOD:
            return _mod_bounds(x, y)
        return _floordiv_bounds(x, y)

    # By linear programs

    def _linear_bound(self, x: Any, *, negate: bool) -> Bound:
        """The least value of x, or with `negate` the largest, by all inequalities."""
        sign = -1 if negate else 1
        coefficients = {t: sign * k for t, k in x._terms}
        inequalities = self._relevant(coefficients)
        terms = sorted(
            {t for e in inequalities for t in e} | set(coefficients), key=lambda t: t.key
        )
        terms = [t for t in terms if not t.is_constant]
        rows = [[e.get(t, 0) for e in inequalities] for t in terms]
        right = [coefficients.get(t, 0) for t in terms]
        cost = [e.get(ONE, 0) for e in inequalities]
        self._work_left -= len(rows) * (len(cost) + len(rows))
        if self._work_left < 0:
            raise ValueError(
                "symbolic dimensions of too many nested operations: their bounds take too long to find"
            )
        least = minimize(rows, right, cost) if inequalities else math.inf
        if least == -math.inf:
            self._fail_unsatisfiable()
        if least == math.inf:
            return math.inf if negate else -math.inf
        bound = math.ceil(coefficients.get(ONE, 0) - least)
        return sign * bound

    def _relevant(self, coefficients: dict[DimTerm, int]) -> list[dict[DimTerm, int]]:
        """Inequalities of the terms, and of the terms of these: sums that are not negative."""
        found: list[dict[DimTerm, int]] = []
        seen: set[DimTerm] = {ONE}
        todo = [t for t in coefficients if t not in seen]
        for e in self.inequalities:
            sums = dict(e._terms)
            found.append(sums)
            todo += sums
        while todo and len(seen) < _MAX_TERMS:
            term = todo.pop(0)
            if term in seen:
                continue
            seen.add(term)
            for e in self._facts(term):
                if type(e) is int:
                    if e < 0:
                        self._fail_unsatisfiable()
                    continue
                sums = dict(e._terms)
                if sums not in found:
                    found.append(sums)
                    todo += sums
        return found

    def _facts(self, term: DimTerm) -> list[Any]:
        """Expressions with the term that are not negative."""
        facts: list[Any] = []
        low, high = self._term_bounds(term)
        t = self._expression(term)
        if low != -math.inf:
            facts.append(t - low)
        if high != math.inf:
            facts.append(high - t)
        factor = term.to_factor()
        if factor is not None:
            if factor.operation is not None and factor not in self._busy:
                facts += self._operation_facts(factor, t)
        else:
            facts += self._product_facts(term, t)
        return facts

    def _expression(self, term: DimTerm) -> Any:
        return ex.DimExpr(((term, 1),), self._scope)

    def _operation_facts(self, factor: DimFactor, t: Any) -> list[Any]:
        x, y = factor.operands
        if factor.operation == ex.MAX:
            least = min(self.interval(x)[0], self.interval(y)[0])
            return [t - x, t - y, *([x + y - least - t] if least != -math.inf else [])]
        if factor.operation == ex.MIN:
            largest = max(self.interval(x)[1], self.interval(y)[1])
            return [x - t, y - t, *([t - x - y + largest] if largest != math.inf else [])]
        low, high = self.interval(y)
        if low <= 0 <= high:
            return []
        first = []
        if factor.operation == ex.MOD and low > 0 and type(x) is not int:
            if self._bounds_of_first(factor)[0] >= 0:
                first = [x - t]  # the remainder of a number that is not negative is no larger
        if factor.operation == ex.FLOORDIV:
            quotient, rest = t, x - y * t
            if low < high and type(x) is not int:  # the product y * t tells less
                least, largest = _floordiv_bounds(self._bounds_of_first(factor), (low, high))
                first += [t - least] if least != -math.inf else []
                first += [largest - t] if largest != math.inf else []
        else:
            q_factor = DimFactor(ex.FLOORDIV, (x, y))
            quotient, rest = ex.from_factor(q_factor, self._scope), t
        facts = [rest, y - 1 - rest] if low > 0 else [-rest, rest - 1 - y]
        if factor.operation == ex.MOD:
            equal = x - y * quotient - rest
            facts += [equal, -equal]
        return first + facts

    def _bounds_of_first(self, factor: DimFactor) -> Bounds:
        """The bounds of the first operand."""
        self._busy.add(factor)
        try:
            return self.bounds(factor.operands[0])
        finally:
            self._busy.discard(factor)

    def _product_facts(self, term: DimTerm, t: Any) -> list[Any]:
        """(f - low f) (g - low g) >= 0, and the like for upper bounds, for term = f g."""
        factor, exponent = term.factors[-1]
        f = DimTerm(((factor, 1),))
        rest = ((factor, exponent - 1),) if exponent > 1 else ()
        g = DimTerm(term.factors[:-1] + rest)
        facts = []
        fx, gx = self._expression(f), self._expression(g)
        f_low, f_high = self._term_bounds(f)
        g_low, g_high = self._term_bounds(g)
        for a, b, sign in (
            (f_low, g_low, 1), (f_high, g_high, 1), (f_low, g_high, -1), (f_high, g_low, -1),
        ):  # fmt: skip
            if abs(a) != math.inf and abs(b) != math.inf:
                facts.append(sign * (t - a * gx - b * fx + a * b))
        return facts


def _times(x: Bound, y: Bound) -> Bound:
    return 0 if x == 0 or y == 0 else x * y


def _product(x: Bounds, y: Bounds) -> Bounds:
    corners = [_times(a, b) for a in x for b in y]
    return min(corners), max(corners)


def _quotient(x: Bound, y: Bound) -> Bound:
    """floor(x / y) for y != 0, with its limit for infinite values."""
    if abs(y) == math.inf:
        if abs(x) == math.inf:
            return 0 if (x > 0) == (y > 0) else -math.inf
        return 0 if x == 0 or (x > 0) == (y > 0) else -1
    if abs(x) == math.inf:
        return x if y > 0 else -x
    return x // y


def _floordiv_bounds(x: Bounds, y: Bounds) -> Bounds:
    if y[0] <= 0 <= y[1]:
        return -math.inf, math.inf
    corners = [_quotient(a, b) for a in x for b in y]
    return min(corners), max(corners)


def _mod_bounds(x: Bounds, y: Bounds) -> Bounds:
    if y[0] > 0:
        high = y[1] - 1
        return 0, min(high, x[1]) if x[0] >= 0 else high
    if y[1] < 0:
        low = y[0] + 1
        return (max(low, x[0]) if x[1] <= 0 else low), 0
    return -math.inf, math.inf
