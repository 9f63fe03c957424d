"""From the chosen explanations of changed rows to the steps of a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
            changes = {each.place: each for each in (evidence.changes if change is None else (change,))}
            if evidence.body is None:
                premises = tuple(self._rows(evidence, changes))
                yield ChangedDerivation(evidence.text, None, evidence.place, premises, others)
                continue
            rule = evidence.body.rule
            found = expect_present(evidence.found, "the bindings of a rule")
            premises = tuple(self._premises(side, evidence.body, found, evidence.changed_places, changes))
            yield ChangedDerivation(show_rule(rule), rule.number, rule.span.place, premises, others)

    def _rows(self, evidence: Evidence, changes: Mapping[int, Change]) -> Iterator[ChangedPremise]:
        """Yield the premises of an equivalence, or the rows that were kept."""
        explained = {row for change in changes.values() for row in change.rows}
        for side, relation, at in evidence.rows:
            key = (relation, row_at(side.solver, relation, at))
            text = row_text(self.program.relations[relation], key[1])
            effect: Effect = _effect(side, bool(side.changed(relation)[at]))
            causes = (key,) if side.row(relation, at) in explained else ()
            yield ChangedPremise("kept" if evidence.kind == "kept" else "row", text, effect, key, causes)

    def _premises(
        self,
        side: Side,
        body: RuleBody,
        found: Bindings,
        changed: frozenset[int],
        changes: Mapping[int, Change],
    ) -> Iterator[ChangedPremise]:
        environment = body.environment(found, side.solver.interner)
        end = len(body.rule.body)
        for place in range(end + 1):
            change = changes.get(place)
            causes = () if change is None else tuple(map(self.key, change.rows))
            more = 0 if change is None else change.more
            effect = _effect(side, place in changed)
            aggregates = list(self._aggregates(side, body, place, found))
            literal = body.rule.body[place] if place < end else None
            if isinstance(literal, syntax.Atom):
                key = (
                    literal.relation,
                    row_at(side.solver, literal.relation, int(found.chosen[body.scan_of(place)][0])),
                )
                text = row_text(self.program.relations[literal.relation], key[1])
                yield ChangedPremise("row", text, effect, key, causes)
                continue
            if isinstance(literal, syntax.Negation):
                yield ChangedPremise("absent", body.text(place, environment), effect, None, causes, more)
            elif literal is not None and not body.is_trivial(place):
                # The aggregates of a comparison explain it.
                yield ChangedPremise("constraint", body.text(place, environment), effect)
            # The first aggregate with another value has the causes.
            shown = False
            for text, before, after in aggregates:
                differs = place in changed and before != after
                yield ChangedPremise(
                    "aggregate",
                    text,
                    effect if differs else "unchanged",
                    None,
                    causes if differs and not shown else (),
                    more if differs and not shown else 0,
                    before,
                    after,
                )
                shown = shown or differs

    def _aggregates(
        self, side: Side, body: RuleBody, place: int, found: Bindings
    ) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield the text of each aggregate of a literal, its value before and its value after."""
        literals = [each for each in side.groups(body).get(place, ()) if isinstance(each, AggregateLiteral)]
        for aggregation, literal in zip(
            body.aggregations(place, found, side.solver), literals, strict=True
        ):
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
