"""Kill processes at random while Spark feeds a circuit, and check that the result is exact.

A child process runs three chains over files that arrive in a folder, one file a micro-batch:

    files -> Spark stream -> circuit -> folders of Parquet and a function     (`dbsp.spark.stream`)
    files -> Spark stream -> format("dbsp") -> inbox -> circuit -> delta log
    files -> Spark stream -> database of facts -> folder     (`benchmarks.spark_crash_facts`)

The pipeline has a second source: files of updates, several in a micro-batch, whose order decides.
It has a sink that half of the children leave out.

The parent kills the driver (the child), its JVM, or both with SIGKILL at a random moment, adds
files and restarts the child on the same folders. At the end every micro-batch must be exactly one
tick, and the deltas of every tick must equal those of the circuit without Spark. The circuit counts
rows (so that a repeated change alters the result) and computes a transitive closure.

A micro-batch is one file or two: Spark lists a file in the log of its source before it plans the
batch. If it is killed in between, it plans that file together with the next one.

`python -m benchmarks spark-crash`, or `python -m benchmarks.spark_crash FOLDER` for the child.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dbsp
from benchmarks.spark_crash_facts import CHECKPOINT, compare_facts, fact_query
from dbsp.data.zset import ZSet
from dbsp.durable import DeltaLog, Inbox
from dbsp.spark.recording import SinkRecording

Delta = dict[tuple[Any, ...], int]
KILLS = {"small": 4, "medium": 30, "large": 100}
_NODES = 16
_KEPT = 6
"""The number of latest files whose edges are present, so that paths are inserted and retracted."""
_KINDS = ("driver", "jvm", "driver and jvm")


def circuit() -> dbsp.Circuit:
    """Return a circuit that counts rows and computes their transitive closure."""
    crash = dbsp.Circuit("crash")
    edge = crash.input("edge", x=int, y=int)
    crash.output("rows", edge)
    crash.output("starts", edge.select("x"))
    edges = edge.distinct()
    with crash.fixpoint("closure") as scope:
        path = scope.variable("path", edges.schema)
        step = path.join(edges.rename(z="y", y="x"), on="y").select("x", "z").rename(y="z")
        scope.define(path, (edges + step).distinct())
    crash.output("path", scope.leave(path))
    crash.output("newest", crash.input("update", id=int, file=int, key="id"))
    return crash


def change(number: int) -> Delta:
    """Return the change of a file: insert some edges, and delete those of an earlier file."""
    delta: Delta = {(number % 5, number % 5): 1}  # never empty, never retracted
    for source, weight in ((number, 1), (number - _KEPT, -1)):
        if source >= 0:
            chance = random.Random(source)
            for _ in range(4):
                edge = chance.randrange(_NODES), chance.randrange(_NODES)
                delta[edge] = delta.get(edge, 0) + weight
    return {row: weight for row, weight in delta.items() if weight} or {(0, 1): 1}


def updated(number: int) -> list[tuple[int, int]]:
    """Return the rows of a file of updates: few or many, so that files differ in size."""
    chance = random.Random(-1 - number)
    return [(chance.randrange(_NODES), number) for _ in range(chance.choice((1, 2, 30)))]


def arrive_update(folder: Path, number: int) -> None:
    """Add one file of updates; the order of the names is not that of the times."""
    draft = folder / ".draft"
    draft.write_text("".join(f'{{"id": {id_}, "file": {file}}}\n' for id_, file in updated(number)))
    os.utime(draft, (1_700_000_000 + number,) * 2)
    draft.rename(folder / f"{999_999 - number:06d}.json")


def arrive(folder: Path, number: int) -> None:
    """Add one file atomically; Spark orders files by their modification time."""
    delta = change(number)
    columns = [[row[0] for row in delta], [row[1] for row in delta], list(delta.values())]
    draft = folder / ".draft"
    pq.write_table(pa.table(dict(zip(("x", "y", "w"), columns, strict=True))), draft)
    os.utime(draft, (1_700_000_000 + number,) * 2)
    draft.rename(folder / f"{number:06d}.parquet")


# --- the child -----------------------------------------------------------------------------------


def run_child(folder: Path, finish: bool, late: bool) -> None:
    """Run the chains until killed, or with `finish` until all files are processed.

    `late` is whether the pipeline has the sink that other children leave out.
    """
    files = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    spark = dbsp.spark.session(
        "crash",
        settings={
            "spark.sql.streaming.checkpointFileManagerClass": files,
            "spark.local.dir": str(folder / "local"),
            "spark.driver.memory": "512m",
            "spark.sql.streaming.minBatchesToRetain": "1000000",  # for the comparison at the end
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    dbsp.spark.register(spark)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)

    reader = spark.readStream.schema("x long, y long, w long").option("maxFilesPerTrigger", 1)
    arriving = reader.parquet(str(folder / "arrivals"))
    trigger: dict[str, Any] = {"availableNow": True} if finish else {"processingTime": "0 seconds"}

    def called(frame: Any, tick: int) -> None:
        count = int(frame.toArrow().num_rows)
        with open(folder / "calls", "a") as calls:
            calls.write(f"{tick} {count}\n")

    pipeline = dbsp.spark.stream(circuit()).source("edge", arriving, encoding="weight", column="w")
    updates = spark.readStream.schema("id long, file long").json(str(folder / "updates"))
    pipeline.source("update", updates, encoding="upsert").sink("newest", folder / "newest")
    if late:
        pipeline.sink("rows", folder / "late", name="late")
    pipeline.sink("rows", folder / "rows").sink("path", folder / "path").sink("starts", called)
    pipeline.option("checkpointLocation", str(folder / "pipeline")).option("snapshotEvery", 7)
    queries = [pipeline.trigger(**trigger).start()]

    writer = arriving.writeStream.format("dbsp").option("path", str(folder / "inbox"))
    writer = writer.option("input", "edge").option("weightColumn", "w")
    writer = writer.option("checkpointLocation", str(folder / "writer"))
    queries.append(writer.trigger(**trigger).start())

    facts = ExitStack()
    queries.append(facts.enter_context(fact_query(folder, arriving, trigger)))

    store = dbsp.durable.Store(folder / "run", snapshot_every=7)
    run, log = circuit().start(checkpoint=store), DeltaLog(folder / "log")
    inbox = Inbox(folder / "inbox")
    log.catch_up(run)
    print("started", flush=True)
    active = True
    while active:
        # Check before draining, so that a drain follows the last batch.
        active = any(query.isActive for query in queries)
        inbox.drain(run, lambda result: log.append(result.number, result, store.label))
        for query in queries:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
        time.sleep(0.02)
    facts.close()
    spark.stop()


# --- the parent ----------------------------------------------------------------------------------


@dataclass
class Life:
    """One child, from its start to its end."""

    kind: str
    """The killed processes; "" for the child that ended normally."""
    started: bool
    """Whether its queries had started."""
    ticks: int
    """Ticks in the folder of the pipeline after its end."""
    recorded: int
    """Ticks in the delta log after its end."""


@dataclass
class Crashes:
    """The result of the measurement."""

    lives: list[Life] = field(default_factory=list)
    files: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    """The differences found; empty if there are none."""

    @property
    def kills(self) -> Counter[str]:
        """The number of kills by kind."""
        return Counter(life.kind for life in self.lives if life.kind)

    @property
    def with_running_queries(self) -> int:
        """The number of kills after the queries had started."""
        return sum(life.started for life in self.lives if life.kind)


def measure_crashes(kills: int, folder: Path, seed: int = 0, files: tuple[int, int] = (6, 16)) -> Crashes:
    """Kill so many times, then let the child finish, and compare; 10 to 20 s per kill.

    `files` bounds the number of files that arrive before each life, without the upper bound.
    """
    chance = random.Random(seed)
    crashes = Crashes()
    started = time.perf_counter()
    (folder / "arrivals").mkdir(parents=True)
    (folder / "updates").mkdir()
    for number in range(kills + 1):
        kind = _KINDS[number % len(_KINDS)] if number < kills else ""
        arriving = chance.randrange(*files)
        for _ in range(arriving):
            arrive(folder / "arrivals", crashes.files)
            arrive_update(folder / "updates", crashes.files)
            crashes.files += 1
        # One kill in eight happens while the child starts, the others during the micro-batches.
        early = chance.random() < 1 / 8
        moment = Moment(_done(folder) + chance.randrange(2 * arriving), chance.uniform(0, 0.4))
        late = not kind or chance.random() < 1 / 2
        queries_started = _live(folder, kind, late, None if early else moment, crashes.problems)
        crashes.lives.append(Life(kind, queries_started, *_ticks(folder)))
        if crashes.problems:
            break
    crashes.problems += compare(folder, crashes.files)
    crashes.seconds = time.perf_counter() - started
    return crashes


@dataclass(frozen=True)
class Moment:
    """The time of a kill: some seconds after a number of ticks of both chains."""

    ticks: int
    seconds: float


def _ticks(folder: Path) -> tuple[int, int]:
    return len(list((folder / "rows").glob("tick-*.parquet"))), len(DeltaLog(folder / "log").ticks())


def _done(folder: Path) -> int:
    return sum(_ticks(folder))


def _live(folder: Path, kind: str, late: bool, moment: Moment | None, problems: list[str]) -> bool:
    """Run a child and kill it; return whether its queries had started."""
    arguments = [str(folder), *([] if kind else ["finish"]), *(["late"] if late else [])]
    errors = folder / "errors"
    with open(errors, "w") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_crash", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=Path(__file__).resolve().parent.parent,
        )
    assert child.stdout is not None
    jvm, started = 0, False
    for line in child.stdout:
        if line.startswith("jvm"):
            jvm = int(line.split()[1])
            if moment is None and kind:
                break
        if line.startswith("started"):
            started = True
            if kind:
                break
    if kind and jvm:
        if moment is not None:
            deadline = time.monotonic() + 20
            while _done(folder) < moment.ticks and time.monotonic() < deadline and child.poll() is None:
                time.sleep(0.01)
            time.sleep(moment.seconds)
        if child.poll() is not None:
            problems.append(f"expected a running child, but it ended: {errors.read_text()[-2000:]}")
        if "driver" in kind:
            child.kill()
        if "jvm" in kind:
            _kill(jvm)
    try:
        status = child.wait(timeout=15 if kind else None)
    except subprocess.TimeoutExpired:  # the JVM was killed, and Python waits for it
        child.kill()
        status = child.wait()
    child.stdout.close()
    _wait_for_end(jvm)
    if status and not (kind and jvm):
        problems.append(f"a child ended with exit code {status}: {errors.read_text()[-2000:]}")
    return started


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait_for_end(jvm: int) -> None:
    """Wait until a JVM without its driver ends; kill it after 10 seconds."""
    for _ in range(100):
        try:
            os.kill(jvm, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    _kill(jvm)


# --- comparing -----------------------------------------------------------------------------------


def compare(folder: Path, files: int) -> list[str]:
    """Compare the ticks in all folders with the circuit without Spark; return the differences."""
    problems: list[str] = []

    def check(what: str, actual: Any, expected: Any) -> None:
        if actual != expected:
            problems.append(f"{what}: {_difference(actual, expected)}")

    batches = batches_of(folder / "pipeline")
    check("the files of the pipeline", [file for batch in batches for file in batch], list(range(files)))
    updates = batches_of(folder / "pipeline", 1)
    check("the files of updates", sorted(file for batch in updates for file in batch), list(range(files)))
    expected, views = _stepped(batches, updates)
    for name in ("rows", "path", "newest"):
        deltas = dict(_sink(folder / name))
        check(f"the folder '{name}'", deltas, expected[name])
        check(f"the sum of the folder '{name}'", _sum(deltas.values()), views[name])
        with _damage_among(problems, f"the checksums of the folder '{name}'"):
            check(f"the view of the folder '{name}'", _verified_view(folder / name), views[name])
    # The sink that was left out has fewer ticks, and the sum up to each of them is exact.
    sums = {
        tick: _sum(delta for n, delta in expected["rows"].items() if n <= tick) for tick in expected["rows"]
    }
    late = dict(_sink(folder / "late"))
    given = {tick: _sum(delta for n, delta in late.items() if n <= tick) for tick in late}
    check("the sums of the folder 'late'", given, {tick: sums.get(tick, {}) for tick in late})
    check("the sum of the folder 'late'", _sum(late.values()), views["rows"])
    calls = [tuple(map(int, line.split())) for line in (folder / "calls").read_text().splitlines()]
    check("the order of the calls", calls, sorted(calls))
    # A call interrupted by the end of the process is repeated with the same tick.
    check("the calls", dict(calls), {tick: len(delta) for tick, delta in expected["starts"].items()})

    batches = batches_of(folder / "writer")
    check("the files of the writer", [file for batch in batches for file in batch], list(range(files)))
    expected, views = _stepped(batches, [[] for _ in batches])
    log = DeltaLog(folder / "log")
    with _damage_among(problems, "the ticks of the log"):
        check("the ticks of the log", log.ticks(), list(range(1, len(batches) + 1)))
        for name in log.outputs:
            recorded = {tick: delta.to_dict() for tick, delta in log.deltas(name) if delta}
            check(f"the log of '{name}'", recorded, expected[name])
            check(f"the view of '{name}'", log.view(name).to_dict(), views[name])
    batches = batches_of(folder / CHECKPOINT)
    check("the files of the facts", [file for batch in batches for file in batch], list(range(files)))
    compare_facts(folder, batches, change, dict(_sink(folder / "fact-paths")), check)
    waiting = [*folder.glob("inbox/staged/*/*"), *folder.glob("inbox/batches/*/[0-9]*")]
    check("the rest of the inbox", waiting, [])
    return problems


@contextmanager
def _damage_among(problems: list[str], what: str) -> Iterator[None]:
    """Add the error of a damaged or missing file to the differences."""
    try:
        yield
    except dbsp.CheckpointError as error:
        problems.append(f"{what}: {error}")


def _verified_view(folder: Path) -> Delta:
    """Return the sum of the files in the folder of a sink, as the format "dbsp" reads it."""
    return SinkRecording(folder).view(None).to_dict()


def batches_of(checkpoint: Path, source: int = 0) -> list[list[int]]:
    """Return the files of a source in every micro-batch, from Spark's checkpoint."""
    listed: dict[int, list[int]] = {}
    for path in (checkpoint / "sources" / str(source)).iterdir():
        if not path.name.startswith("."):
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                number = int(Path(entry["path"]).stem)
                file = number if entry["path"].endswith(".parquet") else 999_999 - number
                files = listed.setdefault(entry["batchId"], [])
                if file not in files:  # a compacted list repeats the entries
                    files.append(file)
    names = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    batches, after = [], -1
    for name in names:
        line = (checkpoint / "offsets" / str(name)).read_text().splitlines()[2 + source]
        until = after if line == "-" else json.loads(line)["logOffset"]
        batches.append([file for offset in range(after + 1, until + 1) for file in sorted(listed[offset])])
        after = until
    return batches


