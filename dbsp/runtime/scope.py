"""Run a graph: its steps in a fixed order, once per tick, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.shard_link import Alone, ShardLink
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, KeepingStep, StrictStep, keeping
from dbsp.data.interner import Interner
from dbsp.data.types import INT, Type
from dbsp.errors import CircuitError, DbspError
from dbsp.runtime.delta_release import ReleasePlan, release_plan
from dbsp.runtime.located_errors import located, memory_error, overflow_error
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.pass_observer import PassObserver
from dbsp.runtime.ports import CommitListener
from dbsp.runtime.rounds import scheduled
from dbsp.runtime.scope_state import CarriedState, ScopeState, State
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.state_table import StateTable
from dbsp.state.trace import Trace
from dbsp.state.trace_limit import TraceLimit

T = TypeVar("T")


class Scope:
    """The steps of one graph at run time, in schedule order, with their shared objects.

    The schedule is the order in which the nodes were added: every node comes after its inputs, and
    strict inputs, which close cycles, are read with their values of one step before. `now` is the
    time within the tick: the iterations of the nested scopes down to this one, outermost first; it
    is empty at the top level. A nested scope that is not `timed` has no iteration in its time: each
    iteration is like a separate tick, and `now` is that of the outer scope.

    Every scope has its own journal. The step that holds a nested scope commits it and rolls it
    back, and lists it among the `children` of the outer scope. `shared` are objects that the steps
    of this scope find by their class.
    """

    def __init__(
        self,
        graph: Graph,
        interner: Interner,
        outer: Scope | None = None,
        carried: CarriedState | None = None,
        timed: bool = True,
        shared: Iterable[object] = (),
        budget: MemoryBudget | None = None,
        link: ShardLink | None = None,
    ) -> None:
        self.graph = graph
        self.interner = interner
        self.outer = outer
        self.children: list[Scope] = []
        self.budget: MemoryBudget | None = budget if outer is None else outer.budget
        """The memory that the traces may use; None without a limit."""
        self.link: ShardLink = (link or Alone()) if outer is None else outer.link
        """The connection to the other shards of the run."""
        self.state = ScopeState(graph.nodes, carried or CarriedState(), self.budget)
        self.journal: list[Journalled] = self.state.journal
        self.nested = outer is not None
        self.timed = timed and outer is not None
        self.depth: int = 0 if outer is None else outer.depth + self.timed
        self.now = np.zeros(self.depth, np.int64)
        self.iteration = 0
        self.iterations = 0
        """The number of iterations of a nested scope in the latest tick that changed its inputs."""
        self.stats: list[NodeStats] | None = None
        """The statistics per node, while they are switched on (see `dbsp.runtime.observation`)."""
        self.listeners: list[CommitListener] = [] if outer is None else outer.listeners
        self.observers: list[PassObserver] = [] if outer is None else outer.observers
        """Watches and recordings of the run (see `dbsp.runtime.run_watching`); often none."""
        self.transient: list[Trace] = []
        """The sums of an open transaction, which belong to no step; no checkpoint has them."""
        self.given = tuple(shared)
        """The objects that the steps share and that come from outside of the scope."""
        self._shared: dict[type, Any] = {type(found): found for found in self.given}
        self._held: set[Node] = set()
        self._counted: frozenset[Step] = frozenset()
        self.emitted: int | None = None
        """The rows of the counted deltas of the latest run, if it released deltas (see `hold`)."""
        self.by_node: dict[Node, Step] = {}
        for node in graph.nodes:
            self.state.starting = node
            step = node.operator.start(node, [self.by_node[s.node] for s in node.inputs], self)
            step.node = node
            self.by_node[node] = step
            if isinstance(step, CommitListener):
                self.listeners.append(step)
        self.state.starting = None
        for node in graph.nodes:
            if node.strict:
                self._strict(node).connect([self.by_node[s.node] for s in node.strict])
        self.steps = list(self.by_node.values())
        self.schedule = self.steps if self.link.shards == 1 else scheduled(self.steps, self.link)
        """The steps that a tick runs, in order."""

    def _strict(self, node: Node) -> StrictStep:
        step = self.by_node[node]
        if not isinstance(step, StrictStep):
            raise AssertionError(f"{type(step).__name__} has strict inputs, but is not a StrictStep")
        return step

    # --- the interface to steps (`dbsp.circuit.step_scope`) ---------------------------------------

    @property
    def first_tick(self) -> bool:
        return self.state.first_tick

    def new_trace(self, arity: int, types: Sequence[Type] | None = None) -> Trace:
        timed = None if types is None else (*types, *[INT] * self.depth)
        return self.state.new_trace(arity + self.depth, timed)

    def new_table(self) -> StateTable[Any, Any]:
        return self.state.new_table()

    def limit(self, limit: TraceLimit) -> None:
        self.state.limits.append(limit)

    def external_traces(self, relation: str) -> ExternalTraces:
        found: ExternalTraces | None = self._shared.get(ExternalTraces)
        if found is None:
            raise CircuitError(
                f"the rows of the input '{relation}' are kept outside of the circuit; start the run with "
                "the traces that hold them: Run(graph, traces=...)",
                code="incomplete-circuit",
            )
        return found

    def shared(self, kind: type[T]) -> T:
        found: T | None = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind()
        return found

    # --- keepers of integrals ---------------------------------------------------------------------

    def keeper(self, node: Node) -> KeepingStep | None:
        """Return the step that keeps the integral of a node's output: its own, or an arrangement.

        Of several arrangements prefer one in the column order of the stream. A step that forgets
        rows keeps no integral.
        """
        step = self.by_node[node]
        if node.operator.keeps_integral and not isinstance(step, Arranged) and keeping(step).complete:
            return keeping(step)  # an arrangement keeps the integral of its input
        return min(
            self._arrangements.get(node, ()),
            key=lambda step: step.node.schema.names != node.schema.names,
            default=None,
        )

    def arrangements(self, node: Node) -> Sequence[Arranged]:
        """Return the steps that keep the output of a node sorted, with all of its rows."""
        return self._arrangements.get(node, ())

    @cached_property
    def _arrangements(self) -> dict[Node, list[Arranged]]:
        """By node, the steps that keep its stream sorted."""
        found: dict[Node, list[Arranged]] = {}
        for node, step in self.by_node.items():
            if (
                isinstance(step, Arranged)
                and step.complete
                and node.operator.keeps_integral
                and len(node.inputs) == 1
            ):
                found.setdefault(node.inputs[0].node, []).append(step)
        return found

    def scopes(self) -> Iterator[Scope]:
        """Yield this scope and all scopes within it."""
        yield self
        for child in self.children:
            yield from child.scopes()

    @property
    def traces(self) -> list[Trace]:
        """All traces of this scope and of the scopes within it; a new list at each access."""
        return [state for state in self._all_states() if isinstance(state, Trace)]

    @property
    def tables(self) -> list[StateTable[Any, Any]]:
        """All tables of this scope and of the scopes within it; a new list at each access."""
        return [state for state in self._all_states() if isinstance(state, StateTable)]

    @property
    def rows(self) -> int:
        """The number of rows in all traces and tables."""
        return sum(state.rows for state in self._all_states())

    def _all_states(self) -> Iterator[State]:
        for scope in self.scopes():
            for states in scope.state.by_node.values():
                yield from states

    # --- a tick -----------------------------------------------------------------------------------

    def iterate(self, iteration: int) -> None:
        """Set the iteration of the next `run`; copy the iterations of the outer scopes."""
        self.iteration = iteration
        if self.timed and self.outer is not None:
            self.now[:-1] = self.outer.now
            self.now[-1] = iteration

    def run(self, release: bool = False) -> None:
        """Step every node once, in order.

        With `release`, and if nothing observes the scope, each delta is released after its last
        reader (see `dbsp.runtime.delta_release`).
        """
        if release and not self.observers and self.stats is None:
            self.run_steps(self.schedule, release=self._release_plan)
            return
        self.emitted = None
        if not self.observers:
            self.run_steps(self.schedule if self.stats is None else self.steps)
            return
        seconds: list[float] | None = [] if any(each.timed for each in self.observers) else None
        by_step = seconds is not None or self.stats is not None
        self.run_steps(self.steps if by_step else self.schedule, seconds)
        for observer in self.observers:
            observer.end_pass(self, seconds)

    def run_steps(
        self,
        steps: Sequence[Step],
        seconds: list[float] | None = None,
        release: ReleasePlan | None = None,
    ) -> None:
        """Run these steps in order; an error names the node of its step.

        Appends the duration of each step to `seconds`. `release` has for each step the steps whose
        deltas to release after it.
        """
        step: Step | None = None
        try:
            if release is not None:
                counted = self._counted
                rows = 0
                for step, (act, finished) in zip(steps, release, strict=True):
                    act()
                    if step in counted and step.out is not None:
                        rows += len(step.out)
                    for each in finished:
                        each.finish()
                self.emitted = rows
            elif self.stats is None and seconds is None:
                for step in steps:
                    step.step()
            else:
                for place, step in enumerate(steps):
                    started = time.perf_counter()
                    step.step()
                    taken = time.perf_counter() - started
                    if seconds is not None:
                        seconds.append(taken)
                    if self.stats is not None:
                        self.stats[place].add(taken, step.out)
        except OverflowError as error:
            raise self._located(overflow_error(error, _node(step)), step) from None
        except MemoryError as error:
            error.__traceback__ = None  # it would keep the arrays of the tick alive
            raise self._located(memory_error(_node(step)), step) from None
        except DbspError as error:
            self._located(error, step)
            raise

    def hold(self, nodes: Iterable[Node], counted: Iterable[Step] = ()) -> None:
        """Keep the deltas of these nodes, and of no others, until the end of every tick.

        A run that releases deltas counts the rows of the `counted` steps in `emitted`.
        """
        self._held = set(nodes)
        self._counted = frozenset(counted)
        self.__dict__.pop("_release_plan", None)

    @cached_property
    def _release_plan(self) -> ReleasePlan:
        return release_plan(self.schedule, [self.by_node[node] for node in self._held])

    def _located(self, error: DbspError, step: Step | None) -> DbspError:
        """Add the place to the error of a step: in the program text, or the node."""
        return located(error, _node(step), self.outer is None)

    def commit(self) -> None:
        """Make all changes of this tick final. If this is interrupted, call it again."""
        self.state.commit()

    def merge(self) -> None:
        """Merge sorted runs of this scope and the scopes within it, within the merge budget."""
        self._merge_all()
        if self.budget is not None:
            self.budget.end_tick(len(self.interner))

    def _merge_all(self) -> None:
        state = self.state
        if state.unmerged or state.limits:
            state.merge()
        for child in self.children:
            child._merge_all()

    def repair(self) -> None:
        """Make the traces of this scope and the scopes within it usable after an interrupt."""
        for trace in self.traces:
            trace.repair()

    def rollback(self) -> None:
        """Restore every state to the end of the previous tick. If interrupted, call it again."""
        self.state.rollback()
        if self.outer is None:
            for listener in self.listeners:
                listener.drop()

    def forget(self) -> None:
        """Release the deltas of the latest tick."""
        for step in self.steps:
            step.forget()
        for child in self.children:
            child.forget()

    def release(self) -> None:
        """Release all kept state; the scope cannot be stepped after this."""
        self.forget()
        for trace in self.traces:
            trace.release()


def _node(step: Step | None) -> Node | None:
    return None if step is None else step.node
