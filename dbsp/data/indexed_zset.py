"""Indexed Z-sets: a Z-set seen as a trie, read by prefixes of its key."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Finder, Interner
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema
from dbsp.data.weights import consolidated
from dbsp.errors import SchemaError, WeightOverflowError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX

if TYPE_CHECKING:
    from dbsp.data.zset import ZSet


class IndexedZSet:
    """A Z-set whose rows are grouped by their first `depth` columns, the key.

    Sorted rows are the trie: the rows below a prefix are a contiguous range, so every node of the trie,
    at any depth, is a view of the same arrays and no container of its own. `dbsp.PrefixExtender` looks up
    many prefixes at once.

    Examples:
        >>> edges = ZSet({(1, 2): 1, (1, 3): 1, (2, 3): 1}, {"x": int, "y": int}).index_by("x")
        >>> edges.get_by_prefix(1).as_zset_view()
        ZSet({(2,): 1, (3,): 1}, y: int)
        >>> [key for key, group in edges]
        [(1,), (2,)]
    """

    __slots__ = ("_hi", "_level", "_lo", "_zset", "depth")

    def __init__(self, zset: ZSet, depth: int, level: int = 0, low: int = 0, high: int | None = None) -> None:
        """The node of the rows low:high, which agree in their first `level` columns (default: the root).

        The columns of the Z-set are in index order already; `ZSet.index_by` takes any order.
        """
        self._zset = zset
        self.depth = depth
        self._level = level
        self._lo = low
        self._hi = len(zset) if high is None else high

    @property
    def batch(self) -> Batch:
        """The rows of the whole trie, in index order."""
        return self._zset.batch

    @property
    def interner(self) -> Interner:
        """The interner of the codes."""
        return self._zset.interner

    @property
    def _schema(self) -> Schema:
        return self._zset.schema

    @property
    def schema(self) -> Schema:
        """The columns below this node: key columns first."""
        return self._schema.select(range(self._level, self._schema.arity)) if self._level else self._schema

    @property
    def key_schema(self) -> Schema:
        """The key columns below this node."""
        return self._schema.select(range(self._level, max(self.depth, self._level)))

    def __repr__(self) -> str:
        rows = self._hi - self._lo
        return f"<IndexedZSet ({self.schema.describe()}) by ({self.key_schema.describe()}), {rows:,} rows>"

    # --- reading by prefix -------------------------------------------------------------------------

    def get_by_prefix(self, *values: Any) -> IndexedZSet:
        """The node below a prefix of the columns: as many values as wanted. O(log n), copies nothing.

        No rows have the prefix: an empty node. The prefix is a whole row: a node without columns, whose
        one empty row has that row's weight.
        """
        level = self._level + len(values)
        if level > self._schema.arity:
            raise SchemaError(f"a prefix of {len(values)} values for the columns ({self.schema.describe()})")
        prefix_schema = self._schema.select(range(self._level, level))
        try:
            prefix = list(prefix_schema.encode_row(values, Finder(self.interner)))
        except KeyError:  # a string that was never interned is in no row
            return IndexedZSet(self._zset, self.depth, level, 0, 0)

        def key(row: Codes) -> list[int]:
            values_below: list[int] = row[self._level : level].tolist()
            return values_below

        low = bisect.bisect_left(self.batch.rows, prefix, self._lo, self._hi, key=key)
        high = bisect.bisect_right(self.batch.rows, prefix, low, self._hi, key=key)
        return IndexedZSet(self._zset, self.depth, level, low, high)

    def as_zset_view(self) -> ZSet:
        """The rows below this node as a flat Z-set over `schema`, in the order of the index.

        The root shares its arrays; below a prefix the remaining columns are copied.
        """
        rows = self.batch.rows[self._lo : self._hi]
        if self._level:
            rows = np.ascontiguousarray(rows[:, self._level :])
        batch = Batch(rows, self.batch.weights[self._lo : self._hi])
        return self._zset.wrap(self.schema, self.interner, batch)

    def group(self, *key: Any) -> ZSet:
        """The rows of one whole key, without the key columns; empty if there are none."""
        wanted = self.depth - self._level
        if len(key) != wanted:
            raise SchemaError(
                f"group takes the {wanted} values of the key ({self.key_schema.describe()}), got {len(key)}"
            )
        return self.get_by_prefix(*key).as_zset_view()

    def __contains__(self, prefix: Any) -> bool:
        """Whether some row has this prefix (a tuple, or one value)."""
        node = self.get_by_prefix(*prefix) if isinstance(prefix, tuple) else self.get_by_prefix(prefix)
        return not node.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether no row is below this node."""
        return self._hi == self._lo

    # --- iteration ---------------------------------------------------------------------------------

    def _bounds(self) -> Codes:
        """Where the groups below this node start, and the end: int64[groups + 1]."""
        keys = self.batch.rows[self._lo : self._hi, self._level : self.depth]
        if not len(keys):
            return np.array([self._hi], np.int64)
        starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        return np.concatenate(([0], starts, [len(keys)])).astype(np.int64) + self._lo

    def __len__(self) -> int:
        """The number of distinct keys below this node."""
        return len(self._bounds()) - 1

    def keys(self) -> list[tuple[Any, ...]]:
        """The distinct keys below this node, in the order of their codes."""
        starts = self._bounds()[:-1]
        return self.key_schema.decode_rows(self.batch.rows[starts, self._level : self.depth], self.interner)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], ZSet]]:
        """(key, group) pairs, in the order of the keys' codes."""
        bounds = self._bounds().tolist()
        below = self._schema.select(range(max(self.depth, self._level), self._schema.arity))
        for key, lo, hi in zip(self.keys(), bounds[:-1], bounds[1:], strict=True):
            rows = np.ascontiguousarray(self.batch.rows[lo:hi, max(self.depth, self._level) :])
            yield key, self._zset.wrap(below, self.interner, Batch(rows, self.batch.weights[lo:hi]))

    # --- growing the trie --------------------------------------------------------------------------

    def extend_leaves(
        self, extension: IndexedZSet | Callable[[Any], Any], columns: Sequence[str] | Schema | None = None
    ) -> IndexedZSet:
        """The trie with more levels below its leaves (the whole rows).

        `extension` is an indexed Z-set: each leaf is extended by the group that the leaf's values of
        `columns` select (by default the columns named like the extension's key), and weights multiply.
        Or a function from a leaf (a named tuple) to the rows that go below it, each with the leaf's
        weight; `columns` is then their Schema.
        Cost O(n log n + rows out). Raises WeightOverflowError.
        """
        root = self.as_zset_view()
        if isinstance(extension, IndexedZSet):
            names = extension.key_schema.names if columns is None else columns
            if isinstance(names, Schema):
                raise SchemaError("columns are names here; a Schema belongs to an extension by a function")
            schema, rows, weights = _join_groups(root, extension, root.schema.indices(names))
        else:
            if not isinstance(columns, Schema):
                raise SchemaError("an extension by a function needs the Schema of the new columns")
            schema, rows, weights = _call_per_leaf(root, extension, columns)
        zset = root.wrap(schema, self.interner, consolidated(rows, weights))
        return IndexedZSet(zset, max(self.depth - self._level, 0))


