"""The literals of a rule under a binding of variables: their rows and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.meaning.show import show_literal, show_term
from dbsp.compiler.datalog.plans.normalise import (
    AggregateLiteral,
    Condition,
    NormalLiteral,
    Scan,
    normalise_with_origins,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, type_of
from dbsp.compiler.datalog.tree.traversal import find, map_children, substitute
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.solve import Solver
from dbsp.data.interner import Interner
from dbsp.data.values import decode_value
from dbsp.errors import expect_present
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

Row: TypeAlias = tuple[Any, ...]
Environment: TypeAlias = Mapping[str, syntax.Constant]

Equal: TypeAlias = Sequence[tuple[int, int]]
"""Pairs of columns that must have equal values."""

SHOWN = 3
"""The maximum number of rows shown for an aggregate."""


def row_text(relation: Relation, row: Row) -> str:
    """Return the row in the syntax of a program."""
    terms = tuple(
        syntax.Constant(value, relation.span, attribute.kind)
        for value, attribute in zip(row, relation.attributes, strict=True)
    )
    return show_literal(syntax.Atom(relation.name, terms, relation.span, relation.span))


def pattern_text(relation: Relation, row: Row) -> str:
    """Return the row in the syntax of a program, with `_` for `...`."""
    terms = tuple(
        syntax.Wildcard(relation.span, attribute.kind)
        if value is ...
        else syntax.Constant(value, relation.span, attribute.kind)
        for value, attribute in zip(row, relation.attributes, strict=True)
    )
    return show_literal(syntax.Atom(relation.name, terms, relation.span, relation.span))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate of a rule under a binding: its value and the rows it ranges over."""

    function: str
    value: str
    text: str
    solutions: int
    rows: tuple[str, ...]


