"""Faults of the sockets of a mesh: calls that do less than asked, and calls that raise."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dbsp.errors import InvariantError
from dbsp.shards.socket_mesh import SocketMesh
from dbsp.shards.transport import ShardAborted, ShardLost
from tests.shards.mesh_shards import FaultAt, exchange_exactly, faulty_mesh, narrow_mesh, no_buffers, run_all

SIZES = (0, 3, 8, 2_000)


@pytest.mark.parametrize("seed", range(20))
def test_calls_that_move_less_than_asked(seed: int) -> None:
    shards = 2 + seed % 2
    ends = narrow_mesh(shards)

    def short(shard: int) -> Callable[[str], int | None]:
        chance = random.Random(seed * 10 + shard)

        def fault(call: str) -> int | None:
            if chance.random() < 0.3:
                raise BlockingIOError
            return chance.choice([1, 2, 7, 8, 23, 24, 25, 100, 3_000, None])

        return fault

    mesh = [faulty_mesh(shard, ends[shard], short(shard)) for shard in range(shards)]

    def work(shard: int) -> int:
        completed = 0
        for generation in range(1, 7):
            mesh[shard].begin(generation)
            try:
                for number in range(5):
                    if (generation % 3, shard, number) == (0, 1, 2):
                        mesh[1].abort()
                    exchange_exactly(mesh[shard], generation, number, sizes=SIZES)
                completed += 1
            except ShardAborted:
                mesh[shard].abort()
        return completed

    assert run_all(work, shards) == [4] * shards


# The numbers of calls depend on the timing; some of these are beyond the last call.
NUMBERS = [*range(30), *range(30, 150, 7)]
GENERATIONS = 4


def lives_with(fault: FaultAt) -> list[list[type[BaseException] | None]]:
    """By shard, the error of each generation; the second of three shards has the faulty sockets.

    The shards do not wait for each other between generations, except before the last one, which has
    no fault of its own.
    """
    ends = narrow_mesh(3)
    mesh = [
        faulty_mesh(shard, ends[shard], fault) if shard == 1 else SocketMesh(shard, ends[shard])
        for shard in range(3)
    ]

    def attempt(shard: int, generation: int) -> type[BaseException] | None:
        try:
            mesh[shard].begin(generation)
            for number in range(3):
                exchange_exactly(mesh[shard], generation, number, sizes=(*SIZES, 400_000))
        except AssertionError:
            raise
        except BaseException as error:
            mesh[shard].abort()
            return type(error)
        return None

    lives = run_all(lambda shard: [attempt(shard, number) for number in range(1, GENERATIONS)], 3)
    fault.stop()
    last = run_all(lambda shard: attempt(shard, GENERATIONS), 3)
    return [[*life, error] for life, error in zip(lives, last, strict=True)]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_error_of_the_system_costs_one_generation(number: int) -> None:
    fault = FaultAt(number, no_buffers())
    results = lives_with(fault)
    failed = [generation for generation, error in enumerate(results[1]) if error is OSError]
    assert len(failed) == fault.raised
    for result in results:
        for generation, error in enumerate(result):
            assert error in ((OSError, ShardAborted, None) if generation in failed else (None,))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_closes_the_mesh(number: int, error: BaseException) -> None:
    fault = FaultAt(number, error)
    results = lives_with(fault)
    if not fault.raised:
        assert results == [[None] * GENERATIONS] * 3
        return
    first = results[1].index(type(error))
    assert results[1] == [None] * first + [type(error)] + [InvariantError] * (GENERATIONS - 1 - first)
    for result in (results[0], results[2]):
        # A shard may notice it while it completes the generation before.
        assert set(result[: max(first - 1, 0)]) <= {None}
        assert set(result) <= {None, ShardAborted, ShardLost}
        assert result[-1] is ShardLost


@pytest.mark.parametrize("number", NUMBERS)
def test_a_broken_connection_is_a_lost_shard(number: int) -> None:
    fault = FaultAt(number, ConnectionResetError())
    results = lives_with(fault)
    expected = {ShardAborted, ShardLost} if fault.raised else {None}
    for result in results:
        assert set(result) <= {None, ShardAborted, ShardLost}
        assert result[-1] in expected


@pytest.mark.parametrize("error", [KeyboardInterrupt(), no_buffers()], ids=repr)
@pytest.mark.parametrize("number", range(4))
def test_a_failure_to_give_up_closes_the_mesh(number: int, error: BaseException) -> None:
    """The other shards wait for the message, so they must notice that it does not come."""
    fault = FaultAt(number, error)
    ends = narrow_mesh(3)
    mesh = [
        faulty_mesh(shard, ends[shard], fault) if shard == 1 else SocketMesh(shard, ends[shard])
        for shard in range(3)
    ]

    def work(shard: int) -> None:
        if shard == 1:
            mesh[shard].abort()
        else:
            mesh[shard].exchange("x", [[]] * 3)

    first, second, third = run_all(work, 3)
    assert fault.raised
    assert second is error
    for shard in (0, 2):
        assert isinstance((first, third)[shard // 2], ShardLost | ShardAborted)
        mesh[shard].begin(1)
        with pytest.raises(ShardLost):
            mesh[shard].exchange("x", [[]] * 3)
