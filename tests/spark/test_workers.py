"""Programs and circuits on the workers of Spark: they are pickled with the function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import dbsp
from dbsp import Circuit, col
from tests import spark_home

pytestmark = pytest.mark.spark


def test_a_program_and_a_circuit_run_on_workers(spark: SparkSession) -> None:
    program = dbsp.compile("""
        .decl edge(x: number, y: number) .input edge
        .decl path(x: number, y: number) .output path
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
    """)
    circuit = Circuit("big")
    circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))

    def work(parts: Any) -> Any:
        for first in parts:
            paths = program.start({"edge": [(first, first + 1), (first + 1, first + 2)]}).view("path").rows()
            yield paths, circuit.start().step({"sale": [(first,)]})["big"].rows()

    found = spark.sparkContext.parallelize([1, 10], 2).mapPartitions(work).collect()
    assert found == [
        ([(1, 2), (1, 3), (2, 3)], []),
        ([(10, 11), (10, 12), (11, 12)], [(10,)]),
    ]


def test_an_error_of_a_worker_names_its_place(spark: SparkSession) -> None:
    program = dbsp.compile(".decl n(x: number) .input n .decl q(x: number) .output q\nq(10 / x) :- n(x).")

    def work(x: int) -> Any:
        return program.start({"n": [(x,)]}).view("q").rows()

    with pytest.raises(Exception, match=r"<program>:2:3: error: division by zero: 10 / x with x = 0"):
        spark.sparkContext.parallelize([0], 1).map(work).collect()


def test_the_workers_of_the_tests_import_the_installed_pyspark(spark: SparkSession) -> None:
    def work(number: int) -> str:
        import pyspark

        return pyspark.__file__

    assert set(spark.sparkContext.parallelize([0, 1], 2).map(work).collect()) == {pyspark.__file__}


def test_a_home_of_another_environment_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "")
    (tmp_path / "bin").symlink_to(tmp_path / "gone")
    for _ in range(2):
        assert spark_home.use(tmp_path).resolve() == Path(pyspark.__file__).parent / "jars"
        assert (tmp_path / "bin" / "spark-submit").is_file()
