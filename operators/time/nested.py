"""Nested: the change of any function of Z-sets inside a scope, in every time dimension.

    out(t) = sum over s in {0,1}^depth of (-1)^|s| (f(N<=t-s) - f(O<=t-s))

with N<=t and O<=t the inputs summed over all times up to t, with and without this tick (DBSP paper,
arXiv 2203.16684, section 5). The explicit form of every operator that is not linear: it evaluates f
on all rows, at every time that is an upper bound of times at which inputs changed. The physical
forms visit only the rows with changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from dbsp.circuit.drawn_terms import DrawnTerm, Sum
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError
from dbsp.kernels import consolidate, with_time
from dbsp.kernels.arrays import StoredRows
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.incremental_form import IncrementalForm
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace


@dataclass(frozen=True)
class Nested(IncrementalForm):
    """The incremental form of `operator` inside a scope; the inputs are deltas."""

    def schema(self, *inputs: Schema) -> Schema:
        return self.operator.checked_schema(*inputs)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        if graph.parent is None:
            raise CircuitError("expected a nested scope, got the circuit", code="scope-misuse")

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.operator.yields_set(inputs)

    def drawn_terms(self, inputs: int, dimensions: int) -> Sequence[DrawnTerm]:
        if self.operator.law in ("bilinear", "multilinear"):
            # In each dimension one input is the delta: those before it are new, those after it old.
            deltas = product(range(inputs), repeat=dimensions)
            return [
                DrawnTerm(1, tuple(tuple(_side(n, delta) for delta in term) for n in range(inputs)))
                for term in deltas
            ]
        ends: tuple[Sum, Sum] = ("new", "old")
        corners = product(ends, repeat=dimensions)
        return [DrawnTerm((-1) ** corner.count("old"), (corner,) * inputs) for corner in corners]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        schemas = [stream.schema for stream in node.inputs]
        function = self.operator.zset_function(scope.interner, *schemas)
        return NestedStep(function, sources, schemas, scope)


def _side(number: int, delta: int) -> Sum:
    """Return what an input of a product holds in the term in which input `delta` is the delta."""
    return "delta" if number == delta else "new" if number < delta else "old"


class NestedStep(AgendaStep):
    __slots__ = ("_agenda", "_function", "_scope", "_sources", "_traces")

    def __init__(
        self,
        function: Callable[..., Batch],
        sources: Sequence[Step],
        schemas: Sequence[Schema],
        scope: StepScope,
    ) -> None:
        super().__init__()
        self._function = function
        self._sources = tuple(sources)
        self._traces = [scope.new_trace(schema.arity, schema.types) for schema in schemas]
        self._scope = scope
        self._agenda = Agenda(scope)

    def step(self) -> None:
        self.out = None
        changed = bool(self._agenda.take())
        now = self._scope.now
        for source, trace in zip(self._sources, self._traces, strict=True):
            if source.out is not None:
                changed = True
                trace.append(with_time(source.out.rows, now), source.out.weights)
        if not changed:
            return
        change = Batch.empty(self.node.schema.arity)
        for back in product((0, 1), repeat=len(now)):
            until = now - np.array(back, np.int64)
            sign = -1 if sum(back) % 2 else 1
            for past in (False, True):
                inputs = [_until(trace, until, past) for trace in self._traces]
                value = self._function(*inputs)
                change = change.plus(value, -sign if past else sign)
        if len(change):
            self.out = change
        self._wait()

    def _wait(self) -> None:
        """Put work on the agenda at the upper bounds of the current and every recorded time."""
        now = self._scope.now
        times = [run.codes[:, -len(now) :] for trace in self._traces for run in _runs(trace, False)]
        bounds = np.maximum(np.concatenate(times), now)
        later = np.ascontiguousarray(bounds[(bounds > now).any(axis=1)])
        if len(later):
            later, _ = consolidate(later, np.ones(len(later), np.int64))
            self._agenda.put(np.empty((len(later), 0), np.int64), np.ones(len(later), np.int64), later)


def _runs(trace: Trace, past: bool) -> list[SortedRun]:
    return trace.runs if past else [*trace.runs, *trace.current]


def _until(trace: Trace, time: object, past: bool) -> Batch:
    """The rows of the trace up to a time, without this tick if `past`, and without their times."""
    limit = np.asarray(time)
    arity = trace.width - len(limit)
    rows: list[StoredRows] = [np.empty((0, arity), np.int64)]
    weights = [np.empty(0, np.int64)]
    for run in _runs(trace, past):
        mask = (run.codes[:, arity:] <= limit).all(axis=1)
        rows.append(run.codes[mask][:, :arity])
        weights.append(run.weights[mask])
    stacked = np.ascontiguousarray(np.concatenate(rows))
    return Batch(*consolidate(stacked, np.concatenate(weights)))
