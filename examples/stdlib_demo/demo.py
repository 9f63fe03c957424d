"""Recursive views over the standard library's own source, kept exact while files are edited.

    python -m examples.stdlib_demo              on Spark: files of facts arrive in a folder
    python -m examples.stdlib_demo --shards 2   on Spark, with the circuit divided into two shards
    python -m examples.stdlib_demo --local      without Spark, in this process
    python -m examples.stdlib_demo --limit 80   a part of the library

The facts are read from the source on this machine (extract.py), the views are defined in
program.dl. On Spark, the facts arrive as files in a folder, Structured Streaming reads them, the
circuit makes one tick of every micro-batch, and the deltas of the views are Parquet files
(fact_pipeline.py). Then some files of the library are edited: their text is read again, and the
changes of the facts are one tick. The demo prints the deltas of the tick, its time, and the time of
recomputing the views from scratch. After every tick it compares the views, which are the sum of the
deltas, with that recomputation. The exit code is 1 if the results ever differ.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import dbsp
from examples.stdlib_demo.edited_library import EditedLibrary
from examples.stdlib_demo.fact_pipeline import FactPipeline
from examples.stdlib_demo.local_demo import LocalDemo
from examples.stdlib_demo.report import Report
from examples.stdlib_demo.spark_demo import SparkDemo, spark_session

PROGRAM = Path(__file__).with_name("program.dl")

app = typer.Typer(add_completion=False)


@app.command(help=__doc__)
def main(
    local: Annotated[bool, typer.Option("--local", help="Run without Spark, in this process.")] = False,
    shards: Annotated[
        int | None, typer.Option(help="Divide the circuit into shards, on Spark's executors.", min=1)
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for facts, deltas and checkpoint, which stays (default: none stays)."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Read at most this many files.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes that read files (default: all).", min=1)] = None,
    rows: Annotated[int, typer.Option(help="Rows shown per table.", min=1)] = 8,
    ticks: Annotated[
        int | None,
        typer.Option(
            help="Single changes at the end (default: 10; with --shards 4, with --local 200).", min=2
        ),
    ] = None,
) -> None:
    if local and (shards is not None or folder is not None):
        raise typer.BadParameter("--shards and --folder need Spark; remove --local")
    if folder is not None and folder.exists():
        raise typer.BadParameter(f"--folder expects a new folder, got {folder}, which exists")
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    report = Report(console, rows)
    program = dbsp.compile(PROGRAM)
    edited = EditedLibrary(report.read(limit, jobs))
    report.show_facts(edited.facts)
    if local:
        differences = LocalDemo(report, program, edited).play(ticks or 200)
    else:
        differences = _on_spark(
            report, program, edited, folder, shards, ticks or (10 if shards is None else 4)
        )
    if differences:
        report.line(f"{differences} views differ from their recomputation", "red")
        raise typer.Exit(1)
    report.line("every view equals its recomputation, after every tick", "green")


def _on_spark(
    report: Report,
    program: dbsp.Program,
    edited: EditedLibrary,
    folder: Path | None,
    shards: int | None,
    ticks: int,
) -> int:
    place = Path(tempfile.mkdtemp(prefix="dbsp-demo-")) if folder is None else folder.absolute()
    try:
        with spark_session(report) as spark:
            return SparkDemo(report, program, edited, FactPipeline(program, spark, place, shards)).play(ticks)
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
