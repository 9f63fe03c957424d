"""How calls are written: the `repr` of expressions, as one would type them."""

from __future__ import annotations

from dbsp.expressions.expression import Call, Expression, Literal

# Symbol and binding strength, as in Python: & and | bind tighter than comparisons.
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
_FUNCTIONS = frozenset({"cat", "min_of", "max_of", "construct", "nil"})
_ATOM = 10


def _strength(expression: Expression) -> int:
    if (
        isinstance(expression, Literal)
        and isinstance(expression.value, (int, float))
        and expression.type is None
    ):
        return _ATOM if expression.value >= 0 else 8  # a negative number is written with a prefix
    if not isinstance(expression, Call):
        return _ATOM
    found = _INFIX.get(expression.function) or _PREFIX.get(expression.function)
    return found[1] if found else _ATOM


def _within(expression: Expression, strength: int) -> str:
    return repr(expression) if _strength(expression) >= strength else f"({expression!r})"


def _receiver(expression: Expression) -> str:
    """What stands before a method's dot or as a left operand: constants then need `lit`."""
    return (
        f"lit({expression.value!r})"
        if isinstance(expression, Literal) and expression.type is None
        else _within(expression, _ATOM)
    )


def notation(call: Call) -> str:
    """The text of a call."""
    name, arguments = call.function, call.arguments
    if name in _INFIX:
        symbol, strength = _INFIX[name]
        left, right = arguments
        # Equal strength groups to the left (to the right for **); comparisons never chain.
        tight_left = strength + 1 if name == "pow" or strength == 2 else strength
        tight_right = strength if name == "pow" else strength + 1
        # Python works out `1 + 2` itself, and turns `0 < col("x")` round.
        spelled = isinstance(left, Literal) and (isinstance(right, Literal) or strength == 2)
        start = _receiver(left) if spelled else _within(left, tight_left)
        return f"{start} {symbol} {_within(right, tight_right)}"
    if name in _PREFIX:
        symbol, strength = _PREFIX[name]
        operand = arguments[0]
        return f"{symbol}{_receiver(operand) if isinstance(operand, Literal) else _within(operand, strength)}"
    if name == "when":
        condition, chosen, other = arguments
        return f"when({condition!r}).then({chosen!r}).otherwise({other!r})"
    if name == "abs":
        operand = arguments[0]
        return f"abs({_receiver(operand) if isinstance(operand, Literal) else repr(operand)})"
    if name in _FUNCTIONS or name.startswith("@"):
        return f"{name}({', '.join(map(repr, arguments))})"
    return f"{_receiver(arguments[0])}.{name}({', '.join(map(repr, arguments[1:]))})"
