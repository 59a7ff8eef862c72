"""The grammar of symbolic shapes and of constraints.

shape      ::= [ '(' ] dimension { ',' dimension } [ ',' ] [ ')' ]
dimension  ::= sum | '_' | '...'
sum        ::= [ '+' | '-' ] product { ( '+' | '-' ) product }
product    ::= power { '*' power }
power      ::= [ '-' ] atom [ ( '^' | '**' ) number ]
atom       ::= number | name | function '(' sum ',' sum ')' | '(' sum ')'
constraint ::= sum ( '>=' | '<=' | '==' ) sum
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from jax._src.export.shape_poly import expressions as ex

if TYPE_CHECKING:
    from jax._src.export.shape_poly.scope import SymbolicScope

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?![\w.]))|(?P<name>[^\W\d]\w*)|(?P<op>\.\.\.|\*\*|>=|<=|==|[-+*^(),])|(?P<other>\S\w*))"
)
_MAX_DEPTH = 64  # of nested parentheses and functions
_MAX_POWER = 64
_MAX_TERMS = 200
_MAX_LENGTH = 5000  # of an expression: factors are counted as often as they occur
_RELATIONS = (">=", "<=", "==")


class Parser:
    """Reads sizes from a text.

    Args:
      text: the text.
      scope: the scope of the variables.
      what: what is read, for messages.
      like: sizes to use for placeholders; None if there are none.
    """

    def __init__(
        self,
        text: str,
        scope: SymbolicScope,
        what: str = "symbolic shape",
        like: Sequence[int | None] | None = None,
    ):
        self._text = text
        self._scope = scope
        self._what = what
        self._like = like
        self._dimension = 0
        self._depth = 0
        self._tokens = [
            (m.lastgroup or "", m.group(m.lastgroup or 0), m.start(m.lastgroup or 0))
            for m in _TOKEN.finditer(text.rstrip())
        ]
        self._tokens.append(("end", "", len(text)))
        self._at = 0

    # Tokens

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _token(self) -> str:
        return self._tokens[self._at][1]

    def _take(self, *texts: str) -> str | None:
        """The next token if it is one of the texts; None otherwise."""
        if self._kind in ("op", "name") and self._token in texts:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            self._fail(f"expected '{text}'")

    def _fail(self, problem: str) -> NoReturn:
        kind, token, position = self._tokens[self._at]
        found = "the end" if kind == "end" else f"'{token}'"
        raise ValueError(
            f"syntax error in {self._what} {self._text!r} in dimension {self._dimension}: {problem}, "
            f"but found {found} at position {position}. Dimensions are sums and products of numbers "
            "and names, and of max(x, y), min(x, y), mod(x, y), floordiv(x, y)."
        )

    def _checked(self, x: Any) -> Any:
        """The size, unless it has become too large: texts come from files too."""
        if type(x) is int:
            numbers = (x,)
        else:
            numbers = tuple(k for _, k in x._terms)
        if len(numbers) > _MAX_TERMS or max(map(abs, numbers)) >= 2**63:
            self._fail(f"expected numbers below 2^63, and at most {_MAX_TERMS} terms")
        if ex.size_length(x) > _MAX_LENGTH:
            self._fail(f"expected at most {_MAX_LENGTH} factors, which products multiply")
        return x

    # Grammar

    def shape(self) -> tuple[Any, ...]:
        sizes: list[Any] = []
        outer = self._is_in_parentheses()
        if outer:
            self._expect("(")
        while self._kind != "end" and not (outer and self._token == ")"):
            self._dimension = len(sizes)
            if self._take("..."):
                sizes += self._rest(len(sizes))
                break
            sizes.append(self._placeholder(len(sizes)) if self._take("_") else self._size(sizes))
            if self._take(",") is None:
                break
        if outer:
            self._expect(")")
        if self._kind != "end":
            self._fail("expected ',' or the end")
        return tuple(sizes)

    def _is_in_parentheses(self) -> bool:
        """Whether the first parenthesis closes at the end of the text."""
        depth = 0
        for i, (kind, token, _) in enumerate(self._tokens):
            if kind == "op" and token in "()":
                depth += 1 if token == "(" else -1
            if depth == 0:
                return i > 0 and self._tokens[i + 1][0] == "end"
        return False

    def _size(self, before: Sequence[Any]) -> Any:
        size = self.sum()
        known = self._like[len(before)] if self._like and len(before) < len(self._like) else None
        if type(size) is int and known is not None and size != known:
            raise ValueError(
                f"The {self._what} {self._text!r} has size {size} in dimension {len(before)}, but the "
                f"array has the shape {tuple(self._like or ())}."
            )
        return size

    def _placeholder(self, i: int) -> Any:
        if self._like is None or i >= len(self._like):
            self._fail(
                "there is a placeholder, but no `like` shape to take the size from"
                if self._like is None
                else f"the placeholder is for dimension {i}, but `like` has {len(self._like)}"
            )
        if self._like[i] is None:
            self._fail(f"the placeholder is for dimension {i}, whose size is None in `like`")
        return self._like[i]

    def _rest(self, start: int) -> list[Any]:
        if self._like is None:
            self._fail("there is a placeholder, but no `like` shape to take the sizes from")
        if start > len(self._like):
            self._fail(f"'...' follows {start} dimensions, but `like` has only {len(self._like)}")
        return [self._placeholder(i) for i in range(start, len(self._like))]

    def sum(self) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"expressions are nested deeper than {_MAX_DEPTH}")
        sign = self._take("+", "-")
        total = self._product()
        if sign == "-":
            total = -total
        while (sign := self._take("+", "-")) is not None:
            term = self._product()
            total = self._checked(total + term if sign == "+" else total - term)
        self._depth -= 1
        return total

    def _product(self) -> Any:
        value = self._power()
        while self._take("*"):
            value = self._checked(value * self._power())
        return value

    def _power(self) -> Any:
        negative = self._take("-") is not None
        value = self._atom()
        if self._take("^", "**"):
            if self._kind != "number" or len(self._token) > 3 or int(self._token) > _MAX_POWER:
                self._fail(f"expected an exponent of at most {_MAX_POWER}")
            self._at += 1
            base, value = value, 1
            for _ in range(int(self._tokens[self._at - 1][1])):
                value = self._checked(value * base)
        return -value if negative else value

    def _atom(self) -> Any:
        kind, token, _ = self._tokens[self._at]
        if kind == "number":
            if len(token) > 20:
                self._fail("expected a smaller number")
            self._at += 1
            return self._checked(int(token))
        if kind == "name" and token != "_":
            self._at += 1
            if token in ex.OPERATIONS:
                return self._function(token)
            return ex.variable(token, self._scope)
        if self._take("("):
            value = self.sum()
            self._expect(")")
            return value
        self._fail("expected a number, a name or an expression")

    def _function(self, name: str) -> Any:
        self._expect("(")
        x = self.sum()
        self._expect(",")
        y = self.sum()
        self._expect(")")
        try:
            return self._checked(ex.operation(name, x, y, self._scope))
        except ZeroDivisionError:
            self._fail("division by zero")

    def constraint(self) -> tuple[Any, str, Any]:
        """The two sides of a constraint and the relation between them."""
        left = self.sum()
        relation = self._take(*_RELATIONS)
        if relation is None:
            self._fail("expected '>=', '<=' or '=='")
        right = self.sum()
        if self._kind != "end":
            self._fail("expected the end")
        return left, relation, right
