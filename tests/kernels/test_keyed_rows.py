"""The change of a relation with one row per key, against a dictionary of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import replace_by_key
from tests import reference
from tests.kernels.support import Stack, bags, canonical, codes, pairs_of
from tests.reference import Row, Z

value = st.integers(0, 2) | st.sampled_from([2**31 - 1, -(2**31), 2**40])
Rest = tuple[int, ...]


def histories(m: int, rest: int) -> st.SearchStrategy[list[dict[Row, Rest | None]]]:
    """What successive ticks do with each key: store a row, or remove it."""
    keys = st.tuples(*[st.integers(0, 2)] * m)
    return st.lists(st.dictionaries(keys, st.none() | st.tuples(*[value] * rest), max_size=4), max_size=6)


def deltas_of(history: Sequence[Mapping[Row, Rest | None]]) -> tuple[list[Z], dict[Row, Row]]:
    """Return the change of the relation in each tick, and its rows by key in the end."""
    stored: dict[Row, Row] = {}
    deltas = []
    for tick in history:
        delta: Z = {}
        for key, rest in tick.items():
            new = None if rest is None else key + rest
            old = stored.pop(key, None)
            if new is not None:
                stored[key] = new
            if new != old:
                delta.update({row: sign for row, sign in ((old, -1), (new, 1)) if row is not None})
        deltas.append(delta)
    return deltas, stored


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("rest", [0, 1, 2])
@given(data=st.data())
def test_the_change_of_every_key(m: int, rest: int, data: st.DataObject) -> None:
    deltas, stored = deltas_of(data.draw(histories(m, rest)))
    # A run adds up the changes of some ticks, and the runs are in any order.
    runs: list[Z] = [{} for _ in range(data.draw(st.integers(1, 4)))]
    for delta in deltas:
        at = data.draw(st.integers(0, len(runs) - 1))
        runs[at] = reference.add(runs[at], delta)
    stack = Stack(runs, m + rest, data.draw(st.booleans()))
    keys = st.tuples(*[st.integers(0, 3)] * m)
    rows = st.builds(lambda key, others: key + others, keys, st.tuples(*[value] * rest))
    rows |= st.sampled_from(sorted(stored.values())) if stored else st.nothing()
    batch = data.draw(st.dictionaries(rows, st.sampled_from([-2, -1, 1, 1, 1, 2]), max_size=6))
    given_rows, weights = canonical(batch, m + rest)
    found, signs, present, absent, clash = replace_by_key(given_rows, weights, m, stack.table, stack.count)

    upserts = [row for row, weight in sorted(batch.items()) if weight > 0]
    repeated = [i for i in range(1, len(upserts)) if upserts[i][:m] == upserts[i - 1][:m]]
    if repeated:
        assert clash == repeated[0]
        return
    new = {row[:m]: row for row in upserts}
    expected: Z = {}
    met = {row[:m] for row in batch}
    for key in met:
        before, after = stored.get(key), new.get(key)
        if before != after:
            expected.update({row: sign for row, sign in ((before, -1), (after, 1)) if row is not None})
    assert clash == -1
    assert pairs_of(found, signs) == sorted(expected.items())
    assert present == sum(stored.get(key) == row for key, row in new.items())
    assert absent == len(met - new.keys() - stored.keys())


@given(bags(codes, 2))
def test_a_first_batch(bag: list[tuple[Row, int]]) -> None:
    last = {row[0]: row for row, _ in bag}
    rows, weights = canonical(dict.fromkeys(last.values(), 1), 2)
    found = replace_by_key(rows, weights, 1, np.zeros((1, 3), np.int64), 0)
    assert pairs_of(*found[:2]) == pairs_of(rows, weights)
    assert found[2:] == (0, 0, -1)
