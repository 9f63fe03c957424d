"""The demo on Spark reads what arrives, and notices a delta that is wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import dbsp
from examples.stdlib_demo.demo import PROGRAM
from examples.stdlib_demo.edited_library import EditedLibrary
from examples.stdlib_demo.extract import Library, library_files
from examples.stdlib_demo.fact_pipeline import FactPipeline
from examples.stdlib_demo.report import Report
from examples.stdlib_demo.spark_demo import SparkDemo

pytestmark = pytest.mark.spark

SOURCES = {
    "a": "import b\ndef f(): b.g()\n",
    "b": "import c\nimport os\ndef g(): os.system('x')\n",
    "c": "import b\ndef h():\n    import a\n    a.f()\n",
    "os": "import c\n",
}


class DamagingPipeline(FactPipeline):
    """Damages the deltas of a view after a tick: as if the circuit had computed a wrong weight."""

    damaged_tick = 0

    def wait(self) -> dict[str, Any]:
        tick = super().wait()
        if tick["tick"] == self.damaged_tick:
            path = self.folder / "deltas" / "risky" / f"tick-{self.damaged_tick:012d}.parquet"
            table = pq.read_table(path)
            weights = table.column("weight").to_pylist()
            weights[0] = -weights[0]
            pq.write_table(table.set_column(table.column_names.index("weight"), "weight", [weights]), path)
        return tick


def demo_of(pipeline: FactPipeline, sources: Path) -> tuple[SparkDemo, io.StringIO]:
    """Return the demo over four small modules, and its output."""
    sources.mkdir()
    for name, text in SOURCES.items():
        (sources / f"{name}.py").write_text(text)
    out = io.StringIO()
    report = Report(Console(file=out, width=200), rows=8)
    edited = EditedLibrary(Library.read(library_files(sources), jobs=1))
    return SparkDemo(report, pipeline.program, edited, pipeline), out


def test_every_file_is_a_tick_whose_deltas_equal_the_recomputation(spark: Any, tmp_path: Path) -> None:
    pipeline = FactPipeline(dbsp.compile(PROGRAM), spark, tmp_path / "demo")
    demo, out = demo_of(pipeline, tmp_path / "sources")
    assert demo.play(2) == 0, out.getvalue()
    files = sorted(path for path in (tmp_path / "demo" / "facts").glob("*.json"))
    assert out.getvalue().count("  equal\n") == len(files) == 10
    first = json.loads(files[0].read_text().splitlines()[0])
    assert first == {"relation": "calls", "op": "insert", "caller": "a.f", "callee": "b.g"}
    assert "the query continues from its checkpoint" in out.getvalue()


def test_a_wrong_weight_in_the_delta_of_one_tick_is_noticed(spark: Any, tmp_path: Path) -> None:
    pipeline = DamagingPipeline(dbsp.compile(PROGRAM), spark, tmp_path / "demo")
    pipeline.damaged_tick = 3
    demo, out = demo_of(pipeline, tmp_path / "sources")
    pipeline.start()
    demo.load()
    pipeline.stop()
    assert demo.comparison.differences > 0
    printed = out.getvalue()
    assert printed.count("DIFFERS") == 3  # from tick 3 on
    assert "risky after 002 b.json differs from plain Python in 1 rows" in printed
