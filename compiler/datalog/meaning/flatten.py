"""Expand several heads, `;` and negated groups to clauses with one head and one conjunction.

`a, b :- c, (d; e).` means four clauses. Negations move inwards: `!(x < 1, r(x))` becomes
`x >= 1; !r(x)`. The conjunctions are those of the disjunctive normal form, whose number is limited.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import N, map_children
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass

MAX_ALTERNATIVES = 1_000

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPPOSITE |= {"match": "!match", "!match": "match", "contains": "!contains", "!contains": "contains"}


@dataclass(frozen=True, slots=True)
class FlatClause(syntax.Node):
    """One head and literals that must all hold, none for a fact. Aggregates are flat, too."""

    head: syntax.Atom
    body: tuple[syntax.Literal, ...]
    is_fact: bool
    span: SourceSpan
    subsumes: bool = False


class _TooManyError(Exception):
    """More alternatives than `MAX_ALTERNATIVES`."""


def expand(clause: parsed.Clause, report: Report) -> list[FlatClause]:
    """The flat clauses of a clause; none when it has an error."""
    errors = report.error_count
    expander = _Expander(report)
    heads = [head for head in map(expander.literal, clause.heads) if isinstance(head, syntax.Atom)]
    bodies = [()] if clause.body is None else expander.alternatives(clause.body, clause.span)
    if report.error_count > errors:
        return []
    return [
        FlatClause(head, body, clause.body is None, clause.span, clause.subsumes)
        for head in heads
        for body in bodies
    ]


class _Expander:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.numbers = count(1)

    def alternatives(self, formula: syntax.Formula, span: SourceSpan) -> list[tuple[syntax.Literal, ...]]:
        """The conjunctions whose disjunction is the formula."""
        try:
            return self._alternatives(formula, positive=True)
        except _TooManyError:
            self.report.error(
                span,
                f"this expands to more than {MAX_ALTERNATIVES:,} rules without ';'",
                "move a part with ';' into a relation",
                code="program-too-large",
            )
            return []

    def _alternatives(self, formula: syntax.Formula, positive: bool) -> list[tuple[syntax.Literal, ...]]:
        match formula:
            case syntax.Not(part=part):
                return self._alternatives(part, not positive)
            case syntax.Conjunction(parts=parts) | syntax.Disjunction(parts=parts):
                choices = [self._alternatives(part, positive) for part in parts]
                if isinstance(formula, syntax.Conjunction) == positive:
                    return self._multiply(choices)
                found = [conjunction for choice in choices for conjunction in choice]
                if len(found) > MAX_ALTERNATIVES:
                    raise _TooManyError
                return found
            case _:
                literal = self.literal(formula)
                return [(literal if positive else _negated(literal),)]

    @staticmethod
    def _multiply(
        choices: list[list[tuple[syntax.Literal, ...]]],
    ) -> list[tuple[syntax.Literal, ...]]:
        count = 1
        for choice in choices:
            count *= len(choice)
            if count > MAX_ALTERNATIVES:
                raise _TooManyError
        return [tuple(literal for part in parts for literal in part) for parts in product(*choices)]

    def literal(self, literal: syntax.Literal) -> syntax.Literal:
        """The literal with the bodies of its aggregates expanded.

        `_ = term` holds if the term has a value: a named variable replaces the `_`.
        """
        match literal:
            case syntax.Comparison(operator="=", left=syntax.Wildcard(span=span), right=other) if (
                not isinstance(other, syntax.Wildcard)
            ):
                literal = replace(literal, left=self._unnamed(span))
            case syntax.Comparison(operator="=", left=other, right=syntax.Wildcard(span=span)) if (
                not isinstance(other, syntax.Wildcard)
            ):
                literal = replace(literal, right=self._unnamed(span))
        return map_children(literal, self._expanded)

    def _unnamed(self, span: SourceSpan) -> syntax.Variable:
        return syntax.Variable(f"_#_{next(self.numbers)}", span)

    def _expanded(self, node: N) -> N:
        """A part of a literal with the bodies of its aggregates expanded."""
        if not isinstance(node, syntax.Aggregate):
            return map_children(node, self._expanded)
        bodies = self.alternatives(syntax.Conjunction(node.body, node.span), node.span)
        if len(bodies) > 1:
            self.report.error(
                node.span,
                "';' inside an aggregate is not allowed",
                "define a relation with the alternatives, and aggregate over it",
                code="invalid-aggregate",
            )
        value = None if node.value is None else self._expanded(node.value)
        return replace(node, value=value, body=bodies[0] if bodies else ())


def _negated(literal: syntax.Literal) -> syntax.Literal:
    match literal:
        case syntax.Atom():
            return syntax.Negation(literal, literal.span)
        case syntax.Negation(atom=atom):
            return atom
        case syntax.Comparison(operator=operator):
            return replace(literal, operator=_OPPOSITE[operator])
        case syntax.Truth(value=value):
            return replace(literal, value=not value)
