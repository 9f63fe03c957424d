"""The transport of exchanges over socket pairs: any sizes, aborts, ended processes, faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dbsp.errors import InvariantError, ShardError
from dbsp.shards.socket_mesh import SocketMesh, connected_mesh
from dbsp.shards.transport import ShardAborted, ShardLost

SIZES = (0, 1, 7, 8, 4_000, 70_000, 1_500_000)
"""Sizes of buffers: some need padding, some exceed the memory to read ahead or the system's."""


def meshes(shards: int) -> list[SocketMesh]:
    return [SocketMesh(shard, ends) for shard, ends in enumerate(connected_mesh(shards))]


def run_all(work: Callable[[int], Any], shards: int) -> list[Any]:
    """Call `work(shard)` for each shard in a thread of its own; return the results or errors."""
    results: list[Any] = [None] * shards

    def call(shard: int) -> None:
        try:
            results[shard] = work(shard)
        except BaseException as error:
            results[shard] = error

    threads = [threading.Thread(target=call, args=(shard,), daemon=True) for shard in range(shards)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def message(seed: object) -> list[np.ndarray]:
    """Random buffers; equal for equal seeds."""
    random = np.random.default_rng(abs(hash(seed)))
    count = random.integers(0, 4)
    return [random.integers(0, 256, random.choice(SIZES), np.uint8) for _ in range(count)]


def texts(buffers: Any) -> list[bytes]:
    return [bytes(buffer) for buffer in buffers]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_every_message_arrives_at_its_shard(shards: int) -> None:
    mesh = meshes(shards)

    def work(shard: int) -> None:
        for generation in range(1, 4):
            mesh[shard].begin(generation)
            for number in range(8):
                seed = (generation, number)
                got = mesh[shard].exchange(
                    f"exchange {number}", [message((*seed, shard, to)) for to in range(shards)]
                )
                expected = [message((*seed, of, shard)) for of in range(shards)]
                assert list(map(texts, got)) == list(map(texts, expected))

    assert run_all(work, shards) == [None] * shards


def test_a_shard_that_gives_up_is_noticed_by_waiting_shards() -> None:
    mesh = meshes(3)

    def work(shard: int) -> None:
        mesh[shard].begin(1)
        if shard == 1:
            mesh[shard].abort()
        mesh[shard].exchange("x", [[]] * 3)

    errors = run_all(work, 3)
    assert [(type(error), error.shard) for error in errors] == [(ShardAborted, 1)] * 3
    assert all(isinstance(error, ShardError) for error in errors)


def test_a_shard_that_ends_is_noticed_by_waiting_shards() -> None:
    mesh = meshes(3)

    def work(shard: int) -> None:
        if shard == 1:
            mesh[shard].close()
        else:
            mesh[shard].exchange("x", [[]] * 3)

    errors = run_all(work, 3)
    assert [(type(error), getattr(error, "shard", None)) for error in errors] == [
        (ShardLost, 1),
        (type(None), None),
        (ShardLost, 1),
    ]


def test_both_shards_notice_that_they_are_at_different_exchanges() -> None:
    mesh = meshes(2)

    def work(shard: int) -> None:
        try:
            mesh[shard].exchange(("left", "right")[shard], [[]] * 2)
        finally:
            mesh[shard].abort()

    for error, name in zip(run_all(work, 2), ("left", "right"), strict=True):
        assert isinstance(error, InvariantError)
        assert f"is at exchange 0, {name}, and shard" in str(error)
