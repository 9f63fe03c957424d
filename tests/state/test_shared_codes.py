"""Large runs with equal rows are stored once, and change independently of each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings

import dbsp
from dbsp.kernels import narrow_rows
from dbsp.state import merging_stack, shared_codes
from dbsp.state.shared_codes import share_codes, stored_bytes
from dbsp.state.trace import Trace
from tests.compiler.support import AS_WRITTEN
from tests.operators.recursion.closures import SETS, STEPS, expect_recomputation, started
from tests.profiles import examples
from tests.strategies import Tick

ROWS = np.arange(12).reshape(6, 2)


@pytest.fixture(scope="module", autouse=True)
def from_the_first_row() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((shared_codes, "LEAST"), (shared_codes, "_PIECE"), (merging_stack, "SMALL")):
            patch.setattr(module, name, 1)
        patch.setattr(merging_stack, "TAIL", 2)
        patch.setattr(narrow_rows, "LARGE", 2)
        yield


def trace_of(*runs: tuple[np.ndarray, list[int]]) -> Trace:
    trace = Trace(2, [])
    for rows, weights in runs:
        trace.append(rows.copy(), np.array(weights))
        trace.narrow()
    return trace


def test_equal_rows_with_other_weights_are_stored_once() -> None:
    ones, counts = trace_of((ROWS, [1] * 6)), trace_of((ROWS, [1, 2, 3, 4, 5, 6]))
    size = ones.nbytes + counts.nbytes
    assert stored_bytes([ones, counts]) == size
    share_codes([ones, counts])
    assert ones.current[0].codes is counts.current[0].codes
    assert stored_bytes([ones, counts]) == size - 6 * 2 * 4
    assert counts.contents().rows.tolist() == ROWS.tolist()
    assert counts.contents().weights.tolist() == [1, 2, 3, 4, 5, 6]
    assert ones.table[0, 0] == counts.table[0, 0]  # kernels read the shared array
    assert ones.table[0, 1] != counts.table[0, 1]
    share_codes([ones, counts])
    assert stored_bytes([ones, counts]) == size - 6 * 2 * 4


@pytest.mark.parametrize("place", [(0, 0), (3, 1), (5, 1)])
def test_rows_that_differ_stay_apart(place: tuple[int, int]) -> None:
    other = ROWS.copy()
    other[place] += 1
    a, b = trace_of((ROWS, [1] * 6)), trace_of((other, [1] * 6))
    share_codes([a, b])
    assert a.current[0].codes is not b.current[0].codes
    assert b.contents().rows.tolist() == other.tolist()


def test_a_later_run_of_a_trace_is_shared_at_its_place() -> None:
    first = ROWS + 100
    a, b = trace_of((ROWS, [1] * 6)), trace_of((first, [1] * 6), (ROWS, [2] * 6))
    share_codes([a, b])
    assert a.current[0].codes is b.current[1].codes
    assert b.table[1, 0] == a.table[0, 0] != b.table[0, 0]
    assert b.contents().rows.tolist() == [*ROWS.tolist(), *first.tolist()]


def test_a_merge_leaves_the_other_trace_alone() -> None:
    a, b = trace_of((ROWS, [1] * 6)), trace_of((ROWS, [2] * 6))
    share_codes([a, b])
    b.append(ROWS[:3].copy(), np.full(3, -2))
    b.commit()
    b.compact()
    assert b.contents().rows.tolist() == ROWS[3:].tolist()
    assert a.contents().rows.tolist() == ROWS.tolist()
    assert a.contents().weights.tolist() == [1] * 6


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=examples(20))
@given(sequence=SETS)
def test_every_tick_agrees_with_a_recomputation(step: str, sequence: list[Tick]) -> None:
    run = started(step, "auto")
    expect_recomputation(run, sequence)


RULES = """
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), path(y, z).
"""


def test_a_load_and_a_compaction_store_the_set_and_its_counts_once() -> None:
    run = dbsp.compile(RULES, recursion="insert-only", rewrites=AS_WRITTEN).start()
    run.step({"edge": [(x, x + 1) for x in range(20)]})

    def shared() -> int:
        return sum(trace.nbytes for trace in run._scope.traces) - run.state_bytes

    assert shared() == 210 * 2 * 4
    run.step({"edge": {(20, 21): 1}})
    run.compact()
    assert shared() == 231 * 2 * 4
    assert len(run.view("path")) == 231
    run.step({"edge": {(9, 10): -1}})
    assert len(run.view("path")) == 45 + 66
