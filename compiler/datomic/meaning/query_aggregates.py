"""The aggregates of `:find`: functions of all values of a variable in a group.

A group has the rows that agree in all other elements of `:find`; its values repeat if the rows
differ in a variable of `:with`. No aggregate depends on the order of the values, so a live query
computes the same result after a retraction as it would from scratch. For that reason `rand` and
`sample` choose by a hash of the values, not by a random number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any

from dbsp.compiler.datomic.meaning.clojure_numbers import add, greatest, least
from dbsp.compiler.datomic.meaning.clojure_order import is_number, total_order, type_name
from dbsp.edn.edn_writer import display_text
from dbsp.errors import EvaluationError, shorten
from dbsp.lazy_dataclass import dataclass

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class QueryAggregate:
    """An aggregate; `evaluate` takes the list of values, then the arguments before the variable.

    `counts` are the numbers of arguments that it takes before the variable. `native` is true if
    the engine has the aggregate too, without arguments and for the kinds it knows.
    """

    name: str
    counts: frozenset[int]
    evaluate: Callable[..., Any]
    form: str
    native: bool = False


def count(values: Values) -> int:
    """Return the number of values."""
    return len(values)


def count_distinct(values: Values) -> int:
    """Return the number of different values."""
    return len(_distinct(values))


def distinct(values: Values) -> frozenset[Any]:
    """Return the set of the values; of 1 and 1.0, which are equal in Python, it has the int."""
    return frozenset(sorted(values, key=total_order))


def total(values: Values) -> Any:
    """Return the sum. A sum with floats is rounded once, so that no order of the values matters."""
    _check_numbers("sum", values)
    if any(isinstance(value, float) for value in values):
        special = _special_sum(values)
        return _rounded(_exact_sum(values)) if special is None else special
    return add(*sorted(values, key=total_order))


def average(values: Values) -> float:
    """Return the mean, a float."""
    return _mean("avg", values)


def minimum(values: Values, number: int | None = None) -> Any:
    """Return the least value, or a vector of the `number` least values in ascending order."""
    _check_order("min", least, values)
    ordered = sorted(values, key=total_order)
    return ordered[0] if number is None else tuple(ordered[: _number("min", number)])


def maximum(values: Values, number: int | None = None) -> Any:
    """Return the greatest value, or a vector of the `number` greatest in descending order."""
    _check_order("max", greatest, values)
    ordered = sorted(values, key=total_order, reverse=True)
    return ordered[0] if number is None else tuple(ordered[: _number("max", number)])


def median(values: Values) -> Any:
    """Return the middle value; the mean of the two middle values, a float, if there are two."""
    _check_numbers("median", values)
    ordered = sorted(values, key=total_order)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else _mean("median", ordered[middle - 1 : middle + 1])


def variance(values: Values) -> float:
    """Return the variance of the values as a population: the mean squared distance to the mean."""
    _check_numbers("variance", values)
    if _special_sum(values) is not None:
        return math.nan
    # n * (sum of the squares) - (sum)^2 is exact, so nothing cancels.
    count, squares = len(values), _exact_sum(values, 2)
    return _double("variance", (count * squares - _exact_sum(values) ** 2) / count**2)


def standard_deviation(values: Values) -> float:
    """Return the square root of the variance."""
    return math.sqrt(variance(values))


def chosen(values: Values, number: int | None = None) -> Any:
    """Return one of the values, or a vector of `number` values, which may repeat."""
    ordered = sorted(values, key=total_order)
    picks = 1 if number is None else _number("rand", number)
    found = [ordered[_hash((pick, len(ordered))) % len(ordered)] for pick in range(picks)]
    return found[0] if number is None else tuple(found)


def sample(values: Values, number: int) -> tuple[Any, ...]:
    """Return a vector of `number` different values, or of all if there are fewer.

    Those with the least hashes: a change of one value changes at most one value of the sample.
    """
    by_hash = sorted(_distinct(values), key=lambda value: (_hash(value), total_order(value)))
    return tuple(by_hash[: _number("sample", number)])


def _distinct(values: Values) -> list[Any]:
    found: list[Any] = []
    for value in sorted(values, key=total_order):
        if not found or total_order(found[-1]) != total_order(value):
            found.append(value)
    return found


def _hash(value: Any) -> int:
    return int.from_bytes(sha256(display_text(value).encode()).digest()[:8])


def _exact_sum(values: Values, power: int = 1) -> Fraction:
    """Return the sum of the values to this power.

    The numerators are added by denominators: floats have few, which are powers of two. So a value
    takes a twentieth of the time of adding two fractions.
    """
    numerators: defaultdict[int, int] = defaultdict(int)
    for value in values:
        numerator, denominator = value.as_integer_ratio()
        numerators[denominator] += numerator if power == 1 else numerator**power
    fractions = (Fraction(total, denominator**power) for denominator, total in numerators.items())
    return sum(fractions, Fraction(0))


def _mean(name: str, values: Values) -> float:
    _check_numbers(name, values)
    special = _special_sum(values)
    return _double(name, _exact_sum(values) / len(values)) if special is None else special


def _special_sum(values: Values) -> float | None:
    """The sum of the infinite and NaN values, as IEEE 754 adds them; None if there are none."""
    special = [value for value in values if isinstance(value, float | Decimal) and not _is_finite(value)]
    return float(sum(map(float, special))) if special else None


def _is_finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def _rounded(exact: Fraction) -> float:
    """Return the nearest double, which is an infinity beyond the range, as IEEE 754 says."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _double(name: str, exact: Fraction) -> float:
    value = _rounded(exact)
    if math.isinf(value):
        message = f"{name}: the result is beyond the range of a double"
        raise EvaluationError(message, code="value-out-of-range")
    return value


