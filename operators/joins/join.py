"""Join: all pairs of rows with equal keys.

    (A join B)(x . y) = A(x) * B(y)   where key(x) = key(y)

Bilinear, so its incremental form has one term per side (DBSP paper, arXiv 2203.16684, theorem 3.4):

    out = dA join old(B) + new(A) join dB

All operators use this asymmetric convention: a delta joins the new integral of the inputs before it
and the old integral of the inputs after it. Inside a nested scope, a match of the delta at
iteration i with a row of iteration j is emitted at iteration max(i, j); matches of later iterations
wait. Cost: O(min side * log(larger side)) plus the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dbsp import kernels
from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, NATURAL, SECOND_COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import rows_where
from dbsp.data.piece_batch import summed_later
from dbsp.data.run_batch import RunBatch
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate, join_runs, project, register_run
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins import pair_groups
from dbsp.operators.joins.match_budget import MatchBudget
from dbsp.operators.joins.pair_groups import grouped_delta, in_groups
from dbsp.operators.joins.summed_pieces import SummedPieces
from dbsp.operators.linear.project import Project, Projectable
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import arranged, expect_order, key_first, order_of
from dbsp.operators.traces.column_orders import Lowering
from dbsp.parallel import probe_pieces
from dbsp.parallel.packed_part import Piece, packed, row_count
from dbsp.parallel.probe_pieces import in_slices, pays

TimedMatches: TypeAlias = tuple[Codes, Codes, Codes, int, int]
"""Rows, weights, the times of rows that are not ready, how many are ready, and the matches."""

_NO_TIME = np.empty(0, np.int64)


@dataclass(frozen=True)
class Join(Operator):
    """Equi-join on left columns `left_key` and right columns `right_key`, pairwise.

    `columns` chooses the output: v >= 0 is column v of the left, v < 0 column -v - 1 of the right.
    An empty key gives the Cartesian product.
    """

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        return joined_on(self.name, ((left[a], right[b]) for a, b in pairs))

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        left, right = columns
        return [left[v] if v >= 0 else right[-v - 1] for v in self.columns]

    def schema(self, *inputs: Schema) -> Schema:
        left, right = inputs
        check_key_types(self.left_key, self.right_key, left, right)
        return picked_columns(self.columns, self.names, left, right)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        left, right = inputs
        by_left = np.array(key_first(self.left_key, left.arity), np.int64)
        by_right = np.array(key_first(self.right_key, right.arity), np.int64)
        columns = np.array(in_orders(self.columns, by_left, by_right), np.int64)
        key, width = len(self.left_key), right.arity
        null_mismatch = null_mismatch_columns(left, right, zip(self.left_key, self.right_key, strict=True))

        def join(a: Batch, b: Batch) -> Batch:
            rows, weights = project(a.rows, a.weights, by_left)
            if null_mismatch:
                rows, weights = without_null(rows, weights, null_mismatch)
            run = project(b.rows, b.weights, by_right)
            table = np.zeros((1, 3), np.int64)
            register_run(table, 0, *run)
            joined, products, _ = join_runs(rows, weights, key, table, 1, width, columns)
            return Batch(*consolidate(joined, products))

        return join

    @property
    def law(self) -> str:
        return "bilinear"

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        left, right = inputs
        pairs = sorted(zip(self.left_key, self.right_key, strict=True))
        null_mismatch = null_mismatch_columns(left.schema, right.schema, pairs)
        by_left, by_right, realign = shared_key_orders(rewriting, left, right, pairs, null_mismatch)
        a = arranged(rewriting, left, by_left)
        b = arranged(rewriting, right, by_right)
        injective = is_injective(self.columns, left.schema, right.schema, self.right_key)
        columns = in_orders(self.columns, order_of(a), order_of(b))
        return rewriting.add(
            DeltaJoin(len(pairs), columns, self.names, injective, null_mismatch, realign), a, b
        )


def shared_key_orders(
    rewriting: Rewriting,
    left: Stream,
    right: Stream,
    pairs: Sequence[tuple[int, int]],
    null_mismatch: Sequence[int],
) -> tuple[list[int], list[int], tuple[int, ...]]:
    """Return the leading columns of the arrangements of two sides for a join on `pairs`.

    Lowering chooses them so that other readers share the arrangements. The third value has the
    positions of the left key columns in the right key, if the two orders differ.
    """
    by_left, by_right = [p for p, _ in pairs], [p for _, p in pairs]
    if not isinstance(rewriting, Lowering) or null_mismatch or not _is_bijection(pairs):
        return by_left, by_right, ()
    key = len(pairs)
    by_left = list(rewriting.orders.leading(left, by_left))
    by_right = list(rewriting.orders.leading(right, by_right))
    partner = dict(pairs)
    places = tuple(by_right[:key].index(partner[c]) for c in by_left[:key])
    return by_left, by_right, places if places != tuple(range(key)) else ()


def in_orders(
    columns: Sequence[int], by_left: Sequence[int] | Codes, by_right: Sequence[int] | Codes
) -> tuple[int, ...]:
    """Return output columns (see `Join`) for sides whose columns are in these orders."""
    in_left, in_right = np.argsort(by_left), np.argsort(by_right)
    return tuple(int(in_left[v]) if v >= 0 else -int(in_right[-v - 1]) - 1 for v in columns)


@dataclass(frozen=True)
class DeltaJoin(Projectable):
    """The incremental form: both inputs are arrangements that start with the `key` columns.

    `columns` chooses the output as in `Join`, by the columns of the arrangements; `injective`
    states that different pairs of rows yield different output rows.
    """

    input_counts = TWO_INPUTS

    key: int = field(metadata=NATURAL)
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]
    injective: bool
    null_mismatch: tuple[int, ...] = ()
    """Key columns that are optional on one side only: the code of None matches nothing there."""
    realign: tuple[int, ...] = ()
    """The positions of the left key columns in the right key, if the two orders differ."""

    @property
    def monotone(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "Join" if self.key else "Product"

    @property
    def label(self) -> str:
        return f"{self.name} -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        partners = self.realign or tuple(range(self.key))
        return joined_on(self.name, ((left[a], right[b]) for a, b in enumerate(partners)))

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        left, right = columns
        return [left[v] if v >= 0 else right[-v - 1] for v in self.columns]

    def schema(self, *inputs: Schema) -> Schema:
        left, right = inputs
        if self.key > min(left.arity, right.arity):
            raise SchemaError(
                f"expected a key of at most {min(left.arity, right.arity)} columns, got {self.key}",
                code="wrong-arity",
            )
        check_key_positions(self.key, self.null_mismatch, self.realign, left, right)
        return picked_columns(self.columns, self.names, left, right)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        for stream in inputs:
            expect_order(stream, ())

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.injective and all(inputs)

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        """Return a join that emits only the columns of the projection."""
        columns = tuple(self.columns[c] for c in project.columns)
        joined = replace(
            self, columns=columns, names=project.names, injective=self.injective and project.injective
        )
        return rewriting.add(joined, *stream.node.inputs)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        left, right = expect_arranged(node, sources)
        # For a right delta, the right columns are those of the delta and the left those of the
        # runs.
        from_right = [-v - 1 for v in self.columns]
        columns, turned = np.array(self.columns, np.int64), np.array(from_right, np.int64)
        if self.realign:
            return RealignedJoinStep(
                left, right, self.key, columns, turned, scope, self.injective, self.realign
            )
        if self.null_mismatch:
            return MixedJoinStep(
                left, right, self.key, columns, turned, scope, self.injective, self.null_mismatch
            )
        return JoinStep(left, right, self.key, columns, turned, scope, self.injective)


def joined_on(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Return the caption of a join: its name, and the pairs of columns that are equal.

    >>> joined_on("Join", [("y", "y"), ("a", "b")])
    'Join on y, a = b'
    """
    shown = [left if left == right else f"{left} = {right}" for left, right in pairs]
    return f"{name} on {', '.join(shown)}" if shown else name


