"""What one tick did to every node: rows, time, and the deltas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbsp.circuit.graph import Node
from dbsp.data.batch import Batch


@dataclass(frozen=True)
class NodeWork:
    """The work of a node in one tick: the rows that it emitted, its steps, and their time."""

    rows: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class TickRecord:
    """One tick: its number and duration, and the work and the deltas of the nodes."""

    number: int
    seconds: float
    work: Mapping[Node, NodeWork] = field(default_factory=dict)
    deltas: Mapping[Node, Batch] = field(default_factory=dict)
    iterations: Mapping[str, int] = field(default_factory=dict)
