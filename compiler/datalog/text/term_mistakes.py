"""The mistakes in aggregates, functions and arguments."""

from __future__ import annotations

import re

from dbsp.compiler.datalog.text import other_languages as other
from dbsp.compiler.datalog.text.expected_words import expected_words
from dbsp.compiler.datalog.text.lexer import KEYWORDS, SIGNS
from dbsp.compiler.datalog.text.mistakes import (
    CLOSING,
    OPENING,
    TERM_ENDS,
    Mistake,
    Stop,
    enclosing_call,
    is_directive,
    sign,
)

_FUNCTIONS = sorted(name for name, kind in KEYWORDS.items() if kind in ("FUNCTOR", "TEXT_TEST", "MINMAX"))
_AGGREGATES = ("AGGREGATE", "MINMAX")
_CALLED = frozenset({"IDENT", "QUALIFIED", "FUNCTOR", "TEXT_TEST", "MINMAX", "AS", "BRANCH"})
_COMPARISONS = frozenset({"EQUALS", "NE", "LT", "LE", "GT", "GE"})

# --- aggregates, functions and arguments ----------------------------------------------------------


def aggregate(stop: Stop) -> Mistake | None:
    """`count(y)` in a head or without a body, `COUNT : ...`, `avg y : ...`, `count { ... }`."""
    at = stop.position
    if stop.kind() == "LBRACE" and "COLON" in stop.expected and not is_directive(stop):
        message = f"expected ':', got '{stop.text_at(at)}'"
        return Mistake(message, at, at, "write 'count : { ... }', 'sum x : { ... }'", [sign(":"), sign("{")])
    named = stop.kind() == "LPAREN" and stop.kind(-1) in ("IDENT", "QUALIFIED")
    if named and stop.kind(-2) in _AGGREGATES and "COLON" in stop.expected:
        name = stop.text_at(at - 1)
        message = f"expected ':' after '{stop.text_at(at - 2)}', got '{name}'"
        instead = [sign(":"), (stop.kind(-1), name)]
        return Mistake(message, at - 1, at - 1, f"write {stop.text_at(at - 2)} : {name}(...)", instead)
    known = other.AGGREGATES.get(stop.word(-1)) if stop.kind(-1) == "IDENT" else None
    if known and not stop.begins_line:
        if stop.kind() == "LPAREN" and "PLUS" in stop.expected:
            return _without_body(stop, at - 1, known)
        if stop.kind() in ("COLON", "IDENT", "UNDERSCORE", "NUMBER") and not _relation_follows(stop):
            kind = "MINMAX" if known in ("min", "max") else "AGGREGATE"
            message = f"expected '{known}', got '{stop.text_at(at - 1)}'"
            return Mistake(message, at - 1, at - 1, None, [(kind, known)])
    bracket = stop.opening(("LPAREN",))
    if stop.kind() in ("COLON", "COMMA") and bracket is not None and stop.kind_at(bracket - 1) in _AGGREGATES:
        return _without_body(stop, bracket - 1, stop.text_at(bracket - 1))
    if "COLON" not in stop.expected and stop.kind(-1) != "LPAREN":
        return None
    for place in range(at - 1, stop.start, -1):
        if stop.kind_at(place) in _AGGREGATES and not is_directive(stop):
            return _without_body(stop, place, stop.text_at(place))
    return None


def _relation_follows(stop: Stop) -> bool:
    return stop.kind(1) == "LPAREN" and stop.text_at(stop.position) in stop.relations


