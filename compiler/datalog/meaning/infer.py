"""Type inference: from flat clauses without kinds to clauses in which every term has its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from dbsp.compiler.datalog.meaning.anonymous import ANONYMOUS
from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.kind_classes import (
    MismatchError,
    kinds_text,
)
from dbsp.compiler.datalog.meaning.kind_inference import KindInference
from dbsp.compiler.datalog.meaning.signatures import CASTS
from dbsp.compiler.datalog.meaning.word_size import limits, wraps
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind, Structured
from dbsp.compiler.datalog.tree.traversal import map_children
from dbsp.data.terms import Branch, Record
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_type
from dbsp.lazy_dataclass import dataclass

L = TypeVar("L", bound=syntax.Literal)


@dataclass(frozen=True, slots=True)
class TypedClause:
    """A clause in checked form; `assemble` makes it a fact or a numbered rule."""

    head: syntax.Atom
    body: tuple[syntax.Literal, ...]
    span: SourceSpan
    structured: Mapping[int, Structured]
    """The kinds of the records and branches of the flat clause, by the `id` of the term."""


def infer(clause: FlatClause, declarations: Declarations, report: Report) -> TypedClause | None:
    """The typed clause, or None after a type mismatch (one message per clause)."""
    inference = _ClauseTyping(declarations, report)
    try:
        inference.atom(clause.head)
        for literal in clause.body:
            inference.literal(literal)
        inference.settle()
        return TypedClause(
            inference.typed_literal(clause.head),
            tuple(inference.typed_literal(literal) for literal in clause.body),
            clause.span,
            inference.opened,
        )
    except MismatchError:
        return None


class _ClauseTyping(KindInference):
    """Stores the inferred kinds in the terms."""

    def typed_literal(self, literal: L) -> L:
        """The literal with every term in it typed."""
        if isinstance(literal, syntax.Comparison) and literal.operator not in ("=", "!="):
            kinds = self._kinds(self.node(literal.left))
            if kinds <= self.structured | {ANONYMOUS}:
                message = f"'{literal.operator}' cannot compare {kinds_text(kinds)}"
                self._mismatch(literal.span, message, "use '=' or '!='")
        return map_children(literal, self.typed)

    def typed(self, node: Any) -> Any:
        """A part of a literal with its kind, and with those of its parts."""
        if isinstance(node, syntax.Literal):
            return self.typed_literal(node)
        kind = self.kind_of(node)
        match node:
            case syntax.Variable(name=name, span=span):
                return syntax.Variable(name, span, kind)
            case syntax.Wildcard(span=span):
                return syntax.Wildcard(span, kind)
            case syntax.NumberLiteral(value=number, span=span):
                return syntax.Constant(self._in_range(number, kind, span), span, kind)
            case syntax.Construct(function="nil", span=span):
                return syntax.Constant(None, span, kind)
            case syntax.Call(function="as", arguments=(argument,), span=span):
                inner: syntax.Term = self.typed(argument)
                if inner.kind == kind:
                    return inner
                structured = isinstance(inner.kind, Structured) or isinstance(kind, Structured)
                cast = "ord" if structured else CASTS[inner.kind, kind]
                return syntax.Call(cast, (inner,), span, kind, word=self.types.word_size)
        typed = replace(map_children(node, self.typed), kind=kind)
        match typed:
            case syntax.Construct():
                return _folded(typed)
            case syntax.Call(function=function):
                functor = self.declarations.functors.get(function)
                return replace(typed, functor=functor, word=self.types.word_size)
            case syntax.Aggregate(span=span) if wraps(typed, self.types.word_size):
                return syntax.Call("wrap", (typed,), span, kind, word=self.types.word_size)
        return typed

    def _in_range(self, number: int, kind: AnyKind, span: SourceSpan) -> int | float:
        if kind is Kind.FLOAT:
            return float(number)
        low, high = limits(expect_type(kind, Kind, "the kind of a number"), self.types.word_size)
        if not low <= number <= high:
            self._mismatch(
                span,
                f"{number} is outside the range of type {kind.value}",
                f"the range of {kind.value} is {low} to {high}",
                code="value-out-of-range",
            )
        return number


def _folded(term: syntax.Construct) -> syntax.Term:
    """A constant for a record or branch of constants."""
    values = [part.value for part in term.arguments if isinstance(part, syntax.Constant)]
    if len(values) < len(term.arguments):
        return term
    value = Branch(term.constructor, *values) if term.constructor else Record(values)
    return syntax.Constant(value, term.span, term.kind)
