"""Inference of the kind of each term of a flat clause.

Every term gets a set of possible kinds, terms that must agree share one set (union-find), and
columns, literals and functions narrow the sets until nothing changes. A number literal without
suffix may be a number, an unsigned or a float; if it is still undecided in the end, it is a number.
"""

from __future__ import annotations

from dataclasses import field

from dbsp.compiler.datalog.meaning.anonymous import ANONYMOUS, anonymous_record
from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.kind_classes import (
    NUMERIC,
    PREFERRED,
    Kinds,
    kinds_text,
    quoted,
)
from dbsp.compiler.datalog.meaning.signatures import Signature
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import UNTYPED, AnyKind, Kind, Structured
from dbsp.compiler.datalog.tree.syntax import TEXT_TESTS
from dbsp.errors import expect_type
from dbsp.expressions.regex import RegexError, compiled
from dbsp.lazy_dataclass import dataclass

_TEXT: frozenset[AnyKind] = frozenset({Kind.SYMBOL})


@dataclass(slots=True)
class _Overloaded:
    """A call whose signature is not chosen yet."""

    call: syntax.Call
    result: int
    arguments: tuple[int, ...]
    signatures: list[Signature] = field(default_factory=list)


class KindInference(Kinds):
    def __init__(self, declarations: Declarations, report: Report) -> None:
        self.relations = declarations.relations
        self.types = declarations.types
        self.structured = frozenset(declarations.types.structured.values())
        self.records = frozenset({ANONYMOUS, *(kind for kind in self.structured if kind.structure.is_record)})
        super().__init__(frozenset(Kind) | self.structured | {ANONYMOUS}, report)
        self.constructs: list[tuple[syntax.Construct, int, tuple[int, ...]]] = []
        self.opened: dict[int, Structured] = {}
        self.declarations = declarations
        self.variables: dict[str, int] = {}
        # Terms by identity: equal literals in two places may have two kinds.
        self.nodes: dict[int, int] = {}
        self.calls: list[_Overloaded] = []

    # --- kinds: collecting ---------------------------------------------------------------------

    def literal(self, literal: syntax.Literal) -> None:
        match literal:
            case syntax.Atom():
                self.atom(literal)
            case syntax.Negation(atom=atom):
                self.atom(atom)
            case syntax.Comparison(operator=operator, left=left, right=right) if operator in TEXT_TESTS:
                self._narrow(self.node(left), _TEXT, left, f"'{operator}' needs", f"it is in '{operator}'")
                self._narrow(self.node(right), _TEXT, right, f"'{operator}' needs", f"it is in '{operator}'")
                if operator.endswith("match") and isinstance(left, syntax.Constant):
                    self._regex(left)
            case syntax.Comparison(left=left, right=right):
                self._join(self.node(left), self.node(right), right, f"it is compared with {quoted(left)}")
            case _:
                pass

    def atom(self, atom: syntax.Atom) -> None:
        relation = self.relations[atom.relation]
        for argument, column in zip(atom.arguments, relation.attributes, strict=True):
            place = f"column '{column.name}' of '{relation.name}'"
            kinds = frozenset({column.kind})
            self._narrow(self.node(argument), kinds, argument, f"{place} is", f"it is in {place}")

    def node(self, term: syntax.Term) -> int:
        """The class of a term, narrowed by the form of the term, and by its kind if it has one."""
        if isinstance(term, syntax.Variable):
            if term.name not in self.variables:
                self.variables[term.name] = self._new()
            found = self.variables[term.name]
            self._narrow_inlined(term, found)
            return found
        known = self.nodes.get(id(term))
        if known is not None:
            return known
        found = self.nodes[id(term)] = self._new()
        self._collect(term, found)
        self._narrow_inlined(term, found)
        return found

    def _narrow_inlined(self, term: syntax.Term, node: int) -> None:
        """Narrow the class of an argument of an inlined relation to the kind of its column."""
        if term.kind != UNTYPED and not isinstance(term, syntax.Constant):
            where = "a column of an inline relation"
            self._narrow(node, frozenset({term.kind}), term, f"{where} is", f"it is in {where}")

    def _collect(self, term: syntax.Term, node: int) -> None:
        match term:
            case syntax.NumberLiteral(unsigned=unsigned):
                kinds = frozenset({Kind.UNSIGNED}) if unsigned else NUMERIC
                self._narrow(node, kinds, term)
            case syntax.Constant(kind=kind):
                self._narrow(node, frozenset({kind}), term)
            case syntax.Construct():
                self._collect_construct(term, node)
            case syntax.Call(arguments=arguments):
                self._collect_call(term, node, arguments)
            case syntax.Aggregate():
                self._collect_aggregate(term, node)
            case _:
                pass

    def _collect_construct(self, term: syntax.Construct, node: int) -> None:
        if term.function.startswith("$"):
            kinds = frozenset({self.types.structured[self.types.branches[term.function[1:]]]})
            self._narrow(node, kinds, term, f"'{term.function}' is", f"'{term.function}' is a branch of it")
        else:
            self._narrow(node, self.records, term, f"{quoted(term)} is", f"{quoted(term)} is a record")
        self.constructs.append((term, node, tuple(self.node(part) for part in term.arguments)))

    def _collect_call(self, call: syntax.Call, node: int, arguments: tuple[syntax.Term, ...]) -> None:
        fitting = [s for s in self.declarations.signatures(call.function) if s.accepts_count(len(arguments))]
        if call.target is not None:
            kinds = frozenset({self.types.kind(call.target.text)})
            self._narrow(
                node, kinds, call, f"type '{call.target.text}' is", f"of 'as(..., {call.target.text})'"
            )
        inner = tuple(self.node(argument) for argument in arguments)
        why = f"the arguments and the result of '{call.function}' have the same type"
        if all(set(signature.parameters) == {signature.result} for signature in fitting):
            # Arguments and result have the same kind.
            for argument_node, argument in zip(inner, arguments, strict=True):
                self._join(node, argument_node, argument, why)
            kinds = frozenset(signature.result for signature in fitting)
            self._narrow(node, kinds, call, f"'{call.function}' needs")
            return
        self.calls.append(_Overloaded(call, node, inner, fitting))

    def _collect_aggregate(self, aggregate: syntax.Aggregate, node: int) -> None:
        for literal in aggregate.literals:
            self.literal(literal)
        name = aggregate.function
        if name == "count":
            self._narrow(node, frozenset({Kind.NUMBER}), aggregate, "the result of 'count' is")
        if aggregate.value is None:
            return
        value = self.node(aggregate.value)
        self._narrow(value, NUMERIC, aggregate.value, f"'{name}' needs")
        if name == "mean":
            self._narrow(node, frozenset({Kind.FLOAT}), aggregate, "the result of 'mean' is")
        else:
            why = f"the result of '{name}' has the type of its expression"
            self._join(node, value, aggregate.value, why)

    # --- kinds: solving --------------------------------------------------------------------------

    def settle(self) -> None:
        """Choose signatures and kinds until every term has one kind."""
        while True:
            while self._choose_signatures() or self._open_constructs():
                pass
            open_ = [node for _, node, _ in self.constructs if len(self._kinds(node)) > 1]
            if open_:
                self.classes[self._find(open_[0])].kinds = frozenset({ANONYMOUS})
                continue
            # Undecided literals become numbers, one class at a time: a choice may decide others.
            undecided = [root for root in self._roots() if len(self.classes[root].kinds) > 1]
            if not undecided:
                return
            chosen = self.classes[undecided[0]]
            preferred = (kind for kind in PREFERRED if kind in chosen.kinds)
            chosen.kinds = frozenset({next(preferred, min(chosen.kinds, key=lambda kind: kind.value))})

    def _open_constructs(self) -> bool:
        """Give the parts of records and branches the kinds of their fields; true if any changed."""
        found = False
        for term, node, inner in self.constructs:
            kinds = self._kinds(node)
            if id(term) in self.opened or len(kinds) > 1:
                continue
            kind = expect_type(next(iter(kinds)), Structured, "the kind of a record or a branch")
            if kind == ANONYMOUS:
                found = self._join_parts(term, node, inner) or found
                continue
            self.opened[id(term)] = kind
            found = True
            if term.function == "nil":
                continue
            constructor = term.function[1:] if term.function.startswith("$") else ""
            fields = self.types.fields(kind, constructor)
            if len(fields) != len(inner):
                self._mismatch(
                    term.span,
                    f"record type '{kind.name}' has {len(fields)} field{'' if len(fields) == 1 else 's'},"
                    f" but {len(inner)} {'is' if len(inner) == 1 else 'are'} given",
                    None,
                    code="wrong-arity",
                )
            for field_, part, place in zip(fields, term.arguments, inner, strict=True):
                where = f"field '{field_.name}' of '{term.function if constructor else kind.name}'"
                expected = frozenset({self.types.kind(field_.type_name)})
                self._narrow(place, expected, part, f"{where} is", f"it is in {where}")
        return found

    def _join_parts(self, term: syntax.Construct, node: int, inner: tuple[int, ...]) -> bool:
        """Merge the parts of a record without a type with those of all records compared with it."""
        others = [
            parts for other, at, parts in self.constructs if self._same(at, node) and other.function == "[]"
        ]
        if not others or any(len(parts) != len(others[0]) for parts in others):
            self._ambiguous(term)
        joined = False
        if term.function == "[]":
            for part, part_node, other_node in zip(term.arguments, inner, others[0], strict=True):
                joined = joined or not self._same(part_node, other_node)
                self._join(other_node, part_node, part, "it is a part of records that are compared")
        return joined

    def _same(self, a: int, b: int) -> bool:
        return self._find(a) == self._find(b)

    def kind_of(self, term: syntax.Term) -> AnyKind:
        """The kind of a term, after `settle`."""
        return self._final(self.node(term), term, ())

    def _final(self, node: int, term: syntax.Term, outer: tuple[int, ...]) -> AnyKind:
        (kind,) = self._kinds(node)
        if kind != ANONYMOUS:
            return kind
        root = self._find(node)
        record, parts = next(
            (construct, parts)
            for construct, at, parts in self.constructs
            if self._same(at, root) and construct.function == "[]"
        )
        if root in outer:
            message = f"the record {quoted(record)} would contain itself"
            self._mismatch(term.span, message, None, code="recursive-type")
        return anonymous_record(
            [self._final(part, term, (*outer, root)) for part in parts], self.types.word_size
        )

    def _ambiguous(self, term: syntax.Construct) -> None:
        self._mismatch(
            term.span,
            f"cannot infer the record type of {quoted(term)}",
            "use it in a column, or in a field, of a declared record type",
            code="ambiguous-type",
        )

    def _choose_signatures(self) -> bool:
        """One round over the undecided calls; true when it narrowed a class."""
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
        given = ", ".join(kinds_text(self._kinds(argument)) for argument in overloaded.arguments)
        result = kinds_text(self._kinds(overloaded.result))
        if call.target is not None:
            message = f"'as' cannot convert {given} to {result}"
            hint = "use a conversion function such as to_float, to_number or to_string"
            self._mismatch(call.span, message, hint)
        expected = " or ".join(
            dict.fromkeys(
                f"({', '.join(kind.value for kind in signature.parameters)}) -> {signature.result.value}"
                for signature in self.declarations.signatures(call.function)
            )
        )
        self._mismatch(
            call.span,
            f"'{call.function}' cannot be applied to ({given}) with {result} as the result",
            f"'{call.function}' is {expected}",
        )

    def _regex(self, pattern: syntax.Constant) -> None:
        try:
            if compiled(str(pattern.value)).may_be_endless:
                self.report.error(
                    pattern.span,
                    f"matching {quoted(pattern)} may not terminate",
                    "do not repeat a group that contains a quantifier or '|' in a pattern with look-ahead,"
                    " back references or large numbers of repetitions",
                    code="invalid-pattern",
                )
        except RegexError as error:
            # A warning only, because Soufflé runs such a program, too.
            self.report.warning(
                pattern.span,
                f"{quoted(pattern)} is not a regular expression: {error}",
                "'match' and '!match' are both false for this pattern; expected ECMAScript syntax",
                code="invalid-pattern",
            )
