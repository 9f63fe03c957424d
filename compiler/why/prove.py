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
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.proof import Key, Premise, Proof, ProofStep
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.refute import Pattern, Refuter
from dbsp.compiler.why.rule_body import Equal, Row, RuleBody, pattern_text, row_at, row_text
from dbsp.compiler.why.solve import Solver, solvable
from dbsp.data.interner import Interner
from dbsp.data.values import decode_value, encode_value
from dbsp.errors import InputError, InvariantError, expect_type, shorten
from dbsp.kernels.arrays import Codes


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
        return Refusal(text, relation in self.program.inputs, attempts, self.opaque.get(relation))

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
            step, premises = self._step(name, at, depth is None or level < depth)
            steps[step.key] = step
            for premise in premises:
                if premise not in seen:
                    seen.add(premise)
                    waiting.append((premise, level + 1))
        return Proof((relation, row_at(self.solver, relation, position)), steps)

    def _step(self, relation: str, at: int, follow: bool) -> tuple[ProofStep, list[tuple[str, int]]]:
        """Return the step that derives a row, and the rows among its premises."""
        table = self.tables[relation]
        row = row_at(self.solver, relation, at)
        height = int(table.heights[at])
        text = row_text(self.program.relations[relation], row)
        if not height:
            leaf = self.opaque.get(relation, "input fact")
            return ProofStep((relation, row), text, 0, None, None, None, (), leaf), []
        for body, found in self._instances(relation, table.rows[at].tolist(), height):
            rule = body.rule
            rows: list[tuple[str, int]] = []
            premises = tuple(self._premises(body, found, rows)) if follow else None
            return ProofStep(
                (relation, row), text, height, show_rule(rule), rule.number, rule.span.place, premises
            ), rows
        raise InvariantError(f"expected a rule that derives {text}, got none; this is a defect of dbsp")

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
