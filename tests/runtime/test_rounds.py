"""Rounds: exchanges that do not need the results of each other wait for the other shards once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from dbsp import Run, Schema, col
from dbsp.circuit.graph import Graph
from dbsp.circuit.step_roles import MeetingStep
from dbsp.data.interner import Interner
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.union import Union
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.ports.output import Output
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather, Owned
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange
from dbsp.runtime.rounds import Round, scheduled
from dbsp.runtime.scope import Scope
from tests.harness import deltas_of
from tests.shards.thread_link import ThreadLink, ThreadShards

COLUMNS = Schema.of(x=int, y=int)


def random_graph(seed: int) -> Graph:
    """Exchanges, unions and delays in any order; a delay comes before or after what it delays."""
    choice = random.Random(seed)
    graph = Graph("random")
    streams = [graph.add_source(DealtInput(name, COLUMNS, kind="zset", dealt=(0,))) for name in "ab"]
    delays = []
    for _ in range(choice.randrange(4, 25)):
        kind = choice.randrange(10)
        if kind < 4:
            streams.append(graph.add(Exchange((choice.randrange(2),)), choice.choice(streams)))
        elif kind < 5:
            streams.append(graph.add(Gather(), choice.choice(streams)))
        elif kind < 6:
            copied = graph.add(Broadcast(), choice.choice(streams))
            streams.append(graph.add(Owned((1,)), copied))
        elif kind < 8:
            streams.append(graph.add(Union(), choice.choice(streams), choice.choice(streams)))
        else:
            streams.append(graph.add_source(Delay(COLUMNS)))
            delays.append(streams[-1])
    for delay in delays:
        graph.connect(delay, choice.choice([stream for stream in streams if stream.node is not delay.node]))
    for number, stream in enumerate(choice.sample(streams, 3)):
        graph.add(Output(f"out{number}", COLUMNS), stream, graph.add(Arrange((0, 1)), stream))
    return graph


class Meetings:
    """Counts how often a shard waits for the others in exchanges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        genuine = ThreadLink.exchange_packed

        def exchange_packed(link: ThreadLink, packed: Sequence[Any]) -> Any:
            self.count += link.shard == 0
            return genuine(link, packed)

        monkeypatch.setattr(ThreadLink, "exchange_packed", exchange_packed)


@pytest.mark.parametrize("seed", range(40))
def test_rounds_change_no_result(seed: int) -> None:
    graph = random_graph(seed)
    one, many = Run(graph), ThreadShards(graph, 2)
    choice = random.Random(seed)
    for _ in range(5):
        changes = {
            name: Counter((choice.randrange(5), choice.randrange(5)) for _ in range(choice.randrange(4)))
            for name in "ab"
        }
        assert many.step(changes) == deltas_of(one.step(changes))


@pytest.mark.parametrize("seed", range(40))
def test_the_schedule_keeps_what_a_step_reads_before_and_after_it(seed: int) -> None:
    graph = random_graph(seed)
    link = ThreadShards(graph, 2).links[0]
    steps = Scope(graph, Interner(), link=link).steps
    schedule = scheduled(steps, link)
    order: dict[Any, int] = {}
    for place, step in enumerate(schedule):
        for member in step.members if isinstance(step, Round) else [step]:
            order[member.node] = place
    assert len(order) == len(steps)
    numbers = {step.node: number for number, step in enumerate(steps)}
    for node in numbers:
        for stream in node.inputs:
            assert order[stream.node] < order[node]
        for stream in node.strict:
            assert (order[stream.node] < order[node]) == (numbers[stream.node] < numbers[node])


def test_independent_exchanges_meet_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("wide")
    rows = graph.add_source(DealtInput("a", COLUMNS, kind="zset", dealt=(0,)))
    ends = []
    for _ in range(6):
        moved = graph.add(Exchange((1,)), rows)
        ends.append(graph.add(Exchange((0,)), moved))
    both = graph.add(Union(), *ends)
    graph.add(Output("out", COLUMNS), both, graph.add(Arrange((0, 1)), both))
    meetings = Meetings(monkeypatch)
    many = ThreadShards(graph, 2)
    assert many.step({"a": {(1, 2): 1, (3, 4): -1}})["out"] == {(1, 2): 6, (3, 4): -6}
    assert meetings.count == 2
    steps = many.runs[0].scope.steps
    assert sum(isinstance(step, MeetingStep) for step in steps) == 12


def path(graph: Graph, name: str, exchanges: int, late: bool = False) -> None:
    """Add an input and an output, with some exchanges between them, and perhaps a delay."""
    rows = graph.add_source(DealtInput(name, COLUMNS, kind="zset", dealt=(0,)))
    stream = graph.add(Filter(col("x") > 1), rows)
    if late:
        delay = graph.add_source(Delay(COLUMNS))
        graph.connect(delay, stream)
        stream = delay
    for number in range(exchanges):
        stream = graph.add(Exchange((1 - number % 2,)), stream)
    graph.add(Output(name, COLUMNS), stream, graph.add(Arrange((0, 1)), stream))


@pytest.mark.parametrize(("late", "expected"), [(False, [2, 3, 0, 3, 0]), (True, [3, 3, 3, 3, 3])])
def test_no_round_for_inputs_that_do_not_change(
    late: bool, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delay emits in a tick without changes, so the exchanges after it always take place."""
    graph = Graph("two inputs")
    path(graph, "a", 2)
    path(graph, "b", 3, late)
    one, many = Run(graph), ThreadShards(graph, 2)
    meetings = Meetings(monkeypatch)
    counts = []
    for changes in ({"a": [(2, 3)]}, {"b": [(4, 5)]}, {}, {"a": [(7, 7)], "b": [(6, 5)]}, {}):
        before = meetings.count
        assert many.step(changes) == deltas_of(one.step(changes))
        counts.append(meetings.count - before)
    assert counts == expected
    assert many.view("b") == {(4, 5): 1, (6, 5): 1}
