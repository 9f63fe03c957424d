"""The two states around a tick: the rows that only one of them has, and why a literal changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.normalise import Absent, AggregateLiteral, NormalLiteral, Scan
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.prove import Prover
from dbsp.compiler.why.rule_body import RuleBody
from dbsp.compiler.why.solve import Solver
from dbsp.kernels.arrays import Mask

_MARK = -1
"""The scan under which bindings carry their position in the batch of bindings that is tested."""


class ChangedRow(NamedTuple):
    """A row that one state has and the other lacks; `at` is its position in the state with it."""

    inserted: bool
    relation: str
    at: int


class Side:
    """The state before or after a tick, seen from the other one.

    The masks are true for what this state has and the other lacks. The tables of both states have
    the codes of one interner.
    """

    def __init__(self, program: checked.CheckedProgram, own: Prover, is_after: bool) -> None:
        self.program = program
        self.own = own
        self.is_after = is_after
        self.other: Side
        self._changed: dict[str, Mask] = {}
        self._groups: dict[int, tuple[RuleBody, dict[int, list[NormalLiteral]]]] = {}

    @property
    def tables(self) -> Mapping[str, FactTable]:
        return self.own.tables

    @property
    def solver(self) -> Solver:
        return self.own.solver

    def changed(self, relation: str) -> Mask:
        """Return which rows of a relation the other state lacks. The first call costs O(n log n)."""
        if relation not in self._changed:
            rows = self.tables[relation].rows
            self._changed[relation] = ~self.other.tables[relation].contains(rows)
        return self._changed[relation]

    def row(self, relation: str, at: int) -> ChangedRow:
        """Return a row of this state that the other state lacks."""
        return ChangedRow(self.is_after, relation, at)

    def height(self, row: ChangedRow) -> int:
        """Return the height of a row of this state."""
        return int(self.tables[row.relation].heights[row.at])

    # --- what changed in a body ------------------------------------------------------------------

    def changed_places(self, body: RuleBody, found: Bindings) -> dict[int, Mask]:
        """Return by literal of a rule the solutions in which the other state lacks it.

        The place after the last literal has the aggregates of the head.
        """
        masks: dict[int, Mask] = {}
        for place, literals in self.groups(body).items():
            if place < len(body.rule.body) and isinstance(body.rule.body[place], syntax.Atom):
                scan = body.scan_of(place)
                masks[place] = self.changed(body.rule.body[place].relation)[found.chosen[scan]]
            elif any(isinstance(literal, Absent | AggregateLiteral) for literal in literals):
                masks[place] = ~self.other.holds(literals, without_local(found))
        return masks

    def groups(self, body: RuleBody) -> dict[int, list[NormalLiteral]]:
        """Return the normalised literals of each literal of the rule."""
        known = self._groups.get(id(body))
        if known is None:
            groups: dict[int, list[NormalLiteral]] = {}
            for literal, origin in zip(body.body, body.origins, strict=True):
                groups.setdefault(origin, []).append(literal)
            known = self._groups[id(body)] = (body, groups)
        return known[1]

    def holds(self, literals: Sequence[NormalLiteral], given: Bindings) -> Mask:
        """Return for which of the bindings the literals have a solution in this state."""
        held = np.zeros(given.size, np.bool_)
        marked = Bindings(given.size, given.values, {_MARK: np.arange(given.size)})
        for piece in self.solver.solve(list(enumerate(literals)), marked):
            held[piece.chosen[_MARK]] = True
        return held

    def changed_solutions(self, body: Sequence[NormalLiteral], found: Bindings) -> Mask:
        """Return which solutions of the body of an aggregate the other state lacks."""
        mask = np.zeros(found.size, np.bool_)
        for at, literal in enumerate(body):
            if isinstance(literal, Scan):
                mask |= self.changed(literal.relation)[found.chosen[at]]
            elif isinstance(literal, Absent | AggregateLiteral):
                mask |= ~self.other.holds([literal], found)
        return mask


def sides(program: checked.CheckedProgram, before: Prover, after: Prover) -> tuple[Side, Side]:
    """Return the states before and after a tick."""
    first, second = Side(program, before, False), Side(program, after, True)
    first.other, second.other = second, first
    return first, second


def without_local(found: Bindings) -> Bindings:
    """Return the bindings without the variables of the normal form, which each literal binds."""
    values = {name: codes for name, codes in found.values.items() if not name.startswith("#")}
    return Bindings(found.size, values, {})
