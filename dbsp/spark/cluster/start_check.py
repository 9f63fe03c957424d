"""Check at the start of a query that the executors can run it: one small job.

Every task reads a file that the driver has written to each folder, and writes one that the driver
must find; it has the driver's versions of dbsp and Python; and it can read the circuit, whose
functions may be in modules that only the driver has.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dbsp.errors import CheckpointError, CircuitError, DbspError, SetupError, cause_text
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.cluster_query import ClusterQuery
from dbsp.spark.cluster.messages import COLUMNS, START, facts_in, failure, messages_in, report
from dbsp.spark.cluster.shared_folder import SharedFolder

_PROBE = "_dbsp/probe"
SHIP = "install the same version on the driver and on all executors, or ship it with --archives"


@dataclass(frozen=True)
class CheckTask:
    """What a task checks."""

    query: ClusterQuery
    folders: tuple[SharedFolder, ...]
    probe: str
    """The unique name of the check."""

    @property
    def __name__(self) -> str:  # Spark shows it
        return "check of the executors"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = uuid.uuid4().hex
        for _ in messages_in(batches):
            pass
        try:
            self._check_circuit()
            for folder in self.folders:
                if folder.read(f"{_PROBE}-{self.probe}/driver") != self.probe.encode():
                    raise not_shared(folder, f"a file of the driver is missing on {socket.gethostname()}")
                folder.write(f"{_PROBE}-{self.probe}/{name}", b"executor")
        except DbspError as error:
            yield failure(0, START, error).batch()
            return
        yield report(0, {"file": name, "host": socket.gethostname()}).batch()

    def _check_circuit(self) -> None:
        try:
            self.query.segments()
        except DbspError:
            raise
        except Exception as error:  # whatever the modules and objects of the user raise
            raise CircuitError(
                f"the executors cannot read the circuit ({cause_text(error)}); ship the modules of its "
                "functions with sparkContext.addPyFile or --py-files",
                code="not-picklable",
            ) from None


def check_executors(session: Any, query: ClusterQuery, folders: Sequence[SharedFolder], tasks: int) -> None:
    """Run the check in a number of tasks, which Spark spreads over the executors.

    Raises SetupError, CircuitError or CheckpointError with what the executors lack.
    """
    probe = uuid.uuid4().hex
    try:
        for folder in folders:
            folder.write(f"{_PROBE}-{probe}/driver", probe.encode())
        rows = session.range(0, tasks, 1, tasks).selectExpr(
            "cast(id AS int) AS shard", f"{START} AS level", "'' AS input", "binary('') AS content"
        )
        task = CheckTask(query, tuple(folders), probe)
        try:
            answers = rows.mapInArrow(task, COLUMNS).toArrow()
        except Exception as error:  # of Spark, with the text of the worker's
            problem = without_package(str(error))
            if problem is None:
                raise
            raise problem from None
        written = {facts["file"]: facts["host"] for facts in facts_in(messages_in(answers.to_batches()))}
        for folder in folders:
            present = folder.names(f"{_PROBE}-{probe}")
            for name, host in written.items():
                if name not in present:
                    raise not_shared(folder, f"the driver does not see a file that {host} has written")
    finally:
        for folder in folders:
            folder.remove(f"{_PROBE}-{probe}")


def not_shared(folder: SharedFolder, problem: str) -> CheckpointError:
    """Return the error for a folder that an executor does not share with the driver."""
    return CheckpointError(
        f"expected a folder that the driver and all executors share, got {folder.location}: {problem}; "
        "choose a folder on a file system of the cluster, such as one of NFS, HDFS or S3",
        code="folder-not-shared",
    )


def without_package(text: str) -> SetupError | None:
    """Return the error for executors without the package; None for another error of a task.

    >>> without_package("ModuleNotFoundError: No module named 'dbsp'").message.partition(";")[0]
    "the executors cannot import dbsp (No module named 'dbsp')"
    """
    for module in ("dbsp", "numba", "numpy", "pyarrow"):
        for found in (f"No module named '{module}'", f"No module named '{module}."):
            if found in text:
                reason = text[text.index(found) :].split("\n")[0]
                return SetupError(f"the executors cannot import dbsp ({reason}); {SHIP}")
    return None
