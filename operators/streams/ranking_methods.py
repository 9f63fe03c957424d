"""Stream methods that put rows in an order: top-k, ranks, and looking at the rows before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dbsp.circuit import graph
from dbsp.errors import SchemaError
from dbsp.operators.groups.ranking import Rank, Shift, TopK, ordered_by
from dbsp.operators.streams.fit import located

S = TypeVar("S", bound="RankingMethods")


class RankingMethods(graph.Stream):
    """The methods of a stream that order the rows of each partition (see `dbsp.operators.groups.ranking`)."""

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
        """The first `k` rows of each partition in the order of `by`: the least, or the largest `descending`.

        Ties go to the rows that are less as a whole. A row of weight w counts as w rows, so the last one
        may keep a part of its weight.
        """
        if k < 1:
            raise SchemaError(f"top_k takes the first 1, 2, ... rows, not {k}")
        return TopK(self.schema.indices(partition), ordered_by(self.schema, by, descending), k)(self)

    def rank(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "rank",
    ) -> S:
        """Each row with its rank in its partition: 1 + the number of rows before those that tie with it."""
        return self._ranked("rank", by, partition, descending, name)

    def dense_rank(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "rank",
    ) -> S:
        """Each row with its rank without gaps: 1 + the number of different values of `by` before its own."""
        return self._ranked("dense_rank", by, partition, descending, name)

    def row_number(
        self: S,
        by: str | Sequence[str],
        *,
        partition: Sequence[str] = (),
        descending: bool | Sequence[bool] = False,
        name: str = "number",
    ) -> S:
        """Each row with its number 1, 2, ... in its partition; ties in the order of the whole row.

        A row of weight w becomes w rows with different numbers.
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
        """Each row with the value that `column` has `n` rows before it in its partition, None at the start.

        The new column is called `name`, by default `column` with `_lag` behind it.
        """
        return self._shifted(column, n, by, partition, descending, name or f"{column}_lag")

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
        """Each row with the value that `column` has `n` rows after it in its partition, None at the end.

        The new column is called `name`, by default `column` with `_lead` behind it.
        """
        return self._shifted(column, -n, by, partition, descending, name or f"{column}_lead")

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
        order = ordered_by(schema, by, descending)
        return Rank(schema.indices(partition), order, kind, (*schema.names, name))(self)

    def _shifted(
        self: S,
        column: str,
        offset: int,
        by: str | Sequence[str],
        partition: Sequence[str],
        descending: bool | Sequence[bool],
        name: str,
    ) -> S:
        schema = self.schema
        if not -(2**31) < offset < 2**31:
            raise SchemaError(f"{abs(offset)} rows is too far; the most is 2**31 - 1")
        order = ordered_by(schema, by, descending)
        at = schema.index(column)
        return Shift(schema.indices(partition), order, at, offset, (*schema.names, name))(self)