class RuleBody:
    """A rule prepared for search: its normal form, and the origin of each normalised literal."""

    def __init__(self, rule: checked.Rule, relations: Mapping[str, Relation]) -> None:
        self.rule = rule
        self.relations = relations
        normal, self.origins = normalise_with_origins(rule)
        self.is_false = syntax.Truth(False, rule.span) in rule.body
        self.head = normal.head
        self.body: tuple[NormalLiteral, ...] = expect_present(normal.body, "the body of a rule")
        # A computed term of the head becomes a condition: it equals the value of the row.
        self.goals = tuple(f"@{column}" for column in range(len(self.head)))
        for goal, term in zip(self.goals, self.head, strict=True):
            if isinstance(term, syntax.Variable):
                continue
            value = syntax.Variable(goal, term.span, term.kind)
            self.body += (Condition(syntax.Comparison("=", value, term, term.span)),)
            self.origins += (len(rule.body),)

    def with_equal(self, equal: Equal) -> RuleBody:
        """Return the rule restricted to head rows with equal values in these columns."""
        if not equal:
            return self
        restricted = RuleBody(self.rule, self.relations)
        for first, second in equal:
            comparison = syntax.Comparison("=", self._of_head(first), self._of_head(second), self.rule.span)
            restricted.body += (Condition(comparison),)
            restricted.origins += (len(self.rule.body),)
        return restricted

    def _of_head(self, column: int) -> syntax.Variable:
        """Return the variable that holds the value of a column of the head."""
        term = self.head[column]
        if isinstance(term, syntax.Variable):
            return term
        return syntax.Variable(self.goals[column], term.span, term.kind)

    @cached_property
    def kinds(self) -> dict[str, AnyKind]:
        """The kinds of the variables outside of aggregates."""
        found: dict[str, AnyKind] = {}
        for part in (self.rule.head, *self.rule.body):
            found.update(
                (variable.name, variable.kind)
                for variable in find(part, syntax.Variable, into_aggregates=False)
            )
        for literal in self.body:
            if isinstance(literal, AggregateLiteral):
                found.update((result.variable, result.kind) for result in literal.results)
        return found

    def given(self, codes: Sequence[int | None]) -> Bindings | None:
        """Return the binding that a row of the head implies; None if a variable has two values.

        A code of None leaves its column unbound.
        """
        values: dict[str, int] = {}
        for goal, term, code in zip(self.goals, self.head, codes, strict=True):
            name = term.name if isinstance(term, syntax.Variable) else goal
            if code is None:
                continue
            if values.setdefault(name, code) != code:
                return None
        return Bindings.single(values)

    def scan_of(self, place: int) -> int:
        """Return the position in `body` of the scan of an atom of the rule."""
        return next(
            at
            for at, (literal, origin) in enumerate(zip(self.body, self.origins, strict=True))
            if origin == place and isinstance(literal, Scan)
        )

    # --- what to show ----------------------------------------------------------------------------

    def environment(self, found: Bindings, interner: Interner) -> dict[str, syntax.Constant]:
        """Return the values of the variables in the first binding."""
        return {
            name: syntax.Constant(
                decode_value(type_of(kind), int(found.values[name][0]), interner), self.rule.span, kind
            )
            for name, kind in self.kinds.items()
            if name in found.values
        }

    def text(self, place: int, environment: Environment) -> str:
        """Return the text of a literal of the rule, with the known values."""
        results = self._results(place)
        return show_literal(_with_values(self.rule.body[place], environment, results))

    def head_text(self, environment: Environment) -> str:
        """Return the text of the head, with the known values."""
        results = self._results(len(self.rule.body))
        return show_literal(_with_values(self.rule.head, environment, results))

    def is_trivial(self, place: int) -> bool:
        """Whether a literal only names the value of an aggregate, or is `true`."""
        match self.rule.body[place]:
            case syntax.Comparison("=", syntax.Variable(), syntax.Aggregate()):
                return True
            case syntax.Comparison("=", syntax.Aggregate(), syntax.Variable()):
                return True
            case syntax.Truth(value=True):
                return True
            case _:
                return False

    def aggregations(self, place: int, found: Bindings, solver: Solver) -> Iterator[Aggregation]:
        """Yield the aggregates of a literal, or of the head, for the first binding."""
        environment = self.environment(found, solver.interner)
        part = self.rule.body[place] if place < len(self.rule.body) else self.rule.head
        sources = find(part, syntax.Aggregate, into_aggregates=False)
        for source, literal in zip(sources, self._aggregates(place), strict=True):
            yield self._aggregation(source, literal, environment, found, solver)

    def _aggregation(
        self,
        source: syntax.Aggregate,
        literal: AggregateLiteral,
        environment: Environment,
        found: Bindings,
        solver: Solver,
    ) -> Aggregation:
        (result,) = literal.results
        given = Bindings.single({name: int(found.values[name][0]) for name in literal.injected})
        value = int(found.values[result.variable][0])
        witness = result.function in ("min", "max")
        solutions = 0
        rows: list[str] = []
        for piece in solver.solutions(literal.body, given):
            if witness and result.value is not None:
                piece, codes = solver.evaluate(result.value, piece)
                piece = piece.take(codes == value)
            solutions += piece.size
            for at in range(min(piece.size, (1 if witness else SHOWN) - len(rows))):
                rows.append(self._rows_text(literal, piece.take(slice(at, at + 1)), solver))
        shown = show_term(environment[result.variable])
        text = f"{shown} = {show_term(_in_aggregate(source, environment))}"
        return Aggregation(result.function, shown, text, solutions, tuple(rows))

    def _rows_text(self, literal: AggregateLiteral, piece: Bindings, solver: Solver) -> str:
        """Return the text of the rows in one solution of the body of an aggregate."""
        texts = [
            row_text(self.relations[scan.relation], row_at(solver, scan.relation, int(piece.chosen[at][0])))
            for at, scan in enumerate(literal.body)
            if isinstance(scan, Scan)
        ]
        return ", ".join(texts) or "the body holds"

    def _aggregates(self, place: int) -> list[AggregateLiteral]:
        return [
            literal
            for literal, origin in zip(self.body, self.origins, strict=True)
            if origin == place and isinstance(literal, AggregateLiteral)
        ]

    def _results(self, place: int) -> Iterator[str]:
        return (literal.results[0].variable for literal in self._aggregates(place))


def row_at(solver: Solver, relation: str, at: int) -> Row:
    """Return the values of a row of a table."""
    return decoded_row(solver, relation, solver.tables[relation].rows[at])


def decoded_row(solver: Solver, relation: str, codes: Codes) -> Row:
    """Return the values of the codes of a row of a relation."""
    types = solver.tables[relation].schema.types
    return tuple(
        decode_value(type_, code, solver.interner) for type_, code in zip(types, codes.tolist(), strict=True)
    )


def _with_values(node: Any, environment: Environment, results: Iterator[str]) -> Any:
    """Replace the variables and aggregates in a part of a rule by their values.

    `results` names the variables of the aggregates, in the order of the normal form.
    """
    match node:
        case syntax.Variable(name=name):
            return environment.get(name, node)
        case syntax.Aggregate():
            return environment.get(next(results), _in_aggregate(node, environment))
        case _:
            return map_children(node, lambda part: _with_values(part, environment, results))


def _in_aggregate(aggregate: syntax.Aggregate, environment: Environment) -> syntax.Aggregate:
    """Replace the outer variables of an aggregate by their values."""
    return substitute(
        aggregate, {name: environment[name] for name in aggregate.injected if name in environment}
    )
