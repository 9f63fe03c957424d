"""The mistakes in characters, signs and words, mostly habits of other languages."""

from __future__ import annotations

import re

from dbsp.compiler.datalog.text import other_languages as other
from dbsp.compiler.datalog.text.expected_words import expected_words
from dbsp.compiler.datalog.text.lexer import SIGNS, escaped
from dbsp.compiler.datalog.text.mistakes import (
    CLOSING,
    OPENING,
    TERM_ENDS,
    Mistake,
    Stop,
    enclosing_call,
    is_directive,
    sign,
    swapped,
)
from dbsp.errors import shorten

_SIGN_KINDS = frozenset({*SIGNS.values(), "OTHER"}) - {*OPENING, *CLOSING}

# --- characters -----------------------------------------------------------------------------------


def comment(stop: Stop) -> Mistake | None:
    """`% ...`, `# ...` and `-- ...`."""
    dashes = stop.kind() == "MINUS" and stop.kind(1) == "MINUS" and stop.adjacent(stop.position)
    if stop.kind() not in ("PERCENT", "HASH") and not dashes:
        return None
    first, last = stop.position, stop.position + dashes
    message = f"expected '//' before a comment, got '{stop.written(first, last)}'"
    end = stop.line_end(first) - 1
    return Mistake(
        message,
        first,
        end,
        "write // ... to the end of the line, or /* ... */",
        (),
        span=stop.span(first, last),
    )


def text_in_other_quotes(stop: Stop) -> Mistake | None:
    """`'abc'` and the quotes of a word processor."""
    if stop.kind() != "QUOTED":
        return None
    text = stop.text_at(stop.position)
    if text[0] == "`":
        message = f"expected a name without quotes, got {text}"
        return Mistake(message, stop.position, stop.position, f"write {text[1:-1]}", [("IDENT", text[1:-1])])
    right = escaped(text[1:-1])
    message = f"expected a text in double quotes, got {text if len(text) < 40 else text[:36] + '...'}"
    return Mistake(message, stop.position, stop.position, f"write {right}", [("STRING", right)])


def prefixed_text(stop: Stop) -> Mistake | None:
    """`f"..."` of Python."""
    if stop.kind() != "STRING" or stop.kind(-1) != "IDENT" or not stop.adjacent(stop.position - 1):
        return None
    first = stop.position - 1
    message = f"expected a text in double quotes, got the prefix '{stop.text_at(first)}' before it"
    return Mistake(message, first, first, "join texts with cat(a, b)", ())


def name_with_other_letters(stop: Stop) -> Mistake | None:
    if stop.kind() != "ACCENTED":
        return None
    name = stop.text_at(stop.position)
    message = f"expected a name of the letters a to z, digits and '_', got '{name}'"
    return Mistake(message, stop.position, stop.position, None, [("IDENT", name)])


def name_with_hyphen(stop: Stop) -> Mistake | None:
    """`my-rel(x)`."""
    at = stop.position
    named = stop.kind(-1) == stop.kind(1) == "IDENT" and stop.kind() == "MINUS"
    if not named or not (stop.adjacent(at - 1) and stop.adjacent(at)) or "PLUS" in stop.expected:
        return None
    name = f"{stop.text_at(at - 1)}_{stop.text_at(at + 1)}"
    message = f"expected a name of letters, digits and '_', got '{stop.written(at - 1, at + 1)}'"
    return Mistake(message, at - 1, at + 1, f"write {name}", [("IDENT", name)])


