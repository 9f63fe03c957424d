"""A second implementation of expressions, row by row in plain Python, as a reference."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dbsp.compiler.datalog.meaning.wrapping  # noqa: F401  (defines the functions of 32-bit words)
from dbsp.circuit.named_parts import parts_of
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import DbspError, EvaluationError, ValueOutOfRangeError
from dbsp.expressions import Call, Column, Expression, Literal, bind
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

SCHEMA = Schema.of(
    i=int, j=int, f=float, s=str, t=str, b=bool, oi=int | None, os=str | None, of=float | None, ob=bool | None
)
ROW = (3, -2, 2.5, "aB", "1", True, None, None, None, None)


class NoValue(Exception):
    """The row has no result; the argument is the error the engine must raise."""


def fit(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise NoValue(ValueOutOfRangeError)
    return value


def divide(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, b: Any) -> Any:
        if b == 0:
            raise NoValue(EvaluationError)
        if isinstance(a, int):
            return fit(f(a, b))
        try:
            return f(a, b)
        except (ValueError, OverflowError):
            return math.nan

    return checked


def trunc_div(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    quotient = a / b
    return float(math.trunc(quotient)) if math.isfinite(quotient) else quotient


def power(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        if b < 0:
            raise NoValue(EvaluationError)
        if b > 200 and abs(a) > 1:
            raise NoValue(ValueOutOfRangeError)
        return fit(a**b)
    try:
        result = a**b
    except ZeroDivisionError:
        raise NoValue(EvaluationError) from None
    except OverflowError:
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
    if isinstance(result, complex):
        raise NoValue(EvaluationError)
    return result


def number(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise NoValue(EvaluationError)
    return fit(int(text))


def whole(value: Any) -> int:
    if isinstance(value, str):
        return number(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValue(EvaluationError)
    return fit(int(value))


def real(value: Any) -> float:
    if isinstance(value, str):
        if value != value.strip():
            raise NoValue(EvaluationError)
        try:
            return float(value)
        except ValueError:
            raise NoValue(EvaluationError) from None
    return float(value)


def order(value: Any) -> Any:
    """NaN equals itself and comes last."""
    return (value != value, 0 if value != value else value) if isinstance(value, float) else value


def wrap(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def word(a: int) -> int:
    return (a + 2**31) % 2**32 - 2**31


def c_power(a: int, b: int) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) ** np.float64(b))


def converted(value: float) -> int:
    """A float as an int of 32 bits, as x86-64 converts it."""
    fits = math.isfinite(value) and word(math.trunc(value)) == math.trunc(value)
    return math.trunc(value) if fits else -(2**31)


def converted_unsigned(value: float) -> int:
    fits = math.isfinite(value) and wrap(math.trunc(value)) == math.trunc(value)
    return math.trunc(value) % 2**32 if fits else 0


def add(a: Any, b: Any) -> Any:
    return fit(a + b) if isinstance(a, int) else a + b


STRICT: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": lambda a, b: fit(a - b) if isinstance(a, int) else a - b,
    "mul": lambda a, b: fit(a * b) if isinstance(a, int) else a * b,
    "truediv": lambda a, b: divide(operator.truediv)(float(a), float(b)),
    "floordiv": divide(operator.floordiv),
    "mod": divide(operator.mod),
    "truncdiv": divide(trunc_div),
    "truncmod": divide(lambda a, b: c_remainder(a, b)),
    "pow": power,
    "neg": lambda a: fit(-a) if isinstance(a, int) else -a,
    "abs": lambda a: fit(abs(a)) if isinstance(a, int) else abs(a),
    "eq": lambda a, b: order(a) == order(b),
    "ne": lambda a, b: order(a) != order(b),
    "lt": lambda a, b: order(a) < order(b),
    "le": lambda a, b: order(a) <= order(b),
    "gt": lambda a, b: order(a) > order(b),
    "ge": lambda a, b: order(a) >= order(b),
    "min_of": lambda *values: min(values, key=order),
    "max_of": lambda *values: max(values, key=order),
    "not": operator.not_,
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "bnot": operator.invert,
    "shl": lambda a, n: wrap(a << (n % 64)),
    "shr": lambda a, n: a >> (n % 64),
    "shr_unsigned": lambda a, n: wrap((a % 2**64) >> (n % 64)),
    "wrap_int32": lambda a: word(a),
    "wrap_unsigned32": lambda a: a % 2**32,
    "multiply_bits": lambda a, b: wrap(a * b),
    "power_int32": lambda a, b: converted(c_power(a, b)),
    "power_unsigned32": lambda a, b: converted_unsigned(c_power(a, b)),
    "convert_int32": lambda a: converted(a),
    "convert_unsigned32": lambda a: converted_unsigned(a),
    "fit_int32": lambda a: a if word(a) == a else fit(2**64),
    "fit_unsigned32": lambda a: a if a % 2**32 == a else fit(2**64),
    "cat": lambda *parts: "".join(parts),
    "length": len,
    "substr": lambda s, start, n: s[start : start + n] if start >= 0 and n > 0 else "",
    "upper": str.upper,
    "lower": str.lower,
    "contains": lambda s, part: part in s,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "matches": lambda s, pattern: re.fullmatch(pattern, s) is not None,
    "to_string": lambda a: repr(a + 0.0) if isinstance(a, float) else str(a),
    "to_number": number,
    "to_int": whole,
    "to_float": real,
}


def c_remainder(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return a - trunc_div(a, b) * b
    return math.fmod(a, b)


def reference(expression: Expression, row: dict[str, Any]) -> Any:
    """The value of an expression, or NoValue."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    name, arguments = expression.function, expression.arguments
    if name in ("and", "or"):
        decider = name == "or"
        a = reference(arguments[0], row)
        if a is decider:
            return decider
        b = reference(arguments[1], row)
        return b if b is decider or a is not None else None
    if name == "when":
        chosen = arguments[1] if reference(arguments[0], row) is True else arguments[2]
        return to_type(arguments[1:], reference(chosen, row))
    if name == "is_null":
        return reference(arguments[0], row) is None
    if name == "fill_null":
        a = reference(arguments[0], row)
        return to_type(arguments, reference(arguments[1], row) if a is None else a)
    values = [reference(argument, row) for argument in arguments]
    if any(value is None for value in values):
        return None
    if not name.startswith("to_"):
        values = [to_type(arguments, value) for value in values]
    return STRICT[name](*values)


