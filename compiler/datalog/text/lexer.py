"""Program text to tokens: comments dropped, positions kept, every unreadable character reported.

Each preprocessor line becomes one token HASH_LINE; `preprocess` executes them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

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

_WORDS = KEYWORDS | dict.fromkeys(RESERVED, "RESERVED")
"""The types of the words that are not names."""

# White space, and a token or a comment, of which there is none at the end of the text.
_TOKEN = re.compile(
    r"""
    (?: [ \t\r\n\f\v\ufeff] | \\\r?\n )*
    (?: (?P<comment>   //[^\n]* | /\*.*?\*/ )
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
    )?
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


class TextLines:
    """The name of a text, and where its lines start."""

    __slots__ = ("_starts", "file")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def start(self, position: int) -> int:
        """The position at which the line of a position starts."""
        return self._starts[bisect_right(self._starts, position) - 1]

    def span(self, start: int, end: int) -> SourceSpan:
        """The place of text[start:end]."""
        starts = self._starts
        line = bisect_right(starts, start)
        end_line = bisect_right(starts, max(start, end - 1), line - 1)
        return SourceSpan(
            self.file, line, start - starts[line - 1] + 1, end_line, end - starts[end_line - 1] + 1
        )


class PlacedToken(str):
    """A token at text[start:end] of its file: after `#include` a program has several files.

    A token that a macro inserts has the span of the use of the macro. The span of another token is
    computed when it is read, since the parser reads few of them.
    """

    __slots__ = ("_lines", "_span", "end", "start", "type")
    type: str
    start: int
    end: int
    _lines: TextLines | None
    _span: SourceSpan | None

    @property
    def span(self) -> SourceSpan:
        """The place of the token."""
        if self._span is None:
            lines = expect_present(self._lines, "the text of a token")
            self._span = lines.span(self.start, self.end)
        return self._span

    def to(self, last: PlacedToken) -> SourceSpan:
        """The place from the start of this token to the end of `last` (see `SourceSpan.to`)."""
        lines = self._lines
        if lines is not None and lines is last._lines and last.end >= self.end:
            return lines.span(self.start, last.end)
        return self.span.to(last.span)

    def moved(self, span: SourceSpan) -> PlacedToken:
        """The same token with another span, for a token that a macro inserts."""
        return placed(self.type, str(self), span, self.start, self.end)


def placed(kind: str, text: str, span: SourceSpan, start: int, end: int) -> PlacedToken:
    """A token of text[start:end] of its file with another place."""
    token = PlacedToken(text)
    token.type = kind
    token.start = start
    token.end = end
    token._lines = None
    token._span = span
    return token


class Lexer:
    """Reads the tokens of one text. Token values are the text as written.

    While `skipping` is set, it returns only preprocessor lines and reports no other errors.
    """

    def __init__(self, text: str, report: Report, file: str | None = None) -> None:
        self.text = text
        self.report = report
        self.skipping = False
        self._lines = TextLines(report.file if file is None else file, text)

    def span(self, start: int, end: int) -> SourceSpan:
        """The place of text[start:end]."""
        return self._lines.span(start, end)

    def tokens(self, position: int = 0, end: int | None = None) -> Iterator[PlacedToken]:
        """The tokens of text[position:end]. An unreadable part is reported and becomes BROKEN."""
        text, lines = self.text, self._lines
        end = len(text) if end is None else end
        # The last alternative matches any character, so only the end has no group.
        while (match := _TOKEN.match(text, position, end)) and (group := match.lastgroup):
            start, position = match.span(group)
            if group == "comment" or group == "cpp":
                continue  # cpp: the position marks that a C preprocessor writes into its output
            if group == "hash" and not text[lines.start(start) : start].strip():
                line = expect_present(_HASH_LINE.match(text, start), "a line that begins with '#'")
                kind, position = "HASH_LINE", line.end()
            elif group == "open":
                hint = "add the missing '*/'"
                self._error(start, start + 2, "this comment is never closed", hint, code="unclosed")
                kind, end = "BROKEN_LINE", position
            elif self.skipping:
                continue
            elif group == "word":
                word = match[group]
                kind = _WORDS.get(word) or ("QUALIFIED" if "." in word else "IDENT")
            elif group == "sign":
                kind = SIGNS[match[group]]
            else:
                kind = self._type(group, match[group], start, position)
            token = PlacedToken(text[start:position])
            token.type = kind
            token.start = start
            token.end = position
            token._lines = lines
            token._span = None
            yield token

    def _type(self, group: str, text: str, start: int, end: int) -> str:
        if group == "quote":
            hint = "add the missing '\"' (a line break inside a string is written \\n)"
            self._error(start, start + 1, "this string is never closed", hint, code="unclosed")
            return "BROKEN_LINE"
        if group == "other":
            return "OTHER"  # the parser reports it
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