def _is_bijection(pairs: Sequence[tuple[int, int]]) -> bool:
    return len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})


def check_key_types(left_key: Sequence[int], right_key: Sequence[int], left: Schema, right: Schema) -> None:
    """Raise SchemaError unless each pair of key columns has the same type."""
    if len(left_key) != len(right_key):
        raise SchemaError(
            f"expected keys of the same number of columns, got {left_key} and {right_key}", code="wrong-arity"
        )
    for a, b in zip(left_key, right_key, strict=True):
        if left.types[a].coding != right.types[b].coding:
            raise SchemaError(
                f"cannot join '{left.names[a]}: {left.types[a]}' with "
                f"'{right.names[b]}: {right.types[b]}': the types differ",
                code="invalid-join-key",
            )


def check_key_positions(
    key: int, null_mismatch: Sequence[int], realign: Sequence[int], left: Schema, right: Schema
) -> None:
    """Raise SchemaError unless two arrangements fit a join on their first `key` columns."""
    columns = tuple(range(key))
    if not set(null_mismatch) <= set(columns) or sorted(realign or columns) != list(columns):
        raise SchemaError(
            f"expected numbers of the {key} key columns, got {null_mismatch} and {realign}",
            code="unknown-column",
        )
    check_key_types(columns, realign or columns, left, right)


