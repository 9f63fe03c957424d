"""The changed rows that explain why a negation or an aggregate changed in a tick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    AggregateResult,
    NormalLiteral,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import type_of
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.tick_sides import ChangedRow, Side
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.values import decode_value

Rank: TypeAlias = Callable[[ChangedRow], tuple[int, int]]
"""Orders rows by the length of their explanation."""


class ChangedGroups:
    """Finds the changed rows behind a negation or an aggregate."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    def causes(self, side: Side, literals: Iterable[NormalLiteral], single: Bindings) -> list[ChangedRow]:
        """Return the changed rows behind a negation or aggregates that the other state lacks."""
        rows: dict[ChangedRow, None] = {}
        for literal in literals:
            if isinstance(literal, AggregateLiteral):
                rows |= dict.fromkeys(self.aggregate(side, literal, single))
            elif isinstance(literal, Absent) and not side.other.holds([literal], single)[0]:
                rows |= dict.fromkeys(self.negation(side, literal, single))
        return list(rows)

    def negation(self, side: Side, literal: Absent, single: Bindings) -> list[ChangedRow]:
        """Return the rows of the other state that match a negated atom of this one."""
        pattern = literal.pattern
        pieces = side.other.solver.solve([(0, pattern)], single)
        found = {side.other.row(pattern.relation, at) for piece in pieces for at in piece.chosen[0].tolist()}
        return self._distinct(found)

    def aggregate(self, side: Side, literal: AggregateLiteral, found: Bindings) -> list[ChangedRow]:
        """Return the changed rows that explain an aggregate; none if its value is the same.

        For `min` and `max` these are one new row with the value, or the rows with better values
        that were retracted. For the others these are all changed rows of the group.
        """
        injected = {name: int(found.values[name][0]) for name in literal.injected}
        (result,) = literal.results
        own = int(found.values[result.variable][0])
        values = side.other.solver.aggregates(literal, injected)
        other = None if values is None else values[0]
        if own == other:
            return []
        before, after = (other, own) if side.is_after else (own, other)
        old, new = (side.other, side) if side.is_after else (side, side.other)
        given = Bindings.single(injected)
        if result.function not in ("min", "max") or result.value is None:
            gained = _solutions(new, literal.body, given)
            lost = _solutions(old, literal.body, given)
            return self._distinct(
                [*self._gained(new, literal.body, gained), *self._lost(old, literal.body, lost)]
            )
        if before is None or (after is not None and _is_better(new, result, after, before)):
            for piece in _solutions(new, literal.body, given):
                valued, codes = new.solver.evaluate(result.value, piece)
                witness = valued.take(codes == after)
                if witness.size:
                    return self._distinct(self._gained(new, literal.body, [witness.take(slice(0, 1))]))
        better = (
            _better_than(old, result, result.value, piece, after)
            for piece in _solutions(old, literal.body, given)
        )
        return self._distinct(self._lost(old, literal.body, better))

    def _gained(
        self, side: Side, body: Sequence[NormalLiteral], pieces: Iterable[Bindings]
    ) -> Iterator[ChangedRow]:
        """Yield every changed row of the gained solutions of a body: each of them is needed."""
        for single in _singles(pieces):
            for rows in self._changes(side, body, single):
                yield from rows

    def _lost(
        self, side: Side, body: Sequence[NormalLiteral], pieces: Iterable[Bindings]
    ) -> Iterator[ChangedRow]:
        """Yield one changed row of each lost solution of a body: any of them ended it."""
        for single in _singles(pieces):
            changes = [row for rows in self._changes(side, body, single) for row in rows]
            if changes:
                yield min(changes, key=self._order)

    def _changes(
        self, side: Side, body: Sequence[NormalLiteral], single: Bindings
    ) -> Iterator[list[ChangedRow]]:
        """Yield the changed rows behind each literal of a solution that the other state lacks."""
        for at, literal in enumerate(body):
            match literal:
                case Scan(relation=relation):
                    position = int(single.chosen[at][0])
                    if side.changed(relation)[position]:
                        yield [side.row(relation, position)]
                case Absent():
                    if not side.other.holds([literal], single)[0]:
                        yield self.negation(side, literal, single)
                case AggregateLiteral():
                    yield self.aggregate(side, literal, single)
                case _:
                    pass

    def _distinct(self, rows: Iterable[ChangedRow]) -> list[ChangedRow]:
        return sorted(set(rows), key=self._order)

    def _order(self, row: ChangedRow) -> tuple[tuple[int, int], ChangedRow]:
        return self._rank(row), row


def _solutions(side: Side, body: Sequence[NormalLiteral], given: Bindings) -> Iterator[Bindings]:
    """Yield the solutions of a body that the other state lacks."""
    for piece in side.solver.solutions(body, given):
        changed = side.changed_solutions(body, piece)
        if changed.any():
            yield piece.take(changed)


def _singles(pieces: Iterable[Bindings]) -> Iterator[Bindings]:
    for piece in pieces:
        for at in range(piece.size):
            yield piece.take(slice(at, at + 1))


def _better_than(
    side: Side, result: AggregateResult, value: syntax.Term, piece: Bindings, limit: int | None
) -> Bindings:
    """Return the solutions with a better value than the code `limit`; all for None."""
    piece, codes = side.solver.evaluate(value, piece)
    if limit is None:
        return piece
    distinct, inverse = distinct_codes(codes)
    better = [_is_better(side, result, code, limit) for code in distinct.tolist()]
    return piece.take(np.array(better, np.bool_)[inverse])


def _is_better(side: Side, result: AggregateResult, code: int, than: int) -> bool:
    """Whether one value replaces another as the minimum or maximum."""
    type_ = type_of(result.kind)
    value, other = (decode_value(type_, each, side.solver.interner) for each in (code, than))
    better: bool = value < other if result.function == "min" else value > other
    return better
