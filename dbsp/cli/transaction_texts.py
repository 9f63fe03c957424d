"""Transactions as text: those of the log, and reports of new ones."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dbsp.cli.database_access import time_point
from dbsp.cli.db_options import LogFormat
from dbsp.datomic import Database, Datom, TransactionReport
from dbsp.datomic.entity_ranges import DB0
from dbsp.datomic.time_points import number_of
from dbsp.datomic.transaction_log import LoggedTransaction, TransactionLog
from dbsp.edn import Keyword, to_json, write
from dbsp.edn.edn_writer import display_text
from dbsp.errors import counted


def transactions_between(
    log: TransactionLog, database: Database, start: str | None, end: str | None
) -> Iterator[LoggedTransaction]:
    """Return the transactions from one point in time to another, both included."""
    first = None if start is None else time_point(start, "--from")
    last = None if end is None else time_point(end, "--to")
    if last is not None:
        last = number_of(last, database.indices.log, "--to") + 1
    return log.tx_range(first, last)


def log_lines(transaction: LoggedTransaction, database: Database, format_: LogFormat) -> Iterator[str]:
    """Yield the lines of a transaction of the log."""
    if format_ is not LogFormat.TEXT:
        parts = {
            "t": transaction.t,
            "tx": transaction.tx,
            "instant": transaction.instant,
            "datoms": [tuple(datom) for datom in transaction.datoms],
        }
        yield object_line(parts, format_.value)
        return
    yield f"t {transaction.t}  {instant_text(transaction.instant)}  tx {transaction.tx}"
    for datom in transaction.datoms:
        yield f"  {datom_text(datom, database)}"


def object_line(parts: Mapping[str, Any], format_: str) -> str:
    """Return named values on one line: a map with keywords as EDN, or a JSON object."""
    if format_ == "edn":
        return write({Keyword(name): value for name, value in parts.items()})
    members = (f"{json.dumps(name)}: {to_json(value)}" for name, value in parts.items())
    return f"{{{', '.join(members)}}}"


def datom_text(datom: Datom, database: Database) -> str:
    """Return a datom for people: `+ 17 :person/name "Ada"`. Entities of the schema have names."""
    entity, value = _named(datom.e, database), datom.v
    attribute = database.schema.by_ident.get(datom.a)
    if attribute is not None and attribute.is_ref:
        value = _named(value, database)
    return f"{'+' if datom.added else '-'} {entity} {datom.a} {display_text(value)}"


def _named(entity: int, database: Database) -> Any:
    """Return the ident of an entity of the schema, such as an attribute; other ids as they are."""
    name = database.schema.ident(entity) if entity >= DB0 else None
    return entity if name is None else name


def instant_text(instant: dt.datetime) -> str:
    """Return a time as EDN writes it, without its tag."""
    return write(instant).split('"')[1]


def datom_count(report: TransactionReport) -> int:
    """Return the number of datoms of a transaction, without decoding them."""
    log = report.db_after.base.log
    return log.start(report.t + 1) - log.start(report.t)


def report_line(report: TransactionReport, format_: str) -> str:
    """Return the line that says what a transaction did: its t, id, number of datoms and tempids."""
    parts = {"t": report.t, "tx": report.tx, "datoms": datom_count(report)}
    if format_ == "edn":
        return object_line({**parts, "tempids": report.tempids}, format_)
    tempids = {
        key if isinstance(key, str) else display_text(key): each for key, each in report.tempids.items()
    }
    return json.dumps({**parts, "tempids": tempids}, ensure_ascii=False)


def report_text(report: TransactionReport) -> str:
    """Return a report for people: `t 5, 3 datoms, "ada" is 17`."""
    parts = [f"t {report.t}", counted(datom_count(report), "datom")]
    parts += [f"{display_text(tempid)} is {entity}" for tempid, entity in report.tempids.items()]
    return ", ".join(parts)
