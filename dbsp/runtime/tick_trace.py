"""The trace of one tick: what every node read and emitted, in the order of the steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Graph, Node
from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.display.displayed import Displayed
from dbsp.errors import counted, expect_present, full_repr
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.pass_observer import ObservedTick, PassObserver, PassTime, ScopePass
from dbsp.runtime.recorded_tick import RecordedTick
from dbsp.runtime.stream_lookup import scope_name
from dbsp.runtime.tick_result import TickResult


class TickTracer(PassObserver):
    """Collects the passes of one tick, with the durations of the steps."""

    timed = True

    def __init__(self, max_rows: int) -> None:
        super().__init__()
        self.max_rows = max_rows
        self.tick: ObservedTick | None = None

    def look(self) -> None:
        """Keep the passes so far, whatever becomes of the tick."""
        self.tick = self.pending or self.tick

    def commit_tick(self, number: int) -> None:
        self.look()
        self.drop()


@dataclass(frozen=True)
class TraceStep:
    """One step of one node in a traced tick (see `Run.trace_tick`).

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> trace = circuit.start().trace_tick({"sale": [(7,), (3,)]})
        >>> trace.at(1).node.operator.name, trace.at(1).emitted.to_dict()
        ('Filter', {(7,): 1})
        >>> trace.at(1).read["Input sale"].rows()
        [(3,), (7,)]
    """

    index: int
    """The position in the tick, from 0."""
    node: Node
    path: str
    """The path of the node: "3", or "3/0" inside the scope of node 3."""
    scope: str
    """The name of the scope, "outer/inner" if it is nested; empty at the top level."""
    time: PassTime
    """The iteration of each scope around the node, outermost first; empty at the top level."""
    part: int
    emitted: ZSet
    """The delta of this step."""
    read: Mapping[str, ZSet]
    """The deltas that the step received, by the label of the node that emitted them."""
    seconds: float
    """The duration of the step, for a scope with all its iterations."""

    @property
    def label(self) -> str:
        """The label of the node."""
        return self.node.label

    @property
    def rows(self) -> int:
        """The number of rows that the step emitted."""
        return len(self.emitted)

    def __str__(self) -> str:
        at = f" at {self.scope} {', '.join(map(str, self.time))}" if self.time else ""
        lines = [f"{self.index}: {self.path} {self.label}{at}, {self.seconds * 1e6:,.0f} us"]
        lines += [f"  read {_weights(zset)} of {label}" for label, zset in self.read.items() if zset]
        lines.append(f"  emitted {_weights(self.emitted)}" if self.emitted else "  emitted nothing")
        return "\n".join(lines)


def _weights(zset: ZSet) -> str:
    """Return all rows with their weights, also those that Python treats as equal."""
    return f"{{{', '.join(f'{full_repr(row)}: {weight}' for row, weight in zset.items())}}}"


@methods_end_at_caller
class TickTrace(Sequence[TraceStep], Displayed):
    """The steps of one tick in their order; `Run.trace_tick` returns it.

    The steps inside a scope come before the step of the node that holds the scope, iteration by
    iteration. A step that emitted nothing is a step, too.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> trace = circuit.start().trace_tick({"sale": [(7,), (3,)]})
        >>> trace
        <trace of tick 1: 4 steps, 5 rows>
        >>> [(step.node.operator.name, step.rows) for step in trace]
        [('Input', 2), ('Filter', 1), ('Arrange', 1), ('Output', 1)]
    """

    def __init__(self, tick: RecordedTick, result: TickResult, committed: bool) -> None:
        self._tick = tick
        self.result = result
        """The deltas of the outputs, as `step` returns them."""
        self.committed = committed
        """Whether the tick is a tick of the run; otherwise it was rolled back."""

    _described_by = "dbsp.runtime.trace_display:trace_document"

    def __repr__(self) -> str:
        state = "" if self.committed else ", rolled back"
        return (
            f"<trace of tick {self.number}{state}: {counted(len(self), 'step')}, {counted(self.rows, 'row')}>"
        )

    @property
    def number(self) -> int:
        """The number of the tick, or the one that it would have had."""
        return self._tick.number

    @property
    def seconds(self) -> float:
        """The duration of the tick."""
        return self.result.seconds

    @property
    def rows(self) -> int:
        """The number of rows that all steps emitted."""
        return sum(step.rows for step in self.steps)

    @cached_property
    def steps(self) -> tuple[TraceStep, ...]:
        """All steps, in their order.

        Raises:
            InputError: the tick has more rows than `max_rows` of `Run.trace_tick`.
        """
        return tuple(_Steps(self._tick).all())

    def at(self, index: int) -> TraceStep:
        """Return the step at a position, counted from 0; a negative one counts from the end.

        Parameters:
            index: the position.

        Raises:
            IndexError: the tick has fewer steps.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> circuit.start().trace_tick({"sale": [(7,)]}).at(-1).label
            'Output all'
        """
        return self.steps[index]

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)


class _Steps:
    """Puts the passes of a tick into the order of the steps, and finds what each step read."""

    def __init__(self, tick: RecordedTick) -> None:
        self._tick = tick
        self._paths = {node: path for path, node in tick.lookup.paths().items()}
        self._index = 0
        self._nested: dict[Graph, list[ScopePass]] = {}
        self._before: dict[tuple[Graph, PassTime], Mapping[Node, Batch]] = {}
        """By scope and iterations of the outer scopes, the deltas of the latest iteration."""

    def all(self) -> Iterator[TraceStep]:
        # A scope ends its passes before the pass that contains them.
        for each in self._tick.passes:
            self._nested.setdefault(each.graph, []).append(each)
            if each.graph.parent is None:
                yield from self._of(self._nested.pop(each.graph)[0], {})

    def _of(self, each: ScopePass, outer: Mapping[Node, Batch]) -> Iterator[TraceStep]:
        """Yield the steps of a pass. `outer` has the deltas of the pass that contains it."""
        deltas = dict(each.deltas)
        before = self._before.get((each.graph, each.time[:-1]), {})
        seconds = expect_present(each.seconds, "the durations of a traced pass")
        for node, taken in zip(each.graph.nodes, seconds, strict=True):
            for body in node.operator.children():
                for part in self._nested.pop(body, ()):
                    yield from self._of(part, deltas)
            yield self._step(each, node, deltas, self._read(node, each, deltas, before, outer), taken)
        if each.time:
            self._before[each.graph, each.time[:-1]] = deltas

    def _read(
        self,
        node: Node,
        each: ScopePass,
        deltas: Mapping[Node, Batch],
        before: Mapping[Node, Batch],
        outer: Mapping[Node, Batch],
    ) -> dict[str, ZSet]:
        found: list[tuple[Node, Batch | None]] = [
            (stream.node, deltas.get(stream.node))
            for stream in node.inputs
            if not stream.node.operator.children()
        ]
        if each.time:
            found += [(stream.node, before.get(stream.node)) for stream in node.strict]
            if each.time[-1] == 0 and self._tick.evaluation(each.graph) != "restart":
                found += [
                    (source, outer.get(source))
                    for source, inside in each.graph.entered.items()
                    if inside.node is node
                ]
        read: dict[str, ZSet] = {}
        for source, batch in found:
            label = source.label
            if label in read:
                label = f"{label} ({self._paths[source]})"
            read[label] = self._shown(source, batch)
        return read

    def _step(
        self,
        each: ScopePass,
        node: Node,
        deltas: Mapping[Node, Batch],
        read: Mapping[str, ZSet],
        seconds: float,
    ) -> TraceStep:
        index, self._index = self._index, self._index + 1
        emitted = self._shown(node, deltas.get(node))
        place = scope_name(each.graph)
        return TraceStep(index, node, self._paths[node], place, each.time, each.part, emitted, read, seconds)

    def _shown(self, node: Node, batch: Batch | None) -> ZSet:
        return ZSet.wrap(node.schema, self._tick.interner, batch or Batch.empty(node.schema.arity))
