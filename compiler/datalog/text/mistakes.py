"""Recognise the mistake behind a syntax error: a slip, or a habit of another language.

The parser stops at a token that the grammar does not accept. Each recogniser looks at the tokens
around it. The first one that knows the mistake returns the message, the hint, and the tokens that
the author probably meant: the parser continues with those, so a clause with two mistakes has two
messages, and a mistake has one. A mistake that no recogniser knows is reported as the tokens that
the grammar expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

from dbsp.compiler.datalog.text.expected_words import expected_words
from dbsp.compiler.datalog.text.lexer import DIRECTIVES, KEYWORDS, SIGNS, PlacedToken, placed
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass

OPENING = {"RPAREN": "LPAREN", "RBRACE": "LBRACE", "RBRACKET": "LBRACKET"}
CLOSING = {opening: closing for closing, opening in OPENING.items()}
TERM_ENDS = frozenset({"IDENT", "NUMBER", "UNSIGNED", "FLOAT", "STRING", "UNDERSCORE", "NIL", *OPENING})


@dataclass(frozen=True)
class Stop:
    """The place at which the parser stopped: the token at `position` is not one of `expected`.

    The item begins at `start`. At the end of the text, `position` is the number of tokens.
    """

    tokens: Sequence[PlacedToken]
    start: int
    position: int
    expected: frozenset[str]

    def kind(self, offset: int = 0) -> str:
        """The type of the token at a distance from the unexpected one; "" outside of the text."""
        return self.kind_at(self.position + offset)

    def kind_at(self, place: int) -> str:
        return self.tokens[place].type if 0 <= place < len(self.tokens) else ""

    def word(self, offset: int = 0) -> str:
        """The text of a token in lower case."""
        return self.text_at(self.position + offset).lower()

    def text_at(self, place: int) -> str:
        return str(self.tokens[place]) if 0 <= place < len(self.tokens) else ""

    @property
    def at_item(self) -> bool:
        """Whether the unexpected token is the first of an item."""
        return self.position == self.start

    @property
    def begins_line(self) -> bool:
        return self.position >= len(self.tokens) or self.on_new_line(self.position)

    def on_new_line(self, place: int) -> bool:
        """Whether a token begins a line."""
        if place == 0:
            return True
        previous, current = self.tokens[place - 1].span, self.tokens[place].span
        return current.file != previous.file or current.line > previous.end_line

    def adjacent(self, place: int) -> bool:
        """Whether nothing is between the token at `place` and the token after it."""
        if not 0 <= place < len(self.tokens) - 1:
            return False
        first, second = self.tokens[place].span, self.tokens[place + 1].span
        return (first.file, first.end_line, first.end_column) == (second.file, second.line, second.column)

    def written(self, first: int, last: int) -> str:
        """The tokens from `first` to `last` as written, in one line."""
        parts = [
            str(self.tokens[place]) + ("" if place == last or self.adjacent(place) else " ")
            for place in range(first, last + 1)
        ]
        return "".join(parts)

    def line_end(self, place: int) -> int:
        """The position after the last token on the line of a token."""
        place += 1
        while place < len(self.tokens) and not self.on_new_line(place):
            place += 1
        return place

    def opening(self, kinds: Sequence[str] = tuple(CLOSING)) -> int | None:
        """The position of the innermost bracket of the item that is open here."""
        open_: list[int] = []
        for place in range(self.start, self.position):
            kind = self.tokens[place].type
            if kind in CLOSING:
                open_.append(place)
            elif kind in OPENING and open_:
                open_.pop()
        return next((place for place in reversed(open_) if self.tokens[place].type in kinds), None)

    def matching(self, place: int) -> int | None:
        """The position of the bracket that the closing bracket at `place` closes."""
        depth = 0
        for before in range(place, self.start - 1, -1):
            kind = self.tokens[before].type
            depth += (kind in OPENING) - (kind in CLOSING)
            if depth == 0:
                return before
        return None

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of all `.decl`."""
        found: set[str] = set()
        for place, token in enumerate(self.tokens):
            if token.type == "DECL":
                while self.kind_at(place + 1) == "IDENT":
                    found.add(self.text_at(place + 1))
                    place += 2 if self.kind_at(place + 2) == "COMMA" else 1
        return frozenset(found)

    def span(self, first: int, last: int) -> SourceSpan:
        return self.tokens[first].span.to(self.tokens[last].span)

    def after(self, place: int) -> SourceSpan:
        """The place directly after a token."""
        span = self.tokens[place].span
        return replace(span, line=span.end_line, column=span.end_column, end_column=span.end_column + 1)


