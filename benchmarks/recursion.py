"""Recursive programs: load, memory, small and large changes, compared with a fresh run and duckdb.

Each program is measured in every recursion mode, in a new process. `play` deletes random rows and
inserts them again. It compares the times with those of a fresh insert-only run that loads the
current input. (The same process loads the fresh run right after the tick, so that both run under
the same conditions.) Times are processor times.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.changes import Codes
from benchmarks.contest import Outcome, checksum_of, resident_bytes
from benchmarks.every_kernel import use_every_kernel
from benchmarks.processes import in_new_process
from benchmarks.recursive_programs import CASES, GALEN, Case, Relations, galen
from dbsp.runtime.input_changes import TableChange

MODES = ("auto", "incremental", "insert-only")
PEER = "duckdb, from scratch"

SAMPLES = 20
"""Maximum number of deletions, and of insertions, of a phase."""

FEWEST = 3
"""Minimum number of each: after insert-only recursion, the first deletion is a special case."""

FRESH = 3
"""Maximum number of fresh runs per phase, each after a deletion."""

Outcomes = tuple[Outcome, ...]


@dataclass
class Phase:
    """Changes of one kind: delete a number of rows, and insert them again.

    `fresh` holds the times of fresh runs after the first deletions, `result` the result after the
    first deletion.
    """

    name: str
    rows: int
    deletions: list[float] = field(default_factory=list)
    insertions: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    result: Outcomes = ()

    def ratios(self, whole: float) -> tuple[float, float, float, float]:
        """Return the ratios of median and slowest deletions and insertions to a fresh run.

        `whole` is the time of a fresh run over the whole input.
        """
        fresh_median = statistics.median(self.fresh)
        fresh_times = [*self.fresh, *[fresh_median] * (len(self.deletions) - len(self.fresh))]
        slowest = max(tick / fresh for tick, fresh in zip(self.deletions, fresh_times, strict=True))
        return (
            statistics.median(self.deletions) / fresh_median,
            slowest,
            statistics.median(self.insertions) / whole,
            max(self.insertions) / whole,
        )


@dataclass
class Measured:
    """A program in a recursion mode, or the query in duckdb.

    `before` is the memory of the process before the load; other bytes are the growth of the
    process. `stored` counts the rows and weights of all traces after compaction.
    """

    case: str
    contestant: str
    inputs: int = 0
    before: int = 0
    load: float = 0.0
    fresh: list[float] = field(default_factory=list)
    resident: int = 0
    compacted: int = 0
    peak: int = 0
    stored: int = 0
    phases: list[Phase] = field(default_factory=list)
    result: Outcomes = ()
    note: str = ""
    failed: bool = False

    @property
    def rows(self) -> int:
        """The rows of the result."""
        return sum(outcome.rows for outcome in self.result)

    @property
    def whole(self) -> float:
        """The seconds of a fresh run over the whole input."""
        return statistics.median(self.fresh)


def measure_recursion(
    size: str,
    *,
    modes: Sequence[str] = MODES,
    only: str = "",
    source: Path | None = None,
    seconds: float = 5.0,
) -> Iterator[list[Measured]]:
    """Measure each program whose name contains `only`, in every mode and in duckdb if possible."""
    for case in [*CASES, *([galen(source)] if source else [])]:
        if only in case.name and (case.name == GALEN or size in case.sizes):
            yield [
                measure_in_process(case.name, contestant, size, source, seconds)
                for contestant in contestants(case, modes)
            ]


def contestants(case: Case, modes: Sequence[str]) -> list[str]:
    if case.name == GALEN:
        return ["auto"]  # minutes and gigabytes each
    peers = [PEER] if case.sql and importlib.util.find_spec("duckdb") else []
    return [*modes, *peers]


def measure_in_process(
    case: str, contestant: str, size: str, source: Path | None, seconds: float
) -> Measured:
    """Measure one program in a new process."""
    try:
        return in_new_process(measure, case, contestant, size, source, seconds)
    except BrokenProcessPool:
        return Measured(case, contestant, note="the process died", failed=True)
    except Exception as error:
        return Measured(case, contestant, note=f"{type(error).__name__}: {error}", failed=True)


def measure(name: str, contestant: str, size: str, source: Path | None, seconds: float) -> Measured:
    """Measure one program; `seconds` limits the ticks of each phase.

    Plays smaller sizes first, so that compilation and imports at first use are not measured.
    """
    if name == GALEN:
        if source is None:
            raise ValueError("expected a folder or zip file of GALEN, got None")
        case = galen(source)
        use_every_kernel()
        return play(case, contestant, case.base(0), seconds=0.0)
    case = next(case for case in CASES if case.name == name)
    player = play_peer if contestant == PEER else play
    for before in ["tiny"] if size == "tiny" else ["tiny", "small"]:
        player(case, contestant, case.base(case.sizes[before]), seconds=0.1)
    return player(case, contestant, case.base(case.sizes[size]), seconds=seconds)


def play(case: Case, mode: str, base: Relations, *, seconds: float) -> Measured:
    """Play the program in a recursion mode; `seconds=0` only loads it."""
    measured = Measured(case.name, mode, inputs=sum(map(len, base.values())))
    program = dbsp.compile(case.rules, recursion=mode)
    tables = {name: table(case, name, rows) for name, rows in base.items()}
    run = program.start()
    before = measured.before = begin_peak()
    began = time.process_time()
    run.step(tables)
    measured.load = time.process_time() - began
    measured.peak = peak_bytes() - before
    gc.collect()
    measured.resident = resident_bytes() - before
    run.compact()
    gc.collect()
    measured.compacted = resident_bytes() - before
    measured.stored = run.state_bytes
    measured.result = results(case, run)
    if not seconds:
        measured.fresh = [measured.load]
        return measured
    again = dbsp.compile(case.rules, recursion="insert-only")
    for _ in range(FRESH):
        spent, found = fresh_run(case, again, base)
        measured.fresh.append(spent)
        agree(measured.result, found, f"{case.name}: the load")
    for phase, picks in phases(case, base):
        measured.phases.append(phase)
        for picked in picks:
            if len(phase.insertions) >= FEWEST and sum(phase.deletions + phase.insertions) > seconds:
                break
            phase.deletions.append(timed(run, changes(case, base, picked, -1)))
            if not phase.fresh or (len(phase.fresh) < FRESH and sum(phase.fresh) < seconds):
                spent, found = fresh_run(case, again, without(base, picked))
                phase.fresh.append(spent)
                now = results(case, run)
                agree(now, found, f"{case.name}: {phase.name}, deleted")
                phase.result = phase.result or now
            phase.insertions.append(timed(run, changes(case, base, picked, 1)))
        agree(results(case, run), measured.result, f"{case.name}: {phase.name}, inserted again")
    return measured


def play_peer(case: Case, contestant: str, base: Relations, *, seconds: float) -> Measured:
    """Run the SQL query in duckdb with one thread, over the whole input and after deletions.

    Each phase has one deletion, whose time is not counted; `seconds` is ignored.
    """
    measured = Measured(case.name, contestant, inputs=sum(map(len, base.values())))
    query = duckdb_query(case)
    before = begin_peak()
    measured.load, measured.result = query(base)
    measured.peak = peak_bytes() - before
    measured.fresh = [measured.load]
    for phase, picks in phases(case, base):
        spent, phase.result = query(without(base, next(iter(picks))))
        phase.fresh, phase.deletions = [spent], [spent]
        measured.phases.append(phase)
    return measured


def duckdb_query(case: Case) -> Callable[[Relations], tuple[float, Outcomes]]:
    """Return a function that runs the SQL query in duckdb, with one thread: its time and result."""
    duckdb: Any = importlib.import_module("duckdb")
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET threads = 1")

    def query(relations: Relations) -> tuple[float, Outcomes]:
        for name, rows in relations.items():
            connection.register("rows_of_it", table(case, name, rows))
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM rows_of_it")
        began = time.process_time()
        found = connection.execute(case.sql).fetchnumpy()
        spent = time.process_time() - began
        return spent, (checksum_of(two_columns([np.asarray(column) for column in found.values()])),)

    return query


# --- changes -------------------------------------------------------------------------------------


def phases(case: Case, base: Relations) -> Iterator[tuple[Phase, Iterator[Codes]]]:
    """Yield the phases, each with the rows that its changes pick, as positions in all relations.

    A chain is cut near its start, in the middle and near its end; other data loses one random row.
    Then 100 rows (at most half of all), and 1 % of the rows. The picks of a phase do not depend on
    the number of picks in earlier phases.
    """
    total = sum(map(len, base.values()))
    near = total // 100
    if case.cut:
        yield Phase("cut near its start", 1), links(near, 1, total)
        yield Phase("cut halfway", 1), links(total // 2, 1, total)
        yield Phase("cut near its end", 1), links(total - 1 - near, -1, total)
    else:
        yield Phase("1 row", 1), by_chance(1, total)
    for name, rows in (("100 rows", min(100, total // 2)), ("1 %", max(1, total // 100))):
        yield Phase(name, rows), by_chance(rows, total)


def links(place: int, way: int, total: int) -> Iterator[Codes]:
    """Yield one link at a time, from a position in one direction."""
    for number in range(min(SAMPLES, total // 4)):
        yield np.array([place + way * number])


def by_chance(rows: int, total: int) -> Iterator[Codes]:
    """Yield random samples of so many rows."""
    chance = np.random.default_rng((total, rows))
    for _ in range(SAMPLES):
        yield chance.choice(total, rows, replace=False)


def split(base: Relations, picked: Codes) -> Iterator[tuple[str, Codes]]:
    """Yield every relation with the positions of its picked rows."""
    start = 0
    for name, rows in base.items():
        yield name, picked[(picked >= start) & (picked < start + len(rows))] - start
        start += len(rows)


def without(base: Relations, picked: Codes) -> Relations:
    return {name: np.delete(base[name], places, axis=0) for name, places in split(base, picked)}


def changes(case: Case, base: Relations, picked: Codes, weight: int) -> dict[str, Any]:
    """Return the change of a tick: one row as a dict, several rows as an Arrow table."""
    found: dict[str, Any] = {}
    for name, places in split(base, picked):
        rows = base[name][places]
        if len(picked) == 1 and len(rows):
            found[name] = {tuple(rows[0].tolist()): weight}
        elif len(rows):
            found[name] = TableChange(table(case, name, rows), np.full(len(rows), weight, np.int64))
    return found


# --- runs ----------------------------------------------------------------------------------------


def timed(run: dbsp.Run, change: dict[str, Any]) -> float:
    began = time.process_time()
    run.step(change)
    return time.process_time() - began


def fresh_run(case: Case, program: dbsp.Program, base: Relations) -> tuple[float, Outcomes]:
    """Load a fresh run; return its time and its result."""
    tables = {name: table(case, name, rows) for name, rows in base.items()}
    run = program.start()
    gc.collect()
    return timed(run, tables), results(case, run)


def results(case: Case, run: dbsp.Run) -> Outcomes:
    """Return the outcome of every output."""
    outcomes = []
    for output in case.outputs:
        found: Any = run.view(output).to_arrow()
        if not (found.column("weight").to_numpy() == 1).all():
            raise ValueError(f"{case.name}: expected rows of weight 1 in {output}, got other weights")
        columns = [found.column(name).to_numpy() for name in run.outputs[output].names]
        outcomes.append(checksum_of(two_columns(columns)))
    return tuple(outcomes)


def two_columns(columns: Sequence[Codes]) -> Codes:
    """Return the columns as rows for a checksum, which needs at least two columns."""
    return np.stack(columns if len(columns) > 1 else [columns[0], np.zeros_like(columns[0])], axis=1)


def agree(found: Outcomes, expected: Outcomes, what: str) -> None:
    if found != expected:
        raise ValueError(f"{what}: expected the result of a fresh run, {expected}, got {found}")


def table(case: Case, name: str, rows: Codes) -> pa.Table:
    return pa.table({column: rows[:, place] for place, column in enumerate(case.columns[name])})


def begin_peak() -> int:
    """Reset the peak memory of this process where the system can; return its current bytes.

    Returns freed memory to the system first, because reusing it would hide growth.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes()


def peak_bytes() -> int:
    """Return the peak memory since `begin_peak`, or since the start where it cannot be reset."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
