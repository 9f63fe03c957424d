"""Collected rows: those of all pieces, in any division into tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import growing_memory, narrow_rows
from dbsp.operators.recursion.derived_rows import DerivedRows, Piece

NONE = np.empty((0, 2), np.int64)

codes = st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)])
wide = codes | st.sampled_from([2**31, -(2**63)])
counts = st.just(1) | st.integers(-2, 3).filter(bool)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, Piece]:
    size = draw(st.integers(0, 4))
    rows = draw(
        st.lists(st.tuples(*[draw(st.sampled_from([codes, wide]))] * 2), min_size=size, max_size=size)
    )
    weights = draw(st.lists(draw(st.sampled_from([st.just(1), counts])), min_size=size, max_size=size))
    present = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    aside = np.array([[7, 8]]) if draw(st.booleans()) and draw(st.booleans()) else NONE
    return (
        np.array(rows, np.int64).reshape(-1, 2),
        np.array(weights, np.int64),
        Piece(
            size,
            None if present is None else np.array(present, np.bool_),
            np.array([[size, 1]]),
            np.array([[5, 6], [6, 5]]) if len(aside) else None,
            aside,
        ),
    )


@pytest.mark.parametrize("large", [1, 6])
@pytest.mark.parametrize("grows", [4, 1 << 30])
@given(st.lists(st.lists(pieces(), max_size=5), min_size=1, max_size=4))
def test_the_rows_of_all_tables(
    large: int, grows: int, tables: list[list[tuple[np.ndarray, np.ndarray, Piece]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_rows, "LARGE", large)
        patch.setattr(growing_memory, "GROWS", grows)
        patch.setattr(growing_memory, "POURED", 3)
        collected = []
        for table in tables:
            collected.append(DerivedRows(2))
            for each in table:
                collected[-1].add(*each)
        result = collected[0]
        for other in collected[1:]:
            result.take_over(other)
        every = [each for table in tables for each in table]
        rows = [row for found, _, _ in every for row in found.tolist()]
        present = [
            found.tolist() if piece.present is None else found[piece.present].tolist()
            for found, _, piece in every
        ]
        assert result.size == len(rows) and len(result.pieces) == len(every)
        assert result.all_present == all(piece.present is None for *_, piece in every)
        assert result.set_aside == any(len(piece.waiting) for *_, piece in every)
        assert result.present().tolist() == [row for part in present for row in part]
        joined = [
            piece.joined.tolist() if piece.joined is not None else piece.given.tolist() + part
            for (*_, piece), part in zip(every, present, strict=True)
        ]
        kept = result.joined()
        if rows:
            taken, weights = result.take()
            fits = all(-(2**31) <= code < 2**31 for row in rows for code in row)
            assert taken.tolist() == rows and (taken.itemsize == 4) == (fits and len(rows) >= large)
            expected = [count for _, given, _ in every for count in given.tolist()]
            assert (expected if weights is None else weights.tolist()) == expected
            assert (weights is None) == (set(expected) == {1})
        assert [row for part in kept for row in part.tolist()] == [row for part in joined for row in part]
