"""Names of segments for people, in Spark's user interface and in reports."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.operator_roles import Port
from dbsp.operators.ports.segment_ports import Carried
from dbsp.operators.stages.segments import Segment
from dbsp.operators.traces.arrange import Arrange

_SHOWN = 6


def segment_name(segments: Sequence[Segment], level: int) -> str:
    """Return a name such as "segment 1 of 3: Join -> Distinct"."""
    kinds: list[str] = []
    for node in segments[level].graph.nodes:
        if not isinstance(node.operator, Port | Carried | Arrange) and node.operator.name not in kinds[-1:]:
            kinds.append(node.operator.name)
    shown = " -> ".join(kinds[:_SHOWN]) + (" -> ..." if len(kinds) > _SHOWN else "")
    return f"segment {level + 1} of {len(segments)}{': ' if shown else ''}{shown}"