def _without_body(stop: Stop, place: int, name: str) -> Mistake | None:
    """The mistake of an aggregate, at `place`, of an expression without a body."""
    last = _aggregated(stop, place)
    if last == place and name == "count" and _relation_follows(stop):
        return None
    argument = stop.written(place + 1, last) if last > place else ""
    if argument[:1] + argument[-1:] in ("()", "<>"):
        argument = re.split(" ?[:,]", argument[1:-1])[0]
    right = "count : { ... }" if name == "count" else f"{name} {argument or 'x'} : {{ ... }}"
    message = f"expected '{right}', got '{stop.written(place, last)}'"
    head = stop.text_at(stop.start)
    hint = f"write the rows to aggregate between the braces: {head}(n) :- n = {right}."
    if stop.kind_at(place) in _AGGREGATES and last == place and stop.kind(0) not in ("RPAREN", "COMMA"):
        return None
    if last == place:  # `max` as the name of a variable
        return None
    if stop.kind_at(last + 1) == "AS" and stop.kind_at(last + 2) == "IDENT":
        name = stop.text_at(last + 2)
        message = f"expected '{name} = {right}', got '{stop.written(place, last + 2)}'"
        instead = [("IDENT", name), sign("="), ("NUMBER", "0")]
        return Mistake(message, place, last + 2, None, instead)
    in_call = stop.kind() == "COMMA" and last > stop.position  # `sum(n, e(_, n))`, a condition
    return Mistake(message, place, last, hint, None if in_call else [("NUMBER", "0")])


def _aggregated(stop: Stop, place: int) -> int:
    """The position of the last token of the expression of an aggregate."""
    if stop.kind_at(place + 1) in ("LPAREN", "LT"):
        closing = "RPAREN" if stop.kind_at(place + 1) == "LPAREN" else "GT"
        depth = 0
        for last in range(place + 1, len(stop.tokens)):
            depth += (stop.kind_at(last) in CLOSING) - (stop.kind_at(last) in OPENING)
            if stop.kind_at(last) == closing and depth == 0:
                return last
            if stop.kind_at(last) == "DOT":
                break
    return max(place, stop.position - 1)


def function(stop: Stop) -> Mistake | None:
    """A function that does not exist, or a relation in place of a term."""
    at = stop.position
    if stop.kind() == "LPAREN" and stop.kind(-1) == "IDENT" and "PLUS" in stop.expected:
        name, place = stop.text_at(at - 1), at - 1
        call = enclosing_call(stop)
        if name in stop.relations and call is not None and stop.text_at(call) not in stop.relations:
            return _unknown_function(stop, call)
        if name in stop.relations:
            message = f"expected a term, got the relation '{name}'"
            hint = f"write {name}(...) as a part of the body, and use its variables"
            return Mistake(message, place, place, hint)
        return _unknown_function(stop, place, repair=True)
    closed = stop.kind(-1) == "RPAREN" and "COMMA" in stop.expected and "PLUS" not in stop.expected
    if closed and (stop.kind() in _COMPARISONS or stop.kind() in ("PLUS", "STAR", "SLASH", "CARET")):
        opening = stop.matching(at - 1)
        called = opening is not None and stop.kind_at(opening - 1) == "IDENT"
        if opening is not None and called and stop.text_at(opening - 1) not in stop.relations:
            return _unknown_function(stop, opening - 1, repair=True)
    return None


def _unknown_function(stop: Stop, place: int, repair: bool = False) -> Mistake:
    name = stop.text_at(place)
    instead = [("FUNCTOR", "cat")] if repair else None
    return Mistake(f"unknown function '{name}'", place, place, other.function_hint(name, _FUNCTIONS), instead)


