"""Indexed Z-sets: a Z-set seen as a trie, read by prefixes of its key."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.data.batch import Batch
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.finder import Finder
from dbsp.data.interner import Interner
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema
from dbsp.data.weights import consolidated, weight_array
from dbsp.display.displayed import Displayed
from dbsp.errors import SchemaError, UserFunctionError, WeightOverflowError, counted, shorten, wrong_argument
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from dbsp.data.zset import ZSet


@methods_end_at_caller
class IndexedZSet(Displayed):
    """A Z-set whose rows are grouped by their first `depth` columns, the key.

    The sorted rows are the trie: the rows below a prefix are a contiguous range, so every node of
    the trie is a view of the same arrays. `dbsp.PrefixExtender` looks up many prefixes at once.
    `ZSet.index_by` builds an index. Iterating yields pairs (key, group), `len` is the number of
    keys, and `prefix in index` is whether some row has the prefix (a tuple, or one value).

    Indexed Z-sets with the same columns and key are a group, as Z-sets are: `a + b`, `a - b`, `-a`
    and `2 * a` add, subtract, negate and scale the weights. `a == b` compares the number of key
    columns, the rows and their weights, not the names of columns.

    Parameters:
        zset: the rows, with the columns in the order of the index.
        depth: the number of key columns.
        level: how many columns are above this node.
        low: the first row below this node.
        high: the row after the last one below this node; the end of the rows if None.

    Examples:
        >>> edges = ZSet({(1, 2): 1, (1, 3): 1, (2, 3): 1}, {"x": int, "y": int}).index_by("x")
        >>> edges.get_by_prefix(1).to_zset()
        ZSet({(2,): 1, (3,): 1}, y: int)
        >>> [key for key, group in edges]
        [(1,), (2,)]
    """

    __slots__ = ("_hi", "_level", "_lo", "_zset", "depth")

    def __init__(self, zset: ZSet, depth: int, level: int = 0, low: int = 0, high: int | None = None) -> None:
        self._zset = zset
        self.depth = depth
        self._level = level
        self._lo = low
        self._hi = len(zset) if high is None else high

    @property
    def stored(self) -> Batch:
        """The rows of the whole trie, in index order."""
        return self._zset.stored

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

    _described_by = "dbsp.data.zset_display:index_document"

    # --- reading by prefix ------------------------------------------------------------------------

    def get_by_prefix(self, *values: Any) -> IndexedZSet:
        """Return the node of the rows that start with these values, without the prefix. O(log n).

        The node is empty if no row has the prefix. For a whole row it has no columns, and its one
        empty row has the weight of the row.

        Parameters:
            values: a value for each of the first columns of this node.

        Raises:
            SchemaError: there are more values than columns.
            InputError: a value is of another type than its column.

        Examples:
            >>> index = ZSet([(1, 2, 3), (1, 4, 5)], {"x": int, "y": int, "z": int}).index_by("x", "y")
            >>> index.get_by_prefix(1, 4).to_zset()
            ZSet({(5,): 1}, z: int)
        """
        level = self._level + len(values)
        if level > self._schema.arity:
            raise SchemaError(
                f"expected a prefix of at most {counted(self.schema.arity, 'value')} "
                f"({self.schema.describe()}), got {len(values)}",
                code="wrong-arity",
            )
        prefix_schema = self._schema.select(range(self._level, level))
        try:
            prefix = list(prefix_schema.encode_row(values, Finder(self.interner)))
        except KeyError:  # a string that is not interned occurs in no row
            return IndexedZSet(self._zset, self.depth, level, 0, 0)

        def key(row: Codes) -> list[int]:
            values_below: list[int] = row[self._level : level].tolist()
            return values_below

        low = bisect.bisect_left(self.stored.rows, prefix, self._lo, self._hi, key=key)
        high = bisect.bisect_right(self.stored.rows, prefix, low, self._hi, key=key)
        return IndexedZSet(self._zset, self.depth, level, low, high)

    def to_zset(self) -> ZSet:
        """Return the rows below this node as a flat Z-set over `schema`.

        The root shares its arrays, O(1); below a prefix the remaining columns are copied, O(rows).

        Examples:
            >>> ZSet([(1, 2), (3, 4)], {"x": int, "y": int}).index_by("y").to_zset()
            ZSet({(2, 1): 1, (4, 3): 1}, y: int, x: int)
        """
        rows = self.stored.rows[self._lo : self._hi]
        if self._level:
            rows = np.ascontiguousarray(rows[:, self._level :])
        batch = Batch(rows, self.stored.weights[self._lo : self._hi])
        return self._zset.wrap(self.schema, self.interner, batch)

    def as_zset_view(self) -> ZSet:
        """Return the values of the next column below this node, each with weight 1. O(rows).

        This is the *key view* of a level of the trie, which binds one variable of a join. The name
        is that of "WCOJ meets DBSP" (see the explanation of multi-way joins).

        Raises:
            SchemaError: the node is a whole row, so that no column is below it.

        Examples:
            >>> edges = ZSet({(1, 2): 5, (1, 3): -1, (2, 3): 1}, {"x": int, "y": int}).index_by("x")
            >>> edges.as_zset_view()
            ZSet({(1,): 1, (2,): 1}, x: int)
            >>> edges.get_by_prefix(1).as_zset_view()
            ZSet({(2,): 1, (3,): 1}, y: int)
        """
        if self._level == self._schema.arity:
            raise SchemaError(
                "expected a node with columns below it, got a whole row; its weight is in to_zset()",
                code="wrong-arity",
            )
        values = distinct_codes(self.stored.rows[self._lo : self._hi, self._level])[0].reshape(-1, 1)
        column = self._schema.select([self._level])
        return self._zset.wrap(column, self.interner, Batch(values, np.ones(len(values), np.int64)))

    def group(self, *key: Any) -> ZSet:
        """Return the rows of one key, without the key columns. O(log n + rows of the group).

        The result is empty if no row has the key.

        Parameters:
            key: a value for each key column.

        Raises:
            SchemaError: the number of values is not the number of key columns.

        Examples:
            >>> edges = ZSet([(1, 2), (1, 3)], {"x": int, "y": int}).index_by("x")
            >>> edges.group(1), edges.group(7)
            (ZSet({(2,): 1, (3,): 1}, y: int), ZSet({}, y: int))
        """
        wanted = self.depth - self._level
        if len(key) != wanted:
            raise SchemaError(
                f"expected {counted(wanted, 'value')} of the key ({self.key_schema.describe()}), "
                f"got {len(key)}",
                code="wrong-arity",
            )
        return self.get_by_prefix(*key).to_zset()

    def __contains__(self, prefix: Any) -> bool:
        """Return whether some row has this prefix (a tuple, or one value)."""
        node = self.get_by_prefix(*prefix) if isinstance(prefix, tuple) else self.get_by_prefix(prefix)
        return not node.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether there is no row below this node."""
        return self._hi == self._lo

    # --- iteration --------------------------------------------------------------------------------

    def _bounds(self) -> Codes:
        """Return where the groups below this node start, and the end: int64[groups + 1]."""
        keys = self.stored.rows[self._lo : self._hi, self._level : self.depth]
        if not len(keys):
            return np.array([self._hi], np.int64)
        starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        return np.concatenate(([0], starts, [len(keys)])).astype(np.int64) + self._lo

    def __len__(self) -> int:
        """The number of distinct keys below this node."""
        return len(self._bounds()) - 1

    def keys(self) -> list[tuple[Any, ...]]:
        """Return the distinct keys below this node, in the order of their codes. O(rows).

        Examples:
            >>> ZSet([(1, 2), (1, 3), (2, 3)], {"x": int, "y": int}).index_by("x").keys()
            [(1,), (2,)]
        """
        starts = self._bounds()[:-1]
        return self.key_schema.decode_rows(self.stored.rows[starts, self._level : self.depth], self.interner)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], ZSet]]:
        """Yield pairs (key, group), in the order of the codes of the keys."""
        bounds = self._bounds().tolist()
        below = self._schema.select(range(max(self.depth, self._level), self._schema.arity))
        for key, lo, hi in zip(self.keys(), bounds[:-1], bounds[1:], strict=True):
            rows = np.ascontiguousarray(self.stored.rows[lo:hi, max(self.depth, self._level) :])
            yield key, self._zset.wrap(below, self.interner, Batch(rows, self.stored.weights[lo:hi]))

    # --- the group --------------------------------------------------------------------------------

    def __add__(self, other: IndexedZSet) -> IndexedZSet:
        return self._combine(other, operator.add)

    def __sub__(self, other: IndexedZSet) -> IndexedZSet:
        return self._combine(other, operator.sub)

    def __radd__(self, other: object) -> IndexedZSet:
        """0 + index is index, so that `sum(indices)` works."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __neg__(self) -> IndexedZSet:
        return self * -1

    def __mul__(self, factor: int) -> IndexedZSet:
        """Multiply every weight by an integer. Raises WeightOverflowError."""
        if type(factor) is not int:
            return NotImplemented
        return self._with(self.to_zset() * factor)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Compare the number of key columns, the rows and their weights, not the names."""
        if not isinstance(other, IndexedZSet):
            return NotImplemented
        return self.key_schema.arity == other.key_schema.arity and self.to_zset() == other.to_zset()

    __hash__ = None  # type: ignore[assignment]

    def _combine(self, other: IndexedZSet, combine: Callable[[ZSet, ZSet], ZSet]) -> IndexedZSet:
        if not isinstance(other, IndexedZSet):
            return NotImplemented
        if self.schema.names != other.schema.names or self.key_schema.names != other.key_schema.names:
            raise SchemaError(
                f"expected an index of ({self.schema.describe()}) by ({self.key_schema.describe()}), got one "
                f"of ({other.schema.describe()}) by ({other.key_schema.describe()}); index both Z-sets by "
                "the same columns",
                code="schema-mismatch",
            )
        return self._with(combine(self.to_zset(), other.to_zset()))

    def _with(self, zset: ZSet) -> IndexedZSet:
        return IndexedZSet(zset, self.key_schema.arity)

    # --- growing the trie -------------------------------------------------------------------------

    def extend_leaves(
        self, extension: IndexedZSet | Callable[[Any], Any], columns: Sequence[str] | Schema | None = None
    ) -> IndexedZSet:
        """Return the trie with more columns: each leaf, a whole row, is extended by rows below it.

        O(n log n + rows of the result).

        Parameters:
            extension: an indexed Z-set, whose group for the leaf is appended. Or a function from a
                leaf (a named tuple) to a Z-set, to a dict `{row: weight}`, or to rows of weight 1.
                The weights are multiplied by the weight of the leaf.
            columns: for an indexed Z-set, the columns of the leaf that select the group, by default
                those with the names of its key. For a function, the `Schema` of the new columns.

        Raises:
            ArgumentError: `extension` or `columns` is of the wrong type.
            SchemaError: a column does not exist, occurs twice, or the number of columns is wrong.
            InputError: a row of the function does not fit its schema, or a weight is not an int.
            UserFunctionError: the function raised an exception or did not return rows.
            WeightOverflowError: a product of weights is outside the 64-bit range.

        Examples:
            >>> edges = ZSet([(1, 2), (2, 3)], {"x": int, "y": int}).index_by("x")
            >>> successors = ZSet([(2, 7), (2, 8)], {"y": int, "z": int}).index_by("y")
            >>> edges.extend_leaves(successors).to_zset()
            ZSet({(1, 2, 7): 1, (1, 2, 8): 1}, x: int, y: int, z: int)
            >>> edges.extend_leaves(lambda row: {(row.x + row.y,): 5}, dbsp.Schema.of(sum=int)).to_zset()
            ZSet({(1, 2, 3): 5, (2, 3, 5): 5}, x: int, y: int, sum: int)
        """
        root = self.to_zset()
        if isinstance(extension, IndexedZSet):
            names = extension.key_schema.names if columns is None else columns
            if isinstance(names, Schema) or not isinstance(names, Sequence):
                raise wrong_argument("columns", "column names", names)
            schema, rows, weights = _join_groups(root, extension, root.schema.indices(names))
        else:
            if not callable(extension):
                raise wrong_argument("extension", "an IndexedZSet or a function", extension)
            if not isinstance(columns, Schema):
                raise wrong_argument("columns", "the Schema of the columns to add", columns)
            schema, rows, weights = _call_per_leaf(root, extension, columns)
        zset = root.wrap(schema, self.interner, consolidated(rows, weights))
        return self._with(zset)


