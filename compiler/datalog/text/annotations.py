"""Drop annotations, `@[key = anything]` and `@![...]`: they do not change what a program means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.compiler.datalog.text.report import Report

_CLOSING = {"LBRACKET": "RBRACKET", "LPAREN": "RPAREN", "LBRACE": "RBRACE"}


def without_annotations(tokens: Iterable[PlacedToken], report: Report) -> Iterator[PlacedToken]:
    """The tokens outside of annotations. Brackets within an annotation must match."""
    rest = iter(tokens)
    held: list[PlacedToken] = []  # `@`, or `@` and `!`, which may start an annotation
    for token in rest:
        if held and token.type == "LBRACKET":
            _skip(held[0], token, rest, report)
            held = []
        elif (not held and token.type == "AT") or (
            [held_token.type for held_token in held] == ["AT"] and token.type == "NOT"
        ):
            held.append(token)
        else:
            yield from held
            held = []
            yield token
    yield from held


def _skip(start: PlacedToken, opening: PlacedToken, rest: Iterator[PlacedToken], report: Report) -> None:
    """Consume the tokens up to the bracket that closes the annotation."""
    open_ = [opening]
    for token in rest:
        if token.type in _CLOSING:
            open_.append(token)
        elif token.type in _CLOSING.values():
            if token.type != _CLOSING[open_[-1].type]:
                message = f"'{token}' does not match the '{open_[-1]}' of this annotation"
                report.error(token.span, message, code="syntax")
            while open_ and _CLOSING[open_.pop().type] != token.type:
                pass
            if not open_:
                return
    report.error(start.span, "this annotation is never closed", "add the missing ']'", code="unclosed")
