"""forget_rows: traces drop the rows that a watermark has passed and that no node reads any more.

    a trace whose every reader reads only rows with column >= w + offset keeps only those

Late rows are out of the way already: bounds start at `on_time`, which has no change before the
watermark. A trace that may be read in full keeps all rows: that of a view, of an input with set
semantics or a key, and of a stream that enters a fixpoint. The outputs of the circuit stay the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate import AccumulatedAggregate, ForgettingAggregate
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.ports.output import Output
from dbsp.operators.stages.passes.lower_bounds import lower_bounds
from dbsp.operators.stages.passes.trace_reads import trace_reads
from dbsp.operators.stages.passes.watermark_bounds import NONE, Bounds, Marks, moved, weakest
from dbsp.operators.time.forgetting import ForgettingArrange
from dbsp.operators.time.watermark import Watermark
from dbsp.operators.traces.arrange import Arrange, is_external


def forget_rows(circuit: Graph, changes: list[str]) -> Graph:
    """Make every trace of a physical circuit forget the rows that no node reads any more."""
    if not any(isinstance(node.operator, Watermark) for node in circuit.nodes):
        return circuit
    replaced: dict[Node, Operator] = {}
    marks: dict[Node, Marks] = {}
    for trace in bounded_traces(circuit):
        if trace.unread:
            node = trace.node
            # The first column of the trace, and of its bounds the one by the fewest watermarks.
            (chosen, column), offset = min(
                trace.unread.items(), key=lambda bound: (bound[0][1], len(bound[0][0]), -bound[1])
            )
            kind = ForgettingArrange if isinstance(node.operator, Arrange) else ForgettingAggregate
            own = {one.name: getattr(node.operator, one.name) for one in fields(node.operator)}
            replaced[node] = kind(**own, column=column, offset=offset)
            marks[node] = chosen
    target = Graph(circuit.name)
    copy = GraphCopy(lambda node: True, replaced)
    copy.fill(circuit, target)
    for node, chosen in marks.items():
        image = copy.image(node)
        target.connect(image, *(copy.image(mark) for mark in sorted(chosen, key=lambda mark: mark.id)))
        changes.append(f"{node.describe()}: {image.node.label}")
    return target


@dataclass(frozen=True)
class BoundedTrace:
    """The trace at `node`, of a stream whose changes have bounds."""

    node: Node
    unread: Bounds
    """The bounds of all rows that will be read; empty if every row may be read."""
    reader: Node | None
    """A node that may read every row."""


def bounded_traces(circuit: Graph) -> Iterator[BoundedTrace]:
    """Yield the traces of a physical circuit that have rows which a watermark has passed."""
    bounds = lower_bounds(circuit)
    readers: dict[Node, list[tuple[Node, int]]] = {}
    entered: dict[Node, list[Node]] = {}
    whole: dict[Node, list[Node]] = {}
    """By node, the nodes that read its integral."""
    for node in circuit.nodes:
        for place, stream in enumerate(node.inputs):
            readers.setdefault(stream.node, []).append((node, place))
        for outer in (outer for child in node.operator.children() for outer in child.entered):
            # A fixpoint that restarts reads the integral by any of its keepers.
            entered.setdefault(outer, []).append(node)
            whole.setdefault(outer, []).append(node)
        for stream in (*node.strict, *(node.inputs[-1:] if isinstance(node.operator, Output) else ())):
            whole.setdefault(stream.node, []).append(node)

    for node in circuit.nodes:
        operator = node.operator
        if isinstance(operator, AccumulatedAggregate):
            unread = moved(bounds[node.inputs[0].node], range(operator.aggregate.key))
            if unread:
                yield BoundedTrace(node, unread, None)
        elif isinstance(operator, Arrange) and not is_external(node.inputs[0]):
            all_rows = [*whole.get(node, ()), *entered.get(node.inputs[0].node, ())]
            reads: list[tuple[Node, Bounds]] = []
            for reader, place in readers.get(node, ()):
                found = trace_reads(reader, place, [bounds[stream.node] for stream in reader.inputs])
                reads += [(reader, read) for read in found]
                if isinstance(reader.operator, DeltaDistinct):
                    all_rows += whole.get(reader, ())
            reads += [(reader, NONE) for reader in all_rows]
            unread = weakest(read for _, read in reads)
            if unread or bounds[node]:
                yield BoundedTrace(node, unread, next((reader for reader, read in reads if not read), None))
