"""A slow and simple model of the engine: Z-sets are dictionaries, operators are loops.

Nothing here is incremental. Every function takes whole Z-sets `{row: weight}` and returns a new one
without zero weights. The tests compare the sum of the output deltas of the engine with these
functions of the sum of its input deltas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = tuple[Any, ...]
Z = dict[Row, int]


# --- the group ------------------------------------------------------------------------------------


def consolidate(pairs: Iterable[tuple[Row, int]]) -> Z:
    """Return the Z-set of (row, weight) pairs in any order, with repetitions."""
    total: dict[Row, int] = defaultdict(int)
    for row, weight in pairs:
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight != 0}


def add(*zsets: Mapping[Row, int]) -> Z:
    return consolidate(pair for zset in zsets for pair in zset.items())


def scale(factor: int, zset: Mapping[Row, int]) -> Z:
    return consolidate((row, factor * weight) for row, weight in zset.items())


def negate(zset: Mapping[Row, int]) -> Z:
    return scale(-1, zset)


def minus(a: Mapping[Row, int], b: Mapping[Row, int]) -> Z:
    return add(a, negate(b))


# --- operators ------------------------------------------------------------------------------------


def distinct(zset: Mapping[Row, int]) -> Z:
    return {row: 1 for row, weight in zset.items() if weight > 0}


def select(zset: Mapping[Row, int], predicate: Callable[[Row], Any]) -> Z:
    return {row: weight for row, weight in zset.items() if predicate(row)}


def map_rows(zset: Mapping[Row, int], function: Callable[[Row], Row]) -> Z:
    return consolidate((function(row), weight) for row, weight in zset.items())


def flat_map(zset: Mapping[Row, int], function: Callable[[Row], Iterable[Row]]) -> Z:
    return consolidate((result, weight) for row, weight in zset.items() for result in function(row))


def project(zset: Mapping[Row, int], columns: Sequence[int]) -> Z:
    return map_rows(zset, lambda row: pick(row, columns))


def join(
    a: Mapping[Row, int],
    b: Mapping[Row, int],
    on: Sequence[tuple[int, int]],
    columns: Sequence[tuple[int, int]],
) -> Z:
    """Join rows that agree on `on`; output column (0, i) is column i of a, (1, i) column i of b."""
    pairs = []
    for left, w in a.items():
        for right, v in b.items():
            if all(left[i] == right[j] for i, j in on):
                pairs.append((tuple((left, right)[side][column] for side, column in columns), w * v))
    return consolidate(pairs)


def semijoin(a: Mapping[Row, int], b: Mapping[Row, int], on: Sequence[tuple[int, int]]) -> Z:
    """Return the rows of a whose key in b has a positive sum of weights."""
    keys = distinct(project(b, [j for _, j in on]))
    return {row: weight for row, weight in a.items() if pick(row, [i for i, _ in on]) in keys}


def antijoin(a: Mapping[Row, int], b: Mapping[Row, int], on: Sequence[tuple[int, int]]) -> Z:
    return minus(a, semijoin(a, b, on))


# --- aggregates -----------------------------------------------------------------------------------


def count(group: Mapping[Any, int]) -> int:
    return sum(group.values())


def total(group: Mapping[Any, int]) -> Any:
    """Return the weighted sum; None if the weights of the values that are not None sum to 0."""
    if not count(_values(group)):
        return None
    return sum(weight * value for value, weight in _values(group).items())


def mean(group: Mapping[Any, int]) -> float | None:
    values = count(_values(group))
    return None if values == 0 else total(group) / values


def least(group: Mapping[Any, int]) -> Any:
    return min((value for value, weight in _values(group).items() if weight > 0), default=None)


def largest(group: Mapping[Any, int]) -> Any:
    return max((value for value, weight in _values(group).items() if weight > 0), default=None)


def _values(group: Mapping[Any, int]) -> dict[Any, int]:
    return {value: weight for value, weight in group.items() if value is not None}


def aggregate(
    zset: Mapping[Row, int],
    key: Sequence[int],
    functions: Sequence[tuple[Callable[[Mapping[Any, int]], Any], int | None]],
) -> Z:
    """Return one row per group with a positive sum of weights.

    A function gets `{value: weight}` of its column (of whole rows for None), without zero weights.
    """
    groups: dict[Row, Z] = defaultdict(dict)
    for row, weight in zset.items():
        groups[pick(row, key)][row] = weight
    result: Z = {}
    for k, rows in groups.items():
        if sum(rows.values()) > 0:
            results = []
            for function, column in functions:
                values = consolidate(
                    (row if column is None else (row[column],), w) for row, w in rows.items()
                )
                results.append(function(values if column is None else {v: w for (v,), w in values.items()}))
            result[(*k, *results)] = 1
    return result


# --- recursion ------------------------------------------------------------------------------------


class NoFixpoint(Exception):
    """The iteration did not converge within its limit."""


def fixpoint(
    body: Callable[[dict[str, Z]], dict[str, Z]], names: Iterable[str], cap: int = 200
) -> dict[str, Z]:
    """Iterate X[0] = 0, X[i + 1] = body(X[i]) until nothing changes."""
    current: dict[str, Z] = {name: {} for name in names}
    for _ in range(cap):
        following = body(current)
        if following == current:
            return current
        current = following
    raise NoFixpoint(f"no fixpoint after {cap} iterations")


def pick(row: Row, columns: Sequence[int]) -> Row:
    return tuple(row[column] for column in columns)
