"""The conditions of `#if` and `#elif`: whole numbers, `defined NAME` and the operators of C.

A name that is not a macro is 0, as in C. A value that does not fit in 64 bits is an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping

from dbsp.compiler.datalog.text.macros import Macro

MAX_TOKENS = 10_000
MAX_DEPTH = 40
_WORD = 2**63

_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | \\\r?\n | //.* | /\*.*?\*/ )
    | (?P<number> (?: 0[xX][0-9a-fA-F]+ | 0[bB][01]+ | [0-9]+ ) [uUlL]* (?![A-Za-z0-9_.]) )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign> \|\| | && | == | != | <= | >= | << | >> | [-+*/%&|^~!<>()?:] )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)
"""From the lowest precedence to the highest; `?:`, `||` and `&&` have a lower one."""


def holds(text: str, macros: Mapping[str, Macro]) -> bool:
    """Whether the condition is not 0. Raises ValueError with a message if it is malformed."""
    tokens: list[str] = []
    _expand(text, macros, frozenset(), tokens, iter(range(MAX_TOKENS)))
    if not tokens:
        raise ValueError("the condition is empty")
    condition = _ConditionParser(tokens)
    value = condition.choice(True)
    if condition.position < len(tokens):
        raise ValueError(f"unexpected '{tokens[condition.position]}' in the condition")
    return value != 0


def _expand(
    text: str, macros: Mapping[str, Macro], hidden: frozenset[str], tokens: list[str], budget: Iterator[int]
) -> None:
    """Append the tokens with macros expanded; `defined NAME` becomes 1 or 0 before that.

    Every word takes one unit of the budget: a few macros may expand to any number of words.
    """
    found = [match for match in _TOKEN.finditer(text) if match.lastgroup != "blank"]
    position = 0
    while position < len(found):
        match = found[position]
        position += 1
        word = match.group()
        if next(budget, None) is None or len(hidden) > MAX_DEPTH:
            raise ValueError("the condition is too long")
        if match.lastgroup == "other":
            raise ValueError(f"unexpected '{word}' in the condition")
        if word == "defined":
            bracket = position < len(found) and found[position].group() == "("
            name = found[position + bracket] if position + bracket < len(found) else None
            behind = position + bracket + 1
            closed = not bracket or (behind < len(found) and found[behind].group() == ")")
            if name is None or name.lastgroup != "name" or not closed:
                raise ValueError("expected one name after 'defined'")
            tokens.append(str(int(name.group() in macros)))
            position = behind + bracket
        elif match.lastgroup == "name" and word in macros and word not in hidden:
            macro = macros[word]
            if macro.parameters is not None:
                raise ValueError(f"macro '{word}' has parameters; a condition cannot use such a macro")
            _expand(" ".join(map(str, macro.body)), macros, hidden | {word}, tokens, budget)
        else:
            tokens.append("0" if match.lastgroup == "name" else word)


class _ConditionParser:
    """A parser that computes the value.

    `live` is false where C does not evaluate, as behind `0 &&`; there is no error in such a part.
    """

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    def _next(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _accept(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self.position += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            found = self._next()
            raise ValueError(f"expected '{sign}', got {repr(found) if found else 'the end'}")

    def choice(self, live: bool) -> int:
        condition = self._or(live)
        if not self._accept("?"):
            return condition
        self._deeper()
        first = self.choice(live and condition != 0)
        self._expect(":")
        second = self.choice(live and condition == 0)
        self.depth -= 1
        return first if condition else second

    def _or(self, live: bool) -> int:
        value = self._and(live)
        while self._accept("||"):
            value = int(self._and(live and value == 0) != 0 or value != 0)
        return value

    def _and(self, live: bool) -> int:
        value = self._binary(0, live)
        while self._accept("&&"):
            value = int(self._binary(0, live and value != 0) != 0 and value != 0)
        return value

    def _binary(self, level: int, live: bool) -> int:
        if level == len(_BINARY):
            return self._unary(live)
        value = self._binary(level + 1, live)
        while (sign := self._next()) in _BINARY[level]:
            self.position += 1
            other = self._binary(level + 1, live)
            value = self._computed(str(sign), _BINARY[level][str(sign)], value, other) if live else 0
        return value

    @staticmethod
    def _computed(sign: str, function: Callable[[int, int], int], left: int, right: int) -> int:
        if sign in ("/", "%") and right == 0:
            raise ValueError("division by zero")
        if sign in ("<<", ">>") and not 0 <= right < 64:
            raise ValueError(f"cannot shift by {right} bits; expected 0 to 63")
        value = int(function(left, right))
        if not -_WORD <= value < _WORD:
            raise ValueError(f"{left} {sign} {right} does not fit in 64 bits")
        return value

    def _unary(self, live: bool) -> int:
        word = self._next()
        if word is None:
            raise ValueError("expected a number, got the end")
        self.position += 1
        if word in ("!", "-", "+", "~", "("):
            self._deeper()
            value = self.choice(live) if word == "(" else self._unary(live)
            self.depth -= 1
            if word == "(":
                self._expect(")")
                return value
            return {"!": int(value == 0), "-": -value, "+": value, "~": ~value}[word]
        if not word[0].isdigit():
            raise ValueError(f"expected a number, got '{word}'")
        digits = word.rstrip("uUlL").lower()
        base = (
            16 if digits.startswith("0x") else 2 if digits.startswith("0b") else 8 if digits[0] == "0" else 10
        )
        try:
            value = int(digits, base) if len(digits) < 80 else _WORD
        except ValueError:
            raise ValueError(f"expected a number, got '{word}'") from None
        if value >= _WORD:
            raise ValueError(f"'{word}' does not fit in 64 bits")
        return value

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError("the condition is nested too deeply")
