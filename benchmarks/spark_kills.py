"""Kill executors, Python workers, drivers and servers of circuits on shards; check every tick.

A child process is the driver of a circuit on a local cluster of two executors, or the client of a
server of Spark Connect (`benchmarks.spark_kill_children`). The parent kills a Python worker, the
JVM of an executor, the driver, its JVM, the server, or the process of a query on the server with
SIGKILL after a random time. It sets traps, which tasks take, and makes the file system slow, or
lets it fail.

- A run that the child steps reports each tick that `step` has returned. The next driver must find
  all of them, and at most one more.
- A streaming query reports nothing: at the end, every micro-batch must be one tick.

At the end the parts of all ticks, and the views, must equal those of a run in one process.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark_crash import batches_of
from benchmarks.spark_kill_children import TRAPS, WEATHER, Delta, changes_of, circuit

SPARK_KILLS = {"small": 5, "medium": 30, "large": 100}
"""By size the number of kills."""
MODES = ("run", "stream", "connect")
_MASTERS = {"run": "local-cluster[2,1,512]", "stream": "local-cluster[2,1,512]", "connect": "local[2]"}
_OF_CLUSTER = ("worker", "executor", "driver", "executor", "worker", "jvm")
_KINDS = {"run": _OF_CLUSTER, "stream": _OF_CLUSTER, "connect": ("server", "worker", "query process")}
_SIGNS = {
    "worker": "pyspark.daemon pyspark.worker",
    "executor": "CoarseGrainedExecutorBackend",
    "jvm": "org.apache.spark.deploy.SparkSubmit",
    "server": "org.apache.spark.deploy.SparkSubmit",
    "query process": "foreach_batch_worker",
}
"""What the commands of processes of a kind contain."""
_ENDING = ("driver", "jvm", "server")
"""The kinds whose kill ends the query."""
_PATIENCE = 240.0
"""Seconds in which a child must make progress."""


@dataclass
class SparkKilled:
    """The outcome of a campaign."""

    kills: Counter[str] = field(default_factory=Counter)
    """By mode and kind."""
    traps: Counter[str] = field(default_factory=Counter)
    """How many traps of each kind tasks have taken, and how often the file system had a weather."""
    ticks: int = 0
    ahead: int = 0
    """How often the next driver found a tick that `step` had not returned."""
    failed: int = 0
    """How often a step or a query raised, and was repeated."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class _Child:
    """A child process, its descendants, and its reports."""

    def __init__(self, folder: Path, mode: str, master: str, final: bool) -> None:
        program = "import sys; from pathlib import Path; from benchmarks.spark_kill_children import main; "
        program += f"main(Path(sys.argv[1]), {mode!r}, {master!r}, {final})"
        with open(folder / "errors", "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, str(folder)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                # A server then listens on a free port.
                env={**os.environ, "SPARK_TESTING": "1"} if mode == "connect" else None,
            )
        assert self.process.stdout is not None
        self._reports = self.process.stdout

    def report(self, seconds: float = _PATIENCE) -> dict[str, Any] | None:
        """Return the next report; None if the process ended, or says nothing so long."""
        while select.select([self._reports], [], [], seconds)[0]:
            line = self._reports.readline()
            if line.startswith("{") and line.endswith("\n"):
                found: dict[str, Any] = json.loads(line)
                return found
            if not line:
                return None
        return None

    def of_kind(self, kind: str) -> list[int]:
        """Return the processes of a kind."""
        if kind == "driver":
            return [self.process.pid]
        return [pid for pid, command in descendants(self.process.pid).items() if _SIGNS[kind] in command]

    def kill(self) -> list[dict[str, Any]]:
        """Kill the process; return its last reports. Its executors end some time later."""
        self.process.kill()
        self.process.wait()
        lines = [line for line in self._reports if line.startswith("{") and line.endswith("\n")]
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """End what a killed process has left behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def descendants(pid: int) -> dict[int, str]:
    """Return the processes that a process has started, and those that they have, with commands."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parents.setdefault(int(fields[1]), []).append((int(folder.name), command))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child, command in parents.get(waiting.pop(), ()):
            found[child] = command
            waiting.append(child)
    return found


