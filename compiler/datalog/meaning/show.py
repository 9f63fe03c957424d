"""Terms, formulas and rules as text, for messages and `explain`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Value
from dbsp.compiler.datalog.tree.syntax import TEXT_TESTS
from dbsp.data.terms import Branch, Record, term_text

# The precedence of operators; a term of lower precedence than its surroundings gets parentheses.
_LEVELS = {"lor": 1, "lxor": 2, "land": 3, "bor": 4, "bxor": 5, "band": 6}
_LEVELS |= {"bshl": 7, "bshr": 7, "bshru": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9, "^": 11}
_PREFIXES = {"-": "-", "bnot": "bnot ", "lnot": "lnot "}
_SIGNED = 10


def source_name(variable: str) -> str:
    """The name of a variable as written: local variables of aggregates have a suffix `#number`."""
    return variable.split("#")[0]


def show_variable(variable: str) -> str:
    """The name as written; for a variable of the compiler, which has none, its number."""
    return source_name(variable) or variable


def show_term(term: syntax.Term) -> str:
    """A term as it would be written.

    >>> from dbsp.diagnostics import SourceSpan
    >>> at = SourceSpan("", 1)
    >>> show_term(syntax.Call("*", (syntax.Variable("x", at), syntax.NumberLiteral(2, False, at)), at))
    'x * 2'
    """
    return _show(term, 0)


def _show(term: syntax.Term, level: int) -> str:
    match term:
        case syntax.Variable(name=name):
            return show_variable(name)
        case syntax.Wildcard():
            return "_"
        case syntax.NumberLiteral(value=number, unsigned=unsigned):
            return f"{number}u" if unsigned else str(number)
        case syntax.Constant(value=value):
            return _show_value(value)
        case syntax.Aggregate():
            target = "" if term.value is None else f" {show_term(term.value)}"
            return f"{term.function}{target} : {{ {show_body(term.body)} }}"
        case syntax.Part(position=int(position), arguments=(value,)):
            return f"part {position + 1} of {show_term(value)}"
        case syntax.Part(arguments=(value,)):
            return f"the form of {show_term(value)}"
        case syntax.Construct():
            return show_construct(term.function, list(map(show_term, term.arguments)))
        case syntax.Call():
            return _show_call(term, level)


def show_construct(function: str, arguments: list[str]) -> str:
    """A record, a branch or nil as it would be written."""
    inside = ", ".join(arguments)
    if function == "[]":
        return f"[{inside}]"
    return f"{function}({inside})" if inside or function.startswith("$") else function


def _show_call(call: syntax.Call, level: int) -> str:
    if call.function == "autoinc":
        return "autoinc()"
    own = _LEVELS.get(call.function)
    if len(call.arguments) == 1 and call.function in _PREFIXES:
        own, text = _SIGNED, f"{_PREFIXES[call.function]}{_show(call.arguments[0], _SIGNED)}"
    elif call.target is not None:
        return f"as({show_term(call.arguments[0])}, {call.target.text})"
    elif own is None:
        return f"{call.function}({', '.join(map(show_term, call.arguments))})"
    else:
        left, right = call.arguments
        to_right = call.function == "^"
        shown = (_show(left, own + to_right), _show(right, own + (not to_right)))
        text = f"{shown[0]} {call.function} {shown[1]}"
    return f"({text})" if own < level else text


def _show_value(value: Value) -> str:
    if value is None or isinstance(value, Record | Branch):
        return term_text(value, lambda part: _show_value(part))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def show_literal(literal: syntax.Formula) -> str:
    """A literal, or a whole formula, as it would be written."""
    match literal:
        case syntax.Atom(relation=name, arguments=terms):
            return f"{name}({', '.join(map(show_term, terms))})"
        case syntax.Negation(atom=atom):
            return f"!{show_literal(atom)}"
        case syntax.Comparison(left=syntax.Part(position=None, arguments=(value,)) as part):
            constructor = f"${part.constructor}" if part.constructor else "a record"
            return f"{show_term(value)} is {constructor}"
        case syntax.Comparison():
            if literal.operator in TEXT_TESTS:
                return f"{literal.operator}({show_term(literal.left)}, {show_term(literal.right)})"
            return f"{show_term(literal.left)} {literal.operator} {show_term(literal.right)}"
        case syntax.Truth(value=value):
            return "true" if value else "false"
        case syntax.Not(part=part):
            return f"!({show_literal(part)})"
        case syntax.Conjunction(parts=parts):
            return f"({', '.join(map(show_literal, parts))})"
        case syntax.Disjunction(parts=parts):
            return f"({'; '.join(map(show_literal, parts))})"


def show_body(body: Iterable[syntax.Formula]) -> str:
    return ", ".join(map(show_literal, body))


def show_rule(rule: checked.Rule) -> str:
    """A rule in one line, after the expansion of `;` and several heads."""
    if rule.dominating is not None:
        body = show_body(rule.body[2:])
        return f"{show_literal(rule.head)} <= {show_literal(rule.dominating)} :- {body}."
    body = f" :- {show_body(rule.body)}" if rule.body else ""
    return f"{show_literal(rule.head)}{body}."
