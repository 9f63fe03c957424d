"""Program text to syntax tree, by Lark's LALR parser; several syntax errors in one run.

The parser reads one item (clause or directive) at a time. After an unexpected token it reports the
error and continues after the next `.` or at the next directive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedToken

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.grammar_table import grammar
from dbsp.compiler.datalog.text.item_builder import ItemBuilder
from dbsp.compiler.datalog.text.lexer import DIRECTIVES, KEYWORDS, SIGNS
from dbsp.compiler.datalog.text.preprocess import Sources, preprocess
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import did_you_mean


def parse(text: str, report: Report, sources: Sources | None = None) -> parsed.ParsedProgram:
    """The syntax tree of a text and of the files it includes; errors as `parse_tokens`."""
    return parse_tokens(preprocess(text, report, sources or Sources()), report)


def parse_tokens(tokens: Sequence[Token], report: Report) -> parsed.ParsedProgram:
    """The syntax tree of these tokens; raises CompileError with every syntax error found."""
    builder = ItemBuilder(report)
    items: list[parsed.Item] = []
    open_: list[tuple[parsed.Component, list[parsed.Item]]] = []  # components not closed yet
    position = 0
    while position < len(tokens):
        item, position = _parse_item(tokens, position, builder, report)
        if isinstance(item, parsed.Component):
            open_.append((item, items))
            items = []
        elif isinstance(item, parsed.ComponentEnd) and open_:
            component, outer = open_.pop()
            items = [*outer, replace(component, items=tuple(items))]
        elif isinstance(item, parsed.ComponentEnd):
            if report.error_count:
                continue  # it may close a .comp that has an error
            report.error(item.span, "this '}' does not close a .comp", code="syntax")
        elif item is not None:
            items.append(item)
    if open_ and not report.error_count:
        hint = "add the missing '}'"
        report.error(open_[-1][0].span, "this component is never closed", hint, code="unclosed")
    report.raise_errors()
    return parsed.ParsedProgram(tuple(items))


def _parse_item(
    tokens: Sequence[Token], start: int, builder: ItemBuilder, report: Report
) -> tuple[parsed.Item | None, int]:
    """The item that starts at `start`, or None after an error; and the position to continue at."""
    end = _plain_fact(tokens, start)
    if end is not None:
        return builder.fact(tokens[start:end]), end
    parser: Any = grammar().parse_interactive("")
    position = start
    try:
        while position < len(tokens):
            parser.feed_token(tokens[position])
            position += 1
            if tokens[position - 1].type == "DOT":
                break
        return builder.item(parser.feed_eof(tokens[position - 1])), position
    except UnexpectedToken:
        expected = parser.accepts()
    if "$END" in expected and position < len(tokens) and _ends_directive(tokens, start, position):
        # A directive has no final dot: it ends where the next item or a line starts.
        return builder.item(parser.feed_eof(tokens[position - 1])), position
    _report_unexpected(tokens, position, expected, report)
    return None, _resume(tokens, start, position, expected)


_LITERALS = frozenset({"NUMBER", "UNSIGNED", "FLOAT", "STRING"})


def _plain_fact(tokens: Sequence[Token], start: int) -> int | None:
    """The position after a fact whose arguments are literals, if there is one at `start`.

    A program may contain many thousands of such facts; reading them without the grammar is faster.
    """
    if (
        tokens[start].type not in ("IDENT", "QUALIFIED")
        or start + 1 >= len(tokens)
        or tokens[start + 1].type != "LPAREN"
    ):
        return None
    position = start + 2
    while position + 2 < len(tokens) and tokens[position].type in _LITERALS:
        after = tokens[position + 1].type
        if after == "RPAREN":
            return position + 3 if tokens[position + 2].type == "DOT" else None
        if after != "COMMA":
            return None
        position += 2
    return None


_DIRECTIVE_STARTS = frozenset({*DIRECTIVES.values(), "BROKEN_DIRECTIVE"})
_ITEM_STARTS = _DIRECTIVE_STARTS | {"IDENT", "QUALIFIED", "RBRACE"}


def _resume(tokens: Sequence[Token], start: int, position: int, expected: set[str]) -> int:
    """Where to continue after an error at `position` in the item from `start`; after `start`."""
    if position > start and "DOT" in expected and _starts_line(tokens, position):
        return position  # a clause without its final dot
    in_directive = tokens[start].type in _DIRECTIVE_STARTS
    while position < len(tokens):
        if tokens[position].type in ("DOT", "BROKEN_LINE"):
            return position + 1
        if in_directive and position > start and _on_new_line(tokens, position):
            return position
        if tokens[position].type in _DIRECTIVE_STARTS and position > start:
            return position
        position += 1
    return position


def _ends_directive(tokens: Sequence[Token], start: int, position: int) -> bool:
    starts_item = tokens[position].type in _ITEM_STARTS
    in_directive = tokens[start].type in _DIRECTIVE_STARTS
    return starts_item or (in_directive and _on_new_line(tokens, position))


def _starts_line(tokens: Sequence[Token], position: int) -> bool:
    """Whether a token begins a line and may begin an item."""
    fits = position < len(tokens) and tokens[position].type in _ITEM_STARTS
    return fits and _on_new_line(tokens, position)


def _on_new_line(tokens: Sequence[Token], position: int) -> bool:
    previous, current = (ItemBuilder.span_of(tokens[at]) for at in (position - 1, position))
    return current.file != previous.file or current.line > previous.end_line


# --- the expected tokens in words ----------------------------------------------------------------

# Groups of tokens that the message names together when all of them are allowed.
_GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (_ITEM_STARTS - {"BROKEN_DIRECTIVE", "QUALIFIED", "INCLUDE", "ONCE"}, "a rule, a fact or a directive"),
    (frozenset({"IDENT", "NUMBER", "STRING", "LPAREN", "NOT", "TRUE", "FALSE"}), "an atom or a condition"),
    (frozenset({"IDENT", "NUMBER", "STRING", "LPAREN", "UNDERSCORE"}), "a term"),
    (frozenset({"EQUALS", "NE", "LT", "LE", "GT", "GE"}), "a comparison"),
    (frozenset({"LOR"}), "an operator"),
    (frozenset({"STRING", "NUMBER", "TRUE"}), "a value"),
)
_TERM_STARTS = frozenset(
    {"IDENT", "QUALIFIED", "NUMBER", "UNSIGNED", "FLOAT", "STRING", "UNDERSCORE", "LPAREN", "MINUS"}
    | {"FUNCTOR", "MINMAX", "AGGREGATE", "COMPLEMENT", "AS", "LBRACKET", "NIL", "BRANCH", "AT", "DOLLAR"}
)
_COVERED = {
    "a rule, a fact or a directive": _ITEM_STARTS,
    "an atom or a condition": _TERM_STARTS | {"NOT", "TRUE", "FALSE", "TEXT_TEST"},
    "a term": _TERM_STARTS,
    "a comparison": frozenset({"EQUALS", "NE", "LT", "LE", "GT", "GE"}),
    "an operator": frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET"})
    | {"LOR", "LXOR", "LAND", "BOR", "BXOR", "BAND", "SHIFT"},
    "a value": frozenset({"STRING", "NUMBER", "TRUE", "FALSE", "IDENT"}),
}
_WORDS = {kind: f"'{sign}'" for sign, kind in SIGNS.items()} | {
    "IDENT": "a name",
    "QUALIFIED": "a qualified name",
    "NUMBER": "a number",
    "BRANCH": "a branch such as '$Leaf'",
    "NIL": "'nil'",
    "STRING": "a string",
    "QUALIFIER": "a qualifier such as 'btree'",
    "CHOICE": "'choice-domain'",
    "$END": "the end of the text",
}


def _expected_words(expected: set[str]) -> str:
    words: list[str] = []
    left = set(expected)
    if "IDENT" in left:
        left.discard("QUALIFIED")
    if "IF" in left:
        left.discard("LE")  # subsumption is rare
    if "QUALIFIER" in left:
        left.discard("CHOICE")
    for needed, name in _GROUPS:
        if needed <= left:
            words.append(name)
            left -= _COVERED[name]
    words.extend(_WORDS.get(kind, kind.lower()) for kind in sorted(left - {"$END", "QUALIFIER", "CHOICE"}))
    if not words:
        words = [_WORDS[kind] for kind in sorted(left)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _report_unexpected(tokens: Sequence[Token], position: int, expected: set[str], report: Report) -> None:
    words = _expected_words(expected)
    if position >= len(tokens):
        last = ItemBuilder.span_of(tokens[-1])
        span = replace(last, line=last.end_line, column=last.end_column, end_column=last.end_column + 1)
        hint = "a clause ends with '.'" if "DOT" in expected else None
        report.error(span, f"expected {words}, got the end of the text", hint, code="syntax")
        return
    found = tokens[position]
    if not found.type.startswith("BROKEN"):  # the lexer has already reported the error
        hint = _hint(tokens, position, expected)
        message = f"expected {words}, got '{found}'"
        report.error(ItemBuilder.span_of(found), message, hint, code="syntax")


def _hint(tokens: Sequence[Token], position: int, expected: set[str]) -> str | None:
    found = tokens[position]
    before = tokens[position - 1] if position else None
    if found.type == "AT" and before is not None and before.type == "AT":
        return "user-defined aggregates are not supported"
    if (foreign := _foreign_hint(tokens, position, expected)) is not None:
        return foreign
    if found.type == "RESERVED":
        return f"'{found}' is a reserved word of a feature that is not supported"
    if found.type == "QUALIFIED" and "IDENT" in expected:
        return "a name with dots refers to a relation or a type in an instance of a component"
    if str(found) in KEYWORDS and "IDENT" in expected and found.type != "UNDERSCORE":
        return f"'{found}' is a reserved word and cannot be a name"
    if before is not None and before.type in ("AGGREGATE", "MINMAX", "FUNCTOR", "TEXT_TEST", "AS"):
        return f"'{before}' is a reserved word and cannot be a name"
    if before is not None and "DOT" in expected and _on_new_line(tokens, position):
        return f"is a '.' missing at the end of line {ItemBuilder.span_of(before).end_line}?"
    if "IF" in expected and (found.type == "LE" or expected == {"IF"}):
        return "write a subsumption as 'dominated <= dominating :- body.', where both are atoms"
    if "IF" in expected:
        return "write a fact as 'head.', a rule as 'head :- body.'"
    return None


_FUNCTIONS = sorted(name for name, kind in KEYWORDS.items() if kind in ("FUNCTOR", "TEXT_TEST"))
_AGGREGATES = ("count", "sum", "mean", "min", "max")


def _foreign_hint(tokens: Sequence[Token], position: int, expected: set[str]) -> str | None:
    """Return how to write what other languages write as the tokens at `position`."""
    found, before = tokens[position], tokens[position - 1] if position else None
    if before is None or before.type.startswith("BROKEN"):
        return None
    word = str(found).lower()
    if found.type == "PERCENT" and _on_new_line(tokens, position):
        return "write a comment as // ... or /* ... */"
    if found.type == "EQUALS" and before.type == "EQUALS":
        return "write an equality with one '='"
    if str(found) == "|" and "SEMICOLON" in expected:
        return "write ';' instead of '||'"
    if found.type == "IDENT" and word in ("and", "or") and not _on_new_line(tokens, position):
        return f"write '{',' if word == 'and' else ';'}' instead of '{found}'"
    if found.type == "IDENT" and before.type == "IDENT" and str(before).lower() == "not":
        return f"write a negation as '!{found}(...)'"
    if found.type == "COLON" and str(before).lower() in _AGGREGATES:
        return f"aggregates are written in lower case: '{str(before).lower()} : ...'"
    if found.type != "LPAREN" or before.type != "IDENT" or "PLUS" not in expected:
        return None
    if position > 1 and str(tokens[position - 2]) == "count":
        return f"write a count as 'count : {before}(...)'"
    known = did_you_mean(str(before), _FUNCTIONS)
    return f"'{before}' is not a function; " + (known or f"the functions are {', '.join(_FUNCTIONS)}")
