"""Shards in threads: equal to one run, all or nothing, and never stuck."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dbsp import Run, Schema
from dbsp.circuit.graph import Graph
from dbsp.circuit.operator import Operator
from dbsp.circuit.shard_link import ShardLink
from dbsp.circuit.step import Step
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.ports.output import Output
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather, Owned
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.traces.arrange import Arrange
from tests.harness import deltas_of, views
from tests.random_circuits import build
from tests.shards.thread_link import Abandoned, Fault, ThreadShards

CHANGES = {"a": {(n, n % 3, "abc"[n % 3]): 1 + n % 2 for n in range(9)}, "b": {(2, 2, "b"): 1}}


def distributed() -> tuple[Graph, Run]:
    circuit = build([("join", 0, 1), ("closed", 0, 1), ("grouped", 0, 0)])
    return distribute(circuit.circuit("physical")), circuit.start()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_return_what_one_run_returns(shards: int) -> None:
    graph, run = distributed()
    threads = ThreadShards(graph, shards, arrival=random.Random(shards), delays=shards)
    for tick in (CHANGES, {}, {"a": {(1, 1, "b"): -2}, "b": {(2, 2, "b"): 1, (9, 9, "z"): -1}}):
        result = run.step(tick)
        assert threads.step(tick) == deltas_of(result)
        assert threads.views() == views(run)
        assert (threads.absent, threads.present) == (result.absent, result.present)


def test_a_failed_shard_undoes_the_tick_on_all() -> None:
    graph, run = distributed()
    threads = ThreadShards(graph, 3)
    threads.step(CHANGES)
    run.step(CHANGES)
    more = {"a": {(7, 7, "b"): 1}, "b": {(1, 7, "new"): 1}}
    threads.links[2].fault = 1
    with pytest.raises(Fault, match="shard 2 fails at call 1"):
        threads.step(more)
    assert threads.views() == views(run)
    threads.links[2].fault = 0
    assert threads.step(more) == deltas_of(run.step(more))
    assert threads.views() == views(run)


ROWS = {(n, str(n % 7)): 1 + n % 3 for n in range(50)}


def placed(*operators: Operator) -> ThreadShards:
    """Start shards whose output has the rows of the input after these operators."""
    graph = Graph("placed")
    stream = graph.add_source(DealtInput("a", Schema.of(x=int, s=str), dealt=(0,)))
    for operator in operators:
        stream = graph.add(operator, stream)
    graph.add(Output("out", stream.schema), stream, graph.add(Arrange((0, 1)), stream))
    return ThreadShards(graph, 3)


def test_exchanges_place_rows() -> None:
    threads = placed(Exchange((1,)))
    assert threads.step({"a": ROWS}) == {"out": ROWS}
    words = [{s for _, s in run.view("out").to_dict()} for run in threads.runs]
    assert sum(map(len, words)) == 7, "the rows of one word are on one shard"
    assert sum(map(bool, words)) > 1, "the words are on several shards"
    gathered = placed(Exchange((0, 1)), Gather())
    assert gathered.step({"a": ROWS}) == {"out": ROWS}
    assert [len(run.view("out")) for run in gathered.runs] == [50, 0, 0]
    assert sum(gathered.sent.values()) > 50
    everywhere = placed(Exchange((0,)), Broadcast())
    everywhere.step({"a": ROWS})
    assert [run.view("out").to_dict() for run in everywhere.runs] == [ROWS] * 3
    owned = placed(Broadcast(), Owned((1,)))
    assert owned.step({"a": ROWS}) == {"out": ROWS}
    assert [run.view("out").to_dict() for run in owned.runs] == [
        run.view("out").to_dict() for run in threads.runs
    ]


def with_shards(do: Callable[[ShardLink], object]) -> ThreadShards:
    """Start shards that call `do` in each tick."""
    threads = placed(Exchange((0,)))

    class Calls(Step):
        def __init__(self, link: ShardLink) -> None:
            super().__init__()
            self._link = link

        def step(self) -> None:
            do(self._link)

    for run, link in zip(threads.runs, threads.links, strict=True):
        step = Calls(link)
        step.node = run.graph.nodes[1]
        run.scope.schedule.append(step)
    return threads


def test_votes_have_the_numbers_of_all_shards() -> None:
    votes = []
    with_shards(lambda link: votes.append(link.vote([link.shard, 7]))).step()
    assert votes == [[(0, 7), (1, 7), (2, 7)]] * 3


def test_shards_that_differ_fail_and_do_not_hang() -> None:
    with pytest.raises(AssertionError, match="the shards make different calls"):
        with_shards(lambda link: link.shard == 1 and link.vote([1])).step()
    with pytest.raises(AssertionError, match="the shards make different calls"):
        with_shards(lambda link: link.vote([1] * link.shard)).step()


def test_an_error_of_one_shard_releases_the_others() -> None:
    def do(link: ShardLink) -> None:
        if link.shard == 1:
            raise ZeroDivisionError
        with pytest.raises(Abandoned):
            link.vote([1])
        raise Abandoned

    with pytest.raises(ZeroDivisionError):
        with_shards(do).step()
