"""The derivations of a changed row, and in each the premises that the tick changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import islice
from typing import NamedTuple

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.normalise import Scan
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.body_parts import BodyPart
from dbsp.compiler.why.change_reason import INPUT_FACT, LIMIT
from dbsp.compiler.why.changed_groups import ChangedGroups, Rank
from dbsp.compiler.why.equivalence_pairs import Chains
from dbsp.compiler.why.heights import derived_pairs, levels, removed_rows
from dbsp.compiler.why.prove import UNDERIVED
from dbsp.compiler.why.rule_body import RuleBody
from dbsp.compiler.why.tick_sides import ChangedRow, Side
from dbsp.errors import expect_present, expect_type
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

ALTERNATIVES = 100
"""The maximum number of derivations of an inserted row that are compared."""

_BLOCKING = 10
"""The maximum number of inserted rows that are compared as the one that ended an absence."""


class Change(NamedTuple):
    """A changed premise: its place in the derivation, and the changed rows behind it.

    All of the rows are needed to explain it; `more` of them are left out.
    """

    place: int
    rows: tuple[ChangedRow, ...]
    more: int = 0
    of_atom: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A derivation of a changed row. A rule with one binding; or rows, for an equivalence or for
    the rows that a choice or a subsumption keeps.

    An inserted row needs all `changes`. A derivation of a retracted row was lost by any of them.
    """

    changes: tuple[Change, ...]
    body: RuleBody | None = None
    found: Bindings | None = None
    changed_parts: tuple[BodyPart, ...] = ()
    text: str = ""
    place: str = ""
    kind: str = "row"
    rows: tuple[tuple[Side, str, int], ...] = ()
    """By place the state, relation and position of each row, if there is no rule."""


@dataclass(slots=True)
class Expansion:
    """What is known of a changed row: why it ends an explanation, or its derivations."""

    leaf: str | None = None
    evidences: list[Evidence] = field(default_factory=list)
    unexplained: int = 0
    notes: list[str] = field(default_factory=list)