def _stepped(
    batches: list[list[int]], updates: list[list[int]]
) -> tuple[dict[str, dict[int, Delta]], dict[str, Delta]]:
    """Step the circuit without Spark; return its deltas by output and tick, and its final views."""
    run = circuit().start()
    deltas: dict[str, dict[int, Delta]] = {name: {} for name in run.outputs}
    for batch, updating in zip(batches, updates, strict=True):
        rows = [row for file in updating for row in updated(file)]
        result = run.step({"edge": _sum(map(change, batch)), "update": rows})
        for name, delta in result.items():
            if delta:
                deltas[name][result.number] = delta.to_dict()
    return deltas, {name: run.view(name).to_dict() for name in run.outputs}


def _difference(actual: Any, expected: Any) -> str:
    """Describe the first differences of two values."""
    if not isinstance(actual, dict):
        return f"expected {str(expected)[:500]}, got {str(actual)[:500]}"
    keys = sorted(key for key in {*actual, *expected} if actual.get(key) != expected.get(key))
    places = [f"at {key} expected {expected.get(key)}, got {actual.get(key)}" for key in keys[:3]]
    return f"{len(keys)} differences, such as {'; '.join(places)}"


def _sink(folder: Path) -> Iterator[tuple[int, Delta]]:
    for path in sorted(folder.glob("tick-*.parquet")):
        table = pq.ParquetFile(path).read()
        tick = int(path.stem[5:])
        if set(table.column("tick").to_pylist()) != {tick}:
            tick = -tick  # a tick that is never expected
        yield tick, ZSet.from_arrow(table.drop_columns(["tick"]), "weight").to_dict()


def _sum(deltas: Any) -> Delta:
    total: Counter[tuple[Any, ...]] = Counter()
    for delta in deltas:
        for row, weight in delta.items():
            total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), "finish" in sys.argv[2:], "late" in sys.argv[2:])
