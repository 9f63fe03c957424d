"""The functions, predicates and aggregates of queries, one after the other from Clojure's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dbsp.edn import Keyword, Symbol

from .identity import compare, identity, order, same

Row = tuple[Any, ...]


def chain(holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """A comparison of any number of values: it holds between neighbours."""
    return lambda *values: all(holds(left, right) for left, right in pairwise(values))


def divided(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        exact = Fraction(left, right)
        return exact.numerator if exact.denominator == 1 else exact
    return left / right


def quotient(left: Any, right: Any) -> Any:
    exact = math.trunc(Fraction(left) / Fraction(right))
    return exact if isinstance(left, int) and isinstance(right, int) else float(exact)


def folded(step: Callable[[Any, Any], Any], start: Any) -> Callable[..., Any]:
    """`+` or `*`: of no value, `start`."""

    def function(*values: Any) -> Any:
        total = values[0] if values else start
        for value in values[1:]:
            total = step(total, value)
        return total

    return function


def minus(first: Any, *rest: Any) -> Any:
    if not rest:
        return -first
    for value in rest:
        first = first - value
    return first


def over(first: Any, *rest: Any) -> Any:
    if not rest:
        return divided(1, first)
    for value in rest:
        first = divided(first, value)
    return first


def text(value: Any) -> str:
    """`str` of one value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def found(match: re.Match[str] | None) -> Any:
    if match is None:
        return None
    return (match.group(), *match.groups()) if match.groups() else match.group()


def looked_up(container: Any, key: Any, default: Any = None) -> Any:
    if isinstance(container, Mapping):
        return next((item for name, item in container.items() if same(name, key)), default)
    if isinstance(container, (tuple, list)):
        return container[key] if 0 <= key < len(container) else default
    return default


def contained(container: Any, key: Any) -> bool:
    if isinstance(container, (tuple, list)):
        return 0 <= key < len(container)
    return any(same(item, key) for item in container)


def hash_map(*items: Any) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def differ(*values: Any) -> bool:
    half = len(values) // 2
    return identity(values[:half]) != identity(values[half:])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "=": chain(same),
    "==": chain(lambda left, right: compare(left, right) == 0),
    "not=": lambda *values: not chain(same)(*values),
    "!=": lambda *values: not chain(same)(*values),
    "<": chain(lambda left, right: compare(left, right) < 0),
    "<=": chain(lambda left, right: compare(left, right) <= 0),
    ">": chain(lambda left, right: compare(left, right) > 0),
    ">=": chain(lambda left, right: compare(left, right) >= 0),
    "compare": compare,
    "+": folded(lambda left, right: left + right, 0),
    "*": folded(lambda left, right: left * right, 1),
    "-": minus,
    "/": over,
    "quot": quotient,
    "rem": lambda left, right: left - right * quotient(left, right),
    "mod": lambda left, right: left % right,
    "inc": lambda value: value + 1,
    "dec": lambda value: value - 1,
    "max": lambda *values: max(values, key=order),
    "min": lambda *values: min(values, key=order),
    "zero?": lambda value: value == 0,
    "pos?": lambda value: value > 0,
    "neg?": lambda value: value < 0,
    "even?": lambda value: value % 2 == 0,
    "odd?": lambda value: value % 2 == 1,
    "true?": lambda value: value is True,
    "false?": lambda value: value is False,
    "nil?": lambda value: value is None,
    "some?": lambda value: value is not None,
    "not": lambda value: value is None or value is False,
    "identity": lambda value: value,
    "ground": lambda value: value,
    "untuple": lambda value: value,
    "tuple": lambda *values: values,
    "vector": lambda *values: values,
    "list": lambda *values: values,
    "hash-map": hash_map,
    "keyword": lambda *parts: Keyword("/".join(parts)),
    "name": lambda value: (
        value if isinstance(value, str) and not isinstance(value, (Keyword, Symbol)) else value.name
    ),
    "namespace": lambda value: value.namespace,
    "count": len,
    "range": lambda *bounds: tuple(range(*bounds)),
    "empty?": lambda value: not value,
    "not-empty": lambda value: value or None,
    "contains?": contained,
    "get": looked_up,
    "str": lambda *values: "".join(map(text, values)),
    "subs": lambda value, *bounds: value[slice(*bounds) if len(bounds) > 1 else slice(bounds[0], None)],
    "re-pattern": re.compile,
    "re-find": lambda pattern, value: found(re.search(pattern, value)),
    "re-matches": lambda pattern, value: found(re.fullmatch(pattern, value)),
    "-differ?": differ,
    "clojure.string/starts-with?": lambda value, part: value.startswith(part),
    "clojure.string/ends-with?": lambda value, part: value.endswith(part),
    "clojure.string/includes?": lambda value, part: part in value,
    "clojure.string/blank?": lambda value: not value or value.isspace(),
    "clojure.string/upper-case": lambda value: value.upper(),
    "clojure.string/lower-case": lambda value: value.lower(),
}


# --- aggregates of the values of one group, at least one ----------------------------------------


def distinct(values: Sequence[Any]) -> list[Any]:
    return list({identity(value): value for value in values}.values())


def mean(values: Sequence[Any]) -> float:
    return float(sum(map(Fraction, values)) / len(values))


def median(values: Sequence[Any]) -> Any:
    ordered = sorted(values, key=order)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return mean(ordered[middle - 1 : middle + 1])


def variance(values: Sequence[Any]) -> float:
    center = sum(map(Fraction, values)) / len(values)
    return float(sum((Fraction(value) - center) ** 2 for value in values) / len(values))


AGGREGATES: dict[str, Callable[..., Any]] = {
    "count": len,
    "count-distinct": lambda values: len(distinct(values)),
    "sum": lambda values: folded(lambda left, right: left + right, 0)(*values),
    "avg": mean,
    "median": median,
    "variance": variance,
    "stddev": lambda values: math.sqrt(variance(values)),
    "distinct": lambda values: frozenset(distinct(values)),
}


def smallest(count: int, values: Sequence[Any]) -> Row:
    return tuple(sorted(values, key=order)[:count])


def largest(count: int, values: Sequence[Any]) -> Row:
    return tuple(sorted(values, key=order, reverse=True)[:count])


def aggregate(name: str, arguments: Sequence[Any], values: Sequence[Any]) -> Any:
    if name == "min":
        return smallest(*arguments, values) if arguments else min(values, key=order)
    if name == "max":
        return largest(*arguments, values) if arguments else max(values, key=order)
    return AGGREGATES[name](*arguments, values)
