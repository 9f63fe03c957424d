"""Start a Spark session for small micro-batches on one machine."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from dbsp.errors import SetupError, cause_text
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
    name: str = "dbsp",
    *,
    master: str = "local[2]",
    remote: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Return the active SparkSession, or start one configured for small steps on this machine.

    For examples, tests and single machines; a pipeline uses the session of its DataFrames. Checks
    the Java first (see `dbsp.spark.ensure_java`) and sets the workers' Python to this one. Takes
    3.5 s, and the first job 1.6 s.

    Parameters:
        name: the name of the application.
        master: Spark's master URL.
        remote: for a session of Spark Connect: the URL of its server, such as "sc://host", or
            "local[2]" to start a server on this machine. Needs the extra `spark-connect`.
        settings: Spark settings that override the defaults of this function.

    Returns:
        The SparkSession.

    Raises:
        SetupError: pyspark is not installed, or the packages of Spark Connect, or no suitable Java
            was found.

    Examples:
        >>> spark = dbsp.spark.session()
        >>> spark.range(3).count()
        3
    """
    pyspark_or_advice()
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote:
        return _connected(SparkSession.builder.appName(name), remote, settings or {})
    ensure_java()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _connected(builder: Any, remote: str, settings: Mapping[str, Any]) -> Any:
    """Return a session of Spark Connect."""
    if remote.startswith("local"):
        ensure_java()
        settings = {**_SETTINGS, **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with warnings.catch_warnings():
            # A local server has these settings; the session tries to set them once more.
            warnings.filterwarnings("ignore", r"Failed to set .*\[CANNOT_MODIFY")
            return builder.remote(remote).getOrCreate()
    except ImportError as error:
        raise SetupError(
            f"Spark Connect needs packages that are not installed ({cause_text(error)}):"
            " pip install 'dbsp-circuits[spark-connect]'"
        ) from None


def pyspark_or_advice() -> Any:
    """Return the package pyspark. Raises SetupError, which says how to install it."""
    try:
        import pyspark
    except ImportError:
        raise SetupError("pyspark is not installed: pip install 'dbsp-circuits[spark]'") from None
    return pyspark
