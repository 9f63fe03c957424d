"""One Spark session for all tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dbsp


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = dbsp.spark.session(
            "dbsp tests",
            settings={
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder / "local"),
                # Rename files without checksums, which take 1/4 of a small micro-batch's time.
                "spark.sql.streaming.checkpointFileManagerClass": (
                    "org.apache.spark.sql.execution.streaming.checkpointing."
                    "FileSystemBasedCheckpointFileManager"
                ),
            },
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
