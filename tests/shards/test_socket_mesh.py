"""The transport of exchanges over socket pairs: any sizes, aborts, ended processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import struct
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from dbsp.errors import InvariantError, MemoryLimitError, ShardError
from dbsp.shards import mesh_frames
from dbsp.shards.socket_mesh import MeshEnds, SocketMesh, close_ends
from dbsp.shards.transport import ShardAborted, ShardLost
from tests.shards.mesh_shards import (
    HookedTransport,
    exchange_exactly,
    faulty_mesh,
    meshes,
    narrow_mesh,
    run_all,
)

LARGE = (1_500_000,)
"""More than the system buffers, so that a shard gives up between the parts of a message."""


class Failed(Exception):
    """A failure that a test has ordered."""


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("delayed", [False, True])
def test_every_message_arrives_at_its_shard(shards: int, delayed: bool) -> None:
    mesh = meshes(shards)

    def work(shard: int) -> None:
        chance = random.Random(shard)

        def wait(when: str, number: int) -> None:
            if delayed:
                time.sleep(chance.random() / 200)

        transport = HookedTransport(mesh[shard], wait)
        for generation in range(1, 4):
            transport.begin(generation)
            for number in range(8):
                exchange_exactly(transport, generation, number, name=f"exchange {number}")

    assert run_all(work, shards) == [None] * shards


def test_many_small_rounds() -> None:
    mesh = meshes(3)

    def work(shard: int) -> None:
        for number in range(2_000):
            exchange_exactly(mesh[shard], number, sizes=(0, 5, 8))

    assert run_all(work, 3) == [None] * 3


def test_messages_with_more_buffers_than_a_call_takes() -> None:
    mesh = meshes(2)
    buffers = [np.full(number % 5, number, np.int64) for number in range(20_000)]

    def work(shard: int) -> Any:
        return mesh[shard].exchange("x", [buffers] * 2)

    for shard, received in enumerate(run_all(work, 2)):
        got = [np.frombuffer(buffer, np.int64) for buffer in received[1 - shard]]
        assert len(got) == len(buffers)
        assert all(map(np.array_equal, got, buffers))


def test_rows_and_empty_arrays_are_buffers() -> None:
    mesh = meshes(2)
    rows = np.arange(12).reshape(4, 3)

    def work(shard: int) -> Any:
        return mesh[shard].exchange("x", [[rows, np.empty((0, 2), np.int64), b"abc"]] * 2)

    for shard, received in enumerate(run_all(work, 2)):
        first, second, third = received[1 - shard]
        assert np.array_equal(np.frombuffer(first, np.int64).reshape(-1, 3), rows)
        assert (bytes(second), bytes(third)) == (b"", b"abc")
        assert received[shard][0] is rows


# --- giving up ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(0, 8), LARGE])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("failing", [0, 2])
def test_a_shard_gives_up_at_any_exchange(
    sizes: tuple[int, ...], when: str, number: int, failing: int
) -> None:
    mesh = meshes(3)

    def work(shard: int) -> Any:
        def fail(point: str, at: int) -> None:
            if (shard, point, at) == (failing, when, number):
                raise Failed

        transport = HookedTransport(mesh[shard], fail)
        transport.begin(1)
        try:
            for at in range(4):
                exchange_exactly(transport, 1, at, sizes=sizes)
        except BaseException:
            transport.abort()
            raise

    for shard, error in enumerate(run_all(work, 3)):
        assert isinstance(error, Failed if shard == failing else ShardAborted)
    assert run_all(lambda shard: next_generation(mesh[shard], 2), 3) == [None] * 3


def next_generation(transport: SocketMesh, generation: int) -> None:
    transport.begin(generation)
    for at in range(3):
        exchange_exactly(transport, generation, at)


@pytest.mark.parametrize("seed", range(12))
def test_generations_that_some_shards_leave_early(seed: int) -> None:
    """No shard waits for the others between generations, as if the coordinator did not either."""
    chance = random.Random(seed)
    shards, generations, rounds = chance.choice([2, 3, 5]), 25, 4
    failing = {
        (generation, chance.randrange(shards)): chance.randrange(rounds)
        for generation in range(1, generations + 1)
        for _ in range(chance.choice([0, 0, 1, 1, 2]))
    }
    mesh = meshes(shards)

    def work(shard: int) -> list[int]:
        chance = random.Random(seed * 10 + shard)
        given_up = []
        for generation in range(1, generations + 1):
            mesh[shard].begin(generation)
            try:
                for number in range(rounds):
                    if chance.random() < 0.3:
                        time.sleep(chance.random() / 1000)
                    if failing.get((generation, shard)) == number:
                        raise Failed
                    exchange_exactly(mesh[shard], generation, number, sizes=(0, 9, 5_000, 300_000))
            except (Failed, ShardAborted):
                mesh[shard].abort()
                given_up.append(generation)
        return given_up

    planned = {generation for generation, _ in failing}
    # Only generations with a failure end early, and no shard completes one without the others.
    assert run_all(work, shards) == [sorted(planned)] * shards


def test_a_shard_that_has_given_up_does_not_exchange() -> None:
    mesh = meshes(2)
    mesh[0].abort()
    for transport in mesh:
        with pytest.raises(ShardAborted, match="shard 0 gave up the tick, which is rolled back") as caught:
            transport.exchange("x", [[]] * 2)
        assert caught.value.shard == 0
        assert isinstance(caught.value, ShardError)


def test_an_abort_ends_a_wait_behind_the_rest_of_a_message() -> None:
    """The abort arrives although the connection of messages is full of an earlier generation."""
    mesh = meshes(2)
    large = [np.ones(3_000_000, np.uint8)]

    def give_up_while_sending(shard: int) -> None:
        if shard == 0:
            mesh[0].exchange("x", [[], large])
        else:
            time.sleep(0.1)  # until the connection is full
            mesh[1].abort()

    first, _ = run_all(give_up_while_sending, 2)
    assert isinstance(first, ShardAborted)

    def give_up_before_sending(shard: int) -> None:
        mesh[shard].begin(1)
        if shard == 0:
            time.sleep(0.1)  # until the other waits
            mesh[0].abort()
        else:
            mesh[1].exchange("x", [large, []])

    _, second = run_all(give_up_before_sending, 2)
    assert isinstance(second, ShardAborted)
    assert run_all(lambda shard: next_generation(mesh[shard], 2), 2) == [None] * 2


@pytest.mark.parametrize("failing", [1, 2])
def test_thousands_of_aborts_that_nobody_waits_for(failing: int) -> None:
    mesh = meshes(2)
    for generation in range(1, 5_000):
        for transport in mesh:
            transport.begin(generation)
        for transport in mesh[:failing]:
            transport.abort()
    assert run_all(lambda shard: next_generation(mesh[shard], 5_000), 2) == [None] * 2


def test_a_message_that_is_not_started_is_dropped_with_its_generation() -> None:
    frames, aborts = socket.socketpair(), socket.socketpair()
    mesh = SocketMesh(0, [None, (frames[0], aborts[0])])
    read: list[tuple[int, bytes]] = []

    def shard() -> None:
        for generation in (1, 2):
            mesh.begin(generation)
            with pytest.raises(ShardAborted):
                mesh.exchange(f"exchange of {generation}", [[], [np.ones(5_000_000, np.uint8)]])
        mesh.begin(3)
        mesh.exchange("exchange of 3", [[], []])

    def peer() -> None:
        for generation in (1, 2):
            time.sleep(0.1)  # until the exchange waits
            aborts[1].sendall(struct.pack("<q", generation))
        reader, writer = mesh_frames.FrameReader(frames[1]), mesh_frames.FrameWriter(frames[1])
        while len(read) < 2:
            frame = reader.receive(0)
            if frame is not None and frame.complete:
                read.append((frame.generation, frame.name))
                reader.take()
        writer.put(mesh_frames.frame_pieces(3, 0, b"exchange of 3", []))
        writer.send()

    assert run_all(lambda number: (shard, peer)[number](), 2) == [None, None]
    assert read == [(1, b"exchange of 1"), (3, b"exchange of 3")]


def test_generations_only_grow() -> None:
    mesh = meshes(1)[0]
    mesh.begin(3)
    with pytest.raises(InvariantError, match="expected a generation after 3, got 3; this is a defect"):
        mesh.begin(3)


# --- ended shards ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(0, 8), LARGE])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
def test_a_shard_ends_at_any_exchange(sizes: tuple[int, ...], when: str, number: int) -> None:
    mesh = meshes(3)

    def work(shard: int) -> Any:
        def end(point: str, at: int) -> None:
            if (shard, point, at) == (1, when, number):
                mesh[shard].close()
                raise Failed

        transport = HookedTransport(mesh[shard], end)
        for at in range(4):
            exchange_exactly(transport, at, sizes=sizes)

    results = run_all(work, 3)
    assert isinstance(results[1], Failed)
    for shard in (0, 2):
        assert isinstance(results[shard], ShardLost)
        assert results[shard].shard == 1
    mesh[0].begin(1)
    with pytest.raises(ShardLost, match="the process of shard 1 ended during a run; start the run again"):
        mesh[0].exchange("x", [[]] * 3)
    mesh[0].abort()  # the ended shard does not disturb


def test_a_closed_mesh_cannot_be_used() -> None:
    mesh = meshes(2)[0]
    mesh.close()
    mesh.close()
    mesh.abort()
    for action in (lambda: mesh.begin(1), lambda: mesh.exchange("x", [[]] * 2)):
        with pytest.raises(InvariantError, match="the connections of shard 0 are closed"):
            action()


def process_of_a_shard(shard: int, ends: MeshEnds, ending: int | None, answers: Connection) -> None:
    """Exchange messages; the process of shard `ending` ends in the third exchange, a large one."""
    calls = done = 0

    def end(call: str) -> None:
        nonlocal calls
        calls += done == 2 and shard == ending
        if calls > 20:
            os._exit(3)

    mesh = faulty_mesh(shard, ends, end)
    mesh.begin(1)
    try:
        for number in range(6):
            if number == 2:
                mesh.exchange("large", [[np.ones(30_000_000, np.uint8)]] * 2)
            else:
                exchange_exactly(mesh, number, sizes=LARGE)
            done += 1
    except ShardLost as error:
        answers.send((done, error.shard, str(error)))
    else:
        answers.send((done, None, ""))


@pytest.mark.parametrize("ending", [None, 1])
def test_shards_in_spawned_processes(ending: int | None) -> None:
    spawn = multiprocessing.get_context("spawn")
    mesh = narrow_mesh(2)
    pipes = [spawn.Pipe() for _ in mesh]
    processes = [
        spawn.Process(
            target=process_of_a_shard, args=(shard, ends, -1 if ending is None else ending, pipe[1])
        )
        for shard, (ends, pipe) in enumerate(zip(mesh, pipes, strict=True))
    ]
    for process in processes:
        process.start()
    for ends, pipe in zip(mesh, pipes, strict=True):
        close_ends(ends)
        pipe[1].close()
    answers = [pipe[0].recv() for shard, pipe in enumerate(pipes) if shard != ending]
    for process in processes:
        process.join()
    if ending is None:
        assert answers == [(6, None, "")] * 2
    else:
        done, lost, text = answers[0]
        assert (done, lost) == (2, 1)
        assert text.endswith("[shard-lost]")
    assert [process.exitcode for process in processes] == [3 if shard == ending else 0 for shard in range(2)]


# --- defects --------------------------------------------------------------------------------------


def test_shards_at_different_exchanges() -> None:
    mesh = meshes(2)

    def work(shard: int) -> None:
        mesh[shard].begin(1)
        exchange_exactly(mesh[shard], 1)
        try:
            mesh[shard].exchange(("left", "right")[shard], [[np.ones(10**6)]] * 2)
        finally:
            mesh[shard].abort()

    for error, name in zip(run_all(work, 2), ("left", "right"), strict=True):
        assert isinstance(error, InvariantError)
        assert f"is at exchange 1, {name}, and shard" in str(error)
    assert run_all(lambda shard: next_generation(mesh[shard], 2), 2) == [None] * 2


def test_one_message_for_each_shard() -> None:
    with pytest.raises(InvariantError, match="x: expected 2 messages, got 3"):
        meshes(2)[0].exchange("x", [[]] * 3)


def test_a_frame_of_another_round() -> None:
    frames, aborts = socket.socketpair(), socket.socketpair()
    mesh = SocketMesh(0, [None, (frames[0], aborts[0])])
    for piece in mesh_frames.frame_pieces(0, 5, b"x", []):
        frames[1].sendall(piece)
    with pytest.raises(InvariantError, match="is at exchange 0, x, and shard 1 at exchange 5, x; this is"):
        mesh.exchange("x", [[]] * 2)


def test_bytes_that_are_no_frame() -> None:
    frames, aborts = socket.socketpair(), socket.socketpair()
    mesh = SocketMesh(0, [None, (frames[0], aborts[0])])
    frames[1].sendall(struct.pack("<8sqq", b"nonsense", 0, 0))
    with pytest.raises(InvariantError, match="expected a frame of an exchange; this is a defect"):
        mesh.exchange("x", [[]] * 2)


def test_a_message_without_memory_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard can continue, also while it has no memory for the message that it gave up."""
    mesh = meshes(2)
    sizes = []

    def no_memory(size: int, dtype: Any) -> np.ndarray:
        sizes.append(size)
        if size > 10**6:
            raise MemoryError
        return np.zeros(size, dtype)

    monkeypatch.setattr(mesh_frames.np, "empty", no_memory)

    def exchange(shard: int) -> None:
        mesh[shard].begin(1)
        try:
            large = [np.ones(2 * 10**6, np.uint8)]
            mesh[shard].exchange("x", [[], large] if shard == 0 else [[], []])
        except BaseException:
            mesh[shard].abort()
            raise

    first, second = run_all(exchange, 2)
    assert isinstance(second, MemoryLimitError)
    assert "the memory limit" in str(second)
    assert isinstance(first, ShardAborted)

    def again(shard: int) -> None:
        mesh[shard].begin(2)
        for number in range(3):
            exchange_exactly(mesh[shard], number, sizes=(0, 8, 10_000))

    assert run_all(again, 2) == [None] * 2
    assert max(sizes) > 10**6