class EvidenceSearch:
    """Finds the derivations of changed rows."""

    def __init__(self, program: checked.CheckedProgram, before: Side, after: Side, first_tick: bool) -> None:
        self.program = program
        self.before, self.after = before, after
        self._first_tick = first_tick
        self._levels = levels(program)
        self._groups = ChangedGroups(self.rank)
        self._chains: dict[str, Chains] = {}

    def side(self, row: ChangedRow) -> Side:
        """Return the state that has the row."""
        return self.after if row.inserted else self.before

    @property
    def rank(self) -> Rank:
        """Orders changed rows such that most explanations use rows of smaller ranks."""
        return lambda row: (self._levels[row.relation], self.side(row).height(row))

    def expand(self, row: ChangedRow) -> Expansion:
        """Return the derivations of a changed row."""
        return self._inserted(row) if row.inserted else self._retracted(row)

    def _leaf(self, row: ChangedRow) -> str | None:
        """Return why an explanation ends at a row; None if it has derivations."""
        side = self.side(row)
        table = side.tables[row.relation]
        if not table.heights[row.at]:
            return side.own.opaque.get(row.relation, INPUT_FACT)
        if table.underived is not None and table.underived[row.at]:
            return UNDERIVED
        return None

    # --- inserted rows ---------------------------------------------------------------------------

    def _inserted(self, row: ChangedRow) -> Expansion:
        side = self.after
        codes = side.tables[row.relation].rows[row.at]
        if self._was_removed(self.before, row.relation, codes):
            return self._by_kept_rows(row, self.before)
        leaf = self._leaf(row)
        if leaf is not None:
            return Expansion(leaf)
        instances = self._instances(side, row, side.height(row))
        evidences = [self._gained(side, *instance) for instance in islice(instances, ALTERNATIVES)]
        gained = [evidence for evidence in evidences if evidence.changes]
        if gained or (self._first_tick and evidences):
            return Expansion(None, gained or evidences[:1])
        if not evidences and self.program.relations[row.relation].equivalence:
            return Expansion(None, [self._chain(row, codes)])
        return Expansion(None, [], 0, [_OTHER_ROWS])

    def _gained(self, side: Side, body: RuleBody, single: Bindings, parts: tuple[BodyPart, ...]) -> Evidence:
        changes = [change for part in parts for change in self._causes(side, part, single)]
        return Evidence(tuple(changes), body, single, parts)

    def _causes(self, side: Side, part: BodyPart, single: Bindings) -> Iterator[Change]:
        """Yield the changes of a part that the other state lacks: one for each of its literals."""
        if part.scan is not None:
            yield self._atom(side, part, single)
            return
        for place in part.places:
            literals = (each for each, at in zip(part.literals, part.origins, strict=True) if at == place)
            rows = self._groups.causes(side, literals, single)
            if rows:
                yield Change(place, tuple(rows[:LIMIT]), max(0, len(rows) - LIMIT))

    def _atom(self, side: Side, part: BodyPart, single: Bindings) -> Change:
        scan = expect_present(part.scan, "the scan of an atom")
        relation = expect_type(part.literals[0], Scan, "the scan of an atom").relation
        return Change(part.places[0], (side.row(relation, int(single.chosen[scan][0])),), of_atom=True)

    def _chain(self, row: ChangedRow, codes: Codes) -> Evidence:
        """Return the pairs of an equivalence that connect the values of an inserted row."""
        side, relation = self.after, row.relation
        if relation not in self._chains:
            self._chains[relation] = Chains(side.tables[derived_pairs(relation)])
        start, end = codes.tolist()
        pairs = self._chains[relation].between(start, end, side.height(row)) or []
        table = side.tables[relation]
        positions = [int(table.positions(pair[None, :])[0]) for pair in pairs]
        changed = side.changed(relation)
        return self._rows_evidence(
            relation,
            [(side, at) for at in positions],
            [at for at, each in enumerate(positions) if changed[each]],
        )

    # --- retracted rows --------------------------------------------------------------------------

    def _retracted(self, row: ChangedRow) -> Expansion:
        side = self.before
        codes = side.tables[row.relation].rows[row.at]
        if self._was_removed(self.after, row.relation, codes):
            return self._by_kept_rows(row, self.after)
        leaf = self._leaf(row)
        if leaf is not None and leaf != INPUT_FACT:
            return Expansion(leaf)
        found = Expansion(leaf)
        for body, single, parts in self._instances(side, row, None):
            if len(found.evidences) >= LIMIT:
                found.unexplained += 1
                continue
            found.evidences.append(self._lost(side, body, single, parts))
        if self.program.relations[row.relation].equivalence:
            found.evidences += self._cut(row, codes)
        if not all(evidence.changes for evidence in found.evidences):
            found.evidences = [evidence for evidence in found.evidences if evidence.changes]
            found.notes.append(_OTHER_ROWS)
        return found

    def _lost(self, side: Side, body: RuleBody, single: Bindings, parts: tuple[BodyPart, ...]) -> Evidence:
        changes: list[Change] = []
        for part in parts:
            found = list(self._causes(side, part, single))
            if part.is_negation and found:
                changes += [Change(found[0].place, (blocking,)) for blocking in found[0].rows[:_BLOCKING]]
            elif found:
                # The literals of a group fail together.
                rows = tuple(dict.fromkeys(row for change in found for row in change.rows))
                more = sum(change.more for change in found)
                changes.append(Change(found[0].place, rows, more, found[0].of_atom))
        return Evidence(tuple(changes), body, single, parts)

    def _cut(self, row: ChangedRow, codes: Codes) -> Iterator[Evidence]:
        """Yield the pairs that connected the values of a row with each other before the tick."""
        relation = row.relation
        before, after = self.before.tables, self.after.tables
        pairs = before[derived_pairs(relation)].rows
        start, end = codes.tolist()
        cuts = []
        for value in {start, end}:
            old = _class_of(before[relation].rows, before[relation].find([0], np.array([[value]]))[1])
            new = _class_of(after[relation].rows, after[relation].find([0], np.array([[value]]))[1])
            inside = np.intersect1d(old, np.append(new, value))
            left, right = np.isin(pairs[:, 0], inside), np.isin(pairs[:, 1], inside)
            crossing = left | right if start == end else (left != right) & np.isin(pairs[:, 0], old)
            cuts.append(pairs[crossing])
        cut = min(cuts, key=len)
        positions = [int(before[relation].positions(pair[None, :])[0]) for pair in cut]
        others = [at for at in positions if at != row.at]
        if others:
            yield self._rows_evidence(
                relation, [(self.before, at) for at in others], list(range(len(others)))
            )

    # --- rows that a choice or a subsumption removes ---------------------------------------------

    def _was_removed(self, side: Side, relation: str, codes: Codes) -> bool:
        table = side.own.removals.table(relation)
        return table is not None and bool(table.contains(codes[None, :])[0])

    def _by_kept_rows(self, row: ChangedRow, side: Side) -> Expansion:
        """Explain a row that the other state derives and removes, by the rows that it keeps.

        For an inserted row that is the state before the tick, which lost all of these rows; for a
        retracted row the state after the tick, in which one of these rows is new.
        """
        codes = self.side(row).tables[row.relation].rows[row.at]
        at = int(side.tables[removed_rows(row.relation)].positions(codes[None, :])[0])
        reason = side.own.removals.reason(row.relation, at)
        kept = [
            each
            for each in side.own.removals.keeping(row.relation, codes)
            if side.changed(row.relation)[each]
        ]
        if not kept:
            return Expansion(None, [], 0, [f"{'before' if row.inserted else 'after'} the tick, {reason}"])
        rows = kept[:LIMIT] if row.inserted else kept[:1]
        declared = self.program.relations[row.relation]
        changes = tuple(Change(place, (side.row(row.relation, at),)) for place, at in enumerate(rows))
        evidence = Evidence(
            changes,
            text=reason,
            place=declared.span.place,
            kind="kept",
            rows=tuple((side, row.relation, at) for at in rows),
        )
        return Expansion(None, [evidence])

    # --- parts -----------------------------------------------------------------------------------

    def _instances(
        self, side: Side, row: ChangedRow, below: int | None
    ) -> Iterator[tuple[RuleBody, Bindings, tuple[BodyPart, ...]]]:
        """Yield the derivations of a row, each with the parts that the other state lacks.

        Derivations that use the row itself are left out.
        """
        codes = side.tables[row.relation].rows[row.at].tolist()
        for body in side.own.rules[row.relation]:
            given = body.given(codes)
            if given is None or body.is_false:
                continue
            scans = [
                body.scan_of(place)
                for place, literal in enumerate(body.rule.body)
                if isinstance(literal, syntax.Atom) and literal.relation == row.relation
            ]
            for piece in side.solver.solutions(body.body, given, below=below):
                masks = side.changed_parts(body, piece)
                for at in range(piece.size):
                    if not any(piece.chosen[scan][at] == row.at for scan in scans):
                        parts = tuple(part for part, mask in masks if mask[at])
                        yield body, piece.take(slice(at, at + 1)), parts

    def _rows_evidence(self, relation: str, rows: list[tuple[Side, int]], changed: list[int]) -> Evidence:
        """Return the evidence of an equivalence; `changed` has the places of the changed pairs."""
        together = tuple(rows[place][0].row(relation, rows[place][1]) for place in changed)
        return Evidence(
            (Change(changed[0], together[:LIMIT], max(0, len(together) - LIMIT)),) if changed else (),
            text=f"{relation} is an equivalence relation (eqrel).",
            place=self.program.relations[relation].span.place,
            rows=tuple((side, relation, at) for side, at in rows),
        )


_OTHER_ROWS = "the choice, subsumption or limit of its recursion selects other rows"


def _class_of(rows: Codes, positions: Codes) -> Codes:
    """Return the values that an equivalence connects with a value."""
    values: Codes = rows[positions, 1]
    return values
