"""Sums of packed parts: the rows and weights of one kernel call, with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import kernels
from dbsp.data import batch
from dbsp.data.batch import combine
from dbsp.parallel import packed_sum
from dbsp.parallel.packed_sum import sum_parts
from dbsp.parallel.range_sort import Part

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
def test_many_rows(spans: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with small_pieces(threads):
            for name, size in (("CHUNK", 1 << 14), ("RANGE", 1 << 10), ("DIGIT_ROWS", 1 << 8)):
                monkeypatch.setattr(packed_sum, name, size)
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
