"""Prefix extenders: what one relation says about the next variable of a join.

A worst-case optimal join binds one variable after the other. A *prefix* is a row of the values bound so
far, and every relation with the next variable in it can do three things (Ammar, McSherry, Salihoglu,
Joglekar, "Distributed evaluation of subgraph queries using worst-case optimal low-memory dataflows",
VLDB 2018, section 3; in differential dataflow's dogsdogsdogs `intersect` is called `validate`):

    count      how many values it offers below each prefix
    propose    each prefix extended by each value it offers
    intersect  of extended prefixes those that it offers too

A value is offered where a stored row has the prefix and the value, whatever its weight. Weights of rows
that share a prefix must not be added up to decide: +1 and -1 cancel there, and not in the result, where each
is multiplied by something else. So prefixes carry the weights they came with, and a relation's own weights
are multiplied in when whole rows of it are bound, by `IndexedZSet.extend_leaves`.

This is the vocabulary in its plainest form, over whole Z-sets. `dbsp.kernels.multiway` does the same
over traces, in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import SchemaError
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import NULL


class PrefixExtender:
    """Extends prefixes by the last key column of an indexed Z-set; the key columns before it are looked up.

    `columns` names the key in the prefixes: the columns looked up, then the one that is added (default: the
    names in the index). With P prefixes, n rows in the index and M rows of result, `count` and `intersect`
    cost O(P log n), `propose` O(P log n + M). An index with strings or objects that does not share the
    prefixes' interner is recoded at every call, O(n log n).

    >>> edge = ZSet({(1, 2): 1, (1, 3): 1, (2, 3): -1}, {"x": int, "y": int}).index_by("x", "y")
    >>> to_c = PrefixExtender(edge, ["b", "c"])
    >>> prefixes = ZSet({(0, 1): 1, (0, 2): 5, (0, 9): 1}, {"a": int, "b": int})
    >>> to_c.count(prefixes)
    array([2, 1, 0])
    >>> extended = to_c.propose(prefixes)
    >>> extended
    ZSet({(0, 1, 2): 1, (0, 1, 3): 1, (0, 2, 3): 5}, a: int, b: int, c: int)
    >>> PrefixExtender(ZSet([(0, 3)], {"a": int, "c": int}).index_by("a", "c")).intersect(extended)
    ZSet({(0, 1, 3): 1, (0, 2, 3): 5}, a: int, b: int, c: int)
    """

    __slots__ = ("_batch", "_starts", "columns", "index")

    def __init__(self, index: IndexedZSet, columns: Sequence[str] | None = None) -> None:
        key = index.key_schema
        if not key.arity:
            raise SchemaError("an extender proposes the last key column of an index, and this one has no key")
        self.columns = key.names if columns is None else tuple(columns)
        if len(self.columns) != key.arity:
            raise SchemaError(f"{len(self.columns)} columns are given for the key ({key.describe()})")
        self.index = index
        self._batch = index.as_zset_view().batch
        self._starts = _starts(self._batch.rows, key.arity)

    @property
    def name(self) -> str:
        """The column that is added."""
        return self.columns[-1]

    def __repr__(self) -> str:
        return f"<PrefixExtender ({', '.join(self.columns[:-1])}) -> {self.name} over {self.index!r}>"

    def extended(self, prefixes: ZSet) -> Schema:
        """The schema of what `propose` makes of these prefixes."""
        schema = prefixes.schema
        if self.name in schema.names:
            raise SchemaError(f"column '{self.name}' is bound in the prefixes; use intersect")
        return Schema((*schema.names, self.name), (*schema.types, self.index.key_schema.types[-1]))

    def count(self, prefixes: ZSet) -> Codes:
        """The number of different values offered to each prefix: int64[len(prefixes)], in their order."""
        _, starts, lo, hi = self._below(prefixes, self.columns[:-1])
        return np.searchsorted(starts, hi) - np.searchsorted(starts, lo)

    def propose(self, prefixes: ZSet) -> ZSet:
        """Every prefix with every value offered to it; each has the weight of its prefix."""
        schema = self.extended(prefixes)
        rows, starts, lo, hi = self._below(prefixes, self.columns[:-1])
        first = np.searchsorted(starts, lo)
        count = np.searchsorted(starts, hi) - first
        prefix = np.repeat(np.arange(len(prefixes)), count)
        within = np.arange(len(prefix)) - np.repeat(np.cumsum(count) - count, count)
        values = rows[starts[np.repeat(first, count) + within], len(self.columns) - 1]
        # Sorted prefixes with sorted values below each: the result is consolidated as it stands.
        extended = np.column_stack((prefixes.batch.rows[prefix], values))
        return ZSet.wrap(
            schema,
            prefixes.interner,
            Batch(np.ascontiguousarray(extended), prefixes.batch.weights[prefix]),
        )

    def intersect(self, extended: ZSet) -> ZSet:
        """The extended prefixes whose last value this relation offers too, with the weights they have."""
        _, _, lo, hi = self._below(extended, self.columns)
        return _chosen(extended, lo < hi)

    def _below(self, prefixes: ZSet, columns: Sequence[str]) -> tuple[Codes, Codes, Codes, Codes]:
        """The rows of the index, where its prefixes start, and the range of rows that each prefix selects.

        It goes down the trie, one column a level, for all prefixes at once.
        """
        schema = self.index.schema
        batch, starts = self._batch, self._starts
        if prefixes.interner is not self.index.interner and any(type_.interned for type_ in schema.types):
            batch = self.index.as_zset_view().recoded(schema, prefixes.interner)
            starts = _starts(batch.rows, len(self.columns))
        lo = np.zeros(len(prefixes), np.int64)
        hi = np.full(len(prefixes), len(batch), np.int64)
        for level, at in enumerate(prefixes.schema.indices(columns)):
            mine, theirs = schema.types[level], prefixes.schema.types[at]
            if mine.kind != theirs.kind:
                raise SchemaError(
                    f"'{schema.names[level]}: {mine}' of the index is compared with "
                    f"'{prefixes.schema.names[at]}: {theirs}' of the prefixes: the types differ"
                )
            values = prefixes.batch.rows[:, at]
            lo, hi = _equal_range(batch.rows[:, level], lo, hi, values)
            if mine.kind == "int" and mine.nullable != theirs.nullable:
                # What is None on one side is an int like any other on the other.
                hi = np.where(values == NULL, lo, hi)
        return batch.rows, starts, lo, hi


def extend_prefixes(prefixes: ZSet, extenders: Sequence[PrefixExtender]) -> ZSet:
    """Prefixes extended by one variable, by the values that all extenders offer: a level of generic join.

    For each prefix the extender with the fewest values proposes and the others intersect, so that a prefix
    costs no more than its smallest count; that is what makes the join worst-case optimal (Ngo, Re, Rudra,
    "Skew strikes back", SIGMOD Record 2013). Cost O(sum of the smallest counts * extenders * log n).

    >>> r = PrefixExtender(ZSet({(1, 2): 1, (1, 3): 1}, {"a": int, "b": int}).index_by("a", "b"))
    >>> s = PrefixExtender(ZSet({(3,): 1, (4,): 1}, {"b": int}).index_by("b"))
    >>> extend_prefixes(ZSet({(1,): 7}, {"a": int}), [r, s])
    ZSet({(1, 3): 7}, a: int, b: int)
    """
    if not extenders:
        raise SchemaError("prefixes are extended by at least one relation")
    smallest = np.argmin([extender.count(prefixes) for extender in extenders], axis=0)
    result = ZSet.empty(extenders[0].extended(prefixes), prefixes.interner)
    for number, proposer in enumerate(extenders):
        extended = proposer.propose(_chosen(prefixes, smallest == number))
        for other in extenders:
            if other is not proposer:
                extended = other.intersect(extended)
        result = result + extended
    return result


def _chosen(zset: ZSet, keep: Mask) -> ZSet:
    return ZSet.wrap(zset.schema, zset.interner, Batch(zset.batch.rows[keep], zset.batch.weights[keep]))


def _starts(rows: Codes, width: int) -> Codes:
    """Where another prefix of `width` columns begins."""
    if not len(rows):
        return np.empty(0, np.int64)
    differs = (rows[1:, :width] != rows[:-1, :width]).any(axis=1)
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(differs) + 1))


def _equal_range(column: Codes, lo: Codes, hi: Codes, values: Codes) -> tuple[Codes, Codes]:
    """Of each range lo:hi, in which the column is sorted, the part that holds the value. O(P log n)."""
    first = _bisect(column, lo, hi, values, False)
    return first, _bisect(column, first, hi, values, True)


def _bisect(column: Codes, lo: Codes, hi: Codes, values: Codes, right: bool) -> Codes:
    """`bisect.bisect_left` or `bisect_right` for many ranges and values at once, a step of all at a time."""
    while True:
        searched = lo < hi
        if not searched.any():
            return lo
        middle = (lo + hi) // 2
        probed = column[np.where(searched, middle, 0)]
        before = searched & ((probed <= values) if right else (probed < values))
        lo = np.where(before, middle + 1, lo)
        hi = np.where(searched & ~before, middle, hi)