def _join_groups(leaves: ZSet, extension: IndexedZSet, on: tuple[int, ...]) -> tuple[Schema, Codes, Codes]:
    flat = extension.to_zset()
    depth = extension.key_schema.arity
    if len(on) != depth:
        raise SchemaError(
            f"expected {counted(depth, 'column')} for the key ({extension.key_schema.describe()}) "
            f"of the extension, got {len(on)}",
            code="wrong-arity",
        )
    new = flat.schema.select(range(depth, flat.arity))
    schema = Schema(leaves.schema.names + new.names, leaves.schema.types + new.types)
    target = Schema(flat.schema.names, tuple(leaves.schema.types[j] for j in on) + new.types)
    right = recode_rows(flat.stored.rows, flat.schema, flat.interner, target, leaves.interner)
    left = leaves.stored.rows
    # Number the distinct keys of both sides together; then the group of a leaf is a range of equal
    # numbers.
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
    weights = _multiply(leaves.stored.weights[leaf], flat.stored.weights[match])
    return schema, np.ascontiguousarray(np.hstack((left[leaf], right[match, depth:]))), weights


def _call_per_leaf(leaves: ZSet, extend: Callable[[Any], Any], new: Schema) -> tuple[Schema, Codes, Codes]:
    schema = Schema(leaves.schema.names + new.names, leaves.schema.types + new.types)
    make = leaves.schema.row_class._make
    count = np.zeros(len(leaves), np.int64)
    below: list[Any] = []
    given: list[Any] = []
    for at, row in enumerate(map(make, leaves.schema.decode_rows(leaves.stored.rows, leaves.interner))):
        try:
            found = extend(row)
            if isinstance(found, type(leaves) | Mapping):
                pairs = list(found.items())
            else:
                pairs = [(each, 1) for each in found]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise UserFunctionError(
                f"the extension failed for the row {shorten(tuple(row))}: {reason}"
            ) from error
        count[at] = len(pairs)
        below += [each for each, _ in pairs]
        given += [weight for _, weight in pairs]
    rows = np.hstack((np.repeat(leaves.stored.rows, count, axis=0), new.encode_rows(below, leaves.interner)))
    weights = _multiply(np.repeat(leaves.stored.weights, count), weight_array(given, len(given)))
    return schema, np.ascontiguousarray(rows), weights


def _multiply(a: Codes, b: Codes) -> Codes:
    if (
        len(a)
        and int(np.abs(a.astype(np.float64)).max()) * int(np.abs(b.astype(np.float64)).max()) > INT64_MAX // 2
    ):
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            if not INT64_MIN <= x * y <= INT64_MAX:
                raise WeightOverflowError(
                    f"the product of the weights {x} and {y} is outside the 64-bit range"
                )
    return a * b
