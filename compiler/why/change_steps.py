"""From the chosen explanations of changed rows to the steps of a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.show import show_rule, show_term
from dbsp.compiler.datalog.plans.normalise import AggregateLiteral
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import type_of
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.change_evidence import Change, Evidence
from dbsp.compiler.why.change_reason import (
    ChangedDerivation,
    ChangedPremise,
    ChangeStep,
    Effect,
)
from dbsp.compiler.why.change_search import ChangeSearch, Explanation
from dbsp.compiler.why.circular_derivations import without_circular
from dbsp.compiler.why.proof import Key
from dbsp.compiler.why.rule_body import RuleBody, row_at, row_text
from dbsp.compiler.why.tick_sides import ChangedRow, Side
from dbsp.data.values import decode_value
from dbsp.errors import expect_present


class ChangeSteps:
    """Writes the steps of a reason."""

    def __init__(self, program: checked.CheckedProgram, search: ChangeSearch) -> None:
        self.program = program
        self.search = search

    def steps(self, goal: ChangedRow, depth: int | None) -> Mapping[Key, ChangeStep]:
        """Return the steps that explain a changed row, the one of the row first."""
        found = without_circular(goal, self.search.explain(goal, depth))
        steps = (self._step(row, explanation) for row, explanation in found.items())
        return {step.key: step for step in steps}

    def key(self, row: ChangedRow) -> Key:
        """Return the relation and the values of a row."""
        side = self.search.evidence.side(row)
        return row.relation, row_at(side.solver, row.relation, row.at)

    def _step(self, row: ChangedRow, explanation: Explanation | None) -> ChangeStep:
        key = self.key(row)
        side = self.search.evidence.side(row)
        expansion = self.search.expansion(row)
        return ChangeStep(
            key,
            row_text(self.program.relations[row.relation], key[1]),
            "inserted" if row.inserted else "retracted",
            side.height(row),
            expansion.leaf,
            None if explanation is None else tuple(self._derivations(side, explanation)),
            tuple(expansion.notes),
            expansion.unexplained,
            0 if explanation is None else explanation.circular,
        )

    def _derivations(self, side: Side, explanation: Explanation) -> Iterator[ChangedDerivation]:
        for evidence, change, others in explanation.chosen:
            chosen = evidence.changes if change is None else (change,)
            if evidence.body is None:
                premises = tuple(self._rows(evidence, chosen))
                yield ChangedDerivation(evidence.text, None, evidence.place, premises, others)
                continue
            rule = evidence.body.rule
            found = expect_present(evidence.found, "the bindings of a rule")
            premises = tuple(self._premises(side, evidence, found, chosen))
            yield ChangedDerivation(show_rule(rule), rule.number, rule.span.place, premises, others)

    def _rows(self, evidence: Evidence, changes: Sequence[Change]) -> Iterator[ChangedPremise]:
        """Yield the premises of an equivalence, or the rows that were kept."""
        explained = {row for change in changes for row in change.rows}
        for side, relation, at in evidence.rows:
            key = (relation, row_at(side.solver, relation, at))
            text = row_text(self.program.relations[relation], key[1])
            effect: Effect = _effect(side, bool(side.changed(relation)[at]))
            causes = (key,) if side.row(relation, at) in explained else ()
            yield ChangedPremise("kept" if evidence.kind == "kept" else "row", text, effect, key, causes)

    def _premises(
        self, side: Side, evidence: Evidence, found: Bindings, changes: Sequence[Change]
    ) -> Iterator[ChangedPremise]:
        body = expect_present(evidence.body, "the rule of a derivation")
        environment = body.environment(found, side.solver.interner)
        atoms = {part.places[0] for part in evidence.changed_parts if part.scan is not None}
        groups = {at for part in evidence.changed_parts if part.scan is None for at in part.places}
        of_atom = {change.place: change for change in changes if change.of_atom}
        of_group = {change.place: change for change in changes if not change.of_atom}
        for place, literal in enumerate((*body.rule.body, None)):
            change = of_group.get(place, Change(place, ()))
            causes = tuple(map(self.key, change.rows))
            effect = _effect(side, place in groups)
            if isinstance(literal, syntax.Atom):
                at = int(found.chosen[body.scan_of(place)][0])
                yield self._row_premise(side, literal.relation, at, place in atoms, place in of_atom)
            elif isinstance(literal, syntax.Negation):
                yield ChangedPremise(
                    "absent", body.text(place, environment), effect, None, causes, change.more
                )
                causes = ()
            elif literal is not None and not body.is_trivial(place):
                yield ChangedPremise("constraint", body.text(place, environment), effect)
            for text, before, after in self._aggregates(side, body, place, found):
                # The first aggregate with another value shows the causes of the literal.
                first = place in groups and before != after
                yield ChangedPremise(
                    "aggregate",
                    text,
                    effect if first else "unchanged",
                    None,
                    causes if first else (),
                    change.more if first and causes else 0,
                    before,
                    after,
                )
                causes = () if first else causes

    def _row_premise(
        self, side: Side, relation: str, at: int, changed: bool, explained: bool
    ) -> ChangedPremise:
        key = (relation, row_at(side.solver, relation, at))
        text = row_text(self.program.relations[relation], key[1])
        return ChangedPremise("row", text, _effect(side, changed), key, (key,) if explained else ())

    def _aggregates(
        self, side: Side, body: RuleBody, place: int, found: Bindings
    ) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield the text of each aggregate of a literal, its value before and its value after."""
        literals = [
            literal
            for literal, origin in zip(body.body, body.origins, strict=True)
            if origin == place and isinstance(literal, AggregateLiteral)
        ]
        for aggregation, literal in zip(body.aggregations(place, found, side.solver), literals, strict=True):
            own, other = aggregation.value, self._value(side.other, literal, found)
            yield (aggregation.text, other, own) if side.is_after else (aggregation.text, own, other)

    def _value(self, side: Side, literal: AggregateLiteral, found: Bindings) -> str | None:
        """Return the text of the value of an aggregate in a state; None if it has none."""
        injected = {name: int(found.values[name][0]) for name in literal.injected}
        codes = side.solver.aggregates(literal, injected)
        if codes is None:
            return None
        (result,) = literal.results
        value = decode_value(type_of(result.kind), codes[0], side.solver.interner)
        return show_term(syntax.Constant(value, literal.span, result.kind))


def _effect(side: Side, changed: bool) -> Effect:
    if not changed:
        return "unchanged"
    return "gained" if side.is_after else "lost"
