"""A running circuit: changes in, exact deltas out, one tick at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, ReportingStep, TracedStep
from dbsp.data.batch import Batch
from dbsp.data.int_ranges import IntRange
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema, did_you_mean
from dbsp.data.values import shorten
from dbsp.data.weights import overflow_text
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, DbspError, InputError, WeightOverflowError
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.runtime import statistics
from dbsp.runtime.changes import InputChange, encode_change, encode_keys, last_wins
from dbsp.runtime.memory import give_back
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.replanning import Planner, Proposal, Replanned
from dbsp.runtime.scope import Scope
from dbsp.runtime.transplant import Transplant

Changes: TypeAlias = Mapping[str, InputChange]


_MANY = 1_000
"""After a tick of more changes than this, the deltas it made inside the circuit are let go at once."""


class TickResult(Mapping[str, ZSet]):
    """What one tick did: the delta of every output, by name; empty for those that did not change.

    `number` counts ticks from 1, `seconds` is the tick's own duration. `absent` and `present` count,
    by input, the retractions that found nothing to retract and the assertions of rows that were
    there already: both changed nothing.
    """

    __slots__ = ("_deltas", "absent", "number", "present", "seconds")

    def __init__(
        self,
        deltas: dict[str, ZSet],
        number: int,
        seconds: float,
        absent: dict[str, int],
        present: dict[str, int],
    ) -> None:
        self._deltas = deltas
        self.number = number
        self.seconds = seconds
        self.absent = absent
        self.present = present

    def __getitem__(self, name: str) -> ZSet:
        return self._deltas[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._deltas)

    def __len__(self) -> int:
        return len(self._deltas)

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}: {delta!r}" for name, delta in self.items() if delta)
        return f"<tick {self.number}: {changed or 'no change'}>"


class InputHandle:
    """Changes of one input, staged until the next `run.step()`.

    On an input with set semantics or with a key, the last change of a row or key decides. Rows are
    checked when they are staged; a call that raises has staged nothing.
    """

    __slots__ = ("_interner", "_pieces", "_port")

    def __init__(self, port: InputPort, interner: Interner) -> None:
        self._port = port
        self._interner = interner
        self._pieces: list[tuple[Codes, Codes]] = []

    @property
    def schema(self) -> Schema:
        return self._port.columns

    def insert(self, rows: Iterable[Any]) -> None:
        """Add every row once (assert it, on a set; replace the row of its key, on a keyed input)."""
        self._stage(list(rows), 1)

    def delete(self, rows: Iterable[Any]) -> None:
        """Take every row away once (retract it; on a keyed input, remove the row of its key).

        On a keyed input the values of the key columns are enough, in the order the key was declared.
        """
        if self._port.kind == "key":
            codes = encode_keys(list(rows), self._port, self._interner)
            self._pieces.append((codes, np.full(len(codes), -1)))
        else:
            self._stage(list(rows), -1)

    def add(self, weights: Mapping[Any, int] | ZSet) -> None:
        """Change rows by the given weights."""
        self._pieces.append(encode_change(weights, self._port, self._interner))

    def upsert(self, rows: Iterable[Any]) -> None:
        """Put every row in place of the one with the same key, if there is one."""
        if self._port.kind != "key":
            raise InputError(
                "upsert needs a key; declare the input with key=(...)",
                where=f"relation '{self._port.relation}'",
            )
        self._stage(list(rows), 1)

    def _stage(self, rows: list[Any], weight: int) -> None:
        codes, ones = encode_change(rows, self._port, self._interner)
        self._pieces.append((codes, ones * weight))

    def _take(self) -> list[tuple[Codes, Codes]]:
        pieces, self._pieces = self._pieces, []
        return pieces


class RunLog(Protocol):
    """Makes the ticks of a run durable."""

    label: Any
    """The label of the latest durable tick."""
    result: TickResult | None
    """What that tick did, if it is known."""

    def begin(self, run: Run) -> None:
        """A tick is about to begin; the one before it is settled."""

    def record(self, tick: int, staged: Mapping[str, Batch], run: Run, label: Any) -> None:
        """The tick can become final; it does once this returns, and else is undone."""

    def committed(self, result: TickResult, label: Any) -> None:
        """The tick has become final."""

    def snapshot(self) -> None:
        """Write the whole state now."""

    def close(self) -> None:
        """Let go of the run."""


class Run:
    """A circuit at work. `step` applies changes and returns the deltas of every output.

    A tick is all or nothing: when `step` raises, every view is as it was after the previous tick.
    A run is not thread-safe.
    """

    def __init__(self, graph: Graph, planner: Planner | None = None) -> None:
        self.graph = graph
        self.interner = Interner()
        self.tick = 0
        """Ticks committed so far."""
        self.planner = planner
        """Who chooses the circuit when the run is replanned, if anybody."""
        self.scope = Scope(graph, self.interner)
        self._find_ports()
        self._planned_for = self._sizes()
        self._handles = {name: InputHandle(port, self.interner) for name, port in self._inputs.items()}
        self._nothing = {
            name: ZSet.wrap(port.columns, self.interner, Batch.empty(port.columns.arity))
            for name, port in self._outputs.items()
        }
        self._stepping = False
        self.ranges: Mapping[str, Mapping[str, IntRange]] = {}
        """By input, the columns that take fewer ints than there are of 64 bits, and which."""
        self.log: RunLog | None = None
        """Where ticks are made durable, if anywhere (see `dbsp.durable`)."""

    @property
    def inputs(self) -> dict[str, Schema]:
        """Input relations and their columns."""
        return {name: port.columns for name, port in self._inputs.items()}

    @property
    def input_ports(self) -> Mapping[str, InputPort]:
        """The steps of the inputs, which say what a change of each means."""
        return self._inputs

    @property
    def outputs(self) -> dict[str, Schema]:
        """Output relations and their columns."""
        return {name: port.columns for name, port in self._outputs.items()}

    @property
    def stepping(self) -> bool:
        """Whether a tick is being computed: an exception raised now, by a signal say, undoes it."""
        return self._stepping

    def input(self, name: str) -> InputHandle:
        """The handle by which changes of one input are staged for the next step."""
        self._port(name)
        return self._handles[name]

    def step(self, changes: Changes | None = None, *, label: Any = None) -> TickResult:
        """Apply the changes, and those staged before, as one tick.

        `changes` maps input names to {row: weight}, an iterable of rows (weight 1 each), a ZSet or
        an Arrow table. Raises InputError (unknown relation, a row that does not fit),
        WeightOverflowError, EvaluationError, UserFunctionError, InvariantError, IterationLimitError or
        MemoryLimitError;
        then nothing has changed and what was staged is dropped. (Only what `inspect` calls comes after
        the commit: the UserFunctionError that tells of its failing says so.)

        With a checkpoint the tick is durable when this returns, with its `label`, a JSON value by which a
        caller knows it again (`run.log.label`); raises CheckpointError if it cannot be written.
        """
        if self._stepping:
            raise CircuitError("step was called from inside a step, by a function of the circuit")
        return self._tick(lambda: self._put(self.prepare(changes)), label)

    def step_staged(self, staged: Mapping[str, Batch]) -> TickResult:
        """One tick of batches that were staged once, as the journal of a checkpoint has them."""

        return self._tick(lambda: self._put(staged), None)

    def _put(self, staged: Mapping[str, Batch]) -> int:
        """Put each input's part of the changes into its port; returns the number of rows."""
        for name, batch in staged.items():
            self._inputs[name].staged = batch
        return sum(map(len, staged.values()))

    def _tick(self, stage: Callable[[], int], label: Any) -> TickResult:
        started = time.perf_counter()
        self._stepping = True
        rows = 0
        log = self.log
        try:
            if log is not None:
                log.begin(self)
            rows = stage()
            self.scope.run()
            if log is not None:
                staged = {name: port.staged for name, port in self._inputs.items() if port.staged is not None}
                log.record(self.tick + 1, staged, self, label)
            self._stepping = False  # here and not below: who interrupts only while it is set is undone
        except BaseException:
            self._stepping = False
            self.scope.rollback()
            raise
        finally:
            self._stepping = False
            for port in self._inputs.values():
                port.staged = None
        self.scope.commit()
        self.tick += 1
        deltas = {
            name: self._nothing[name]
            if port.out is None
            else ZSet.wrap(port.columns, self.interner, port.out)
            for name, port in self._outputs.items()
        }
        absent = {name: port.absent for name, port in self._inputs.items() if port.absent}
        present = {name: port.present for name, port in self._inputs.items() if port.present}
        if rows > _MANY:
            self.scope.forget()
        result = TickResult(deltas, self.tick, time.perf_counter() - started, absent, present)
        if log is not None:
            log.committed(result, label)
        if self.scope.listeners:
            self._tell()
        return result

    def _tell(self) -> None:
        """Let every tap tell of the committed tick, also when one of them fails."""
        failures = []
        self._stepping = True
        try:
            for tap in self.scope.listeners:
                try:
                    tap.notify()
                except DbspError as error:
                    failures.append(error)
        finally:
            self._stepping = False
        if failures:
            raise failures[0]

    def spark_sink(self, relation: str, **settings: Any) -> Callable[[Any, int], None]:
        """The function that feeds an input from Spark: `df.writeStream.foreachBatch(run.spark_sink("edge"))`.

        The same as `dbsp.spark.feed(run, relation, ...)`.
        """
        from dbsp.spark import feed

        return feed(self, relation, **settings)

    def _find_ports(self) -> None:
        steps = self.scope.steps
        self._inputs = {s.relation: s for s in steps if isinstance(s, InputPort)}
        self._outputs = {s.relation: s for s in steps if isinstance(s, OutputPort)}

    def replan(self, circuit: Graph | None = None) -> Replanned:
        """Go on with the circuit that is best for the data of now; the ticks go on as if nothing was.

        A run of a compiled program has a planner, which chooses the circuit by counting the rows
        that are there. For a circuit built by hand give the physical form of another one of the same
        query, `run.replan(other.circuit("physical"))`. What both circuits keep goes over as it is, the
        rest is made anew from it (see `dbsp.runtime.transplant`); no output hands out anything. All or
        nothing: when this raises, the run goes on with the circuit that it has. With a checkpoint, the
        new circuit is what a run goes on with from the next snapshot on.

        Raises CircuitError when there is no planner and no circuit is given, when the circuit is of
        another query, needs rows that the run does not keep, or has a node that depends on ticks (a
        delay, a watermark) and is not in the present one; also what evaluating new nodes raises.
        """
        if self._stepping:
            raise CircuitError("replan was called from inside a step, by a function of the circuit")
        started = time.perf_counter()
        if circuit is None and self.planner is None:
            raise CircuitError(
                "this run has no planner, for its circuit was built by hand or is not the physical one; "
                'give the circuit to go on with: run.replan(other.circuit("physical"))'
            )
        if circuit is not None:
            done = self.switch_to(Proposal(circuit))
        else:
            assert self.planner is not None
            proposal = self.planner.propose(self)
            done = Replanned() if proposal is None else self.switch_to(proposal)
            if proposal is not None:
                self.planner.adopt(proposal)
        self.record_sizes()
        return replace(done, seconds=time.perf_counter() - started)

    def switch_to(self, proposal: Proposal) -> Replanned:
        """Exchange the circuit, as `replan` does, for one that somebody has chosen already."""
        if self.log is not None:
            proposal.graph.to_json()  # a later snapshot has to tell the circuit; raises if it cannot
        self._stepping = True
        try:
            made = Transplant(self.scope, proposal.graph)
        finally:
            self._stepping = False
        self.graph = proposal.graph
        self.scope = made.scope
        self._find_ports()
        for name, handle in self._handles.items():
            handle._port = self._inputs[name]
        made.release()
        return Replanned(proposal.changes, made.kept, made.rebuilt, made.dropped)

    def rows(self, relation: str) -> Codes | None:
        """The rows of positive weight of a relation as int64[n, arity] codes, sorted, if it is kept.

        A relation is an input, or what a program calls one. None when the circuit keeps its
        integral nowhere. O(n log n) for n rows; the very array of the trace if that is one run in
        the relation's column order.
        """
        keeper = self._keeper(relation)
        if keeper is None:
            return None
        batch = keeper.integral()
        present = batch.weights > 0
        return batch.rows if present.all() else np.ascontiguousarray(batch.rows[present])

    def asserted(self, name: str) -> ZSet:
        """The rows that were put into an input, without those that rules of a program derive for it.

        O(n log n) for n rows. Raises InputError when there is no such input, CircuitError when the circuit
        keeps no integral of it, as one built by hand may for an input of kind "zset".
        """
        port = self._port(name)
        keeper = self.scope.keeper(port.node)
        if keeper is None:
            raise CircuitError(f"the circuit does not keep the rows of its input '{name}'")
        batch = keeper.integral()
        return ZSet.wrap(port.columns, self.interner, batch).positive()

    def drift(self) -> float:
        """How far the data is from what it was at the time of planning: 1.0 is not at all.

        The largest factor by which the rows kept of any relation have become more or fewer since the
        start or the latest `replan`, counted from 1 up; rows that were retracted but not merged yet
        count. O(relations).
        """
        now = self._sizes()
        pairs = [(rows + 1, self._planned_for.get(name, 0) + 1) for name, rows in now.items()]
        return max((max(a, b) / min(a, b) for a, b in pairs), default=1.0)

    def record_sizes(self) -> None:
        """From now on `drift` compares with the sizes that the relations have now."""
        self._planned_for = self._sizes()

    def _sizes(self) -> dict[str, int]:
        """The rows kept of every relation that is kept."""
        sizes = {}
        for name in self.graph.named:
            keeper = self._keeper(name)
            if keeper is not None:
                sizes[name] = keeper.kept_rows
        return sizes

    def _keeper(self, relation: str) -> KeepingStep | None:
        """The step that keeps the integral of a relation."""
        port = self._inputs.get(relation)
        stream = self.graph.named.get(relation)
        if stream is None and port is not None:
            return self.scope.keeper(port.node)
        for scope in self.scope.scopes():
            if stream is not None and stream.node in scope.by_node:
                return scope.keeper(stream.node)
        return None

    def __repr__(self) -> str:
        ports = f"({', '.join(self._inputs)}) -> ({', '.join(self._outputs)})"
        return f"<run of '{self.graph.name}': {ports}, {self.tick} ticks, {self.state_rows} rows kept>"

    def __del__(self) -> None:
        # Steps refer to each other, so the collector may come late; the memory is in the traces.
        if hasattr(self, "scope"):
            self.scope.release()

    def view(self, name: str) -> ZSet:
        """The integral of an output: what it holds after the latest tick. O(n log n) for n rows."""
        port = self._outputs.get(name)
        if port is None:
            raise InputError(f"there is no output '{name}'{did_you_mean(name, self._outputs)}")
        return ZSet.wrap(port.columns, self.interner, port.view())

    def observe(self, on: bool = True) -> None:
        """Switch statistics per node on (from zero) or off."""
        statistics.observe(self.scope, on)

    def stats(self) -> list[NodeStats]:
        """What every node has done since `observe()`, those of nested scopes after their scope."""
        return statistics.collect(self.scope)

    def join_terms(self) -> dict[Node, tuple[Any, ...]]:
        """By multi-way join, what each of its delta terms has met: changed rows, prefixes per level.

        Counted since the start of the run, in ticks that failed too; nested scopes over all iterations.
        """
        return self.reported("join terms")

    def evaluations(self) -> dict[Node, str]:
        """By fixpoint, how it is evaluated at present (see `dbsp.operators.recursion.modes`)."""
        return self.reported("evaluation")

    def reported(self, fact: str) -> dict[Node, Any]:
        """By node, a fact that steps of its kind report of themselves (see `ReportingStep`)."""
        reports = {
            node: step.report() for node, step in _steps(self.scope) if isinstance(step, ReportingStep)
        }
        return {node: facts[fact] for node, facts in reports.items() if fact in facts}

    def kept(self) -> dict[Node, tuple[int, int]]:
        """By node that keeps a trace, its rows and bytes; rows that were retracted but not merged count."""
        return {
            node: (step.trace.rows, step.trace.nbytes)
            for node, step in _steps(self.scope)
            if isinstance(step, TracedStep)
        }

    def iterations(self) -> dict[str, int]:
        """How often each fixpoint was iterated in the latest tick, by name; 0 when it had nothing to do.

        A scope within another one is named `outer/inner`, and counts its latest run.
        """
        return dict(_iterations(self.scope, ""))

    @property
    def state_rows(self) -> int:
        """Rows kept in all traces and tables."""
        scope = self.scope
        return sum(trace.rows for trace in scope.traces) + sum(table.rows for table in scope.tables)

    @property
    def state_bytes(self) -> int:
        """Bytes of the rows and weights kept in all traces, and of the tables."""
        scope = self.scope
        return sum(trace.nbytes for trace in scope.traces) + sum(table.nbytes for table in scope.tables)

    def compact(self) -> None:
        """Merge every trace into one run, so that nothing retracted takes room any more.

        Also lets go of the deltas of the latest tick inside of the circuit, and gives freed memory back to
        the system.
        """
        self.scope.forget()
        for trace in self.scope.traces:
            trace.compact()
        give_back()

    def _port(self, name: str) -> InputPort:
        port = self._inputs.get(name)
        if port is None:
            if name in self._outputs:
                raise InputError(f"relation '{name}' is derived; it cannot be changed directly")
            raise InputError(f"there is no input '{name}'{did_you_mean(str(name), self._inputs)}")
        return port

    def prepare(self, changes: Changes | None = None) -> dict[str, Batch]:
        """The changes and those staged before as `step_staged` takes them, by input. Errors as `step`."""
        pieces = {n: taken for n, handle in self._handles.items() if (taken := handle._take())}
        ordered = set(pieces)
        if changes is not None:
            if not isinstance(changes, Mapping):
                raise InputError(
                    "the changes of a step are a mapping from inputs to changes of each,"
                    f" not {shorten(changes)} ({type(changes).__name__})"
                )
            for name, change in changes.items():
                port = self._port(name)
                pieces.setdefault(name, []).append(encode_change(change, port, self.interner))
                if not isinstance(change, Mapping | ZSet):
                    ordered.add(name)
        staged = {}
        for name, parts in pieces.items():
            port = self._inputs[name]
            codes, weights = parts[0]
            if len(parts) > 1:
                codes = np.concatenate([part[0] for part in parts])
                weights = np.concatenate([part[1] for part in parts])
            if len(weights) > 1:
                if port.kind != "zset" and name in ordered:
                    key = port.key or tuple(range(port.columns.arity))
                    codes, weights = last_wins(codes, weights, key)
                try:
                    codes, weights = consolidate(codes, weights)
                except OverflowError as error:
                    where = f"relation '{name}'"
                    raise WeightOverflowError(overflow_text(error), where=where) from None
            if len(weights) and weights[0] != 0:
                self._check_ranges(name, codes)
                staged[name] = Batch(codes, weights)
        return staged

    def _check_ranges(self, name: str, codes: Codes) -> None:
        """Raises ValueOutOfRangeError for a value that its column does not take."""
        for column, range_ in self.ranges.get(name, {}).items():
            values = codes[:, self._inputs[name].columns.index(column)]
            outside = (values < range_.low) | (values > range_.high)
            if outside.any():
                error = range_.refusal(int(values[np.argmax(outside)]))
                error.where = f"relation '{name}', column '{column}'"
                raise error


def _steps(scope: Scope) -> Iterator[tuple[Node, Step]]:
    """Every node with its step, those of nested scopes after their scope."""
    for one in scope.scopes():
        yield from one.by_node.items()


def _iterations(scope: Scope, prefix: str) -> Iterator[tuple[str, int]]:
    for child in scope.children:
        name = prefix + child.graph.name
        yield name, child.iterations
        yield from _iterations(child, f"{name}/")
