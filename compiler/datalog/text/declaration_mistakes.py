"""The mistakes in declarations and directives."""

from __future__ import annotations

from dbsp.compiler.datalog.text.mistakes import Mistake, Stop, is_directive, sign
from dbsp.compiler.datalog.text.other_languages import is_type

_NAMES = ("IDENT", "QUALIFIED")


def end_of_directive(stop: Stop) -> Mistake | None:
    """`.decl r(x: number).`"""
    if not is_directive(stop) or stop.kind() not in ("DOT", "SEMICOLON") or stop.on_new_line(stop.position):
        return None
    if stop.kind(-1) not in ("RPAREN", *_NAMES, "QUALIFIER", "STRING"):
        return None
    if stop.opening() is not None:
        return None
    name, text = stop.text_at(stop.start), stop.text_at(stop.position)
    if name == ".decl" and "LPAREN" in stop.expected:
        return None
    message = f"expected the end of the line after {name}, got '{text}'"
    return Mistake(message, stop.position, stop.position, f"remove the '{text}'", ())


def column(stop: Stop) -> Mistake | None:
    """`.decl r(x, y)`, `.decl r(number x)` and `.decl r(x number)`."""
    at = stop.position
    if stop.kind_at(stop.start) not in ("DECL", "TYPE") or stop.kind(-1) not in _NAMES:
        return None
    if stop.expected != {"COLON"}:
        return None
    name = stop.text_at(at - 1)
    if stop.kind() in _NAMES:
        found = stop.text_at(at)
        first, second = (found, name) if is_type(name) and not is_type(found) else (name, found)
        message = f"expected '{first}: {second}', got '{name} {found}'"
        instead = [("IDENT", first), sign(":"), ("IDENT", second)]
        return Mistake(message, at - 1, at, None, instead)
    if stop.kind() == "SUBTYPE":
        return Mistake("expected ':', got '<:'", at, at, f"write {name}: number", [sign(":")])
    right = f"x: {name}" if is_type(name) else f"{name}: number"
    what = f"a name for the column of type '{name}'" if is_type(name) else f"the type of column '{name}'"
    message = f"expected {what}, got '{stop.text_at(at)}'"
    hint = f"write {right}" + ("" if is_type(name) else f", or {name}: symbol for a text")
    instead = [("IDENT", name), sign(":"), ("IDENT", name if is_type(name) else "number")]
    return Mistake(message, at - 1, at - 1, hint, instead)


def columns(stop: Stop) -> Mistake | None:
    """`.decl r` without columns."""
    if stop.kind_at(stop.start) != "DECL" or stop.kind(-1) != "IDENT" or "LPAREN" not in stop.expected:
        return None
    if not stop.begins_line and stop.kind() not in ("DOT", "SEMICOLON", "SLASH"):
        return None
    name = stop.text_at(stop.position - 1)
    dot = stop.kind() in ("DOT", "SEMICOLON") and not stop.begins_line
    got = f"'{stop.text_at(stop.position)}'"
    if stop.begins_line:
        got = "the end of the line" if stop.position < len(stop.tokens) else "the end of the text"
    message = f"expected the columns of '{name}', got {got}"
    hint = f"write .decl {name}(x: number, y: symbol), or .decl {name}() without columns"
    at = stop.position
    return Mistake(message, at, at - 1 + dot, hint, [sign("("), sign(")")], span=stop.after(at - 1))


def type_form(stop: Stop) -> Mistake | None:
    """`.type City : symbol` and `.type P = {x: number}`."""
    if stop.kind_at(stop.start) != "TYPE":
        return None
    at, name = stop.position, stop.text_at(stop.start + 1)
    if stop.kind() in ("COLON", "LT") and stop.kind(-1) == "IDENT" and at == stop.start + 2:
        message = f"expected '<:', got '{stop.text_at(at)}'"
        return Mistake(message, at, at, f"write .type {name} <: symbol", [sign("<:")])
    if stop.kind() == "LBRACE" and stop.kind(-1) == "EQUALS":
        hint = f"write a record as .type {name} = [x: number, y: symbol]"
        return Mistake("expected '[', got '{'", at, at, hint)
    return None
