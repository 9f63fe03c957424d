"""Small batches that are computed in pieces, as large ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dbsp.kernels import growing_memory
from dbsp.kernels.thread_count import set_threads
from dbsp.operators.joins import merged_runs, pair_groups, summed_pieces
from dbsp.operators.recursion import iterated_scope, row_tables
from dbsp.parallel import narrow_sort, packed_part, packed_sum, probe_pieces, range_sort, split_merge
from dbsp.state import merge_in_place, wide_merge

THREADS = (1, 2, 4)


@contextmanager
def small_pieces(threads: int) -> Iterator[None]:
    """Use a number of threads, and pieces of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_sort, "LARGE", 2)
        patch.setattr(range_sort, "PIECE", 3)
        patch.setattr(range_sort, "CHUNK", 4)
        patch.setattr(range_sort, "SAMPLES", 2)
        patch.setattr(packed_part, "LEAST", 1)
        patch.setattr(packed_part, "_CACHED", 2)
        patch.setattr(packed_sum, "LARGE", 2)
        patch.setattr(packed_sum, "CHUNK", 4)
        patch.setattr(packed_sum, "RANGE", 3)
        patch.setattr(packed_sum, "DIGIT_ROWS", 2)
        patch.setattr(narrow_sort, "CACHED", 8)
        patch.setattr(split_merge, "LARGE", 2)
        patch.setattr(split_merge, "PIECE", 4)
        patch.setattr(probe_pieces, "LARGE", 2)
        patch.setattr(probe_pieces, "LEAST", 1)
        if threads != THREADS[1]:
            patch.setattr(pair_groups, "FEW", 1)
            patch.setattr(pair_groups, "SHARE", 0)
            patch.setattr(pair_groups, "REPEATED", 0)
            patch.setattr(pair_groups, "BLOCK", 2)
        patch.setattr(merged_runs, "LARGE", 2)
        patch.setattr(merged_runs, "SHARE", 1000)
        patch.setattr(summed_pieces, "LARGE", 2)
        patch.setattr(wide_merge, "PIECE", 16)
        patch.setattr(merge_in_place, "LEAST", 2)
        patch.setattr(growing_memory, "OWN", 8)
        patch.setattr(growing_memory, "GROWS", 8)
        patch.setattr(growing_memory, "POURED", 3)
        patch.setattr(iterated_scope, "LARGE", 1)
        patch.setattr(row_tables, "ALONE", 2)
        set_threads(threads)
        try:
            yield
        finally:
            set_threads(None)
