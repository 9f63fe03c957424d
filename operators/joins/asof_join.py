"""As-of join: each left row with the latest right row up to the time of the left row.

    (A asof B)(x . y) = A(x)   for the latest row y of B with key(y) = key(x), y.right <= x.left

B counts as a set: a row is present while its weight is positive. Among several rows with the latest
time, the row with the greatest values in its other columns wins, in column order (strings by string
order).

Incremental form at the top level: a change of B at time t affects the rows X of A from t until the
next time in B. These rows and the changes of A are matched before and after the tick:

    out = (X + dA) asof new(B)  -  X asof old(B)        X = old(A) in the intervals that dB starts

Both sides are kept ordered by (key, time). Cost: O(delta * log state), plus the rows of A whose
partner changes, plus the rows of B with the same time. Inside nested scopes, the join is recomputed
from scratch at every time with a change: O(rows of both sides).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, SECOND_COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.masks import any_true, rows_where
from dbsp.data.plain_codes import NAN_CODE
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.data.value_order import rank_codes
from dbsp.errors import CircuitError, SchemaError, ValueOutOfRangeError
from dbsp.kernels import gather, gather_bands, nearest_present, project, register_run
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.join import check_key_types, in_orders, joined_on, null_mismatch_columns
from dbsp.operators.time.nested import Nested
from dbsp.operators.traces.arrange import arranged, expect_order, in_own_order, key_first, order_of
from dbsp.parallel.range_sort import consolidate

_ORDERED = ("int", "float", "decimal", "date", "time", "timestamp", "timestamptz", "duration")


@dataclass(frozen=True)
class AsofJoin(Operator):
    """As-of join by the key columns and the times `left` and `right`.

    `columns` chooses the output as in `Join`. With `outer`, left rows without a partner are kept,
    with None in the columns of the right side.
    """

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)
    left: int = field(metadata=COLUMN)
    right: int = field(metadata=SECOND_COLUMN)
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]
    outer: bool = False

    @property
    def label(self) -> str:
        return f"AsofJoin -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        latest = f"{left[self.left]} from the latest {right[self.right]}"
        return f"{joined_on(self.name, ((left[a], right[b]) for a, b in pairs))}, {latest}"

    @property
    def law(self) -> str:
        return "aggregate"

    def schema(self, *inputs: Schema) -> Schema:
        a, b = inputs
        check_key_types(self.left_key, self.right_key, a, b)
        x, y = a.types[self.left], b.types[self.right]
        if x.coding != y.coding or x.kind not in _ORDERED:
            raise SchemaError(
                "expected two columns of the same ordered type, such as int, float or timestamp, got "
                f"'{a.names[self.left]}: {x}' and '{b.names[self.right]}: {y}'",
                code="invalid-join-key",
            )
        of_right = [type_.optional() if self.outer else type_ for type_ in b.types]
        return Schema(self.names, tuple(a.types[v] if v >= 0 else of_right[-v - 1] for v in self.columns))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        a_schema, b_schema = inputs
        pairs = list(zip(self.left_key, self.right_key, strict=True))
        by_left = key_first((*self.left_key, self.left), a_schema.arity)
        by_right = key_first((*self.right_key, self.right), b_schema.arity)
        matching = self.matching(pairs, a_schema, b_schema, by_left, by_right, interner)

        def join(a: Batch, b: Batch) -> Batch:
            table = np.zeros((1, 3), np.int64)
            run = project(b.rows, b.weights, np.array(by_right, np.int64))
            register_run(table, 0, *run)
            return matching.of(a.projected(np.array(by_left, np.int64)), table, 1)

        return join

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        if any(stream.graph.parent is not None for stream in inputs):
            return rewriting.add(Nested(self), *inputs)
        left, right = inputs
        pairs = sorted(zip(self.left_key, self.right_key, strict=True))
        a = arranged(rewriting, left, [*(p for p, _ in pairs), self.left])
        b = arranged(rewriting, right, [*(p for _, p in pairs), self.right])
        return rewriting.add(DeltaAsofJoin(self, order_of(a), order_of(b)), a, b)

    def matching(
        self,
        pairs: Sequence[tuple[int, int]],
        a: Schema,
        b: Schema,
        by_left: Sequence[int],
        by_right: Sequence[int],
        interner: Interner,
    ) -> Matching:
        """Return the matching of rows in the order `by_left` with runs in the order `by_right`."""
        columns = in_orders(self.columns, by_left, by_right)
        null_mismatch = null_mismatch_columns(a, b, pairs)
        return Matching(
            len(pairs), columns, a.select(by_left), b.select(by_right), null_mismatch, self.outer, interner
        )


@dataclass(frozen=True)
class DeltaAsofJoin(Operator):
    """The incremental form, over arrangements by (key, time) in the given column orders."""

    input_counts = TWO_INPUTS

    join: AsofJoin
    by_left: tuple[int, ...]
    by_right: tuple[int, ...]

    @property
    def name(self) -> str:
        return "AsofJoin"

    @property
    def label(self) -> str:
        return self.join.label

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        sides = zip(columns, (self.by_left, self.by_right), strict=True)
        return self.join.caption([[names[order.index(c)] for c in sorted(order)] for names, order in sides])

    def schema(self, *inputs: Schema) -> Schema:
        return self.join.checked_schema(*self._own(inputs))

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        join = self.join
        pairs = sorted(zip(join.left_key, join.right_key, strict=True))
        leading = (*(a for a, _ in pairs), join.left), (*(b for _, b in pairs), join.right)
        orders = tuple(map(expect_order, inputs, leading))
        if orders != (self.by_left, self.by_right) or graph.parent is not None:
            raise CircuitError(
                f"expected arrangements by {self.by_left} and {self.by_right} outside of scopes, "
                f"got {orders}",
                code="invalid-circuit-file",
            )

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        left, right = expect_arranged(node, sources)
        join = self.join
        a, b = self._own([stream.schema for stream in node.inputs])
        pairs = sorted(zip(join.left_key, join.right_key, strict=True))
        matching = join.matching(pairs, a, b, self.by_left, self.by_right, scope.interner)
        return AsofJoinStep(left, right, matching)

    def _own(self, inputs: Sequence[Schema]) -> tuple[Schema, Schema]:
        """Return the schemas of the two sides in their original column orders."""
        a, b = inputs
        return in_own_order(a, self.by_left), in_own_order(b, self.by_right)


class Matching:
    """Computes X asof B, for sorted rows X and runs of B that begin with (key, time)."""

    def __init__(
        self,
        key: int,
        columns: Sequence[int],
        left: Schema,
        right: Schema,
        null_mismatch: Sequence[int],
        outer: bool,
        interner: Interner,
    ) -> None:
        self.key = key
        self.left = left
        self.right = right
        self._columns = columns
        self._null_mismatch = tuple(null_mismatch)
        self._outer = outer
        self._interner = interner
        self._prefix = np.arange(key + 1)
        # None is not a time, so in an optional column no time has its code.
        self.least = INT64_MIN + 1 if right.types[key].nullable else INT64_MIN
        self._narrow = [c for c, type_ in enumerate(right.types) if type_ == INT] if outer else []

    def of(self, rows: Batch, table: Codes, runs: int) -> Batch:
        """Return every row with its partner in the first `runs` runs."""
        if not len(rows):  # as before a tick that changes the left side only
            return Batch.empty(len(self._columns))
        matchable = self._matchable(rows.rows)
        probes = rows.rows.compress(matchable, 0)
        prefixes, _ = project(probes, np.ones(len(probes), np.int64), self._prefix)
        found, times = nearest_present(prefixes, self.key, self.least, table, runs, self.right.arity, False)
        matched, times = rows_where(found, prefixes, times)
        partners = self._latest(matched, times, table, runs)
        # Map each row to its prefix, and the prefix to its partner; -1 means no partner.
        partner_of_prefix = np.full(len(prefixes), -1, np.int64)
        partner_of_prefix[found] = _numbers(np.column_stack((matched[:, : self.key], times)))
        partner = np.full(len(rows), -1, np.int64)
        partner[matchable] = partner_of_prefix[_numbers(probes[:, : self.key + 1])]
        kept = np.ones(len(rows), np.bool_) if self._outer else partner >= 0
        return self._paired(*rows_where(kept, rows.rows, rows.weights), partners, partner[kept])

    def _matchable(self, rows: Codes) -> Mask:
        """Return which rows can have a partner: those whose key and time are not None or NaN."""
        valid = np.ones(len(rows), np.bool_)
        if self._null_mismatch:
            valid &= (rows[:, self._null_mismatch] != NULL).all(axis=1)
        time = self.left.types[self.key]
        if time.nullable:
            valid &= rows[:, self.key] != NULL
        if time.kind == "float":
            valid &= rows[:, self.key] != NAN_CODE
        return valid

    def _latest(self, prefixes: Codes, times: Codes, table: Codes, runs: int) -> Codes:
        """Return one row of B for each distinct (key of the prefix, time), in sorted order."""
        m = self.key + 1
        wanted = np.column_stack((prefixes[:, : self.key], times))
        wanted, _ = project(wanted, np.ones(len(wanted), np.int64), self._prefix)
        rows, weights, _ = gather(wanted, m, table, runs, self.right.arity, runs)
        rows, weights = consolidate(rows, weights)
        rows = rows.compress(weights > 0, 0)
        rest = range(m, self.right.arity)
        ranks = [rank_codes(self.right.types[c], rows[:, c], self._interner) for c in rest]
        order = key_order([_numbers(rows[:, :m]), *ranks])
        rows = rows.take(order, 0)
        last = np.ones(len(rows), np.bool_)
        last[:-1] = (rows[1:, :m] != rows[:-1, :m]).any(axis=1)
        return rows.compress(last, 0)

    def _paired(self, rows: Codes, weights: Codes, partners: Codes, partner: Codes) -> Batch:
        out = np.full((len(rows), len(self._columns)), NULL, np.int64)
        matched = partner >= 0
        for at, v in enumerate(self._columns):
            if v >= 0:
                out[:, at] = rows[:, v]
                continue
            taken = partners[partner[matched], -v - 1]
            if -v - 1 in self._narrow and any_true(taken == NULL):
                raise ValueOutOfRangeError(
                    "-2**63 cannot be stored in an optional int column: it represents None"
                )
            out[matched, at] = taken
        return Batch(*consolidate(out, weights))


class AsofJoinStep(Step):
    __slots__ = ("_left", "_matching", "_right")

    def __init__(self, left: Arranged, right: Arranged, matching: Matching) -> None:
        super().__init__()
        self._left = left
        self._right = right
        self._matching = matching
        expect_calls(gather, gather_bands, nearest_present)

    def step(self) -> None:
        self.out = None
        left, right, matching = self._left, self._right, self._matching
        if left.out is None and right.out is None:
            return
        old = Batch.empty(matching.left.arity)
        if right.out is not None:
            old = self._affected(right.out)
        new = old
        if left.out is not None:
            new = old.plus(left.out)
        after = matching.of(new, right.table, right.count)
        before = matching.of(old, right.table, right.before)
        change = after.plus(before, -1)
        if len(change):
            self.out = change

    def _affected(self, delta: Batch) -> Batch:
        """Return the old left rows whose partner a change of the right side may affect."""
        left, right, matching = self._left, self._right, self._matching
        key = matching.key
        starts, _ = project(delta.rows, np.ones(len(delta), np.int64), np.arange(key + 1))
        starts = starts[starts[:, key] >= matching.least]
        found, times = nearest_present(
            starts, key, matching.least, right.table, right.count, matching.right.arity, True
        )
        ends = starts.copy()
        ends[:, key] = np.where(found, times - 1, INT64_MAX)
        # An interval ends where the next one begins, so that no row is found twice.
        follows = (starts[1:, :key] == starts[:-1, :key]).all(axis=1)
        ends[:-1, key] = np.where(follows, np.minimum(ends[:-1, key], starts[1:, key] - 1), ends[:-1, key])
        rows, weights = gather_bands(starts, ends, left.table, left.before, matching.left.arity)
        return Batch(*consolidate(rows, weights))


def _numbers(rows: Codes) -> Codes:
    """Return, for each of the sorted rows, the number of distinct rows before it."""
    new = np.zeros(len(rows), np.int64)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return np.cumsum(new)
