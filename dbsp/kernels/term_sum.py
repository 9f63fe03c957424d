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
from dbsp.kernels.copies import copy_codes, copy_rows, first_codes, first_rows
from dbsp.kernels.jit import at_address, codes_at, kernel
from dbsp.kernels.multiway import extend_by_levels
from dbsp.kernels.run_search import weights_at
from dbsp.kernels.sort import consolidate

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
    at = 0
    while at < terms.shape[0]:
        end = at + terms[at]
        delta = SOURCE * terms[at + 1]
        uses = terms[at + 2]
        first = terms[at + 3]
        plan = terms[at + TERM + 2 * uses : end]
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
                rows = np.empty((size, k), np.int64)
                weights = np.empty(size, np.int64)
                for i in range(size):
                    weights[i] = run_weights[i & mask]
                    for c in range(k):
                        rows[i, c] = run[i * k + c]
                found, products = extend_by_levels(rows, weights, plan, tables, now, counts[first + 1 :])
                size = products.shape[0]
                if out + size > out_weights.shape[0]:
                    room = 2 * (out + size)
                    out_rows, out_weights = (
                        first_rows(out_rows, out, room),
                        first_codes(out_weights, out, room),
                    )
                copy_rows(found, 0, out_rows, out, size)
                copy_codes(products, 0, out_weights, out, size)
                out += size
        at = end
    return consolidate(out_rows[:out], out_weights[:out])
