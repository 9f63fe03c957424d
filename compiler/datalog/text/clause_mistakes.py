"""The mistakes in the shape of a clause: other statements, brackets, missing ends."""

from __future__ import annotations

from dbsp.compiler.datalog.text import other_languages as other
from dbsp.compiler.datalog.text.expected_words import ITEM_STARTS, expected_words
from dbsp.compiler.datalog.text.lexer import DIRECTIVES, SIGNS
from dbsp.compiler.datalog.text.mistakes import (
    CLOSING,
    OPENING,
    TERM_ENDS,
    Mistake,
    Stop,
    is_directive,
    sign,
    swapped,
)

_LITERAL_STARTS = frozenset({"IDENT", "QUALIFIED", "NOT", "TRUE", "FALSE", "TEXT_TEST", "NUMBER", "STRING"})

# --- statements -----------------------------------------------------------------------------------


def statement(stop: Stop) -> Mistake | None:
    """SQL, Python, a query of Prolog or Datomic, a directive without its dot."""
    first, at = stop.start, stop.position
    name = stop.text_at(first).lower()
    wanted = "expected a rule, a fact or a directive, got"
    if stop.at_item:
        if stop.kind() == "IF":
            hint = "a rule begins with its head; directives are .decl, .input, .output"
            return Mistake(f"{wanted} ':-'", first, first, hint)
        if stop.kind() == "NOT":
            hint = "a rule derives the rows of its head: write what must not hold in the body"
            return Mistake(f"{wanted} '!'", first, first, hint, ())
        if stop.kind() == "LBRACKET" and stop.kind(1) == "COLON":
            return Mistake(
                f"{wanted} a Datomic query", first, _statement_end(stop), other.STATEMENTS["select"][1], ()
            )
        if stop.kind() == "DOT" and stop.kind(-1) == "DOT":
            return Mistake(f"{wanted} '.'", at, at, "remove one '.'", ())
        if f".{name}" in DIRECTIVES:
            return _without_dot(stop, first, f".{name}")
        return None
    dotless = f".{stop.text_at(first - 1)}"
    if stop.kind_at(first - 1) == "QUALIFIER" and stop.on_new_line(first - 1) and dotless in DIRECTIVES:
        # The qualifier of the declaration before it.
        message = f"expected '{dotless}', got '{dotless[1:]}'"
        instead = [(DIRECTIVES[dotless], dotless), ("IDENT", stop.text_at(first))]
        return Mistake(message, first, first, None, instead, span=stop.span(first - 1, first - 1))
    queried = stop.text_at(first) == "?" or (stop.text_at(at) == "?" and stop.kind(-1) == "RPAREN")
    if (queried and at - first <= 1) or (stop.text_at(at) == "?" and queried):
        hint = "write '.output r' for a result, or '? r(x)' at the prompt of 'dbsp live'"
        return Mistake(f"{wanted} a query", first, _statement_end(stop), hint, ())
    if stop.kind_at(first) != "IDENT" or at != first + 1 or stop.kind() == "LPAREN":
        return None
    if name in ("fact", "rule") and stop.kind() == "IDENT":
        return Mistake(f"{wanted} '{stop.text_at(first)}'", first, first, "write it without this word", ())
    if f".{name}" in DIRECTIVES:
        return _without_dot(stop, first, f".{name}")
    if name in other.STATEMENTS:
        what, hint = other.STATEMENTS[name]
        span = stop.span(first, first)
        message = f"{wanted} {what}"
        return Mistake(message, first, _statement_end(stop), hint, (), span=span)
    right = other.DIRECTIVES.get(f".{name}")
    return _without_dot(stop, first, right) if right is not None else None


def _without_dot(stop: Stop, place: int, right: str) -> Mistake:
    name = stop.text_at(place)
    message = f"expected '{right}', got '{name}'"
    return Mistake(message, place, place, None, [(DIRECTIVES[right], right)])


def _statement_end(stop: Stop) -> int:
    """The position of the last token of a statement of another language."""
    for place in range(stop.position, len(stop.tokens)):
        kind = stop.kind_at(place)
        if kind in ("SEMICOLON", "DOT") or stop.text_at(place) == "?":
            return place
        if place > stop.start and kind in DIRECTIVES.values():
            return place - 1
    return len(stop.tokens) - 1


def cut_or_list(stop: Stop) -> Mistake | None:
    """`!` of Prolog, and `|` in a list."""
    if stop.kind(-1) == "NOT" and stop.kind() in ("DOT", "COMMA", "SEMICOLON"):
        message = f"expected an atom after '!', got '{stop.text_at(stop.position)}'"
        hint = "there is no cut: the order of rules and atoms has no meaning"
        return Mistake(message, stop.position - 1, stop.position - 1, hint, [("TRUE", "true")])
    if stop.kind() == "PIPE" and stop.opening(("LBRACKET",)) is not None:
        hint = "write a list as a record of its head and its tail: [head, tail]"
        return Mistake("expected ',' or ']', got '|'", stop.position, stop.position, hint, [sign(",")])
    return None


# --- brackets and ends ----------------------------------------------------------------------------


