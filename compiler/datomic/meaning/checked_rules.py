"""Draft rules to the checked rules of `compiler.datalog`, when the kinds are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.declared_types import TypeEnvironment
from dbsp.compiler.datalog.meaning.stratify import stratify
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, FunctorSignature, Kind
from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.compiler.datomic.meaning.clojure_order import is_true
from dbsp.compiler.datomic.meaning.draft_rules import (
    QUERY,
    DraftAtom,
    DraftCall,
    DraftLiteral,
    DraftQuery,
    DraftRule,
    DraftSeries,
)
from dbsp.compiler.datomic.meaning.value_kinds import NUMERIC, ValueKinds, arithmetic
from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.edn.edn_values import EdnList, EdnMap
from dbsp.lazy_dataclass import dataclass

_COMPARED = frozenset({"<", "<=", ">", ">="})
_EQUAL = {"=": "=", "==": "=", "!=": "!=", "not=": "!="}


class _Nil:
    """The value of nil inside a circuit, where None would be a missing code."""

    def __repr__(self) -> str:
        return "nil"


NIL = _Nil()


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """The checked rules of a query, and where its inputs come from."""

    program: checked.CheckedProgram
    bases: Mapping[str, BaseRelation]
    """The inputs that are relations of a source."""
    kinds: ValueKinds


def check_rules(
    draft: DraftQuery,
    inputs: Mapping[str, Sequence[AnyKind | None]],
    outputs: Sequence[str],
    sources: ProgramSources,
) -> CheckedQuery:
    """Return the checked rules of a draft; `inputs` are the kinds of the arguments."""
    return _Checker(draft, ValueKinds(draft, inputs), inputs).query(outputs, sources)


class _Checker:
    def __init__(
        self, draft: DraftQuery, kinds: ValueKinds, inputs: Mapping[str, Sequence[AnyKind | None]]
    ) -> None:
        self.draft = draft
        self.kinds = kinds
        self.inputs = inputs
        self.bases: dict[str, BaseRelation] = {}

    def query(self, outputs: Sequence[str], sources: ProgramSources) -> CheckedQuery:
        rules = tuple(self._rule(number, rule) for number, rule in enumerate(self.draft.rules))
        relations = {
            name: self._relation(name, arity, rules[0].span)
            for name, arity in (
                *((name, len(kinds)) for name, kinds in self.inputs.items()),
                *self.draft.arity.items(),
            )
        }
        for name, base in self.bases.items():
            attributes = tuple(
                checked.Attribute(column, base.kind_of(column).value, base.kind_of(column))
                for column in base.columns
            )
            relations[name] = checked.Relation(name, attributes, rules[0].span)
        report = Report("", "")
        for file, text in sources.texts.items():
            report.add_source(file, text)
        strata = stratify(relations, rules, (), report)
        report.raise_errors()
        program = checked.CheckedProgram(
            relations,
            (),
            rules,
            tuple(strata),
            TypeEnvironment(),
            (*self.inputs, *self.bases),
            tuple(outputs),
            (),
            sources=sources,
        )
        return CheckedQuery(program, self.bases, self.kinds)

    def _relation(self, name: str, arity: int, span: SourceSpan) -> checked.Relation:
        kinds = [self.kinds.of_column(name, column) for column in range(arity)]
        return checked.Relation(
            name,
            tuple(checked.Attribute(f"c{at}", kind.value, kind) for at, kind in enumerate(kinds)),
            span,
        )

    # --- rules ------------------------------------------------------------------------------------

    def _rule(self, number: int, rule: DraftRule) -> checked.Rule:
        def variable(name: str, span: SourceSpan) -> syntax.Variable:
            return syntax.Variable(name, span, self.kinds.of_variable(number, name))

        head = syntax.Atom(
            rule.head, tuple(variable(name, rule.span) for name in rule.arguments), rule.span, rule.span
        )
        body = [part for literal in rule.body for part in self._literal(number, literal)]
        by_column = {column: name for name, column in rule.parameters.items()}
        names = [by_column.get(column, f"query#{column}") for column in range(len(self.inputs[QUERY]))]
        guard = syntax.Atom(
            QUERY,
            tuple(
                syntax.Variable(name, rule.span, self.kinds.of_column(QUERY, column))
                for column, name in enumerate(names)
            ),
            rule.span,
            rule.span,
        )
        return checked.Rule(number + 1, head, (guard, *body), rule.span)

    def _literal(self, number: int, literal: DraftLiteral) -> Iterator[syntax.Literal]:
        def variable(name: str) -> syntax.Variable:
            return syntax.Variable(name, literal.span, self.kinds.of_variable(number, name))

        match literal:
            case DraftAtom(base=None, relation=relation):
                atom = syntax.Atom(
                    relation, tuple(map(variable, literal.arguments)), literal.span, literal.span
                )
                yield syntax.Negation(atom, literal.span) if literal.negated else atom
            case DraftAtom(base=BaseRelation() as base):
                arguments = tuple(map(variable, literal.arguments))
                boxed = frozenset(
                    column
                    for column, argument in zip(base.columns, arguments, strict=True)
                    if argument.kind != base.own_kind(column)
                    or (column == "v" and base.attribute is None)  # attributes of all kinds
                )
                base = replace(base, boxed=boxed)
                self.bases[base.name] = base
                # A variable that occurs twice is a condition, which a join tests on its result.
                seen: dict[str, syntax.Variable] = {}
                for place, argument in enumerate(arguments):
                    if argument.name in seen:
                        other = replace(argument, name=f"{argument.name} again {place}")
                        arguments = (*arguments[:place], other, *arguments[place + 1 :])
                        yield syntax.Comparison("=", argument, other, literal.span)
                    seen[argument.name] = argument
                yield syntax.Atom(base.name, arguments, literal.span, literal.span)
            case DraftSeries():
                zero = syntax.Constant(0, literal.span, Kind.NUMBER)
                series = syntax.Call("range", (zero, variable(literal.size)), literal.span, Kind.NUMBER)
                yield syntax.Comparison("=", variable(literal.variable), series, literal.span)
            case DraftCall(result=None):
                yield from condition(literal, tuple(map(variable, literal.arguments)))
            case DraftCall(result=str(result)):
                yield from assignment(literal, variable(result), tuple(map(variable, literal.arguments)))


# --- calls ----------------------------------------------------------------------------------------


def condition(call: DraftCall, arguments: tuple[syntax.Variable, ...]) -> Iterable[syntax.Literal]:
    """Return the literals that hold if a predicate holds."""
    kinds = {argument.kind for argument in arguments}
    pairs = list(pairwise(arguments))
    if call.native and len(arguments) > 1 and len(kinds) == 1:
        (kind,) = kinds
        if call.function in _COMPARED and (kind in NUMERIC or kind is Kind.SYMBOL):
            return [syntax.Comparison(call.function, left, right, call.span) for left, right in pairs]
        operator = _EQUAL.get(call.function)
        if operator is not None and kind != VALUE and (operator == "=" or len(arguments) == 2):
            return [syntax.Comparison(operator, left, right, call.span) for left, right in pairs]
    holds = _called(call, arguments, Kind.NUMBER, _truth(call.python))
    return [syntax.Comparison("=", holds, syntax.Constant(1, call.span, Kind.NUMBER), call.span)]


def assignment(
    call: DraftCall, result: syntax.Variable, arguments: tuple[syntax.Variable, ...]
) -> Iterator[syntax.Literal]:
    """Yield the literals that give a variable the result of a function."""
    kinds = [argument.kind for argument in arguments]
    if call.native and call.function == "identity":
        yield syntax.Comparison("=", result, arguments[0], call.span)
        return
    if call.native and arithmetic(call.function, kinds) == result.kind:
        total: syntax.Term = arguments[0]
        for argument in arguments[1:]:
            total = syntax.Call(call.function, (total, argument), call.span, result.kind)
        yield syntax.Comparison("=", result, total, call.span)
        return
    value = _called(call, arguments, result.kind, _stored(call.python, result.kind))
    yield syntax.Comparison("=", result, value, call.span)
    if call.may_be_nil and result.kind == VALUE:
        present = FunctorSignature("some?", (VALUE,), Kind.NUMBER, _is_present)
        some = syntax.Call("@some?", (result,), call.span, Kind.NUMBER, functor=present)
        yield syntax.Comparison("=", some, syntax.Constant(1, call.span, Kind.NUMBER), call.span)


def _called(
    call: DraftCall, arguments: tuple[syntax.Variable, ...], kind: AnyKind, function: Callable[..., Any]
) -> syntax.Call:
    kinds = tuple(each.kind for each in arguments)
    python = _with_none(function) if VALUE in kinds else function
    signature = FunctorSignature(call.function, kinds, kind, python)
    return syntax.Call(f"@{call.function}", arguments, call.span, kind, functor=signature)


def _is_present(value: Any) -> int:
    return int(value is not NIL)


def _with_none(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for arguments of a circuit, where nil is `NIL`."""

    def called(*arguments: Any) -> Any:
        return function(*[None if argument is NIL else argument for argument in arguments])

    called.__name__ = getattr(function, "__name__", "function")
    return called


def _truth(function: Callable[..., Any]) -> Callable[..., int]:
    def holds(*arguments: Any) -> int:
        return int(is_true(function(*arguments)))

    holds.__name__ = getattr(function, "__name__", "predicate")
    return holds


def _stored(function: Callable[..., Any], kind: AnyKind) -> Callable[..., Any]:
    if kind != VALUE:
        return function

    def value(*arguments: Any) -> Any:
        return storable(function(*arguments))

    value.__name__ = getattr(function, "__name__", "function")
    return value


def storable(value: Any) -> Any:
    """Return a value in the form in which a circuit stores it: hashable, and nil as `NIL`."""
    return NIL if value is None else _hashable(value)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        if isinstance(value, Mapping):
            return EdnMap({_hashable(key): _hashable(part) for key, part in value.items()})
        if isinstance(value, set | frozenset):
            return frozenset(map(_hashable, value))
        if isinstance(value, list | tuple):
            kind = EdnList if isinstance(value, EdnList) else tuple
            return kind(map(_hashable, value))
    return value
