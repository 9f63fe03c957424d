"""Subscriptions: what a user has of a live query."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch
from dbsp.datomic.live_query import LiveQuery
from dbsp.datomic.query import BoundQuery
from dbsp.datomic.query_results import Row, result_of, selected_rows
from dbsp.datomic.replay import Replay
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.datomic.transaction_listener import TransactionListener

if TYPE_CHECKING:
    from dbsp.compiler.why.proof import Proof
    from dbsp.compiler.why.refusal import Refusal
    from dbsp.datomic.indices import Indices
    from dbsp.datomic.transaction import PreparedTransaction


class QueryDelta(NamedTuple):
    """The change of a query's result by one transaction.

    Attributes:
        t: the number of the transaction.
        rows: the rows with their weights: 1 for a new row, -1 for a lost one.
    """

    t: int
    rows: list[tuple[Row, int]]


class Subscription(TransactionListener):
    """A live query: its rows now, and the exact change by every transaction.

    `Connection.subscribe` returns subscriptions. Each transaction of the connection, and each one
    of another process that `Connection.sync` picks up, adds its change to `deltas`, unless no row
    changes. An error in a function of the query stops the live query and not the transaction: the
    next call of a method raises it.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":name": {}})
        >>> live = conn.subscribe("[:find ?e ?n :where [?e :name ?n]]")
        >>> _ = conn.transact([[":db/add", 1, ":name", "Ada"]])
        >>> _ = conn.transact([[":db/add", 1, ":name", "Eva"]])
        >>> for delta in live:
        ...     print(delta.t, delta.rows)
        2 [((1, 'Ada'), 1)]
        3 [((1, 'Ada'), -1), ((1, 'Eva'), 1)]
        >>> live.rows()
        [(1, 'Eva')]
    """

    def __init__(
        self,
        bound: BoundQuery,
        indices: Indices,
        since: int | None,
        stop: Callable[[Subscription], None],
        on_delta: Callable[[QueryDelta], Any] | None,
    ) -> None:
        self._bound = bound
        self._stop = stop
        self._on_delta = on_delta
        self._pending: deque[QueryDelta] = deque()
        self._indices = indices
        self.t = indices.basis_t if since is None else since
        """The number of the latest transaction that the rows include."""
        if since is None or since >= indices.basis_t:
            self._live = LiveQuery(bound, indices)
            return
        replay = Replay(indices, since)
        self._live = LiveQuery(bound, replay.indices)
        for t, changed in replay.transactions():
            self._advance(replay.indices, t, changed)
        self._live.follow(indices)

    # --- transactions -----------------------------------------------------------------------------

    def step(self, prepared: PreparedTransaction, changes: dict[int, Batch]) -> None:
        self._advance(self._indices, prepared.t, changes)

    def committed(self) -> None:
        while self._on_delta is not None and self._pending:
            self._on_delta(self._pending.popleft())

    def _advance(self, indices: Indices, t: int, changed: Any) -> None:
        rows = self._live.step(indices, changed)
        self.t = t
        if rows:
            self._pending.append(QueryDelta(t, rows))

    # --- results ----------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Return the rows of the result.

        Returns:
            A list of tuples, in the order of `:order-by` if the query has it.

        Raises:
            DbspError: a function of the query has raised an error; the live query has stopped.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find [?n ...] :where [_ :name ?n]]")
            >>> _ = conn.transact([{":name": "Ada"}])
            >>> live.rows()
            [('Ada',)]
        """
        self._check()
        with SHARED_LOCK:
            return selected_rows(self._bound.query, self._live.rows())

    def result(self) -> Any:
        """Return the result in the form of `:find`, as `q` returns it.

        Returns:
            A list of tuples, a list, a tuple or a value.

        Raises:
            DbspError: as `rows`.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find (count ?e) . :where [?e :name]]")
            >>> _ = conn.transact([{":name": "Ada"}, {":name": "Eva"}])
            >>> live.result()
            2
        """
        return result_of(self._bound.query, self.rows())

    def deltas(self) -> list[QueryDelta]:
        """Return the changes since the last call, one for each transaction that changed a row.

        Returns:
            The changes in the order of the transactions; with `on_delta` always an empty list.

        Raises:
            DbspError: as `rows`, after the changes before the error have been returned.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find ?n :where [_ :name ?n]]")
            >>> _ = conn.transact([{":name": "Ada"}])
            >>> live.deltas()
            [QueryDelta(t=2, rows=[(('Ada',), 1)])]
            >>> live.deltas()
            []
        """
        found: list[QueryDelta] = []
        while self._pending:
            found.append(self._pending.popleft())
        if not found:
            self._check()
        return found

    def __iter__(self) -> Iterator[QueryDelta]:
        return iter(self.deltas())

    def why(self, row: Sequence[Any], *, depth: int | None = None) -> Proof | Refusal:
        """Return a proof that a row is in the result now, or the reasons why it is not.

        Cost: that of `dbsp.datomic.why`; the live query does no work for it.

        Parameters:
            row: one value for each element of `:find`, as for `dbsp.datomic.why`.
            depth: the number of rules to follow from the row down.

        Returns:
            A `Proof` if the row is in the result, else a `Refusal`. `print` shows it.

        Raises:
            InputError: the row has another number of values than `:find`.
            DbspError: as `rows`.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find ?n :where [_ :name ?n]]")
            >>> _ = conn.transact([{":name": "Ada"}])
            >>> print(live.why(("Ada",)))
            ["Ada"]
            │  query:1:1: [:find ?n :where [_ :name ?n]]
            └─ [1 :name "Ada"]   datom by query:1:18
        """
        from dbsp.datomic.query_why import WhyQuery  # most live queries explain nothing

        self._check()
        with SHARED_LOCK:
            return WhyQuery(self._bound, self._live.facts).why(row, depth)

    def explain(self) -> str:
        """Return the rules of the query and the plan of each, as text.

        Returns:
            The text.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find ?n :where [_ :name ?n]]")
            >>> print(live.explain().splitlines()[0])
            rule 1: result(?n) :- query(query), $ :name e v(_, ?n).
        """
        program = self._bound.compiled.program
        return program.explain(program.live_plans)

    def circuit(self) -> Graph:
        """Return the circuit that each transaction steps, for drawing and for `to_json`.

        Returns:
            The physical circuit.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find ?n :where [_ :name ?n]]")
            >>> [node.label for node in live.circuit().nodes][-1]
            'Output find'
        """
        return self._bound.compiled.program.live_graph

    def close(self) -> None:
        """Stop following transactions; the rows stay as they are.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}})
            >>> live = conn.subscribe("[:find ?n :where [_ :name ?n]]")
            >>> live.close()
            >>> _ = conn.transact([{":name": "Ada"}])
            >>> live.rows()
            []
        """
        self._stop(self)

    def _check(self) -> None:
        """Raise the error that has stopped the live query, if there is one."""
        error = self.error
        if error is None:
            return
        note = (
            f"The live query has stopped after transaction {self.t}; the transaction itself is committed. "
            "Subscribe again when the query or the facts are changed."
        )
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise error

    def __repr__(self) -> str:
        return f"<Subscription at t {self.t}>"
