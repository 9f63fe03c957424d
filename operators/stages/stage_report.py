"""The report about a circuit: the rewriting of the query, and its physical circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.stage import Stage
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate import ForgettingAggregate
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin, MultiwayJoin, shown
from dbsp.operators.joins.term_rows import TermRows
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.evaluation_options import describe_evaluation
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.stages.circuit_context import CircuitContext
from dbsp.operators.stages.circuit_passes import optimise
from dbsp.operators.stages.circuit_stages import incremental_circuit, physical
from dbsp.operators.stages.join_strategy import JoinStrategy
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.passes.forget_rows import bounded_traces
from dbsp.operators.stages.passes.laws import LAWS
from dbsp.operators.time.forgetting import ForgettingOperator
from dbsp.operators.traces.arrange import Arrange
from dbsp.runtime.run import Run

if TYPE_CHECKING:
    from dbsp.shards.sharded_run import ShardedRun


def explain(
    query: Graph, run: Run | ShardedRun | None = None, strategy: JoinStrategy = JoinStrategy.AS_WRITTEN
) -> str:
    """Report the passes and their changes, the laws, the traces and joins of the physical circuit,
    and the exchanges of the distributed circuit.

    With a `run` of the query, also report the rows and bytes of its traces, and the rows and
    prefixes that its multi-way joins processed.
    """
    return "\n".join(_report(query, run, strategy))


def _report(query: Graph, run: Run | ShardedRun | None, strategy: JoinStrategy) -> Iterator[str]:
    optimised, applied = optimise(query, CircuitContext(strategy=strategy))
    yield "passes"
    for record in applied:
        size = (
            f"{record.before} nodes"
            if record.before == record.after
            else f"{record.before} -> {record.after} nodes"
        )
        yield f"  {record.name}: {size}" + ("" if record.changes else ", nothing changed")
        yield from (f"    {change}" for change in record.changes)
    _, applications = incremental_circuit(optimised)
    yield "laws"
    for name, law in LAWS.items():
        times = sum(application.law.name == name for application in applications)
        if times:
            yield f"  {name}, {times} x:  {law.equation}"
    lowered = physical(query, CircuitContext(strategy=strategy))
    circuit = lowered if run is None else run.graph
    kept = {} if run is None else run.kept()
    counts = {} if run is None else run.join_terms()
    evaluations = {} if run is None else run.evaluations()
    shared = run is not None and not isinstance(run, Run)
    stage = Stage.DISTRIBUTED if shared else Stage.PHYSICAL
    yield f"{stage} circuit: {sum(1 for _ in circuit.walk())} nodes"
    reasons = {trace.node: trace.reader for trace in bounded_traces(circuit)}
    for use in trace_uses(circuit):
        columns = ", ".join(use.node.schema.names)
        size = "; {:,} rows, {:,} bytes".format(*kept[use.node]) if use.node in kept else ""
        yield f"  trace of {_named(use.source)} by ({columns}), read by {_list(use.readers)}{size}"
        reader = reasons.get(use.node)
        if reader is not None:
            yield f"    keeps the rows that a watermark has passed: {_named(reader)} may read them"
        yield from _forgotten(use.node)
    for node in circuit.walk():
        if isinstance(node.operator, ForgettingAggregate):
            size = "; {:,} rows, {:,} bytes".format(*kept[node]) if node in kept else ""
            yield f"  groups of {_named(node)}{size}"
            yield from _forgotten(node)
        if isinstance(node.operator, DeltaMultiwayJoin):
            yield from _terms(node, node.operator.join, counts.get(node))
        if isinstance(node.operator, Fixpoint):
            body = node.operator.body
            limit = f"at most {body.max_iterations} iterations"
            yield f"  scope {body.name}: {describe_evaluation(body)}; {limit}"
            if node in evaluations:
                yield f"    {evaluations[node]}"
    yield from exchange_lines(lowered)


def exchange_lines(physical: Graph) -> Iterator[str]:
    """Yield how rows move between the shards of the distributed circuit, or why they need not."""
    reasons: list[str] = []
    distributed = distribute(physical, reasons)
    moving = any(isinstance(node.operator, Placing) for node in distributed.walk())
    yield "on several shards" + ("" if moving else ", no row moves")
    yield from (f"  {reason}" for reason in reasons)


def _forgotten(node: Node) -> Iterator[str]:
    """Yield which rows of its trace a node forgets, if any, with the watermarks."""
    operator = node.operator
    if isinstance(operator, ForgettingOperator):
        marks = ", ".join(_named(stream.node) for stream in node.strict)
        least = "the least of " if len(node.strict) > 1 else ""
        forgotten = operator.forgotten(node.schema.names[operator.column], node.schema.types[operator.column])
        yield f"    forgets rows with {forgotten}, by {least}{marks}"


def _terms(node: Node, join: MultiwayJoin, counts: Sequence[TermRows] | None) -> Iterator[str]:
    """Yield the binding order of each delta term; with a run, the rows and prefixes it
    processed."""
    yield f"  {_named(node)}"
    for atom, order in enumerate(join.term_orders()):
        terms = ", ".join(map(shown, join.atoms[atom]))
        line = f"    a change of ({terms}) binds {', '.join(order) or 'nothing'}"
        if counts is not None:
            prefixes = "".join(f", {name}: {number:,}" for name, number in counts[atom].levels)
            line += f"; processed {counts[atom].changed:,} rows{prefixes}"
        yield line


@dataclass(frozen=True)
class TraceUse:
    """The trace at `node`, of the stream of `source`, and its readers, in nested scopes too."""

    node: Node
    source: Node
    readers: tuple[Node, ...]


def trace_uses(circuit: Graph) -> list[TraceUse]:
    """Return the arrangements of a physical circuit, in order. O(nodes + edges)."""
    readers: dict[Node, dict[Node, None]] = {}
    for node in circuit.walk():
        for stream in (*node.inputs, *node.strict):
            readers.setdefault(_outermost(stream).node, {})[node] = None
    uses = []
    for node in circuit.walk():
        if isinstance(node.operator, Arrange):
            found = [reader for reader in readers.get(node, ()) if not isinstance(reader.operator, Fixpoint)]
            uses.append(TraceUse(node, _outermost(node.inputs[0]).node, tuple(found)))
    return uses


def _outermost(stream: Stream) -> Stream:
    """Return the stream before it entered any scope."""
    while isinstance(stream.node.operator, Delta0):
        stream = stream.node.graph.outer_of(stream)
    return stream


def _list(nodes: Sequence[Node]) -> str:
    return "; ".join(map(_named, nodes)) or "no node"


def _named(node: Node) -> str:
    """Return the label of the node and its source line."""
    return f"{node.label} ({node.source})" if node.source else node.label
