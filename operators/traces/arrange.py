"""Arrange: keep the integral of a stream sorted in one column order, for other operators.

    out = s,  and in addition the trace  I(s)  ordered by the permuted columns

The columns of the output delta are permuted by `order` as well, so that galloping search finds them
in traces of the same order. Equal arrangements of one stream are one node: joins share traces.
Cost per step: sorting the delta, and amortised O(log n) merging per row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS, ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator_roles import Arranging
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, ExternalStep, ReplayingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.piece_batch import PieceBatch
from dbsp.data.run_batch import RunBatch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, InvariantError, SchemaError, counted
from dbsp.kernels import with_time
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.narrow_rows import copied_rows
from dbsp.lazy_dataclass import dataclass
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.trace import Trace


@dataclass(frozen=True)
class Arrange(Arranging):
    """The integral of a stream sorted by `order`, a permutation of all its columns."""

    input_counts = ONE_INPUT

    order: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)

    @property
    def monotone(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"Arrange by {', '.join(map(str, self.order))}" if self.order else "Arrange"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Arrange by {', '.join(self.column_texts(columns))}" if self.order else "Arrange"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return [columns[0][column] for column in self.order]

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        if len(self.order) != schema.arity:
            raise SchemaError(
                f"expected an order of all columns of ({schema.describe()}), got {self.order}",
                code="wrong-arity",
            )
        return schema.select(self.order)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        # In an incremental circuit it belongs to a port; the physical port adds another one.
        return inputs[0]

    @property
    def keeps_integral(self) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = sources
        if isinstance(source, ExternalStep):
            return ExternalArrangeStep(source, self.order)
        if scope.nested and scope.depth == 0:
            return DeferredArrangeStep(source, self.order, scope)
        return ArrangeStep(source, self.order, scope)


class ExternalArrangeStep(Arranged):
    """Reads the trace of an index outside of the circuit; the owner of the index changes it."""

    __slots__ = ("_order", "_permutation", "_source")

    def __init__(self, source: ExternalStep, order: tuple[int, ...]) -> None:
        super().__init__()
        self._source = source
        self._order = order
        self._permutation = np.array(order, np.int64)

    @property
    def trace(self) -> Trace:
        """The trace of the index."""
        return self._source.external_trace(self._order)

    @property
    def table(self) -> Codes:
        return self.trace.table

    @property
    def count(self) -> int:
        return self.trace.count

    @property
    def before(self) -> int:
        return self.trace.before

    def integral(self) -> Batch:
        total = self.trace.contents()
        return total.rearranged(np.argsort(self._permutation))

    @property
    def kept_rows(self) -> int:
        return 0

    def step(self) -> None:
        batch = self._source.out
        if batch is None:
            self.out = None
            return
        trace = self.trace
        if trace.fresh and len(trace.current) == 1:
            newest = trace.current[0]  # the owner has sorted the delta for all circuits that read it
            self.out = Batch(newest.rows, newest.weights)
            return
        self.out = batch.rearranged(self._permutation)


class ArrangeStep(Arranged, ReplayingStep, TracedStep):
    __slots__ = ("_order", "_scope", "_source", "_trace")

    quiet = True

    def __init__(self, source: Step, order: Sequence[int], scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._scope = scope
        types = source.node.schema.types
        self._trace = scope.new_trace(len(order), [types[column] for column in order])
        identity = list(order) == list(range(len(order)))
        self._order: Codes | None = None if identity else np.array(order, np.int64)

    @property
    def trace(self) -> Trace:
        return self._trace

    @property
    def table(self) -> Codes:
        return self._trace.table

    @property
    def count(self) -> int:
        return self._trace.count

    @property
    def before(self) -> int:
        trace = self._trace
        return trace.count - trace.fresh  # as `Trace.before`, without a call

    @property
    def sorted_by(self) -> tuple[int, ...] | None:
        if self._scope.depth:
            return None
        return tuple(range(self._trace.width)) if self._order is None else tuple(map(int, self._order))

    @property
    def coordinates(self) -> int:
        return self._scope.depth

    def integral(self) -> Batch:
        """The integral in the column order of the stream and without iterations."""
        total = self._trace.contents()
        if self._scope.depth:
            arity = self._trace.width - self._scope.depth
            total = total.projected(np.arange(arity))
        if self._order is None:
            return total
        return total.rearranged(np.argsort(self._order))

    @property
    def kept_rows(self) -> int:
        return self._trace.rows

    def replay(self) -> None:
        self.out = self._trace.notify()

    def forget(self) -> None:
        super().forget()
        self._trace.narrow()  # the trace no longer shares its newest run with the delta

    def step(self) -> None:
        self.out = None  # release the latest delta before the next one is computed
        batch = self._source.out
        if batch is None:
            self._trace.fresh = 0
            return
        if self._order is not None:
            batch = batch.rearranged(self._order)
        elif isinstance(batch, PieceBatch):
            batch = batch.sum()
        self._append(batch)

    def step_last(self, released: Collection[Step]) -> None:
        if (
            self._order is None
            or self._source not in released
            or self._source.out is None
            or self._scope.depth
        ):
            self.step()
            return
        self.out = None
        held = [self._source.out]
        self._source.finish()
        if isinstance(held[0], PieceBatch):
            held = [held[0].sum()]
        rearrange = RunBatch if isinstance(held[0], RunBatch) else Batch
        batch = rearrange.rearrange_sole(held, self._order)
        self._append(held.pop().rearranged(self._order) if batch is None else batch)

    def _append(self, batch: Batch) -> None:
        self.out = batch
        if self._scope.depth:
            self._trace.append(with_time(batch.rows, self._scope.now), batch.weights)
        elif isinstance(batch, RunBatch):
            self._trace.append(batch.codes, batch.stored)
        else:
            self._trace.append(batch.rows, batch.weights)


class DeferredArrangeStep(ArrangeStep):
    """An arrangement in a scope without times, where each iteration appends to the trace.

    Many iterations do not read it: then its runs are not merged for the next one.
    """

    __slots__ = ()

    @property
    def table(self) -> Codes:
        self._trace.deferred = False
        return self._trace.table

    def step(self) -> None:
        super().step()
        self._trace.deferred = True

    def step_last(self, released: Collection[Step]) -> None:
        super().step_last(released)
        self._trace.deferred = True

    def receive(self, parts: Sequence[StoredRows], in_order: bool, weight: int) -> None:
        """Append different rows, in the columns of the stream, with one weight.

        One or two parts are `in_order` of the stream: they are merged or transposed, if that
        suffices. Others are sorted.
        """
        run = self._ordered(parts) if in_order else None
        if run is None:
            order = range(self._trace.width) if self._order is None else self._order.tolist()
            run = SortedRun.of_unsorted(copied_rows(parts, order))
        weights = run.stored if weight == 1 else np.full(run.size, weight, np.int64)
        self.out = RunBatch(run.codes, weights)
        self._trace.append(run.codes, weights)
        self._trace.deferred = True

    def _ordered(self, parts: Sequence[StoredRows]) -> SortedRun | None:
        """Return the rows of sorted parts as a run, None if they have to be sorted again."""
        if self._order is None:
            return RunMerge.sum_of([SortedRun.of_set(part) for part in parts])
        return SortedRun.transposed(parts, 1)  # pairs have one other order


def arranged(rewriting: Rewriting, stream: Stream, leading: Sequence[int]) -> Stream:
    """The arrangement of `stream` whose order starts with the columns `leading`."""
    return rewriting.add(Arrange(tuple(key_first(leading, stream.schema.arity))), stream)


def key_first(key: Sequence[int], arity: int) -> list[int]:
    """The column order with the key first and the other columns in their order."""
    return [*key, *(c for c in range(arity) if c not in key)]


def arranged_by_any_order(rewriting: Rewriting, stream: Stream) -> Stream:
    """Any arrangement of `stream`: an existing one, else one in the order of its columns."""
    found = rewriting.find(Arrange, stream)
    return arranged(rewriting, stream, ()) if found is None else found


def own_trace(source: Arranged) -> Trace:
    """The trace of a stream that is arranged in the scope of the reader."""
    if not isinstance(source, TracedStep):
        name = type(source).__name__
        raise InvariantError(
            f"expected a step with a trace of this scope, got {name}; this is a defect of dbsp"
        )
    return source.trace


def trace_of(source: Arranged) -> Trace:
    """The trace of an arrangement in the scope of the reader, also of an index elsewhere."""
    return source.trace if isinstance(source, ExternalArrangeStep) else own_trace(source)


def expect_order(stream: Stream, leading: Sequence[int]) -> tuple[int, ...]:
    """Return the order of an arrangement that begins with the columns `leading`.

    Raises CircuitError if the stream is not an arrangement or has another order.
    """
    node = stream.node
    if not isinstance(node.operator, Arrange):
        for outer, inside in stream.graph.entered.items():
            if inside.node is node:
                return expect_order(stream.graph.stream_class(outer), leading)
        raise CircuitError(f"expected an arrangement, got {node.describe()}", code="invalid-circuit-file")
    order = node.operator.order
    if order[: len(leading)] != tuple(leading):
        raise CircuitError(
            f"expected an arrangement by the columns {tuple(leading)}, got {order} of {node.describe()}",
            code="invalid-circuit-file",
        )
    return order


def expect_arrangement_of(stream: Stream, node: Node) -> None:
    """Raise CircuitError unless the stream is an arrangement of the output of a node."""
    arrange = stream.node
    if not isinstance(arrange.operator, Arrange) or arrange.inputs[0].node is not node:
        raise CircuitError(
            f"expected an arrangement of {node.describe()}, got {arrange.describe()}",
            code="invalid-circuit-file",
        )


def in_own_order(schema: Schema, order: Sequence[int]) -> Schema:
    """Return the schema of a stream, from the schema of its arrangement. Raises SchemaError."""
    if sorted(order) != list(range(schema.arity)):
        raise SchemaError(
            f"expected an order of the {counted(schema.arity, 'column')} ({schema.describe()}), "
            f"got {tuple(order)}",
            code="wrong-arity",
        )
    return schema.select([order.index(column) for column in range(schema.arity)])


def is_external(stream: Stream) -> bool:
    """Return whether an index outside of the circuit stores the rows of a stream."""
    while True:
        node, graph = stream.node, stream.graph
        if node.operator.stored_outside:
            return True
        if node.operator.keeps_rows:
            (stream,) = node.inputs
        elif graph.parent is not None and any(inside.node is node for inside in graph.entered.values()):
            stream = graph.outer_of(stream)
        else:
            return False


def order_of(stream: Stream) -> tuple[int, ...]:
    """The column order of an arrangement, also of one that enters a nested scope."""
    operator = stream.node.operator
    if isinstance(operator, Arrange):
        return operator.order
    outer = stream.graph.outer_of(stream)
    return order_of(outer)
