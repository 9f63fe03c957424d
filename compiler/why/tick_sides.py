"""The two states around a tick: the rows that only one of them has, and why a literal changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.normalise import Absent, AggregateLiteral, NormalLiteral, Scan
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.body_parts import BodyPart, BodyParts, body_parts
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.prove import Prover
from dbsp.compiler.why.rule_body import RuleBody
from dbsp.compiler.why.solve import Solver
from dbsp.errors import expect_type
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
        self._parts: dict[int, tuple[RuleBody, BodyParts]] = {}

    @property
    def tables(self) -> Mapping[str, FactTable]:
        return self.own.tables

    @property
    def solver(self) -> Solver:
        return self.own.solver

    def changed(self, relation: str) -> Mask:
        """Return which rows of a relation the other state lacks. First call: O(n log n)."""
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

    def changed_parts(self, body: RuleBody, found: Bindings) -> list[tuple[BodyPart, Mask]]:
        """Return the parts of a body, each with the solutions in which the other state lacks it."""
        known = self._parts.get(id(body))
        if known is None:
            known = self._parts[id(body)] = (body, body_parts(body))
        split = known[1]
        values = {name: codes for name, codes in found.values.items() if name in split.fixed}
        fixed = Bindings(found.size, values, {})
        masks: list[tuple[BodyPart, Mask]] = []
        for part in split.parts:
            if part.scan is None:
                masks.append((part, ~self.other.holds(part.literals, fixed)))
            else:
                scan = expect_type(body.body[part.scan], Scan, "the scan of an atom")
                masks.append((part, self.changed(scan.relation)[found.chosen[part.scan]]))
        return masks

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
