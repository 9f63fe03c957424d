"""The display of a traced tick: what each operator read and emitted."""

from __future__ import annotations

from dbsp.circuit.pictures.circuit_picture import node_titles
from dbsp.data.zset import ZSet
from dbsp.data.zset_display import first_rows
from dbsp.display.amounts import duration
from dbsp.display.document import Column, Document, Row, Span, Table, line, muted, printable, strong
from dbsp.errors import counted
from dbsp.runtime.tick_trace import TickTrace, TraceStep

SHOWN_STEPS = 60
_SHOWN_ROWS = 4
_LABEL, _WIDE = 60, 160


def trace_document(trace: TickTrace) -> Document:
    """Return the display of a traced tick: the steps that read or emitted rows."""
    state = "" if trace.committed else ", rolled back"
    title = line(
        strong(f"tick {trace.number:,}{state}"),
        muted(f"  {counted(len(trace), 'step')}, {duration(trace.seconds)}"),
    )
    busy = [step for step in trace if step.emitted or any(step.read.values())]
    titles = node_titles(busy[0].node.graph.root) if busy else {}
    rows = tuple(_row(step, titles[step.node]) for step in busy[:SHOWN_STEPS])
    columns = (Column("operator"), Column("iteration"), Column("reads"), Column("emits"))
    more = len(busy) - SHOWN_STEPS
    return Document(title, (Table(columns, rows, f"and {counted(more, 'more step')}" if more > 0 else ""),))


def _row(step: TraceStep, title: str) -> Row:
    read = "; ".join(_text(zset) for zset in step.read.values() if zset)
    return Row(
        (
            Span("  " * len(step.time) + printable(title, _LABEL)),
            muted(", ".join(map(str, step.time))),
            Span(printable(read, _WIDE)),
            Span(printable(_text(step.emitted), _WIDE)),
        )
    )


def _text(zset: ZSet) -> str:
    """Return the first rows of a change: `+(1, 2) -(2, 3)`."""
    if not zset:
        return "nothing"
    shown = []
    for row, weight in first_rows(zset, _SHOWN_ROWS):
        factor = "" if abs(weight) == 1 else f"{abs(weight)} "
        values = ", ".join(map(repr, row))
        shown.append(f"{'+' if weight > 0 else '-'}{factor}({values})")
    more = len(zset) - len(shown)
    return " ".join((*shown, f"and {more:,} more")) if more > 0 else " ".join(shown)
