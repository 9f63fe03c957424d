"""Find the closest partial matches of rules for a missing row.

With the head bound, some literals of a rule's body cannot hold together. A closest match drops as
few literals as possible. The search drops each literal, then each pair of literals. If neither
suffices, it adds literals one by one as long as they hold together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.plans.normalise import Absent, AggregateLiteral, NormalLiteral
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Value
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.refusal import Attempt, LiteralStatus, Match
from dbsp.compiler.why.rule_body import Environment, RuleBody, row_at, row_text
from dbsp.compiler.why.solve import Solver, solvable
from dbsp.errors import expect_present

Pattern: TypeAlias = tuple[int | None, ...]
"""The codes of a row; None matches any value."""

_PAIRS = 12
"""Pairs of literals are tried in bodies of up to this many literals."""

_SHOWN = 3
"""The maximum number of equally close matches shown for a rule."""


class Refuter:
    """Explains why rules derive no row that matches a pattern."""

    def __init__(self, solver: Solver, relations: Mapping[str, Relation]) -> None:
        self.solver = solver
        self.relations = relations

    def attempt(self, body: RuleBody, pattern: Pattern) -> Attempt:
        """Return the closest partial matches of a rule with its head bound."""
        rule = body.rule
        return Attempt(show_rule(rule), rule.number, rule.span.place, tuple(self._matches(body, pattern)))

    def _matches(self, body: RuleBody, pattern: Pattern) -> Iterator[Match]:
        given = body.given(pattern)
        if given is None:
            yield Match((LiteralStatus("fails", body.head_text({}), "the head requires equal values here"),))
            return
        places = range(len(body.rule.body) + 1)
        never = {
            at for at, literal in enumerate(body.rule.body) if literal == syntax.Truth(False, literal.span)
        }
        left = [place for place in places if place not in never and self._of(body, {place})]
        # A rule may derive the row if a choice, a subsumption or a limit removes it.
        for number in (0, 1, 2) if len(left) <= _PAIRS else (0, 1):
            ways: list[tuple[int, Match]] = []
            for out in combinations(left, number) if not never or number > 1 else ((),):
                if not number and len(solvable(body.body, given.values)) < len(body.body):
                    continue
                found = self._solve(body, given, set(left) - set(out))
                if found is not None:
                    match = self._match(body, found, {*out, *never})
                    ways.append((sum(part.status != "holds" for part in match.parts), match))
            if ways:
                least = min(failing for failing, _ in ways)
                yield from [match for failing, match in ways if failing == least][:_SHOWN]
                return
        together: set[int] = set()
        for place in left:
            if self._solve(body, given, together | {place}) is not None:
                together.add(place)
        found = expect_present(self._solve(body, given, together), "the match that was found before")
        yield self._match(body, found, {*left, *never} - together)

    def _of(self, body: RuleBody, places: Collection[int]) -> list[NormalLiteral]:
        """Return the normalised literals of these literals of the rule."""
        return [literal for literal, origin in zip(body.body, body.origins, strict=True) if origin in places]

    def _solve(self, body: RuleBody, given: Bindings, places: Collection[int]) -> Bindings | None:
        """Return the first solution of the literals at these places that are not open."""
        literals = solvable(self._of(body, places), given.values)
        # Rows are stored under the position of their scan in the complete body.
        numbered = [
            (at, literal)
            for at, literal in enumerate(body.body)
            if any(literal is other for other in literals)
        ]
        return next((found.take(slice(0, 1)) for found in self.solver.solve(numbered, given)), None)

    # --- the parts of a match --------------------------------------------------------------------

    def _match(self, body: RuleBody, found: Bindings, out: Collection[int]) -> Match:
        parts = [
            self._part(body, place, found, place in out)
            for place in range(len(body.rule.body))
            if not body.is_trivial(place) or place in out
        ]
        end = len(body.rule.body)
        head = self._of(body, {end})
        if end in out:
            parts.append(self._head(body, found))
        elif len(solvable(head, found.values)) < len(head):
            parts.append(LiteralStatus("open", body.head_text(body.environment(found, self.solver.interner))))
        return Match(tuple(parts))

    def _part(self, body: RuleBody, place: int, found: Bindings, out: bool) -> LiteralStatus:
        literals = self._of(body, {place})
        environment = body.environment(found, self.solver.interner)
        text = body.text(place, environment)
        if len(solvable(literals, found.values)) < len(literals):
            return LiteralStatus("open", text)
        if not out:
            match body.rule.body[place]:
                case syntax.Atom(relation=name):
                    row = row_at(self.solver, name, int(found.chosen[body.scan_of(place)][0]))
                    return LiteralStatus("holds", row_text(self.relations[name], row), "", (name, row))
                case _:
                    return LiteralStatus("holds", text)
        match body.rule.body[place]:
            case syntax.Atom() as atom:
                return self._missing(body, place, atom, text, found)
            case syntax.Negation():
                return LiteralStatus("fails", text, self._blocking(literals, found))
            case syntax.Comparison():
                return self._unmet(body, place, literals, text, found)
            case _:
                return LiteralStatus("fails", text)

    def _row_text(self, relation: str, at: int) -> str:
        return row_text(self.relations[relation], row_at(self.solver, relation, at))

    def _missing(
        self, body: RuleBody, place: int, atom: syntax.Atom, text: str, found: Bindings
    ) -> LiteralStatus:
        if self.solver.holds(self._of(body, {place}), found):
            return LiteralStatus("fails", text, "rows match, but not together with the other literals")
        shown = _values(atom, body.environment(found, self.solver.interner))
        if shown is None:
            return LiteralStatus("fails", text, "no row matches")
        return LiteralStatus("fails", text, "is missing", (atom.relation, shown))

    def _blocking(self, literals: Sequence[NormalLiteral], found: Bindings) -> str:
        """Describe a row that violates the negation."""
        for literal in literals:
            if isinstance(literal, Absent):
                scan = literal.pattern
                others = [other for other in literals if other is not literal]
                for piece in self.solver.solve([(0, scan), *((1, other) for other in others)], found):
                    return f"{self._row_text(scan.relation, int(piece.chosen[0][0]))} is present"
        return "has no value"

    def _unmet(
        self,
        body: RuleBody,
        place: int,
        literals: Sequence[NormalLiteral],
        text: str,
        found: Bindings,
    ) -> LiteralStatus:
        aggregates = [
            (at, literal) for at, literal in enumerate(literals) if isinstance(literal, AggregateLiteral)
        ]
        if not aggregates:
            return LiteralStatus("fails", text, "does not hold")
        for piece in self.solver.solve(aggregates, found):
            values = [
                f"the {aggregation.function} is {aggregation.value}"
                for aggregation in body.aggregations(place, piece, self.solver)
            ]
            return LiteralStatus("fails", text, f"does not hold: {', '.join(values)}")
        return LiteralStatus("fails", text, "has no value")

    def _head(self, body: RuleBody, found: Bindings) -> LiteralStatus:
        """Return the row that the rule derives when its body holds."""
        place = len(body.rule.body)
        aggregates = [
            (at, literal)
            for at, literal in enumerate(self._of(body, {place}))
            if isinstance(literal, AggregateLiteral)
        ]
        for piece in self.solver.solve(aggregates, found):
            found = piece
        environment = body.environment(found, self.solver.interner)
        return LiteralStatus("fails", body.head_text(environment), "the rule derives this row instead")


def _values(atom: syntax.Atom, environment: Environment) -> tuple[Value, ...] | None:
    """Return the row of an atom, or None if a term is unbound or has to be computed."""
    values = []
    for term in atom.arguments:
        if isinstance(term, syntax.Variable):
            term = environment.get(term.name, term)
        if not isinstance(term, syntax.Constant):
            return None
        values.append(term.value)
    return tuple(values)