def number(stop: Stop) -> Mistake | None:
    """`1_000`, `1e5`, `.5`, `1.` and names that begin with a digit."""
    at = stop.position
    if stop.kind(-1) == "NUMBER" and stop.kind() in ("IDENT", "UNDERSCORE") and stop.adjacent(at - 1):
        text = stop.written(at - 1, at)
        right = text.replace("_", "") if re.fullmatch(r"[0-9_]+", text) else None
        if re.fullmatch(r"[0-9]+[eE][0-9]+", text):
            right = re.sub("[eE]", ".0e", text)
        if right is None:
            return None
        kind = "FLOAT" if "." in right else "NUMBER"
        return Mistake(f"expected a number, got '{text}'", at - 1, at, f"write {right}", [(kind, right)])
    named = "IDENT" in stop.expected and "NUMBER" not in stop.expected and not stop.at_item
    if stop.kind() == "NUMBER" and named:
        last = at + (stop.kind(1) == "IDENT" and stop.adjacent(at))
        message = f"expected a name, got '{stop.written(at, last)}'"
        return Mistake(message, at, last, "a name begins with a letter or '_'", [("IDENT", "x")])
    if stop.kind() != "DOT":
        return None
    if (
        stop.kind(-1) == "NUMBER"
        and stop.kind(1) == "DOT"
        and stop.adjacent(at)
        and stop.opening() is not None
    ):
        last = at + 1 + (stop.kind(2) == "NUMBER")
        message = f"expected a number, got '{stop.written(at - 1, last)}'"
        return Mistake(message, at - 1, last, "write x = range(1, 6) for 1 to 5", [("NUMBER", "1")])
    if stop.kind(1) == "NUMBER" and stop.adjacent(at) and "NUMBER" in stop.expected:
        text = stop.written(at, at + 1)
        return Mistake(f"expected a number, got '{text}'", at, at + 1, f"write 0{text}", [("FLOAT", "0.5")])
    if stop.kind(-1) == "FLOAT" and stop.kind(1) == "NUMBER" and stop.adjacent(at - 1) and stop.adjacent(at):
        message = f"expected a number, got '{stop.written(at - 1, at + 1)}'"
        return Mistake(message, at - 1, at + 1, "an address has four numbers: 127.0.0.1", [("NUMBER", "0")])
    inside = stop.kind(1) in ("RPAREN", "COMMA") and stop.opening() is not None
    if inside and stop.kind(-1) == "NUMBER" and stop.adjacent(at - 1):
        text = stop.written(at - 1, at)
        return Mistake(f"expected a number, got '{text}'", at - 1, at, f"write {text}0", [("FLOAT", "1.0")])
    return None


# --- signs and words ------------------------------------------------------------------------------


def _signs(stop: Stop) -> tuple[int, int]:
    """The positions of the first and after the last of the signs written together here."""
    first, end = stop.position, stop.position + 1
    while first > stop.start and stop.kind_at(first - 1) in _SIGN_KINDS and stop.adjacent(first - 1):
        first -= 1
    while stop.adjacent(end - 1) and stop.kind_at(end) in _SIGN_KINDS:
        end += 1
    return first, end


def semicolon_in_brackets(stop: Stop) -> Mistake | None:
    """`r(1; 2)`"""
    if stop.kind() != "SEMICOLON" or "COMMA" not in stop.expected or stop.opening() is None:
        return None
    return swapped(stop, stop.position, stop.position, ",")


def sign_of_another_language(stop: Stop) -> Mistake | None:
    """`==`, `<>`, `&&`, `\\+`, and the signs of a rule."""
    if stop.kind() not in _SIGN_KINDS or is_directive(stop) or stop.at_item:
        return None
    start, end = _signs(stop)
    after_head = "IF" in stop.expected
    for first in range(start, stop.position + 1):
        for last in range(end - 1, stop.position - 1, -1):
            text = stop.written(first, last)
            if text in other.REVERSED_SIGNS and "COMMA" in stop.expected:
                return _reversed(stop, first, last, after_head)
            if text in other.REVERSED_SIGNS and "NOT" not in stop.expected:
                return swapped(stop, first, last, ",")
            right = other.RULE_SIGNS.get(text) if after_head else None
            right = right or other.BODY_SIGNS.get(text)
            if right is not None:
                return swapped(stop, first, last, right)
    return None


def _reversed(stop: Stop, first: int, last: int, after_head: bool) -> Mistake:
    text = stop.written(first, last)
    if after_head:
        return Mistake(f"expected ':-', got '{text}'", first, last, "write the head first: head :- body.")
    message = f"expected {expected_words(stop.expected)}, got '{text}'"
    return Mistake(message, first, last, "write one rule for each case, with the condition in its body")


