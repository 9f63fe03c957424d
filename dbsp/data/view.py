"""Views for callers: the rows of an output after a tick."""

from __future__ import annotations

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.zset import ZSet


class View(ZSet):
    """The rows of an output after a tick: a Z-set that other libraries read as a table of its rows.

    `polars.DataFrame(view)`, `pyarrow.table(view)` and DuckDB's `from view` have one row per row of
    the view, without weights; a row of weight n occurs n times. Sums and other Z-sets computed from
    a view export their weights, as every `ZSet` does.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> run = circuit.start()
        >>> _ = run.step({"sale": [(7,), (3,)]})
        >>> import polars
        >>> polars.DataFrame(run.view("big")).rows()
        [(7,)]
    """

    __slots__ = ()

    def renamed(self, *names: str) -> View:
        return View.wrap((zset := super().renamed(*names)).schema, zset.interner, zset.stored)

    _described_by = "dbsp.data.zset_display:view_document"

    @ends_at_caller
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows for other libraries; a row of weight n occurs n times.

        Parameters:
            requested_schema: an Arrow schema to convert to, as the Arrow protocol defines it.

        Raises:
            SchemaError: a column has no Arrow type.
            InputError: a weight is negative.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(7,), (7,)]})
            >>> import pyarrow
            >>> pyarrow.table(run.view("all")).to_pylist()
            [{'x': 7}, {'x': 7}]
        """
        return self.to_arrow(None).__arrow_c_stream__(requested_schema)
