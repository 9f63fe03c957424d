"""Rounds: the exchanges between shards that wait for each other once instead of one by one.

The level of a step is the number of exchanges that its inputs pass one after the other:

    level(s) = max over its inputs i of level(i) + (1 if i exchanges rows else 0),  0 without inputs

Exchanges of one level do not need the results of each other, so the shards do them in one *round*.
The schedule has the steps by level, those that exchange rows last in each. So a tick has as many
rounds as a path of the circuit has exchanges, and not as many as the circuit. There is no round for
exchanges of which all shards know that they are empty, because no shard changes the inputs on which
they depend. Two kinds of steps stay before or after others:

- a strict step and what it reads, since it reads what was emitted before the step;
- a step with a nested scope and the other readers of its inputs, since it may look for the integral
  of an input in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from dbsp.circuit.graph import Node
from dbsp.circuit.shard_link import ShardLink
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import MeetingStep
from dbsp.runtime.ports import InputPort


class Round(Step):
    """Exchanges the rows of several steps at once.

    `inputs` are the inputs without whose changes there are no rows; None if they are not known.
    """

    __slots__ = ("_inputs", "_link", "members")

    def __init__(
        self, members: Sequence[MeetingStep], link: ShardLink, inputs: frozenset[str] | None
    ) -> None:
        super().__init__()
        self.node = members[0].node
        self.members = members
        self._link = link
        self._inputs = inputs

    def step(self) -> None:
        changed = self._link.changed
        if changed is not None and self._inputs is not None and self._inputs.isdisjoint(changed):
            for member in self.members:
                member.out = None
            return
        packed = []
        for member in self.members:
            self.node = member.node  # which an error names
            packed.append(member.pack())
        for member, out in zip(self.members, self._link.exchange_packed(packed), strict=True):
            member.out = out


def scheduled(steps: Sequence[Step], link: ShardLink) -> list[Step]:
    """Return steps, each after its inputs, in an order with few rounds."""
    levels, inputs = _levels(steps), _inputs(steps)
    schedule: list[Step] = []
    ordered = sorted(steps, key=lambda step: (levels[step.node], isinstance(step, MeetingStep)))
    for _, of_level in groupby(ordered, key=lambda step: levels[step.node]):
        meeting: list[MeetingStep] = []
        for step in of_level:
            if isinstance(step, MeetingStep):
                meeting.append(step)
            else:
                schedule.append(step)
        if meeting:
            schedule.append(Round(meeting, link, _all(inputs, [step.node for step in meeting])))
    return schedule


def _inputs(steps: Sequence[Step]) -> Mapping[Node, frozenset[str] | None]:
    """Return by node the inputs on which it depends; None if it may change without them."""
    inputs: dict[Node, frozenset[str] | None] = {}
    for step in steps:
        if isinstance(step, InputPort) and step.quiet:
            inputs[step.node] = frozenset([step.relation])
        elif step.node.strict or not step.quiet:
            inputs[step.node] = None
        else:
            inputs[step.node] = _all(inputs, [stream.node for stream in step.node.inputs])
    return inputs


def _all(inputs: Mapping[Node, frozenset[str] | None], nodes: Sequence[Node]) -> frozenset[str] | None:
    """Return the inputs of several nodes."""
    found: set[str] = set()
    for node in nodes:
        of_node = inputs[node]
        if of_node is None:
            return None
        found |= of_node
    return frozenset(found)


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
