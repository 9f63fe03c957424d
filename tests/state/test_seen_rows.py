"""The filter of the rows of a tick: when it is used, and that it finds all rows as it grows."""

from __future__ import annotations

import numpy as np
import pytest

from dbsp.state import seen_rows
from dbsp.state.seen_rows import SeenRows
from dbsp.state.sorted_run import SortedRun


def line(length: int, size: int = 100) -> np.ndarray:
    nodes = np.arange(size)
    return np.column_stack((nodes, nodes + length))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_rows, "LEAST", 500)


def test_all_earlier_rows_are_found_while_the_filter_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_rows, "DISTANCE", 0)
    seen = SeenRows()
    runs: list[SortedRun] = []
    answers = []
    for length in range(60):
        answers.append(seen.note(line(length), runs))
        runs.append(SortedRun.of_ones(line(length)))
    assert [found is None for found in answers] == [True] * 4 + [False] * 56
    assert sum(len(found) for found in answers if found is not None) < 60  # of 5,600 new rows
    for length in range(60):
        found = seen.note(line(length), runs)
        assert found is not None and found.tolist() == list(range(100))
        runs.append(SortedRun.of_ones(line(length)))


def test_rows_of_an_included_run_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_rows, "DISTANCE", 0)
    seen = SeenRows()
    runs: list[SortedRun] = []
    for length in range(60):  # without a filter, with one that has room, and with a full one
        runs.append(SortedRun.of_ones(line(length)))
        seen.include(runs[-1])
        if length % 7 == 6:
            found = seen.note(line(length - 6), runs)
            assert found is not None and len(found) == 100
        if length > 6:
            new = seen.note(line(1000 + length), runs)
            assert new is not None and len(new) < 10
            runs.append(SortedRun.of_ones(line(1000 + length)))
    words = seen.filter(runs)
    seen.include(SortedRun.of_ones(line(2000, 100_000)))
    assert len(seen.filter(runs)) * seen_rows.ROWS_PER_WORD > 100_000 > 2 * len(words)


def test_dense_deltas_are_searched_in_runs() -> None:
    """A filter starts only if the deltas are small compared to the rows of the tick."""
    dense, sparse = SeenRows(), SeenRows()
    assert all(dense.note(line(length, 1000 << length), []) is None for length in range(8))
    answers = [sparse.note(line(length), []) for length in range(400)]
    started = next(at for at, found in enumerate(answers) if found is not None)
    # The mean of the binary logarithm of the first numbers reaches DISTANCE - 1.
    assert 2**seen_rows.DISTANCE / 2 < started < 2 ** (seen_rows.DISTANCE + 2)


def test_a_cleared_filter_starts_again() -> None:
    seen = SeenRows()
    for length in range(400):
        seen.note(line(length), [])
    seen.clear()
    assert seen.note(line(0), []) is None


def test_rows_without_columns_need_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_rows, "LEAST", 0)
    monkeypatch.setattr(seen_rows, "DISTANCE", 0)
    assert SeenRows().note(np.empty((1, 0), np.int64), []) is None
