"""Why a row is missing: the closest partial matches of the clauses.

With the values of the row, some clauses cannot hold together. A closest match drops as few clauses
as possible: one or two. If that does not suffice, clauses are added one by one as long as they hold
together. Of equally many, the match is closest that is about the entities of the row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from dbsp.compiler.datomic.meaning.bindable import variables_of
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.clojure_order import is_true
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.compiler.why.refusal import Attempt, LiteralStatus, Match, Refusal
from dbsp.datomic.proofs.clause_search import (
    Branch,
    ClauseSearch,
    Failed,
    Given,
    Part,
    RuleRow,
    Solution,
    with_values,
)
from dbsp.datomic.proofs.clause_text import (
    found_text,
    part_text,
    row_text,
    rule_row_text,
    value_text,
)
from dbsp.datomic.proofs.query_rows import Explained, QueryRow
from dbsp.datomic.proofs.same_values import Environment, ValueRow
from dbsp.datomic.proofs.source_rows import FoundRow
from dbsp.errors import DbspError, expect_present
from dbsp.lazy_dataclass import dataclass

_PAIRS = 12
"""Pairs of clauses are tried in conjunctions of up to this many clauses."""

_SHOWN = 3
"""The maximum number of equally close matches shown for a query or a rule."""


_OPEN = 0.3
"""How much farther a match is for each clause that lacks a value of a variable."""

_DETACHED = 0.8
"""How much farther a match is for each missing clause that would find an entity by the row."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A partial match, how far it is from a complete one, and the missing rows of rules."""

    distance: float
    match: Match
    missing: list[RuleRow]


