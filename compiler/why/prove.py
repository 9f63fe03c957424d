"""Find proofs, from a row down: for each row a rule whose premises have smaller heights."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.show import show_literal, show_rule
from dbsp.compiler.datalog.plans.normalise import Condition, Scan
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.equivalence_pairs import Chains
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.heights import derived_pairs
from dbsp.compiler.why.proof import Key, Premise, Proof, ProofStep
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.refute import Pattern, Refuter
from dbsp.compiler.why.removals import Removals
from dbsp.compiler.why.rule_body import (
    SHOWN,
    Equal,
    Row,
    RuleBody,
    decoded_row,
    pattern_text,
    row_at,
    row_text,
)
from dbsp.compiler.why.solve import Solver, solvable
from dbsp.data.interner import Interner
from dbsp.data.values import decode_value, encode_value
from dbsp.errors import InputError, InvariantError, expect_present, expect_type, shorten
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

UNDERIVED = "was derived from rows that were removed later"


@dataclass(frozen=True, slots=True)
class _Derivation:
    """One application of a rule; `number` is None if the row follows from an equivalence."""

    rule: str
    number: int | None
    place: str
    premises: tuple[Premise, ...]


class Prover:
    """Finds proofs and refusals over tables of rows with heights (see
    `dbsp.compiler.why.heights`)."""

    def __init__(
        self,
        program: checked.CheckedProgram,
        tables: Mapping[str, FactTable],
        interner: Interner,
        opaque: Mapping[str, str],
    ) -> None:
        self.opaque = opaque
        self.program = program
        self.tables = tables
        self.interner = interner
        self.solver = Solver(tables, interner)
        self.removals = Removals(program, self.solver)
        self._chains: dict[str, Chains] = {}

    @cached_property
    def rules(self) -> dict[str, list[RuleBody]]:
        """The rules of each relation, in source order."""
        found: dict[str, list[RuleBody]] = {name: [] for name in self.program.relations}
        for rule in self.program.rules:
            found[rule.head.relation].append(RuleBody(rule, self.program.relations))
        return found

    def codes(self, relation: str, row: Row) -> Pattern:
        """Return the codes of a row, None for `...`.

        Raises InputError or ValueOutOfRangeError if the row does not fit the schema.
        """
        schema = self.tables[relation].schema
        if not isinstance(row, tuple) or len(row) != schema.arity:
            raise InputError(
                f"expected a row of '{relation}' as a tuple ({schema.describe()}), got {shorten(row)}",
                code="invalid-row",
            )
        return tuple(
            None if value is ... else encode_value(type_, value, self.interner)
            for type_, value in zip(schema.types, row, strict=True)
        )

    def find(self, relation: str, pattern: Pattern) -> Codes:
        """Return the positions of the rows that match a pattern, small heights first."""
        columns = [column for column, code in enumerate(pattern) if code is not None]
        keys = np.array([[pattern[column] for column in columns]], np.int64)
        return self.tables[relation].find(columns, keys)[1]

    def matching(self, goal: checked.Rule, limit: int) -> list[Row]:
        """Return at most `limit` rows that match the single atom of a goal, small heights first."""
        atom = expect_type(goal.body[0], syntax.Atom, "the single atom of a goal")
        body = RuleBody(goal, self.program.relations)
        scan = body.scan_of(0)
        pieces = [found.chosen[scan] for found in self.solver.solutions(body.body, Bindings.single({}))]
        at = np.unique(np.concatenate([np.empty(0, np.int64), *pieces]))
        at = at[np.argsort(self.tables[atom.relation].heights[at], kind="stable")][:limit]
        return [row_at(self.solver, atom.relation, position) for position in at.tolist()]

    def refuse(self, goal: checked.Rule, depth: int) -> Refusal | None:
        """Explain why no row matches the single atom of a goal; None if one does (see `refute`).

        Raises InputError for an atom with terms that depend on its variables, such as `p(x, x +
        1)`.
        """
        if self.matching(goal, 1):
            return None
        atom = expect_type(goal.body[0], syntax.Atom, "the single atom of a goal")
        body = RuleBody(goal, self.program.relations)
        scan = expect_type(body.body[body.scan_of(0)], Scan, "the scan of the atom")
        conditions = [literal for literal in body.body if isinstance(literal, Condition)]
        constant = solvable(conditions, ())
        if len(constant) < len(conditions):
            raise InputError(
                f"expected only constants and variables in the atom, got {show_literal(atom)}",
                code="invalid-question",
            )
        values = next(self.solver.solutions(constant, Bindings.single({})), Bindings.single({})).values
        pattern = [
            None if name is None or name not in values else int(values[name][0]) for name in scan.variables
        ]
        for column, value in scan.constants:
            type_ = self.tables[scan.relation].schema.types[column]
            pattern[column] = encode_value(type_, value.value, self.interner)
        refusal = self._with_causes(scan.relation, tuple(pattern), scan.equal, depth)
        return replace(refusal, text=show_literal(atom))

    def refute(self, relation: str, pattern: Pattern, depth: int = 1) -> Refusal | None:
        """Explain why no row of a relation matches a pattern; None if one does.

        With a depth of more than 1, the refusal also explains the rows that are missing in the
        matches, down to this depth.
        """
        return None if len(self.find(relation, pattern)) else self._with_causes(relation, pattern, (), depth)

    def _with_causes(self, relation: str, pattern: Pattern, equal: Equal, depth: int) -> Refusal:
        first = self._refusal(relation, pattern, equal)
        seen = {(relation, pattern)}
        causes: list[Refusal] = []
        waiting = deque([(first, 1)])
        while waiting:
            refusal, level = waiting.popleft()
            for key in refusal.missing() if level < depth else ():
                missing = (key[0], self.codes(*key))
                if missing not in seen:
                    seen.add(missing)
                    causes.append(self._refusal(*missing, ()))
                    waiting.append((causes[-1], level + 1))
        return replace(first, causes=tuple(causes))

    def _refusal(self, relation: str, pattern: Pattern, equal: Equal) -> Refusal:
        refuter = Refuter(self.solver, self.program.relations)
        types = self.tables[relation].schema.types
        row = tuple(
            ... if code is None else decode_value(type_, code, self.interner)
            for type_, code in zip(types, pattern, strict=True)
        )
        attempts = tuple(refuter.attempt(body.with_equal(equal), pattern) for body in self.rules[relation])
        text = pattern_text(self.program.relations[relation], row)
        removed = self._removed_matches(relation, pattern, equal)
        input_removed = any(self.removals.is_input_fact(relation, at) for at in removed)
        is_input = relation in self.program.filled and not input_removed
        return Refusal(text, is_input, attempts, tuple(self._notes(relation, row, removed)))

    def _notes(self, relation: str, row: Row, removed: list[int]) -> Iterator[str]:
        """Yield what decides the rows of the relation apart from the attempts of its rules."""
        if relation in self.opaque:
            yield f"a row of this relation {self.opaque[relation]}: the rules alone do not determine it"
        declared = self.program.relations[relation]
        if declared.equivalence and ... not in row:
            yield f"no chain of rows connects the two values ({declared.span.place}: {relation} is an eqrel)"
        for at in removed[:SHOWN]:
            yield self.removals.reason(relation, at)
        if not removed:
            yield from self.removals.limits(relation)

    def _removed_matches(self, relation: str, pattern: Pattern, equal: Equal) -> list[int]:
        """Return the positions of the removed rows that match a pattern."""
        table = self.removals.table(relation)
        if table is None:
            return []
        columns = [column for column, code in enumerate(pattern) if code is not None]
        found = table.find(columns, np.array([[pattern[column] for column in columns]], np.int64))[1]
        for first, second in equal:
            found = found[table.rows[found, first] == table.rows[found, second]]
        return list(found.tolist())

    def prove(self, relation: str, row: Row, depth: int | None) -> Proof | None:
        """Return a proof of the smallest height, `depth` rows deep; None if the row is missing."""
        found = self.find(relation, self.codes(relation, row))
        if not len(found):
            return None
        position = int(found[0])
        steps: dict[Key, ProofStep] = {}
        start = (relation, position)
        waiting = deque([(start, 0)])
        seen = {start}
        while waiting:
            (name, at), level = waiting.popleft()
            step, premises = self._step(name, at, depth is None or level < depth, is_goal=not level)
            steps[step.key] = step
            for premise in premises:
                if premise not in seen:
                    seen.add(premise)
                    waiting.append((premise, level + 1))
        return Proof((relation, row_at(self.solver, relation, position)), steps)

    def _step(
        self, relation: str, at: int, follow: bool, is_goal: bool
    ) -> tuple[ProofStep, list[tuple[str, int]]]:
        """Return the step that derives a row, and the rows among its premises."""
        table = self.tables[relation]
        key = (relation, row_at(self.solver, relation, at))
        height = int(table.heights[at])
        text = row_text(self.program.relations[relation], key[1])
        if not height:
            leaf = self.opaque.get(relation, "input fact")
            return ProofStep(key, text, 0, None, None, None, (), leaf), []
        if table.underived is not None and table.underived[at]:
            return ProofStep(key, text, height, None, None, None, (), UNDERIVED), []
        codes = table.rows[at]
        rows: list[tuple[str, int]] = []
        derived = self._derived(relation, codes, height, rows)
        premises = (*derived.premises, *self._removed(relation, codes, is_goal)) if follow else None
        step = ProofStep(key, text, height, derived.rule, derived.number, derived.place, premises)
        return step, rows if follow else []

    def _derived(self, relation: str, codes: Codes, height: int, rows: list[tuple[str, int]]) -> _Derivation:
        """Return the rule that derives a row, with its premises; append their rows to `rows`."""
        for body, found in self._instances(relation, codes.tolist(), height):
            rule = body.rule
            premises = tuple(self._premises(body, found, rows))
            return _Derivation(show_rule(rule), rule.number, rule.span.place, premises)
        declared = self.program.relations[relation]
        if declared.equivalence:
            premises = tuple(self._chain(relation, codes, height, rows))
            text = f"{relation} is an equivalence relation (eqrel)."
            return _Derivation(text, None, declared.span.place, premises)
        row = row_text(declared, decoded_row(self.solver, relation, codes))
        raise InvariantError(f"expected a rule that derives {row}, got none; this is a defect of dbsp")

    def _chain(
        self, relation: str, codes: Codes, height: int, rows: list[tuple[str, int]]
    ) -> Iterator[Premise]:
        """Yield the pairs of smaller height that connect the two values of a row."""
        if relation not in self._chains:
            self._chains[relation] = Chains(self.tables[derived_pairs(relation)])
        start, end = codes.tolist()
        pairs = expect_present(self._chains[relation].between(start, end, height), "pairs that connect a row")
        for pair in pairs:
            at = int(self.tables[relation].positions(pair[None, :])[0])
            rows.append((relation, at))
            row = row_at(self.solver, relation, at)
            yield Premise("row", row_text(self.program.relations[relation], row), (relation, row))

    def _removed(self, relation: str, codes: Codes, is_goal: bool) -> Iterator[Premise]:
        for removed in self.removals.by_row(relation, codes, is_goal):
            yield Premise("removed", removed.text, None, removed.count, removed.rows)

    def _instances(self, relation: str, codes: list[int], height: int) -> Iterator[tuple[RuleBody, Bindings]]:
        """Yield the derivations of a row from rows of smaller height."""
        for body in self.rules[relation]:
            given = body.given(tuple(codes))
            if given is None or body.is_false:
                continue
            for found in self.solver.solutions(body.body, given, below=height):
                yield body, found.take(slice(0, 1))

    def _premises(self, body: RuleBody, found: Bindings, rows: list[tuple[str, int]]) -> Iterator[Premise]:
        """Yield the premises of a rule for one binding; append the positions of rows to `rows`."""
        environment = body.environment(found, self.interner)
        for place, literal in enumerate(body.rule.body):
            match literal:
                case syntax.Atom(relation=name):
                    at = int(found.chosen[body.scan_of(place)][0])
                    rows.append((name, at))
                    row = row_at(self.solver, name, at)
                    yield Premise("row", row_text(self.program.relations[name], row), (name, row))
                case syntax.Negation():
                    yield Premise("absent", body.text(place, environment))
                case _ if not body.is_trivial(place):
                    yield Premise("constraint", body.text(place, environment))
            yield from self._aggregates(body, place, found)
        yield from self._aggregates(body, len(body.rule.body), found)

    def _aggregates(self, body: RuleBody, place: int, found: Bindings) -> Iterator[Premise]:
        for aggregation in body.aggregations(place, found, self.solver):
            yield Premise("aggregate", aggregation.text, None, aggregation.solutions, aggregation.rows)