def _join_groups(leaves: ZSet, extension: IndexedZSet, on: tuple[int, ...]) -> tuple[Schema, Codes, Codes]:
    flat = extension.as_zset_view()
    depth = extension.key_schema.arity
    if len(on) != depth:
        raise SchemaError(
            f"{len(on)} columns for the key ({extension.key_schema.describe()}) of the extension"
        )
    new = flat.schema.select(range(depth, flat.arity))
    schema = Schema(leaves.schema.names + new.names, leaves.schema.types + new.types)
    target = Schema(flat.schema.names, tuple(leaves.schema.types[j] for j in on) + new.types)
    right = recode_rows(flat.batch.rows, flat.schema, flat.interner, target, leaves.interner)
    left = leaves.batch.rows
    # Number the distinct keys of both sides alike; then a leaf's group is a range of equal numbers.
    stacked = np.concatenate((left[:, list(on)], right[:, :depth]))
    if depth:
        numbers = np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        numbers = np.zeros(len(stacked), np.int64)
    wanted, offered = numbers[: len(left)], numbers[len(left) :]
    by_key = np.argsort(offered, kind="stable")
    first = np.searchsorted(offered[by_key], wanted, side="left")
    count = np.searchsorted(offered[by_key], wanted, side="right") - first
    leaf = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(leaf)) - np.repeat(np.cumsum(count) - count, count)
    match = by_key[np.repeat(first, count) + within]
    weights = _multiply(leaves.batch.weights[leaf], flat.batch.weights[match])
    return schema, np.ascontiguousarray(np.hstack((left[leaf], right[match, depth:]))), weights


def _call_per_leaf(leaves: ZSet, extend: Callable[[Any], Any], new: Schema) -> tuple[Schema, Codes, Codes]:
    schema = Schema(leaves.schema.names + new.names, leaves.schema.types + new.types)
    make = leaves.schema.row_class._make
    below = [list(extend(make(row))) for row in leaves.schema.decode_rows(leaves.batch.rows, leaves.interner)]
    count = np.array([len(rows) for rows in below], np.int64)
    codes = new.encode_rows([row for rows in below for row in rows], leaves.interner)
    rows = np.hstack((np.repeat(leaves.batch.rows, count, axis=0), codes))
    return schema, np.ascontiguousarray(rows), np.repeat(leaves.batch.weights, count)


def _multiply(a: Codes, b: Codes) -> Codes:
    if (
        len(a)
        and int(np.abs(a.astype(np.float64)).max()) * int(np.abs(b.astype(np.float64)).max()) > INT64_MAX // 2
    ):
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            if not -INT64_MAX <= x * y <= INT64_MAX:
                raise WeightOverflowError(
                    f"the product of the weights {shorten(x)} and {shorten(y)} leaves int64"
                )
    return a * b