def trailing_comma(stop: Stop) -> Mistake | None:
    """A ',' or ';' without a part before or after it."""
    ends = ("DOT", "RPAREN", "RBRACE", "RBRACKET")
    starts = ("IF", "COMMA", "SEMICOLON", *CLOSING)
    if stop.kind() in ("COMMA", "SEMICOLON") and stop.kind(-1) in starts and not is_directive(stop):
        at, found = stop.position, stop.text_at(stop.position)
        what = "an atom or a condition" if "NOT" in stop.expected else "a term"
        return Mistake(f"expected {what} before '{found}'", at, at, f"remove the '{found}'", ())
    if stop.kind(-1) not in ("COMMA", "SEMICOLON") or stop.kind() not in ends:
        return None
    before, found = stop.text_at(stop.position - 1), stop.text_at(stop.position)
    what = "a term" if stop.kind() != "DOT" and "UNDERSCORE" in stop.expected else "an atom or a condition"
    message = f"expected {what} after '{before}', got '{found}'"
    place = stop.position - 1
    return Mistake(message, place, place, f"remove the '{before}'", ())


def bracket(stop: Stop) -> Mistake | None:
    """A bracket that is not closed, or not opened."""
    at, kind = stop.position, stop.kind()
    if kind in OPENING and kind not in stop.expected and stop.opening((OPENING[kind],)) is None:
        text = stop.text_at(at)
        message = f"expected {expected_words(stop.expected)}, got '{text}'"
        opening = next(sign for sign, name in SIGNS.items() if name == OPENING[kind])
        return Mistake(message, at, at, f"remove the '{text}': no '{opening}' is open", ())
    place = stop.opening()
    ends = kind in ("DOT", "IF", "", *OPENING) or (stop.begins_line and kind in ITEM_STARTS)
    if place is None or not ends or CLOSING[stop.kind_at(place)] not in stop.expected or "PLUS" in {kind}:
        return None
    closing = next(sign for sign, name in SIGNS.items() if name == CLOSING[stop.kind_at(place)])
    got = f"'{stop.text_at(at)}'" if kind else "the end of the text"
    first = place - (stop.kind_at(place - 1) == "IDENT" and place > stop.start)
    hint = f"the '{stop.text_at(place)}' in '{stop.written(first, min(place + 1, at - 1))}' is not closed"
    mark = stop.after(at - 1) if not kind else None
    if stop.begins_line:  # the rest of the clause is missing, too
        return Mistake(f"expected '{closing}', got {got}", at, at, hint, span=mark)
    return Mistake(f"expected '{closing}', got {got}", at, at - 1, hint, [sign(closing)])


def missing_comma(stop: Stop) -> Mistake | None:
    """Two columns, terms or parts of a body on one line without a ',' between them."""
    starts = stop.kind() in TERM_ENDS - OPENING.keys() or stop.kind() in ("FUNCTOR", "NOT")
    if "COMMA" not in stop.expected or "IF" in stop.expected or not starts or stop.begins_line:
        return None
    message = f"expected {expected_words(stop.expected)}, got '{stop.text_at(stop.position)}'"
    if stop.text_at(stop.position) == "?":
        return Mistake(message, stop.position, stop.position, other.PHRASES["case"])
    instead = [sign(","), (stop.kind(), stop.text_at(stop.position))]
    return Mistake(message, stop.position, stop.position, "write ',' before it", instead)


def missing_end(stop: Stop) -> Mistake | None:
    """A clause without its '.', or a body without a ',' at the end of a line."""
    at = stop.position
    if is_directive(stop) or stop.at_item:
        return None
    if stop.kind() == "IF" and "DOT" in stop.expected:
        return _next_rule(stop)
    if stop.kind() == "SEMICOLON" and "IF" in stop.expected:
        return swapped(stop, at, at, ".")
    if at >= len(stop.tokens) and stop.kind(-1) == "SEMICOLON" and "NOT" in stop.expected:
        return swapped(stop, at - 1, at - 1, ".")
    if "DOT" not in stop.expected or not stop.begins_line:
        return None
    got = "the end of the line" if at < len(stop.tokens) else "the end of the text"
    in_body = at < len(stop.tokens) and "IF" not in stop.expected and stop.kind() in _LITERAL_STARTS
    if in_body and stop.tokens[at].span.column > stop.tokens[stop.start].span.column:
        message = f"expected ',' or '.', got {got}"
        hint = "write ',' between the parts of a body"
        return Mistake(message, at, at - 1, hint, [sign(",")], span=stop.after(at - 1))
    hint = "a rule and a fact end with '.'"
    return Mistake(f"expected '.', got {got}", at, at - 1, hint, [sign(".")], span=stop.after(at - 1))


def _next_rule(stop: Stop) -> Mistake | None:
    """The mistake of a ';' or ',' before the next rule, in place of a '.'."""
    bracket = stop.matching(stop.position - 1) if stop.kind(-1) == "RPAREN" else None
    if bracket is None or bracket - 2 < stop.start:
        return None
    before = bracket - 2
    if stop.kind_at(before) not in ("SEMICOLON", "COMMA") or not stop.on_new_line(bracket - 1):
        return None
    return swapped(stop, before, before, ".")
