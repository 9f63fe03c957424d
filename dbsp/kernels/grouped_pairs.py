"""The pairs of a join that projects, added up by groups of delta rows.

    out(x, z) = sum over y of  D(x, y) * R(y, z)

Such a join makes most rows many times, the row (x, z) once for each y. So it takes one group of
delta rows after another, all with the same x, and adds their products to an array of sums, with a
place for each z: Gustavson, Two fast algorithms for sparse matrices, ACM Transactions on
Mathematical Software 4 (1978). Equal pairs meet without a sort, and the memory follows the rows of
the result.

The output columns that come from the run are a *partner*, and those from the delta, with equal
values, are a *group*. Both are numbered before, so a pair costs one addition, whatever its columns.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.hashing import intern_rows, place_rows
from dbsp.kernels.jit import choose, codes_at, kernel
from dbsp.kernels.limits import INT64_MIN
from dbsp.kernels.matches import find_matches, split_by_time
from dbsp.kernels.run_search import weights_at

_BLOCK = 1 << 10
"""So many rows are numbered at a time."""

_NEW = INT64_MIN
"""The sum of a partner that the group has not met."""


@kernel
def _stored_rows(matches: Rows, count: int) -> int:
    """Return how many rows of runs the matches have."""
    stored = 0
    for s in range(count):
        stored += matches[s, 4] - matches[s, 3]
    return stored


@kernel
def has_many_pairs(delta_rows: Rows, m: int, table: Rows, runs: int, k: int, share: int) -> bool:
    """Return whether the rows have `share` times as many pairs as there are rows of both sides."""
    matches, count, pairs = find_matches(delta_rows, m, table, runs, k)
    many: bool = pairs >= share * (delta_rows.shape[0] + _stored_rows(matches, count))
    return many


@kernel
def _largest_weight(matches: Rows, count: int, table: Rows) -> float:
    """Return the largest absolute weight of the run rows of the matches."""
    largest = 1.0
    for s in range(count):
        weights, mask = weights_at(table[matches[s, 2], 1])
        if mask:
            for j in range(matches[s, 3], matches[s, 4]):
                largest = max(largest, abs(float(weights[j])))
    return largest


@kernel
def _sums_fit(matches: Rows, count: int, pairs: int, delta_weights: Codes, table: Rows) -> bool:
    """Return whether no sum of products can be outside int64."""
    largest = 1.0
    for i in range(delta_weights.shape[0]):
        largest = max(largest, abs(float(delta_weights[i])))
    return largest * _largest_weight(matches, count, table) * pairs < 2.0**62


@kernel
def _number_rows(rows: Rows, numbers: Codes) -> tuple[Rows, int]:
    """Number the rows from 0 on, equal rows alike; return the rows by number, and their count."""
    found = np.empty((2 * _BLOCK, rows.shape[1]), np.int64)
    slots = np.zeros(4 * _BLOCK, np.int64)
    used = 0
    for at in range(0, rows.shape[0], _BLOCK):
        if used + _BLOCK > found.shape[0]:
            found = first_rows(found, used, 2 * found.shape[0])
            slots = np.zeros(2 * slots.shape[0], np.int64)
            place_rows(found, used, slots)
        used = intern_rows(rows[at : at + _BLOCK], found, used, slots, numbers[at : at + _BLOCK])
    return found, used


@kernel
def _number_partners(
    matches: Rows, count: int, table: Rows, k: int, columns: Codes, least: Codes, partners: Codes
) -> tuple[Rows, int]:
    """Number these columns of the run rows of the matches; see `_number_rows`.

    Codes of column c that are less than least[c] count as least[c].
    """
    rows = np.empty((partners.shape[0], columns.shape[0]), np.int64)
    at = 0
    for s in range(count):
        run = codes_at(table[matches[s, 2], 0])
        for j in range(matches[s, 3], matches[s, 4]):
            for c in range(columns.shape[0]):
                rows[at, c] = max(run[j * k + columns[c]], least[c])
            at += 1
    return _number_rows(rows, partners)


@kernel
def _number_groups(delta_rows: Rows, columns: Codes, groups: Codes) -> tuple[Rows, int]:
    """Number these columns of the delta rows; see `_number_rows`."""
    rows = np.empty((delta_rows.shape[0], columns.shape[0]), np.int64)
    for i in range(delta_rows.shape[0]):
        for c in range(columns.shape[0]):
            rows[i, c] = delta_rows[i, columns[c]]
    return _number_rows(rows, groups)


@kernel
def _order_by_group(matches: Rows, count: int, groups: Codes, group_count: int) -> tuple[Rows, Codes]:
    """Return (entries, ends): each entry is (delta row, match, place of its first partner).

    The entries of group g are entries[ends[g - 1] : ends[g]], in the order of the matches.
    """
    ends = np.zeros(group_count + 1, np.int64)
    for s in range(count):
        for i in range(matches[s, 0], matches[s, 1]):
            ends[groups[i] + 1] += 1
    for g in range(group_count):
        ends[g + 1] += ends[g]
    entries = np.empty((ends[group_count], 3), np.int64)
    place = 0
    for s in range(count):
        for i in range(matches[s, 0], matches[s, 1]):
            at = ends[groups[i]]
            entries[at, 0] = i
            entries[at, 1] = s
            entries[at, 2] = place
            ends[groups[i]] = at + 1
        place += matches[s, 4] - matches[s, 3]
    return entries, ends


@kernel
def _add_products(
    weight: int,
    word: int,
    low: int,
    partners: Codes,
    place: int,
    size: int,
    sums: Codes,
    met: Codes,
    found: int,
) -> int:
    """Add the products of a delta row and `size` run rows from `low` on to sums of partners.

    `word` is that of the weights in the run table. Each partner that the group meets is added to
    `met`, which has `found` of them; returns their new number.
    """
    # A function of its own: in a loop that may replace arrays, the compiler would read their
    # addresses again for every pair.
    weights, mask = weights_at(word)
    for at in range(size):
        partner = partners[place + at]
        total = sums[partner]
        # Whether a partner is new cannot be predicted, so there is no branch.
        met[found] = partner
        found += choose(total == _NEW, 1, 0)
        sums[partner] = choose(total == _NEW, 0, total) + weight * weights[(low + at) & mask]
    return found


@kernel
def _sum_pairs(
    matches: Rows,
    count: int,
    delta_rows: Rows,
    delta_weights: Codes,
    table: Rows,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes]:
    """Return the same as `pair_rows`, with equal rows added up; sums of 0 stay.

    No sum may be outside int64.
    """
    width, depth = columns.shape[0], now.shape[0]
    in_group, in_partner = np.empty(width, np.int64), np.empty(width, np.int64)
    own = 0
    for c in range(width):
        if columns[c] >= 0:
            in_group[own] = c
            own += 1
        else:
            in_partner[c - own] = c
    timed = width - own
    group_columns = np.empty(own, np.int64)
    for c in range(own):
        group_columns[c] = columns[in_group[c]]
    # The time of a pair is a part of its partner: the later one of both times.
    partner_columns = np.empty(timed + coordinates, np.int64)
    least = np.empty(timed + coordinates, np.int64)
    for c in range(timed):
        partner_columns[c] = -columns[in_partner[c]] - 1
        least[c] = INT64_MIN
    for d in range(coordinates):
        partner_columns[timed + d] = k - coordinates + d
        least[timed + d] = now[d]
    partners = np.empty(_stored_rows(matches, count), np.int64)
    partner_rows, partner_count = _number_partners(matches, count, table, k, partner_columns, least, partners)
    groups = np.empty(delta_rows.shape[0], np.int64)
    group_rows, group_count = _number_groups(delta_rows, group_columns, groups)
    entries, ends = _order_by_group(matches, count, groups, group_count)

    sums = np.empty(partner_count, np.int64)
    sums[:] = _NEW
    met = np.empty(partner_count + 1, np.int64)  # the place after the last one is written, too
    out_rows = np.empty((partner_count, width + depth), np.int64)
    out_weights = np.empty(partner_count, np.int64)
    out = 0
    at = 0
    for g in range(group_count):
        found = 0
        while at < ends[g]:
            i, s, place = entries[at, 0], entries[at, 1], entries[at, 2]
            low = matches[s, 3]
            found = _add_products(
                delta_weights[i],
                table[matches[s, 2], 1],
                low,
                partners,
                place,
                matches[s, 4] - low,
                sums,
                met,
                found,
            )
            at += 1
        if out + found > out_weights.shape[0]:
            room = 2 * (out + found)
            out_rows, out_weights = first_rows(out_rows, out, room), first_codes(out_weights, out, room)
        for f in range(found):
            partner = met[f]
            for c in range(own):
                out_rows[out, in_group[c]] = group_rows[g, c]
            for c in range(timed):
                out_rows[out, in_partner[c]] = partner_rows[partner, c]
            for d in range(depth):
                out_rows[out, width + d] = partner_rows[partner, timed + d] if d < coordinates else now[d]
            out_weights[out] = sums[partner]
            sums[partner] = _NEW
            out += 1
    return out_rows[:out], out_weights[:out]


@kernel
def join_by_groups(
    delta_rows: Rows,
    delta_weights: Codes,
    m: int,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes, Rows, int, int]:
    """Join as `join_timed_runs`, or as `join_runs` for an empty `now`, and add up equal pairs.

    Rows that are equal and have equal times are one row. If a sum might be outside int64, there are
    no rows, and the number of pairs is -1. O(rows of both sides + pairs), beside the search.
    """
    matches, count, pairs = find_matches(delta_rows, m, table, runs, k)
    if not _sums_fit(matches, count, pairs, delta_weights, table):
        count, pairs = 0, -1
    rows, weights = _sum_pairs(matches, count, delta_rows, delta_weights, table, k, columns, now, coordinates)
    if not coordinates:
        return rows, weights, rows[:0], weights.shape[0], pairs
    rows, weights, times, due = split_by_time(rows, weights, now)
    return rows, weights, times, due, pairs
