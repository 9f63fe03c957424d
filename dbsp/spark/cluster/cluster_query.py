"""The query that the tasks of a run on executors share."""

from __future__ import annotations

import pickle
import sys
from functools import lru_cache

from dbsp.circuit.graph import Graph
from dbsp.errors import SetupError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.stages.segments import Segment, segments_of
from dbsp.spark.cluster.segment_state import forget_runs
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.spared_imports import spare_imports

_CIRCUITS = 32
"""The circuits that a process keeps."""


@dataclass(frozen=True)
class ClusterQuery:
    """What every task of a query knows."""

    id: str
    graph: bytes
    """The distributed circuit, pickled."""
    shards: int
    folder: SharedFolder
    image_from: int
    """The least bytes of a journal that an image replaces."""
    version: str
    """The version of dbsp and of Python in the driver."""
    memory_limit: int | None = None
    """The bytes of memory for the state of a segment of a shard; None without a limit."""

    def checked_graph(self) -> Graph:
        """Return the circuit, at the begin of a task.

        Raises SetupError if this process has another version of dbsp.
        """
        spare_imports(forget_runs)
        if self.version != versions():
            raise SetupError(
                f"the driver runs {self.version}, an executor {versions()}; install the same versions on the "
                "driver and on all executors, or ship them with --archives"
            )
        return _graph(self.graph)

    def segments(self) -> list[Segment]:
        """Return the segments of the circuit, by level."""
        self.checked_graph()
        return _segments(self.graph)


def versions() -> str:
    """Return the versions that the driver and the executors must share."""
    return (
        f"dbsp {sys.modules['dbsp'].__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"
    )


def shard_of_task() -> int:
    """Return the number of the partition of this task, which is that of its shard."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task runs in a partition"
    return int(context.partitionId())


@lru_cache(maxsize=_CIRCUITS)
def _graph(data: bytes) -> Graph:
    graph: Graph = pickle.loads(data)
    return graph


@lru_cache(maxsize=_CIRCUITS)
def _segments(data: bytes) -> list[Segment]:
    return segments_of(_graph(data))
