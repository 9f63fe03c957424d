"""The server of the page, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.errors import wrong_argument
from dbsp.inspector.inspected_run import InspectedRun, StagedQuery
from dbsp.inspector.page_server import PageServer
from dbsp.inspector.page_thread import PageThread
from dbsp.io.change_script import ScriptTick
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.run import Run
from dbsp.runtime.run_watching import MAX_ROWS
from dbsp.runtime.tick_result import TickResult

if TYPE_CHECKING:
    from types import TracebackType

HISTORY = 50
"""The number of ticks that the inspector keeps by default."""


class Inspector:
    """A page that shows a run, until `close`; `serve` returns it.

    A run serves one thread at a time, and the page uses it too. While the inspector is open, step
    the run by `step`, or use it inside of `with inspector.held():`.
    """

    def __init__(self, inspected: InspectedRun, port: int) -> None:
        self._inspected = inspected
        self._page = PageServer(inspected)
        self._thread = PageThread(lambda: self._page.app, port)
        self.port = self._thread.port
        """The port of the page."""
        self.url = self._thread.url
        """The address of the page, with a secret token. It gives access to all rows."""

    @ends_at_caller
    def step(self, changes: Mapping[str, InputChange] | None = None) -> TickResult:
        """Apply one tick, as `Run.step` does, and show it in the page.

        Parameters:
            changes: the changes by input (see `Run.step`).

        Returns:
            The delta of every output.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> with dbsp.inspector.serve(circuit.start(), circuit) as inspector:
            ...     inspector.step({"sale": [(7,), (3,)]})["big"].rows()
            [(7,)]
        """
        return self._inspected.step(changes)

    @contextmanager
    def held(self) -> Iterator[Run]:
        """Hold the run for this thread until the block ends; the page waits.

        Returns:
            A context manager; `as` binds the run.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", x=int))
            >>> with dbsp.inspector.serve(circuit.start()) as inspector:
            ...     with inspector.held() as run:
            ...         _ = run.step({"sale": [(7,)]})
            ...         run.view("sales").rows()
            [(7,)]
        """
        with self._inspected.held() as run:
            yield run

    def close(self) -> None:
        """End the server; the run stays as it is. Closing again does nothing.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", x=int))
            >>> inspector = dbsp.inspector.serve(circuit.start())
            >>> inspector.close()
        """
        if not self._thread.alive:
            return
        self._page.end()
        self._thread.end()
        self._inspected.release()

    def wait(self) -> None:
        """Wait until the server ends, for a program that does nothing else.

        Examples:
            >>> import threading
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", x=int))
            >>> inspector = dbsp.inspector.serve(circuit.start())
            >>> threading.Timer(0.1, inspector.close).start()
            >>> inspector.wait()
        """
        self._thread.wait()

    def __enter__(self) -> Inspector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        open_ = "open" if self._thread.alive else "closed"
        return f"<inspector of '{self._inspected.run.graph.name}': {open_}>"


@ends_at_caller
def serve(
    run: Run,
    query: StagedQuery | None = None,
    *,
    script: Sequence[ScriptTick] = (),
    port: int = 0,
    history: int = HISTORY,
    max_rows: int = MAX_ROWS,
) -> Inspector:
    """Show a run in a local web page, where it can be stepped tick by tick.

    The server answers this machine only, and only requests with the token of `url`. While the
    inspector is open, it records the ticks of the run.

    Parameters:
        run: the run to show.
        query: the program or the circuit of the run. The page then also shows its other stages,
            and proofs of rows of a program.
        script: ticks that the page can apply one by one.
        port: the port; by default a free one.
        history: the number of ticks to keep for the page.
        max_rows: the number of changed rows to keep, over all streams and ticks (see
            `Run.record`).

    Returns:
        The inspector: `url` is the address of the page. `close` ends it, as does the end of a
        `with` block.

    Raises:
        SetupError: the packages of the extra `inspect` are not installed.
        ArgumentError: `run` is not a run in this process, `port` is not a number, or
            `history` not a number of 1 or more.
        DbspError: the port is in use.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> with dbsp.inspector.serve(circuit.start(), circuit) as inspector:
        ...     inspector.url.startswith("http://127.0.0.1:")
        True
    """
    if not isinstance(run, Run):
        raise wrong_argument("run", "a run in this process", run)
    if type(port) is not int:
        raise wrong_argument("port", "a number, or 0 for a free port", port)
    for name, number in (("history", history), ("max_rows", max_rows)):
        if type(number) is not int or number < 1:
            raise wrong_argument(name, "a number of 1 or more", number)
    inspected = InspectedRun(run, query, script, history, max_rows)
    try:
        return Inspector(inspected, port)
    except BaseException:
        inspected.release()
        raise
