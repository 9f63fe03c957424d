"""The channel between the coordinator and a shard: messages of any sizes, in any parts."""

from __future__ import annotations

import random
import socket
import threading
from typing import Any

import numpy as np
import pytest

from dbsp.shards.command_channel import ChannelClosedError, CommandChannel

SIZES = (0, 1, 7, 8, 100, 16_300, 16_400, 70_000, 1_500_000)


def channels() -> tuple[CommandChannel, CommandChannel]:
    here, there = socket.socketpair()
    return CommandChannel(here), CommandChannel(there)


def messages(seed: int) -> list[tuple[Any, list[bytes]]]:
    choice = random.Random(seed)
    return [
        (
            {"number": number, "text": "x" * choice.choice((0, 3, 16_370, 40_000))},
            [choice.randbytes(choice.choice(SIZES)) for _ in range(choice.randrange(4))],
        )
        for number in range(30)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_messages_arrive_as_they_were_sent(seed: int) -> None:
    """Also several that were sent before the first is received."""
    here, there = channels()
    sent = messages(seed)

    def send() -> None:
        for message, buffers in sent:
            here.send(message, buffers)

    thread = threading.Thread(target=send)
    thread.start()
    for message, buffers in sent:
        found, received = there.receive()
        assert (found, list(map(bytes, received))) == (message, buffers)
        for buffer in received:
            assert not buffer.readonly
            assert not len(buffer) or np.asarray(buffer).ctypes.data % 8 == 0
    thread.join()


@pytest.mark.parametrize("step", [1, 3, 16, 17, 1_000])
def test_a_message_arrives_in_parts(step: int) -> None:
    first, second = socket.socketpair()
    there = CommandChannel(second)
    whole_here, whole_there = socket.socketpair()
    sender = CommandChannel(whole_here)
    for number in range(3):
        sender.send(("hello", number), [b"abc", b"", np.arange(300).data])
    data = whole_there.recv(1 << 16)

    def send() -> None:
        for start in range(0, len(data), step):
            first.sendall(data[start : start + step])

    thread = threading.Thread(target=send)
    thread.start()
    for number in range(3):
        message, (abc, empty, numbers) = there.receive()
        assert (message, bytes(abc), bytes(empty)) == (("hello", number), b"abc", b"")
        assert np.frombuffer(numbers, np.int64).tolist() == list(range(300))
    thread.join()


def test_a_buffer_stays_after_the_next_message() -> None:
    here, there = channels()
    here.send(1, [b"first"])
    here.send(2, [b"other"])
    _, (buffer,) = there.receive()
    there.receive()
    assert bytes(buffer) == b"first"


def test_the_end_of_the_other_process() -> None:
    here, there = channels()
    here.send("last")
    here.close()
    assert there.receive() == ("last", [])
    with pytest.raises(ChannelClosedError, match="the other end is closed"):
        there.receive()
    with pytest.raises(ChannelClosedError):
        there.send("nobody", [bytes(1_000_000)])
