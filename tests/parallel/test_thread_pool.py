"""Pieces in several threads: results in order, the first error, interrupts, forks, the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np
import pytest

from dbsp.kernels import thread_pool
from dbsp.kernels.thread_count import set_threads
from dbsp.kernels.thread_pool import in_pieces


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    set_threads(4)
    yield
    set_threads(None)


def test_results_are_in_the_order_of_the_pieces() -> None:
    assert in_pieces(100, lambda piece: piece * piece) == [piece * piece for piece in range(100)]
    assert in_pieces(0, lambda piece: piece) == []


def test_several_threads_take_pieces() -> None:
    met = threading.Barrier(4, timeout=60)

    def meet(piece: int) -> str:
        met.wait()
        return threading.current_thread().name

    assert len({threading.current_thread().name, *in_pieces(4, meet)}) > 1


@pytest.mark.parametrize("threads", [1, 4])
def test_one_thread_takes_no_help_and_one_piece_neither(threads: int) -> None:
    set_threads(threads)
    names = in_pieces(9 if threads == 1 else 1, lambda piece: threading.current_thread().name)
    assert set(names) == {threading.current_thread().name}


def test_the_error_of_the_first_piece_that_fails() -> None:
    both = threading.Barrier(2, timeout=60)

    def fail(piece: int) -> None:
        both.wait()  # two pieces run at the same time, and both fail
        raise OverflowError(f"weight: piece {piece}")

    set_threads(2)
    for _ in range(20):
        with pytest.raises(OverflowError, match="weight: piece 0"):
            in_pieces(2, fail)


def test_an_error_ends_the_other_pieces() -> None:
    done = []
    caller = threading.current_thread()

    def fail(piece: int) -> None:
        if threading.current_thread() is not caller:
            raise MemoryError
        done.append(piece)
        time.sleep(0.001)

    with pytest.raises(MemoryError):
        in_pieces(10_000, fail)
    assert len(done) < 9_000


def test_no_piece_runs_after_the_call() -> None:
    running = []
    inside = threading.Barrier(4, timeout=60)
    free = threading.Event()

    def work(piece: int) -> None:
        inside.wait()
        if piece == 0:
            threading.Timer(0.05, free.set).start()
            raise ValueError("piece 0")
        running.append(piece)
        free.wait(60)
        running.remove(piece)

    with pytest.raises(ValueError, match="piece 0"):
        in_pieces(4, work)
    assert not running


def test_pieces_within_pieces() -> None:
    def outer(piece: int) -> list[int]:
        return in_pieces(5, lambda inner: 10 * piece + inner)

    assert in_pieces(20, outer) == [[10 * piece + inner for inner in range(5)] for piece in range(20)]


def test_several_callers_at_once() -> None:
    found: dict[int, list[int]] = {}

    def call(number: int) -> None:
        found[number] = in_pieces(50, lambda piece: number * piece)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == {number: [number * piece for piece in range(50)] for number in range(6)}


def test_an_interrupt_waits_for_the_pieces() -> None:
    done = []

    def work(piece: int) -> None:
        if piece == 0:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(piece)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_pieces(50, work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(done) == list(range(50))
    assert in_pieces(3, lambda piece: piece) == [0, 1, 2]


def test_a_system_without_further_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", start)
    assert in_pieces(7, lambda piece: piece) == list(range(7))


def _in_child(sender: Connection) -> None:
    met = threading.Barrier(2, timeout=60)

    def meet(piece: int) -> int:
        met.wait()  # in one thread, this would be a deadlock
        return piece

    set_threads(2)
    sender.send(in_pieces(2, meet))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_its_own_threads() -> None:
    in_pieces(20, lambda piece: piece)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(sender,))
    child.start()
    assert receiver.poll(60)
    assert receiver.recv() == [0, 1]
    child.join(60)
    assert child.exitcode == 0


def test_idle_threads_let_the_process_end() -> None:
    program = (
        "from dbsp.kernels.thread_pool import in_pieces\n"
        "from dbsp.kernels.thread_count import set_threads\n"
        "import threading\n"
        "set_threads(3)\n"
        "print(sum(in_pieces(30, int)), threading.active_count())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["435", "3"]


def test_a_thread_that_wakes_late_keeps_no_array_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeping:
        def __init__(self) -> None:
            self.offers: list[object] = []

        def offer(self, work: object, helpers: int) -> None:
            self.offers.append(work)

    pool = Sleeping()
    monkeypatch.setattr(thread_pool, "_pool", pool)
    array = np.arange(3)
    known = weakref.ref(array)

    def double(piece: int, array: np.ndarray = array) -> int:
        return 2 * int(array[piece])

    assert in_pieces(3, double) == [0, 2, 4]
    del array, double
    assert pool.offers and known() is None
