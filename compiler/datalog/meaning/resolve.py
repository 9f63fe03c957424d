"""Check names and shapes: relations exist, arities match, `_` is only where it is allowed."""

from __future__ import annotations

from dbsp.compiler.datalog.meaning.declare import Declarations, report_undefined
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import children, has_wildcard
from dbsp.diagnostics import SourceSpan, did_you_mean


def resolve(clause: FlatClause, declarations: Declarations, report: Report) -> bool:
    """Whether every name in the clause is known and used with the right number of arguments.

    Also false, without a message, when a relation of the clause has a broken declaration.
    """
    resolver = _Resolver(declarations, report)
    resolver.atom(clause.head, in_head=True)
    for literal in clause.body:
        resolver.literal(literal)
    return resolver.sound


class _Resolver:
    def __init__(self, declarations: Declarations, report: Report) -> None:
        self.relations = declarations.relations
        self.broken = declarations.broken
        self.types = declarations.types
        self.declarations = declarations
        self.report = report
        self.sound = True

    def literal(self, literal: syntax.Literal) -> None:
        match literal:
            case syntax.Atom():
                self.atom(literal)
            case syntax.Negation(atom=atom):
                self.atom(atom, positive=False)
            case syntax.Comparison(operator="=", left=left, right=right):
                for term, other in ((left, right), (right, left)):
                    # A pattern may contain a wildcard; the other side must have a value.
                    self.term(term, "a comparison", pattern=not has_wildcard(other))
            case _:
                for term in children(literal):
                    self.term(term, "a comparison")

    def atom(self, atom: syntax.Atom, in_head: bool = False, positive: bool = True) -> None:
        relation = self.relations.get(atom.relation)
        if relation is None:
            self.sound = False
            report_undefined(atom.relation, atom.name_span, "", self.relations, self.report)
        elif relation.arity != len(atom.arguments):
            columns = ", ".join(f"{column.name}: {column.type_name}" for column in relation.attributes)
            self._error(
                atom.span,
                f"relation '{relation.name}' has {_count(relation.arity, 'column')},"
                f" but {_count(len(atom.arguments), 'argument')} {_be(len(atom.arguments))} given",
                f"declared at {relation.span.place} as {relation.name}({columns})",
                code="wrong-arity",
            )
        elif relation.name in self.broken:
            self.sound = False
        for argument in atom.arguments:
            if in_head and isinstance(argument, syntax.Wildcard):
                hint = "use a variable that the body binds"
                self._error(argument.span, "'_' in the head has no value", hint, code="unbound-variable")
            elif not isinstance(argument, syntax.Wildcard):
                place = "a head" if in_head else "an argument" if positive else "a negated atom"
                self.term(argument, place, pattern=positive and not in_head)

    def term(self, term: syntax.Term, place: str, pattern: bool = False) -> None:
        match term:
            case syntax.Wildcard(span=span):
                self._error(span, f"'_' in {place} has no value", code="unbound-variable")
            case syntax.Construct():
                self.construct(term, place, pattern)
            case syntax.Call(function=name, arguments=arguments):
                self.call(term)
                if term.target is not None:
                    self.type(term.target)
                for argument in arguments:
                    self.term(argument, f"an argument of '{name}'")
            case syntax.Aggregate(function=name, value=value):
                if value is not None:
                    self.term(value, f"the expression of '{name}'")
                for literal in term.literals:
                    self.literal(literal)
            case _:
                pass

    def construct(self, term: syntax.Construct, place: str, pattern: bool) -> None:
        if term.function.startswith("$"):
            name = term.function[1:]
            type_name = self.types.branches.get(name)
            if type_name is None:
                hint = did_you_mean(name, self.types.branches)
                if hint is None and not term.arguments:
                    hint = f"write a variable without '$': {name}"
                self._error(term.span, f"undefined branch '${name}'", hint, code="unknown-branch")
            elif type_name in self.types.broken:
                self.sound = False
            else:
                expected = len(self.types.fields(self.types.structured[type_name], name))
                given = len(term.arguments)
                if given != expected:
                    message = (
                        f"branch '${name}' of '{type_name}' has {_count(expected, 'field')}, but"
                        f" {_count(given, 'argument')} {_be(given)} given"
                    )
                    self._error(term.span, message, code="wrong-arity")
        for argument in term.arguments:
            if not (pattern and isinstance(argument, syntax.Wildcard)):
                inside = "a record" if term.function == "[]" else "a branch"
                self.term(argument, f"{inside} in {place}" if not pattern else inside, pattern)

    def call(self, call: syntax.Call) -> None:
        """Check that the function exists and has a signature with this number of arguments."""
        functors = self.declarations.functors
        if call.function in self.broken:
            self.sound = False
            return
        if call.function.startswith("@") and call.function not in functors:
            hint = (
                did_you_mean(call.function, functors)
                or f"declare it first: .functor {call.function[1:]}(...)"
            )
            message = f"undefined functor '{call.function}'"
            self._error(call.span, message, hint, code="unknown-functor")
            return
        signatures, given = self.declarations.signatures(call.function), len(call.arguments)
        if not any(signature.accepts_count(given) for signature in signatures):
            numbers = sorted({len(signature.parameters) for signature in signatures})
            number = (
                f"{numbers[0]} or {numbers[1]} arguments" if numbers[1:] else _count(numbers[0], "argument")
            )
            if signatures[0].variadic:
                number = "at least one argument"
            message = f"'{call.function}' takes {number}, but {given} {_be(given)} given"
            self._error(call.span, message, code="wrong-arity")

    def type(self, name: syntax.Name) -> None:
        if name.text in self.types.broken:
            self.sound = False
        elif name.text not in self.types:
            hint = self.types.hint(name.text)
            self._error(name.span, f"undefined type '{name.text}'", hint, code="unknown-type")

    def _error(self, span: SourceSpan, message: str, hint: str | None = None, *, code: str) -> None:
        self.sound = False
        self.report.error(span, message, hint, code=code)


def _count(number: int, noun: str) -> str:
    return f"{'no' if number == 0 else number} {noun}{'' if number == 1 else 's'}"


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
