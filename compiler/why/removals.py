"""Removals: the rows that a choice, a subsumption or a limit removed, and the rows kept instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.heights import removed_rows
from dbsp.compiler.why.rule_body import SHOWN, RuleBody, row_at, row_text
from dbsp.compiler.why.solve import Solver
from dbsp.errors import expect_present
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows that one row was kept instead of: `text` says why, `rows` are some of the `count`
    rows."""

    text: str
    count: int
    rows: tuple[str, ...]


class Removals:
    """Explains which rows of selected relations were removed, and why.

    The removed rows are those that the rules derive from the rows kept.
    """

    def __init__(self, program: checked.CheckedProgram, solver: Solver) -> None:
        self.program = program
        self.solver = solver
        self._subsumptions: dict[str, list[_Subsumption]] = {}

    def table(self, relation: str) -> FactTable | None:
        """The removed rows of a relation; None if the relation is not a selected one."""
        return self.solver.tables.get(removed_rows(relation))

    def by_row(self, relation: str, codes: Codes, is_goal: bool) -> Iterator[RemovedRows]:
        """Yield the removed rows that a kept row was kept instead of.

        The rows that a limit removed belong to no single row: they are shown for the goal only.
        """
        removed = self.table(relation)
        if removed is None or not len(removed):
            return
        declared = self.program.relations[relation]
        for subsumption in self._of(relation):
            found = subsumption.dominated_by(codes, self.solver)
            yield from self._shown(f"subsumes by {subsumption.text}", relation, found)
        for domain in declared.choices:
            _, found = removed.find(domain, codes[None, list(domain)])
            names = ", ".join(declared.attributes[column].name for column in domain)
            yield from self._shown(f"selected for its {names} instead of", relation, found)
        if is_goal and declared.limit is not None:
            text = f"derived before '{relation}' had {declared.limit:,} rows, unlike"
            yield from self._shown(text, relation, np.arange(len(removed)))

    def _shown(self, text: str, relation: str, found: Codes) -> Iterator[RemovedRows]:
        found = np.unique(found)
        if len(found):
            rows = tuple(self._row_text(relation, at, removed=True) for at in found[:SHOWN].tolist())
            yield RemovedRows(text, len(found), rows)

    def reason(self, relation: str, at: int) -> str:
        """Explain why the row at a position of the table of removed rows was removed."""
        tables = self.solver.tables
        removed, kept = tables[removed_rows(relation)], tables[relation]
        codes = removed.rows[at]
        declared = self.program.relations[relation]
        row = self._row_text(relation, at, removed=True)
        first = f"{row} is {'an input fact' if self.is_input_fact(relation, at) else 'derived'}, but"
        for kept_rows in (True, False):
            for subsumption in self._of(relation):
                found = subsumption.dominating(codes, self.solver, kept_rows)
                found = found[found != at] if not kept_rows else found
                if len(found):
                    row = self._row_text(relation, int(found[0]), removed=not kept_rows)
                    also = "" if kept_rows else ", which was removed as well"
                    return f"{first} subsumed by {row}{also}   {subsumption.text}"
        for domain in declared.choices:
            _, found = kept.find(domain, codes[None, list(domain)])
            if len(found):
                names = ", ".join(declared.attributes[column].name for column in domain)
                row = self._row_text(relation, int(found[0]), removed=False)
                return f"{first} {row} was selected for its {names}   choice-domain at {declared.span.place}"
        cause = next(self.limits(relation), "it depends on rows that were removed")
        return f"{first} {cause}"

    def keeping(self, relation: str, codes: Codes) -> list[int]:
        """Return the positions of the kept rows for which a row is removed, without those of a
        limit."""
        kept = self.solver.tables[relation]
        found = [subsumption.dominating(codes, self.solver, kept=True) for subsumption in self._of(relation)]
        for domain in self.program.relations[relation].choices:
            found.append(kept.find(domain, codes[None, list(domain)])[1])
        return list(np.unique(np.concatenate([np.empty(0, np.int64), *found])).tolist())

    def is_input_fact(self, relation: str, at: int) -> bool:
        """Whether the row at a position of the table of removed rows is an input fact."""
        return not self.solver.tables[removed_rows(relation)].heights[at]

    def limits(self, relation: str) -> Iterator[str]:
        """Yield the limits that ended the recursion of a relation."""
        for stratum in self.program.strata:
            for name in stratum.relations if relation in stratum.relations else ():
                limit = self.program.relations[name].limit
                if limit is not None and len(self.solver.tables[name]) >= limit:
                    yield f"the recursion ended when '{name}' had {limit:,} rows (.limitsize)"

    def _row_text(self, relation: str, at: int, removed: bool) -> str:
        table = removed_rows(relation) if removed else relation
        return row_text(self.program.relations[relation], row_at(self.solver, table, at))

    def _of(self, relation: str) -> list[_Subsumption]:
        if relation not in self._subsumptions:
            self._subsumptions[relation] = [
                _Subsumption(rule, self.program.relations)
                for rule in self.program.subsumptions
                if rule.head.relation == relation
            ]
        return self._subsumptions[relation]


class _Subsumption:
    """A subsumption, prepared for search: its dominated row is a removed one."""

    def __init__(self, rule: checked.Rule, relations: Mapping[str, checked.Relation]) -> None:
        self.text = f"{rule.span.place}: {show_rule(rule)}"
        name = rule.head.relation
        removed = removed_rows(name)
        relations = {**relations, removed: replace(relations[name], name=removed)}
        _, dominating, *conditions = rule.body
        of_removed = replace(rule.head, relation=removed)
        self._kept = RuleBody(replace(rule, body=(of_removed, dominating, *conditions)), relations)
        also_removed = replace(expect_present(rule.dominating, "the dominating atom"), relation=removed)
        self._removed = RuleBody(replace(rule, body=(of_removed, also_removed, *conditions)), relations)

    def dominated_by(self, codes: Codes, solver: Solver) -> Codes:
        """Return the positions of the removed rows that a kept row dominates."""
        return self._positions(self._kept, [None] * len(codes) + codes.tolist(), 0, solver)

    def dominating(self, codes: Codes, solver: Solver, kept: bool) -> Codes:
        """Return the positions of the kept rows, or of the removed ones, that dominate a row."""
        body = self._kept if kept else self._removed
        return self._positions(body, codes.tolist() + [None] * len(codes), 1, solver)

    @staticmethod
    def _positions(body: RuleBody, codes: list[int | None], place: int, solver: Solver) -> Codes:
        given = body.given(codes)
        if given is None or body.is_false:
            return np.empty(0, np.int64)
        scan = body.scan_of(place)
        found = [piece.chosen[scan] for piece in solver.solutions(body.body, given)]
        return np.concatenate([np.empty(0, np.int64), *found])
