"""Stage changes of one input for the next tick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.deferred_signals import interrupt_behind
from dbsp.display.displayed import Displayed
from dbsp.errors import InputError, counted
from dbsp.runtime.input_changes import Piece, encode_deletions, encode_staged, encode_upserts
from dbsp.runtime.ports import InputPort


@methods_end_at_caller
class InputHandle(Displayed):
    """The changes of one input that are staged for the next `run.step()`.

    On an input with set semantics or with a key, the last change of a row or key wins. Rows are
    checked when they are staged; a call that raises has staged nothing.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", id=int, x=float, key=["id"]))
        >>> run = circuit.start()
        >>> run.input("sale").insert([(1, 7.0), (2, 3.0)])
        >>> run.input("sale")
        <input 'sale' (id: int, x: float): 2 rows staged>
    """

    __slots__ = ("dropped", "interner", "pieces", "port")

    def __init__(self, port: InputPort, interner: Interner) -> None:
        self.port = port
        """The input's port in the current circuit of the run."""
        self.interner = interner
        """The interner of the run."""
        self.dropped = False
        """Whether an update of the run has dropped the input."""
        self.pieces: list[Piece] = []
        """The staged changes, oldest first; `staged` is a copy."""

    _described_by = "dbsp.runtime.run_display:handle_document"

    def __repr__(self) -> str:
        rows = sum(len(weights) for _, weights, _ in self.pieces)
        return f"<input '{self.port.relation}' ({self.schema.describe()}): {counted(rows, 'row')} staged>"

    @property
    def schema(self) -> Schema:
        """The columns of the input."""
        return self.port.columns

    def insert(self, rows: Iterable[Any]) -> None:
        """Insert every row with weight 1.

        On an input with set semantics this asserts the row; on an input with a key it replaces the
        row of the same key.

        Parameters:
            rows: tuples, mappings or dataclasses, or a table in one of the forms of `Run.step`. A
                ZSet, and a table with a column `weight`, keep their weights.

        Raises:
            InputError: a row does not fit the schema.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.input("sale").insert([(7,), {"x": 3}])
            >>> run.step()["all"].to_dict()
            {(3,): 1, (7,): 1}
        """
        self._stage(encode_staged, rows)

    def delete(self, rows: Iterable[Any]) -> None:
        """Retract every row with weight 1; on an input with a key, remove the row of the key.

        On an input with a key the values of the key columns are enough, in the order in which the
        key was declared.

        Parameters:
            rows: tuples, mappings or dataclasses, or a table in one of the forms of `Run.step`.

        Raises:
            InputError: a row does not fit the schema.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", id=int, x=float, key=["id"]))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(1, 7.0), (2, 3.0)]})
            >>> run.input("sale").delete([(1,)])
            >>> run.step()["all"].to_dict()
            {(1, 7.0): -1}
        """
        self._stage(encode_deletions, rows)

    def add(self, weights: Mapping[Any, int] | ZSet) -> None:
        """Change rows by the given weights.

        Parameters:
            weights: a mapping from rows to weights, or a ZSet.

        Raises:
            InputError: a row does not fit the schema, or a weight is not an int.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.input("sale").add({(7,): 2, (3,): -1})
            >>> run.step()["all"].to_dict()
            {(3,): -1, (7,): 2}
        """
        self._stage(encode_staged, weights)

    def upsert(self, rows: Iterable[Any]) -> None:
        """Insert every row; a row replaces the row with the same key, if there is one.

        Parameters:
            rows: tuples, mappings or dataclasses, or a table in one of the forms of `Run.step`.

        Raises:
            InputError: the input has no key, or a row does not fit the schema.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", id=int, x=float, key=["id"]))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(1, 7.0)]})
            >>> run.input("sale").upsert([(1, 8.0)])
            >>> run.step()["all"].to_dict()
            {(1, 7.0): -1, (1, 8.0): 1}
        """
        self._stage(encode_upserts, rows)

    def _stage(self, encode: Callable[[Any, InputPort, Interner], Piece], change: Any) -> None:
        """Stage a change: nothing is staged unless all of it is encoded."""
        if self.dropped:
            raise InputError(
                f"an update of the run has dropped the input '{self.port.relation}'; run.inputs has the "
                "inputs of the new program",
                code="unknown-input",
            )
        try:
            self.pieces.append(encode(change, self.port, self.interner))
        except SystemError as error:
            raise interrupt_behind(error) from None

    def clear(self) -> None:
        """Drop the staged changes, as after a tick that cannot apply them.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.input("sale").insert([(7,)])
            >>> run.input("sale").clear()
            >>> run.input("sale")
            <input 'sale' (x: int): 0 rows staged>
        """
        self.pieces = []

    @property
    def staged(self) -> Sequence[Piece]:
        """The staged changes, oldest first."""
        return self.pieces[:]

    def restore(self, pieces: Sequence[Piece]) -> None:
        """Replace the staged changes by these, which were staged before a transaction."""
        self.pieces = list(pieces)

    def remove(self, pieces: Sequence[Piece]) -> None:
        """Remove the oldest staged changes; do nothing if they are removed already."""
        if pieces and self.pieces and self.pieces[0] is pieces[0]:
            self.pieces = self.pieces[len(pieces) :]