@dataclass(frozen=True, slots=True)
class Mistake:
    """The message about the tokens from `first` to `last`.

    `instead` are the tokens that replace these, as types and texts, with which the parser
    continues; None: it continues after the item.
    """

    message: str
    first: int
    last: int
    hint: str | None = None
    instead: Sequence[tuple[str, str]] | None = None
    span: SourceSpan | None = field(default=None, kw_only=True)
    """The place to show, if it is not that of the tokens."""


Recogniser = Callable[[Stop], Mistake | None]


def sign(text: str) -> tuple[str, str]:
    """The type and text of a sign, for `Mistake.instead`."""
    return SIGNS[text], text


def swapped(stop: Stop, first: int, last: int, right: str, hint: str | None = None) -> Mistake:
    """The mistake of another sign or word in place of the sign `right`."""
    message = f"expected '{right}', got '{stop.written(first, last)}'"
    return Mistake(message, first, last, hint, [sign(right)])


def recognise(stop: Stop, recognisers: Sequence[Recogniser]) -> Mistake:
    """The mistake at a place where the parser stopped."""
    for recogniser in recognisers:
        found = recogniser(stop)
        if found is not None:
            return found
    words = expected_words(stop.expected)
    if stop.position >= len(stop.tokens):
        message = f"expected {words}, got the end of the text"
        return Mistake(message, stop.position, stop.position, span=stop.after(stop.position - 1))
    found_text = stop.text_at(stop.position)
    return Mistake(f"expected {words}, got '{found_text}'", stop.position, stop.position, _hint(stop))


def repaired(stop: Stop, mistake: Mistake) -> Iterator[PlacedToken]:
    """The tokens that replace those of a mistake."""
    at = stop.tokens[min(mistake.first, len(stop.tokens) - 1)]
    for kind, text in mistake.instead or ():
        yield placed(kind, text, mistake.span or at.span, at.start, at.end)


def _hint(stop: Stop) -> str | None:
    """The hint for a mistake that no recogniser knows."""
    found, before = stop.kind(), stop.kind(-1)
    text = stop.text_at(stop.position)
    if found == "AT" and before == "AT":
        return "user-defined aggregates are not supported"
    if found == "RESERVED":
        return f"'{text}' is a reserved word of a feature that is not supported"
    if found == "QUALIFIED" and "IDENT" in stop.expected:
        return "a name with dots refers to a relation or a type in an instance of a component"
    if text in KEYWORDS and "IDENT" in stop.expected and found != "UNDERSCORE":
        return f"'{text}' is a reserved word and cannot be a name"
    if before in ("AGGREGATE", "MINMAX", "FUNCTOR", "TEXT_TEST", "AS"):
        return f"'{stop.text_at(stop.position - 1)}' is a reserved word and cannot be a name"
    if "IF" in stop.expected and (found == "LE" or stop.expected == {"IF"}):
        return "write a subsumption as 'dominated <= dominating :- body.', where both are atoms"
    if "IF" in stop.expected:
        return "write a fact as 'head.', a rule as 'head :- body.'"
    return None


def is_directive(stop: Stop) -> bool:
    """Whether the item is a directive."""
    return stop.kind_at(stop.start) in DIRECTIVES.values()


def enclosing_call(stop: Stop) -> int | None:
    """The position of the name before the innermost open bracket."""
    bracket = stop.opening(("LPAREN",))
    return bracket - 1 if bracket is not None and stop.kind_at(bracket - 1) == "IDENT" else None