def argument(stop: Stop) -> Mistake | None:
    """`e(x: 1)`, `e(x = 1)`, `e(x, *)`, `e[x]`, `e{x}`, `e.x` and a relation without brackets."""
    at = stop.position
    if is_directive(stop):
        return None
    in_atom = enclosing_call(stop) is not None and stop.kind(-1) in TERM_ENDS
    if in_atom and stop.kind(-2) in ("LPAREN", "COMMA") and stop.kind() in ("COLON", "EQUALS"):
        message = f"expected ',' or ')', got '{stop.text_at(at)}'"
        hint = "arguments have no names: write one term for each column, '_' for any value"
        return Mistake(message, at, at, hint)
    if stop.kind() == "COLON" and stop.kind(-1) == "IDENT" and stop.kind(1) == "LPAREN" and stop.adjacent(at):
        return Mistake("expected '(', got ':'", at, at, "remove the ':'", ())
    tuple_ = stop.opening(("LPAREN",))
    if stop.kind() == "COMMA" and tuple_ is not None and stop.kind_at(tuple_ - 1) not in _CALLED:
        message = f"expected {expected_words(stop.expected)}, got ','"
        return Mistake(message, at, at, "write an atom as edge(x, y), and a record as [x, y]")
    starred = stop.kind() == "STAR" and stop.kind(-1) in ("LPAREN", "COMMA")
    if starred and stop.kind(1) in ("RPAREN", "COMMA"):
        message = "expected a term, got '*'"
        return Mistake(message, at, at, "write '_' for any value", [("UNDERSCORE", "_")])
    if stop.kind() == "QUALIFIED" and "NUMBER" in stop.expected:
        message = f"expected a term, got '{stop.text_at(at)}'"
        hint = "a column is a variable of an atom: write edge(x, y), and use x"
        return Mistake(message, at, at, hint, [("IDENT", "x")])
    if stop.kind(-1) == "IDENT" and stop.kind() in ("LBRACKET", "LBRACE") and "LPAREN" in stop.expected:
        closing = SIGNS[")"], ")"
        message = f"expected '(', got '{stop.text_at(at)}'"
        last = _closing(stop, at)
        inside = [(token.type, str(token)) for token in stop.tokens[at + 1 : last]]
        hint = "the arguments of an atom are in round brackets"
        return Mistake(message, at, last, hint, [sign("("), *inside, closing], span=stop.span(at, at))
    name = stop.text_at(at - 1)
    bare = stop.kind(-1) == "IDENT" and name in stop.relations and "LPAREN" in stop.expected
    if bare and stop.kind() in ("DOT", "COMMA", "SEMICOLON", "IF", "RBRACE"):
        message = f"expected '(' after the relation '{name}', got '{stop.text_at(at)}'"
        return Mistake(message, at - 1, at - 1, f"write {name}(...) with a term for each column")
    return None


def _closing(stop: Stop, opening: int) -> int:
    """The position of the bracket that closes the one at `opening`, or of the last token before."""
    depth = 0
    for place in range(opening, len(stop.tokens)):
        depth += (stop.kind_at(place) in CLOSING) - (stop.kind_at(place) in OPENING)
        if depth == 0:
            return place
    return opening


def comparison_of_three(stop: Stop) -> Mistake | None:
    """`1 < x < 3`."""
    if stop.kind() not in _COMPARISONS or "LOR" not in stop.expected or "COMMA" not in stop.expected:
        return None
    if stop.kind() in stop.expected or stop.opening(("LPAREN",)) is not None:
        return None
    text = stop.text_at(stop.position)
    message = f"expected ',', got '{text}'"
    if "?" in map(str, stop.tokens[stop.position : stop.line_end(stop.position)]):
        return Mistake(message, stop.position, stop.position, other.PHRASES["case"])
    hint = "compare two terms at a time: 1 < x, x < 3"
    middle = stop.text_at(stop.position - 1)
    instead = [sign(","), (stop.kind(-1), middle), (stop.kind(), text)]
    return Mistake(message, stop.position, stop.position, hint, instead)


def functor_variable(stop: Stop) -> Mistake | None:
    """`@x` as a variable."""
    if stop.kind(-1) != "IDENT" or stop.kind(-2) != "AT" or stop.expected != {"LPAREN"}:
        return None
    if stop.kind() in ("IDENT", "NUMBER", "STRING"):
        return None
    at, name = stop.position, stop.text_at(stop.position - 1)
    message = f"expected '(' after the functor '@{name}', got '{stop.text_at(at)}'"
    return Mistake(message, at - 2, at - 1, f"write a variable without '@': {name}", [("IDENT", name)])
