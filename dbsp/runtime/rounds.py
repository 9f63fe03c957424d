"""Rounds: the exchanges between shards that wait for each other once instead of one by one.

The level of a step is the number of exchanges that its inputs pass one after the other:

    level(s) = max over its inputs i of level(i) + (1 if i exchanges rows else 0),  0 without inputs

Exchanges of one level do not need the results of each other, so the shards do them in one *round*.
The schedule has the steps by level, those that exchange rows last in each. So a tick has as many
rounds as a path of the circuit has exchanges, and not as many as the circuit. Two kinds of steps
stay before or after others:

- a strict step and what it reads, since it reads what was emitted before the step;
- a step with a nested scope and the other readers of its inputs, since it may look for the integral
  of an input in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dbsp.circuit.graph import Node
from dbsp.circuit.shard_link import ShardLink
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import MeetingStep


class Round(Step):
    """Exchanges the rows of several steps at once."""

    __slots__ = ("_link", "members")

    def __init__(self, members: Sequence[MeetingStep], link: ShardLink) -> None:
        super().__init__()
        self.node = members[0].node
        self.members = members
        self._link = link

    def step(self) -> None:
        packed = []
        for member in self.members:
            self.node = member.node  # which an error names
            packed.append(member.pack())
        for member, out in zip(self.members, self._link.exchange_packed(packed), strict=True):
            member.out = out


def scheduled(steps: Sequence[Step], link: ShardLink) -> Sequence[Step]:
    """Return steps, each after its inputs, in an order with few rounds."""
    levels = _levels(steps)
    schedule: list[Step] = []
    ordered = sorted(steps, key=lambda step: (levels[step.node], isinstance(step, MeetingStep)))
    for _, of_level in groupby(ordered, key=lambda step: levels[step.node]):
        meeting: list[MeetingStep] = []
        for step in of_level:
            if isinstance(step, MeetingStep):
                meeting.append(step)
            else:
                schedule.append(step)
        schedule += [Round(meeting, link)] if len(meeting) > 1 else meeting
    return schedule if len(schedule) < len(steps) else steps


def _levels(steps: Sequence[Step]) -> dict[Node, int]:
    """Return the level of each node, which is not less than that of nodes that stay before it."""
    meets = {step.node: isinstance(step, MeetingStep) for step in steps}
    nests = {node: bool(node.operator.children()) for node in meets}
    strict_readers: dict[Node, list[Node]] = {}
    readers: dict[Node, list[Node]] = {}
    levels: dict[Node, int] = {}
    for node in meets:
        before = [*(stream.node for stream in node.inputs), *strict_readers.get(node, ())]
        for stream in node.strict:
            if stream.node in levels:
                before.append(stream.node)
            else:
                strict_readers.setdefault(stream.node, []).append(node)
        for stream in node.inputs:
            earlier = readers.setdefault(stream.node, [])
            before += (other for other in earlier if nests[node] or nests[other])
            earlier.append(node)
        levels[node] = max((levels[each] + meets[each] for each in before), default=0)
    return levels
