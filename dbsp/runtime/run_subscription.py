"""Subscriptions of a run: the handle of a caller who follows a relation or a query."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.data.schema import Schema
from dbsp.data.view import View
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, DbspError, UserFunctionError, cause_text, wrong_argument
from dbsp.runtime.delta_channel import DeltaChannel
from dbsp.runtime.stream_lookup import StreamChoice

WIDTH = 60
"""Messages show this many characters of a query."""


@runtime_checkable
class DeltaQueue(Protocol):
    """A queue of the caller, such as `queue.Queue`."""

    def put(self, item: Any, /) -> Any: ...


Receiver: TypeAlias = "Callable[[ZSet], Any] | DeltaQueue | None"
"""What gets the deltas: a function, a queue, or None for the subscription itself."""


class Subscriptions(Protocol):
    """What a subscription needs of all subscriptions of its run."""

    @property
    def tick(self) -> int: ...

    def view(self, member: RunSubscription) -> View: ...

    def close(self, ended: RunSubscription) -> None: ...


@methods_end_at_caller
class RunSubscription:
    """A relation or a query of a run that somebody follows; `Run.subscribe` returns it.

    The first delta has all rows of the moment of `subscribe`, even if there are none. Then each
    tick that changes a row adds its delta, so the sum of the deltas is always `view()`. Without a
    function and a queue, the subscription keeps the deltas: iterate over it in another thread, or
    with `async for`, or call `deltas()`. These three, `close`, and the attributes may be used in
    any thread; `view` in the thread of the run.

    Examples:
        >>> text = '''
        ...     .decl edge(x: number, y: number) .input edge
        ...     .decl path(x: number, y: number) .output path
        ...     path(x, y) :- edge(x, y).
        ...     path(x, z) :- path(x, y), edge(y, z).
        ... '''
        >>> run = dbsp.compile(text).start({"edge": [(1, 2)]})
        >>> with run.subscribe("path(1, x)") as reached:
        ...     _ = run.step({"edge": [(2, 3)]})
        ...     print(reached, [delta.to_dict() for delta in reached.deltas()], reached.view().rows())
        <subscription to path(1, x), tick 2> [{(2,): 1}, {(3,): 1}] [(2,), (3,)]
    """

    def __init__(self, hub: Subscriptions, target: StreamChoice, shown: str, to: Receiver) -> None:
        self._hub = weakref.ref(hub)
        self._target = target
        self._shown = shown
        self._to = to
        self._channel = DeltaChannel()
        self._group: Hashable = None
        """The key of the group of subscriptions that follow the same."""
        self._constants: tuple[int, ...] = ()
        """The codes of the constants of the query: what distinguishes it in its group."""
        self._columns: Schema | None = None
        self._last = 0

    @property
    def target(self) -> str:
        """The relation or the query, as text."""
        return self._shown

    @property
    def columns(self) -> Schema:
        """The names and types of the columns of its rows."""
        if self._columns is None:
            raise AssertionError("a subscription gets its columns when it begins")
        return self._columns

    @property
    def tick(self) -> int:
        """The latest tick of the run that the deltas include; after the end, the last one."""
        hub = self._hub()
        return self._last if self.closed or hub is None else hub.tick

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended."""
        return self._channel.closed

    @property
    def error(self) -> DbspError | None:
        """The error that has ended the subscription, if one has."""
        return self._channel.error

    def view(self) -> View:
        """Return all rows after the latest tick. O(n log n) for the n rows that its circuit keeps.

        Raises:
            CircuitError: the subscription has been closed, or another thread uses the run.
            DbspError: the error that has ended the subscription.

        Examples:
            >>> run = dbsp.compile(".decl a(x: number) .input a .output a").start({"a": [(1,), (7,)]})
            >>> run.subscribe("a(x), x > 5").view().rows()
            [(7,)]
        """
        hub = self._hub()
        if self.error is not None:
            raise self.error
        if self.closed or hub is None:
            raise CircuitError(
                f"the subscription to {self._shown} has been closed, so it has no view; subscribe again",
                code="subscription-ended",
            )
        return hub.view(self)

    def deltas(self) -> list[ZSet]:
        """Return the deltas since the last call, and do not wait for more.

        With a function or a queue, there are none.

        Raises:
            DbspError: the error that has ended the subscription, after the deltas before it have
                been returned.

        Examples:
            >>> run = dbsp.compile(".decl a(x: number) .input a .output a").start()
            >>> all_rows = run.subscribe("a")
            >>> _ = run.step({"a": [(1,)]})
            >>> [delta.to_dict() for delta in all_rows.deltas()]
            [{}, {(1,): 1}]
        """
        found = self._channel.drain()
        if not found and self.error is not None:
            raise self.error
        return found

    def __iter__(self) -> Iterator[ZSet]:
        """Yield the deltas, and wait for the next one; end when the subscription is closed."""
        while (delta := self._channel.take()) is not None:
            yield delta

    async def __aiter__(self) -> AsyncIterator[ZSet]:
        """Do the same in a coroutine."""
        while (delta := await self._channel.take_async()) is not None:
            yield delta

    def close(self) -> None:
        """End the subscription, and free what only it used. May be called more than once.

        A function that gets deltas may call this. In another thread than that of the run, or during
        a tick, the memory is freed by the next use of the run.

        Examples:
            >>> run = dbsp.compile(".decl a(x: number) .input a .output a").start()
            >>> all_rows = run.subscribe("a", print)
            ZSet({}, x: int)
            >>> all_rows.close()
            >>> _ = run.step({"a": [(1,)]})
            >>> all_rows
            <subscription to a, closed>
        """
        hub = self._hub()
        if hub is not None:
            hub.close(self)
        else:
            self.end(None, self._last)

    def __enter__(self) -> RunSubscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<subscription to {self._shown}, ended by {type(self.error).__name__}>"
        return f"<subscription to {self._shown}, {'closed' if self.closed else f'tick {self.tick}'}>"

    # --- called by the hub ------------------------------------------------------------------------

    def begin(self, group: Hashable, constants: tuple[int, ...], columns: Schema) -> None:
        """Note the group, and the constants in it."""
        self._group, self._constants, self._columns = group, constants, columns

    @property
    def choice(self) -> StreamChoice:
        """The target: text, or a stream of a circuit."""
        return self._target

    @property
    def place(self) -> tuple[Hashable, tuple[int, ...]]:
        """The group, and the constants in it."""
        return self._group, self._constants

    @property
    def keeps(self) -> bool:
        """Whether the subscription itself keeps its deltas."""
        return self._to is None

    def receive(self, tick: int, delta: ZSet) -> None:
        """Pass the delta of a tick on. Raises UserFunctionError."""
        if self.closed:
            return
        if self._to is None:
            self._channel.put(tick, delta)
            return
        try:
            if isinstance(self._to, DeltaQueue):
                self._to.put(delta)
            else:
                self._to(delta)
        except Exception as error:
            raise UserFunctionError(
                f"the receiver of the subscription to {self._shown} raised {cause_text(error)}; it was "
                "called after the commit, so the tick remains committed",
            ) from error

    def end(self, error: DbspError | None, tick: int) -> None:
        """End the subscription, perhaps because of an error."""
        if not self.closed:
            self._last = tick
        self._channel.close(error)


def expect_receiver(to: Any) -> None:
    """Raise ArgumentError unless deltas can be passed to the argument."""
    from inspect import iscoroutinefunction  # loads slowly

    put = to if callable(to) else getattr(to, "put", None)
    if to is None or (callable(put) and not iscoroutinefunction(put)):
        return
    raise wrong_argument(
        "to", "a function of a delta, a queue with a method put that is not a coroutine, or nothing", to
    )


def shown(target: StreamChoice) -> str:
    """Return the name of the target for messages."""
    if isinstance(target, str):
        text = " ".join(target.split())
        return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    node = getattr(target, "node", target)
    return str(getattr(node, "label", node))
