"""Documents as HTML, for notebooks.

The text and its background keep the colours of the page, so that they are readable in light and
dark themes; changes have a translucent background. The style is part of each display, because a
notebook may show any of its cells alone. There are no identifiers and no scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from dbsp.display.document import (
    Block,
    Code,
    Column,
    Document,
    Line,
    Note,
    Picture,
    Row,
    Section,
    Span,
    Style,
    Table,
    Tree,
)

# The dark themes of JupyterLab, VS Code, Colab and the documentation site.
_DARK = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    'html[theme="dark"]',
    '[data-md-color-scheme="slate"]',
)
_SHEET = """.dbsp{--dbsp-added:#187a35;--dbsp-removed:#c4302b;--dbsp-keyword:#8250df;--dbsp-name:#0860ca;
--dbsp-string:#7d5a00;--dbsp-number:#0b7285;--dbsp-line:rgba(128,128,128,.35);
font-size:13px;line-height:1.45;color:inherit;max-width:100%;overflow-x:auto}
.dbsp .dbsp-title{margin:.2em 0 .4em}
.dbsp table.dbsp-table{border-collapse:collapse;border:0;margin:.2em 0;width:auto;font-size:inherit;
font-variant-numeric:tabular-nums;background:none;display:table}
.dbsp table.dbsp-table th,.dbsp table.dbsp-table td{text-align:left;vertical-align:top;border:0;
padding:.15em .9em .15em .4em;background:none;white-space:nowrap;max-width:none;color:inherit}
.dbsp table.dbsp-table th{border-bottom:1px solid var(--dbsp-line);font-weight:600;vertical-align:bottom}
.dbsp table.dbsp-table td{border-bottom:1px solid rgba(128,128,128,.13)}
.dbsp table.dbsp-table th small{display:block;font-weight:400;font-size:11px;opacity:.7}
.dbsp table.dbsp-table .dbsp-right{text-align:right}
.dbsp table.dbsp-table th.dbsp-key{text-decoration:underline;text-underline-offset:.2em}
.dbsp table.dbsp-table tbody tr{background:none}
.dbsp table.dbsp-table tbody tr.dbsp-added{background:rgba(46,160,67,.14)}
.dbsp table.dbsp-table tbody tr.dbsp-removed{background:rgba(218,54,51,.13)}
.dbsp pre{margin:.2em 0;padding:.5em .7em;border:1px solid var(--dbsp-line);border-radius:4px;
font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
background:rgba(128,128,128,.06);color:inherit;overflow:auto;max-height:32em;white-space:pre}
.dbsp ul,.dbsp ul li{list-style:none!important}
.dbsp ul{margin:0!important;padding-left:1.1em;border-left:1px solid var(--dbsp-line)}
.dbsp ul.dbsp-root{padding-left:0!important;border-left:0}
.dbsp ul li{margin:.15em 0!important;padding-left:.3em}
.dbsp summary{cursor:pointer}
.dbsp .dbsp-note{opacity:.75;font-size:12px;margin:.2em 0}
.dbsp .dbsp-section{margin:.5em 0}
.dbsp .dbsp-picture{overflow-x:auto}
.dbsp .dbsp-picture svg{max-width:100%;height:auto;min-width:min(100%,22rem)}
.dbsp .dbsp-picture svg>g>polygon{fill:none}
.dbsp .dbsp-s-muted,.dbsp .dbsp-s-comment{opacity:.7}
.dbsp .dbsp-s-comment{font-style:italic}
.dbsp .dbsp-s-strong{font-weight:600}
.dbsp td.dbsp-s-added,.dbsp span.dbsp-s-added{color:var(--dbsp-added)!important;font-weight:600}
.dbsp td.dbsp-s-removed,.dbsp span.dbsp-s-removed{color:var(--dbsp-removed)!important;font-weight:600}
.dbsp .dbsp-s-keyword{color:var(--dbsp-keyword)}
.dbsp .dbsp-s-name{color:var(--dbsp-name)}
.dbsp .dbsp-s-string{color:var(--dbsp-string)}
.dbsp .dbsp-s-number{color:var(--dbsp-number)}
"""
_DARK_COLOURS = (
    "{--dbsp-added:#57c878;--dbsp-removed:#ff8a80;--dbsp-keyword:#c8a6ff;--dbsp-name:#79b8ff;"
    "--dbsp-string:#e0b45c;--dbsp-number:#5ccfe6}"
)


def _sheet() -> str:
    dark = ",".join(f"{theme} .dbsp" for theme in _DARK)
    pictures = ",".join(f"{theme} .dbsp .dbsp-picture svg" for theme in _DARK)
    # Dark boxes with light text; the hues stay.
    inverted = "{filter:invert(.9) hue-rotate(180deg)}"
    return f"{_SHEET}{dark}{_DARK_COLOURS}\n{pictures}{inverted}\n"


def to_html(document: Document) -> str:
    """Return a document as HTML: equal documents have equal text."""
    title = f'<div class="dbsp-title">{_line(document.title)}</div>\n' if document.title else ""
    return f'<div class="dbsp">\n<style>\n{_sheet()}</style>\n{title}{_blocks(document.blocks)}\n</div>'


def _blocks(blocks: Iterable[Block]) -> str:
    return "\n".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case Table():
            return _table(block)
        case Code():
            return f"<pre>{chr(10).join(_line(each) or ' ' for each in block.lines)}</pre>"
        case Note():
            return _note(block.text)
        case Tree():
            return f'<ul class="dbsp-root">{_tree(block)}</ul>'
        case Picture():
            svg, reason = block.drawn
            if svg is None:
                return _note(reason) + _block(block.instead)
            return f'<div class="dbsp-picture">{_inline(svg)}</div>'
        case Section(folded=True):
            summary = f"<summary>{_line(block.title)}</summary>"
            return f'<details class="dbsp-section">{summary}{_blocks(block.blocks)}</details>'
        case Section():
            return f'<div class="dbsp-section"><div>{_line(block.title)}</div>{_blocks(block.blocks)}</div>'


def _note(text: str) -> str:
    return f'<div class="dbsp-note">{escape(text)}</div>'


def _line(line: Line) -> str:
    return "".join(map(_span, line))


def _span(span: Span) -> str:
    text = escape(span.text)
    return text if span.style is Style.PLAIN else f'<span class="dbsp-s-{span.style}">{text}</span>'


def _table(table: Table) -> str:
    head = "".join(map(_head, table.columns))
    rows = "\n".join(_row(row, table.columns) for row in table.rows)
    shown = (
        f'<table class="dbsp-table"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
        if table.columns
        else ""
    )
    return shown + (f"\n{_note(table.note)}" if table.note else "")


def _head(column: Column) -> str:
    kind = f"<small>{escape(column.type)}</small>" if column.type else ""
    return f"<th{_classes(column.numeric, 'dbsp-key' if column.key else '')}>{escape(column.name)}{kind}</th>"


def _row(row: Row, columns: Iterable[Column]) -> str:
    cells = "".join(
        f"<td{_classes(column.numeric, _cell_class(cell))}>{escape(cell.text)}</td>"
        for cell, column in zip(row.cells, columns, strict=True)
    )
    style = "" if row.style is Style.PLAIN else f' class="dbsp-{row.style}"'
    return f"<tr{style}>{cells}</tr>"


def _cell_class(cell: Span) -> str:
    return "" if cell.style is Style.PLAIN else f"dbsp-s-{cell.style}"


def _classes(numeric: bool, name: str) -> str:
    names = " ".join(each for each in ("dbsp-right" if numeric else "", name) if each)
    return f' class="{names}"' if names else ""


def _tree(tree: Tree) -> str:
    if not tree.children:
        return f"<li>{_line(tree.line)}</li>"
    below = "".join(map(_tree, tree.children))
    return f"<li><details open><summary>{_line(tree.line)}</summary><ul>{below}</ul></details></li>"


def _inline(svg: str) -> str:
    """Return the SVG element alone, without Graphviz's names of nodes.

    They are identifiers, which must be unique in a page, and titles, which a browser shows.
    """
    element = svg[svg.index("<svg") :]
    unnamed = re.sub(r"<!--.*?-->\s*|<title>.*?</title>\s*", "", element, flags=re.DOTALL)
    return re.sub(r' id="[^"]*"', "", unnamed)
