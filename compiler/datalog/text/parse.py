"""Program text to syntax tree, by an LALR parser; several syntax errors in one run.

The parser reads one item (clause or directive) at a time. At an unexpected token it reports the
mistake behind it (see `mistakes`), and reads the item again with the tokens that the author
probably meant. Without such tokens, it continues after the next `.` or at the next directive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.expected_words import DIRECTIVE_STARTS, ITEM_STARTS
from dbsp.compiler.datalog.text.item_builder import ItemBuilder
from dbsp.compiler.datalog.text.item_parser import ItemParser
from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.compiler.datalog.text.mistakes import Stop, recognise, repaired
from dbsp.compiler.datalog.text.preprocess import Sources, preprocess
from dbsp.compiler.datalog.text.report import Report


def parse(text: str, report: Report, sources: Sources | None = None) -> parsed.ParsedProgram:
    """The syntax tree of a text and of the files it includes; errors as `parse_tokens`."""
    return parse_tokens(preprocess(text, report, sources or Sources()), report)


MAX_REPAIRS = 20
"""The number of mistakes after which the parser gives an item up."""


def parse_tokens(given: Sequence[PlacedToken], report: Report) -> parsed.ParsedProgram:
    """The syntax tree of these tokens; raises CompileError with every syntax error found."""
    tokens = list(given)
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
    tokens: list[PlacedToken], start: int, builder: ItemBuilder, report: Report
) -> tuple[parsed.Item | None, int]:
    """The item that starts at `start`, or None after an error; and the position to continue at.

    Tokens that are a known mistake are replaced in the list.
    """
    end = _plain_fact(tokens, start)
    if end is not None:
        return builder.fact(tokens[start:end]), end
    for _ in range(MAX_REPAIRS):
        if start >= len(tokens):
            return None, start
        found = _read_item(tokens, start, builder)
        if not isinstance(found, Stop):
            return found
        stop = found
        if stop.kind().startswith("BROKEN"):  # the lexer has already reported the error
            break
        # Imported here because most programs have no syntax errors.
        from dbsp.compiler.datalog.text.recognisers import RECOGNISERS

        mistake = recognise(stop, RECOGNISERS)
        span = mistake.span or stop.span(mistake.first, mistake.last)
        report.error(span, mistake.message, mistake.hint, code="syntax")
        if mistake.instead is None:
            return None, _resume(tokens, start, max(stop.position, mistake.last), stop.expected)
        tokens[mistake.first : mistake.last + 1] = repaired(stop, mistake)
    return None, _resume(tokens, start, stop.position, stop.expected)


def _read_item(
    tokens: Sequence[PlacedToken], start: int, builder: ItemBuilder
) -> tuple[parsed.Item | None, int] | Stop:
    """The item that starts at `start` and the position after it, or where the parser stopped."""
    parser = ItemParser()
    position = parser.read(tokens, start)
    if position == len(tokens) or (position > start and tokens[position - 1].type == "DOT"):
        tree = parser.finished()
    elif position > start and _ends_directive(tokens, start, position):
        # A directive has no final dot: it ends where the next item or a line starts.
        tree = parser.copy().finished()
    else:
        tree = None
    if tree is not None:
        return builder.item(tree, position - start), position
    # What the parser accepts takes longer to find than to read an item, so only errors need it.
    return Stop(tokens, start, position, parser.accepted())


_LITERALS = frozenset({"NUMBER", "UNSIGNED", "FLOAT", "STRING"})


def _plain_fact(tokens: Sequence[PlacedToken], start: int) -> int | None:
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


def _resume(tokens: Sequence[PlacedToken], start: int, position: int, expected: frozenset[str]) -> int:
    """Where to continue after an error at `position` in the item from `start`; after `start`."""
    if position > start and "DOT" in expected and _starts_line(tokens, position):
        return position  # a clause without its final dot
    in_directive = tokens[start].type in DIRECTIVE_STARTS
    while position < len(tokens):
        if tokens[position].type in ("DOT", "BROKEN_LINE"):
            return position + 1
        if in_directive and position > start and _on_new_line(tokens, position):
            return position
        if tokens[position].type in DIRECTIVE_STARTS and position > start:
            return position
        position += 1
    return position


def _ends_directive(tokens: Sequence[PlacedToken], start: int, position: int) -> bool:
    starts_item = tokens[position].type in ITEM_STARTS
    in_directive = tokens[start].type in DIRECTIVE_STARTS
    return starts_item or (in_directive and _on_new_line(tokens, position))


def _starts_line(tokens: Sequence[PlacedToken], position: int) -> bool:
    """Whether a token begins a line and may begin an item."""
    fits = position < len(tokens) and tokens[position].type in ITEM_STARTS
    return fits and _on_new_line(tokens, position)


def _on_new_line(tokens: Sequence[PlacedToken], position: int) -> bool:
    previous, current = (tokens[at].span for at in (position - 1, position))
    return current.file != previous.file or current.line > previous.end_line
