"""Kill processes at random while they step durable runs, and check that every tick is exact.

A child process opens the checkpoint, brings its delta log up to date, reports the state that it
found, and steps until the parent kills it with SIGKILL. A tick that `step` has returned must be in
the next child's run; at most one more tick may be; and the views, the recorded deltas and the views
of the log must equal those of a run that was never killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fault_circuits import CIRCUITS, Change, FaultCircuit
from dbsp import Run
from dbsp.durable import DeltaLog, Store

KILLS = {"small": 3, "medium": 20, "large": 77}
"""By size, how often each circuit is killed."""


@dataclass
class Killed:
    """The outcome for one circuit."""

    circuit: str
    kills: int = 0
    ticks: int = 0
    ahead: int = 0
    """How often the next process found a tick that `step` had not returned."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def measure_kills(kills: int, only: str = "", seed: int = 1) -> Iterator[Killed]:
    """Kill the run of every circuit so often."""
    for circuit in CIRCUITS:
        if only in circuit.name:
            with tempfile.TemporaryDirectory() as folder:
                yield kill(circuit, kills, Path(folder), random.Random(seed))


def kill(circuit: FaultCircuit, kills: int, folder: Path, chance: random.Random) -> Killed:
    """Step one circuit in processes that are killed; compare with a run that is not."""
    started = time.perf_counter()
    done = Killed(circuit.name)
    right = _Right(circuit)
    with tempfile.TemporaryDirectory() as warm:  # loads the kernels that the children need
        reading, writing = os.pipe()
        for ticks in (6, 12):
            _step_until_killed(circuit, Path(warm), False, writing, ticks)
        os.close(reading)
        os.close(writing)
    acknowledged = 0
    for life in range(kills + 1):
        last = life == kills
        reports = _live(circuit, folder, life % 2 == 1, None if last else chance, acknowledged + 2)
        done.kills += not last
        opened = next((report for report in reports if "views" in report), None)
        if opened is None:
            if failed := [report["failed"] for report in reports if "failed" in report]:
                done.problems.append(f"life {life}: {failed[0]}")
            continue  # killed while it opened the checkpoint
        tick = opened["tick"]
        if not acknowledged <= tick <= acknowledged + 1:
            done.problems.append(f"life {life}: {acknowledged} ticks were durable, found {tick}")
        done.ahead += tick > acknowledged
        for name in opened.keys() & {"views", "log"}:
            if opened[name] != right.upto(tick):
                done.problems.append(f"life {life}: {name} differ after tick {tick}")
        acknowledged = max([tick, *(report["stepped"] for report in reports if "stepped" in report)])
        done.problems += [f"life {life}: {report['failed']}" for report in reports if "failed" in report]
    done.ticks = acknowledged
    if (folder / "log").exists():
        done.problems += right.differences(DeltaLog(folder / "log"))
    done.seconds = time.perf_counter() - started
    return done


def change_of(circuit: FaultCircuit, tick: int) -> Change:
    """Return the changes of a tick; the start of a program with constants is a tick without."""
    return circuit.first if tick <= 2 else circuit.tick(tick - 3)


def _digest(views: Any) -> str:
    return hashlib.sha256(repr(views).encode()).hexdigest()


def _sorted(rows: dict[Any, int]) -> list[Any]:
    return sorted(rows.items(), key=repr)


def _digest_of(run: Run) -> str:
    return _digest([(name, _sorted(run.view(name).to_dict())) for name in run.outputs])


class _Right:
    """A run that is never killed: the digest of its views after each tick, and its deltas."""

    def __init__(self, circuit: FaultCircuit) -> None:
        self._circuit = circuit
        self._run = circuit.start()
        # A program with constants begins with tick 1.
        self._digests = [_digest_of(self._run)] * (self._run.tick + 1)
        started = {name: _sorted(self._run.view(name).to_dict()) for name in self._run.outputs}
        self._deltas: list[dict[str, list[Any]]] = [started] * (self._run.tick + 1)

    def upto(self, tick: int) -> str:
        while len(self._digests) <= tick:
            result = self._run.step(change_of(self._circuit, len(self._digests)))
            self._digests.append(_digest_of(self._run))
            self._deltas.append({name: _sorted(result[name].to_dict()) for name in result})
        return self._digests[tick]

    def differences(self, log: DeltaLog) -> Iterator[str]:
        self.upto(log.last)
        for name in self._run.outputs:
            recorded = dict(log.deltas(name))
            for tick in range(1, log.last + 1):
                if _sorted(recorded[tick].to_dict()) != self._deltas[tick][name]:
                    yield f"the recorded delta of {name} in tick {tick} differs"


def _live(
    circuit: FaultCircuit, folder: Path, sync: bool, chance: random.Random | None, ticks: int
) -> list[dict[str, Any]]:
    """Run a child until it is killed, or without `chance` until a tick; return its reports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _step_until_killed(circuit, folder, sync, writing, ticks if chance is None else None)
        except BaseException as error:
            _say(writing, failed=f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    os.close(writing)
    if chance is not None:
        if chance.random() < 0.7:  # the others are killed while they open the checkpoint
            select.select([reading], [], [], 60)
        time.sleep(chance.uniform(0.001, 0.2))
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, encoding="utf-8") as lines:
        # The last line may be incomplete.
        reports = [json.loads(line) for line in lines if line.endswith("\n")]
    os.waitpid(child, 0)
    return reports


def _step_until_killed(
    circuit: FaultCircuit, folder: Path, sync: bool, writing: int, ticks: int | None
) -> None:
    run = circuit.start(checkpoint=Store(folder / "checkpoint", snapshot_every=4, sync=sync))
    plain = all(type_.structure is None for schema in run.outputs.values() for type_ in schema.types)
    if plain:  # a delta log holds no records
        log = DeltaLog(folder / "log", sync=sync)
        log.catch_up(run)
        views = [(name, _sorted(log.view(name).to_dict()) if run.tick else []) for name in run.outputs]
        _say(writing, tick=run.tick, views=_digest_of(run), log=_digest(views))
    else:
        _say(writing, tick=run.tick, views=_digest_of(run))
    while ticks is None or run.tick < ticks:
        result = run.step(change_of(circuit, run.tick + 1))
        _say(writing, stepped=run.tick)
        if plain:
            log.append(run.tick, result)
    if run.log is not None:
        run.log.close()


def _say(writing: int, **report: Any) -> None:
    os.write(writing, f"{json.dumps(report)}\n".encode())
