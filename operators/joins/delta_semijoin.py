"""DeltaSemijoin: the incremental form of semijoins and antijoins, one node over two arrangements.

With present(k) = [sum of B(y) over the rows y with the key k > 0], and absent = 1 - present,

    semijoin   out = dA restricted to the keys present in new(B) + old(A) join d(present)
    antijoin   out = dA restricted to the keys absent from new(B) - old(A) join d(present)

The right input is an arrangement of the keys of B: its weights are the sums of the groups. So the
presence of a key is one look-up, whatever the number of rows of B with this key, and no trace of
the set of keys is needed. Cost: O((|dA| + |dB|) * log state) plus the rows of A whose key appears
in B or disappears from it. It exists outside of nested scopes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, NATURAL, TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.piece_batch import summed
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, SchemaError, counted
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.distinct_steps import presence_change
from dbsp.operators.joins.join import JoinStep, check_key_positions, joined_on, without_null
from dbsp.operators.linear.project import Project, Projectable
from dbsp.operators.traces.arrange import expect_order
from dbsp.parallel.packed_part import Piece
from dbsp.parallel.probe_pieces import sum_weights


@dataclass(frozen=True)
class DeltaSemijoin(Projectable):
    """The rows of the left input whose key is `present` in the right one, or is not.

    Both inputs are arrangements. The left one starts with the `key` columns, and the right one has
    no others. `columns` are the columns of the left arrangement in the output; `injective` states
    that different rows yield different output rows.
    """

    input_counts = TWO_INPUTS

    present: bool
    key: int = field(metadata=NATURAL)
    columns: tuple[int, ...] = field(metadata=COLUMN)
    names: tuple[str, ...]
    injective: bool
    null_mismatch: tuple[int, ...] = ()
    """Key columns that are optional on one side only: the code of None matches nothing there."""
    realign: tuple[int, ...] = ()
    """The positions of the left key columns in the right key, if the two orders differ."""

    @property
    def monotone(self) -> bool:
        return self.present

    @property
    def name(self) -> str:
        return "Semijoin" if self.present else "Antijoin"

    @property
    def label(self) -> str:
        return f"{self.name} -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        partners = self.realign or tuple(range(self.key))
        return joined_on(self.name, ((left[a], right[b]) for a, b in enumerate(partners)))

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return [columns[0][column] for column in self.columns]

    def schema(self, *inputs: Schema) -> Schema:
        left, right = inputs
        if right.arity != self.key or left.arity < self.key:
            raise SchemaError(
                f"expected {counted(self.key, 'key column')} as the right input and in the left one, got "
                f"({right.describe()}) and ({left.describe()})",
                code="wrong-arity",
            )
        check_key_positions(self.key, self.null_mismatch, self.realign, left, right)
        return Schema(self.names, tuple(left.types[column] for column in self.columns))

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        if graph.parent is not None:
            raise CircuitError("expected the circuit, got a nested scope", code="scope-misuse")
        for stream in inputs:
            expect_order(stream, ())

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.injective and inputs[0]

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        """Return the operator that emits only the columns of the projection."""
        columns = tuple(self.columns[c] for c in project.columns)
        narrowed = replace(
            self, columns=columns, names=project.names, injective=self.injective and project.injective
        )
        return rewriting.add(narrowed, *stream.node.inputs)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        left, right = expect_arranged(node, sources)
        return SemijoinStep(self, left, right, scope)


class SemijoinStep(JoinStep):
    """The step of `DeltaSemijoin`: it restricts the changes of A, and joins A with changed keys."""

    __slots__ = ("_columns", "_in_order", "_null_mismatch", "_present", "_to_left", "_to_right")

    def __init__(self, operator: DeltaSemijoin, left: Arranged, right: Arranged, scope: StepScope) -> None:
        key, arity = operator.key, left.node.schema.arity
        self._present = operator.present
        self._null_mismatch = operator.null_mismatch
        columns = np.array(operator.columns, np.int64)
        self._to_right: Codes | None = None
        self._to_left: Codes | None = None
        from_keys = -columns - 1
        super().__init__(left, right, key, columns, from_keys, scope, operator.injective)
        if operator.realign:
            # to_right[i]: the left column that matches the i-th key column in the right order.
            self._to_right = np.concatenate((np.argsort(operator.realign), np.arange(key, arity)))
            self._to_left = np.array(operator.realign, np.int64)
            columns = np.argsort(self._to_right)[columns]
        self._columns = columns
        self._in_order = list(columns) == list(range(arity))
        """Whether the restricted rows have the columns of the output, so that they are sorted."""

    def step(self) -> None:
        self.out = None  # release the latest delta before the next one is computed
        left, right = self._left, self._right
        parts: list[Piece] = []
        if right.out is not None and left.before:
            keys = self._changed_keys(right.out)
            if keys is not None:
                self._probe(parts, keys, left, left.before, self._left_width, self._from_right)
        restricted = None if left.out is None else self._restricted(left.out)
        if restricted is not None:
            if self._in_order and not parts:
                self.out = restricted
                return
            # The sum sorts in the memory of a part, and the batch may share that of the delta.
            rows = restricted.rows.take(self._columns, axis=1)
            parts.append((rows, restricted.weights.copy()))
        self.out = summed(parts)

    def _changed_keys(self, delta: Batch) -> Batch | None:
        """Return the keys that appear or disappear, with the sign of the change of the output.

        None if there are none.
        """
        right = self._right
        changed = presence_change(delta, right.table, right.before)
        if changed is None:
            return None
        rows, changes = changed.rows, changed.weights
        if self._null_mismatch:
            rows, changes = without_null(rows, changes, self._null_mismatch)
            if not len(changes):
                return None
        return Batch(rows, changes if self._present else -changes)

    def _restricted(self, delta: Batch) -> Batch | None:
        """Return the rows of a change of A that have a partner, or have none; None if it is empty.

        The rows start with the key in the order of the right side.
        """
        right, key = self._right, self._key
        if self._to_right is not None:
            delta = delta.rearranged(self._to_right)
        if not right.count:
            return None if self._present else delta
        rows, weights = delta.rows, delta.weights
        keys = rows if rows.shape[1] == key else np.ascontiguousarray(rows[:, :key])
        sums = sum_weights(keys, right.table, right.count)
        if len(sums) == 1 and not self._null_mismatch:  # the usual delta of a small tick
            return delta if (sums[0] > 0) == self._present else None
        found = sums > 0
        if self._null_mismatch:
            found &= (rows[:, self._null_mismatch] != NULL).all(axis=1)
        kept = np.flatnonzero(found if self._present else ~found)
        if len(kept) == len(found):
            return delta
        return Batch(rows.take(kept, 0), weights.take(kept)) if len(kept) else None

    def _probe_arguments(self, delta: Batch, from_left: bool) -> tuple[Codes, Codes, int]:
        if self._to_left is None:
            return delta.rows, delta.weights, self._key
        ordered = delta.rearranged(self._to_left)
        return ordered.rows, ordered.weights, self._key