def to_type(arguments: tuple[Expression, ...], value: Any) -> Any:
    """An int beside a float becomes one."""
    if type(value) is int and any(bind(argument, SCHEMA).type.kind == "float" for argument in arguments):
        return float(value)
    return value


def outcome(expression: Expression, row: tuple[Any, ...]) -> Any:
    """The reference's value or error, as it would be seen in the result column."""
    try:
        value = reference(expression, dict(zip(SCHEMA.names, row, strict=True)))
    except NoValue as no_value:
        return no_value.args[0]
    if type(value) is int and value == INT64_MIN and bind(expression, SCHEMA).type.nullable:
        return ValueOutOfRangeError
    return value


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def check(expression: Expression, rows: list[tuple[Any, ...]]) -> None:
    """Compare with the reference: each row alone, and all rows at once, few and many."""
    bound = bind(expression, SCHEMA)
    interner = Interner()
    interner.encode("an id that is not 0")
    codes = SCHEMA.encode_rows(rows, interner)
    result = Schema(("result",), (bound.type,))
    expected = [outcome(expression, row) for row in rows]

    def run(chosen: Any) -> list[Any]:
        evaluated = bound.evaluate(np.ascontiguousarray(chosen), interner)
        assert evaluated.dtype == np.int64 and evaluated.shape == (len(chosen),)
        return [value for (value,) in result.decode_rows(evaluated.reshape(-1, 1), interner)]

    good = []
    for i, value in enumerate(expected):
        if isinstance(value, type):
            for copies in (1, 20):  # few rows and many
                with pytest.raises(value) as error:
                    run(np.repeat(codes[i : i + 1], copies, axis=0))
                calls = [part for part in parts_of(expression) if isinstance(part, Call)]
                assert any(f": {part!r}" in error.value.message for part in calls)
        else:
            good.append(i)
            assert same(run(codes[i : i + 1])[0], value)
    if good:
        many = good * (20 // len(good) + 1)
        assert all(map(same, run(codes[many]), [expected[i] for i in many]))
        if len(good) < len(expected):
            with pytest.raises(DbspError):
                run(codes[[*many, *(i for i in range(len(rows)) if i not in good)]])


def values_of(expression: Expression, schema: Schema, rows: list[tuple[Any, ...]]) -> list[Any]:
    interner = Interner()
    bound = bind(expression, schema)
    codes = bound.evaluate(schema.encode_rows(rows, interner), interner)
    return [value for (value,) in Schema(("r",), (bound.type,)).decode_rows(codes.reshape(-1, 1), interner)]
