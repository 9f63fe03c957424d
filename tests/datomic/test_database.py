"""Database values: every view at every time equals that of the list of datoms."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.data.value_order import order_key
from dbsp.datomic import Connection, Database, Datom, connect
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.relation_key import RelationKey
from dbsp.edn.edn_values import Keyword
from dbsp.errors import ArgumentError, DbspError, InputError, SchemaError
from tests.profiles import examples

from .fact_model import FactModel, Window, check_trace

SCHEMA = {
    ":ref": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
    ":long": {":db/valueType": ":db.type/long"},
    ":double": {":db/valueType": ":db.type/double", ":db/cardinality": ":db.cardinality/many"},
    ":text": {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"},
    ":email": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
    ":any": {":db/cardinality": ":db.cardinality/many"},
}
ANY: list[Any] = [1, 2.5, "text", True, Keyword("a/b"), dt.datetime(2024, 1, 2, tzinfo=dt.UTC), (1, "x")]


def value_of(attribute: str, random_: random.Random) -> Any:
    match attribute:
        case ":ref":
            return random_.randrange(1, 8)
        case ":long":
            return random_.choice([-(2**63), 0, 1, 2, 2**63 - 1])
        case ":double":
            return random_.choice([-1.5, 0.0, 2.0, 1e300])
        case ":text" | ":email":
            return random_.choice("abc")
    return random_.choice(ANY)


def operations(random_: random.Random) -> list[Any]:
    found: list[Any] = []
    for _ in range(random_.randrange(1, 6)):
        entity = random_.randrange(1, 8)
        attribute = random_.choice(list(SCHEMA))
        match random_.randrange(8):
            case 0:
                found.append([":db/retractEntity", entity])
            case 1 | 2 | 3:
                found.append([":db/retract", entity, attribute, value_of(attribute, random_)])
            case _:
                found.append([":db/add", entity, attribute, value_of(attribute, random_)])
    return found


def expected_datoms(datoms: list[Datom], window: Window) -> list[Datom]:
    seen = [datom for datom in datoms if window.after < datom.tx - TX0 <= window.until]
    if window.history:
        return seen
    latest = {(datom.e, datom.a, type(datom.v), datom.v): datom for datom in seen}
    return [datom for datom in latest.values() if datom.added]


def check_database(
    db: Database, datoms: list[Datom], model: FactModel, window: Window, random_: random.Random
) -> None:
    ids = {attribute.ident: attribute.id for attribute in db.schema.by_id.values()}
    expected = expected_datoms(datoms, window)
    places = {":eavt": (0, 1, 2), ":aevt": (1, 0, 2), ":avet": (1, 2, 0), ":vaet": (2, 1, 0)}
    for index, order in places.items():
        given = [random_.randrange(1, 8), random_.choice(list(SCHEMA)), None]
        given[2] = value_of(":ref" if index == ":vaet" else str(given[1]), random_)
        count = random_.randrange(1 if index == ":vaet" else 0, 4)
        components = [given[place] for place in order[:count]]
        chosen = [
            datom
            for datom in expected
            if all(
                (datom[place] == given[place] and type(datom[place]) is type(given[place]))
                or repr(datom[place]) == given[place]
                for place in order[:count]
            )
            and (index != ":vaet" or db.schema.by_ident[datom.a].is_ref)
        ]
        keys = {0: lambda d: d.e, 1: lambda d: ids[d.a], 2: lambda d: order_key(d.v)}
        chosen.sort(key=lambda d: (*(keys[place](d) for place in order), d.tx, d.added))
        assert db.datoms(index, *components) == chosen, (index, components)
    for _ in range(3):
        attribute = random_.choice([None, *(ids[Keyword(name[1:])] for name in SCHEMA)])
        names = ("e", "v") if attribute else ("e", "a", "v")
        names += random_.choice([(), ("tx",), ("tx", "added")])
        check_trace(
            db.facts, model, window, RelationKey(attribute, names), tuple(random_.sample(names, len(names)))
        )


class History:
    """Connections to one folder, and all datoms that they have written."""

    def __init__(self, folder: str, random_: random.Random) -> None:
        self.folder = folder
        self.random = random_
        self.datoms: list[Datom] = []
        self.model = FactModel()
        self.kept: list[tuple[Database, Window]] = []
        self.connections = [connect(folder, schema=SCHEMA)]
        self.add(self.connections[0], 0)

    @property
    def t(self) -> int:
        return self.datoms[-1].tx - TX0

    def add(self, connection: Connection, first: int) -> None:
        """Add the transactions from `first` to the model."""
        for each in connection.tx_range(first):
            self.datoms += each.datoms
        log = connection._indices.log
        self.model.datoms += map(tuple, log.rows(log.start(first), log.count).tolist())

    def transact(self) -> None:
        connection = self.random.choice(self.connections)
        before = self.t
        try:
            report = connection.transact(operations(self.random))
        except DbspError as error:
            assert error.code in ("transaction-conflict", "unique-conflict", "upsert-conflict")
            assert connection.db().basis_t == before
        else:
            assert (report.t, report.tx) == (before + 1, TX0 + before + 1)
            assert report.db_before.basis_t == before and report.db_after == connection.db()
            self.add(connection, report.t)
            assert list(report.tx_data) == [datom for datom in self.datoms if datom.tx == report.tx]

    def keep(self) -> None:
        db = self.random.choice(self.connections).sync()
        window = Window(-1, self.t)
        if self.random.random() < 0.6:
            until = self.random.randrange(self.t + 2)
            window.until = min(until, self.t)
            db = db.as_of(self.random.choice([until, TX0 + until]))
        if self.random.random() < 0.4:
            window.after = self.random.randrange(self.t + 1)
            db = db.since(window.after)
        if self.random.random() < 0.5:
            window.history = True
            db = db.history()
        self.kept.append((db, window))

    def change_connections(self) -> None:
        if len(self.connections) < 3:
            self.connections.append(connect(self.folder, schema=SCHEMA))
            assert self.connections[-1].db().basis_t == self.t
        if self.random.random() < 0.5:
            self.connections.pop(self.random.randrange(len(self.connections) - 1)).close()

    def check(self) -> None:
        for db, window in self.kept:
            check_database(db, self.datoms, self.model, window, self.random)
        for connection in self.connections:
            db = connection.sync()
            check_database(db, self.datoms, self.model, Window(-1, self.t), self.random)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(25))
def test_every_view_at_every_time(seed: int) -> None:
    random_ = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("dbsp.datomic.connection.SEGMENT", random_.choice([1, 3, 1000])),
        mock.patch("dbsp.datomic.connection.SEGMENT_AT_CLOSE", random_.choice([1, 2, 1000])),
    ):
        history = History(folder, random_)
        for _ in range(random_.randrange(4, 25)):
            random_.choice([history.transact] * 5 + [history.keep, history.change_connections])()
        history.check()
        for connection in history.connections:
            connection.close()
        for db, window in history.kept:  # values outlive their connection
            check_database(db, history.datoms, history.model, window, random_)


def two_names() -> Connection:
    conn = connect(open_schema=True)
    conn.transact([[":db/add", 1, ":name", "Ada"], [":db/add", "datomic.tx", ":db/txInstant", instant(1)]])
    conn.transact([[":db/add", 1, ":name", "Eva"], [":db/add", "datomic.tx", ":db/txInstant", instant(2)]])
    return conn


def instant(day: int) -> dt.datetime:
    return dt.datetime(2024, 1, day, tzinfo=dt.UTC)


def names(db: Database) -> list[Any]:
    return [datom.v for datom in db.datoms(":eavt", 1)]


def test_points_in_time_are_numbers_ids_and_times() -> None:
    db = two_names().db()
    hour = dt.timedelta(hours=1)
    for point in (1, TX0 + 1, instant(1), instant(2) - hour):
        assert names(db.as_of(point)) == ["Ada"] and names(db.since(point)) == ["Eva"]
    assert db.as_of(instant(1) - hour).datoms(":eavt", 1) == []
    assert names(db.as_of(instant(2))) == names(db.as_of(99)) == ["Eva"]
    assert names(db.since(instant(2))) == names(db.since(99)) == []
    local = instant(1).astimezone(dt.timezone(dt.timedelta(hours=5)))
    assert names(db.as_of(local)) == ["Ada"]
    assert (db.as_of(1).as_of_t, db.as_of(1).basis_t, db.as_of(5).as_of_t, db.since(1).since_t) == (
        1,
        2,
        None,
        1,
    )
    assert db.as_of(1).as_of(2) == db.as_of(1) and db.since(1).since(0) == db.since(1)
    assert [datom.added for datom in db.history().as_of(1).datoms(":eavt", 1)] == [True]


@pytest.mark.parametrize("point", [-1, True, 1.5, "1", None, 2**43, dt.date(2024, 1, 1)])
def test_other_points_in_time_are_refused(point: Any) -> None:
    db = two_names().db()
    for name in ("as_of", "since"):
        with pytest.raises(ArgumentError, match=f"{name}: expected the number t of a transaction, the id"):
            getattr(db, name)(point)


def test_times_need_a_zone() -> None:
    with pytest.raises(
        ArgumentError, match="as_of: expected a time with a zone, got 2024-01-01T00:00:00; add"
    ):
        connect().db().as_of(dt.datetime(2024, 1, 1))


def test_a_database_value_stays_as_it_is() -> None:
    conn = two_names()
    before = conn.db()
    conn.transact([[":db/add", 1, ":name", "Uma"], [":db/add", 2, ":other", 1]])
    assert names(before) == ["Eva"] and names(conn.db()) == ["Uma"]
    assert before.schema.by_ident.keys() < conn.db().schema.by_ident.keys()
    assert before != conn.db() and before == before.as_of(2) and hash(before) == hash(before.as_of(7))
    assert repr(before.as_of(1).since(0).history()) == "<Database t 2, as of 1, since 0, history>"


def test_with_tries_a_transaction() -> None:
    conn = two_names()
    db = conn.db()
    tried = db.with_([{":db/id": "new", ":name": "Uma"}, [":db/retract", 1, ":name", "Eva"]])
    entity = tried.tempids["new"]
    assert tried.db_before is db and [datom.v for datom in tried.db_after.datoms(":eavt", entity)] == ["Uma"]
    assert names(tried.db_after) == [] and names(db) == ["Eva"] == names(conn.db())
    again = tried.db_after.with_([[":db/add", 1, ":name", "Io"]]).db_after
    assert names(again) == ["Io"] and names(again.as_of(3)) == [] and names(again.as_of(2)) == ["Eva"]
    assert [datom.v for datom in again.history().datoms(":eavt", 1)] == ["Ada", "Ada", "Eva", "Eva", "Io"]
    conn.transact([[":db/add", 1, ":name", "Zoe"]])
    assert names(again) == ["Io"] and names(conn.db()) == ["Zoe"]
    with pytest.raises(InputError, match="expected a database that shows all transactions, got one filtered"):
        db.as_of(1).with_([])
    assert conn.db().basis_t == 3


def test_wrong_components_of_datoms() -> None:
    db = two_names().db()
    with pytest.raises(ArgumentError, match="expected the index :eavt, :aevt, :avet or :vaet, got ':eav'"):
        db.datoms(":eav")
    with pytest.raises(ArgumentError, match=":eavt expects at most 4 components, got 5"):
        db.datoms(":eavt", 1, ":name", "Eva", 1, 1)
    with pytest.raises(SchemaError, match="unknown attribute :nam; did you mean :name"):
        db.datoms(":avet", ":nam")
    with pytest.raises(SchemaError, match=r"datoms: expected an attribute such as :person/name, got 1.5"):
        db.datoms(":avet", 1.5)
    with pytest.raises(InputError, match="datoms: expected a transaction as t or as its id, got -3"):
        db.datoms(":eavt", 1, ":name", "Eva", -3)
    assert db.datoms(Keyword("avet"), ":name", "Eva", 1, 2) == db.datoms("avet", ":name", "Eva", 1, TX0 + 2)
    assert len(db.datoms("avet", ":name", "Eva", 1, 2)) == 1 and db.datoms("avet", ":name", "Eva", 1, 1) == []


def test_the_log_is_read_by_ranges() -> None:
    conn = two_names()
    conn.transact([[":db/add", 1, ":name", "Uma"]])
    log = conn.log
    conn.transact([])
    assert (len(log), len(conn.log)) == (3, 4) and repr(log) == "<TransactionLog of 3 transactions>"
    assert [each.t for each in log] == [1, 2, 3] and [each.tx for each in log] == [TX0 + 1, TX0 + 2, TX0 + 3]
    assert [each.t for each in log.tx_range(2)] == [2, 3] and [each.t for each in log.tx_range(0, 2)] == [
        0,
        1,
    ]
    assert [each.t for each in log.tx_range(instant(2))] == [2, 3]
    assert [each.t for each in log.tx_range(instant(1), instant(2))] == [1]
    assert [each.t for each in log.tx_range(TX0 + 3, 99)] == [3] and list(log.tx_range(3, 2)) == []
    assert next(log.tx_range(2)).instant == instant(2)
    with pytest.raises(ArgumentError, match="end: expected the number t of a transaction"):
        log.tx_range(1, "x")  # type: ignore[arg-type]


def test_a_folder_has_one_path(tmp_path: Path) -> None:
    with connect(tmp_path / "deep" / "db", schema="{:aka {:db/cardinality :db.cardinality/many}}") as conn:
        conn.transact([[":db/add", 1, ":aka", "x"], [":db/add", 1, ":aka", 7]])
    with connect(str(tmp_path / "deep" / "db")) as conn:
        assert {datom.v for datom in conn.db().datoms(":eavt", 1)} == {"x", 7}
