"""Type inference: from flat clauses of the syntax tree to typed rules and facts.

Every term gets a set of possible kinds, terms that must agree share one set (union-find), and columns,
literals and functions narrow the sets until nothing changes. A number literal without suffix fits
number, unsigned and float; what is still open in the end becomes a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dbsp.compiler.datalog import checked, syntax
from dbsp.compiler.datalog.checked import TEXT_TESTS, Kind
from dbsp.compiler.datalog.declare import Declarations
from dbsp.compiler.datalog.expand import FlatClause
from dbsp.compiler.datalog.functions import CASTS, Signature
from dbsp.compiler.datalog.report import Report
from dbsp.compiler.datalog.show import show_term
from dbsp.compiler.datalog.walk import literals
from dbsp.diagnostics import SourceSpan
from dbsp.expressions.regex import RegexError, compiled

_ALL = frozenset(Kind)
_NUMERIC = _ALL - {Kind.SYMBOL}
_TEXT = frozenset({Kind.SYMBOL})
_PREFERRED = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)

_RANGES = {Kind.NUMBER: (-(2**63), 2**63 - 1), Kind.UNSIGNED: (0, 2**63 - 1)}


@dataclass(frozen=True, slots=True)
class TypedClause:
    """A clause in checked form, before it is known whether it is a fact or a numbered rule."""

    head: checked.Atom
    body: tuple[checked.Literal, ...]
    span: SourceSpan


def infer(clause: FlatClause, declarations: Declarations, report: Report) -> TypedClause | None:
    """The typed clause, or None when its types do not fit (one message per clause)."""
    inference = _Inference(declarations, report)
    try:
        inference.atom(clause.head)
        for literal in clause.body:
            inference.literal(literal)
        inference.settle()
        return TypedClause(
            inference.typed_atom(clause.head),
            tuple(inference.typed_literal(literal) for literal in clause.body),
            clause.span,
        )
    except _MismatchError:
        return None


class _MismatchError(Exception):
    """A type error has been reported; the rest of the clause would only repeat it."""


@dataclass(slots=True)
class _Class:
    """Terms that have one kind. `why` says what narrowed it to what it is."""

    kinds: frozenset[Kind] = _ALL
    why: str = ""
    where: SourceSpan | None = None


@dataclass(slots=True)
class _Overloaded:
    """A call whose signature is still to be chosen."""

    call: syntax.Call
    result: int
    arguments: tuple[int, ...]
    signatures: list[Signature] = field(default_factory=list)


class _Inference:
    def __init__(self, declarations: Declarations, report: Report) -> None:
        self.relations = declarations.relations
        self.types = declarations.types
        self.declarations = declarations
        self.report = report
        self.parents: list[int] = []
        self.classes: list[_Class] = []
        self.variables: dict[str, int] = {}
        # Terms by identity: equal literals in two places may have two kinds.
        self.nodes: dict[int, int] = {}
        self.calls: list[_Overloaded] = []

    # --- kinds: collecting ---------------------------------------------------------------------

    def literal(self, literal: syntax.BodyLiteral) -> None:
        match literal:
            case syntax.Atom():
                self.atom(literal)
            case syntax.Negation(atom=atom):
                self.atom(atom)
            case syntax.Comparison(operator=operator, left=left, right=right) if operator in TEXT_TESTS:
                self._narrow(self.node(left), _TEXT, left, f"'{operator}' needs", f"it is in '{operator}'")
                self._narrow(self.node(right), _TEXT, right, f"'{operator}' needs", f"it is in '{operator}'")
                if operator.endswith("match") and isinstance(left, syntax.StringLiteral):
                    self._regex(left)
            case syntax.Comparison(left=left, right=right):
                self._join(self.node(left), self.node(right), right, f"it is compared with {_quoted(left)}")
            case _:
                pass

    def atom(self, atom: syntax.Atom) -> None:
        relation = self.relations[atom.relation]
        for argument, column in zip(atom.arguments, relation.attributes, strict=True):
            place = f"column '{column.name}' of '{relation.name}'"
            kinds = frozenset({column.kind})
            self._narrow(self.node(argument), kinds, argument, f"{place} is", f"it stands in {place}")

    def node(self, term: syntax.Term) -> int:
        """The class of a term, with everything its form says about its kind noted."""
        if isinstance(term, syntax.Variable):
            if term.name not in self.variables:
                self.variables[term.name] = self._new()
            return self.variables[term.name]
        found = self.nodes.get(id(term))
        if found is None:
            found = self.nodes[id(term)] = self._new()
            self._collect(term, found)
        return found

    def _collect(self, term: syntax.Term, node: int) -> None:
        match term:
            case syntax.NumberLiteral(unsigned=unsigned):
                kinds = frozenset({Kind.UNSIGNED}) if unsigned else _NUMERIC
                self._narrow(node, kinds, term)
            case syntax.FloatLiteral():
                self._narrow(node, frozenset({Kind.FLOAT}), term)
            case syntax.StringLiteral():
                self._narrow(node, frozenset({Kind.SYMBOL}), term)
            case syntax.Call(arguments=arguments):
                self._collect_call(term, node, arguments)
            case syntax.Aggregate():
                self._collect_aggregate(term, node)
            case _:
                pass

    def _collect_call(self, call: syntax.Call, node: int, arguments: tuple[syntax.Term, ...]) -> None:
        signatures = [
            s for s in self.declarations.signatures(call.function) if s.accepts_count(len(arguments))
        ]
        if call.target is not None:
            kinds = frozenset({self.types.kind(call.target.text)})
            self._narrow(
                node, kinds, call, f"type '{call.target.text}' is", "of the type that it is taken as"
            )
        inner = tuple(self.node(argument) for argument in arguments)
        why = f"the arguments and the result of '{call.function}' are of one type"
        if all(set(signature.parameters) == {signature.result} for signature in signatures):
            # Arguments and result are of one kind, whichever it is.
            for one, argument in zip(inner, arguments, strict=True):
                self._join(node, one, argument, why)
            kinds = frozenset(signature.result for signature in signatures)
            self._narrow(node, kinds, call, f"'{call.function}' needs")
            return
        self.calls.append(_Overloaded(call, node, inner, signatures))

    def _collect_aggregate(self, aggregate: syntax.Aggregate, node: int) -> None:
        for literal in literals(aggregate.body):
            self.literal(literal)
        name = aggregate.function
        if name == "count":
            self._narrow(node, frozenset({Kind.NUMBER}), aggregate, "the result of 'count' is")
        if aggregate.value is None:
            return
        value = self.node(aggregate.value)
        self._narrow(value, _NUMERIC, aggregate.value, f"'{name}' needs")
        if name == "mean":
            self._narrow(node, frozenset({Kind.FLOAT}), aggregate, "the result of 'mean' is")
        else:
            why = f"the result of '{name}' has the type of its expression"
            self._join(node, value, aggregate.value, why)

    # --- kinds: solving --------------------------------------------------------------------------

    def settle(self) -> None:
        """Chooses signatures and kinds until everything has one kind."""
        while True:
            while self._choose_signatures():
                pass
            # Literals that nothing decides become numbers, one class at a time: a choice may decide others.
            undecided = [root for root in self._roots() if len(self.classes[root].kinds) > 1]
            if not undecided:
                return
            chosen = self.classes[undecided[0]]
            chosen.kinds = frozenset({next(kind for kind in _PREFERRED if kind in chosen.kinds)})

    def _choose_signatures(self) -> bool:
        """One round over the calls that are not decided; true when something became narrower."""
        changed = False
        for overloaded in self.calls:
            places = (overloaded.result, *overloaded.arguments)
            fitting = [s for s in overloaded.signatures if self._fits(s, overloaded)]
            overloaded.signatures = fitting
            if not fitting:
                self._no_signature(overloaded)
            for position, place in enumerate(places):
                kinds = frozenset(s.result if position == 0 else s.parameter(position - 1) for s in fitting)
                cell = self.classes[self._find(place)]
                if not cell.kinds <= kinds:
                    terms = (overloaded.call, *overloaded.call.arguments)
                    part = f"the {'result' if position == 0 else 'argument'} of '{overloaded.call.function}'"
                    self._narrow(place, kinds, terms[position], f"{part} is", f"it is {part}")
                    changed = True
        return changed

    def _fits(self, signature: Signature, overloaded: _Overloaded) -> bool:
        if signature.result not in self._kinds(overloaded.result):
            return False
        return all(
            signature.parameter(position) in self._kinds(argument)
            for position, argument in enumerate(overloaded.arguments)
        )

    def _no_signature(self, overloaded: _Overloaded) -> None:
        call = overloaded.call
        given = ", ".join(_kinds_text(self._kinds(argument)) for argument in overloaded.arguments)
        result = _kinds_text(self._kinds(overloaded.result))
        if call.target is not None:
            message = f"'as' does not make {given} {result}"
            self._mismatch(
                call.span, message, "a conversion may be meant: to_float, to_number, to_string ..."
            )
        wanted = " or ".join(
            dict.fromkeys(
                f"({', '.join(kind.value for kind in signature.parameters)}) -> {signature.result.value}"
                for signature in self.declarations.signatures(call.function)
            )
        )
        self._mismatch(
            call.span,
            f"'{call.function}' cannot be applied to ({given}) giving {result}",
            f"'{call.function}' is {wanted}",
        )

    def _new(self) -> int:
        self.parents.append(len(self.parents))
        self.classes.append(_Class())
        return len(self.parents) - 1

    def _find(self, node: int) -> int:
        while self.parents[node] != node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def _roots(self) -> list[int]:
        return [node for node, parent in enumerate(self.parents) if node == parent]

    def _kinds(self, node: int) -> frozenset[Kind]:
        return self.classes[self._find(node)].kinds

    def _narrow(
        self, node: int, kinds: frozenset[Kind], term: syntax.Term, demand: str = "it is", why: str = ""
    ) -> None:
        """Allows only `kinds` for a class. `demand` says what asks for them, `why` why `term` has them."""
        cell = self.classes[self._find(node)]
        left = cell.kinds & kinds
        if not left:
            hint = None
            if cell.why and cell.where is not None:
                hint = f"it is {_kinds_text(cell.kinds)} because {cell.why} at line {cell.where.line}"
            self._mismatch(
                term.span,
                f"type mismatch: {_quoted(term)} is {_kinds_text(cell.kinds)},"
                f" but {demand} {_kinds_text(kinds)}",
                hint,
            )
        if left != cell.kinds:
            cell.kinds, cell.why, cell.where = left, why, term.span

    def _join(self, a: int, b: int, term: syntax.Term, why: str) -> None:
        """Makes two classes one, because of `why`; `term` is what stands in class b."""
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        first, second = self.classes[a], self.classes[b]
        kinds = first.kinds & second.kinds
        if not kinds:
            self._mismatch(
                term.span,
                f"type mismatch: {_quoted(term)} is {_kinds_text(second.kinds)},"
                f" but must be {_kinds_text(first.kinds)} because {why}",
                None,
            )
        better = first if first.kinds == kinds else second
        self.parents[b] = a
        self.classes[a] = _Class(kinds, better.why, better.where)

    def _regex(self, pattern: syntax.StringLiteral) -> None:
        try:
            compiled(pattern.value)
        except RegexError as error:
            # Soufflé goes on, and so do programs that are written for it.
            self.report.warning(
                pattern.span,
                f"{_quoted(pattern)} is no regular expression: {error}",
                "nothing matches it and nothing fails to; regular expressions are those of ECMAScript",
            )

    def _mismatch(self, span: SourceSpan, message: str, hint: str | None) -> None:
        self.report.error(span, message, hint)
        raise _MismatchError

    # --- building the typed clause ---------------------------------------------------------------

    def typed_atom(self, atom: syntax.Atom) -> checked.Atom:
        return checked.Atom(atom.relation, tuple(map(self.typed, atom.arguments)), atom.span)

    def typed_literal(self, literal: syntax.BodyLiteral) -> checked.Literal:
        match literal:
            case syntax.Atom():
                return self.typed_atom(literal)
            case syntax.Negation(atom=atom, span=span):
                return checked.Negation(self.typed_atom(atom), span)
            case syntax.Comparison(operator=operator, left=left, right=right, span=span):
                return checked.Comparison(operator, self.typed(left), self.typed(right), span)
            case syntax.Truth(value=value, span=span):
                return checked.Truth(value, span)

    def typed(self, term: syntax.Term) -> checked.Term:
        (kind,) = self._kinds(self.node(term))
        match term:
            case syntax.Variable(name=name, span=span):
                return checked.Variable(name, kind, span)
            case syntax.Wildcard(span=span):
                return checked.Wildcard(kind, span)
            case syntax.NumberLiteral(value=number, span=span):
                return checked.Constant(self._in_range(number, kind, span), kind, span)
            case syntax.FloatLiteral(value=value, span=span) | syntax.StringLiteral(value=value, span=span):
                return checked.Constant(value, kind, span)
            case syntax.Call(function="as", arguments=(argument,), span=span):
                inner = self.typed(argument)
                if inner.kind is kind:
                    return inner
                return checked.Call(CASTS[inner.kind, kind], (inner,), kind, span)
            case syntax.Call(function=function, arguments=arguments, span=span):
                functor = self.declarations.functors.get(function)
                return checked.Call(function, tuple(map(self.typed, arguments)), kind, span, functor)
            case syntax.Aggregate():
                return checked.Aggregate(
                    term.function,
                    None if term.value is None else self.typed(term.value),
                    tuple(map(self.typed_literal, literals(term.body))),
                    term.injected,
                    kind,
                    term.span,
                )

    def _in_range(self, number: int, kind: Kind, span: SourceSpan) -> int | float:
        if kind is Kind.FLOAT:
            return float(number)
        low, high = _RANGES[kind]
        if not low <= number <= high:
            self._mismatch(
                span,
                f"{number} is outside of the type {kind.value}",
                f"{kind.value} goes from {low} to {high}",
            )
        return number


def _quoted(term: syntax.Term) -> str:
    text = show_term(term)
    return text if isinstance(term, syntax.StringLiteral) else f"'{text}'"


def _kinds_text(kinds: frozenset[Kind]) -> str:
    if kinds == _ALL:
        return "anything"
    if kinds == _NUMERIC:
        return "a number"
    names = [kind.value for kind in _PREFERRED if kind in kinds]
    return f"{'an' if names[0] == 'unsigned' else 'a'} {' or '.join(names)}"