class _Campaign:
    """Kills of one state in one mode, and what was found."""

    def __init__(self, folder: Path, mode: str, master: str, draw: random.Random, done: SparkKilled) -> None:
        self.folder = folder
        self.mode = mode
        self.master = master
        self.draw = draw
        self.done = done
        self.ticks = 0
        """The ticks that a step has returned, or that a query has committed."""
        self.files = 0
        """The files that have arrived for each source of a query."""
        self._ended: list[_Child] = []
        (folder / "traps").mkdir(parents=True)
        for name in ("sold", "shops"):
            (folder / "in" / name).mkdir(parents=True)

    def run(self, kills: Sequence[str], traps: bool) -> None:
        """Kill a process of each kind; with `traps`, set one before half of the kills."""
        traps = traps and self.mode != "connect"  # there the package opens the folders in its process
        child = self._opened()
        for number, kind in enumerate(kills):
            with self._weather(number if traps else 1):
                for _ in range(self.draw.randrange(1, 3)):
                    self._progress(child)
                if traps and self.draw.random() < 0.5:
                    (self.folder / "traps" / f"{self.draw.choice(TRAPS)}-{number}.set").touch()
                time.sleep(self.draw.random() * 1.5)
                if self.done.problems or not self._kill(child, kind):
                    continue
                if kind in _ENDING:
                    self._take_last(child, kind)
                    if number + 1 == len(kills):
                        break  # the final process continues
                    child = self._opened()
                else:
                    self._progress(child)
        else:
            child.kill()
            self._ended.append(child)
        for ended in self._ended:
            ended.end()
        for trap in self.folder.glob("traps/*.taken"):
            self.done.traps[trap.name.partition("-")[0]] += 1
        for trap in self.folder.glob("traps/*.set"):
            trap.unlink()

    @contextmanager
    def _weather(self, number: int) -> Iterator[None]:
        """Give every third kill a weather."""
        kind = WEATHER[number // 3 % 2] if number % 3 == 0 else ""
        if kind:
            (self.folder / "traps" / kind).touch()
            self.done.traps[f"{kind} file system"] += 1
        yield
        if kind:
            (self.folder / "traps" / kind).unlink(missing_ok=True)

    def _kill(self, child: _Child, kind: str) -> bool:
        if not (processes := child.of_kind(kind)):
            return False
        with suppress(ProcessLookupError):
            os.kill(self.draw.choice(processes), signal.SIGKILL)
        self.done.kills[f"{self.mode}: {kind}"] += 1
        return True

    def _take_last(self, child: _Child, kind: str) -> None:
        """Take the reports of a child whose driver or server was killed."""
        if kind == "jvm":  # Python notices it, or waits for it
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=5 * self.draw.random())
        for report in child.kill():
            self._take(report)
        self._ended.append(child)

    def _opened(self, final: bool = False) -> _Child:
        """Start a child, and wait until its run is open, or its query started."""
        child = _Child(self.folder, self.mode, self.master, final)
        while not self.done.problems:
            report = child.report()
            self._take(report)
            if report is not None and report["what"] in ("opened", "started"):
                break
        return child

    def _take(self, report: dict[str, Any] | None) -> None:
        if report is None:
            self.done.problems.append(
                f"{self.mode}: the driver does not continue after tick {self.ticks}: "
                + (self.folder / "errors").read_text()[-1000:]
            )
        elif report["what"] == "failed":
            self.done.failed += 1
        elif report["what"] == "opened":
            tick = report["tick"]
            if not self.ticks <= tick <= self.ticks + 1:
                self.done.problems.append(f"{self.ticks} ticks were acknowledged, found {tick}")
            if report["label"] != (tick or None):
                self.done.problems.append(f"tick {tick} has the label {report['label']}")
            self.done.ahead += tick > self.ticks
            self.ticks = tick
        elif report["what"] == "stepped":
            if report["tick"] != self.ticks + 1:
                self.done.problems.append(f"tick {report['tick']} follows tick {self.ticks}")
            self.ticks = report["tick"]

    def _progress(self, child: _Child) -> None:
        """Wait for a tick; failed attempts of it count for nothing."""
        before, started = self.ticks, time.monotonic()
        if self.mode == "run":
            while self.ticks == before and not self.done.problems:
                self._take(child.report())
            return
        self._arrive(2)
        self.ticks = before = self._committed()
        while self.ticks == before and not self.done.problems:
            report = child.report(0.2)
            if report is not None:
                self._take(report)
            elif child.process.poll() is not None or time.monotonic() - started > _PATIENCE:
                self._take(None)
            self.ticks = self._committed()

    def _committed(self) -> int:
        """Return the micro-batches that Spark has acknowledged."""
        names = [path.name for path in self.folder.glob("checkpoint/commits/*")]
        return 1 + max((int(name) for name in names if name.isdigit()), default=-1)

    def _arrive(self, ahead: int) -> None:
        """Let files arrive until a query has so many that it has not committed."""
        while self.files < self._committed() + ahead:
            for name, delta in changes_of(self.files).items():
                columns = [*zip(*((*row, weight) for row, weight in delta.items()), strict=True)]
                names = ("shop", "amount" if name == "sold" else "region", "weight")
                draft = self.folder / "in" / name / ".draft"
                pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), draft)
                os.utime(draft, (1_700_000_000 + self.files,) * 2)  # Spark orders files by their times
                draft.rename(draft.with_name(f"{self.files:06d}.parquet"))
            self.files += 1

    # --- comparing --------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compare all ticks and the final views with a run in one process."""
        self._arrive(1)
        child = self._opened(final=True)
        last = "final" if self.mode == "run" else "ended"
        while (report := child.report()) is not None and report["what"] != last:
            self._take(report)
        if report is None:
            self._take(report)
            return
        child.process.wait(timeout=_PATIENCE)
        child.end()
        steps = self._steps()
        right = circuit().start()
        for tick, changes in enumerate(steps, 1):
            result = right.step(changes)
            for name in right.outputs:
                found, expected = parts(self.folder / "out" / name, tick), result[name].to_dict()
                if found != expected:
                    self.done.problems.append(
                        f"{self.mode}: tick {tick} of {name}: expected {expected}, got {found}"
                    )
        for name in right.outputs:
            ticks = [int(path.name[5:]) for path in (self.folder / "out" / name).glob("tick=*")]
            if max(ticks, default=0) > len(steps):
                self.done.problems.append(f"{self.mode}: {name} has ticks that were never committed")
            found = {}
            for path in (self.folder / "views" / name).glob("tick=*"):
                found = sum_of(found, parts(path.parent, int(path.name[5:])))
            if found != right.view(name).to_dict():
                self.done.problems.append(f"{self.mode}: the view of {name} differs after tick {len(steps)}")
        self.done.ticks += len(steps)

    def _steps(self) -> list[dict[str, Delta]]:
        """Return the changes of every tick."""
        if self.mode == "run":
            return [changes_of(tick) for tick in range(1, self.ticks + 1)]
        by_source = {
            name: batches_of(self.folder / "checkpoint", number)
            for number, name in enumerate(("sold", "shops"))
        }
        for name, batches in by_source.items():
            if [file for batch in batches for file in batch] != list(range(self.files)):
                self.done.problems.append(f"{self.mode}: micro-batches lack files of {name}: {batches}")
        steps = []
        for files in zip(*by_source.values(), strict=True):
            step: dict[str, Delta] = {}
            for name, numbers in zip(by_source, files, strict=True):
                step[name] = {}
                for number in numbers:
                    step[name] = sum_of(step[name], changes_of(number)[name])
            steps.append(step)
        return steps


