"""The run behind the page: its ticks, its rows and its circuits, used by one thread at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.stage import Stage
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, DbspError, InputError, choice
from dbsp.inspector.circuit_document import CircuitDocument
from dbsp.inspector.edited_changes import Ranges, editable, read_edits
from dbsp.inspector.row_pages import SortedRows
from dbsp.inspector.stored_integrals import stored_integral
from dbsp.inspector.tick_record import NodeWork, TickRecord
from dbsp.io.change_script import ScriptTick
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult


class StagedQuery(Protocol):
    """A program or a circuit: it returns its circuit in each stage."""

    def circuit(self, stage: Stage | str = ...) -> Graph: ...


class InspectedRun:
    """A run with what the page shows of it. Every method holds the lock while it uses the run."""

    def __init__(
        self, run: Run, query: StagedQuery | None, script: Sequence[ScriptTick], history: int
    ) -> None:
        self.run = run
        self._query = query
        self._script = deque(script)
        self._script_ticks = len(script)
        self._lock = threading.RLock()
        self._document = CircuitDocument(run.graph)
        self._changed = threading.Condition()
        self._version = 0
        self._records: deque[TickRecord] = deque(maxlen=history)
        self._stage = lru_cache(maxsize=None)(self._stage_document)
        self._sorted: tuple[object, SortedRows] | None = None
        run.observe()
        self._totals: dict[Node, tuple[int, int, float]] = {}

    # --- ticks ------------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[Run]:
        """Hold the lock, for a caller that uses the run itself."""
        with self._lock:
            before = self.run.tick
            try:
                yield self.run
            finally:
                if self.run.tick != before:
                    self._note(None)

    def step(self, changes: Mapping[str, InputChange] | None = None) -> TickResult:
        """Apply one tick and record it. Raises the errors of `Run.step`."""
        with self._lock:
            before = self.run.tick
            result = None
            try:
                result = self.run.step(changes)
            finally:
                # The tick of a callback that raises is committed all the same.
                if self.run.tick != before:
                    self._note(result)
            return result

    def step_script(self) -> TickResult:
        """Apply the next tick of the change script; a tick that fails stays the next one."""
        with self._lock:
            if not self._script:
                raise InputError("the change script has no more ticks", code="invalid-change")
            before = self.run.tick
            try:
                return self.step(self._script[0].changes)
            finally:
                if self.run.tick != before:
                    self._script.popleft()

    def step_edits(self, edits: object) -> TickResult:
        """Apply the edited rows of the page as one tick."""
        with self._lock:
            return self.step(read_edits(edits, self.run.inputs, self._ranges))

    @property
    def _ranges(self) -> Ranges:
        return self.run.ranges

    def _note(self, result: TickResult | None) -> None:
        """Record the latest tick, and notify the pages."""
        if self._document.graph is not self.run.graph:
            self._document = CircuitDocument(self.run.graph)
        work = {}
        for stats in self.run.stats():
            steps, rows, seconds = self._totals.get(stats.node, (0, 0, 0.0))
            work[stats.node] = NodeWork(stats.rows_out - rows, stats.steps - steps, stats.seconds - seconds)
            self._totals[stats.node] = (stats.steps, stats.rows_out, stats.seconds)
        deltas = {
            node: step.out
            for scope in self.run.scope.scopes()
            for node, step in scope.by_node.items()
            if step.out is not None
        }
        seconds = 0.0 if result is None else result.seconds
        self._records.append(TickRecord(self.run.tick, seconds, work, deltas, self.run.iterations()))
        self._sorted = None
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def wait(self, version: int, seconds: float) -> int:
        """Wait for a change since `version`, or for some seconds; return the version."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, seconds)
            return self._version

    def wake(self) -> None:
        """End all waits."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    @property
    def version(self) -> int:
        """The number of changes of the run that the page can show."""
        return self._version

    # --- what the page shows ----------------------------------------------------------------------

    def circuit(self, stage: str) -> dict[str, Any]:
        """Return a circuit: that of the run, or that of a stage of the query."""
        with self._lock:
            if stage == "run":
                document = self._document.to_json()
            else:
                document = self._stage(choice("stage", Stage, stage)).to_json()
            return {**document, "stage": stage, "stages": self._stages, "inputs": self._inputs()}

    @property
    def _stages(self) -> list[str]:
        return ["run"] if self._query is None else ["run", "incremental", "query"]

    def _stage_document(self, stage: Stage) -> CircuitDocument:
        if self._query is None:
            raise CircuitError(
                "the inspector has the circuit of the run only; pass the program or the circuit to serve",
                code="incomplete-circuit",
            )
        return CircuitDocument(self._query.circuit(stage))

    def _inputs(self) -> list[dict[str, Any]]:
        return [
            {
                "relation": name,
                "kind": port.kind,
                "columns": [
                    {
                        "name": column,
                        "type": str(type_),
                        "nullable": type_.nullable or type_.structure is not None,
                        "editable": editable(type_),
                    }
                    for column, type_ in zip(port.columns.names, port.columns.types, strict=True)
                ],
            }
            for name, port in self.run.input_ports.items()
        ]

    def state(self, tick: int | None) -> dict[str, Any]:
        """Return the numbers of every node in a tick, by default the latest."""
        with self._lock:
            record = self._record(tick)
            numbers = self._document.numbers
            kept = self.run.kept()
            nodes: dict[str, dict[str, Any]] = {}
            for node, work in record.work.items() if record else ():
                nodes[numbers[node]] = {"rows": work.rows, "steps": work.steps, "seconds": work.seconds}
            for node, (rows, size) in kept.items():
                nodes.setdefault(numbers[node], {}).update(stored=rows, bytes=size)
            for node, (_, rows, seconds) in self._totals.items():
                nodes.setdefault(numbers[node], {}).update(allRows=rows, allSeconds=seconds)
            return {
                "version": self._version,
                "circuit": id(self._document),
                "tick": self.run.tick,
                "shown": record.number if record else self.run.tick,
                "seconds": record.seconds if record else None,
                "ticks": [each.number for each in self._records],
                "script": {"left": len(self._script), "of": self._script_ticks},
                "stateRows": self.run.state_rows,
                "stateBytes": self.run.state_bytes,
                "iterations": dict(record.iterations) if record else {},
                "nodes": nodes,
            }

    def _record(self, tick: int | None) -> TickRecord | None:
        if tick is None:
            return self._records[-1] if self._records else None
        for record in self._records:
            if record.number == tick:
                return record
        raise InputError(
            f"tick {tick} is not recorded; the inspector keeps the last {self._records.maxlen} ticks",
            code="tick-not-recorded",
        )

    def rows(self, number: str, what: str, tick: int | None, offset: int, search: str) -> dict[str, Any]:
        """Return a page of the delta or of the integral of the stream of a node."""
        with self._lock:
            rows, absent = self._sorted_rows(number, what, tick)
            if rows is None:
                return {"absent": absent, "columns": []}
            return {"columns": list(rows.zset.schema.names), **rows.page(offset, search)}

    def _sorted_rows(self, number: str, what: str, tick: int | None) -> tuple[SortedRows | None, str]:
        key = (number, what, tick, self._version)
        if self._sorted is not None and self._sorted[0] == key:
            return self._sorted[1], ""
        zset, absent = self._rows(self._node(number), what, tick)
        if zset is None:
            return None, absent
        rows = SortedRows.of(zset)
        self._sorted = (key, rows)
        return rows, ""

    def _rows(self, node: Node, what: str, tick: int | None) -> tuple[ZSet | None, str]:
        if what == "integral":
            zset = stored_integral(self.run, node)
            return zset, "The circuit does not keep the integral of this stream."
        record = self._record(tick)
        batch = record.deltas.get(node) if record else None
        if batch is None:
            return None, "The stream did not change in this tick."
        return ZSet.wrap(node.schema, self.run.interner, batch), ""

    def _node(self, number: str) -> Node:
        node = self._document.nodes.get(number)
        if node is None:
            raise InputError(f"the circuit has no node {number!r}", code="unknown-node")
        return node

    def why(self, number: str, index: int) -> dict[str, Any]:
        """Return a proof of a row of the integral of a node."""
        with self._lock:
            relation = self._document.relation(self._node(number))
            prove = getattr(self._query, "why", None)
            if relation is None or prove is None:
                raise InputError(
                    "expected a row of a relation of a Datalog program; only such rows have proofs",
                    code="no-matching-row",
                )
            rows, _ = self._sorted_rows(number, "integral", None)
            if rows is None or not 0 <= index < len(rows):
                raise InputError("the row is not there any more; read the rows again", code="no-matching-row")
            proof = prove(self.run, relation, rows.row(index))
            if proof is None:
                raise InputError("the relation does not contain the row", code="no-matching-row")
            return {"lines": list(proof.lines(12))}


def described(error: DbspError) -> dict[str, Any]:
    """Return an error in the form that the page shows."""
    return {"error": str(error), "code": error.code}
