"""Random rows, weights and sorted runs for the tests of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from dbsp.kernels import register_run
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import fit_narrow, narrowed
from dbsp.kernels.run_tables import run_entry
from tests import reference
from tests.reference import Row, Z

Pairs = list[tuple[Row, int]]

codes = st.integers(-2, 3) | st.sampled_from([INT64_MIN, INT64_MAX, -1, 2**31 - 1, -(2**31), 2**31])
near = st.integers(0, 3)
weights = st.integers(-3, 3)


def arrays(pairs: Sequence[tuple[Row, int]], arity: int) -> tuple[Codes, Codes]:
    rows = np.array([row for row, _ in pairs], np.int64).reshape(len(pairs), arity)
    return rows, np.array([weight for _, weight in pairs], np.int64)


def canonical(zset: Z, arity: int) -> tuple[Codes, Codes]:
    return arrays(sorted(zset.items()), arity)


def pairs_of(rows: Codes, weights: Codes) -> Pairs:
    assert rows.dtype == weights.dtype == np.int64 and rows.flags.c_contiguous
    return [(tuple(row), weight) for row, weight in zip(rows.tolist(), weights.tolist(), strict=True)]


def model_pairs(zset: Z) -> Pairs:
    return sorted(zset.items())


def bags(value: st.SearchStrategy[int], arity: int, max_size: int = 20) -> st.SearchStrategy[Pairs]:
    return st.lists(st.tuples(st.tuples(*[value] * arity), weights), max_size=max_size)


class Stack:
    """Sorted runs in a run table, as a trace passes them to kernels; some may be `narrow`."""

    def __init__(self, zsets: Sequence[Z], arity: int, narrow: bool = False) -> None:
        self.narrow: list[StoredRows] = []
        self.table = np.zeros((len(zsets) + 1, 3), np.int64)
        self.runs = [canonical(zset, arity) for zset in zsets]
        self.count = len(zsets)
        self.total = reference.add(*zsets)
        self.one = np.ones(1, np.int64)
        for index, (rows, run_weights) in enumerate(self.runs):
            implicit = len(rows) and (run_weights == 1).all()  # as large runs in traces
            stored = self.one if implicit else run_weights
            largest = register_run(self.table, index, rows, stored)
            if narrow and fit_narrow(rows):  # as large runs in traces
                codes = narrowed(rows)
                self.table[index] = run_entry(codes, stored)
                self.narrow.append(codes)
            assert largest == max((abs(w) for w in run_weights.tolist()), default=0)


def stacks(value: st.SearchStrategy[int], arity: int) -> st.SearchStrategy[Stack]:
    zsets = bags(value, arity, 12).map(reference.consolidate)
    sets = zsets.map(lambda zset: dict.fromkeys(zset, 1))
    runs = st.lists(zsets | sets, max_size=4)
    return st.builds(lambda zsets, narrow: Stack(zsets, arity, narrow), runs, st.booleans())
