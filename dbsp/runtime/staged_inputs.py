"""The changes of inputs before their tick: staged by handles or given, encoded, and added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from weakref import WeakSet

import numpy as np

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.data.batch import Batch
from dbsp.data.int_range import IntRange
from dbsp.data.interner import Interner
from dbsp.data.plain_codes import ANY_INT
from dbsp.data.run_batch import stored_rows
from dbsp.errors import InputError, ValueOutOfRangeError, shorten
from dbsp.kernels.arrays import StoredRows
from dbsp.kernels.narrow_rows import widened
from dbsp.runtime.input_changes import (
    InputChange,
    Piece,
    encode_change,
    encode_load,
    encode_one,
    is_copied,
    net_change,
    net_load,
)
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.open_tick import TakenPieces
from dbsp.runtime.ports import InputPort
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.scope import Scope
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget

Changes: TypeAlias = Mapping[str, InputChange]


class StagedInputs(RunBase):
    """The part of a run that takes changes and encodes them."""

    def __init__(
        self,
        graph: Graph,
        interner: Interner | None = None,
        traces: ExternalTraces | None = None,
        budget: MemoryBudget | None = None,
        link: ShardLink | None = None,
    ) -> None:
        self._handles: dict[str, InputHandle] = {}
        self._every_handle: dict[str, InputHandle] = {}
        """The handles of the inputs, and of those that an update that is not decided drops."""
        super().__init__(graph, interner, traces, budget, link)
        self._prepared = WeakSet[Batch]()
        """The batches of `prepare` that the caller still has."""
        self.ranges: Mapping[str, Mapping[str, IntRange]] = {}
        """By input, the columns that accept a smaller range of ints than 64 bits, and the range."""

    def install(self, graph: Graph, scope: Scope) -> None:
        super().install(graph, scope)
        every = self._every_handle
        for name, port in self.input_ports.items():
            if name in every:
                every[name].port = port
            else:
                every[name] = InputHandle(port, self.interner)
        self._handles = {name: every[name] for name in self.input_ports}

    def drop_handles(self) -> None:
        """Make the handles of inputs unusable that the circuit does not have; can be repeated."""
        for name in self._every_handle.keys() - self._handles.keys():
            self._every_handle[name].dropped = True
            del self._every_handle[name]

    def encoded(self, changes: Changes) -> dict[str, Batch]:
        """Return the changes by input, without the staged ones. Raises as `step`."""
        staged: dict[str, Batch] = {}
        for name, change in changes.items():
            port = self.input_port(name)
            self._stage(staged, port, (encode_change(change, port, self.interner),), is_copied(change))
        return staged

    @ends_at_caller
    def input(self, name: str) -> InputHandle:
        """Return the handle that stages changes of one input for the next step.

        Parameters:
            name: the name of the input.

        Raises:
            InputError: the run has no input of this name.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.input("sale").insert([(7,), (3,)])
            >>> run.step()["all"].to_dict()
            {(3,): 1, (7,): 1}
        """
        self.input_port(name)
        return self._handles[name]

    def prepare(self, changes: Changes | None = None) -> dict[str, Batch]:
        """Return the given and the staged changes by input, for `step_staged`. Raises as `step`."""
        staged, taken = self.net(changes)
        for part in taken:
            part.handle.remove(part.pieces)
        for batch in staged.values():
            self._prepared.add(batch)
        return staged

    def _name_ranges(self, name: str, error: ValueOutOfRangeError) -> None:
        """Replace the range of all ints in a message by the range of the column."""
        for column, range_ in self.ranges.get(name, {}).items():
            place = f"column {column!r}: expected "
            error.message = error.message.replace(f"{place}{ANY_INT}", f"{place}{range_.expected}")

    def _check_ranges(self, name: str, codes: StoredRows) -> None:
        """Raise ValueOutOfRangeError for a value outside the range of its column."""
        for column, range_ in self.ranges.get(name, {}).items():
            values = codes[:, self.input_ports[name].columns.index(column)]
            outside = (values < range_.low) | (values > range_.high)
            if outside.any():
                error = range_.refusal(int(values[np.argmax(outside)]))
                error.where = f"relation '{name}', column '{column}'"
                raise error

    def net(self, changes: Changes | None) -> tuple[dict[str, Batch], list[TakenPieces]]:
        """Return the given and the staged changes by input, and the staged changes among them."""
        # This is once per tick, so the usual case takes few calls: nothing staged, one row.
        taken: list[TakenPieces] = []
        for handle in self._handles.values():
            if handle.pieces:
                taken.append(TakenPieces(handle, handle.staged))
        held = {part.handle.port.relation: part.pieces for part in taken} if taken else {}
        staged: dict[str, Batch] = {}
        if changes is not None:
            if type(changes) is not dict and not isinstance(changes, Mapping):
                raise InputError(
                    "expected a mapping from the names of inputs to their changes, got "
                    f"{shorten(changes)} of type {type(changes).__name__}",
                    code="invalid-change",
                )
            for name, change in changes.items():
                port = self.input_ports.get(name) or self.input_port(name)
                batch = None
                try:
                    if type(change) is dict and len(change) == 1 and name not in held:
                        batch = encode_one(change, port, self.interner)
                    if batch is None and name in held:
                        piece = encode_change(change, port, self.interner)
                    elif batch is None:
                        batch = self._load(change, port)
                except ValueOutOfRangeError as error:
                    self._name_ranges(name, error)
                    raise
                if name in held:
                    self._stage(staged, port, [*held.pop(name), piece], owned=False)
                elif batch is not None:
                    if self.ranges.get(name):
                        self._check_ranges(name, stored_rows(batch))
                    staged[name] = batch
        for name, pieces in held.items():
            self._stage(staged, self.input_ports[name], pieces, owned=False)
        return staged, taken

    def _load(self, change: InputChange, port: InputPort) -> Batch | None:
        """Return the net change of a change alone; None if it is empty."""
        rows, weights, ordered = encode_load(change, port, self.interner)
        if rows.itemsize == 4:
            batch = net_load(rows, port.kind, port.key)
            if batch is not None:
                return batch
            weights = np.ones(len(rows), np.int64)
        return net_change(((widened(rows), weights, ordered),), port, is_copied(change))

    def _stage(self, staged: dict[str, Batch], port: InputPort, pieces: Sequence[Piece], owned: bool) -> None:
        """Add the net change of all pieces of one input to `staged`, unless it is empty."""
        batch = net_change(pieces, port, owned)
        if batch is not None:
            if self.ranges.get(port.relation):
                self._check_ranges(port.relation, stored_rows(batch))
            staged[port.relation] = batch

    def staged_pieces(self) -> dict[str, Sequence[Piece]]:
        """Return by input the changes that its handle has staged."""
        return {name: handle.staged for name, handle in self._handles.items()}

    def restore_pieces(self, staged: Mapping[str, Sequence[Piece]]) -> None:
        """Stage the changes again that `staged_pieces` returned, and no others."""
        for name, handle in self._handles.items():
            handle.restore(staged[name])
