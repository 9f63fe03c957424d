"""A circuit beside that of a run: it reads relations of the run, and steps with its ticks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from dbsp.circuit.step_roles import TracedStep
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.errors import expect_present
from dbsp.runtime.live_graph import LiveGraph, Source
from dbsp.runtime.port_match import inputs_of, outputs_of
from dbsp.runtime.rebuilt_steps import take_apart, with_interner
from dbsp.runtime.scope import Scope
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.trace import Trace


class TraceFinder(Protocol):
    """Finds the trace of a source in a column order."""

    def trace(self, source: Source, order: tuple[int, ...]) -> Trace: ...


class LivePart:
    """One circuit beside that of a run, with its state.

    `readers` are the keys of the parts and groups of subscriptions that read it: without readers it
    has no use. A part comes after all parts that it reads, by its `number`.
    """

    def __init__(
        self,
        key: Hashable,
        number: int,
        live: LiveGraph,
        interner: Interner,
        budget: MemoryBudget | None,
        finder: TraceFinder,
    ) -> None:
        self.key = key
        self.number = number
        self.live = live
        self.readers: set[Hashable] = set()
        self._finder = finder
        self._traces = ExternalTraces(_PartTraces(live.reads, finder))
        self.scope = Scope(live.graph, interner, shared=(self._traces,), budget=budget)
        self._find_ports()

    def _find_ports(self) -> None:
        self._inputs = inputs_of(self.scope)
        self._outputs = outputs_of(self.scope)

    # --- a tick -----------------------------------------------------------------------------------

    def step(self, staged: Mapping[str, Batch | None]) -> None:
        """Step with these changes of the inputs; the others do not change."""
        for name, port in self._inputs.items():
            port.staged = staged.get(name)
        try:
            self.scope.run()
        finally:
            for port in self._inputs.values():
                port.staged = None

    def delta(self, output: str) -> Batch | None:
        """Return the change of an output by the latest step."""
        return self._outputs[output].out

    def settle(self) -> None:
        """Make the step final. If this is interrupted, call it again."""
        self.scope.commit()

    def undo(self) -> None:
        """Undo a step that is not final. If this is interrupted, call it again."""
        self.scope.rollback()

    def merge(self) -> None:
        """Merge sorted runs within the budget of a tick, and release the deltas of the step."""
        for each in self.scope.scopes():
            each.state.merge()

    def forget(self) -> None:
        """Release the deltas of the latest step."""
        self.scope.forget()

    # --- state ------------------------------------------------------------------------------------

    def fill(self, integral: Callable[[Source], Batch]) -> None:
        """Step over all rows of the sources, as the first step."""
        past = _PastTraces(self.live.reads, self._finder)
        now, self._traces.source = self._traces.source, past
        try:
            self.step({name: integral(source) or None for name, source in self.live.reads.items()})
            self.settle()
        except BaseException:
            self.undo()
            raise
        finally:
            self._traces.source = now
            past.release()
        self.forget()

    def view(self, output: str) -> Batch:
        """Return the integral of an output."""
        return self._outputs[output].view()

    @property
    def trace(self) -> Trace:
        """The trace of a part that keeps one relation sorted."""
        steps = (step for step in self.scope.steps if isinstance(step, TracedStep))
        return expect_present(next(steps, None), "the trace of a part that keeps one").trace

    def reread(self) -> None:
        """Look up the traces again, since the circuit of the run has new steps."""
        self._traces.source = _PartTraces(self.live.reads, self._finder)

    def change_interner(self, interner: Interner) -> None:
        """Continue with an interner that has the same ids."""
        if self.scope.interner is not interner:
            old, self.scope = self.scope, with_interner(self.scope, interner)
            self._find_ports()
            take_apart(old)

    def release(self) -> None:
        """Release the state."""
        self.scope.release()


class _PartTraces:
    """The traces that a part reads in ticks."""

    def __init__(self, reads: Mapping[str, Source], finder: TraceFinder) -> None:
        self._reads = reads
        self._finder = finder

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        return self._finder.trace(self._reads[relation], order)


class _PastTraces(_PartTraces):
    """Copies of the traces, in which all rows are the delta of the first step."""

    def __init__(self, reads: Mapping[str, Source], finder: TraceFinder) -> None:
        super().__init__(reads, finder)
        self._copies: list[Trace] = []

    def trace(self, relation: str, order: tuple[int, ...]) -> Trace:
        found = super().trace(relation, order)
        copy = Trace.of_runs(found.width, found.runs, [])  # sorted runs never change
        copy.notify()
        self._copies.append(copy)
        return copy

    def release(self) -> None:
        for copy in self._copies:
            copy.release()
