"""What one node has done since statistics were switched on."""

from __future__ import annotations

from dbsp.circuit.graph import Node


class NodeStats:
    """The counts of one node (see `Run.observe`): steps, rows put out, seconds."""

    __slots__ = ("node", "rows_out", "seconds", "steps")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.steps = 0
        self.rows_out = 0
        self.seconds = 0.0

    def resume(self, before: NodeStats) -> None:
        """Count on from the figures of another node."""
        self.steps, self.rows_out, self.seconds = before.steps, before.rows_out, before.seconds
