"""Databases of facts in the style of Datomic: transactions, history, queries, live queries.

A database keeps the datoms `[e a v tx added]` in sorted traces; the circuits of queries read them
from there. Imports the compiler; the command line and Spark import this package.
"""

from dbsp.datomic.connection import Connection, connect
from dbsp.datomic.database import Database, TransactionReport
from dbsp.datomic.datom import Datom
from dbsp.datomic.entity import Entity
from dbsp.datomic.query import explain, q
from dbsp.datomic.query_why import why
from dbsp.datomic.subscription import QueryDelta, Subscription

__all__ = [
    "Connection",
    "Database",
    "Datom",
    "Entity",
    "QueryDelta",
    "Subscription",
    "TransactionReport",
    "connect",
    "explain",
    "q",
    "why",
]
