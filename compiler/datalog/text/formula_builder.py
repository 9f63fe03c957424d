"""Turn the parse trees of formulas and terms into the nodes of `tree.syntax`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from dbsp.compiler.datalog.text.item_parser import Child, ParseTree
from dbsp.compiler.datalog.text.lexer import PlacedToken, unescape
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_type


class FormulaBuilder:
    """Builds formulas and terms; reports numbers out of range and unknown escape sequences."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def formula(self, tree: Child) -> syntax.Formula:
        tree = expect_type(tree, ParseTree, "the parse tree of a formula")
        span = tree.span
        match tree.data:
            case "atom":
                return self.atom(tree)
            case "conjunction":
                return syntax.Conjunction(tuple(self.formula(part) for part in subtrees(tree)), span)
            case "disjunction":
                return syntax.Disjunction(tuple(self.formula(part) for part in subtrees(tree)), span)
            case "negation":
                return syntax.Not(self.formula(subtree(tree, 1)), span)
            case "text_test":
                test, _, left, _, right, _ = tree.children
                return syntax.Comparison(str(test), self.term(left), self.term(right), span)
            case "truth":
                return syntax.Truth(tree.children[0] == "true", span)
            case "group":
                return self.formula(subtree(tree, 1))
            case _:
                left, operator, right = tree.children
                return syntax.Comparison(str(operator), self.term(left), self.term(right), span)

    def atom(self, tree: Child) -> syntax.Atom:
        tree = expect_type(tree, ParseTree, "the parse tree of an atom")
        name, _, arguments, _ = tree.children
        name_span = cast(PlacedToken, name).span
        return syntax.Atom(str(name), self.terms(arguments), tree.span, name_span)

    # --- terms -----------------------------------------------------------------------------------

    def terms(self, tree: Child) -> tuple[syntax.Term, ...]:
        return tuple(self.term(part) for part in subtrees(tree))

    def term(self, tree: Child) -> syntax.Term:
        tree = expect_type(tree, ParseTree, "the parse tree of a term")
        span = tree.span
        first = tree.children[0]
        match tree.data:
            case "variable":
                return syntax.Variable(str(first), span)
            case "wildcard":
                return syntax.Wildcard(span)
            case "number" | "float" | "string":
                return self.literal(cast(PlacedToken, first), span)
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
                target = self.name(cast(PlacedToken, type_name))
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

    def literal(self, token: PlacedToken, span: SourceSpan) -> syntax.Term:
        match token.type:
            case "STRING":
                return syntax.Constant(self.text_of(token), span, Kind.SYMBOL)
            case "FLOAT":
                return self._float(str(token), span)
            case _:
                return self.number(str(token), span)

    def number(self, text: str, span: SourceSpan) -> syntax.NumberLiteral:
        if "." in text:  # an IPv4 address is a number: in Soufflé an `int` of C++, for any word size
            parts = bytes(min(int(part[:3]), 255) for part in text.split("."))
            return syntax.NumberLiteral(int.from_bytes(parts, signed=True), False, span)
        unsigned = text.endswith("u")
        # An integer literal may have leading zeros, which int(text, 0) would refuse.
        digits = text.removesuffix("u")
        base = {"0x": 16, "0b": 2}.get(digits[:2], 10)
        digits = (digits[2:] if base != 10 else digits).lstrip("0") or "0"
        if len(digits) > 64:  # outside of every type; and int() refuses very long decimals
            message = f"the number {text[:20]}... does not fit in 64 bits"
            self.report.error(span, message, code="value-out-of-range")
            digits = "0"
        return syntax.NumberLiteral(int(digits, base), unsigned, span)

    def _float(self, text: str, span: SourceSpan) -> syntax.Term:
        value = float(text)
        if math.isinf(value):
            message = "this number is too large for a float"
            self.report.error(span, message, code="value-out-of-range")
        return syntax.Constant(value, span, Kind.FLOAT)

    def _negative(self, term: syntax.Term, span: SourceSpan) -> syntax.Term:
        if isinstance(term, syntax.NumberLiteral) and not term.unsigned and term.value > 0:
            return syntax.NumberLiteral(-term.value, False, span)
        if isinstance(term, syntax.Constant) and isinstance(term.value, float):
            return replace(term, value=-term.value, span=span)
        return syntax.Call("-", (term,), span)

    def _aggregate(self, tree: ParseTree, span: SourceSpan) -> syntax.Term:
        function, value = tree.children[0], tree.children[1]
        body = subtree(tree, 3)
        inner = subtree(body, 1 if len(body.children) == 3 else 0)
        target = None if value is None else self.term(value)
        if (target is None) != (function == "count"):
            place = cast(PlacedToken, function).span
            if target is None:
                message = f"'{function}' needs an expression to aggregate"
                hint = f"write '{function} x : {{ ... }}'"
            else:
                message = "'count' does not take an expression"
                hint = "write 'count : { ... }'"
            self.report.error(place, message, hint, code="invalid-aggregate")
        formula = self.formula(inner)
        parts = formula.parts if isinstance(formula, syntax.Conjunction) else (formula,)
        return syntax.Aggregate(str(function), target, parts, span)

    def text_of(self, token: PlacedToken) -> str:
        """The value of a string literal."""
        value, bad = unescape(str(token))
        if bad is not None:
            self.report.error(
                token.span,
                f"unknown escape sequence {bad} in a string",
                r"""known: \" \' \\ \a \b \f \n \r \t \v""",
                code="syntax",
            )
        return value

    def name(self, token: PlacedToken) -> syntax.Name:
        return syntax.Name(str(token), token.span)


def subtree(tree: ParseTree, position: int) -> ParseTree:
    return cast(ParseTree, tree.children[position])


def subtrees(tree: Child) -> Iterator[ParseTree]:
    if isinstance(tree, ParseTree):
        yield from (child for child in tree.children if isinstance(child, ParseTree))