def _check_numbers(name: str, values: Values) -> None:
    for value in values:
        if not is_number(value):
            message = f"{name}: expected a number, got {shorten(value)} of type {type_name(value)}"
            raise EvaluationError(message, code="wrong-value-type")


def _check_order(name: str, extreme: Callable[..., Any], values: Values) -> None:
    try:
        extreme(*values)
    except EvaluationError as error:
        raise EvaluationError(f"{name}: {error.message}", code=error.code) from None


def _number(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise EvaluationError(
            f"{name}: expected a number of values, 0 or more, got {shorten(number)}",
            code="wrong-value-type",
        )
    return number


_NONE, _ONE, _BOTH = frozenset({0}), frozenset({1}), frozenset({0, 1})

AGGREGATES: Mapping[str, QueryAggregate] = {
    found.name: found
    for found in (
        QueryAggregate("count", _NONE, count, "(count ?x)", True),
        QueryAggregate("count-distinct", _NONE, count_distinct, "(count-distinct ?x)"),
        QueryAggregate("distinct", _NONE, distinct, "(distinct ?x)"),
        QueryAggregate("sum", _NONE, total, "(sum ?x)", True),
        QueryAggregate("avg", _NONE, average, "(avg ?x)"),
        QueryAggregate("median", _NONE, median, "(median ?x)"),
        QueryAggregate("variance", _NONE, variance, "(variance ?x)"),
        QueryAggregate("stddev", _NONE, standard_deviation, "(stddev ?x)"),
        QueryAggregate("min", _BOTH, minimum, "(min ?x) or (min n ?x)", True),
        QueryAggregate("max", _BOTH, maximum, "(max ?x) or (max n ?x)", True),
        QueryAggregate("rand", _BOTH, chosen, "(rand ?x) or (rand n ?x)"),
        QueryAggregate("sample", _ONE, sample, "(sample n ?x)"),
    )
}


def user_aggregate(name: str, function: Callable[..., Any]) -> QueryAggregate:
    """Return the aggregate that calls a Python function on the sorted list of values.

    Arguments before the variable come first, as in Clojure: `(my/top 3 ?x)` calls `f(3, values)`.
    """

    def evaluate(values: Values, *arguments: Any) -> Any:
        return function(*arguments, sorted(values, key=total_order))

    evaluate.__name__ = evaluate.__qualname__ = name
    return QueryAggregate(name, frozenset(range(10)), evaluate, f"({name} ?x)")


def known_aggregates(user: Iterable[str] = ()) -> list[str]:
    """Return the names of all aggregates, for hints."""
    return sorted({*AGGREGATES, *user})
