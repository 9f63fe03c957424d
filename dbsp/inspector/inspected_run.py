"""The run behind the page: its ticks, its rows and its circuits, used by one thread at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.stage import Stage, StageName
from dbsp.compiler.program import Program
from dbsp.compiler.started_program import StartedProgram
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, DbspError, InputError, choice
from dbsp.inspector.circuit_document import CircuitDocument
from dbsp.inspector.edited_changes import editable, read_edits
from dbsp.inspector.lessons import Lesson
from dbsp.inspector.row_pages import SortedRows
from dbsp.inspector.tick_work import CommitSignal, TickWork
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.past_integrals import integral_of
from dbsp.runtime.run import Run
from dbsp.runtime.stream_lookup import scope_name
from dbsp.runtime.tick_recording import Recording
from dbsp.runtime.tick_result import TickResult

PROOF_DEPTH = 12
"""The number of rules that a shown proof follows."""


class PlannedTick(Protocol):
    """A tick that the page can apply: of a change script, or of a lesson."""

    @property
    def changes(self) -> Mapping[str, Mapping[tuple[Any, ...], int]]: ...


class LessonPlace(NamedTuple):
    """A lesson, and its place among the lessons of a tour."""

    lesson: Lesson
    number: int
    of: int


class StagedQuery(Protocol):
    """A program or a circuit: it returns its circuit in each stage."""

    def circuit(self, stage: Stage | StageName = ...) -> Graph: ...


class InspectedRun:
    """A run with what the page shows of it. Every method holds the lock while it uses the run."""

    def __init__(
        self,
        run: Run,
        query: StagedQuery | None,
        script: Sequence[PlannedTick],
        history: int,
        max_rows: int,
        place: LessonPlace | None = None,
    ) -> None:
        self.run = run
        self._place = place
        self._served = query
        self._started = run.program
        """The program of the run at the latest look; an update replaces it."""
        self._script = deque(script)
        self._script_ticks = len(script)
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._version = 0
        """The number of changes that the page can show."""
        self._document = CircuitDocument(run.graph)
        self._documents = 0
        """The number of circuits to which the run has switched."""
        self._stages: dict[Stage, CircuitDocument] = {}
        self._work: dict[int, TickWork] = {}
        self._sorted: tuple[object, SortedRows] | None = None
        run.refuse_inside_tick("serve")
        self._recording = Recording(run, history, None, max_rows, timed=True)
        self._signal = CommitSignal(self.wake)
        run.attach(self._signal)

    def release(self) -> None:
        """Observe the run no longer."""
        with self._lock:
            self._recording.stop()
            self.run.detach(self._signal)

    # --- ticks ------------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[Run]:
        """Hold the lock, for a caller that uses the run itself."""
        with self._lock:
            yield self.run

    def step(self, changes: Mapping[str, InputChange] | None = None) -> TickResult:
        """Apply one tick. Raises the errors of `Run.step`."""
        with self._lock:
            return self.run.step(changes)

    def step_script(self) -> TickResult:
        """Apply the next tick of the change script; a tick that fails stays the next one."""
        with self._lock:
            if not self._script:
                raise InputError("the change script has no more ticks", code="invalid-change")
            before = self.run.tick
            try:
                return self.run.step(self._script[0].changes)
            finally:
                # The tick of a callback that raises is committed all the same.
                if self.run.tick != before:
                    self._script.popleft()

    def step_edits(self, edits: object) -> TickResult:
        """Apply the edited rows of the page as one tick."""
        with self._lock:
            return self.run.step(read_edits(edits, self.run.inputs, self.run.ranges))

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
        """The number of changes that the page can show."""
        return self._version

    # --- circuits and their numbers ---------------------------------------------------------------

    @property
    def _query(self) -> StagedQuery | None:
        """The program or circuit that the run has now."""
        if self.run.program is not self._started:
            self._started = self.run.program
            self._stages.clear()
            if isinstance(self._started, StartedProgram) and isinstance(self._started.program, Program):
                self._served = self._started.program
        return self._served

    def _current(self) -> CircuitDocument:
        """Return the document of the circuit that the run has now."""
        if self._document.graph is not self.run.graph:
            self._document = CircuitDocument(self.run.graph)
            self._documents += 1
        return self._document

    def circuit(self, stage: str) -> dict[str, Any]:
        """Return the circuit of the run ("run"), or that of a stage of the query."""
        with self._lock:
            document = self._current() if stage == "run" else self._staged(choice("stage", Stage, stage))
            stages = ["run"] if self._query is None else ["run", Stage.INCREMENTAL, Stage.QUERY]
            return {
                **document.to_json(),
                "stage": stage,
                "stages": stages,
                "proofs": isinstance(self._query, Program),
                "inputs": self._inputs(),
            }

    def _staged(self, stage: Stage) -> CircuitDocument:
        query = self._query
        if stage not in self._stages:
            if query is None:
                raise CircuitError(
                    "the inspector has the circuit of the run only; pass the program or the circuit to serve",
                    code="incomplete-circuit",
                )
            self._stages[stage] = CircuitDocument(query.circuit(stage), terms=True)
        return self._stages[stage]

    def _inputs(self) -> list[dict[str, Any]]:
        query = self._query
        declared = query.type_names if isinstance(query, Program) else {}
        return [
            {
                "relation": name,
                "kind": port.kind,
                "columns": [
                    {
                        "name": column,
                        "type": declared.get(name, {}).get(column, str(type_)),
                        "nullable": type_.nullable or type_.structure is not None,
                        "editable": editable(type_),
                    }
                    for column, type_ in zip(port.columns.names, port.columns.types, strict=True)
                ],
            }
            for name, port in self.run.input_ports.items()
        ]

    def state(self, tick: int | None) -> dict[str, Any]:
        """Return the numbers of every operator in a recorded tick, by default the latest."""
        with self._lock:
            done = self._work_of(tick)
            ids = self._current().ids
            nodes: dict[str, dict[str, Any]] = {}
            if done is not None and done.graph is self._document.graph:
                emitted = self._emitted(done)
                for node, work in done.work.items():
                    nodes[ids[node]] = {
                        "rows": emitted[node],
                        "steps": work.steps,
                        "seconds": work.seconds,
                    }
                for node, id in ids.items():
                    for scope in node.operator.children():
                        nodes.setdefault(id, {})["iterations"] = done.iterations.get(scope, 0)
            for node, (rows, size) in self.run.kept().items():
                nodes.setdefault(ids[node], {}).update(stored=rows, bytes=size)
            for work_of_tick in self._works():
                for node, work in work_of_tick.work.items():
                    if node in ids:
                        facts = nodes.setdefault(ids[node], {})
                        facts["allSeconds"] = facts.get("allSeconds", 0.0) + work.seconds
            return {
                "version": self._version,
                "circuit": self._documents,
                "tick": self.run.tick,
                "shown": self.run.tick if done is None else done.number,
                "seconds": None if done is None else done.seconds,
                "note": self._note_on(done),
                "ticks": list(self._recording.ticks),
                "script": {"left": len(self._script), "of": self._script_ticks},
                "lesson": self._lesson(),
                "stateRows": self.run.state_rows,
                "stateBytes": self.run.state_bytes,
                "fileBytes": self.run.file_bytes,
                "nodes": nodes,
            }

    def _lesson(self) -> dict[str, Any] | None:
        if self._place is None:
            return None
        lesson, number, of = self._place
        done = self._script_ticks - len(self._script)
        return {
            "number": number,
            "of": of,
            "title": lesson.title,
            "paragraphs": lesson.paragraphs,
            "next": lesson.ticks[done].text if self._script else lesson.end,
        }

    def _emitted(self, done: TickWork) -> dict[Node, int]:
        """Return the number of rows that each operator emitted in a tick."""
        return {
            node: sum(map(len, self._recording.by_iteration(node, done.number).values()))
            for node in done.work
        }

    def _works(self) -> list[TickWork]:
        """Return the work of all recorded ticks."""
        known = self._work
        self._work = {
            number: known.get(number) or TickWork(self._recording.recorded(number))
            for number in self._recording.ticks
        }
        return list(self._work.values())

    def _work_of(self, tick: int | None) -> TickWork | None:
        works = self._works()
        if tick is None:
            return works[-1] if works else None
        for work in works:
            if work.number == tick:
                return work
        raise InputError(
            f"tick {tick} is not recorded; the inspector keeps the last {len(works)} ticks, so choose a "
            "later one, or keep more with history= and max_rows=",
            code="not-recorded",
        )

    def _note_on(self, done: TickWork | None) -> str:
        """Return what the numbers of a tick do not show."""
        if done is None:
            return ""
        if done.graph is not self._document.graph:
            return "The run has switched to another circuit since this tick."
        if done.truncated:
            return "The inspector does not keep the rows and times of this tick: they are too many."
        names = self._recording.scopes(done.number).items()
        restarted = [name for name, how in names if how == "restart"]
        converged = [name for name, how in names if how == "converged early"]
        notes = []
        if restarted:
            notes.append(
                f"The tick evaluated {_listed(restarted)} from scratch; inside, the numbers are those of "
                "this evaluation."
            )
        if converged:
            notes.append(
                f"The tick retracted the rows of the later iterations of {_listed(converged)} at once, "
                "without iterating."
            )
        return " ".join(notes)

    # --- rows -------------------------------------------------------------------------------------

    def rows(
        self, id: str, what: str, tick: int | None, iteration: int | None, offset: int, search: str
    ) -> dict[str, Any]:
        """Return a page of the rows of a stream.

        `what` is "delta", the change in the tick or what an iteration of it emitted, or "integral",
        the rows after the tick.
        """
        with self._lock:
            rows = self._sorted_rows(id, what, tick, iteration)
            return {"columns": list(rows.zset.schema.names), **rows.page(offset, search)}

    def _sorted_rows(self, id: str, what: str, tick: int | None, iteration: int | None) -> SortedRows:
        if what not in ("delta", "integral"):
            raise InputError(
                f"what: expected 'delta' or 'integral', got {what[:40]!r}", code="invalid-argument"
            )
        key = (id, what, tick, iteration, self._version)
        if self._sorted is None or self._sorted[0] != key:
            self._sorted = (key, SortedRows.of(self._rows(self._node(id), what, tick, iteration)))
        return self._sorted[1]

    def _rows(self, node: Node, what: str, tick: int | None, iteration: int | None) -> ZSet:
        if what == "integral":
            if tick is None or tick == self.run.tick:
                return ZSet.wrap(node.schema, self.run.interner, integral_of(self.run.scope, node, ()))
            return self._recording.integral(node, tick)
        done = self._work_of(tick)
        if done is None:
            return ZSet.empty(node.schema)
        if iteration is None:
            # In a tick of another circuit, only the relations of the query have the same stream.
            relation = self._document.relations.get(self._document.ids[node])
            other = relation is not None and done.graph is not node.graph.root
            return self._recording.delta(relation if other and relation else node, done.number)
        total = ZSet.empty(node.schema, self.run.interner)
        for time, delta in self._recording.by_iteration(node, done.number).items():
            if time[-1:] == (iteration,):
                total = total + delta
        return total

    def iterations(self, id: str, tick: int | None) -> dict[str, Any]:
        """Return by iteration of a scope the number of rows that each operator in it emitted."""
        with self._lock:
            scopes = self._node(id).operator.children()
            done = self._work_of(tick)
            if not scopes:
                raise InputError("expected a scope, got an operator without one", code="unknown-stream")
            if done is None:
                return {"iterations": []}
            by_path = {path: id for id, path in self._document.paths.items()}
            found = self._recording.iterations(scope_name(scopes[0]), done.number)
            return {
                "iterations": [
                    {
                        "time": list(each.time),
                        "nodes": {by_path[path]: {"rows": len(delta)} for path, delta in each.deltas.items()},
                    }
                    for each in found
                ]
            }

    def _node(self, id: str) -> Node:
        node = self._current().nodes.get(id)
        if node is None:
            raise InputError(f"the circuit of the run has no operator {id!r}", code="unknown-stream")
        return node

    # --- proofs -----------------------------------------------------------------------------------

    def why(self, id: str, what: str, index: int) -> dict[str, Any]:
        """Return why a row is in a relation ("integral"), or why the latest tick changed it
        ("delta")."""
        with self._lock:
            self._node(id)
            relation, query = self._current().relations.get(id), self._query
            if relation is None or not isinstance(query, Program):
                raise InputError(
                    "expected a row of a relation of a Datalog program; only such rows have proofs",
                    code="no-matching-row",
                )
            rows = self._sorted_rows(id, what, None, None)
            if index >= len(rows):
                raise InputError(f"'{relation}' has no such row; read the rows again", code="no-matching-row")
            row = rows.row(index)
            if what == "delta":
                return {"lines": list(query.why_changed(self.run, relation, row).lines(PROOF_DEPTH))}
            proof = query.why(self.run, relation, row)
            if proof is None:  # an input of kind "zset" may have rows of negative weight
                raise InputError(f"'{relation}' does not contain this row", code="no-matching-row")
            return {"lines": list(proof.lines(PROOF_DEPTH))}


def described(error: DbspError) -> dict[str, Any]:
    """Return an error in the form that the page shows."""
    return {"error": str(error), "code": error.code}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
