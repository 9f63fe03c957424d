"""The `repr` of expressions, as a user would type them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.data.types import Type
from dbsp.errors import full_repr
from dbsp.expressions.casts import cast_text
from dbsp.lazy_dataclass import dataclass

# Symbol and precedence, as in Python: & and | bind tighter than comparisons.
_INFIX = {
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
    "truediv": ("/", 7),
    "floordiv": ("//", 7),
    "mod": ("%", 7),
    "pow": ("**", 9),
    "and": ("&", 4),
    "or": ("|", 3),
    "eq": ("==", 2),
    "ne": ("!=", 2),
    "lt": ("<", 2),
    "le": ("<=", 2),
    "gt": (">", 2),
    "ge": (">=", 2),
}
_PREFIX = {"neg": ("-", 8), "not": ("~", 8)}
_STRING_METHODS = (
    "substr",
    "upper",
    "lower",
    "title",
    "contains",
    "startswith",
    "endswith",
    "matches",
    "ord",
    "strip",
    "lstrip",
    "rstrip",
    "replace",
    "replace_pattern",
    "split",
    "extract",
    "pad_start",
    "pad_end",
)
_TIME_METHODS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "ordinal_day",
    "weekday",
    "hour",
    "minute",
    "second",
    "microsecond",
    "truncate",
    "strftime",
    "in_zone",
    "from_zone",
    "total_seconds",
    "total_microseconds",
)
_NAMESPACES = {**dict.fromkeys(_STRING_METHODS, "str"), **dict.fromkeys(_TIME_METHODS, "dt")}
"""The namespace of the methods that are not methods of the expression itself."""

_FUNCTIONS = frozenset({"cat", "min_of", "max_of", "construct", "nil"})
ATOM = 10
"""The precedence of names, constants and calls, which never need parentheses."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The text of an expression within a call, and the precedence of its outermost operator."""

    text: str
    strength: int = ATOM
    constant: str | None = None
    """The text of a constant on the left of an operator or a dot, where it needs `lit`."""

    def within(self, strength: int) -> str:
        """Return the text, in parentheses if its precedence is lower."""
        return self.text if self.strength >= strength else f"({self.text})"

    @property
    def receiver(self) -> str:
        """The text before a method's dot, or as a left operand."""
        return self.within(ATOM) if self.constant is None else self.constant


def literal_operand(value: Any, type_: Type | None) -> Operand:
    """Return the operand of a constant."""
    if type_ is not None:
        text = f"lit({full_repr(value)}, {type_!r})"
        return Operand(text, constant=text)
    negative = isinstance(value, (int, float)) and not value >= 0  # written with a prefix
    text = full_repr(value)
    return Operand(text, _PREFIX["neg"][1] if negative else ATOM, f"lit({text})")


def call_strength(function: str) -> int:
    """Return the precedence of a call of this function."""
    operator = _INFIX.get(function) or _PREFIX.get(function)
    return operator[1] if operator else ATOM


def call_text(function: str, operands: Sequence[Operand]) -> str:
    """Return the text of a call."""
    if function in _INFIX:
        symbol, strength = _INFIX[function]
        left, right = operands
        # Equal precedence groups to the left (to the right for **); comparisons never chain.
        tight_left = strength + 1 if function == "pow" or strength == 2 else strength
        tight_right = strength if function == "pow" else strength + 1
        # Python computes `1 + 2` itself, and swaps the sides of `0 < col("x")`.
        needs_lit = left.constant is not None and (right.constant is not None or strength == 2)
        start = left.receiver if needs_lit else left.within(tight_left)
        return f"{start} {symbol} {right.within(tight_right)}"
    if function in _PREFIX:
        symbol, strength = _PREFIX[function]
        operand = operands[0]
        return f"{symbol}{operand.within(strength) if operand.constant is None else operand.constant}"
    texts = [operand.text for operand in operands]
    if function == "when":
        return f"when({texts[0]}).then({texts[1]}).otherwise({texts[2]})"
    if function == "abs":
        return f"abs({texts[0] if operands[0].constant is None else operands[0].constant})"
    if function == "isin":
        return f"{operands[0].receiver}.isin([{', '.join(texts[1:])}])"
    if function in _FUNCTIONS or function.startswith("@"):
        return f"{function}({', '.join(texts)})"
    name = "contains" if function == "contains_element" else function
    method = cast_text(function, texts[1:]) or f"{name}({', '.join(texts[1:])})"
    namespace = f"{_NAMESPACES[function]}." if function in _NAMESPACES else ""
    return f"{operands[0].receiver}.{namespace}{method}"


def aggregate_text(function: str, operands: Sequence[Operand], options: Sequence[tuple[str, Any]]) -> str:
    """Return the text of an aggregate: a method of its first operand, or a function without one."""
    given = [f"{name}={full_repr(value)}" for name, value in options if value is not False]
    texts = [operand.text for operand in operands]
    if function == "fold" or not operands:
        return f"{function}({', '.join([*texts, *given])})"
    order = [f"by={text}" for text in texts[1:]]
    return f"{operands[0].receiver}.{function}({', '.join([*order, *given])})"
