"""Functions of strings, and conversions between strings, numbers and booleans."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.types import BOOL, BYTES, DATE, FLOAT, INT, OBJECT, STR, TIMESTAMP
from dbsp.errors import EvaluationError, ValueOutOfRangeError, shorten
from dbsp.expressions.functions import Overload, convert, define, fits, overloads
from dbsp.expressions.nodes import Array, ExpressionNode, GiveUp, Operation, StrictNode, fold
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


def _substr(text: str, start: int, count: int) -> str:
    return text[start : start + count] if start >= 0 and count > 0 else ""


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of Python. Raises EvaluationError if it is not valid."""
    try:
        return re.compile(pattern)
    except re.error as error:
        reason = f"{shorten(pattern)} is not a regular expression ({error})"
        raise EvaluationError(reason, code="invalid-pattern") from None


def _matches(text: str, pattern: str) -> bool:
    return compiled(pattern).fullmatch(text) is not None


def _ord(interner: Interner, text: str) -> int:
    return interner.encode(text)


def _ord_vector(ids: Array) -> Array:
    return ids


def _cat(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not arguments or not all(fits(argument, STR) for argument in arguments):
        return None
    operands = [convert(argument, STR) for argument in arguments]
    return fold(StrictNode(STR, Operation(lambda *parts: "".join(parts)), operands))


define("cat", "cat expects strings", _cat)
define(
    "length",
    "length expects a string, bytes or a list",
    overloads(Overload((STR,), INT, Operation(len)), Overload((BYTES,), INT, Operation(len))),
)
define(
    "substr",
    "substr expects a string and two ints",
    overloads(Overload((STR, INT, INT), STR, Operation(_substr))),
)
define("upper", "upper expects a string", overloads(Overload((STR,), STR, Operation(str.upper))))
define("lower", "lower expects a string", overloads(Overload((STR,), STR, Operation(str.lower))))
define(
    "contains",
    "str.contains expects two strings; write x.contains(element) for an element of a list",
    overloads(Overload((STR, STR), BOOL, Operation(operator.contains))),
)
define(
    "startswith",
    "startswith expects two strings",
    overloads(Overload((STR, STR), BOOL, Operation(str.startswith))),
)
define(
    "endswith", "endswith expects two strings", overloads(Overload((STR, STR), BOOL, Operation(str.endswith)))
)
define(
    "matches",
    "matches expects a string and a pattern",
    overloads(Overload((STR, STR), BOOL, Operation(_matches, fallible=True))),
)
define(
    "ord",
    "ord expects a string",
    overloads(Overload((STR,), INT, Operation(_ord, _ord_vector, with_interner=True))),
)


# --- conversions ----------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[+-]?[0-9]+")
_OTHER_BASE = re.compile(r"([+-]?)0(x[0-9a-fA-F]+|b[01]+)")
_MOST_DIGITS = 4000  # Python refuses to read more digits, and such a number does not fit in 64 bits


def _to_number(text: str) -> int:
    if _DECIMAL.fullmatch(text):
        value = int(text) if len(text) <= _MOST_DIGITS else INT64_MAX + 2
    elif match := _OTHER_BASE.fullmatch(text):
        sign, digits = match.groups()
        value = int(digits[1:], 16 if digits[0] == "x" else 2)
        value = -value if sign == "-" else value
    else:
        raise EvaluationError("the string is not an integer", code="invalid-conversion")
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueOutOfRangeError("the result does not fit in 64 bits")
    return value


def _string_to_float(text: str) -> float:
    try:
        # `float` takes digits of all scripts and white space around them.
        if "_" in text or not text.isascii() or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise EvaluationError("the string is not a number", code="invalid-conversion") from None


def _float_to_int(value: float) -> int:
    if not math.isfinite(value):
        raise EvaluationError(f"{value} has no integer part", code="invalid-conversion")
    result = math.trunc(value)
    if not INT64_MIN <= result <= INT64_MAX:
        raise ValueOutOfRangeError("the result does not fit in 64 bits")
    return result


def _float_to_int_vector(values: Any) -> Array:
    if not ((values >= -(2.0**63)) & (values < 2.0**63)).all():
        raise GiveUp
    result: Array = values.astype(np.int64)
    return result


def _float_text(value: float) -> str:
    return repr(value + 0.0)  # -0.0 is the value 0.0


def _same(value: Any) -> Any:
    return value


_NUMBER = Overload((STR,), INT, Operation(_to_number, fallible=True))
define("to_number", "cast to int expects a string", overloads(_NUMBER))
define(
    "to_int",
    "cast to int expects a number, a boolean or a string",
    overloads(
        Overload((INT,), INT, Operation(_same, _same)),
        Overload((FLOAT,), INT, Operation(_float_to_int, _float_to_int_vector, fallible=True)),
        Overload((BOOL,), INT, Operation(int, lambda values: values.astype(np.int64))),
        _NUMBER,
    ),
)
define(
    "to_float",
    "cast to float expects a number, a boolean or a string",
    overloads(
        Overload((FLOAT,), FLOAT, Operation(_same, _same)),
        Overload((BOOL,), FLOAT, Operation(float, lambda values: values.astype(np.float64))),
        Overload((STR,), FLOAT, Operation(_string_to_float, fallible=True)),
    ),
)
define(
    "to_string",
    "cast to str expects a value that is not bytes",
    overloads(
        Overload((STR,), STR, Operation(_same, _same)),
        Overload((INT,), STR, Operation(str)),
        Overload((FLOAT,), STR, Operation(_float_text)),
        Overload((BOOL,), STR, Operation(str)),
        Overload((DATE,), STR, Operation(str)),
        Overload((TIMESTAMP,), STR, Operation(str)),
        Overload((OBJECT,), STR, Operation(str)),
    ),
)