def sum_of(one: Delta, other: Delta) -> Delta:
    """Return the sum of two Z-sets."""
    total = {row: one.get(row, 0) + other.get(row, 0) for row in {**one, **other}}
    return {row: weight for row, weight in total.items() if weight}


def parts(folder: Path, tick: int) -> Delta:
    """Return the rows of a tick, with their weights."""
    found: Delta = {}
    for file in folder.glob(f"tick={tick}/*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            weight = row.pop("weight")
            found[tuple(row.values())] = found.get(tuple(row.values()), 0) + weight
    return found


def measure_spark_kills(
    kills: int, seed: int = 1, modes: Sequence[str] = MODES, master: str = "", traps: bool = True
) -> SparkKilled:
    """Kill so many processes, in each mode of all kinds in turn."""
    started, done, draw = time.perf_counter(), SparkKilled(), random.Random(seed)
    for number, mode in enumerate(modes):
        count = len(range(number, kills, len(modes)))
        kinds = [_KINDS[mode][kind % len(_KINDS[mode])] for kind in range(count)]
        draw.shuffle(kinds)
        if not kinds or done.problems:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            campaign = _Campaign(Path(folder), mode, master or _MASTERS[mode], draw, done)
            campaign.run(kinds, traps)
            if not done.problems:
                campaign.compare()
    done.seconds = time.perf_counter() - started
    return done
