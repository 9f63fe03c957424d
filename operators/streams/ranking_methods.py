"""Stream methods that order rows: top-k, ranks, and values of the rows before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError, shorten
from dbsp.operators.groups.ranking import Rank, Shift, TopK, ordered_by
from dbsp.operators.streams.fit import listed, located

S = TypeVar("S", bound="RankingMethods")


@methods_end_at_caller
class RankingMethods(graph.Stream):
    """The methods of a stream that order the rows of each partition.

    See `dbsp.operators.groups.ranking`.
    """

    __slots__ = ()

    @located("TopK")
    def top_k(
        self: S,
        k: int,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
    ) -> S:
        """Keep the first `k` rows of each partition in the order of `by`.

        Rows that tie are ordered by the whole row, ascending. A row of weight w counts as w rows,
        so the last kept row may keep only a part of its weight. O(k + log n) for each partition
        with a changed row where the order is that of stored codes, else O(m log m) for its m rows;
        the state is a trace.

        Parameters:
            k: the number of rows, 1 or more.
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: a column does not exist, `k` is less than 1, or `by` and `descending`
                differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("best", score.top_k(1, by="points", partition=["team"], descending=True))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["best"].rows()
            [('a', 'Ada', 7)]
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise SchemaError(
                f"top_k expects a number of rows of 1 or more, got {shorten(k)}", code="invalid-argument"
            )
        groups = distinct_indices(self.schema, partition)
        return TopK(groups, ordered_by(self.schema, listed(by, "by="), descending), k)(self)

    def rank(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "rank",
    ) -> S:
        """Add the rank of each row in its partition; rows that tie have the same rank.

        The rank is 1 + the number of rows that come before the row and do not tie with it.
        A tick recomputes the rows from the first change of a partition to the last one, or to the
        end if the number of rows changes; the state is a trace. If `by` begins with strings, a tick
        recomputes the partitions of the changed rows, O(m log m) for their m rows.


        Parameters:
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.
            name: the name of the new column.

        Returns:
            A stream with the columns of this one and the rank.

        Raises:
            SchemaError: a column does not exist, or `by` and `descending` differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("rank", score.rank(by="points", descending=True))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["rank"].rows()
            [('a', 'Ada', 7, 1), ('a', 'Ben', 7, 1), ('a', 'Cid', 5, 3)]
        """
        return self._ranked("rank", by, partition, descending, name)

    def dense_rank(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "rank",
    ) -> S:
        """Add the rank of each row in its partition, counted without gaps after ties.

        The rank is 1 + the number of different values of `by` that come before the row's value.
        A tick recomputes the rows from the first change of a partition to the last one, or to the
        end if the number of different values changes; the state is a trace, and the different
        values. If `by` contains strings, or both directions, a tick recomputes the partitions of
        the changed rows, O(m log m) for their m rows.


        Parameters:
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.
            name: the name of the new column.

        Returns:
            A stream with the columns of this one and the rank.

        Raises:
            SchemaError: a column does not exist, or `by` and `descending` differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("rank", score.dense_rank(by="points", descending=True))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["rank"].rows()
            [('a', 'Ada', 7, 1), ('a', 'Ben', 7, 1), ('a', 'Cid', 5, 2)]
        """
        return self._ranked("dense_rank", by, partition, descending, name)

    def row_number(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "number",
    ) -> S:
        """Number the rows of each partition 1, 2, ... in the order of `by`.

        Rows that tie are ordered by the whole row, ascending. A row of weight w becomes w rows with
        different numbers.
        A tick recomputes the rows from the first change of a partition to the last one, or to the
        end if the number of rows changes; the state is a trace. If `by` begins with strings, a tick
        recomputes the partitions of the changed rows, O(m log m) for their m rows.


        Parameters:
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.
            name: the name of the new column.

        Returns:
            A stream with the columns of this one and the number.

        Raises:
            SchemaError: a column does not exist, or `by` and `descending` differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("place", score.row_number(by="points", descending=True))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["place"].rows()
            [('a', 'Ada', 7, 1), ('a', 'Ben', 7, 2), ('a', 'Cid', 5, 3)]
        """
        return self._ranked("row_number", by, partition, descending, name)

    @located("Lag")
    def lag(
        self: S,
        column: str,
        n: int = 1,
        *,
        by: str | Sequence[str],
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str | None = None,
    ) -> S:
        """Add the value of `column` `n` rows earlier in the partition, or None at its start.

        Rows that tie are ordered by the whole row, ascending. A row of weight w counts as w rows. A
        tick recomputes the `n` neighbours of the changed rows and the rows that tie with them,
        O(log m) for a partition of m rows; the state is a trace. If `by` begins with strings, a
        tick recomputes the partitions of the changed rows, O(m log m).

        Parameters:
            column: the column to read.
            n: how many rows back to look; with a negative `n` the other way.
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.
            name: the name of the new column, by default `column` with the suffix `_lag`.

        Returns:
            A stream with the columns of this one and the new column, which is optional.

        Raises:
            SchemaError: a column does not exist, or `by` and `descending` differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("lag", score.lag("name", by="name"))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["lag"].rows()
            [('a', 'Ada', 7, None), ('a', 'Ben', 7, 'Ada'), ('a', 'Cid', 5, 'Ben')]
        """
        return self._shifted(column, n, 1, by, partition, descending, name or f"{column}_lag")

    @located("Lead")
    def lead(
        self: S,
        column: str,
        n: int = 1,
        *,
        by: str | Sequence[str],
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str | None = None,
    ) -> S:
        """Add the value of `column` `n` rows later in the partition, or None at its end.

        Rows that tie are ordered by the whole row, ascending. A row of weight w counts as w rows. A
        tick recomputes the `n` neighbours of the changed rows and the rows that tie with them,
        O(log m) for a partition of m rows; the state is a trace. If `by` begins with strings, a
        tick recomputes the partitions of the changed rows, O(m log m).

        Parameters:
            column: the column to read.
            n: how many rows ahead to look; with a negative `n` the other way.
            by: the columns that order the rows: a name or several.
            partition: the columns that divide the rows into partitions; by default one partition.
            descending: True to order from the largest value, or one bool per column of `by`.
            name: the name of the new column, by default `column` with the suffix `_lead`.

        Returns:
            A stream with the columns of this one and the new column, which is optional.

        Raises:
            SchemaError: a column does not exist, or `by` and `descending` differ in length.

        Examples:
            >>> circuit = Circuit("scores")
            >>> score = circuit.input("score", team=str, name=str, points=int)
            >>> circuit.output("lead", score.lead("name", by="name"))
            >>> rows = [("a", "Ada", 7), ("a", "Ben", 7), ("a", "Cid", 5)]
            >>> circuit.start().step({"score": rows})["lead"].rows()
            [('a', 'Ada', 7, 'Ben'), ('a', 'Ben', 7, 'Cid'), ('a', 'Cid', 5, None)]
        """
        return self._shifted(column, n, -1, by, partition, descending, name or f"{column}_lead")

    @located("Rank")
    def _ranked(
        self: S,
        kind: str,
        by: str | Sequence[str],
        partition: Sequence[str],
        descending: bool | Sequence[bool],
        name: str,
    ) -> S:
        schema = self.schema
        order = ordered_by(schema, listed(by, "by="), descending)
        groups = distinct_indices(schema, partition)
        return Rank(groups, order, kind, (*schema.names, name))(self)

    def _shifted(
        self: S,
        column: str,
        n: int,
        direction: int,
        by: str | Sequence[str],
        partition: Sequence[str],
        descending: bool | Sequence[bool],
        name: str,
    ) -> S:
        schema = self.schema
        if isinstance(n, bool) or not isinstance(n, int) or not -(2**31) < n < 2**31:
            raise SchemaError(
                f"expected a number of rows n below 2**31, got {shorten(n)}", code="invalid-argument"
            )
        order = ordered_by(schema, listed(by, "by="), descending)
        at = schema.index(column)
        groups = distinct_indices(schema, partition)
        return Shift(groups, order, at, n * direction, (*schema.names, name))(self)


def distinct_indices(schema: Schema, partition: Sequence[str]) -> tuple[int, ...]:
    """Return the columns of a partition; a column that is named twice counts once."""
    return tuple(dict.fromkeys(schema.indices(listed(partition, "partition="))))
