"""Inject faults: an exception at the k-th step of the interpreter during a tick, for every k.

The run must then equal one that never saw the tick, or, if it counts the tick, one that did; and so
must all later deltas. With a checkpoint, so must a run that opens the folder again.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dbsp
from benchmarks.fault_circuits import CIRCUITS, Change, FaultCircuit
from dbsp import Run
from dbsp.caller_tracebacks import is_own
from dbsp.durable import Store

KINDS = (KeyboardInterrupt, MemoryError)
STRIDES = {"small": 101, "medium": 11, "large": 1}
"""By size, one step in how many gets a fault."""


_TINY = 256
"""A memory limit in bytes."""


class Injector:
    """Raises an exception at the `at`-th step of the interpreter within dbsp during a call.

    A step is the call of a function, a line or a return; with `opcodes`, every bytecode, too. With
    `again`, a second exception follows that many calls or returns later, as while the first one is
    handled.
    """

    def __init__(self, kind: type[BaseException], at: int, again: int | None, opcodes: bool) -> None:
        self._kind = kind
        self._left = at
        self._again = again
        self._opcodes = opcodes
        self.place = ""
        """The line at which the exception was raised; empty if the call took fewer steps."""

    def call(self, function: Callable[[], Any]) -> BaseException | None:
        """Call the function; return the exception that it raised."""
        before = sys.gettrace(), sys.getprofile()
        try:
            sys.settrace(self._trace)
            function()
        except BaseException as error:
            return error
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
        return None

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not _inside(frame):
            return None
        if self._opcodes:
            frame.f_trace_opcodes = True
        if event != "exception":
            self._left -= 1
            if self._left < 0 and not self.place:
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                if self._again is not None:
                    sys.setprofile(self._profile)
                raise self._kind
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if _inside(frame) and self._again is not None:
            self._again -= 1
            if self._again < 0:
                self._again = None
                raise KeyboardInterrupt


_KERNELS = "dbsp.kernels"
"""A kernel is one step, whether it is interpreted or compiled."""

_ALLOCATIONS = ("dbsp.kernels.growing_memory", "dbsp.kernels.narrow_rows")
"""The modules beside the kernels whose functions are not kernels: they allocate and copy arrays."""


def _inside(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    if name.startswith(_KERNELS):
        return name in _ALLOCATIONS
    return is_own(frame) or name.startswith("sortedcontainers.")


@dataclass
class Campaign:
    """The outcome of the faults in one circuit."""

    circuit: str
    kind: str
    how: str
    steps: int = 0
    undone: int = 0
    committed: int = 0
    problems: list[str] = field(default_factory=list)


def inject(
    circuit: FaultCircuit,
    kind: type[BaseException],
    how: str = "step",
    *,
    opcodes: bool = False,
    stride: int = 1,
    seed: int = 1,
) -> Campaign:
    """Inject a fault at every `stride`-th step of a tick.

    `how` is the form of the tick: "step" with changes, "tables" with insertions as tables by
    columns, which must stay as they are, "staged" by handles before, "stage" with the fault in the
    handles, "durable" with a checkpoint, "reopened" from it after each fault,
    "background" the same with snapshots in the background, "spilled" with a memory limit so small
    that the state is in files, "replan" and "compact" with the fault in these, "transaction" and
    "reopened transaction" row by row.
    """
    with tempfile.TemporaryDirectory() as folder:
        attempt = _Attempt(circuit, how, Path(folder), random.Random(seed))
        done = Campaign(circuit.name, kind.__name__, how)
        at = random.Random(seed).randrange(stride)
        while attempt.fault(kind, at, opcodes, done) and len(done.problems) < 5:
            at += stride
        attempt.end()
        done.steps = at
        return done


class _Attempt:
    """A run with faults, and one without."""

    def __init__(self, circuit: FaultCircuit, how: str, folder: Path, chance: random.Random) -> None:
        self._circuit = circuit
        self._how = how
        self._folder = folder / "checkpoint"
        self._chance = chance
        self._start()

    def _start(self) -> None:
        """Start both runs, also again after a problem."""
        self._ticks = 0
        self._faulty = self._open()
        self._right = self._circuit.start()
        for run in (self._faulty, self._right):
            run.step(self._circuit.first)
        other = self._right.graph if self._circuit.other is None else self._circuit.other()
        self._graphs = [self._faulty.graph, other]

    def end(self) -> None:
        """Release the folder."""
        _abandon(self._faulty)

    def _open(self) -> Run:
        if self._how == "spilled":
            return self._circuit.start(memory_limit=_TINY)
        if self._how not in ("durable", "reopened", "background", "reopened transaction"):
            return self._circuit.start()
        background = self._how == "background"
        store = Store(self._folder, snapshot_every=3, sync=False, background=background)
        return self._circuit.start(checkpoint=store)

    def fault(self, kind: type[BaseException], at: int, opcodes: bool, done: Campaign) -> bool:
        """Inject one fault and check everything after it; return whether the fault was reached."""
        change = self._circuit.tick(self._ticks)
        again = self._chance.randrange(80) if at % 2 else None
        injector = Injector(kind, at, again, opcodes)
        staged = self._how == "staged"
        if staged:
            self._stage(change)
        given = self._given(change)
        error = injector.call(self._work(given))
        raised, text = error is not None, repr(error)
        error = None  # a caller has handled it: its traceback would keep a transaction open
        where = f"{self._circuit.name}, {self._how}, step {at} at {injector.place} ({again}): "
        if raised and not injector.place:
            done.problems.append(f"{where}{text}")
            return False
        try:
            if self._how == "tables":
                _expect("tables of the caller", str(given), str(self._given(change)))
            self._check(change, staged, raised, done)
        except Exception as problem:
            done.problems.append(f"{where}{type(problem).__name__}: {problem}")
            _abandon(self._faulty)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._start()
        return bool(injector.place)

    def _given(self, change: Change) -> dict[str, Any]:
        """Return the change in the form in which the caller gives it."""
        given: dict[str, Any] = {**change}
        if self._how == "tables":
            for name, rows in change.items():
                repeated = [row for row, weight in rows.items() for _ in range(weight)]
                columns = [np.array(column) for column in zip(*repeated, strict=True)]
                if columns:  # a retraction stays a mapping
                    names = self._faulty.input_port(name).columns.names
                    given[name] = dict(zip(names, columns, strict=True))
        return given

    def _work(self, change: Any) -> Callable[[], Any]:
        run = self._faulty
        if self._how == "stage":
            return lambda: self._stage(change)
        if self._how == "replan":
            circuit = next(graph for graph in self._graphs if graph is not run.graph)
            return lambda: run.replan(circuit)
        if self._how == "compact":
            return run.compact
        if self._how in ("transaction", "reopened transaction"):
            return lambda: _apply_rows(run, change)
        return run.step if self._how == "staged" else lambda: run.step(change)

    def _stage(self, change: Change) -> None:
        for name, rows in change.items():
            self._faulty.input(name).add(rows)

    def _check(self, change: Change, staged: bool, raised: bool, done: Campaign) -> None:
        if self._how in ("reopened", "background", "reopened transaction"):
            before = self._faulty.tick
            _abandon(self._faulty)
            self._faulty = self._open()
            _expect("tick after reopening", self._faulty.tick, before)
        if self._how == "stage":
            staged = all(len(self._faulty.input(name).staged) == 1 for name in change)
            if not staged:
                for name in change:
                    self._faulty.input(name).clear()
        ticked = self._faulty.tick > self._right.tick
        if raised:
            done.committed += ticked
            done.undone += not ticked
        if ticked:
            self._right.step(change)
        if self._chance.random() < 0.5:
            self._compare_views()
        if not ticked:
            again = None if staged else self._given(change)
            self._compare(self._faulty.step(again), self._right.step(change))
        self._ticks += 1
        for _ in range(2):  # so every other fault is in a tick that retracts rows
            following = self._circuit.tick(self._ticks)
            self._compare(self._faulty.step(following), self._right.step(following))
            self._ticks += 1
        self._compare_views()

    def _compare(self, mine: dbsp.TickResult, right: dbsp.TickResult) -> None:
        _expect("number of the tick", mine.number, right.number)
        for name in right:
            _expect(f"delta of {name}", mine[name].to_dict(), right[name].to_dict())

    def _compare_views(self) -> None:
        for name in self._right.outputs:
            _expect(f"view {name}", self._faulty.view(name).to_dict(), self._right.view(name).to_dict())


def _apply_rows(run: Run, change: Change) -> None:
    """Apply a change as one tick, one row at a time."""
    with run.transaction() as transaction:
        for name, rows in change.items():
            for row, weight in rows.items():
                transaction.step({name: {row: weight}})


def _abandon(run: Run) -> None:
    if run.log is not None:
        run.log.close()


def _expect(what: str, mine: Any, right: Any) -> None:
    if mine != right:
        raise AssertionError(f"{what}: expected {right!r}, got {mine!r}")


HOW = (
    "step",
    "staged",
    "stage",
    "durable",
    "reopened",
    "background",
    "spilled",
    "replan",
    "compact",
    "transaction",
    "reopened transaction",
)


def measure_faults(stride: int = 1, only: str = "") -> Iterator[Campaign]:
    """Inject faults into every circuit in every way."""
    for circuit in CIRCUITS:
        if only in circuit.name:
            for how in HOW:
                for kind in KINDS:
                    yield inject(circuit, kind, how, stride=stride)
