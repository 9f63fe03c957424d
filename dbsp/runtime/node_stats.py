"""The statistics of one node since they were switched on."""

from __future__ import annotations

from dbsp.circuit.graph import Node
from dbsp.data.batch import Batch
from dbsp.display.displayed import Displayed
from dbsp.errors import counted


class NodeStats:
    """The counts of one node since `Run.observe()`; `Run.stats()` returns them.

    `node` is the node, `steps` counts its steps, `rows_out` the rows that it emitted, and `seconds`
    is the time that its steps took. A node of a fixpoint takes one step per iteration.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> run = circuit.start()
        >>> run.observe()
        >>> result = run.step({"sale": [(7,), (3,), (9,)]})
        >>> stats = run.stats()[0]
        >>> stats.node.label, stats.steps, stats.rows_out
        ('Input sale', 1, 3)
    """

    __slots__ = ("node", "rows_out", "seconds", "steps")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.steps = 0
        self.rows_out = 0
        self.seconds = 0.0

    def __repr__(self) -> str:
        place = f"{self.node.label} at {self.node.source}" if self.node.source else self.node.label
        steps, rows = counted(self.steps, "step"), counted(self.rows_out, "row")
        return f"<{place}: {steps}, {rows}, {self.seconds:.6f} s>"

    def add(self, seconds: float, out: Batch | None) -> None:
        """Count one step that took so long and emitted this delta."""
        self.seconds += seconds
        self.steps += 1
        if out is not None:
            self.rows_out += len(out)

    def resume(self, before: NodeStats) -> None:
        """Continue counting from the counts of another node."""
        self.steps, self.rows_out, self.seconds = before.steps, before.rows_out, before.seconds


class StatsList(list[NodeStats], Displayed):
    """The statistics of several nodes; a list in every respect."""

    _described_by = "dbsp.runtime.run_display:stats_document"
