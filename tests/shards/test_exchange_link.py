"""The link between shards: sums of parts, votes, counters, and ticks that are given up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dbsp.circuit.shard_link import Alone, SentRows
from dbsp.data.batch import Batch, combine
from dbsp.data.columns import decode_column, encode_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import InputError, InvariantError
from dbsp.shards.exchange_link import ExchangeLink
from dbsp.shards.transport import ShardAborted
from tests.shards.mesh_shards import HookedTransport, closing_on_failure, meshes, run_all

INTS = Schema.of(x=int, y=int)
MIXED = Schema.of(x=int, name=str, tags=list[str])


class Failed(Exception):
    """A failure that a test has ordered."""


def links(shards: int, hook: Callable[[int, str, int], None] = lambda *_: None) -> list[ExchangeLink]:
    """The links of all shards, each with an interner that gives other ids."""
    made = []
    for mesh in meshes(shards):
        interner = Interner()
        interner.encode_many([f"only on {mesh.shard}, {number}" for number in range(mesh.shard)])
        transport = HookedTransport(mesh, lambda *at, shard=mesh.shard: hook(shard, *at))
        made.append(ExchangeLink(transport, interner))
    return made


def rows_of(schema: Schema, *seed: int) -> dict[tuple[Any, ...], int]:
    """Random rows with weights; equal for equal seeds, and sometimes none."""
    chance = random.Random(repr(seed))
    rows = {}
    for _ in range(chance.choice([0, 1, 5, 40])):
        word = f"w{chance.randrange(30)}"
        row = (chance.randrange(4), word, (word, "t")) if schema is MIXED else (chance.randrange(4), seed[-1])
        rows[row] = chance.choice([1, 1, -1, 3])
    return rows


def batch_of(schema: Schema, rows: dict[tuple[Any, ...], int], interner: Interner) -> Batch | None:
    columns = [
        encode_column(type_, [row[at] for row in rows], interner) for at, type_ in enumerate(schema.types)
    ]
    codes = np.ascontiguousarray(np.array(columns, np.int64).reshape(schema.arity, len(rows)).T)
    return combine([(codes, np.array(list(rows.values()), np.int64))])


def content(schema: Schema, batch: Batch | None, interner: Interner) -> dict[tuple[Any, ...], int]:
    if batch is None:
        return {}
    ordered = batch.rows.tolist()
    assert ordered == sorted(ordered) and len(set(map(tuple, ordered))) == len(ordered)
    columns = [decode_column(type_, batch.rows[:, at], interner) for at, type_ in enumerate(schema.types)]
    return dict(zip(zip(*columns, strict=True), batch.weights.tolist(), strict=True))


def total(*zsets: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
    found: Counter[tuple[Any, ...]] = Counter()
    for zset in zsets:
        found.update(zset)
    return {row: weight for row, weight in found.items() if weight}


def exchange_exactly(link: ExchangeLink, schema: Schema, *seed: int) -> None:
    everyone = range(link.shards)
    parts = [batch_of(schema, rows_of(schema, *seed, link.shard, to), link.interner) for to in everyone]
    got = link.exchange("node", parts, schema)
    expected = total(*(rows_of(schema, *seed, of, link.shard) for of in everyone))
    with closing_on_failure(link):
        assert content(schema, got, link.interner) == expected


@pytest.mark.parametrize("schema", [INTS, MIXED], ids=["ints", "values"])
@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_every_shard_gets_the_sum_of_the_parts_for_it(shards: int, schema: Schema) -> None:
    made = links(shards)

    def work(shard: int) -> None:
        for generation in range(1, 6):
            made[shard].begin(generation)
            for number in range(6):
                exchange_exactly(made[shard], schema, generation, number)

    assert run_all(work, shards) == [None] * shards


def test_parts_that_cancel_leave_nothing() -> None:
    made = links(2)

    def work(shard: int) -> Any:
        part = batch_of(MIXED, {(1, "a", ("b",)): 1 - 2 * shard}, made[shard].interner)
        return made[shard].exchange("node", [part, None], MIXED)

    assert run_all(work, 2) == [None, None]


def test_a_single_part_is_not_copied_or_sorted() -> None:
    made = links(3)
    sent = Batch(np.arange(200_000).reshape(-1, 2), np.ones(100_000, np.int64))
    empty = Batch.empty(2)

    def work(shard: int) -> Any:
        part = sent if shard == 0 else empty
        return made[shard].exchange("node", [part, part, empty], INTS)

    first, second, third = run_all(work, 3)
    assert first is sent
    assert third is None
    assert np.array_equal(second.rows, sent.rows) and np.array_equal(second.weights, sent.weights)
    assert second.rows.base is not None and second.rows.flags.writeable


@pytest.mark.parametrize("schema", [INTS, MIXED], ids=["ints", "values"])
def test_several_streams_travel_together_as_they_are(schema: Schema) -> None:
    made = links(3)

    def unsorted(link: ExchangeLink, of: int, stream: int, to: int) -> Batch | None:
        """The rows in descending order, with a weight of 0 in the place of 3."""
        batch = batch_of(schema, rows_of(schema, 7, of, stream, to), link.interner)
        if batch is None:
            return None
        weights = np.where(batch.weights == 3, 0, batch.weights)
        return Batch(np.ascontiguousarray(batch.rows[::-1]), weights[::-1].copy())

    def values(link: ExchangeLink, batch: Batch | None) -> Any:
        if batch is None:
            return None
        columns = (
            decode_column(type_, batch.rows[:, at], link.interner) for at, type_ in enumerate(schema.types)
        )
        return list(zip(*columns, batch.weights.tolist(), strict=True))

    def work(shard: int) -> Any:
        link = made[shard]
        sent = [
            SentRows([unsorted(link, shard, stream, to) for to in range(3)], schema) for stream in range(2)
        ]
        got = link.exchange_all("node", sent, [shard, -(2**63)])
        assert list(got.numbers) == [(of, -(2**63)) for of in range(3)]
        return [[values(link, part) for part in stream] for stream in got.parts]

    received = run_all(work, 3)
    for shard, found in enumerate(received):
        for stream in range(2):
            for of in range(3):
                mine = values(made[of], unsorted(made[of], of, stream, shard))
                assert Counter(found[stream][of] or ()) == Counter(mine or ())
                assert schema is MIXED or found[stream][of] == mine, "the order stays"
    assert made[0].counters["node"].calls == 1 and made[0].counters["node"].rows_received > 0
    own = SentRows([Batch.empty(2)], INTS)
    alone = Alone().exchange_all("node", [own], [4])
    assert alone.parts == [own.parts] and alone.numbers == [(4,)]


def test_different_numbers_of_streams_are_a_defect() -> None:
    made = links(2)
    sent = SentRows([None, None], INTS)
    for error in run_all(lambda shard: made[shard].exchange_all("node", [sent] * shard, [1]), 2):
        assert isinstance(error, InvariantError) and "node sends" in str(error)


def test_votes_are_told_by_shard() -> None:
    made = links(3)

    def work(shard: int) -> Any:
        return [made[shard].vote((shard, -(2**63))), made[shard].vote(()), made[shard].votes]

    expected = [[(shard, -(2**63)) for shard in range(3)], [()] * 3, 2]
    assert run_all(work, 3) == [expected] * 3
    assert Alone().vote((1, 2)) == [(1, 2)]


def test_votes_of_different_lengths_are_a_defect() -> None:
    made = links(2)
    for error in run_all(lambda shard: made[shard].vote([1] * shard), 2):
        assert isinstance(error, InvariantError)
        assert "the shards vote with different numbers of numbers: [(), (1,)]" in str(error)


def test_a_vote_with_a_number_beyond_64_bits_is_a_defect() -> None:
    with pytest.raises(InvariantError, match=r"a vote expects numbers of 64 bits, got \[9223372036854775808"):
        links(2)[0].vote([2**63])


def test_a_vote_does_not_meet_an_exchange() -> None:
    made = links(2)

    def work(shard: int) -> None:
        if shard:
            made[shard].vote([1])
        made[shard].exchange("Exchange by 0", [None, None], INTS)

    for error in run_all(work, 2):
        assert isinstance(error, InvariantError)
        assert "at exchange 0, vote" in str(error) and "at exchange 0, Exchange by 0" in str(error)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("failing", [0, 2])
def test_the_next_tick_is_exact_after_any_failure(failing: int, number: int, when: str) -> None:
    """Each tick has three exchanges and three votes."""
    armed = True

    def fail(shard: int, point: str, at: int) -> None:
        if armed and (shard, at, point) == (failing, number, when):
            raise Failed

    made = links(3, fail)

    def tick(shard: int, generation: int) -> None:
        link = made[shard]
        link.begin(generation)
        try:
            for step in range(3):
                exchange_exactly(link, MIXED, generation, step)
                assert link.vote((shard, step)) == [(other, step) for other in range(3)]
        except BaseException:
            link.abort()
            raise

    errors = run_all(lambda shard: tick(shard, 1), 3)
    for shard, error in enumerate(errors):
        if shard == failing:
            assert isinstance(error, Failed)
        else:
            # After its last vote a shard needs nothing from the one that fails.
            assert isinstance(error, ShardAborted) or (error is None and (number, when) == (5, "after"))
    armed = False
    for link in made:
        link.reset()
    assert run_all(lambda shard: tick(shard, 2), 3) == [None] * 3
    assert run_all(lambda shard: tick(shard, 3), 3) == [None] * 3


def test_a_value_that_cannot_travel_is_an_error_of_its_shard() -> None:
    made = links(2)
    schema = Schema.of(x=object)

    def work(shard: int) -> Any:
        try:
            part = batch_of(schema, {(Failed if shard == 0 else "text",): 1}, made[shard].interner)
            return made[shard].exchange("node", [part, part], schema)
        except BaseException:
            made[shard].abort()
            raise

    first, second = run_all(work, 2)
    assert isinstance(first, InputError)
    assert isinstance(second, ShardAborted)


def test_counters_by_node() -> None:
    made = links(2)

    def work(shard: int) -> None:
        few = Batch(np.array([[1, 2]]), np.array([1]))
        many = Batch(np.arange(20).reshape(10, 2), np.ones(10, np.int64))
        for _ in range(2):
            made[shard].exchange("skewed", [many, few], INTS)
        made[shard].exchange("empty", [None, None], INTS)

    assert run_all(work, 2) == [None, None]
    for link in made:
        skewed = link.counters["skewed"]
        assert (skewed.calls, skewed.rows_to, skewed.rows, skewed.largest_part) == (2, [20, 2], 22, 20)
        assert skewed.largest_parts == 20
        assert skewed.rows_received == (20, 2)[link.shard]
        empty = link.counters["empty"]
        assert (empty.calls, empty.rows, empty.bytes_sent, empty.bytes_received) == (1, 0, 0, 0)
    first, second = (link.counters["skewed"] for link in made)
    assert first.bytes_sent == second.bytes_received >= 2 * 16
    assert second.bytes_sent == first.bytes_received >= 2 * 160


def test_values_travel_under_the_interner_of_now() -> None:
    """A run replaces its interner when it frees values."""
    made = links(2)

    def work(shard: int) -> None:
        for number in range(3):
            exchange_exactly(made[shard], MIXED, number)
            interner = Interner()
            interner.encode_many([f"other ids {shard} {other}" for other in range(number)])
            made[shard].interner = interner
            made[shard].reset()

    assert run_all(work, 2) == [None, None]
