"""Searches in pieces: the answers of one kernel call, with any number of threads."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbsp import kernels
from dbsp.kernels import consolidate, register_run
from dbsp.kernels.arrays import Codes
from dbsp.parallel import probe_pieces

from .small_pieces import THREADS, small_pieces

values = st.integers(0, 5)
pairs = st.lists(
    st.tuples(st.tuples(values, values), st.sampled_from([1, 1, -1, 2, 2**62])), min_size=1, max_size=30
)


def part_of(rows: list[tuple[tuple[int, int], int]]) -> tuple[Codes, Codes]:
    last = dict(rows)
    return consolidate(np.array(list(last)), np.array(list(last.values())))


@given(st.lists(pairs, min_size=1, max_size=3), pairs)
def test_distinct_and_sums(
    stored: list[list[tuple[tuple[int, int], int]]], delta: list[tuple[tuple[int, int], int]]
) -> None:
    runs = [part_of(rows) for rows in stored]
    table = np.zeros((len(runs), 3), np.int64)
    for place, run in enumerate(runs):
        register_run(table, place, *run)
    rows, weights = part_of(delta)

    def answers() -> list[object]:
        found: list[object] = []
        changes = np.zeros(len(rows), np.int64)
        for compute in (
            lambda: (changes, probe_pieces.change_presence(rows, weights, table, len(runs), changes)),
            lambda: (probe_pieces.sum_weights(rows, table, len(runs)),),
        ):
            try:
                found.append([np.asarray(part).tolist() for part in compute()])
            except OverflowError as error:
                found.append(str(error))
        return found

    expected = answers()
    for threads in THREADS:
        with small_pieces(threads):
            assert answers() == expected


def test_slices_cover_all_rows_in_order() -> None:
    for threads in THREADS:
        with small_pieces(threads):
            slices = probe_pieces.in_slices(103, lambda part: part)
        assert [at for part in slices for at in range(103)[part]] == list(range(103))
        assert len(slices) == probe_pieces.PIECES * threads


def test_a_kernel_call_searches_few_rows() -> None:
    assert not probe_pieces.pays(probe_pieces.LARGE - 1)
    assert kernels.sum_weights(np.array([[1, 2]]), np.zeros((1, 3), np.int64), 0).tolist() == [0]
