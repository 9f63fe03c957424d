"""All delta terms of a multi-way join in one call, for deltas of few rows at the top level.

A call costs as much as the work of a term for a delta of one row, and most of its cost is for the
arrays that it takes and returns. So this one takes numbers. A *source* is an arrangement that some
term reads. It is described by SOURCE numbers: the address of its run table, the number of runs
without its delta, the number with it, and the columns of a row. Its delta is its last run. A term
consists of

    TERM numbers   how many numbers the term has, the source of its delta, the number of its uses,
                   where its counts start
    each use       its source, and whether it reads the delta of the source
    the plan       see `dbsp.kernels.multiway`
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import at_address, codes_at, kernel
from dbsp.kernels.multiway import append_matches
from dbsp.kernels.run_search import weights_at
from dbsp.kernels.sort import consolidate_owned

SOURCE = 4
"""How many numbers describe a source."""

TERM = 4
"""How many numbers of a term come before its uses."""


@kernel
def sum_terms(terms: Codes, sources: Codes, columns: int, counts: Codes) -> tuple[Rows, Codes]:
    """Return the sum of all delta terms, consolidated; `columns` is the number of its columns.

    Adds to `counts`, for each term, the number of its delta rows and of the prefixes bound up to
    each level. Cost and errors are those of `extend_by_levels`.
    """
    now = np.empty(0, np.int64)
    out_rows = np.empty((16, columns), np.int64)
    out_weights = np.empty(16, np.int64)
    out = 0
    # The terms share these arrays if they fit: to allocate them takes longer than to fill them.
    tables = np.empty(0, np.int64)
    rows = np.empty((0, 0), np.int64)
    weights = np.empty(0, np.int64)
    at = 0
    while at < terms.shape[0]:
        end = at + terms[at]
        delta = SOURCE * terms[at + 1]
        uses = terms[at + 2]
        first = terms[at + 3]
        plan = terms[at + TERM + 2 * uses : end]
        if tables.shape[0] != 2 * uses:
            tables = np.empty(2 * uses, np.int64)
        before = sources[delta + 1]
        met = sources[delta + 2] > before
        if met:
            table = at_address(sources[delta])
            size = table[3 * before + 2]
            counts[first] += size
            for u in range(uses):
                source = SOURCE * terms[at + TERM + 2 * u]
                tables[2 * u] = sources[source]
                tables[2 * u + 1] = sources[source + 1 + terms[at + TERM + 2 * u + 1]]
                if tables[2 * u + 1] == 0:
                    met = False
            if met:
                k = sources[delta + 3]
                run = codes_at(table[3 * before])
                run_weights, mask = weights_at(table[3 * before + 1])
                if weights.shape[0] != size or rows.shape[1] != k:
                    rows = np.empty((size, k), np.int64)
                    weights = np.empty(size, np.int64)
                for i in range(size):
                    weights[i] = run_weights[i & mask]
                    for c in range(k):
                        rows[i, c] = run[i * k + c]
                out_rows, out_weights, out = append_matches(
                    rows, weights, plan, tables, now, counts[first + 1 :], out_rows, out_weights, out
                )
        at = end
    return consolidate_owned(out_rows[:out], out_weights[:out])
