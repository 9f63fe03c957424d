"""Weights and positions in counted tables, compared with lists of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import count_values, total_blocks, values_at, weigh_values
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.counted_runs import BLOCK
from dbsp.kernels.limits import INT64_MAX, NULL
from dbsp.state.counted_tables import COUNTED, counted_table
from dbsp.state.trace import Trace
from tests import reference
from tests.kernels.support import canonical, codes
from tests.reference import Z

WEIGHTS = st.sampled_from([1, 1, 1, 2, -1, -2])
ROW = st.tuples(st.integers(0, 2), st.integers(0, 4) | codes, st.integers(0, 1))


def trace_of(zsets: Sequence[Z], width: int) -> Trace:
    trace = Trace(width, [])
    for zset in zsets:
        trace.append(*canonical(zset, width))
        trace.commit()
    return trace


def values_of(total: Z, key: int, least: int) -> dict[int, int]:
    """The weight of each value of a group, from `least` on."""
    pairs = reference.consolidate((row[1:2], w) for row, w in total.items() if row[0] == key)
    return {value: weight for (value,), weight in sorted(pairs.items()) if value >= least}


@given(st.lists(st.dictionaries(ROW, WEIGHTS, max_size=8), max_size=5), st.booleans())
def test_weights_and_positions_of_a_group(zsets: list[Z], nullable: bool) -> None:
    total = reference.add(*zsets)
    keys = np.arange(4, dtype=np.int64).reshape(-1, 1)
    least = NULL + 1 if nullable else NULL
    groups = [values_of(total, key, least) for key in range(4)]
    missing: Z = {
        (key, value): -weight
        for key, group in enumerate(groups)
        for value, weight in group.items()
        if weight < 0
    }
    trace, other = trace_of(zsets, 3), trace_of([missing], 2)
    table = counted_table((trace, trace.count), (other, other.count))
    assert len(table) == trace.count + other.count
    listed = [[value for value, weight in group.items() for _ in range(max(weight, 0))] for group in groups]
    assert count_values(keys, table, len(table), nullable).tolist() == list(map(len, listed))
    longest = max(map(len, listed))
    positions = np.tile(np.arange(-1, longest + 1), (4, 1))
    found = values_at(keys, positions, table, len(table), nullable).tolist()
    assert found == [[NULL, *values, *[NULL] * (longest + 1 - len(values))] for values in listed]


@given(st.lists(st.dictionaries(ROW, WEIGHTS, max_size=8), min_size=1, max_size=4))
def test_the_weights_of_values_before_and_after_a_delta(zsets: list[Z]) -> None:
    *past, delta = zsets
    table = counted_table((trace := trace_of(past, 3), trace.count))
    rows, before, after = weigh_values(*canonical(delta, 3), 2, table, len(table))
    assert [tuple(row) for row in rows.tolist()] == sorted({row[:2] for row in delta})
    for row, *found in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
        assert found[0] == values_of(reference.add(*past), row[0], NULL).get(row[1], 0)
        assert found[1] == values_of(reference.add(*zsets), row[0], NULL).get(row[1], 0)


@pytest.mark.parametrize("size", [COUNTED - 1, COUNTED, COUNTED + 1, 4 * COUNTED + BLOCK - 1])
def test_ranges_across_blocks(size: int) -> None:
    """Weights of 2^61 make the totals exceed int64 although the weights of values do not."""
    weights = np.where(np.arange(size) % 3 == 0, 2**61, 1)
    weights[1::3] = -(2**61) + 1
    rows = np.column_stack((np.arange(size) // 3 % (size // 6), np.arange(size)))
    rows = rows[np.lexsort(rows.T[::-1])]
    trace = Trace(2, [])
    trace.append(rows, weights)
    trace.commit()
    table = counted_table((trace, 1))
    assert (table[0, 3] != 0) == (size >= COUNTED)
    for start, end in [(0, size), (1, size), (BLOCK, 2 * BLOCK), (BLOCK - 1, 3 * BLOCK + 1), (5, 6)]:
        chosen = np.arange(start, end)
        keys, delta = rows[chosen], np.ones(len(chosen), np.int64)
        _, before, after = weigh_values(keys, delta, 2, table, 1)
        assert before.tolist() == weights[chosen].tolist()
        assert after.tolist() == (weights[chosen] + 1).tolist()
    groups = np.unique(rows[:, :1], axis=0)
    expected = [int(sum(weights[rows[:, 0] == key].tolist())) for key in groups[:, 0].tolist()]
    if all(abs(each) <= INT64_MAX for each in expected):
        assert count_values(groups, table, 1, False).tolist() == expected


def test_totals_of_blocks() -> None:
    totals = total_blocks(np.full(2 * BLOCK + 1, 2**62)).reshape(-1, 2).tolist()
    assert [(high << 64) + low % 2**64 for high, low in totals] == [0, BLOCK * 2**62, 2 * BLOCK * 2**62]


def test_a_group_outside_int64_is_an_overflow() -> None:
    table = counted_table((trace := trace_of([{(0, value): 2**62 for value in range(2)}], 2), trace.count))
    with pytest.raises(OverflowError, match="weight: "):
        count_values(np.zeros((1, 1), np.int64), table, 1, False)


def positions_by_hand(rows: Rows, weights: Codes) -> list[int]:
    return np.repeat(rows[:, 1], np.maximum(weights, 0)).tolist()


def test_positions_in_large_runs_with_weights() -> None:
    chance = np.random.default_rng(7)
    trace = Trace(2, [])
    total: Z = {}
    for size in (5000, 700, 30):
        values = np.unique(chance.integers(0, 900, size))
        weights = chance.integers(1, 4, len(values))
        trace.append(np.column_stack((np.zeros(len(values), np.int64), values)), weights)
        trace.commit()
        total = reference.add(
            total, {(0, v): w for v, w in zip(values.tolist(), weights.tolist(), strict=True)}
        )
    rows, weights = canonical(total, 2)
    listed = positions_by_hand(rows, weights)
    table = counted_table((trace, trace.count))
    found = values_at(
        np.zeros((1, 1), np.int64), np.arange(0, len(listed), 97).reshape(1, -1), table, len(table), False
    )
    assert found[0].tolist() == listed[::97]
