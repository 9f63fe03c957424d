"""Lark's parse tree of one item to the frozen nodes of `syntax`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias, cast

from lark import Token, Tree

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.lexer import PlacedToken, unescape
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import N, map_children
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_type

ParseTree: TypeAlias = Tree[Token]
Child: TypeAlias = "ParseTree | Token | None"

# Deeper nesting than this is refused: the passes after this one walk terms recursively.
MAX_DEPTH = 120


class Builder:
    """Builds the nodes of one text; problems of single tokens (ranges, escapes) are reported."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def item(self, tree: ParseTree) -> parsed.Item | None:
        """The item a complete parse tree stands for, or None when it is nested too deeply."""
        if _depth(tree) > MAX_DEPTH:
            span = self.span(tree)
            self.report.error(span, f"this is nested more than {MAX_DEPTH} levels deep")
            return None
        match tree.data:
            case "fact":
                return parsed.Clause((self.atom(_child(tree, 0)),), None, self.span(tree))
            case "rule":
                heads = tuple(self.atom(child) for child in _trees(_child(tree, 0)))
                return parsed.Clause(heads, self.formula(_child(tree, 2)), self.span(tree))
            case "subsumption":
                return self._subsumption(tree)
            case "relation_declaration":
                return self._relation(tree)
            case "functor_declaration":
                return self._functor(tree)
            case "directive":
                return self._directive(tree)
            case "component":
                head, *bases = [self._component_type(child) for child in _component_types(tree)]
                return parsed.Component(head, tuple(bases), (), self.span(tree))
            case "component_end":
                return parsed.ComponentEnd(self.span(tree))
            case "instance":
                name = self._name(cast(Token, tree.children[1]))
                return parsed.Instance(name, self._component_type(_child(tree, 3)), self.span(tree))
            case "override":
                return parsed.Override(self._names(tree.children[1]), self.span(tree))
            case "pragma":
                key, *value = map(self._unescape, _tokens(tree)[1:])
                return parsed.Pragma(key, "".join(value), self.span(tree))
            case "plan":
                return parsed.PlanDirective(tuple(map(self._order, _trees(tree))), self.span(tree))
            case _:
                return self._type(tree)

    def fact(self, tokens: Sequence[Token]) -> parsed.Clause:
        """A fact from its tokens: a name, literals between brackets and commas, a dot."""
        name, first, last = (self.span_of(tokens[i]) for i in (0, 2, -1))
        arguments = [self._literal(tokens[2], first)]
        arguments += [self._literal(t, self.span_of(t)) for t in tokens[4:-2:2]]
        bracket = self.span_of(tokens[-2])
        atom = syntax.Atom(str(tokens[0]), tuple(arguments), name.to(bracket), name)
        return parsed.Clause((atom,), None, name.to(last))

    def _literal(self, token: Token, span: SourceSpan) -> syntax.Term:
        match token.type:
            case "STRING":
                return syntax.Constant(self._unescape(token), span, Kind.SYMBOL)
            case "FLOAT":
                return self._float(str(token), span)
            case _:
                return self._number(str(token), span)

    # --- declarations ----------------------------------------------------------------------------

    def _relation(self, tree: ParseTree) -> parsed.RelationDeclaration:
        _, names, _, attributes, _, qualifiers, choices = tree.children
        return parsed.RelationDeclaration(
            self._names(names),
            self._attributes(attributes),
            self._names(qualifiers),
            self.span(tree),
            tuple(self._names(d.children[min(1, len(d.children) - 1)]) for d in _trees(choices)),
        )

    def _attributes(self, tree: Child) -> tuple[parsed.AttributeDeclaration, ...]:
        columns = []
        for attribute in _trees(tree):
            name, _, type_name = _tokens(attribute)
            columns.append(
                parsed.AttributeDeclaration(
                    str(name),
                    str(type_name),
                    self.span_of(name).to(self.span_of(type_name)),
                    self.span_of(type_name),
                )
            )
        return tuple(columns)

    def _branches(self, tree: ParseTree) -> tuple[parsed.BranchDeclaration, ...]:
        if tree.data == "record_type":
            name = self._name(cast(Token, tree.children[1]))
            return (parsed.BranchDeclaration(replace(name, text=""), self._attributes(tree.children[4])),)
        return tuple(
            parsed.BranchDeclaration(
                self._name(cast(Token, branch.children[0])), self._attributes(branch.children[2])
            )
            for branch in _trees(tree)
        )

    def _type(self, tree: ParseTree) -> parsed.TypeDeclaration:
        if tree.data in ("record_type", "adt_type"):
            named = self._name(cast(Token, tree.children[1]))
            made: parsed.TypeForm = "record" if tree.data == "record_type" else "adt"
            branches = self._branches(tree)
            return parsed.TypeDeclaration(named, made, (), self.span(tree), branches=branches)
        names = [self._name(token) for token in _tokens(tree) if token.type in ("IDENT", "QUALIFIED")]
        parents = tuple(names[1:])
        form: parsed.TypeForm = "subtype"
        if tree.data == "alias_or_union":
            form = "alias" if len(parents) == 1 else "union"
        deprecated = tree.data == "old_type"
        if deprecated:
            kind = "number" if _tokens(tree)[0].type == "NUMBER_TYPE" else "symbol"
            parents = (syntax.Name(kind, names[0].span),)
        return parsed.TypeDeclaration(names[0], form, parents, self.span(tree), deprecated)

    def _directive(self, tree: ParseTree) -> parsed.Directive:
        kind, names, _, parameters, _ = tree.children
        values: list[tuple[str, str]] = []
        for parameter in _trees(parameters):
            key, _, value = _tokens(parameter)
            text = self._unescape(value) if value.type == "STRING" else str(value)
            values.append((str(key), text))
        name = cast(parsed.DirectiveKind, str(kind)[1:])
        return parsed.Directive(name, self._names(names), tuple(values), self.span(tree))

    def _functor(self, tree: ParseTree) -> parsed.FunctorDeclaration:
        name, result = (self._name(cast(Token, tree.children[place])) for place in (1, 6))
        types = (self._name(_tokens(parameter)[-1]) for parameter in _trees(tree.children[3]))
        return parsed.FunctorDeclaration(name, tuple(types), result, self.span(tree))

    def _component_type(self, tree: ParseTree) -> parsed.ComponentType:
        name, _, parameters, _ = tree.children
        return parsed.ComponentType(self._name(cast(Token, name)), self._names(parameters), self.span(tree))

    def _order(self, tree: ParseTree) -> parsed.PlanOrder:
        version, *positions = [
            self._number(str(token), self.span_of(token)) for token in _tokens(tree) if token.type == "NUMBER"
        ]
        return parsed.PlanOrder(version, tuple(positions), self.span(tree))

    def _names(self, tree: Child) -> tuple[syntax.Name, ...]:
        if isinstance(tree, Token):
            return (self._name(tree),)
        return tuple(self._name(token) for token in _tokens(tree) if token.type != "COMMA")

    def _name(self, token: Token) -> syntax.Name:
        return syntax.Name(str(token), self.span_of(token))

    # --- bodies ----------------------------------------------------------------------------------

    def _subsumption(self, tree: ParseTree) -> parsed.Clause:
        numbers = count(1)
        dominated, dominating = (_without_wildcards(self.atom(tree.children[at]), numbers) for at in (0, 2))
        body = self.formula(tree.children[4])
        whole = syntax.Conjunction((dominated, dominating, body), body.span)
        return parsed.Clause((dominated,), whole, self.span(tree), subsumes=True)

    def formula(self, tree: Child) -> syntax.Formula:
        tree = expect_type(tree, Tree, "the parse tree of a formula")
        span = self.span(tree)
        match tree.data:
            case "atom":
                return self.atom(tree)
            case "conjunction":
                return syntax.Conjunction(tuple(self.formula(part) for part in _trees(tree)), span)
            case "disjunction":
                return syntax.Disjunction(tuple(self.formula(part) for part in _trees(tree)), span)
            case "negation":
                return syntax.Not(self.formula(_child(tree, 1)), span)
            case "text_test":
                test, _, left, _, right, _ = tree.children
                return syntax.Comparison(str(test), self.term(left), self.term(right), span)
            case "truth":
                return syntax.Truth(_tokens(tree)[0] == "true", span)
            case "group":
                return self.formula(_child(tree, 1))
            case _:
                left, operator, right = tree.children
                return syntax.Comparison(str(operator), self.term(left), self.term(right), span)

    def atom(self, tree: Child) -> syntax.Atom:
        tree = expect_type(tree, Tree, "the parse tree of an atom")
        name, _, arguments, _ = tree.children
        name_span = self.span_of(cast(Token, name))
        return syntax.Atom(str(name), self.terms(arguments), self.span(tree), name_span)

    # --- terms -----------------------------------------------------------------------------------

    def terms(self, tree: Child) -> tuple[syntax.Term, ...]:
        return tuple(self.term(part) for part in _trees(tree))

    def term(self, tree: Child) -> syntax.Term:
        tree = expect_type(tree, Tree, "the parse tree of a term")
        span = self.span(tree)
        first = tree.children[0]
        match tree.data:
            case "variable":
                return syntax.Variable(str(first), span)
            case "wildcard":
                return syntax.Wildcard(span)
            case "number" | "float" | "string":
                return self._literal(cast(Token, first), span)
            case "group":
                return self.term(tree.children[1])
            case "binary":
                left, operator, right = tree.children
                return syntax.Call(str(operator), (self.term(left), self.term(right)), span)
            case "negative":
                return self._negative(self.term(tree.children[1]), span)
            case "counter":
                return syntax.Call("autoinc", (), span)
            case "user_call":
                return syntax.Call(f"@{tree.children[1]}", self.terms(tree.children[3]), span)
            case "cast":
                _, _, value, _, type_name, _ = tree.children
                target = self._name(cast(Token, type_name))
                return syntax.Call("as", (self.term(value),), span, target=target)
            case "complement":
                return syntax.Call(str(first), (self.term(tree.children[1]),), span)
            case "record":
                return syntax.Construct("[]", self.terms(tree.children[1]), span)
            case "nil":
                return syntax.Construct("nil", (), span)
            case "branch_term":
                name = "$" + str(first).lstrip("$ \t")
                return syntax.Construct(name, self.terms(tree.children[2]), span)
            case "call":
                return syntax.Call(str(first), self.terms(tree.children[2]), span)
            case "minmax":
                arguments = (self.term(tree.children[2]), *self.terms(tree.children[4]))
                return syntax.Call(str(first), arguments, span)
            case _:
                return self._aggregate(tree, span)

    def _number(self, text: str, span: SourceSpan) -> syntax.NumberLiteral:
        if "." in text:  # an IPv4 address is a number, in Souffle an `int` of C++ whatever the word size
            parts = bytes(min(int(part[:3]), 255) for part in text.split("."))
            return syntax.NumberLiteral(int.from_bytes(parts, signed=True), False, span)
        unsigned = text.endswith("u")
        # An integer literal may have leading zeros, which int(text, 0) would refuse.
        digits = text.removesuffix("u")
        base = {"0x": 16, "0b": 2}.get(digits[:2], 10)
        digits = (digits[2:] if base != 10 else digits).lstrip("0") or "0"
        if len(digits) > 64:  # far outside of every type; and int() refuses very long decimals
            self.report.error(span, f"the number {text[:20]}... is too large")
            digits = "0"
        return syntax.NumberLiteral(int(digits, base), unsigned, span)

    def _float(self, text: str, span: SourceSpan) -> syntax.Term:
        value = float(text)
        if math.isinf(value):
            self.report.error(span, "this number is too large for a float")
        return syntax.Constant(value, span, Kind.FLOAT)

    def _negative(self, term: syntax.Term, span: SourceSpan) -> syntax.Term:
        if isinstance(term, syntax.NumberLiteral) and not term.unsigned and term.value > 0:
            return syntax.NumberLiteral(-term.value, False, span)
        if isinstance(term, syntax.Constant) and isinstance(term.value, float):
            return replace(term, value=-term.value, span=span)
        return syntax.Call("-", (term,), span)

    def _aggregate(self, tree: ParseTree, span: SourceSpan) -> syntax.Term:
        function, value = tree.children[0], tree.children[1]
        body = _child(tree, 3)
        inner = _child(body, 1 if len(body.children) == 3 else 0)
        target = None if value is None else self.term(value)
        if (target is None) != (function == "count"):
            place = self.span_of(cast(Token, function))
            if target is None:
                self.report.error(
                    place,
                    f"'{function}' needs the expression to aggregate",
                    f"write '{function} x : {{ ... }}'",
                )
            else:
                self.report.error(place, "'count' takes no expression", "write 'count : { ... }'")
        formula = self.formula(inner)
        parts = formula.parts if isinstance(formula, syntax.Conjunction) else (formula,)
        return syntax.Aggregate(str(function), target, parts, span)

    def _unescape(self, token: Token) -> str:
        value, bad = unescape(str(token))
        if bad is not None:
            self.report.error(
                self.span_of(token),
                f"unknown escape sequence {bad} in a string",
                r"""known are \" \' \\ \a \b \f \n \r \t \v""",
            )
        return value

    # --- places ----------------------------------------------------------------------------------

    @staticmethod
    def span_of(token: Token) -> SourceSpan:
        """The place of one token."""
        return expect_type(token, PlacedToken, "a token of the lexer").span

    def span(self, tree: ParseTree) -> SourceSpan:
        """The place from the first to the last token of a tree."""
        first, last = _edge(tree, 0), _edge(tree, -1)
        return self.span_of(first).to(self.span_of(last))


