"""Matches of a large join, summed by piece: the same sums, with fewer rows if that pays."""

from __future__ import annotations

import numpy as np

from dbsp.kernels import consolidate
from dbsp.operators.joins.summed_pieces import LARGE, SummedPieces


def piece(distinct: int, weight: int = 1, size: int = LARGE) -> tuple[np.ndarray, np.ndarray]:
    values = np.arange(size, dtype=np.int64)[::-1] % distinct
    return np.column_stack((values, values)), np.full(size, weight)


def test_equal_rows_are_summed_while_they_are_many() -> None:
    summed = SummedPieces(True)
    rows, weights = summed.add(*piece(7))
    assert rows.base is None and weights.base is None
    expected = consolidate(*piece(7))
    assert rows.tolist() == expected[0].tolist() and weights.tolist() == expected[1].tolist()
    rows, weights = summed.add(*piece(LARGE))
    assert len(weights) == LARGE and rows[0].tolist() == [0, 0]  # sorted, and the last piece that is
    rows, weights = summed.add(*piece(7))
    assert len(weights) == LARGE


def test_pieces_that_are_left_alone() -> None:
    assert len(SummedPieces(False).add(*piece(7))[1]) == LARGE
    assert len(SummedPieces(True).add(*piece(7, size=LARGE - 1))[1]) == LARGE - 1
    # A sum of some of the weights may be outside int64, although all of them together are not.
    for weight in (2**62, -(2**63)):
        assert len(SummedPieces(True).add(*piece(7, weight))[1]) == LARGE
