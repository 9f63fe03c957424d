"""The link of a segment: what its exchanges send, and the rounds in which it waits for the others.

An exchange between segments does not wait: it collects what it sends, and the rows arrive as the
input of a later segment. A scope with exchanges inside waits in each exchange and vote. All shards
make these calls in the same order, so the n-th of a tick is *round* n: each shard sends something
to each shard, and continues when it has the *answers*: what all shards have sent to it:

    from S    a header of shard S: a digest of the headers of all rounds before, and its vote
    0, 1, ... the rows of the first, second, ... exchange of the round, as messages of other shards

The answers of all rounds make a tick deterministic, so they are a part of its journal. A shard that
computes a round again sends the same rows. Its votes may differ in the counts of work, which depend
on how far sorted runs are merged. Then no shard may see both votes: they would decide differently.
The digests reveal that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from dbsp.circuit.graph import Graph
from dbsp.circuit.node_numbers import numbered
from dbsp.circuit.shard_link import Exchanged, SentRows, ShardLink
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import InvariantError, ShardError
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.row_messages import read_rows, written_rows

_DIGEST = 16
Answers = Mapping[str, Sequence[bytes]]
"""The messages of a round for one shard, by their names."""


class RoundsDifferError(ShardError):
    """The shards have seen different votes, so the tick must be computed again."""

    code = "rounds-differ"


@dataclass(frozen=True, slots=True)
class MovedRows:
    """What a segment sends to one shard: rows of an exchange, or a part of a round."""

    exchange: str
    """The name of the exchange, as steps give it to their link, or the name in the answers."""
    shard: int
    message: bytes


class SegmentLink(ShardLink):
    """Keeps what the exchanges between segments send, and waits in those inside of scopes."""

    def __init__(self, graph: Graph, shard: int, shards: int, interner: Interner) -> None:
        self.shard = shard
        self.shards = shards
        self.round = 0
        """The number of the rounds of the tick in which this shard has the answers."""
        self.digest = b""
        """A digest of the headers of these rounds."""
        self._interner = interner
        self._between = {numbered(node) for node in graph.nodes}
        self._sent: list[MovedRows] = []
        self._known: Sequence[Answers] = ()
        self._ask: Callable[[list[MovedRows]], Answers] | None = None

    def begin(
        self, known: Sequence[Answers], ask: Callable[[list[MovedRows]], Answers] | None = None
    ) -> None:
        """Begin a tick. `known` are the answers of its first rounds; `ask` brings the others."""
        self.round, self.digest = 0, bytes(_DIGEST)
        self._known, self._ask = known, ask
        self._sent = []

    def take(self) -> list[MovedRows]:
        """Return what the exchanges between segments have sent in the tick."""
        sent, self._sent = self._sent, []
        return sent

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        if node in self._between:
            self._sent += self._written(node, parts, schema, range(self.shards))
            return None
        (received,) = self._exchanged([(node, parts, schema)])
        return received

    def exchange_packed(
        self, packed: Sequence[tuple[str, Sequence[Batch | None], Schema]]
    ) -> list[Batch | None]:
        if packed[0][0] in self._between:
            return super().exchange_packed(packed)
        return self._exchanged(packed)

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        raise InvariantError(
            f"expected a segment without exchanges inside of joins, got {node}; this is a defect of dbsp"
        )

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        if self.shards == 1:
            return [tuple(numbers)]
        return self._votes(self._answers(numbers, ()), len(numbers))

    def _exchanged(self, packed: Sequence[tuple[str, Sequence[Batch | None], Schema]]) -> list[Batch | None]:
        if self.shards == 1:
            return [parts[0] for _, parts, _ in packed]
        answers = self._answers((), packed)
        self._votes(answers, 0)
        received = []
        for slot, (_, parts, schema) in enumerate(packed):
            others = read_rows(answers.get(str(slot), ()), schema, self._interner)
            pieces = [piece for piece in (parts[self.shard], others) if piece]
            received.append(merge_sorted(pieces))
        return received

    # --- rounds -----------------------------------------------------------------------------------

    def _answers(
        self,
        numbers: Sequence[int],
        packed: Sequence[tuple[str, Sequence[Batch | None], Schema]],
    ) -> Answers:
        """Do a round: send the rows and the vote, and return what all shards have sent."""
        if self.round < len(self._known):
            return self._known[self.round]
        if self._ask is None:
            raise InvariantError(
                f"expected the answers of round {self.round} in the journal of the tick; this is a defect of "
                "dbsp"
            )
        header = self.digest + struct.pack(f"<{len(numbers)}q", *numbers)
        sent = [MovedRows(f"from {self.shard}", shard, header) for shard in range(self.shards)]
        others = [shard for shard in range(self.shards) if shard != self.shard]
        for slot, (_, parts, schema) in enumerate(packed):
            sent += self._written(str(slot), parts, schema, others)
        return self._ask(sent)

    def _votes(self, answers: Answers, count: int) -> list[tuple[int, ...]]:
        """Return the votes in the answers of a round, which now counts."""
        headers: list[bytes] = []
        for shard in range(self.shards):
            found = answers.get(f"from {shard}", ())
            if len(found) > 1:
                raise InvariantError(
                    f"expected a header of shard {shard} in round {self.round}, got {len(found)}; this is a "
                    "defect of dbsp"
                )
            headers += map(bytes, found)
        # A shard that has decided differently may have ended the scope.
        if len(headers) < self.shards or any(header[:_DIGEST] != self.digest for header in headers):
            raise RoundsDifferError(
                f"the shards have seen different votes before round {self.round}, because one of them has "
                "computed a round again; the tick is rolled back and can be repeated"
            )
        if any(len(header) != _DIGEST + 8 * count for header in headers):
            raise InvariantError(
                f"the shards do different calls in round {self.round}; this is a defect of dbsp"
            )
        self.round += 1
        self.digest = blake2b(b"".join(headers), digest_size=_DIGEST).digest()
        return [struct.unpack(f"<{count}q", header[_DIGEST:]) for header in headers]

    def _written(
        self, name: str, parts: Sequence[Batch | None], schema: Schema, shards: Sequence[int]
    ) -> list[MovedRows]:
        return [
            MovedRows(name, shard, message)
            for shard in shards
            if (part := parts[shard]) is not None
            for message in written_rows(part, schema, self._interner)
        ]
