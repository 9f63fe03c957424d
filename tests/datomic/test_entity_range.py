"""New entities never get ids of transactions: the ids of users' entities end at 2**42 - 1."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp.datomic import Connection, connect
from dbsp.errors import InputError

LAST = 2**42 - 1


@pytest.fixture
def conn() -> Connection:
    """A database in which the last id but one is in use."""
    connection = connect(open_schema=True)
    connection.transact([{":db/id": LAST - 1, ":name": "Ada"}])
    return connection


def test_the_last_id_is_allocated(conn: Connection) -> None:
    assert conn.transact([{":db/id": "eva", ":name": "Eva"}]).tempids == {"eva": LAST}


@pytest.mark.parametrize(
    "tx_data",
    [
        [{":db/id": "eva", ":name": "Eva"}, {":db/id": "bo", ":name": "Bo"}],
        [{":db/id": LAST, ":name": "Eva"}, {":name": "Bo"}],
    ],
)
def test_no_entity_gets_an_id_after_the_last(conn: Connection, tx_data: Any) -> None:
    with pytest.raises(InputError) as caught:
        conn.transact(tx_data)
    assert caught.value.code == "value-out-of-range"
    assert "no id is left for this new entity" in caught.value.message
    assert caught.value.message.startswith("transaction[1]: ")
    assert conn.db().basis_t == 1


def test_a_table_needs_ids_that_are_left(conn: Connection) -> None:
    with pytest.raises(InputError, match="no id is left for this new entity"):
        conn.transact_table({":name": ["Eva", "Bo"]})
    assert conn.transact_table({":name": ["Eva"]}).tx_data[0].e == LAST
