"""Database values: the facts of a database at one time, which never change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.interner import Interner
from dbsp.datomic.database_schema import Schema
from dbsp.datomic.datom import Datom
from dbsp.datomic.datom_rows import datoms_from
from dbsp.datomic.entity_access import EntityAccess
from dbsp.datomic.fact_lookups import FactLookups
from dbsp.datomic.frozen_facts import FilteredFacts, FrozenFacts, SharedFacts
from dbsp.datomic.index_ranges import datoms_in
from dbsp.datomic.indices import Indices
from dbsp.datomic.query import q, with_database
from dbsp.datomic.time_points import TimePoint, number_of
from dbsp.datomic.transaction import PreparedTransaction, prepare
from dbsp.errors import InputError, counted


class Database(EntityAccess):
    """The facts of a database at one time. It never changes; later transactions make new ones.

    `conn.db()` returns the current one. A point in time is the number t of a transaction, the id of
    its entity, or a datetime with a zone.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(schema={":item/count": {":db/valueType": ":db.type/long"}})
        >>> first = conn.transact([{":db/id": 1, ":item/count": 7}])
        >>> second = conn.transact([[":db/add", 1, ":item/count", 8]])
        >>> [datom.v for datom in conn.db().datoms(":eavt", 1)]
        [8]
        >>> [datom.v for datom in conn.db().as_of(first.t).datoms(":eavt", 1)]
        [7]
        >>> [(datom.v, datom.added) for datom in conn.db().history().datoms(":eavt", 1)]
        [(7, True), (7, False), (8, True)]
    """

    __slots__ = ("__weakref__", "_base", "_facts")

    def __init__(self, base: FrozenFacts, facts: FactLookups | None = None) -> None:
        self._base = base
        self._facts = base if facts is None else facts

    @property
    def facts(self) -> FactLookups:
        """The facts by code, for look-ups and queries."""
        return self._facts

    @property
    def base(self) -> FrozenFacts:
        """The facts without the filters of `as_of`, `since` and `history`."""
        return self._base

    @property
    def indices(self) -> SharedFacts:
        """The indices of the connection, or of the transaction that was tried."""
        return self._base.indices

    @property
    def schema(self) -> Schema:
        """The attributes of the database."""
        return self._facts.schema

    @property
    def interner(self) -> Interner:
        """The values of the codes of interned types."""
        return self._facts.interner

    @property
    def basis_t(self) -> int:
        """The number of the latest transaction of this database, also of an earlier view of it."""
        return self._base.basis_t

    @property
    def as_of_t(self) -> int | None:
        """The number of the latest transaction that this database shows; None if it shows all."""
        until = self._window[1]
        return None if until >= self.basis_t else until

    @property
    def since_t(self) -> int | None:
        """The number of the transaction after which this database starts; None if it shows all."""
        after = self._window[0]
        return None if after < 0 else after

    @property
    def is_history(self) -> bool:
        """Whether this database shows all datoms, also retracted facts and their retractions."""
        return self._window[2]

    @property
    def _window(self) -> tuple[int, int, bool]:
        facts = self._facts
        if isinstance(facts, FilteredFacts):
            return facts.after, facts.until, facts.history
        return -1, self.basis_t, False

    def _filtered(self, after: int, until: int, history: bool) -> Database:
        if (after, until, history) == self._window:
            return self
        return Database(self._base, FilteredFacts(self.indices, self._base, after, until, history))

    def as_of(self, point: TimePoint) -> Database:
        """Return the database as it was after a transaction, or at a time.

        Cost: O(1); the first use of an attribute reads its datoms.

        Parameters:
            point: the last transaction to show: its t, its id, or a time with a zone.

        Returns:
            A database without the datoms of later transactions.

        Raises:
            ArgumentError: the point is none of these.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> report = conn.transact([{":name": "Ada"}])
            >>> len(conn.db().as_of(report.t).datoms(":aevt", ":name"))
            1
            >>> len(conn.db().as_of(report.t - 1).datoms(":aevt", ":name"))
            0
        """
        after, until, history = self._window
        return self._filtered(after, min(until, number_of(point, self.indices.log, "as_of")), history)

    def since(self, point: TimePoint) -> Database:
        """Return the database of the facts that were asserted after a transaction, or after a time.

        Cost: as `as_of`.

        Parameters:
            point: the last transaction not to show: its t, its id, or a time with a zone.

        Returns:
            A database without the datoms of this transaction and of earlier ones.

        Raises:
            ArgumentError: the point is none of these.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> first = conn.transact([{":name": "Ada"}])
            >>> second = conn.transact([{":name": "Grace"}])
            >>> [datom.v for datom in conn.db().since(first.t).datoms(":aevt", ":name")]
            ['Grace']
        """
        after, until, history = self._window
        return self._filtered(max(after, number_of(point, self.indices.log, "since")), until, history)

    def history(self) -> Database:
        """Return the database of all datoms: also retracted facts, and the retractions.

        Cost: as `as_of`.

        Returns:
            A database whose patterns may use the fifth column of a datom, `added`.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> _ = conn.transact([[":db/add", 1, ":name", "Ada"]])
            >>> _ = conn.transact([[":db/retract", 1, ":name", "Ada"]])
            >>> [datom.added for datom in conn.db().history().datoms(":eavt", 1)]
            [True, False]
        """
        after, until, _ = self._window
        return self._filtered(after, until, True)

    def with_(self, tx_data: Any) -> TransactionReport:
        """Return what a transaction would do, without changing anything.

        Cost: that of the transaction, and O(1) per attribute that it changes.

        Parameters:
            tx_data: as for `Connection.transact`.

        Returns:
            The report; its `db_after` is a database as any other, and has its own `with_`.

        Raises:
            InputError: the transaction is not acceptable, or this database is filtered by `as_of`,
                `since` or `history`.
            SchemaError: the transaction uses an unknown attribute.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> tried = conn.db().with_([{":name": "Ada"}]).db_after
            >>> len(tried.datoms(":aevt", ":name")), conn.db().basis_t
            (1, 0)
        """
        if self._facts is not self._base:
            raise InputError(
                "with_: expected a database that shows all transactions, got one filtered by as_of, since "
                "or history; call with_ on the database that it comes from",
                code="filtered-database",
            )
        base = self._base
        indices = Indices(base.schema, base.interner, base)
        now = dt.datetime.now(dt.UTC)
        with indices.lock:
            prepared = prepare(indices, tx_data, now=now, database=self)
        return self._tried(indices, prepared)

    def _tried(self, indices: Indices, prepared: PreparedTransaction) -> TransactionReport:
        indices.apply(prepared)
        indices.commit()
        return TransactionReport(self, Database(indices.snapshot()), prepared)

    @ends_at_caller
    def q(self, query: Any, *inputs: Any, functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
        """Return the answer of a query whose source `$` is this database.

        Cost: that of the query; it is compiled at its first use.

        Parameters:
            query: the query, as EDN text or Python data.
            inputs: the other arguments, in the order of `:in`.
            functions: Python functions and aggregates by the names that the query calls them.

        Returns:
            The form that `:find` specifies: a list of tuples, a list, a tuple or a value; maps with
            `:keys`.

        Raises:
            CompileError: the query has errors; the text shows each with its line.
            InputError: an argument does not fit `:in`, or `:in` has no `$`.
            EvaluationError: a function of the query raises an error.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(schema={":name": {}, ":age": {}})
            >>> _ = conn.transact([{":name": "Ada", ":age": 36}, {":name": "Eva", ":age": 17}])
            >>> conn.db().q("[:find [?p ...] :in $ ?least :where [?p :age ?a] [(>= ?a ?least)]]", 18)
            [1]
        """
        return q(query, *with_database(query, self, inputs, "db.q reads"), functions=functions)

    def datoms(self, index: Any, *components: Any) -> list[Datom]:
        """Return a range of an index: the datoms that start with some components.

        The columns of an index are its letters: entity, attribute, value, transaction. Cost: O(log
        n + datoms log datoms); the first use of an attribute reads its datoms.

        Parameters:
            index: `:eavt`, `:aevt`, `:avet`, or `:vaet` for the attributes of type ref.
            components: the leading columns. Entities are as for `entid`, transactions t or ids.

        Returns:
            The datoms, in the order of the index. A filtered database returns the datoms that it
            shows, a history also retractions.

        Raises:
            ArgumentError: the index does not exist, or there are more than four components.
            SchemaError: the attribute does not exist.
            InputError: a component is of another type than its column.

        Examples:
            >>> from dbsp.datomic import connect
            >>> conn = connect(open_schema=True)
            >>> _ = conn.transact([{":db/id": 1, ":name": "Ada", ":born": 1815}])
            >>> [(datom.a, datom.v) for datom in conn.db().datoms(":eavt", 1)]
            [(:name, 'Ada'), (:born, 1815)]
            >>> [datom.e for datom in conn.db().datoms(":avet", ":born", 1815)]
            [1]
        """
        return datoms_in(self._facts, self.is_history, index, components)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Database):
            return NotImplemented
        same = self.indices is other.indices and self.basis_t == other.basis_t
        return same and self._window == other._window

    def __hash__(self) -> int:
        return hash((id(self.indices), self.basis_t, self._window))

    def __repr__(self) -> str:
        after, until, history = self._window
        parts = [f"t {self.basis_t}"]
        parts += [f"as of {until}"] if until < self.basis_t else []
        parts += [f"since {after}"] if after >= 0 else []
        parts += ["history"] if history else []
        return f"<Database {', '.join(parts)}>"


class TransactionReport:
    """What a transaction did.

    Attributes:
        db_before: the database before the transaction.
        db_after: the database after it.
        t: the number of the transaction.
        tx: the id of its entity.
        tempids: the id of each entity that the transaction names by a tempid.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(open_schema=True)
        >>> report = conn.transact([{":db/id": "ada", ":name": "Ada"}])
        >>> report
        <TransactionReport t 1, 4 datoms>
        >>> report.tempids, report.db_before.basis_t, report.db_after.basis_t
        ({'ada': 1}, 0, 1)
    """

    def __init__(self, db_before: Database, db_after: Database, prepared: PreparedTransaction) -> None:
        self.db_before = db_before
        self.db_after = db_after
        self.t = prepared.t
        self.tx = prepared.tx
        self.tempids: dict[Any, int] = prepared.tempids
        self._rows = prepared.datoms

    @cached_property
    def tx_data(self) -> tuple[Datom, ...]:
        """The datoms that the transaction added to the log. Decoded at the first use, O(datoms)."""
        return tuple(datoms_from(self._rows, self.db_after.schema, self.db_after.interner))

    def __repr__(self) -> str:
        return f"<TransactionReport t {self.t}, {counted(len(self._rows), 'datom')}>"
