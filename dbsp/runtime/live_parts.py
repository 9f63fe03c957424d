"""The circuits beside that of a run, and what they share.

    source    a relation that the circuit of the run has, or that a part computes
    part      a circuit that reads sources: the query of some subscriptions, the relations of a
              stratum that the run lacks, or a source sorted in a column order

A part reads traces of the run if the run has them in the right order, else those of another part.
So each relation is sorted once in each order, and each part exists once, however many others read
it. What nothing reads any more is released at once. A tick steps the parts of which a source has
changed, each after the parts that it reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Protocol

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step_roles import TracedStep
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.errors import CircuitError, DbspError, MemoryLimitError
from dbsp.runtime.live_graph import LiveGraph, LivePrograms, Source
from dbsp.runtime.live_part import LivePart
from dbsp.runtime.past_integrals import integral_of
from dbsp.runtime.recorded_tick import leaving
from dbsp.runtime.scope import Scope
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.trace import Trace


class PartOwner(Protocol):
    """What the parts need of their run."""

    graph: Graph
    interner: Interner
    budget: MemoryBudget | None
    _scope: Scope


class LiveParts:
    """The parts of one run, for one circuit of it; `program` is None if there is no program."""

    def __init__(self, run: PartOwner, program: LivePrograms | None) -> None:
        self.scope = run._scope
        self.graph = run.graph
        self._program = program
        self._budget = run.budget
        self._parts: dict[Hashable, LivePart] = {}
        self._created = 0
        self._nodes: dict[Source, Node] = {}
        """The sources that the circuit of the run has."""
        self._made: dict[Source, LivePart] = {}
        """The sources that parts compute."""
        self._readers: dict[Source, dict[Hashable, None]] = {}
        """By source the keys of the parts, and of others, that read it."""
        self._stepped: list[LivePart] = []
        """The parts whose step in this tick is not final."""

    # --- sources ----------------------------------------------------------------------------------

    def use(self, run: PartOwner, source: Source, reader: Hashable) -> None:
        """Note that somebody reads a source.

        Raises DbspError if its rows cannot be computed, or are not kept.
        """
        if source not in self._readers:
            node = self._node_of(run, source)
            if node is not None:
                self._nodes[source] = node
                self.scope.hold(self._nodes.values())
            elif self._program is not None:
                self._made[source] = self._relation_part(run, self._program, str(source.name))
                self._made[source].readers.add(source)
        self._readers.setdefault(source, {})[reader] = None

    def _node_of(self, run: PartOwner, source: Source) -> Node | None:
        """Return the top-level node of the run that emits a source; None if a part has to."""
        if isinstance(source.name, Node):
            node: Node | None = source.name
        else:
            node = None if self._program is None else self._program.node_of(run, source)
        if node is not None and node.graph.parent is not None:
            node = leaving(node)
        if node is None and source.kind != "relation":
            raise CircuitError(
                "the run cannot follow this stream, since it does not leave its fixpoint; choose the stream "
                "that leaves the fixpoint, or an output",
                code="subscribe-refused",
            )
        return node

    def disuse(self, source: Source, reader: Hashable) -> None:
        """Note that a reader reads a source no longer."""
        readers = self._readers.get(source, {})
        readers.pop(reader, None)
        if readers or source not in self._readers:
            return
        del self._readers[source]
        if self._nodes.pop(source, None) is not None:
            self.scope.hold(self._nodes.values())
        part = self._made.pop(source, None)
        if part is not None:
            self._leave(part, source)

    def integral(self, source: Source) -> Batch:
        """Return the rows of a source after the latest tick. Raises CircuitError."""
        part = self._made.get(source)
        if part is not None:
            return part.view(str(source.name))
        return integral_of(self.scope, self._nodes[source], ())

    def trace(self, source: Source, order: tuple[int, ...]) -> Trace:
        """Return the trace of a source in a column order."""
        found = self._trace_of_run(source, order)
        return self._parts[source, order].trace if found is None else found

    def _trace_of_run(self, source: Source, order: tuple[int, ...]) -> Trace | None:
        node = self._nodes.get(source)
        for step in () if node is None else self.scope.arrangements(node):
            if step.sorted_by == order and isinstance(step, TracedStep):
                return step.trace
        return None

    # --- parts ------------------------------------------------------------------------------------

    def _relation_part(self, run: PartOwner, program: LivePrograms, name: str) -> LivePart:
        """Return the part that computes a relation, with the others of its stratum."""
        key = ("stratum", program.stratum_of(name))
        return self._parts.get(key) or self.add(run, key, program.relation_graph(name))

    def add(self, run: PartOwner, key: Hashable, live: LiveGraph) -> LivePart:
        """Add a part, filled with the rows that it reads. Raises DbspError, and adds nothing."""
        used: list[Source] = []
        try:
            for source in dict.fromkeys(live.reads.values()):
                used.append(source)
                self.use(run, source, key)
            for name, order in live.orders:
                self._use_trace(run, live.reads[name], order, key)
            self._created += 1
            part = LivePart(key, self._created, live, run.interner, self._budget, self)
            if live.replays:
                part.fill(self.integral)
        except BaseException:
            self._forget_reader(key, used, live)
            raise
        self._parts[key] = part
        return part

    def _use_trace(self, run: PartOwner, source: Source, order: tuple[int, ...], reader: Hashable) -> None:
        if self._trace_of_run(source, order) is not None:
            return
        key = source, order
        part = self._parts.get(key)
        if part is None:
            if self._program is None:
                raise AssertionError("a circuit without a program has no parts that read traces")
            part = self.add(run, key, self._program.trace_graph(source, order))
        part.readers.add(reader)

    def remove(self, key: Hashable) -> None:
        """Remove a part, and the parts that only it reads."""
        part = self._parts.pop(key, None)
        if part is not None:
            self._forget_reader(key, part.live.reads.values(), part.live)
            part.release()

    def _forget_reader(self, key: Hashable, sources: Iterable[Source], live: LiveGraph) -> None:
        for name, order in live.orders:
            trace = self._parts.get((live.reads[name], order))
            if trace is not None:
                self._leave(trace, key)
        for source in sources:
            self.disuse(source, key)

    def _leave(self, part: LivePart, reader: Hashable) -> None:
        part.readers.discard(reader)
        if not part.readers:
            self.remove(part.key)

    def release(self) -> None:
        """Release the state of all parts."""
        self.scope.hold(())
        for part in self._parts.values():
            part.release()

    # --- a tick -----------------------------------------------------------------------------------

    def step(self, stopped: Collection[Hashable]) -> Changes:
        """Step with the deltas of the run's circuit, but not what is stopped.

        Returns what has changed. Raises MemoryLimitError.
        """
        by_node = self.scope.by_node
        changes = Changes()
        waiting: list[tuple[int, int, LivePart]] = []
        for source, node in self._nodes.items():
            delta = by_node[node].out
            if delta is not None and len(delta):
                self._emit(source, delta, changes, waiting)
        latest = 0
        while waiting:
            number, _, part = heapq.heappop(waiting)
            if number == latest or part.key in stopped or part.key in changes.failed:
                continue
            latest = number
            staged = {
                name: changes.deltas[source]
                for name, source in part.live.reads.items()
                if source in changes.deltas
            }
            self._stepped.append(part)
            try:
                part.step(staged)
            except MemoryLimitError:
                raise
            except DbspError as error:
                part.undo()
                for key in self._depending(part):
                    changes.failed[key] = error
                continue
            changes.stepped[part.key] = part
            for source in [source for source, made in self._made.items() if made is part]:
                delta = part.delta(str(source.name))
                if delta is not None and len(delta):
                    self._emit(source, delta, changes, waiting)
        return changes

    def _emit(
        self, source: Source, delta: Batch, changes: Changes, waiting: list[tuple[int, int, LivePart]]
    ) -> None:
        changes.deltas[source] = delta
        for reader in self._readers[source]:
            part = self._parts.get(reader)
            if part is not None:
                heapq.heappush(waiting, (part.number, len(waiting), part))

    def _depending(self, part: LivePart) -> Iterator[Hashable]:
        """Yield the keys of a part and of everything that reads it."""
        seen: set[Hashable] = set()
        waiting: list[Hashable] = [part.key]
        while waiting:
            key = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            yield key
            found = self._parts.get(key)
            waiting += () if found is None else found.readers
            if isinstance(key, Source):
                waiting += self._readers.get(key, ())

    def settle(self) -> None:
        """Make the steps of this tick final. If this is interrupted, call it again."""
        for part in self._stepped:
            part.settle()

    def undo(self) -> None:
        """Undo the steps of a tick that is not final. If this is interrupted, call it again."""
        for part in self._stepped:
            part.undo()
        self._stepped.clear()

    def close_tick(self, release: bool) -> None:
        """Merge the traces that a tick has changed; release its deltas if they are many."""
        for part in self._stepped:
            part.merge()
            if release:
                part.forget()
        self._stepped.clear()

    # --- the run ----------------------------------------------------------------------------------

    def follow(self, scope: Scope, interner: Interner) -> None:
        """Read the steps of another scope of the same circuit, which has another interner."""
        self.scope = scope
        self.scope.hold(self._nodes.values())
        for part in self._parts.values():
            part.change_interner(interner)
        for part in self._parts.values():
            part.reread()

    @property
    def scopes(self) -> list[Scope]:
        """The scopes of all parts."""
        return [part.scope for part in self._parts.values()]


class Changes:
    """What one step of the parts has changed."""

    def __init__(self) -> None:
        self.deltas: dict[Source, Batch] = {}
        """The changes of the sources."""
        self.stepped: dict[Hashable, LivePart] = {}
        """The parts that have stepped, by their keys."""
        self.failed: dict[Hashable, DbspError] = {}
        """By key, the error that has stopped a part, or a part that it reads."""


def rows_by_prefix(batch: Batch, width: int) -> Iterator[tuple[tuple[int, ...], Batch]]:
    """Yield the rows of a batch by their first columns, without these columns. O(n)."""
    rows, weights = batch.rows, batch.weights
    if not len(weights):
        return
    prefix = rows[:, :width]
    starts = [0, *(_boundaries(prefix) + 1).tolist(), len(weights)]
    for first, last in pairwise(starts):
        piece = rows[first:last, width:].copy()
        yield tuple(prefix[first].tolist()), Batch(piece, weights[first:last])


def _boundaries(prefix: Any) -> Any:
    return (prefix[1:] != prefix[:-1]).any(axis=1).nonzero()[0]
