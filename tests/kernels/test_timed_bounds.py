"""The kernel of bounds of groups at an iteration, against its formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import bound_timed_groups, consolidate
from dbsp.kernels.timed_bounds import BIT_AND, BIT_OR, GREATEST, LEAST
from tests import reference
from tests.kernels.support import model_pairs, pairs_of
from tests.reference import Row, Z

BOUNDS: dict[int, Callable[[list[int]], int]] = {
    LEAST: min,
    GREATEST: max,
    BIT_OR: lambda values: reduce(or_, values),
    BIT_AND: lambda values: reduce(and_, values),
}

small = st.integers(0, 3)
values = st.sampled_from([-4, 0, 1, 2, 6])
histories = st.lists(st.tuples(st.tuples(st.integers(0, 1), values, small, st.integers(0, 1)), small))
"""Rows (key, value, iteration, phase), with weights from -1 to 2."""


@pytest.mark.parametrize("bound", sorted(BOUNDS))
@pytest.mark.parametrize("width", [0, 1, 2])
@given(history=histories, now=small)
def test_bounds_at_an_iteration(bound: int, width: int, history: list[tuple[Row, int]], now: int) -> None:
    """With no key column all rows are one group."""
    rows: Z = reference.consolidate([((*[k] * width, v, t, p), w - 1) for (k, v, t, p), w in history])
    array = np.array(list(rows), np.int64).reshape(len(rows), width + 3)
    table = consolidate(array, np.array(list(rows.values()), np.int64))
    found, weights, agenda, times = bound_timed_groups(*table, width, now, bound)

    def bounds(until: int, phases: int) -> Z:
        groups: dict[Row, dict[int, int]] = {}
        for row, w in rows.items():
            *key, value, time, phase = row
            if time <= until and phase <= phases:
                group = groups.setdefault(tuple(key), {})
                group[value] = group.get(value, 0) + w
        return {
            (*key, BOUNDS[bound]([v for v, w in group.items() if w > 0])): 1
            for key, group in groups.items()
            if sum(group.values()) > 0
        }

    def change(phases: int) -> Z:
        return reference.minus(bounds(now, phases), bounds(now - 1, phases))

    expected = reference.minus(change(1), change(0))
    assert pairs_of(*consolidate(found, weights)) == model_pairs(expected)
    later = sorted({row[:width] for row in rows if row[-2] > now})
    first = [min(row[-2] for row in rows if row[:width] == key and row[-2] > now) for key in later]
    assert (list(map(tuple, agenda.tolist())), times.tolist()) == (later, first)
