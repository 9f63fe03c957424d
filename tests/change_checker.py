"""Check the reasons of changed rows against the states before and after a tick.

The checker shares only the checked program with the search for reasons: the reference evaluator
applies the rules to the rows that it has computed from scratch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find
from dbsp.compiler.why.change_reason import ChangedDerivation, ChangedPremise, ChangeReason, ChangeStep
from dbsp.compiler.why.opaque_relations import opaque_relations, selected_relations
from dbsp.compiler.why.proof import Key

from .proof_checker import atoms_of, derived, head_rows, heights, is_positive
from .reference_datalog.bodies import choices
from .reference_datalog.evaluation import evaluate
from .reference_datalog.matching import match_row
from .reference_datalog.values import Relations, Row


@dataclass(frozen=True)
class State:
    """The inputs and all rows at one time."""

    program: checked.CheckedProgram
    inputs: Mapping[str, frozenset[Row]]

    @cached_property
    def complete(self) -> dict[str, frozenset[Row]]:
        return evaluate(self.program, {name: set(rows) for name, rows in self.inputs.items()}, 400)

    @cached_property
    def heights(self) -> dict[str, dict[Row, int]]:
        return heights(self.program, {name: set(rows) for name, rows in self.inputs.items()}, self.complete)


class ChangeChecker:
    """Checks the reasons of one tick. `first` is whether the run had made no tick before it."""

    def __init__(self, before: State, after: State, first: bool = False) -> None:
        self.program = after.program
        self.after = after.complete
        self.first = first
        self.before = dict.fromkeys(self.after, frozenset()) if first else before.complete
        self.heights = after.heights
        self.inputs_before, self.inputs_after = before.inputs, after.inputs
        self.special = selected_relations(self.program) | opaque_relations(self.program).keys()
        self.special |= {name for name, each in self.program.relations.items() if each.equivalence}

    @cached_property
    def is_plain(self) -> bool:
        """Whether the rules alone determine all rows, and each row by one instance of a rule."""
        return not self.special

    def check(self, name: str, row: Row, reason: ChangeReason) -> None:
        was, is_ = row in self.before[name], row in self.after[name]
        expected = {
            (False, True): "inserted",
            (True, False): "retracted",
            (True, True): "unchanged",
            (False, False): "missing",
        }
        assert reason.goal == (name, row)
        assert reason.change == expected[was, is_]
        assert str(reason).startswith(f"{reason.text}   ")
        document = json.loads(reason.to_json())
        assert len(document["steps"]) == len(reason.steps)
        assert (reason.proof is not None) == (reason.change == "unchanged")
        assert (reason.refusal is not None) == (not is_)
        if was == is_:
            assert not reason.steps and not reason.changes
            return
        assert next(iter(reason.steps)) == reason.goal
        assert reason.complete
        self._check_cited(reason)
        reached = {reason.goal}
        for key, step in reason.steps.items():
            assert step.key == key
            self._check_step(step, reason)
            for derivation in step.derivations or ():
                for premise in derivation.premises:
                    assert set(premise.causes) <= reason.steps.keys()
                    reached.update(premise.causes)
        assert reached == set(reason.steps)
        if self.is_plain and is_positive(self.program) and not self.first:
            self._check_monotone(reason)

    def _check_cited(self, reason: ChangeReason) -> None:
        """The cited changes of inputs are changes of the tick."""
        for name, rows in reason.changes.items():
            for row, weight in rows.items():
                before, after = row in self.inputs_before[name], row in self.inputs_after[name]
                assert (before, after) == ((False, True) if weight > 0 else (True, False))
        assert reason.changes or self.first or not self.is_plain

    def _check_monotone(self, reason: ChangeReason) -> None:
        """The cited changes alone have the effect, without negations and aggregates."""
        inputs = {name: set(rows) for name, rows in self.inputs_before.items()}
        for name, rows in reason.changes.items():
            for row, weight in rows.items():
                assert (weight > 0) == (reason.change == "inserted")
                (inputs[name].add if weight > 0 else inputs[name].discard)(row)
        name, row = reason.goal
        assert (row in evaluate(self.program, inputs, 400)[name]) == (reason.change == "inserted")

    # --- one row ---------------------------------------------------------------------------------

    def _check_step(self, step: ChangeStep, reason: ChangeReason) -> None:
        name, row = step.key
        inserted = step.change == "inserted"
        assert (row in self.before[name], row in self.after[name]) == (not inserted, inserted)
        is_input = step.leaf == "input fact"
        there, gone = self.inputs_after, self.inputs_before
        if not inserted:
            there, gone = gone, there
        if is_input:
            assert row in there.get(name, ()) and row not in gone.get(name, ())
        for derivation in step.derivations or ():
            for premise in derivation.premises:
                self._check_premise(premise, inserted)
        if self.special & {name, *(key[0] for key in reason.steps)}:
            assert step.leaf or step.derivations or step.notes
            return
        assert step.derivations is not None and not step.notes and not step.unexplained
        if inserted:
            self._check_inserted(step)
        else:
            self._check_retracted(step)

    def _check_premise(self, premise: ChangedPremise, inserted: bool) -> None:
        """The change of a premise is that of its rows."""
        assert premise.change in ("unchanged", "gained" if inserted else "lost") or premise.kind == "kept"
        assert not (premise.causes and premise.change == "unchanged")
        if premise.kind == "row":
            assert premise.key is not None
            name, row = premise.key
            assert row in (self.after if inserted else self.before)[name]
            other = row in (self.before if inserted else self.after)[name]
            assert (premise.change == "unchanged") == other
            assert premise.causes in ((), (premise.key,))
        if premise.kind == "aggregate":
            assert premise.change == "unchanged" or premise.before != premise.after
            assert f"{premise.after if inserted else premise.before}" in premise.text

    def _check_inserted(self, step: ChangeStep) -> None:
        """The rule derives the row from rows of smaller heights, and a premise is new."""
        name, row = step.key
        assert step.height == self.heights[name][row]
        if step.leaf is not None:
            assert step.derivations == () and not step.height
            return
        (derivation,) = step.derivations or ()
        assert self._derives(derivation, row, self.after)
        for premise in derivation.premises:
            if premise.key is not None:
                assert self.heights[premise.key[0]][premise.key[1]] < step.height
            if premise.kind in ("row", "absent") and premise.change != "unchanged":
                assert premise.causes
        gained = [premise for premise in derivation.premises if premise.causes]
        assert gained or self.first
        causes = [key for premise in gained for key in premise.causes]
        rule = self._rule(derivation)
        groups = [each for part in (rule.head, *rule.body) for each in find(part, syntax.Aggregate)]
        if not groups:
            # Without one of the causes, the rule does not derive the row.
            for cause in causes:
                assert not self._derives(derivation, row, self._undone(self.after, [cause]))
        if self._has_joint_group(rule) or self.first:
            return
        read = {atom.relation for group in groups for atom in find(group, syntax.Atom)}
        kept = any(premise.kind == "aggregate" and not premise.causes for premise in derivation.premises)
        if not (kept and read & {relation for relation, _ in causes}):
            # With the causes alone, it does.
            assert self._derives(derivation, row, self._done(self.before, causes))

    def _check_retracted(self, step: ChangeStep) -> None:
        """Every derivation of the row lost a cited premise, or used the row itself."""
        name, row = step.key
        causes = []
        for derivation in step.derivations or ():
            assert self._derives(derivation, row, self.before)
            (cited,) = (premise for premise in derivation.premises if premise.causes)
            assert cited.change == "lost"
            causes += cited.causes
        assert step.derivations or step.leaf
        ended = self._done(self.before, causes)
        left = 0
        without = self._without(step.key)
        for rule in self.program.rules:
            if rule.head.relation != name:
                continue
            if self._has_joint_group(rule):
                return
            for body, found, conditions in self._instances(rule, self.before):
                if row not in head_rows(rule, found, conditions, self.before):
                    continue
                if any(each not in ended[relation] for relation, each in body):
                    continue
                if row not in head_rows(rule, found, conditions, ended):
                    continue
                left += step.key not in body
                assert any(each not in without[relation] for relation, each in body)
        assert not left or step.circular

    def _without(self, key: Key) -> dict[str, set[Row]]:
        """Return the rows that have a proof before the tick without the given row."""
        name, row = key
        rows = {each: set(self.inputs_before.get(each, ())) for each in self.program.relations}
        rows[name].discard(row)
        while True:
            new = {
                (rule.head.relation, each)
                for rule in self.program.rules
                for each in derived(rule, rows, self.before)
                if each not in rows[rule.head.relation] and (rule.head.relation, each) != key
            }
            if not new:
                return rows
            for relation, each in new:
                rows[relation].add(each)

    # --- applications of rules -------------------------------------------------------------------

    def _instances(
        self, rule: checked.Rule, rows: Relations
    ) -> Iterator[tuple[list[Key], dict[str, object], list[object]]]:
        """Yield the choices of rows for the atoms of a rule."""
        atoms = atoms_of(rule)

        def extend(at: int, found: dict[str, object], conditions: list[object], body: list[Key]):  # type: ignore[no-untyped-def]
            if at == len(atoms):
                yield body, found, conditions
                return
            for row in rows[atoms[at].relation]:
                for matched, more in choices([atoms[at]], found, {atoms[at].relation: [row]}):
                    yield from extend(
                        at + 1, matched, [*conditions, *more], [*body, (atoms[at].relation, row)]
                    )

        yield from extend(0, {}, [], [])

    def _derives(self, derivation: ChangedDerivation, row: Row, rows: Relations) -> bool:
        """Whether a rule derives a row from the rows of its premises, and these are present."""
        rule = self._rule(derivation)
        keys = [premise.key for premise in derivation.premises if premise.key is not None]
        atoms = atoms_of(rule)
        assert [atom.relation for atom in atoms] == [name for name, _ in keys]
        found: dict[str, object] = {}
        conditions: list[object] = []
        for atom, (name, each) in zip(atoms, keys, strict=True):
            if each not in rows[name]:
                return False
            matched = match_row(atom, each, found)
            assert matched is not None
            found, more = matched
            conditions += more
        return row in head_rows(rule, found, conditions, rows)

    def _done(self, rows: Relations, changes: list[Key]) -> dict[str, set[Row]]:
        """Return rows with these changed rows as they are after the tick."""
        return self._with(rows, changes, self.after)

    def _undone(self, rows: Relations, changes: list[Key]) -> dict[str, set[Row]]:
        """Return rows with these changed rows as they were before the tick."""
        return self._with(rows, changes, self.before)

    @staticmethod
    def _with(rows: Relations, changes: list[Key], state: Relations) -> dict[str, set[Row]]:
        found = {name: set(of_name) for name, of_name in rows.items()}
        for name, row in changes:
            (found[name].add if row in state[name] else found[name].discard)(row)
        return found

    def _rule(self, derivation: ChangedDerivation) -> checked.Rule:
        (rule,) = (rule for rule in self.program.rules if rule.number == derivation.number)
        return rule

    @staticmethod
    def _has_joint_group(rule: checked.Rule) -> bool:
        """Whether a rule has an aggregate over several literals."""
        parts = (rule.head, *rule.body)
        return any(len(each.literals) > 1 for part in parts for each in find(part, syntax.Aggregate))
