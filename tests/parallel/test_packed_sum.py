"""Sums of packed parts: the rows and weights of one kernel call, with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import kernels
from dbsp.data import batch
from dbsp.data.batch import combine
from dbsp.kernels import growing_memory, narrow_rows
from dbsp.parallel import packed_part, packed_sum
from dbsp.parallel.packed_part import PackedPart, Part, Piece, packed, row_count
from dbsp.parallel.packed_sum import sum_parts, sum_stored

from .small_pieces import THREADS, small_pieces
from .test_range_sort import batches, part_of, plain, together, weights


@given(batches(weights), st.booleans())
def test_the_sum_of_parts(parts: list[Part], owned: bool) -> None:
    try:
        expected = plain(kernels.consolidate(*together(parts)))
    except OverflowError as error:
        expected = str(error)  # type: ignore[assignment]
    rows, _ = together(parts)
    bits = sum(
        (int(high) - int(low)).bit_length() for low, high in zip(rows.min(0), rows.max(0), strict=True)
    )
    for threads in THREADS:
        copies = [(rows.copy(), weights.copy()) for rows, weights in parts]
        with small_pieces(threads):
            try:
                summed = sum_parts(copies, owned=owned)
                found = None if summed is None else plain(summed)
            except OverflowError as error:
                found = str(error)  # type: ignore[assignment]
        assert found == (expected if bits <= 64 else None)
        if not owned or bits > 64:
            assert list(map(plain, copies)) == list(map(plain, parts))
        else:
            assert not copies


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("spans", [(64,), (0, 64), (32, 32), (1, 62, 1), (40, 25), (0, 0)])
def test_many_rows(spans: tuple[int, ...], threads: int) -> None:
    """Rows of up to 65 bits, of which many are equal; some have the largest values."""
    chance = np.random.default_rng(sum(spans))
    columns = [chance.integers(0, 2 ** min(bits, 12), 40_000, np.uint64, endpoint=False) for bits in spans]
    for column, bits in zip(columns, spans, strict=True):
        if bits:
            column[:10] = 2**bits - 1
    rows = np.ascontiguousarray(
        np.column_stack([(column - np.uint64(2**63)).view(np.int64) for column in columns])
    )
    ones = np.ones(len(rows), np.int64)
    signs = chance.integers(-1, 2, len(rows))
    for each in (ones, signs):
        expected = kernels.consolidate(rows, each)
        with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
            for name, size in (("CHUNK", 1 << 14), ("RANGE", 1 << 10), ("DIGIT_ROWS", 1 << 8)):
                patch.setattr(packed_sum, name, size)
            found = sum_parts([(rows[:15_000], each[:15_000]), (rows[15_000:], each[15_000:])])
        if sum(spans) > 64:
            assert found is None
        else:
            assert found is not None
            assert (found[0] == expected[0]).all()
            assert (found[1] == expected[1]).all()


def test_combine_packs_large_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(parts: list[Part], *, owned: bool) -> Part | None:
        calls.append(len(parts))
        return sum_parts(parts, owned=owned)

    monkeypatch.setattr(batch, "sum_parts", counted)
    monkeypatch.setattr(packed_sum, "LARGE", 40)
    narrow = [part_of([((n % 7, n), 1) for n in range(30)], 2) for _ in range(2)]
    wide = [part_of([((n * 2**57, n * 2**57), 1) for n in range(-30, 30)], 2) for _ in range(2)]
    for parts in (narrow, wide):
        expected = plain(kernels.consolidate(*together(parts)))
        for owned in (False, True):
            found = combine([(rows.copy(), weights.copy()) for rows, weights in parts], owned)
            assert found is not None
            assert plain((found.rows, found.weights)) == expected
    assert calls == [2] * 4


@given(batches(weights), st.lists(st.booleans(), min_size=3, max_size=3), st.booleans())
def test_packed_parts_have_the_same_sum(parts: list[Part], chosen: list[bool], owned: bool) -> None:
    """Some parts are packed, each in the layout of its own rows."""
    for threads in THREADS:
        with small_pieces(threads):
            pieces: list[Piece] = [
                packed(rows.copy(), given.copy()) if pack else (rows, given)
                for (rows, given), pack in zip(parts, chosen, strict=False)
            ]
            assert row_count(pieces) == row_count(parts)
            assert [plain(unpacked(piece)) for piece in pieces] == list(map(plain, parts))
            try:
                expected: object = sum_parts(list(parts))
            except OverflowError as error:
                expected = str(error)
            try:
                found: object = sum_parts(pieces, owned=owned)
            except OverflowError as error:
                found = str(error)
        if isinstance(expected, tuple) and isinstance(found, tuple):
            assert plain(found) == plain(expected)
        else:
            assert found == expected
        if not owned:
            assert [plain(unpacked(piece)) for piece in pieces] == list(map(plain, parts))


@pytest.mark.parametrize("own", [1, 1 << 40])
@pytest.mark.parametrize("threads", THREADS)
@given(data=st.data())
def test_stored_rows_have_the_same_sum(data: st.DataObject, threads: int, own: int) -> None:
    """In 32 bits, in the memory of the keys or beside it, exactly if all rows differ and fit."""
    width = data.draw(st.integers(1, 3))
    value = (
        st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]) | st.sampled_from([2**31, -(2**31) - 1])
    )
    row = st.tuples(*[value] * width)
    rows = data.draw(st.lists(row, min_size=1, max_size=30, unique=data.draw(st.booleans())))
    table = np.array(rows, np.int64)
    given_weights = np.array(data.draw(st.sampled_from([[1], [1, 2]])) * len(rows))[: len(rows)]
    with small_pieces(threads), pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_rows, "LOAD", 2)
        patch.setattr(growing_memory, "OWN", own)
        pieces = [packed(table[place], given_weights[place]) for place in (slice(0, 7), slice(7, None))]
        pieces = [piece for piece in pieces if row_count([piece])]
        expected = sum_parts(list(pieces))
        found = sum_stored(pieces)
    spans = [int(high) - int(low) for low, high in zip(table.min(0), table.max(0), strict=True)]
    if sum(span.bit_length() for span in spans) > 64:
        assert found is None and expected is None
        return
    assert found is not None and expected is not None and not pieces
    sums, weights = found
    different = len(set(rows)) == len(rows) > 1 and (given_weights == 1).all() and width > 1
    fits = table.min() >= -(2**31) and table.max() < 2**31
    assert (sums.itemsize == 4) == (different and fits)
    assert sums.tolist() == expected[0].tolist() == sorted(map(list, set(rows)))
    if sums.itemsize == 4:
        assert weights.tolist() == [1]
    else:
        assert weights.tolist() == expected[1].tolist()


def unpacked(piece: Piece) -> Part:
    return (piece.rows(), piece.weights()) if isinstance(piece, PackedPart) else piece


def test_few_or_long_rows_are_not_packed() -> None:
    size = packed_part.LEAST
    rows = np.arange(2 * size).reshape(size, 2)
    ones = np.ones(size, np.int64)
    found = packed(rows, ones)
    assert isinstance(found, PackedPart)
    assert (len(found.keys), len(found.given)) == (size, 0)
    assert isinstance(packed(rows, ones + 1), PackedPart)
    assert not isinstance(packed(rows[1:], ones[1:]), PackedPart)
    assert not isinstance(packed(rows * 2**50, ones), PackedPart)
    assert not isinstance(packed(rows[:, :0], ones), PackedPart)


@pytest.mark.parametrize("span", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_packed_rows_of_up_to_64_bits(span: int) -> None:
    column = np.array([0, span, span // 2] * packed_part.LEAST, np.uint64) - np.uint64(2**63)
    rows = column.view(np.int64).reshape(-1, 1)
    piece = packed(rows, np.ones(len(rows), np.int64))
    assert isinstance(piece, PackedPart)
    assert (piece.rows() == rows).all()
    found = sum_parts([piece, (rows, np.ones(len(rows), np.int64))])
    expected = kernels.consolidate(np.concatenate([rows, rows]), np.ones(2 * len(rows), np.int64))
    assert found is not None
    assert plain(found) == plain(expected)
