"""Damage the files of durable folders at random, and open the folders in a child process.

The result of an opening must be the right rows, because the damage is harmless or an intact
snapshot replaces what is damaged, or a CheckpointError that names the folder. Other rows, another
exception and the death of the process are defects.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pyarrow as pa

import dbsp
from benchmarks.pipeline_specimen import read_pipeline, write_pipeline
from dbsp.durable import DeltaLog, Inbox, Store, delta_log

COUNTS = {"small": 300, "medium": 5_000, "large": 50_000}
"""The number of damages."""

_SECONDS = 60

RECURSIVE = dbsp.compile("""
    .type Pair = [x: symbol, w: float]
    .decl edge(x: symbol, y: symbol, p: Pair)
    .input edge
    .decl path(x: symbol, y: symbol)
    .output path
    path(x, y) :- edge(x, y, _).
    path(x, z) :- path(x, y), edge(y, z, _).
    .decl heavy(p: Pair)
    .output heavy
    heavy(p) :- edge(_, _, p), p = [_, w], w > 0.5.
    .decl numbered(x: symbol, n: number)
    .output numbered
    numbered(x, autoinc()) :- edge(x, _, _).
""")


def _stateful() -> dbsp.Circuit:
    circuit = dbsp.Circuit("stateful")
    seen = circuit.input("seen", at=int, v=int)
    keyed = circuit.input("keyed", key="k", k=int, o=object)
    windows = seen.watermark("at", 2).on_time.window("at", 5)
    circuit.output("sums", windows.group_by("window_end").agg(total=dbsp.col("v").sum()))
    circuit.output("before", seen.delay())
    circuit.output("changed", seen.integrate().differentiate())
    circuit.output("latest", keyed)
    return circuit


def _large() -> dbsp.Circuit:
    circuit = dbsp.Circuit("large")
    circuit.output("out", circuit.input("a", x=int).distinct())
    return circuit


def _rows_of(run: dbsp.Run) -> str:
    views = {name: sorted(map(repr, run.view(name).items())) for name in run.outputs}
    label = None if run.log is None else run.log.label
    return repr((run.tick, label, views))


def _closed(run: dbsp.Run) -> None:
    if run.log is not None:
        run.log.close()


def _recursive_changes(chance: random.Random) -> dict[str, object]:
    names = ("a", "b", "é", "\ud800", "")
    edge = (chance.choice(names), chance.choice(names), (chance.choice(names), chance.random()))
    return {"edge": {edge: 1}}


def _stateful_changes(chance: random.Random, tick: int) -> dict[str, object]:
    objects = (1.5, True, b"\0", (1, ("x", None)), frozenset({2, "y"}), 2**70)
    seen = {(tick + chance.randrange(3), chance.randrange(5)): 1}
    return {"seen": seen, "keyed": [(chance.randrange(3), chance.choice(objects))]}


def _journal(folder: Path, chance: random.Random) -> None:
    run = RECURSIVE.start(checkpoint=Store(folder, sync=False))
    for tick in range(chance.randrange(3, 6)):
        run.step(_recursive_changes(chance), label=tick)
    _closed(run)


def _snapshots(folder: Path, chance: random.Random) -> None:
    run = RECURSIVE.start(checkpoint=Store(folder, sync=False, snapshot_every=3))
    for tick in range(8):
        run.step(_recursive_changes(chance), label=[tick, "\ud800"])
    _closed(run)


def _state(folder: Path, chance: random.Random) -> None:
    run = _stateful().start(checkpoint=Store(folder, sync=False, snapshot_every=3))
    for tick in range(8):
        run.step(_stateful_changes(chance, tick))
    _closed(run)


def _large_runs(folder: Path, chance: random.Random) -> None:
    run = _large().start(checkpoint=Store(folder, sync=False, snapshot_every=1))
    start = chance.randrange(1_000)
    for part in range(3):
        run.step({"a": [(x,) for x in range(start + part * 5_000, start + part * 5_000 + 4_500)]})
    _closed(run)


def _history(folder: Path, chance: random.Random) -> None:
    store = Store(folder, sync=False, snapshot_every=2, background=False, keep=100)
    run = RECURSIVE.start(checkpoint=store)
    for tick in range(9):
        run.step(_recursive_changes(chance), label=tick)
    _closed(run)


def _read_history(folder: Path) -> str:
    past = [RECURSIVE.open(folder, as_of=tick) for tick in (1, 4, 5)]
    change = sorted(past[2].deltas("path", since=1, until=7).items())
    results = [sorted(result["path"].items()) for result in past[2].ticks(2)]
    return repr(([_rows_of(run) for run in past], change, results))


def _log(folder: Path, chance: random.Random) -> None:
    run, log = RECURSIVE.start(), DeltaLog(folder, sync=False)
    with mock.patch.object(delta_log, "_KEEP_FROM", 4):
        for tick in range(1, 7):
            changes = {"edge": {(f"n{chance.randrange(4)}", f"n{chance.randrange(4)}", ("p", 1.0)): 1}}
            result = run.step(changes)
            log.append(tick, {"path": result["path"], "numbered": result["numbered"]}, tick)


def _read_log(folder: Path) -> str:
    log = DeltaLog(folder)
    outputs = sorted(log.outputs)
    views = {name: sorted(log.view(name).items()) for name in outputs}
    deltas = {name: [(tick, sorted(zset.items())) for tick, zset in log.deltas(name)] for name in outputs}
    return repr((views, deltas, [log.label(tick) for tick in log.ticks()]))


def _inbox(folder: Path, chance: random.Random) -> None:
    inbox = Inbox(folder / "in", sync=False)
    run = _large().start(checkpoint=Store(folder / "run", sync=False))
    for batch in range(6):
        table = pa.table({"x": [chance.randrange(100) for _ in range(chance.randrange(1, 5))]})
        inbox.put("a", table, batch // 2, writer=("one", "two")[batch % 2])
        if batch == 2:
            inbox.drain(run)
    _closed(run)


def _read_inbox(folder: Path) -> str:
    run = _large().start(checkpoint=Store(folder / "run", sync=False))
    Inbox(folder / "in", sync=False).drain(run)
    rows = repr((run.tick, sorted(run.view("out").items())))
    _closed(run)
    return rows


@dataclass(frozen=True)
class Specimen:
    """A kind of folder: how it is written, and how its content is read."""

    name: str
    write: Callable[[Path, random.Random], None]
    read: Callable[[Path], str]


def _opened(start: Callable[..., dbsp.Run]) -> Callable[[Path], str]:
    def read(folder: Path) -> str:
        run = start(checkpoint=Store(folder, sync=False))
        rows = _rows_of(run)
        _closed(run)
        return rows

    return read


SPECIMENS = (
    Specimen("journal", _journal, _opened(RECURSIVE.start)),
    Specimen("snapshots", _snapshots, _opened(RECURSIVE.start)),
    Specimen("state", _state, _opened(lambda **options: _stateful().start(**options))),
    Specimen("large runs", _large_runs, _opened(lambda **options: _large().start(**options))),
    Specimen("history", _history, _read_history),
    Specimen("present of a history", _history, _opened(RECURSIVE.start)),
    Specimen("delta log", _log, _read_log),
    Specimen("inbox", _inbox, _read_inbox),
    Specimen("Spark pipeline", write_pipeline, read_pipeline),
)


# --- damages --------------------------------------------------------------------------------------


def _changed(change: Callable[[bytearray, random.Random], bytes]) -> Callable[..., None]:
    def damage(path: Path, files: list[Path], twin: Path, folder: Path, chance: random.Random) -> None:
        path.write_bytes(change(bytearray(path.read_bytes()), chance))

    return damage


def _flipped(content: bytearray, chance: random.Random) -> bytes:
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _overwritten(content: bytearray, chance: random.Random) -> bytes:
    if content:
        at = chance.randrange(len(content))
        count = min(chance.randrange(1, 17), len(content) - at)
        content[at : at + count] = chance.randbytes(count)
    return bytes(content)


def _zeroed(content: bytearray, chance: random.Random) -> bytes:
    if content:
        at = chance.randrange(len(content))
        count = min(chance.choice((8, 64, 512, 4096)), len(content) - at)
        content[at : at + count] = bytes(count)
    return bytes(content)


def _truncated(content: bytearray, chance: random.Random) -> bytes:
    return bytes(content[: chance.randrange(len(content))]) if content else b""


def _extended(content: bytearray, chance: random.Random) -> bytes:
    return bytes(content) + chance.randbytes(chance.randrange(1, 100))


def _removed(path: Path, files: list[Path], twin: Path, folder: Path, chance: random.Random) -> None:
    path.unlink()


def _swapped(path: Path, files: list[Path], twin: Path, folder: Path, chance: random.Random) -> None:
    other = chance.choice(files)
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _copied(path: Path, files: list[Path], twin: Path, folder: Path, chance: random.Random) -> None:
    path.write_bytes(chance.choice(files).read_bytes())


def _foreign(path: Path, files: list[Path], twin: Path, folder: Path, chance: random.Random) -> None:
    there = twin / path.relative_to(folder)
    if not there.exists():
        there = chance.choice([p for p in sorted(twin.rglob("*")) if p.is_file()])
    shutil.copyfile(there, path)


DAMAGES: dict[str, Callable[..., None]] = {
    "bit flipped": _changed(_flipped),
    "bytes overwritten": _changed(_overwritten),
    "block zeroed": _changed(_zeroed),
    "truncated": _changed(_truncated),
    "extended": _changed(_extended),
    "removed": _removed,
    "swapped": _swapped,
    "copied over": _copied,
    "foreign": _foreign,
}
OUTCOMES = ("right rows", "refused", "other rows", "traceback", "death")
"""What an opening may give; the last three are defects."""


@dataclass
class Damages:
    """The outcomes by specimen and damage, and a line for every defect."""

    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def measure_damages(count: int, folder: Path, seed: int) -> Damages:
    """Apply that many random damages, each to a fresh copy of a folder."""
    chance = random.Random(seed)
    found = Damages()
    expected = {}
    for specimen in SPECIMENS:
        for twin in ("whole", "twin"):
            specimen.write(folder / specimen.name / twin, random.Random(chance.random()))
        # Loads the kernels, which the children inherit.
        specimen.read(shutil.copytree(folder / specimen.name / "whole", folder / specimen.name / "loaded"))
        outcome, expected[specimen.name] = _opening(specimen, folder / specimen.name, None, None, chance)
        if outcome != "right rows":
            found.problems.append(f"{specimen.name}, undamaged: {outcome}: {expected[specimen.name]}")
            return found
    for number in range(count):
        specimen = SPECIMENS[number % len(SPECIMENS)]
        kind = chance.choice(list(DAMAGES))
        state = chance.getstate()
        outcome, text = _opening(
            specimen, folder / specimen.name, kind, expected[specimen.name], random.Random(f"{seed} {number}")
        )
        chance.setstate(state)
        found.outcomes[specimen.name, kind, outcome] += 1
        if outcome in OUTCOMES[2:]:
            found.problems.append(f"{specimen.name}, {kind}, damage {number}: {outcome}: {text}")
    return found


def _opening(
    specimen: Specimen, place: Path, kind: str | None, expected: str | None, chance: random.Random
) -> tuple[str, str]:
    """Damage a copy of a folder and read it; return the outcome, and the rows or the error."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / "whole", copy)
    what = ""
    if kind is not None:
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        path = chance.choice(files)
        what = f"{path.relative_to(copy)}: "
        DAMAGES[kind](path, files, place / "twin", copy, chance)
    outcome, text = _in_child(lambda: specimen.read(copy))
    if outcome == "refused" and str(copy) not in text:
        outcome = "traceback"
    if outcome == "right rows" and expected is not None and text != expected:
        outcome = "other rows"
    return outcome, what + text if kind is not None else text


def _in_child(action: Callable[[], str]) -> tuple[str, str]:
    """Return the outcome of an action in a forked process: its result, or how it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        warnings.simplefilter("ignore")
        try:
            outcome, text = "right rows", action()
        except dbsp.CheckpointError as error:
            outcome, text = "refused", str(error)
        except BaseException:
            outcome, text = "traceback", traceback.format_exc()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(f"{outcome}\n{text}".encode("utf-8", "surrogatepass"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read().decode("utf-8", "surrogatepass")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return "death", f"the process ended with {status}"
    outcome, _, text = report.partition("\n")
    return outcome, text


def by_specimen(found: Damages) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the outcomes of each kind of folder."""
    for specimen in SPECIMENS:
        counted: Counter[str] = Counter()
        for (name, _, outcome), number in found.outcomes.items():
            if name == specimen.name:
                counted[outcome] += number
        yield specimen.name, counted


def total_of(found: Damages) -> Counter[str]:
    """Return the outcomes of all folders together."""
    return Counter(outcome for _, _, outcome in found.outcomes.elements())
