"""Displays of circuits and streams: a picture, or a list of nodes if a picture is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dbsp.circuit.circuit_drawing import CircuitDrawing
from dbsp.circuit.drawing import render, to_dot
from dbsp.circuit.graph import Graph, Stream
from dbsp.circuit.listing import listed_lines
from dbsp.data.zset_display import SHOWN_COLUMNS, schema_columns
from dbsp.display.document import (
    Block,
    Code,
    Document,
    Note,
    Picture,
    Table,
    limited,
    line,
    muted,
    printable,
    strong,
)
from dbsp.errors import counted

DRAWN_NODES = 150
"""A circuit of more nodes is listed: its drawing would take seconds, and nobody could read it."""
LISTED_LINES = 60


def graph_document(graph: Graph) -> Document:
    """Return the display of a circuit."""
    size = counted(len(graph.nodes), "node")
    title = line(strong(f"circuit {printable(graph.name, 80)}"), muted(f"  {size}"))
    return Document(title, tuple(graph_blocks(graph)))


def graph_blocks(graph: Graph, drawn: object = None) -> Iterator[Block]:
    """Yield a picture of a graph, or of `drawn`, which has the graph; a list if it is large."""
    nodes = sum(1 for _ in islice(graph.walk(), DRAWN_NODES + 1))
    lines = [line(printable(text)) for text in listed_lines(graph)]
    instead = Code(tuple(limited(lines, LISTED_LINES)))
    if nodes > DRAWN_NODES:
        yield Note(
            f"A circuit of more than {DRAWN_NODES} nodes is listed; "
            "dbsp.draw.write(circuit, 'circuit.svg') draws it."
        )
        yield instead
    else:
        yield Picture(lambda: render(to_dot(graph if drawn is None else drawn, title="")).decode(), instead)


def drawing_document(drawing: CircuitDrawing) -> Document:
    """Return the display of a drawing: its picture, or the titles of its nodes."""
    picture = drawing.picture
    title = line(strong(printable(repr(drawing)[1:-1], 120)))
    titles = [line(printable(node.title)) for node in picture.nodes]
    instead = Code(tuple(limited(titles, LISTED_LINES)))
    return Document(title, (Picture(drawing.to_svg, instead),))


def stream_document(stream: Stream) -> Document:
    """Return the display of a stream: its operator, the line that made it, and its columns."""
    node = stream.node
    source = f" at {node.source}" if node.source else ""
    title = line(
        strong("stream"),
        f" of {printable(node.label, 80)}{printable(source, 80)}",
        muted(f"  node {node.id} of circuit {printable(node.graph.root.name, 80)}"),
    )
    more = node.schema.arity - SHOWN_COLUMNS
    note = f"and {more:,} more columns" if more > 0 else "" if node.schema.arity else "no columns"
    return Document(title, (Table(schema_columns(node.schema), (), note),))
