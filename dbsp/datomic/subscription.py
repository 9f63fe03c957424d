"""Live queries: the circuit of a query stays, and steps with every transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dbsp.compiler.datomic.circuits.query_program import FOUND
from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.datomic.live_pull import LivePull
from dbsp.datomic.query import BoundQuery
from dbsp.datomic.query_results import Row, has_pull, plain_rows, result_of, selected_rows
from dbsp.datomic.query_sources import SourceTraces, TracedFacts, relation_key
from dbsp.datomic.shared_values import SHARED_LOCK


if TYPE_CHECKING:
    from dbsp.datomic.indices import Indices

LIVE = "$"
"""The source that a subscription follows; other databases are values."""


class QueryDelta(NamedTuple):
    """The change of a query's result by a transaction: rows with weight 1, or -1 for a lost row."""

    t: int
    rows: list[tuple[Row, int]]


class LiveQuery:
    """The circuit of a query over facts that change, one step for each transaction."""

    def __init__(self, bound: BoundQuery, facts: Mapping[str, TracedFacts]) -> None:
        self._bound = bound
        self._facts = dict(facts)
        self._run, self._traces = bound.compiled.start(facts)
        self._inputs = {
            name: relation_key(base)
            for name, base in bound.compiled.program.bases.items()
            if base.source == LIVE
        }
        self._run.step_staged(bound.batches())
        find = bound.query.find
        self._pulled: LivePull | None = None
        if has_pull(find):
            rows = self._run.view(FOUND).rows()
            self._pulled = LivePull(find, bound.pattern, self._facts, rows)

    def step(self, indices: Indices, changed: Mapping[int, Batch]) -> list[tuple[Row, int]]:
        """Step with the transaction that the indices apply; return the change of the result."""
        staged: dict[str, Batch] = {}
        for name, key in self._inputs.items():
            if key.attribute is not None and key.attribute not in changed:
                continue
            trace = indices.trace(key, key.columns)
            if trace.fresh:
                run = trace.current[-1]
                staged[name] = Batch(run.rows, run.weights)
        if self._pulled is None and not staged:
            return []
        found = self._run.step_staged(staged)[FOUND]
        delta = _weighted(found)
        return delta if self._pulled is None else self._pulled.step(delta, indices.schema, changed)

    def follow(self, facts: TracedFacts) -> None:
        """Read the live source from other facts, which are equal, from now on."""
        self._facts[LIVE] = facts
        self._traces.source = SourceTraces(self._bound.compiled.program.bases, self._facts)

    def rows(self) -> list[Row]:
        """Return the rows of the result."""
        if self._pulled is not None:
            return self._pulled.rows()
        return plain_rows(self._run.view(FOUND).rows())


def _weighted(delta: ZSet) -> list[tuple[Row, int]]:
    pairs = list(delta.items())
    rows = plain_rows(row for row, _ in pairs)
    return [(row, weight) for row, (_, weight) in zip(rows, pairs, strict=True)]


class Subscription:
    """A live query: its rows now, and the exact change by every transaction.

    `Connection.subscribe` returns subscriptions. Each transaction of the connection, and each one of
    another process that `Connection.sync` picks up, adds its change to `deltas`.
    """

    def __init__(
        self,
        bound: BoundQuery,
        live: LiveQuery,
        t: int,
        close: Callable[[Subscription], None],
        on_delta: Callable[[QueryDelta], Any] | None,
    ) -> None:
        self._bound = bound
        self._live = live
        self._close = close
        self._on_delta = on_delta
        self._pending: deque[QueryDelta] = deque()
        self._error: BaseException | None = None
        self.t = t
        """The number of the latest transaction that the rows include."""
        self.closed = False

    # --- transactions -----------------------------------------------------------------------------

    def step(self, indices: Indices, t: int, changed: Mapping[int, Batch]) -> None:
        """Step with a transaction that the indices apply; never raises an Exception."""
        if self._error is not None:
            return
        try:
            rows = self._live.step(indices, changed)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
            return
        self.t = t
        if rows:
            self._pending.append(QueryDelta(t, rows))

    def notify(self) -> None:
        """Call `on_delta` for the waiting changes."""
        while self._on_delta is not None and self._pending:
            self._on_delta(self._pending.popleft())

    # --- results ----------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Return the rows of the result."""
        self._check()
        with SHARED_LOCK:
            return selected_rows(self._bound.query, self._live.rows())

    def result(self) -> Any:
        """Return the result in the form that `:find` asks for, as `q` does."""
        return result_of(self._bound.query, self.rows())

    def deltas(self) -> list[QueryDelta]:
        """Return the changes since the last call, one for each transaction that changed a row."""
        found = []
        while self._pending:
            found.append(self._pending.popleft())
        if not found:
            self._check()
        return found

    def __iter__(self) -> Iterator[QueryDelta]:
        """Yield the changes that are waiting."""
        return iter(self.deltas())

    def explain(self) -> str:
        """Return the rules and the plans of the query as text."""
        return self._bound.compiled.program.explain()

    def close(self) -> None:
        """Stop following transactions."""
        self.closed = True
        self._close(self)

    def _check(self) -> None:
        """Raise the error that has stopped the query, if there is one."""
        if self._error is not None:
            self._error.add_note(
                f"The live query stopped after transaction {self.t}; the transaction itself was committed. "
                "Subscribe again after you have changed the query or the facts."
            )
            raise self._error

    def __repr__(self) -> str:
        return f"<live query at t {self.t}>"
