"""Program text to tokens: comments dropped, positions kept, every unreadable character reported.

Each preprocessor line becomes one token HASH_LINE; `preprocess` executes them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from lark import Token

from dbsp.compiler.datalog.text.other_languages import directive_hint
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_present

# Reserved words. As in Soufflé none of them can name a relation or a variable.
KEYWORDS = {
    "count": "AGGREGATE",
    "sum": "AGGREGATE",
    "mean": "AGGREGATE",
    "min": "MINMAX",
    "max": "MINMAX",
    "cat": "FUNCTOR",
    "strlen": "FUNCTOR",
    "substr": "FUNCTOR",
    "ord": "FUNCTOR",
    "to_string": "FUNCTOR",
    "to_number": "FUNCTOR",
    "to_unsigned": "FUNCTOR",
    "to_float": "FUNCTOR",
    "itof": "FUNCTOR",
    "itou": "FUNCTOR",
    "ftoi": "FUNCTOR",
    "ftou": "FUNCTOR",
    "utoi": "FUNCTOR",
    "utof": "FUNCTOR",
    "range": "FUNCTOR",
    "autoinc": "FUNCTOR",
    "lor": "LOR",
    "lxor": "LXOR",
    "land": "LAND",
    "bor": "BOR",
    "bxor": "BXOR",
    "band": "BAND",
    "bshl": "SHIFT",
    "bshr": "SHIFT",
    "bshru": "SHIFT",
    "bnot": "COMPLEMENT",
    "lnot": "COMPLEMENT",
    "as": "AS",
    "match": "TEXT_TEST",
    "contains": "TEXT_TEST",
    "stateful": "STATEFUL",
    "true": "TRUE",
    "false": "FALSE",
    "btree": "QUALIFIER",
    "brie": "QUALIFIER",
    "input": "QUALIFIER",
    "output": "QUALIFIER",
    "printsize": "QUALIFIER",
    "inline": "QUALIFIER",
    "no_inline": "QUALIFIER",
    "magic": "QUALIFIER",
    "no_magic": "QUALIFIER",
    "overridable": "QUALIFIER",
    "eqrel": "QUALIFIER",
    "btree_delete": "QUALIFIER",
    "choice-domain": "CHOICE",
    "_": "UNDERSCORE",
    "nil": "NIL",
}

# Reserved words of Soufflé for features that this dialect does not support.
# fmt: off
RESERVED = frozenset({
    "debug_delta", "recursive_iteration_cnt",
})
# fmt: on

DIRECTIVES = {
    ".decl": "DECL",
    ".type": "TYPE",
    ".input": "INPUT",
    ".output": "OUTPUT",
    ".printsize": "PRINTSIZE",
    ".plan": "PLAN",
    ".comp": "COMP",
    ".init": "INIT",
    ".override": "OVERRIDE",
    ".limitsize": "LIMITSIZE",
    ".pragma": "PRAGMA",
    ".functor": "FUNCTOR_DECL",
    ".include": "INCLUDE",
    ".once": "ONCE",
    ".number_type": "NUMBER_TYPE",
    ".symbol_type": "SYMBOL_TYPE",
    ".lattice": "LATTICE",
}

SIGNS = {
    ":-": "IF",
    "<:": "SUBTYPE",
    "<=": "LE",
    ">=": "GE",
    "!=": "NE",
    "=": "EQUALS",
    "<": "LT",
    ">": "GT",
    "!": "NOT",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "^": "CARET",
    "(": "LPAREN",
    ")": "RPAREN",
    "{": "LBRACE",
    "}": "RBRACE",
    "|": "PIPE",
    ",": "COMMA",
    ";": "SEMICOLON",
    ":": "COLON",
    ".": "DOT",
    "[": "LBRACKET",
    "]": "RBRACKET",
    "$": "DOLLAR",
    "@": "AT",
}

_TOKEN = re.compile(
    r"""
      (?P<space>     (?: [ \t\r\n\f\v\ufeff] | \\\r?\n )+ )
    | (?P<comment>   //[^\n]* | /\*.*?\*/ )
    | (?P<open>      /\* )
    | (?P<cpp>       ^\# [ ]* (?: line\b | [0-9] ) [^\n]* )
    | (?P<hash>      \#\#? )
    | (?P<directive> \.[a-z_]+ (?=\s) )
    | (?P<address>   [0-9]+ (?: \.[0-9]+ ){3} )
    | (?P<float>     [0-9]+\.[0-9]+ (?: [eE][+-]?[0-9]+ )? )
    | (?P<number>    (?: 0x[0-9a-fA-F]+ | 0b[01]+ | [0-9]+ ) u? )
    | (?P<string>    "(?: \\. | [^"\\\n] )*" )
    | (?P<quoted>    '[^'\n]*' | “[^”\n]*” | ‘[^’\n]*’ | `[^`\n]*` )
    | (?P<quote>     "[^\n]* )
    | (?P<accented>  [A-Za-z0-9_?]* [^\x00-\x7f\W] \w* )
    | (?P<word>      choice-domain | [A-Za-z_?][A-Za-z0-9_?]* (?: \.[A-Za-z_?][A-Za-z0-9_?]* )* )
    | (?P<branch>    \$ [ \t]* [A-Za-z_?][A-Za-z0-9_?]* (?: \.[A-Za-z_?][A-Za-z0-9_?]* )* )
    | (?P<sign>      :- | <: | <= | >= | != | [=<>!+\-*/%^(){}|,;:.\[\]$@] )
    | (?P<other>     . )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

# A preprocessor line: a backslash at its end continues it, and so does an open comment.
_HASH_LINE = re.compile(
    r""" \# (?: \\\r?\n | /\*.*?\*/ | //[^\n]* | "(?: \\. | [^"\\\n] )*" | [^\n] )* """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "a": "\a", "b": "\b", "f": "\f",
    "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


class PlacedToken(Token):
    """A token with its span: after `#include` the tokens of one program are from several files."""

    __slots__ = ("span",)
    span: SourceSpan

    def moved(self, span: SourceSpan) -> PlacedToken:
        """The same token with another span, for a token that a macro inserts."""
        return placed(self.type, str(self), span, self.start_pos or 0, self.end_pos or 0)


def placed(kind: str, text: str, span: SourceSpan, start: int, end: int) -> PlacedToken:
    """A token at text[start:end] of its file."""
    token = PlacedToken(kind, text, start_pos=start, line=span.line, column=span.column, end_pos=end)
    token.span = span
    return token


class Lexer:
    """Reads the tokens of one text. Token values are the text as written.

    While `skipping` is set, it returns only preprocessor lines and reports no other errors.
    """

    def __init__(self, text: str, report: Report, file: str | None = None) -> None:
        self.text = text
        self.report = report
        self.file = report.file if file is None else file
        self.skipping = False
        self._line_starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def tokens(self, position: int = 0, end: int | None = None) -> Iterator[PlacedToken]:
        """The tokens of text[position:end]. An unreadable part is reported and becomes BROKEN."""
        end = len(self.text) if end is None else end
        while position < end:
            # The last alternative matches any character.
            match = expect_present(_TOKEN.match(self.text, position, end), "a token")
            group, text, start, position = str(match.lastgroup), match.group(), position, match.end()
            if group in ("space", "comment", "cpp"):
                continue  # cpp: the position marks that a C preprocessor writes into its output
            if group == "open":
                hint = "add the missing '*/'"
                self._error(start, start + 2, "this comment is never closed", hint, code="unclosed")
                yield placed("BROKEN_LINE", text, self.span(start, position), start, position)
                return
            if group == "hash" and self._starts_line(start):
                match = expect_present(_HASH_LINE.match(self.text, start), "a line that begins with '#'")
                position = match.end()
                yield placed("HASH_LINE", match.group(), self.span(start, position), start, position)
            elif not self.skipping:
                kind = self._type(group, text, start, position)
                yield placed(kind, text, self.span(start, position), start, position)

    def _starts_line(self, start: int) -> bool:
        line = bisect_right(self._line_starts, start)
        return not self.text[self._line_starts[line - 1] : start].strip()

    def _type(self, group: str, text: str, start: int, end: int) -> str:
        if group == "quote":
            hint = "add the missing '\"' (a line break inside a string is written \\n)"
            self._error(start, start + 1, "this string is never closed", hint, code="unclosed")
            return "BROKEN_LINE"
        if group == "other":
            return "OTHER"  # the parser reports it
        if group == "word":
            if "." in text:
                return "QUALIFIED"
            return "RESERVED" if text in RESERVED else KEYWORDS.get(text, "IDENT")
        if group == "sign":
            return SIGNS[text]
        if group == "directive":
            if text in DIRECTIVES:
                return DIRECTIVES[text]
            message = f"unknown directive '{text}'"
            near = directive_hint(text, DIRECTIVES)
            self._error(start, end, message, near, code="unknown-directive")
            return "BROKEN_DIRECTIVE"
        if group == "number":
            return "UNSIGNED" if text.endswith("u") else "NUMBER"
        if group == "address":
            if any(len(part) > 3 or int(part) > 255 for part in text.split(".")):
                message = f"expected an address of four numbers from 0 to 255, got {text}"
                self._error(start, end, message, code="value-out-of-range")
            return "NUMBER"
        return group.upper()

    def span(self, start: int, end: int) -> SourceSpan:
        """The place of text[start:end]."""
        line = bisect_right(self._line_starts, start)
        end_line = bisect_right(self._line_starts, max(start, end - 1))
        return SourceSpan(
            self.file,
            line,
            start - self._line_starts[line - 1] + 1,
            end_line,
            end - self._line_starts[end_line - 1] + 1,
        )

    def _error(self, start: int, end: int, message: str, hint: str | None = None, *, code: str) -> None:
        self.report.error(self.span(start, end), message, hint, code=code)


def unescape(literal: str) -> tuple[str, str | None]:
    """The value of a string literal given with its quotes, and the first unknown escape in it."""
    bad: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match.group(1) not in _ESCAPES:
            bad.append(match.group())
        return _ESCAPES.get(match.group(1), "")

    value = re.sub(r"\\(.)", replacement, literal[1:-1], flags=re.DOTALL)
    return value, bad[0] if bad else None


def escaped(text: str) -> str:
    """The string literal of a text without control characters."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