def _without_wildcards(node: N, numbers: Iterator[int]) -> N:
    """The node with a name for every `_` that no source can have; the underscore says it may stand alone."""
    if isinstance(node, syntax.Wildcard):
        return cast(N, syntax.Variable(f"_#{next(numbers)}", node.span))
    return map_children(node, lambda part: _without_wildcards(part, numbers))


def _edge(tree: ParseTree, end: int) -> Token:
    node: ParseTree | Token = tree
    while isinstance(node, Tree):
        present = [child for child in node.children if _present(child)]
        node = present[end]
    return node


def _present(child: Child) -> bool:
    return isinstance(child, Token) or (isinstance(child, Tree) and bool(child.children))


def _child(tree: ParseTree, position: int) -> ParseTree:
    return cast(ParseTree, tree.children[position])


def _trees(tree: Child) -> Iterator[ParseTree]:
    if isinstance(tree, Tree):
        yield from (child for child in tree.children if isinstance(child, Tree))


def _component_types(tree: ParseTree) -> Iterator[ParseTree]:
    yield _child(tree, 1)
    yield from _trees(tree.children[3])


def _tokens(tree: Child) -> list[Token]:
    if not isinstance(tree, Tree):
        return []
    return [child for child in tree.children if isinstance(child, Token)]


def _depth(tree: ParseTree) -> int:
    """How many levels of trees lie inside each other; without recursion."""
    deepest, stack = 0, [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in node.children if isinstance(child, Tree))
    return deepest
