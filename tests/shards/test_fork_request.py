"""The messages between a coordinator and the template of its shards."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dbsp.shards.fork_request import (
    ForkRequest,
    ShardDescriptors,
    TemplateEndedError,
    receive_answer,
    receive_request,
    send_answer,
    send_request,
)
from dbsp.shards.forked_process import UNKNOWN_STATUS, ForkedProcess, describe_return_code, report_end

SHARD = ShardDescriptors(5, 6, ((7, 8), None, (9, 10)))
REQUEST = ForkRequest({"A": "b" * 500_000, "bytes": "\udcff"}, ["/path"], ["dbsp.errors"], SHARD)


@contextmanager
def sent(ours: socket.socket, files: list[int]) -> Iterator[None]:
    """Send the request while the block receives it: it is larger than the buffer of a socket."""
    sender = threading.Thread(target=send_request, args=(ours, REQUEST, files))
    sender.start()
    yield
    sender.join()


def test_the_descriptors_keep_their_order() -> None:
    assert SHARD.numbers == [5, 6, 7, 8, 9, 10]
    moved = SHARD.renumbered([15, 16, 17, 18, 19, 20])
    assert moved.arguments == (15, 16, ((17, 18), None, (19, 20)))


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 450])
def test_a_request_with_any_number_of_descriptors(count: int) -> None:
    ours, theirs = socket.socketpair()
    files = [os.memfd_create(str(number)) for number in range(count)]
    with ours, theirs:
        for _ in range(2):  # the second begins where the first ends
            with sent(ours, files):
                received = receive_request(theirs)
            assert received is not None
            assert received[0] == REQUEST
            assert len(received[1]) == count
            for file, copy in zip(files, received[1], strict=True):
                assert os.path.samestat(os.fstat(file), os.fstat(copy))
                assert not os.get_inheritable(copy)
                os.close(copy)
    for file in files:
        os.close(file)


@pytest.mark.parametrize("count", [3, 250])
def test_a_request_with_more_descriptors_than_a_process_may_open(count: int) -> None:
    ours, theirs = socket.socketpair()
    files = [os.memfd_create(str(number)) for number in range(count)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ours, theirs:
        # In this process all numbers below the limit but one are in use.
        spare = os.dup(files[0])
        with sent(ours, files):
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, before[1]))
            os.close(spare)
            try:
                with pytest.raises(OSError, match="Too many open files"):
                    receive_request(theirs)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert os.dup(files[0]) == spare  # nothing stays open
        os.close(spare)
        with sent(ours, files[:1]):  # the next request begins where that one ends
            received = receive_request(theirs)
        assert received is not None
        for file in [*files, *received[1]]:
            os.close(file)


@pytest.mark.parametrize("sent", [b"", b"\1", bytes(15), (16).to_bytes(8, "little") + bytes(8) + b"x"])
def test_a_coordinator_that_ends_within_a_request(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(sent)
        assert receive_request(theirs) is None


def test_answers() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send_answer(theirs, 17, 0)
            send_answer(theirs, 0, 11)
        assert receive_answer(ours) == (17, 0)
        assert receive_answer(ours) == (0, 11)
        with pytest.raises(TemplateEndedError):
            receive_answer(ours)


@pytest.mark.parametrize(
    ("returncode", "text"),
    [
        (0, "exit status 0"),
        (3, "exit status 3"),
        (-9, "killed by SIGKILL"),
        (-50, "killed by signal 50"),
        (UNKNOWN_STATUS, "exit status unknown, since the process that started it has ended before"),
    ],
)
def test_the_report_of_an_end(returncode: int, text: str) -> None:
    end, report = os.pipe()
    process = ForkedProcess(os.getpid(), end)
    assert process.poll() is None
    if returncode == UNKNOWN_STATUS:
        os.close(report)
    else:
        report_end(report, returncode)
    assert process.wait() == process.poll() == process.wait(0) == returncode
    process.kill()  # it has ended, so no process is killed
    assert describe_return_code(returncode) == text
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(end)


def test_a_report_that_nobody_reads() -> None:
    end, report = os.pipe()
    os.close(end)
    report_end(report, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(report)