def null_mismatch_columns(left: Schema, right: Schema, pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return which pairs of key columns are int on one side and optional int on the other."""
    types = [(left.types[a], right.types[b]) for a, b in pairs]
    return tuple(c for c, (a, b) in enumerate(types) if a.kind == "int" and a.nullable != b.nullable)


def is_injective(columns: Sequence[int], left: Schema, right: Schema, right_key: Sequence[int]) -> bool:
    """Whether different pairs of rows differ in these columns."""
    taken = set(columns)
    return taken.issuperset(range(left.arity)) and all(
        -c - 1 in taken or c in right_key for c in range(right.arity)
    )


def picked_columns(columns: Sequence[int], names: tuple[str, ...], left: Schema, right: Schema) -> Schema:
    """Return the schema of the chosen columns (see `Join`)."""
    return Schema(names, tuple(left.types[v] if v >= 0 else right.types[-v - 1] for v in columns))


class JoinStep(AgendaStep):
    __slots__ = (
        "_agenda",
        "_budget",
        "_from_left",
        "_from_right",
        "_groups",
        "_injective",
        "_key",
        "_left",
        "_left_width",
        "_right",
        "_right_width",
        "_scope",
    )

    quiet = True

    kernel: ClassVar[str] = "join_runs"
    timed_kernel: ClassVar[str] = "join_timed_runs"
    """The names of the kernels that join a delta with runs; the second is for runs that keep
    iterations. `dbsp.kernels` has the compiled ones as soon as there are any."""

    adds_pairs: ClassVar[bool] = True
    """Whether `join_by_groups` finds the same matches as these kernels."""

    def __init__(
        self,
        left: Arranged,
        right: Arranged,
        key: int,
        from_left: Codes,
        from_right: Codes,
        scope: StepScope,
        injective: bool = False,
    ) -> None:
        super().__init__()
        self._left = left
        self._right = right
        self._key = key
        self._from_left = from_left
        self._from_right = from_right
        self._left_width = left.node.schema.arity + left.coordinates
        self._right_width = right.node.schema.arity + right.coordinates
        self._scope = scope
        self._agenda = Agenda(scope)
        self._budget = scope.shared(MatchBudget)
        self._injective = injective
        self._groups = self.adds_pairs and not injective
        """Whether pairs of a large delta may be equal, and can be added up by groups."""
        expect_calls(getattr(kernels, self.kernel))
        if scope.nested:  # its first deletion can restart it with iterations
            expect_calls(getattr(kernels, self.timed_kernel))
        if self._groups:
            expect_calls(kernels.join_by_groups)

    def step(self) -> None:
        self.out = None  # release the latest delta before the next one is computed
        left, right = self._left, self._right
        parts: list[Piece] = [*self._agenda.take()] if self._scope.depth else []
        if left.out is not None and right.before:
            self._probe(parts, left.out, right, right.before, self._right_width, self._from_left)
        if right.out is not None and left.count:
            self._probe(parts, right.out, left, left.count, self._left_width, self._from_right)
        self.out = summed_later(parts)

    def _probe_arguments(self, delta: Batch, from_left: bool) -> tuple[Any, ...]:
        """Return the leading arguments of the kernels: the sorted delta of one side, and the
        key."""
        return delta.rows, delta.weights, self._key

    def _probe(
        self,
        parts: list[Piece],
        delta: Batch,
        side: Arranged,
        runs: int,
        width: int,
        columns: Codes,
    ) -> None:
        """Join one side's delta with the first `runs` runs of the other."""
        # Both sides may be the same arrangement, so the columns identify the side of the delta.
        from_left = columns is self._from_left
        table, coordinates = side.table, side.coordinates
        if isinstance(delta, RunBatch) and len(delta) >= probe_pieces.LARGE:
            # Its rows have 64 bits in the part that a piece reads only.
            self._probe_in_pieces(
                parts,
                lambda part: self._probe_arguments(delta.part(part), from_left),
                len(delta),
                table,
                runs,
                width,
                columns,
                coordinates,
            )
            return
        arguments = self._probe_arguments(delta, from_left)
        size = len(arguments[0])
        if pays(size) or (self._groups and size >= pair_groups.FEW):
            self._probe_in_pieces(
                parts,
                lambda part: [one[part] if isinstance(one, np.ndarray) else one for one in arguments],
                size,
                table,
                runs,
                width,
                columns,
                coordinates,
            )
            return
        if coordinates == 0:
            join = getattr(kernels, self.kernel)
            rows, weights, matches = join(*arguments, table, runs, width, columns)
            ready = len(weights)
        else:
            join = getattr(kernels, self.timed_kernel)
            rows, weights, times, ready, matches = join(
                *arguments, table, runs, width, columns, self._scope.now, coordinates
            )
            if ready < len(weights):
                self._agenda.put(rows[ready:], weights[ready:], times[ready:])
                rows, weights = rows[:ready], weights[:ready]
        if matches:
            self._budget.spend(matches)
        if ready:
            parts.append((rows, weights))

    def _probe_in_pieces(
        self,
        parts: list[Piece],
        arguments: Callable[[slice], Sequence[Any]],
        size: int,
        table: Codes,
        runs: int,
        width: int,
        columns: Codes,
        coordinates: int,
    ) -> None:
        """Join pieces of a delta of this size; several threads do so if it is large.

        `arguments` returns the leading arguments of the kernels for a piece.
        """
        now = self._scope.now if coordinates else _NO_TIME
        grouped = None
        if self._groups:
            grouped = grouped_delta(arguments, size, table, runs, width, columns, now, coordinates)
        summed = SummedPieces(not self._injective and grouped is None)

        def joined(part: Sequence[Any]) -> tuple[Piece, tuple[Codes, Codes, Codes] | None, int]:
            rows, weights, times, ready, matches = join(*part, table, runs, width, columns, now, coordinates)
            later = None
            if ready < len(weights):
                later = rows[ready:], weights[ready:], times[ready:]
                rows, weights = rows[:ready], weights[:ready]
            return packed(*summed.add(rows, weights)), later, matches

        if grouped is None:
            join = self._join_pairs
            found = in_slices(size, lambda part: joined(arguments(part)))
        else:
            join = self._join_by_groups
            rows, weights, key = grouped
            found = in_groups(rows, weights, columns[columns >= 0], lambda *part: joined((*part, key)))
        matches = 0
        for piece, later, count in found:
            if later is not None:
                self._agenda.put(*later)
            if row_count([piece]):
                parts.append(piece)
            matches += count
        if matches:
            self._budget.spend(matches)

    def _join_by_groups(self, *arguments: Any) -> TimedMatches:
        found = kernels.join_by_groups(*arguments)
        return found if found[-1] >= 0 else self._join_pairs(*arguments)

    def _join_pairs(self, *arguments: Any) -> TimedMatches:
        """Return the matches with their times, for the arguments of a kernel with times."""
        *others, _, coordinates = arguments
        if coordinates:
            return getattr(kernels, self.timed_kernel)(*arguments)  # type: ignore[no-any-return]
        rows, weights, matches = getattr(kernels, self.kernel)(*others)
        return rows, weights, rows[:0], len(weights), matches


class RealignedJoinStep(JoinStep):
    """A join of sides with different key orders: each delta is sorted in the order of the other
    side."""

    __slots__ = ("_to_left", "_to_right")

    def __init__(
        self,
        left: Arranged,
        right: Arranged,
        key: int,
        from_left: Codes,
        from_right: Codes,
        scope: StepScope,
        injective: bool,
        realign: Sequence[int],
    ) -> None:
        # to_right[i]: the left column that matches the i-th key column in the right order.
        self._to_right = _permutation(np.argsort(realign), left.node.schema.arity)
        self._to_left = _permutation(np.array(realign, np.int64), right.node.schema.arity)
        from_left, from_right = _moved(from_left, self._to_right), _moved(from_right, self._to_left)
        super().__init__(left, right, key, from_left, from_right, scope, injective)

    def _probe_arguments(self, delta: Batch, from_left: bool) -> tuple[Any, ...]:
        ordered = delta.rearranged(self._to_right if from_left else self._to_left)
        return ordered.rows, ordered.weights, self._key


def _permutation(key: Codes, arity: int) -> Codes:
    return np.concatenate((key, np.arange(len(key), arity)))


def _moved(columns: Codes, order: Codes) -> Codes:
    """Return output columns for a delta whose columns were permuted by `order`."""
    place = np.argsort(order)
    return np.array([place[v] if v >= 0 else v for v in columns], np.int64)


class MixedJoinStep(JoinStep):
    """A join of an int with an optional int: rows with None are dropped from each delta."""

    __slots__ = ("_null_mismatch",)

    def __init__(
        self,
        left: Arranged,
        right: Arranged,
        key: int,
        from_left: Codes,
        from_right: Codes,
        scope: StepScope,
        injective: bool,
        null_mismatch: Sequence[int],
    ) -> None:
        super().__init__(left, right, key, from_left, from_right, scope, injective)
        self._null_mismatch = tuple(null_mismatch)

    def _probe_arguments(self, delta: Batch, from_left: bool) -> tuple[Any, ...]:
        return *without_null(delta.rows, delta.weights, self._null_mismatch), self._key


def without_null(rows: Codes, weights: Codes, columns: Sequence[int]) -> tuple[Codes, Codes]:
    """Return the rows that have None in none of the columns."""
    keep = (rows[:, columns] != NULL).all(axis=1)
    return rows_where(keep, rows, weights)
