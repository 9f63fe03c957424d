"""A call on a thread of its own, which waits in its middle for answers of its caller.

    caller                          thread of the call
    start()      ----------------->  function() ...
    question    <-----------------   ask(question)
    answer(...)  ----------------->  ... returns the answer
    result()    <-----------------   the function returns

Only one of the two runs at any time. So objects that serve one thread at a time, such as a run, can
be used by both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dbsp.errors import expect_present
from dbsp.shards.transport import ShardAborted

T = TypeVar("T")


class SuspendableCall(Generic[T]):
    """A call of `function`, which may call `ask`."""

    def __init__(self, function: Callable[[], T], shard: int) -> None:
        self.ended = False
        """Whether the function has returned or raised."""
        self.question: Any = None
        """What the function asks, unless it has ended."""
        self._function = function
        self._shard = shard
        self._answer: Any = None
        self._abandoned = False
        self._reported = threading.Semaphore(0)
        self._answered = threading.Semaphore(0)
        self._value: list[T] = []
        self._error: BaseException | None = None
        # A daemon thread: a process that ends does not wait for answers.
        self._thread = threading.Thread(target=self._run, name=f"tick of shard {shard}", daemon=True)

    def start(self) -> None:
        """Run the function until it asks or ends."""
        self._thread.start()
        self._wait()

    def ask(self, question: Any) -> Any:
        """Return the answer of the caller. The function calls this.

        Raises ShardAborted if the caller has abandoned the call.
        """
        if not self._abandoned:
            self.question = question
            self._reported.release()
            self._answered.acquire()
        if self._abandoned:
            raise ShardAborted(self._shard)
        return self._answer

    def answer(self, answer: Any) -> None:
        """Answer the question, and run the function until it asks again or ends."""
        self._answer = answer
        self._answered.release()
        self._wait()

    def result(self) -> T:
        """Return what the function has returned, or raise what it has raised."""
        if self._error is not None:
            raise self._error
        return expect_present(next(iter(self._value), None), "the result of a call that has ended")

    def abandon(self) -> None:
        """Let the question raise ShardAborted in the function, and wait until the function ends."""
        self._abandoned = True
        self._answered.release()
        self._thread.join()

    def _wait(self) -> None:
        try:
            self._reported.acquire()
        except BaseException:  # a signal: nobody waits for the call any more
            self._abandoned = True
            self._answered.release()
            raise

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:
            self._error = error
        self.ended = True
        self._reported.release()
