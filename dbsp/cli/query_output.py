"""Prints the result of a query: as a table, or one row per line as EDN, JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbsp.cli.db_options import ResultFormat
from dbsp.cli.tables import aligned
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.edn import to_json, write
from dbsp.edn.edn_writer import display_text
from dbsp.errors import expect_type


def result_lines(query: tree.Query, result: Any, format_: ResultFormat) -> Iterator[str]:
    """Yield the lines of a result, in the form that `:find` selects."""
    match format_:
        case ResultFormat.EDN:
            yield from map(write, _values(query, result))
        case ResultFormat.JSON:
            yield from map(to_json, _values(query, result))
        case ResultFormat.CSV:
            columns, rows = table_rows(query, result)
            yield _csv_line(columns)
            yield from map(_csv_line, rows)
        case ResultFormat.TABLE:
            yield from table_lines(*table_rows(query, result))


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None = None
) -> Iterator[str]:
    """Yield rows as a table with a header; the last line is their number."""
    shown = rows[:limit]
    yield from aligned(columns, [[display_text(value) for value in row] for row in shown], shown)
    number = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    yield f"({number})" if len(shown) == len(rows) else f"({number}, {len(shown):,} shown)"


def _values(query: tree.Query, result: Any) -> Sequence[Any]:
    """Return the values of a result that get a line each: its rows, or the only value."""
    many = query.find.kind in ("relation", "collection")
    return expect_type(result, list, "a list of rows") if many else [result]


def table_rows(query: tree.Query, result: Any) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the columns of a result and its rows, whatever its form is."""
    columns = list(map(element_text, query.find.elements))
    rows: Sequence[Any] = []
    match query.find.kind:
        case "relation":
            rows = result
        case "collection":
            rows = [(value,) for value in result]
        case "tuple":
            rows = [] if result is None else [result]
        case "scalar":
            rows = [] if result is None else [(result,)]
    if query.labels is not None:
        columns = list(query.labels.names)
        rows = [tuple(row.values()) if isinstance(row, Mapping) else row for row in rows]
    return columns, list(rows)


def element_text(element: tree.FindElement) -> str:
    """Return the name of a column: an element of `:find` as the query writes it."""
    match element:
        case tree.FindVariable(variable=variable):
            return variable.name
        case tree.FindPull(source=source, variable=variable, pattern=pattern):
            name = "pull" if source == "$" else f"pull {source}"
            return f"({name} {variable.name} {_argument_text(pattern)})"
        case tree.FindAggregate(function=function, arguments=arguments, variable=variable):
            name = tree.called_name(function)
            return f"({' '.join([name, *map(_argument_text, arguments), variable.name])})"


def _argument_text(argument: Any) -> str:
    match argument:
        case tree.Variable(name=name):
            return name
        case tree.Constant(value=value):
            return display_text(value)
    return display_text(argument)


def _csv_line(row: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(map(_csv_cell, row))
    return text.getvalue()


def _csv_cell(value: Any) -> str:
    """Return a value as the text of a cell: strings as they are, nil as an empty cell."""
    if value is None:
        return ""
    return value if type(value) is str else write(value)
