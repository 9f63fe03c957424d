"""Documents as objects of `rich`, for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from dbsp.display.document import Block, Code, Document, Line, Note, Picture, Section, Style, Table, Tree

_STYLES = {
    Style.PLAIN: "",
    Style.MUTED: "dim",
    Style.STRONG: "bold",
    Style.ADDED: "green",
    Style.REMOVED: "red",
    Style.KEYWORD: "magenta",
    Style.NAME: "blue",
    Style.STRING: "yellow",
    Style.NUMBER: "cyan",
    Style.COMMENT: "dim italic",
}


def to_rich(document: Document) -> Group:
    """Return a document as a group of tables, trees and texts."""
    return Group(*([_line(document.title)] if document.title else []), *_blocks(document.blocks))


def _blocks(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    for block in blocks:
        match block:
            case Table():
                yield from _table(block)
            case Code():
                yield Text("\n").join(map(_line, block.lines))
            case Note():
                yield Text(block.text, style="dim")
            case Tree():
                yield _tree(block)
            case Picture():
                yield from _blocks([block.instead])
            case Section():
                yield _line(block.title)
                yield Padding(Group(*_blocks(block.blocks)), (0, 0, 0, 2))


def _line(line: Line) -> Text:
    return Text.assemble(*((span.text, _STYLES[span.style]) for span in line))


def _table(table: Table) -> Iterator[RenderableType]:
    if table.columns:
        shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in table.columns:
            head = Text(column.name, style="bold underline" if column.key else "bold")
            if column.type:
                head.append(f"\n{column.type}", style="dim not bold not underline")
            shown.add_column(head, justify="right" if column.numeric else "left")
        for row in table.rows:
            shown.add_row(*(_line((cell,)) for cell in row.cells), style=_STYLES[row.style])
        yield shown
    if table.note:
        yield Text(table.note, style="dim")


def _tree(tree: Tree) -> RichTree:
    shown = RichTree(_line(tree.line))
    for child in tree.children:
        shown.add(_tree(child))
    return shown