def rule_with_subsumption_sign(stop: Stop) -> Mistake | None:
    """`r(x) <= e(x, _).`, which begins like a subsumption."""
    if stop.expected != {"IF"}:
        return None
    places = [place for place in range(stop.start, stop.position) if stop.kind_at(place) == "LE"]
    if len(places) != 1 or stop.text_at(stop.start) == stop.text_at(places[0] + 1):
        return None
    return swapped(stop, places[0], places[0], ":-")


def negation(stop: Stop) -> Mistake | None:
    """`not p(x)`, `not(p(x))` and `-p(x)`."""
    at = stop.position
    negated = stop.kind() in ("IDENT", "QUALIFIED", "TEXT_TEST") and "DOT" not in stop.expected
    if negated and stop.word(-1) == "not" and stop.kind(-1) == "IDENT" and not is_directive(stop):
        hint = f"write !{stop.text_at(at)}(...)" if stop.kind(1) == "LPAREN" else None
        return swapped(stop, at - 1, at - 1, "!", hint)
    call = enclosing_call(stop)
    if call is not None and stop.text_at(call).lower() == "not" and stop.text_at(call) not in stop.relations:
        hint = f"write !{stop.text_at(at - 1)}(...)" if stop.kind() == "LPAREN" else "write !( ... )"
        return Mistake(f"expected '!', got '{stop.text_at(call)}'", call, call, hint, [sign("!")])
    atom = stop.kind() == "LPAREN" and stop.text_at(at - 1) in stop.relations
    if atom and stop.kind(-2) == "MINUS":
        return swapped(stop, at - 2, at - 2, "!", f"write !{stop.text_at(at - 1)}(...)")
    return None


def query_sign(stop: Stop) -> Mistake | None:
    """`?- p(x)` as a question."""
    first = stop.position - 3
    if stop.kind() != "LPAREN" or stop.kind(-2) != "MINUS" or stop.text_at(first) != "?":
        return None
    return Mistake("expected an atom or a condition, got '?-'", first, first + 1, None, ())


def word(stop: Stop) -> Mistake | None:
    """`and`, `or`, `is`, `if`, `like` and other words between or before the parts of a body."""
    if is_directive(stop) or stop.begins_line:
        return None
    at, text = stop.position, stop.word()
    previous = stop.word(-1) if stop.kind(-1) == "IDENT" else ""
    operator_expected = stop.kind(-1) in TERM_ENDS
    if stop.kind() == "IDENT" and operator_expected:
        if text in other.RULE_WORDS and "IF" in stop.expected:
            return swapped(stop, at, at, ":-")
        if text == "is" and stop.word(1) == "not":
            return swapped(stop, at, at + 1, "!=")
        if text in other.WORDS and _fits(stop, other.WORDS[text]):
            return swapped(stop, at, at, other.WORDS[text])
    for place, phrase in ((at, text if operator_expected else ""), (at - 1, previous)):
        if phrase in other.PHRASES and stop.kind_at(place) == "IDENT":
            words = f"expected {expected_words(stop.expected)}, got '{stop.text_at(at)}'"
            message = words if place == at else f"unexpected '{stop.text_at(place)}'"
            return Mistake(message, place, place, other.PHRASES[phrase])
    return None


def _fits(stop: Stop, right: str) -> bool:
    kind = SIGNS[right]
    return kind in stop.expected or (kind in ("COMMA", "SEMICOLON") and "EQUALS" in stop.expected)


def unexpected_character(stop: Stop) -> Mistake | None:
    if stop.kind() != "OTHER":
        return None
    text = stop.text_at(stop.position)
    hint = {
        "'": 'write a text in double quotes: "..."',
        "\xa0": "write an ordinary space instead of the no-break space",
        "\\": "a negation is '!', a set difference is !relation(x)",
    }.get(text)
    return Mistake(f"unexpected character {shorten(text)}", stop.position, stop.position, hint, ())
