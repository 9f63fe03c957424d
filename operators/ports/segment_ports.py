"""The ports of a segment: streams that enter it from earlier segments, or leave it for later ones.

A segment is stepped as a circuit of its own (see `dbsp.operators.stages.segments`). A stream leaves
it through an exchange, or through `Carried` if its rows stay on their shard. `Received` is the same
stream in a later segment.

    Carried:   out_i = s_i in the next segment
    Received:  the change that arrives is emitted unchanged
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.input import Input
from dbsp.operators.shards.exchange import Placing, SendingStep


@dataclass(frozen=True)
class Carried(Placing):
    """Sends the rows of a stream to a later segment on the same shard."""

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return CarriedStep(node, sources[0], scope)


@dataclass(frozen=True)
class Received(Input):
    """A stream of an earlier segment; `relation` is its name among the inputs of the segment."""

    sets_only: bool = False
    """Whether the integral of the stream is a set."""

    @property
    def label(self) -> str:
        return f"Received {self.relation}"

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.sets_only


class CarriedStep(SendingStep):
    __slots__ = ()

    def _parts(self) -> Sequence[Batch | None]:
        link = self._link
        return [self._source.out if shard == link.shard else None for shard in range(link.shards)]
