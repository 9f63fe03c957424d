"""Prefix extenders: how one relation extends the bound variables of a join by the next one.

A worst-case optimal join binds one variable after the other. A *prefix* is a row of the values
bound so far. A relation that contains the next variable has three operations (Ammar, McSherry,
Salihoglu, Joglekar, "Distributed evaluation of subgraph queries using worst-case optimal low-memory
dataflows", VLDB 2018, section 3; `intersect` is called `validate` in dogsdogsdogs of differential
dataflow):

    count      the number of values that the relation has for each prefix
    propose    each prefix extended by each of these values
    intersect  the extended prefixes that the relation contains too

A relation has a value for a prefix if a stored row has both, whatever its weight. The weights of
rows that share a prefix must not be summed for this test: +1 and -1 would cancel, but in the result
each is multiplied by another factor. So prefixes keep their own weights; the weights of a relation
are multiplied in by `IndexedZSet.extend_leaves`, when whole rows of it are bound.

This module works on whole Z-sets. `dbsp.kernels.multiway` does the same over traces, in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.caller_tracebacks import ends_at_caller, methods_end_at_caller
from dbsp.data.batch import Batch
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import ArgumentError, SchemaError, counted, wrong_argument
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import NULL


@methods_end_at_caller
class PrefixExtender:
    """Extends prefixes by the last key column of an indexed Z-set.

    The key columns before the last one are looked up in the prefixes. With P prefixes, n rows in
    the index and M rows of result, `count` and `intersect` cost O(P log n), `propose` O(P log n +
    M). An index with strings or objects that does not share the interner of the prefixes is recoded
    at every call, O(n log n).

    Parameters:
        index: the indexed Z-set; its key has at least one column.
        columns: the names of the key columns in the prefixes: the columns to look up, then the
            column
            to add. The names in the index if None.

    Raises:
        SchemaError: the index has no key, or `columns` has another length than the key.

    Examples:
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
        if not isinstance(index, IndexedZSet):
            raise wrong_argument("index", "an IndexedZSet, such as zset.index_by(...)", index)
        key = index.key_schema
        if not key.arity:
            raise SchemaError(
                "the index has no key column to extend prefixes by; name at least one in index_by(...)",
                code="wrong-arity",
            )
        self.columns = key.names if columns is None else tuple(columns)
        if len(self.columns) != key.arity:
            raise SchemaError(
                f"expected {counted(key.arity, 'column')} for the key ({key.describe()}), "
                f"got {len(self.columns)}",
                code="wrong-arity",
            )
        self.index = index
        self._batch = index.to_zset().stored
        self._starts = _starts(self._batch.rows, key.arity)

    @property
    def name(self) -> str:
        """The column to add."""
        return self.columns[-1]

    def __repr__(self) -> str:
        return f"<PrefixExtender ({', '.join(self.columns[:-1])}) -> {self.name} over {self.index!r}>"

    def extended(self, prefixes: ZSet) -> Schema:
        """Return the schema of the result of `propose`."""
        if not isinstance(prefixes, ZSet):
            raise wrong_argument("prefixes", "a ZSet", prefixes)
        schema = prefixes.schema
        if self.name in schema.names:
            raise SchemaError(
                f"the prefixes already have a column {self.name!r}; to filter them, call intersect",
                code="duplicate-column",
            )
        return Schema((*schema.names, self.name), (*schema.types, self.index.key_schema.types[-1]))

    def count(self, prefixes: ZSet) -> Codes:
        """Return the number of values for each prefix: int64[len(prefixes)], in order."""
        _, starts, lo, hi = self._below(prefixes, self.columns[:-1])
        return np.searchsorted(starts, hi) - np.searchsorted(starts, lo)

    def propose(self, prefixes: ZSet) -> ZSet:
        """Return each prefix extended by each value for it, with the weight of the prefix.

        Parameters:
            prefixes: a Z-set with the columns to look up.

        Raises:
            SchemaError: a column to look up is missing or of another type, or the column to add
                exists.

        Examples:
            >>> edge = PrefixExtender(ZSet([(1, 2), (1, 3)], {"x": int, "y": int}).index_by("x", "y"))
            >>> edge.propose(ZSet({(1,): 5}, {"x": int}))
            ZSet({(1, 2): 5, (1, 3): 5}, x: int, y: int)
        """
        schema = self.extended(prefixes)
        rows, starts, lo, hi = self._below(prefixes, self.columns[:-1])
        first = np.searchsorted(starts, lo)
        count = np.searchsorted(starts, hi) - first
        prefix = np.repeat(np.arange(len(prefixes)), count)
        within = np.arange(len(prefix)) - np.repeat(np.cumsum(count) - count, count)
        values = rows[starts[np.repeat(first, count) + within], len(self.columns) - 1]
        # The prefixes are sorted, and so are the values of each, so the result is consolidated.
        extended = np.column_stack((prefixes.stored.rows.take(prefix, 0), values))
        return ZSet.wrap(
            schema,
            prefixes.interner,
            Batch(np.ascontiguousarray(extended), prefixes.stored.weights[prefix]),
        )

    def intersect(self, extended: ZSet) -> ZSet:
        """Return the extended prefixes that this relation contains too, with their weights.

        Parameters:
            extended: a Z-set with the columns to look up and the column to add.

        Raises:
            SchemaError: a column is missing or of another type.

        Examples:
            >>> edge = PrefixExtender(ZSet([(1, 2), (1, 3)], {"x": int, "y": int}).index_by("x", "y"))
            >>> edge.intersect(ZSet([(1, 3), (1, 4)], {"x": int, "y": int}))
            ZSet({(1, 3): 1}, x: int, y: int)
        """
        if not isinstance(extended, ZSet):
            raise wrong_argument("extended", "a ZSet", extended)
        _, _, lo, hi = self._below(extended, self.columns)
        return _chosen(extended, lo < hi)

    def _below(self, prefixes: ZSet, columns: Sequence[str]) -> tuple[Codes, Codes, Codes, Codes]:
        """Return the rows of the index, the starts of its prefixes, and the rows per prefix.

        The search descends the trie one column at a time, for all prefixes together.
        """
        schema = self.index.schema
        batch, starts = self._batch, self._starts
        if prefixes.interner is not self.index.interner and any(type_.interned for type_ in schema.types):
            batch = self.index.to_zset().recoded(schema, prefixes.interner)
            starts = _starts(batch.rows, len(self.columns))
        lo = np.zeros(len(prefixes), np.int64)
        hi = np.full(len(prefixes), len(batch), np.int64)
        for level, at in enumerate(prefixes.schema.indices(columns)):
            mine, theirs = schema.types[level], prefixes.schema.types[at]
            if mine.kind != theirs.kind:
                raise SchemaError(
                    f"the types differ: '{schema.names[level]}: {mine}' of the index and "
                    f"'{prefixes.schema.names[at]}: {theirs}' of the prefixes",
                    code="schema-mismatch",
                )
            values = prefixes.stored.rows[:, at]
            lo, hi = _equal_range(batch.rows[:, level], lo, hi, values)
            if mine.kind == "int" and mine.nullable != theirs.nullable:
                # The code of None on one side is the code of an int on the other.
                hi = np.where(values == NULL, lo, hi)
        return batch.rows, starts, lo, hi


