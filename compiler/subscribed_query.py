"""Queries to subscribe to: the body of a rule, with its constants as rows of a relation.

    path(1, x), x > 5     is the query     ?(p, q, x) :- given(p, q), path(p, x), x > q.
                          for the row      given(1, 5)

Queries that differ in constants, in names of variables and in white space have one form, so one
circuit answers all of them: each has one row of `given`, and the answers that begin with this row.
Constants stay where they are if the query can fail, as by a division: else the constants of one
subscriber could stop the queries of others. Constants in patterns of text and inside aggregates and
functions stay, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

from dbsp.compiler.datalog.circuits.lowering_context import relation_schema
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Attribute, Relation, Rule
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import find, map_children, rename
from dbsp.compiler.why.question import ANSWER, Question, read_question
from dbsp.data.schema import Schema
from dbsp.errors import InputError
from dbsp.lazy_dataclass import dataclass

GIVEN = "?given"
"""The relation of the constants; no program can declare this name."""


@dataclass(frozen=True)
class QueryForm:
    """The rules of a query for the relation `ANSWER`, whose first columns are those of `GIVEN`.

    Equal forms have equal circuits: names of variables are numbered, positions do not count.
    """

    given: Relation
    answer: Relation
    rules: tuple[Rule, ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # A tick looks up the form of each query that changes, and its rules have many parts.
        object.__setattr__(self, "_hash", hash((self.given, self.answer, self.rules)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations of the program that the query reads."""
        used = Question(self.answer, self.rules).relations
        return tuple(name for name in used if name != GIVEN)


@dataclass(frozen=True)
class SubscribedQuery:
    """A query: its form, its constants, and the names of its columns."""

    form: QueryForm
    constants: tuple[Any, ...]
    columns: Schema


def read_query(program: checked.CheckedProgram, text: str) -> SubscribedQuery:
    """Read the body of a rule.

    Raises CompileError with every error found, InputError for a query that numbers its rows.
    """
    question = read_question(program, text)
    if any(map(numbers_rows, question.rules)):
        raise InputError(
            "a subscription cannot number rows with autoinc(), since the numbers depend on all ticks of the "
            "run; number them in a relation of the program",
            code="rows-not-kept",
        )
    names = {
        variable.name: f"v{number}" for number, variable in enumerate(dict.fromkeys(_variables(question)))
    }
    rules = [_renamed(rule, names) for rule in question.rules]
    constants: list[syntax.Constant] = []
    if all(is_total(literal) for rule in rules for literal in rule.body):
        rules = [
            replace(rule, body=tuple(_lifted(literal, constants) for literal in rule.body)) for rule in rules
        ]
    # The relation has at least one column: a join has a variable of it.
    values = [constant.value for constant in constants] or [0]
    kinds = [constant.kind for constant in constants] or [Kind.NUMBER]
    span = question.answer.span
    given = [syntax.Variable(f"p{number}", span, kind) for number, kind in enumerate(kinds)]
    attributes = tuple(Attribute(each.name, each.kind.value, each.kind) for each in given)
    numbered = tuple(
        Attribute(f"v{number}", each.type_name, each.kind)
        for number, each in enumerate(question.answer.attributes)
    )
    first = syntax.Atom(GIVEN, tuple(given), span, span)
    form = QueryForm(
        Relation(GIVEN, attributes, span),
        Relation(ANSWER, (*attributes, *numbered), span),
        tuple(
            replace(
                rule,
                head=replace(rule.head, arguments=(*given, *rule.head.arguments)),
                body=(first, *rule.body),
                order=None,
            )
            for rule in rules
        ),
    )
    return SubscribedQuery(form, tuple(values), relation_schema(question.answer))


def _variables(question: Question) -> Iterator[syntax.Variable]:
    """Yield the variables of a question, those of its columns first."""
    for rule in question.rules:
        for part in (*rule.head.arguments, *rule.body):
            yield from find(part, syntax.Variable)


def _renamed(rule: Rule, names: dict[str, str]) -> Rule:
    return replace(
        rule,
        head=rename(rule.head, names),
        body=tuple(rename(literal, names) for literal in rule.body),
    )


def _lifted(literal: syntax.Literal, constants: list[syntax.Constant]) -> syntax.Literal:
    """Return a literal with variables instead of its constants, which are appended to the list."""

    def lifted(term: Any) -> Any:
        if not isinstance(term, syntax.Constant):
            return term
        constants.append(term)
        return syntax.Variable(f"p{len(constants) - 1}", term.span, term.kind)

    match literal:
        case syntax.Atom():
            return map_children(literal, lifted)
        case syntax.Negation(atom=atom):
            return replace(literal, atom=map_children(atom, lifted))
        case syntax.Comparison(operator=operator) if operator not in syntax.TEXT_TESTS:
            return map_children(literal, lifted)
    return literal
