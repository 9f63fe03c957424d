"""Where the ticks of a sink on a cluster arrive: a folder of parts, a table, or a function.

The executors write the parts of a tick. A folder of parts is complete with that; a table or a
function then receives a DataFrame of the parts, which the executors read.

| target                    | published by                   | ledger                 | twice? |
|---------------------------|--------------------------------|------------------------|--------|
| folder of parts           | renaming the folder `tick=N`   | the commit of the tick | never  |
| table                     | appending with a column `tick` | the ticks in it        | (a)    |
| function(DataFrame, tick) | its returning                  | a file in the state    | (b)    |

(a) and (b) as in `dbsp.spark.targets`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbsp.durable.sealed_files import decoding
from dbsp.errors import CheckpointError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.part_sink import PartSink, tick_folder, ticks_of_parts
from dbsp.spark.cluster.shared_file import SharedFile
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.sink_opening import BoundSink
from dbsp.spark.targets import Opening, Target, refuse_tick_column, removed

_DESCRIPTION = "_dbsp.json"


class PartTarget(Target):
    """A folder with a folder of Parquet parts for each tick that changed the output."""

    kind = "folder of parts"

    def __init__(self, folder: SharedFolder) -> None:
        self.folder = folder

    def describe(self) -> str:
        return f"the folder {self.folder.location}"

    def open(self, opening: Opening) -> None:
        refuse_tick_column(opening.struct)
        file = SharedFile(self.folder, _DESCRIPTION, "dbsp folder of parts", "")
        known = file.read()
        if known is not None:
            with decoding(Path(self.folder.location) / _DESCRIPTION):
                self._compare(known["owner"], known["schema"], opening)
        elif not opening.new and not opening.replaces:
            raise removed(self.describe())
        elif any(name.endswith(".parquet") or name.startswith("tick=") for name in self.folder.names("")):
            raise CheckpointError(
                f"expected an empty folder, got Parquet files of another program in {self.folder.location};"
                " choose another folder",
                code="checkpoint-not-empty",
            )
        else:
            file.write({"owner": opening.owner, "schema": opening.struct.jsonValue()})
        self.latest = max(ticks_of_parts(self.folder), default=0)

    def _compare(self, owner: str, schema: Any, opening: Opening) -> None:
        location = self.folder.location
        if owner != opening.owner:
            raise CheckpointError(
                f"{location} holds the output of another query ({owner}); choose another"
                " folder, or continue with the checkpoint of that query",
                code="checkpoint-other-query",
            )
        if schema != opening.struct.jsonValue():
            raise SchemaError(
                f"expected the columns of the files in {location},"
                f" {type(opening.struct).fromJson(schema).simpleString()},"
                f" got {opening.struct.simpleString()}; choose another folder",
                code="schema-mismatch",
            )

    def write(self, table: Any, tick: int) -> None:
        """Note that the parts of a tick are published."""
        self.latest = tick


@dataclass
class ClusterSink(BoundSink):
    """A sink with the parts that executors write."""

    part: PartSink

    def frame(self, session: Any, tick: int) -> Any:
        """Return the parts of a tick as a DataFrame, which executors read."""
        return read_parts(session, self.part.folder, tick, self.struct)


def read_parts(session: Any, folder: SharedFolder, tick: int, struct: Any) -> Any:
    """Return the parts of a tick in a folder as a DataFrame."""
    return session.read.schema(struct).parquet(folder.uri(tick_folder(tick)))
