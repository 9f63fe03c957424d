"""Run one delta term of a multi-way join: actions on batches of prefixes (see `delta_term`).

A prefix is a row of bound variables with a weight; inside nested scopes, the last columns hold
the least upper bound of the times of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.errors import InvariantError, expect_type
from dbsp.expressions import Expression, bind
from dbsp.kernels import extend_by_levels
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.delta_term import (
    Action,
    AtomTerm,
    BindVariable,
    ExtendPrefix,
    RequireEqual,
    TestCondition,
    TestLimit,
    UseAtom,
    variables_of,
)
from dbsp.operators.joins.merged_runs import MergedRuns
from dbsp.operators.joins.multiway_definition import constant_code
from dbsp.operators.joins.multiway_plan import PlannedLevel, PlannedUse, written_plan
from dbsp.operators.joins.term_rows import TermRows
from dbsp.operators.joins.value_limits import Limit, literal_code
from dbsp.parallel.probe_pieces import in_slices, pays

if TYPE_CHECKING:
    from dbsp.operators.joins.multiway_join import MultiwayJoin

CHUNK = 1 << 16
"""The number of delta rows per chunk, if prefixes are stored between two actions."""

COST = 16
"""A prefix takes about as long as so many searches of a row, or longer."""

Prefixes: TypeAlias = tuple[Codes, Codes]


@dataclass(frozen=True)
class AtomReader:
    """How a term reads an atom: the step, and the column order of its rows."""

    terms: tuple[AtomTerm, ...]
    source: Step
    order: tuple[int, ...]
    new: bool
    """Whether the term reads the integral that includes the delta of this step."""


class TermStep:
    """The term of one atom, prepared to run."""

    __slots__ = (
        "_actions",
        "_atom",
        "_changed",
        "_chunked",
        "_extending",
        "_none",
        "_opening",
        "delta",
        "levels",
    )

    def __init__(
        self,
        join: MultiwayJoin,
        schemas: Sequence[Schema],
        start: int,
        actions: Sequence[Action],
        readings: Sequence[AtomReader],
        scope: StepScope,
    ) -> None:
        self.delta = readings[start].source
        self._atom = start
        self._changed = np.zeros(1, np.int64)
        writer = _Writer(join, schemas, readings, scope)
        self._opening, names = writer.opening(start)
        self._actions = writer.actions(actions, names)
        self._extending = [action for action in self._actions if isinstance(action, Extending)]
        self._chunked = len(self._extending) > 1
        nothing = Batch.empty(len(join.columns) + scope.depth)
        self._none = nothing.rows, nothing.weights
        self.levels = tuple(
            level for action in actions if isinstance(action, ExtendPrefix) for level in action.levels
        )
        """The variables that the term binds, in order."""

    @property
    def rows(self) -> TermRows:
        """The rows and prefixes that the term has processed so far."""
        prefixes = [int(count) for action in self._extending for count in action.reached[1:]]
        return TermRows(self._atom, int(self._changed[0]), tuple(zip(self.levels, prefixes, strict=True)))

    @property
    def found(self) -> int:
        """The number of matches so far, before equal rows are added up and conditions tested."""
        return int(self._extending[-1].reached[-1]) if self._extending else int(self._changed[0])

    @property
    def reads(self) -> tuple[Step, ...]:
        """The step of the delta, and the arrangements that the term reads."""
        return (self.delta, *(side for action in self._extending for side, _ in action.sides))

    @property
    def only_extends(self) -> bool:
        """Whether the term consists of one `ExtendPrefix`, without a filter of its delta."""
        return self._opening is None and self._extending == self._actions

    def count_into(self, counts: Codes) -> Extending:
        """Count the delta rows and the prefixes of each level in this array from now on.

        Returns the only action of the term.
        """
        (extending,) = self._extending
        counts[0] = self._changed[0]
        counts[1:] = extending.reached
        self._changed, extending.reached = counts[:1], counts[1:]
        return extending

    def matches(self, delta: Batch, merged: MergedRuns | None) -> Iterable[Prefixes]:
        """Return the result rows for a delta; in a scope the last columns hold the time.

        `merged` are the merged runs of the step, None to read the runs as they are.
        """
        rows, weights = delta.rows, delta.weights
        self._changed[0] += len(weights)
        for action in self._extending:
            action.find_tables(merged, len(weights))
        if self._opening is not None:
            rows, weights = self._opening(rows, weights)
        starts = range(0, len(weights), CHUNK) if self._chunked and len(weights) > CHUNK else ()
        chunks = [(rows[at : at + CHUNK], weights[at : at + CHUNK]) for at in starts] or [(rows, weights)]
        first = self._actions[0]
        if pays(COST * len(weights)) and isinstance(first, Extending):
            extended = (part for chunk in chunks for part in first.in_pieces(*chunk))
            return (self._through(*part, self._actions[1:]) for part in extended)
        return (self._through(*chunk, self._actions) for chunk in chunks)

    def _through(self, rows: Codes, weights: Codes, actions: Sequence[Callable[..., Prefixes]]) -> Prefixes:
        for action in actions:
            if not len(weights):
                return self._none
            rows, weights = action(rows, weights)
        return (rows, weights) if len(weights) else self._none


class _Writer:
    """Compiles actions on variables into functions of arrays."""

    def __init__(
        self, join: MultiwayJoin, schemas: Sequence[Schema], readings: Sequence[AtomReader], scope: StepScope
    ) -> None:
        self._join = join
        self._schemas = schemas
        self._readings = readings
        self._scope = scope
        self._bindings = join.bindings(*schemas)
        self._null_mismatch = join.null_mismatch(*schemas)

    def opening(self, start: int) -> tuple[Callable[[Codes, Codes], Prefixes] | None, tuple[str, ...]]:
        """Return the filter of delta rows by their own atom, or None, and the names of its
        columns."""
        reading = self._readings[start]
        terms = [reading.terms[c] for c in reading.order]
        names = variables_of(terms)
        constants = [
            (c, constant_code(term, self._schemas[start], self._scope.interner))
            for c, term in enumerate(terms)
            if isinstance(term, Expression)
        ]
        # terms.index does not work: == between a constant and a name builds an expression.
        first: dict[str, int] = {}
        places = [(first.setdefault(term, c), c) for c, term in enumerate(terms) if isinstance(term, str)]
        equal = [(known, c) for known, c in places if known != c]
        null_mismatch = [
            c for c, term in enumerate(terms) if isinstance(term, str) and term in self._null_mismatch
        ]
        taken = [first[name] for name in names]

        def open_(rows: Codes, weights: Codes) -> Prefixes:
            keep = np.ones(len(weights), np.bool_)
            for column, code in constants:
                keep &= rows[:, column] == code
            for first, second in equal:
                keep &= rows[:, first] == rows[:, second]
            for column in null_mismatch:
                keep &= rows[:, column] != NULL
            rows, weights = rows_where(keep, rows, weights)
            return rows.take(taken, 1), weights

        if not constants and not equal and not null_mismatch:
            return None, names
        return open_, names

    def actions(self, actions: Sequence[Action], names: tuple[str, ...]) -> list[Callable[..., Prefixes]]:
        """Return functions to call in order; the last one returns the columns of the result."""
        functions: list[Callable[..., Prefixes]] = []
        timed = False
        for number, action in enumerate(actions):
            rest = actions[number + 1 :]
            match action:
                case ExtendPrefix():
                    needed = self._needed_columns(rest, (*names, *action.levels))
                    functions.append(self._extending(action, names, needed))
                    names, timed = needed, True
                case BindVariable(variable, value):
                    functions.append(self._bind_variable(names, variable, value, timed))
                    names = (*names, variable)
                case RequireEqual(variable, value):
                    functions.append(self._require_equal(names, variable, value))
                case TestCondition(condition):
                    functions.append(self._test_condition(names, condition))
                case TestLimit(limit):
                    functions.append(self._test_limit(names, limit))
        if names != self._join.columns or not timed:
            functions.append(self._select_columns(names, timed))
        return functions

    def _needed_columns(self, rest: Sequence[Action], bound: tuple[str, ...]) -> tuple[str, ...]:
        """Return the bound variables that `rest` needs; those of the result if `rest` is empty."""
        columns = self._join.columns
        if not rest:
            return columns
        needed = set(columns)
        for action in rest:
            match action:
                case ExtendPrefix(uses=uses, bounds=bounds):
                    for use in uses:
                        needed.update(variables_of(self._join.atoms[use.atom]))
                    sources = (bound.source for level in bounds for bound in level)
                    needed.update(source for source in sources if isinstance(source, str))
                case BindVariable(_, value):
                    needed.update(value.columns)
                case RequireEqual(variable, value):
                    needed.update((variable, *value.columns))
                case TestCondition(condition):
                    needed.update(condition.columns)
                case TestLimit(limit):
                    needed.update(limit.columns)
        return tuple(name for name in bound if name in needed)

    def _bind_variable(
        self, names: tuple[str, ...], variable: str, value: Expression, timed: bool
    ) -> Callable[[Codes, Codes], Prefixes]:
        bound = bind(value, self._select(names))
        interner, at = self._scope.interner, len(names)
        null_mismatch = variable in self._null_mismatch

        def let(rows: Codes, weights: Codes) -> Prefixes:
            codes = bound.evaluate(rows[:, :at], interner)
            rows = np.insert(rows, at, codes, axis=1)
            if null_mismatch:
                keep = codes != NULL
                rows, weights = rows_where(keep, rows, weights)
            return rows, weights

        return let

    def _require_equal(
        self, names: tuple[str, ...], variable: str, value: Expression
    ) -> Callable[[Codes, Codes], Prefixes]:
        bound = bind(value, self._select(names))
        interner, at, place = self._scope.interner, len(names), names.index(variable)
        null_mismatch = variable in self._null_mismatch

        def same(rows: Codes, weights: Codes) -> Prefixes:
            codes = bound.evaluate(rows[:, :at], interner)
            keep = rows[:, place] == codes
            if null_mismatch:
                keep &= codes != NULL
            return rows_where(keep, rows, weights)

        return same

    def _test_condition(
        self, names: tuple[str, ...], condition: Expression
    ) -> Callable[[Codes, Codes], Prefixes]:
        bound = bind(condition, self._select(names))
        interner, at = self._scope.interner, len(names)

        def test(rows: Codes, weights: Codes) -> Prefixes:
            keep = bound.mask(rows[:, :at], interner)
            return rows_where(keep, rows, weights)

        return test

    def _test_limit(self, names: tuple[str, ...], limit: Limit) -> Callable[[Codes, Codes], Prefixes]:
        interner = self._scope.interner

        def test(rows: Codes, weights: Codes) -> Prefixes:
            keep = limit.holds(rows, names, interner)
            return rows_where(keep, rows, weights)

        return test

    def _select_columns(self, names: tuple[str, ...], timed: bool) -> Callable[[Codes, Codes], Prefixes]:
        columns = [names.index(name) for name in self._join.columns]
        columns += [len(names) + d for d in range(self._scope.depth if timed else 0)]
        now = self._scope.now

        def take(rows: Codes, weights: Codes) -> Prefixes:
            rows = rows[:, columns]
            if not timed and len(now):
                rows = np.hstack((rows, np.broadcast_to(now, (len(rows), len(now)))))
            return np.ascontiguousarray(rows), weights

        return take

    def _extending(self, extend: ExtendPrefix, names: tuple[str, ...], needed: tuple[str, ...]) -> Extending:
        slots = {name: slot for slot, name in enumerate((*names, *extend.levels))}
        values: dict[int, int] = {}
        uses, sides = [], []
        for use in extend.uses:
            reading = self._readings[use.atom]
            what = "an arrangement of an atom that a term extends by"
            source = expect_type(reading.source, Arranged, what)  # type: ignore[type-abstract]
            order = _within(reading.order, use)
            own = []
            for column in order:
                term = reading.terms[column]
                if isinstance(term, str):
                    own.append(slots[term])
                else:
                    if term is None:
                        raise InvariantError("expected a variable or a constant to extend by, got no term")
                    slot = len(slots) + len(values)
                    schema = self._schemas[use.atom]
                    values[slot] = constant_code(term, schema, self._scope.interner)
                    own.append(slot)
            counts = accumulate(len(columns) for columns in use.bound)
            coordinates = source.coordinates
            width = len(reading.order) + coordinates
            uses.append(PlannedUse(width, coordinates, tuple(own), tuple(counts), use.complete))
            sides.append((source, reading.new))
        levels = []
        for name, bounds in zip(extend.levels, extend.bounds, strict=True):
            limits = []
            for bound in bounds:
                if isinstance(bound.source, str):
                    slot = slots[bound.source]
                else:
                    slot = len(slots) + len(values)
                    values[slot] = literal_code(bound.source, self._scope.interner)
                limits.append((bound.kind, slot, bound.offset, int(bound.strict)))
            levels.append(PlannedLevel(slots[name], name in self._null_mismatch, tuple(limits)))
        plan = written_plan(
            [slots[name] for name in names],
            [slots[name] for name in needed],
            values,
            len(slots) + len(values),
            levels,
            uses,
            self._scope.depth,
        )
        return Extending(plan, sides, self._scope.now)

    def _select(self, names: Sequence[str]) -> Schema:
        return self._bindings.select(self._bindings.indices(names))


def _within(order: Sequence[int], use: UseAtom) -> list[int]:
    """Return the columns that a use reads, in the order of its arrangement."""
    taken = list(order[: sum(map(len, use.bound))])
    at = 0
    for columns in use.bound:
        if set(taken[at : at + len(columns)]) != set(columns):
            raise InvariantError(f"expected an arrangement that binds columns {columns} next, got {order}")
        at += len(columns)
    return taken


class Extending:
    """Binds the variables of one `ExtendPrefix`; `sides` are its arrangements, new or old."""

    __slots__ = ("_has_runs", "_now", "_seen", "_tables", "plan", "reached", "sides")

    def __init__(self, plan: Codes, sides: Sequence[tuple[Arranged, bool]], now: Codes) -> None:
        self.plan = plan
        """The plan for the kernel (see `dbsp.kernels.multiway`)."""
        self.sides = tuple(sides)
        """The arrangement of each use, and whether the term reads its delta."""
        self._now = now
        self._tables = np.zeros(2 * len(sides), np.int64)
        self._seen: list[Codes | None] = [None] * len(sides)
        self._has_runs = False
        """Whether all uses have runs."""
        self.reached = np.zeros(int(plan[2]) + 1, np.int64)
        """The number of prefixes bound up to each level so far."""

    def __call__(self, rows: Codes, weights: Codes) -> Prefixes:
        if not self._has_runs:
            return rows[:0], weights[:0]
        return extend_by_levels(rows, weights, self.plan, self._tables, self._now, self.reached)

    def in_pieces(self, rows: Codes, weights: Codes) -> list[Prefixes]:
        """Bind the variables for pieces of the prefixes; several threads do so."""
        if not self._has_runs:
            return []
        reached: list[Codes] = []

        def extend(part: slice) -> Prefixes:
            counts = np.zeros_like(self.reached)
            reached.append(counts)
            return extend_by_levels(rows[part], weights[part], self.plan, self._tables, self._now, counts)

        extended = in_slices(len(weights), extend, COST)
        self.reached += np.sum(reached, axis=0)
        return extended

    def find_tables(self, merged: MergedRuns | None, changed: int) -> None:
        """Find the run tables for a delta of so many rows."""
        tables = self._tables
        self._has_runs = all(side.count if new else side.before for side, new in self.sides)
        if not self._has_runs:
            return
        for u, (side, new) in enumerate(self.sides):
            runs = side.count if new else side.before
            table = None if merged is None else merged.table_of(side, runs, changed)
            if table is None:
                table = side.table
            else:
                runs = 1
            if table is not self._seen[u]:
                self._seen[u] = None  # an interrupt may come before the address is written
                tables[2 * u] = table.ctypes.data
                self._seen[u] = table
            tables[2 * u + 1] = runs
