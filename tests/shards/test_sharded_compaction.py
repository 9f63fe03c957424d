"""Compaction of sharded runs: values that nothing refers to are freed on all shards."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import dbsp
from dbsp import Run
from dbsp.shards.sharded_run import ShardedRun
from tests.harness import deltas_of, views

RULES = """
    .type Pair = [name: symbol, rest: Pair]
    .decl item(id: number, name: symbol, tag: symbol) .input item
    .decl tag(tag: symbol, text: symbol) .input tag
    .decl shown(name: symbol, text: symbol) .output shown
    shown(cat(n, "!"), t) :- item(_, n, g), tag(g, t).
    .decl pair(p: Pair, n: number) .output pair
    pair([n, [g, nil]], c) :- item(_, n, g), c = count : { item(_, _, g) }.
"""


def changes(batch: int, size: int) -> dict[str, dict[tuple[Any, ...], int]]:
    """Return rows with strings of their own."""
    items = {(n, f"item {batch} {n}", f"tag {batch} {n % 7}"): 1 for n in range(size)}
    tags = {(f"tag {batch} {n}", f"text {batch} {n}"): 1 for n in range(7)}
    return {"item": items, "tag": tags}


def undone(change: dict[str, dict[tuple[Any, ...], int]]) -> dict[str, dict[tuple[Any, ...], int]]:
    return {name: dict.fromkeys(rows, -1) for name, rows in change.items()}


def kept_numbers(run: Run) -> int:
    """Return the most values that a connection of this shard remembers; a question to a shard."""
    link: Any = run.scope.link
    sizes = [0]
    for connection in link._link._connections.values():
        sizes += [space.used for space in connection.outbox._values._spaces.values()]
        sizes += [space.used for space in connection.inbox._values._spaces.values()]
        sizes.append(len(connection.inbox._values._kept))
    return max(sizes)


def coordinator_numbers(run: ShardedRun) -> int:
    sizes = [0]
    for shard in run._group:
        for values in (shard.post.outbox._values, shard.post.inbox._values):
            sizes += [space.used for space in values._spaces.values()]
    return max(sizes)


def test_fresh_strings_leave_no_values() -> None:
    """Without compaction, 10 rounds leave 10 times the values of one."""
    program, size = dbsp.compile(RULES), 200
    one = program.start()
    with program.start(shards=2) as many:

        def tick(change: Any) -> None:
            assert deltas_of(many.step(change)) == deltas_of(one.step(change))

        tick(changes(0, 20))
        most = [0, 0, 0, 0]
        for batch in range(1, 11):
            tick(changes(batch, size))
            tick(undone(changes(batch, size)))
            tick({})
            before = [stats.values for stats in many.stats()]
            done = many.compact()
            one.compact()
            after = [stats.values for stats in many.stats()]
            assert done.values > 2 * size
            assert not done.kept_because
            assert all(new < old for new, old in zip(after, before, strict=True))
            assert views(many) == views(one)
            tick({"item": {(1, f"later {batch}", "tag 0 1"): 1}})
            tick({"item": {(1, f"later {batch}", "tag 0 1"): -1}})
            sizes = max(many.ask(kept_numbers)), coordinator_numbers(many), len(many.interner), max(after)
            most = [max(pair) for pair in zip(most, sizes, strict=True)]
        assert max(most) < size


def test_a_second_batch_of_the_same_strings(tmp_path: Path) -> None:
    """Values that were freed and come again travel again, also after a restart of the shards."""
    program = dbsp.compile(RULES)
    one = program.start()
    for start in range(2):
        with program.start(shards=2, checkpoint=tmp_path) as many:
            assert views(many) == views(one)
            for batch in (0, 0):
                for change in (changes(batch, 30), undone(changes(batch, 20))):
                    assert deltas_of(many.step(change)) == deltas_of(one.step(change))
                staged = {"item": [(500 + batch, f"staged {start}", "tag 0 0")]}
                for run in (one, many):
                    run.input("item").insert(staged["item"])
                assert many.compact().values > 0
                assert views(many) == views(one)
            os.kill(many.stats()[1].process, signal.SIGKILL)
            assert deltas_of(many.step({})) == deltas_of(one.step({}))
            assert views(many) == views(one)
            assert many.preview(many.prepare({"item": [(9, "staged 0", "tag 0 1")]}))["pair"].to_dict()


def test_results_keep_their_values() -> None:
    program = dbsp.compile(RULES)
    with program.start(shards=2) as many:
        result = many.step(changes(1, 5))
        view = many.view("shown")
        prepared = many.prepare(changes(2, 5))
        expected = result["shown"].to_dict(), view.to_dict()
        many.step(undone(changes(1, 5)))
        many.step({})
        many.compact()
        assert (result["shown"].to_dict(), view.to_dict()) == expected
        many.step_staged(prepared)
        assert sorted(many.view("shown").rows())[0] == ("item 2 0!", "text 2 0")