@ends_at_caller
def extend_prefixes(prefixes: ZSet, extenders: Sequence[PrefixExtender]) -> ZSet:
    """Extend prefixes by the values that all extenders have: one level of a generic join.

    For each prefix the extender with the fewest values proposes and the others intersect, so the
    cost of a prefix is at most its smallest count. This makes the join worst-case optimal (Ngo, Re,
    Rudra, "Skew strikes back", SIGMOD Record 2013). O(sum of the smallest counts * extenders * log
    n).

    Parameters:
        prefixes: a Z-set of the values bound so far.
        extenders: one extender per relation that contains the new variable; all add the same
            column.

    Returns:
        The extended prefixes, with the weights of the prefixes.

    Raises:
        ArgumentError: there is no extender.
        SchemaError: as for `PrefixExtender.propose`.

    Examples:
        >>> r = PrefixExtender(ZSet({(1, 2): 1, (1, 3): 1}, {"a": int, "b": int}).index_by("a", "b"))
        >>> s = PrefixExtender(ZSet({(3,): 1, (4,): 1}, {"b": int}).index_by("b"))
        >>> extend_prefixes(ZSet({(1,): 7}, {"a": int}), [r, s])
        ZSet({(1, 3): 7}, a: int, b: int)
    """
    if not isinstance(prefixes, ZSet):
        raise wrong_argument("prefixes", "a ZSet", prefixes)
    if not isinstance(extenders, Sequence) or not all(isinstance(e, PrefixExtender) for e in extenders):
        raise wrong_argument("extenders", "a list of PrefixExtender", extenders)
    if not extenders:
        raise ArgumentError("extenders: expected at least one PrefixExtender, got none")
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
    return ZSet.wrap(
        zset.schema, zset.interner, Batch(*rows_where(keep, zset.stored.rows, zset.stored.weights))
    )


def _starts(rows: Codes, width: int) -> Codes:
    """Return the positions at which a new prefix of `width` columns starts."""
    if not len(rows):
        return np.empty(0, np.int64)
    differs = (rows[1:, :width] != rows[:-1, :width]).any(axis=1)
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(differs) + 1))


def _equal_range(column: Codes, lo: Codes, hi: Codes, values: Codes) -> tuple[Codes, Codes]:
    """Return the part of each range lo:hi, in which the column is sorted, that has the value.

    O(P log n).
    """
    first = _bisect(column, lo, hi, values, False)
    return first, _bisect(column, first, hi, values, True)


def _bisect(column: Codes, lo: Codes, hi: Codes, values: Codes, right: bool) -> Codes:
    """Compute `bisect.bisect_left` or `bisect_right` for many ranges and values together."""
    while True:
        searched = lo < hi
        if not searched.any():
            return lo
        middle = (lo + hi) // 2
        probed = column[np.where(searched, middle, 0)]
        before = searched & ((probed <= values) if right else (probed < values))
        lo = np.where(before, middle + 1, lo)
        hi = np.where(searched & ~before, middle, hi)
