"""PlacedMultiwayJoin: the multi-way join of relations that are spread over several shards.

Each input is an arrangement that is placed by columns with which its rows are looked up. The
prefixes of the delta terms travel from the shard of one atom to that of the next (see
`exchanged_term`), and the rounds of all terms are one exchange each. On one shard it is the join of
one process.

A shard has its share of each column order of a relation and no more. The work of all shards is
within that of the join in one process, times the number of atoms, and so is the number of values
that travel. Rounds: for each variable the number of its atoms and one more, if no prefix is left
fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.shard_link import SentRows
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, ReportingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch, combine
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.data.value_hashes import ValueHashes
from dbsp.errors import SchemaError, expect_type
from dbsp.expressions import Expression, bind
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.kernels.prefix_ranges import AT_LEAST, AT_MOST
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.delta_term import Action, ExtendPrefix, TestCondition, TestLimit, UseAtom
from dbsp.operators.joins.exchanged_term import (
    Extend,
    Local,
    Meet,
    Move,
    Prefixes,
    Rounds,
    Side,
    Spread,
    Stage,
    Test,
)
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.joins.term_rows import TermRows
from dbsp.operators.joins.value_limits import Bound, literal_code

Filter: TypeAlias = Callable[[Codes, Codes], Prefixes]


@dataclass(frozen=True)
class PlacedMultiwayJoin(DeltaMultiwayJoin):
    """`placed[i][j]` are the columns by which the input is placed from which term i reads atom j.

    For j = i these are the columns of its delta, or None if its rows are on unknown shards.
    """

    placed: tuple[tuple[tuple[int, ...] | None, ...], ...]

    def schema(self, *inputs: Schema) -> Schema:
        found = super().schema(*inputs)
        for start, (places, row) in enumerate(zip(self.places, self.placed, strict=True)):
            for atom, (place, columns) in enumerate(zip(places, row, strict=True)):
                known = columns is not None and set(columns) <= set(range(inputs[place].arity))
                if not known and (columns is not None or atom != start):
                    raise SchemaError(
                        f"expected columns of input {place} by which it is placed, got {columns}",
                        code="wrong-arity",
                    )
        return found

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if scope.link.shards == 1:
            return super().start(node, sources, scope)
        return PlacedJoinStep(node, sources, scope, self)


class PlacedJoinStep(ReportingStep):
    """Runs the rounds of all terms together."""

    __slots__ = ("_link", "_terms", "_where")

    def __init__(
        self, node: Node, sources: Sequence[Step], scope: StepScope, operator: PlacedMultiwayJoin
    ) -> None:
        super().__init__()
        self._link = scope.link
        self._where = node.describe()
        writer = _Writer(node, sources, scope, operator)
        self._terms = [writer.term(start) for start in range(len(operator.join.atoms))]

    def report(self) -> Mapping[str, tuple[TermRows, ...]]:
        return {"join terms": tuple(term.rows for term in self._terms)}

    def step(self) -> None:
        results = []
        running: dict[int, Rounds] = {}
        waiting = {}
        for number, term in enumerate(self._terms):
            rounds = term.run(term.delta.out)
            try:
                waiting[number] = next(rounds)
            except StopIteration as end:
                results.append(end.value)
            else:
                running[number] = rounds
        while running:
            sent: list[SentRows] = []
            for one in waiting.values():
                sent += one.sent
            exchanged = self._link.exchange_all(self._where, sent, [one.rows for one in waiting.values()])
            alive = [any(votes) for votes in zip(*exchanged.numbers, strict=True)]
            at = 0
            for (number, rounds), going in zip(list(running.items()), alive, strict=True):
                count = len(waiting[number].sent)
                received = exchanged.parts[at : at + count]
                at += count
                try:
                    if not going:
                        raise StopIteration
                    waiting[number] = rounds.send(received)
                except StopIteration as end:
                    results.append(end.value)
                    del running[number], waiting[number]
        self.out = combine([found for found in results if found is not None and len(found[1])])


class _Term:
    """The stages of one term."""

    def __init__(
        self,
        atom: int,
        delta: Step,
        opening: Filter,
        width: int,
        stages: Sequence[tuple[Stage, str | None]],
    ) -> None:
        self.delta = delta
        self._atom = atom
        self._opening = opening
        self._width = width
        self._stages = stages
        self._changed = 0
        self._bound = {variable: 0 for _, variable in stages if variable is not None}

    @property
    def rows(self) -> TermRows:
        """The rows and prefixes that the term has processed so far on this shard."""
        return TermRows(self._atom, self._changed, tuple(self._bound.items()))

    def run(self, delta: Batch | None) -> Rounds:
        rows, weights = np.empty((0, self._width), np.int64), np.empty(0, np.int64)
        if delta is not None:
            self._changed += len(delta)
            rows, weights = self._opening(delta.rows, delta.weights)
        for stage, variable in self._stages:
            rows, weights = yield from stage.run(rows, weights)
            if variable is not None:
                self._bound[variable] += len(weights)
        return rows, weights


class _Writer:
    """Writes the stages of the terms."""

    def __init__(
        self, node: Node, sources: Sequence[Step], scope: StepScope, operator: PlacedMultiwayJoin
    ) -> None:
        self._sources = sources
        self._scope = scope
        self._operator = operator
        self._join = operator.join
        inputs = [stream.schema for stream in node.inputs]
        self._schemas = operator.inputs_of(inputs)
        self._actions = self._join.terms(self._schemas)
        self._types = self._join.bindings(*self._schemas)
        self._without_null = self._join.null_mismatch(*self._schemas)
        self._spread = Spread(ValueHashes(scope.interner), scope.link.shards)

    def term(self, start: int) -> _Term:
        """Return the term of an atom."""
        operator = self._operator
        place = operator.places[start][start]
        names = self._variables(start, start)
        columns = operator.placed[start][start]
        self._placed = None if columns is None else tuple(names[column] for column in columns)
        stages: list[tuple[Stage, str | None]] = []
        opening = self._opening(names)
        width = len(names)
        for action in self._actions[start]:
            names = self._add(stages, start, action, names)
        stages.append((Local(self._selected(names)), None))
        return _Term(start, self._sources[place], opening, width, stages)

    def _variables(self, start: int, atom: int) -> tuple[str, ...]:
        """Return the variables of an atom in the order of its columns."""
        operator = self._operator
        terms = operator.join.atoms[atom]
        order = operator.arranged[operator.places[start][atom]]
        return tuple(str(terms[column]) for column in order)

    def _side(self, start: int, use: UseAtom) -> Side:
        operator = self._operator
        what = "an arrangement of an atom that a term extends by"
        source = expect_type(self._sources[operator.places[start][use.atom]], Arranged, what)  # type: ignore[type-abstract]
        key = self._variables(start, use.atom)
        columns = operator.placed[start][use.atom] or ()
        return Side(source, key, tuple(key[column] for column in columns), new=use.atom < start)

    def _add(
        self, stages: list[tuple[Stage, str | None]], start: int, action: Action, names: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Add the stages of an action; return the variables of the prefixes after it."""
        if isinstance(action, TestCondition):
            stages.append((Local(self._condition(action.condition, names)), None))
            return names
        if isinstance(action, TestLimit):
            limit, interner = action.limit, self._scope.interner

            def test(rows: Codes, weights: Codes, names: tuple[str, ...] = names) -> Prefixes:
                keep = limit.holds(rows, names, interner)
                return rows_where(keep, rows, weights)

            stages.append((Local(test), None))
            return names
        extend = expect_type(action, ExtendPrefix, "a stage of a term")
        for side in self._nearest([self._side(start, use) for use in extend.uses if not any(use.bound[1:])]):
            self._move(stages, side, names)
            stages.append((Test(side, names), None))
        for level, variable in enumerate(extend.levels, 1):
            sides = [self._side(start, use) for use in extend.uses if use.bound[level]]
            sides = self._nearest(sides)
            within = self._limited(extend.bounds[level - 1], (*names, variable))
            excludes_null = variable in self._without_null
            self._move(stages, sides[0], names)
            if len(sides) == 1:
                stages.append((Extend(sides[0], names, excludes_null=excludes_null), None))
                stages.append((Local(within), variable))
            else:
                schema = self._select((*names, variable))
                meet = Meet(sides, schema, within, self._spread, excludes_null=excludes_null)
                stages.append((meet, variable))
                self._placed = None
            names = (*names, variable)
        stages.append((Local(_refuse_overflow), None))
        return names

    def _nearest(self, sides: list[Side]) -> list[Side]:
        """Return the sides with one on whose shards the prefixes are already first."""
        return sorted(sides, key=lambda side: side.placed != self._placed)

    def _move(self, stages: list[tuple[Stage, str | None]], side: Side, names: tuple[str, ...]) -> None:
        if side.placed != self._placed:
            columns = [names.index(name) for name in side.placed]
            stages.append((Move(columns, self._select(names), self._spread), None))
            self._placed = side.placed

    def _opening(self, names: tuple[str, ...]) -> Filter:
        excluded = [column for column, name in enumerate(names) if name in self._without_null]

        def open_(rows: Codes, weights: Codes) -> Prefixes:
            for column in excluded:
                keep = rows[:, column] != NULL
                rows, weights = rows_where(keep, rows, weights)
            return rows, weights

        return open_

    def _condition(self, condition: Expression, names: tuple[str, ...]) -> Filter:
        bound = bind(condition, self._select(names))
        interner = self._scope.interner

        def test(rows: Codes, weights: Codes) -> Prefixes:
            keep = bound.mask(rows, interner)
            return rows_where(keep, rows, weights)

        return test

    def _limited(self, bounds: Sequence[Bound], names: tuple[str, ...]) -> Filter:
        """Return the test of the limits of the last of these variables."""
        interner = self._scope.interner

        def within(rows: Codes, weights: Codes) -> Prefixes:
            for bound in bounds:
                source = bound.source
                if isinstance(source, str):
                    values = rows[:, names.index(source)]
                else:
                    values = np.full(len(rows), literal_code(source, interner))
                with np.errstate(over="ignore"):
                    limits = values + bound.offset
                outside = (limits > values) if bound.offset < 0 else (limits < values)
                own = rows[:, -1]
                if bound.kind == AT_LEAST:
                    fits = own > limits if bound.strict else own >= limits
                elif bound.kind == AT_MOST:
                    fits = own < limits if bound.strict else own <= limits
                else:
                    fits = own != limits
                keep = fits | outside
                rows, weights = rows_where(keep, rows, weights)
            return rows, weights

        return within

    def _selected(self, names: tuple[str, ...]) -> Filter:
        columns = [names.index(name) for name in self._join.columns]
        identity = columns == list(range(len(names)))

        def select(rows: Codes, weights: Codes) -> Prefixes:
            return (rows if identity else np.ascontiguousarray(rows[:, columns])), weights

        return select

    def _select(self, names: Sequence[str]) -> Schema:
        return self._types.select(self._types.indices(names))


def _refuse_overflow(rows: Codes, weights: Codes) -> Prefixes:
    """Raise OverflowError if a product of weights was outside int64, which the weight 0 says."""
    if not weights.all():
        raise OverflowError("weight: the product of weights is outside the 64-bit range")
    return rows, weights