class RowRefuter:
    """Explains why a query, or a rule, has no row."""

    def __init__(self, explained: Explained) -> None:
        self.explained = explained
        self.search: ClauseSearch = explained.search

    def refute(self, row: QueryRow, depth: int) -> Refusal:
        """Explain why no row matches.

        With a depth of 2 or more, also explain the missing rows of rules in the matches.
        """
        first, missing = self._of_query(row)
        causes: list[Refusal] = []
        seen: set[tuple[str, str, ValueRow]] = set()
        waiting = deque((each, 2) for each in missing)
        while waiting:
            rule_row, level = waiting.popleft()
            key = (rule_row.name, rule_row.source, ValueRow(rule_row.values))
            if level <= depth and key not in seen:
                seen.add(key)
                cause, below = self._of_rule(rule_row)
                causes.append(cause)
                waiting.extend((each, level + 1) for each in below)
        return replace(first, causes=tuple(causes))

    def _of_query(self, row: QueryRow) -> tuple[Refusal, list[RuleRow]]:
        explained = self.explained
        missing: list[RuleRow] = []
        shown = row.values[: len(explained.query.find.elements)]
        matches = self._matches(explained.parts, with_values(explained.variables, row.values), "$", missing)
        attempt = Attempt(explained.text, 1, explained.place, tuple(matches))
        return Refusal(row_text(shown), False, (attempt,)), missing

    def _of_rule(self, row: RuleRow) -> tuple[Refusal, list[RuleRow]]:
        missing: list[RuleRow] = []
        attempts = []
        for number, definition in enumerate(self.search.rules[row.name], 1):
            given = with_values([variable.name for variable in definition.head], row.values)
            matches = tuple(self._matches(definition.clauses, given, row.source, missing))
            text = self.explained.texts.between(definition.span)
            attempts.append(Attempt(text, number, str(definition.span), matches))
        return Refusal(rule_row_text(row), False, tuple(attempts)), missing

    # --- matches ----------------------------------------------------------------------------------

    def _matches(
        self, parts: Sequence[Part], given: Environment | None, dollar: str, missing: list[RuleRow]
    ) -> Iterator[Match]:
        if given is None:
            text = "the same variable"
            yield Match((LiteralStatus("fails", text, "has two values in this row"),))
            return
        places = range(len(parts))
        ways: list[_Way] = []
        for number in (1, 2) if len(places) <= _PAIRS else (1,):
            for out in combinations(places, number):
                found = self._solve(parts, given, set(places) - set(out), dollar)
                if found is not None:
                    ways.append(self._way(parts, found, out, dollar, given))
            if any(way.distance <= number for way in ways):
                break
        if ways:
            least = min(way.distance for way in ways)
            closest = {way.match: way.missing for way in ways if way.distance == least}
            for match in list(closest)[:_SHOWN]:
                missing += closest[match]
                yield match
            return
        together: set[int] = set()
        for place in places:
            if self._solve(parts, given, together | {place}, dollar) is not None:
                together.add(place)
        found = expect_present(self._solve(parts, given, together, dollar), "the match that was found before")
        yield Match(tuple(self._parts(parts, found, set(places) - together, dollar, given, missing)))

    def _way(
        self,
        parts: Sequence[Part],
        found: Solution,
        out: Collection[int],
        dollar: str,
        given: Environment,
    ) -> _Way:
        missing: list[RuleRow] = []
        match = Match(tuple(self._parts(parts, found, out, dollar, given, missing)))
        failing = sum(part.status == "fails" for part in match.parts)
        left_open = sum(part.status == "open" for part in match.parts)
        detached = sum(_is_detached(parts[at], given) for at in out)
        return _Way(failing + _OPEN * left_open + _DETACHED * detached, match, missing)

    def _solve(
        self, parts: Sequence[Part], given: Environment, places: Collection[int], dollar: str
    ) -> Solution | None:
        """Return the first solution of the clauses at these places that have the values they
        need."""
        everything = tuple(enumerate(parts))
        chosen = tuple(each for each in everything if each[0] in places)
        return next(self.search.among(chosen, everything, given, dollar, partial=True), None)

    def _parts(
        self,
        parts: Sequence[Part],
        found: Solution,
        out: Collection[int],
        dollar: str,
        given: Environment,
        missing: list[RuleRow],
    ) -> Iterator[LiteralStatus]:
        """Yield the status of each clause in a match; append the rows of rules that are missing."""
        known = found.environment
        everything = tuple(enumerate(parts))
        for at, part in everything:
            if at in found.evidence:
                if not (isinstance(part, Given) and part.is_single):
                    yield self._holding(part, found, at)
            elif at in out and self.search.is_ready(at, part, everything, given, known):
                status, row = self._failing(part, known, dollar)
                missing += [] if row is None else [row]
                yield status
            else:
                yield LiteralStatus("open", part_text(part, known), f"by {part.span}")

    def _holding(self, part: Part, found: Solution, at: int) -> LiteralStatus:
        by = f"by {part.span}"
        match found.evidence[at]:
            case FoundRow() as row:
                if isinstance(part, tree.Pattern):
                    return LiteralStatus("holds", found_text(row), by, (row.source, ValueRow(row.values)))
            case RuleRow() as row:
                return LiteralStatus("holds", rule_row_text(row), by, (row.name, ValueRow(row.values)))
            case Branch(clause=clause, number=number):
                by = f"by {clause.branches[number][0].span}"
        return LiteralStatus("holds", part_text(part, found.environment), by)

    # --- failing clauses --------------------------------------------------------------------------

    def _failing(self, part: Part, known: Environment, dollar: str) -> tuple[LiteralStatus, RuleRow | None]:
        """Return why a clause fails, and the row of a rule that is missing."""
        text = part_text(part, known)
        by = f"by {part.span}"
        if next(self.search.step(part, known, dollar), None) is not None:
            return LiteralStatus(
                "fails", text, f"holds, but not together with the other clauses   {by}"
            ), None
        match part:
            case tree.RuleCall(name=name):
                source = dollar if part.source == "$" else part.source
                values = self.search.arguments(part, known, source)
                wanted = None if values is None else RuleRow(name, source, values)
                return LiteralStatus("fails", text, f"is missing   {by}"), wanted
            case tree.Not():
                return LiteralStatus("fails", text, f"{self._blocking(part, known, dollar)}   {by}"), None
            case tree.Predicate(function="missing?"):
                return LiteralStatus("fails", text, f"the entity has a value   {by}"), None
            case tree.Predicate() | tree.Function():
                return LiteralStatus("fails", text, f"{self._unmet(part, known, dollar)}   {by}"), None
            case tree.Or():
                return LiteralStatus("fails", text, f"no branch holds   {by}"), None
            case Given(is_single=True, rows=rows):
                values_text = ", ".join(map(value_text, rows[0])) if rows else "nil"
                return LiteralStatus("fails", text, f"the argument is {values_text}   {by}"), None
            case Given():
                return LiteralStatus("fails", text, f"is not among the arguments   {by}"), None
        return LiteralStatus("fails", text, f"is missing   {by}"), None

    def _blocking(self, clause: tree.Not, known: Environment, dollar: str) -> str:
        """Describe the rows by which the clauses of a negation hold."""
        solution = next(self.search.inside(clause, known, dollar), None)
        solution = expect_present(solution, "a solution of a negation that fails")
        shown = []
        for at, part in enumerate(clause.clauses):
            evidence = solution.evidence[at]
            if isinstance(evidence, FoundRow):
                shown.append(found_text(evidence))
            elif isinstance(evidence, RuleRow):
                shown.append(rule_row_text(evidence))
            elif not isinstance(part, tree.Not):
                shown.append(part_text(part, solution.environment))
        return f"{', '.join(shown)} {'holds' if len(shown) == 1 else 'hold'}" if shown else "it holds inside"

    def _unmet(self, clause: tree.Predicate | tree.Function, known: Environment, dollar: str) -> str:
        """Describe the value of a function that does not fit."""
        if isinstance(clause, tree.Function) and clause.function in ("get-else", "get-some"):
            values = self.search.values_of(clause, known, dollar)
            return f"the value is {', '.join(map(value_text, values))}" if values else "there is no value"
        value = self.search.called(clause, known)
        if isinstance(value, Failed):
            return f"has no value: {value.message}"
        if isinstance(clause, tree.Predicate):
            return f"the value is {value_text(value)}" if not is_true(value) else "does not hold"
        try:
            list(binding_rows(clause.binding, value))
        except DbspError as error:
            return f"the value is {value_text(value)}: {error.message}"
        return f"the value is {value_text(value)}"


def _is_detached(part: Part, given: Environment) -> bool:
    """Whether a match without the clause may be about other entities than those of the row."""
    if isinstance(part, Given | tree.Predicate | tree.Function | tree.Not):
        return False
    names = set(variables_of(part))
    return bool(names & given.keys()) and not names <= given.keys()
