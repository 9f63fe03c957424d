"""PlacedRows: assert at run time that every row of a stream is on its shard.

The checking form of a distributed circuit has one beside every stream that an operator reads by a
key. Linear, no state, no readers. Cost: one pass over the delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS
from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.errors import InvariantError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.shards.exchange import OwnedStep, Placing


@dataclass(frozen=True)
class PlacedRows(Placing):
    """The stream itself; raises InvariantError for a row that the hash places on another shard."""

    columns: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)

    @property
    def label(self) -> str:
        return f"Check the shard by {', '.join(map(str, self.columns)) or 'no columns'}"

    @property
    def is_port(self) -> bool:
        return True  # the check takes place even if nothing reads the stream

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return PlacedRowsStep(node, sources[0], scope, self.columns)


class PlacedRowsStep(OwnedStep):
    __slots__ = ()

    def step(self) -> None:
        super().step()
        expected, found = len(self._source.out or ()), len(self.out or ())
        if found < expected:
            link = self._link
            raise InvariantError(
                f"{expected - found} of {expected} rows on shard {link.shard} of {link.shards} belong to "
                "other shards; this is a defect of dbsp",
                where=self._where,
            )
