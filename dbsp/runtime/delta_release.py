"""When the delta of each step of a scope may be released within a tick of many rows.

    schedule        Input   Arrange   Join   Distinct   Output
    released after          Input            Join                 (and Arrange after Join)

A delta has been read when the last reader of its node has stepped. Until the end of the tick stay:
the deltas of outputs, which the tick returns; those that a step reads at the commit; and those with
values that a checkpoint may refuse, whose columns its error names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.runtime.ports import CommitListener, OutputPort
from dbsp.runtime.rounds import Round

ReleasePlan: TypeAlias = list[tuple[Callable[[], None], tuple[Step, ...]]]
"""For each step of a schedule, the method to call, and the steps whose deltas are released then."""


def release_plan(schedule: Sequence[Step], kept: Collection[Step] = ()) -> ReleasePlan:
    """Return the deltas to release after each step of a schedule, but not those of `kept`."""
    by_node: dict[Node, Step] = {}
    last: dict[Node, int] = {}
    late: set[Node] = {step.node for step in kept}
    for place, entry in enumerate(schedule):
        for step in entry.members if isinstance(entry, Round) else (entry,):
            node = step.node
            by_node[node] = step
            last[node] = place
            if isinstance(step, OutputPort) or _may_be_refused(node):
                late.add(node)
            read = [stream.node for stream in (*node.inputs, *node.strict)]
            if _reads_late(step):
                late.update(read)
            for source in read:
                last[source] = max(place, last.get(source, place))
    finished: list[list[Step]] = [[] for _ in schedule]
    for node, step in by_node.items():
        if node not in late:
            finished[last[node]].append(step)
    return [
        (_method(entry, released), tuple(released))
        for entry, released in zip(schedule, finished, strict=True)
    ]


def _method(entry: Step, released: Sequence[Step]) -> Callable[[], None]:
    """Return the method that steps an entry and may take over the deltas released after it."""
    return partial(entry.step_last, frozenset(released)) if released else entry.step


def _reads_late(step: Step) -> bool:
    """Return whether a step may read the deltas of its inputs after its own step."""
    return not step.reads_in_step and (hasattr(step, "commit") or isinstance(step, CommitListener))


def _may_be_refused(node: Node) -> bool:
    return any(type_.kind in ("object", "record") for type_ in node.schema.types)
