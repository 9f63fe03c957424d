"""Count the values that would be demanded of recursive relations, for the rows of the inputs.

A derivation on demand pays if few values are demanded: it then derives the rows of these values
only. If most are demanded, or if values demand only a few others, the demand is an additional cost
of up to 0.7 times the rest. So the search gives up as soon as it has found `SHARE` of the values.
Cost: a sort of each input column that the search looks up, unless the values of the uses alone are
too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from dbsp.compiler.datalog.rewrites.choose_demand import DemandSearch, DemandStep, InputColumn
from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.statistics import Statistics

SHARE = 0.1
"""The largest part of the values to demand, and of the rows with these values."""
LEAST_ROWS = 500
"""The number of rows below which a relation is derived in full: there is little to gain."""
SAMPLE = 32
"""The number of values to sample for each rule without recursion."""
DEEP = 8
"""The mean number of values that a sampled value must demand, if values demand others."""
LEVELS = 200
"""The length of the longest chain of demanded values that the search follows."""


def why_few_keys(search: DemandSearch, counted: Statistics) -> str | None:
    """Return why on-demand derivation pays; an empty text if not, None if rows are unknown."""
    read = {column.relation for _, column in (*search.seeds, *search.bases)}
    read.update(step.given.relation for step in search.steps if step.given is not None)
    if not all(map(counted.knows, read)):
        return None
    total = sum(len(counted.codes(column.relation)) for _, column in search.bases)
    limit = int(total * SHARE)
    if total < LEAST_ROWS or any(len(_rows(column, counted)) > limit for _, column in search.seeds):
        return ""
    lookups = {
        step: _Lookup(step.given, counted, step.found) for step in search.steps if step.given is not None
    }
    keys = _demanded(search, lookups, _uses(search, counted), limit)
    if keys is None or (search.steps and _is_flat(search, counted, lookups)):
        return ""
    rows = sum(_count(_rows(column, counted)[:, column.column], keys[name]) for name, column in search.bases)
    demanded = sum(map(len, keys.values()))
    if rows > limit or not demanded:  # without any use, nothing is known about later ones
        return ""
    return f"{demanded:,} of the values in {total:,} rows are demanded"


def _uses(search: DemandSearch, counted: Statistics) -> dict[str, list[Codes]]:
    """Return the values that other relations demand."""
    found: dict[str, list[Codes]] = {name: [] for name in search.columns}
    for name, column in search.seeds:
        found[name].append(_rows(column, counted)[:, column.column])
    for name, base in search.bases:
        for user, constant in search.constants:
            code = counted.code(base.relation, base.column, constant.value) if user == name else None
            if code is not None:
                found[name].append(np.array([code], np.int64))
    return found


def _is_flat(search: DemandSearch, counted: Statistics, lookups: Lookups) -> bool:
    """Whether a sample of values demands only a few others: the recursion then derives few rows."""
    found: dict[str, list[Codes]] = {name: [] for name in search.columns}
    for name, base in search.bases:
        values = _rows(base, counted)[:, base.column]
        found[name].append(values[:: max(1, len(values) // SAMPLE)])
    return _demanded(search, lookups, found, SAMPLE * DEEP * len(search.bases)) is not None


def _demanded(
    search: DemandSearch, lookups: Lookups, found: dict[str, list[Codes]], limit: int
) -> dict[str, Codes] | None:
    """Return these values and all that they demand; None if they are more than the limit."""
    nothing = np.zeros(0, np.int64)
    known = dict.fromkeys(search.columns, nothing)
    for _ in range(LEVELS):
        new = {name: np.setdiff1d(np.concatenate([nothing, *found[name]]), known[name]) for name in known}
        known = {name: np.union1d(known[name], new[name]) for name in known}
        if sum(map(len, known.values())) > limit:
            return None
        if not any(map(len, new.values())):
            return known
        found = {name: [] for name in known}
        for step in search.steps:
            values = new[step.user]
            if step.given is not None:
                lookup = lookups[step]
                if lookup.count(values) > limit:
                    return None
                values = lookup.values(values)
            found[step.used].append(values)
    return None


class _Lookup:
    """The rows of an input by the values of a column."""

    def __init__(self, column: InputColumn, counted: Statistics, found: int) -> None:
        rows = _rows(column, counted)
        order = np.argsort(rows[:, column.column], kind="stable")
        self._keys = rows[order, column.column]
        self._found = rows[order, found]

    def _ranges(self, values: Codes) -> tuple[Codes, Codes]:
        start = np.searchsorted(self._keys, values, "left")
        return start, np.searchsorted(self._keys, values, "right") - start

    def count(self, values: Codes) -> int:
        """Return the number of rows with these values."""
        return int(self._ranges(values)[1].sum())

    def values(self, values: Codes) -> Codes:
        """Return the values of the other column in the rows with these values."""
        start, number = self._ranges(values)
        offsets = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        found: Codes = self._found[np.repeat(start, number) + offsets]
        return found


Lookups: TypeAlias = Mapping[DemandStep, _Lookup]


def _count(values: Codes, keys: Codes) -> int:
    """Return how many of the values are among the keys, which are sorted."""
    if not len(keys):
        return 0
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return int((keys[at] == values).sum())


def _rows(column: InputColumn, counted: Statistics) -> Codes:
    """Return the rows of the input with the constants of the column."""
    rows = counted.codes(column.relation)
    for at, constant in column.fixed:
        code = counted.code(column.relation, at, constant.value)
        rows = rows[:0] if code is None else rows[rows[:, at] == code]
    return rows
