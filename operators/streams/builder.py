"""Building a circuit by hand: `Circuit`, and streams with one method per operator.

>>> from dbsp import Circuit
>>> circuit = Circuit("closure")
>>> edge = circuit.input("edge", x=int, y=int)
>>> with circuit.fixpoint("path") as scope:
...     path = scope.variable("path", edge.schema)
...     step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
...     scope.define(path, (edge + step.rename(x="x", y="y_right")).distinct())
>>> circuit.output("path", scope.leave(path))
>>> run = circuit.start()
>>> run.step({"edge": {(1, 2): 1, (2, 3): 1}})["path"].rows()
[(1, 2), (1, 3), (2, 3)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dbsp.circuit import graph
from dbsp.circuit.stage import Stage
from dbsp.data.schema import Schema, as_schema
from dbsp.data.zset import ZSet
from dbsp.errors import CircuitError, SchemaError, expect_type
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.stages import three_stages
from dbsp.operators.stages.stage_report import explain
from dbsp.operators.streams.aggregate_calls import AggregateCall, LinearAggregateCall
from dbsp.operators.streams.event_time_methods import EventTimeMethods
from dbsp.operators.streams.fit import located, widened
from dbsp.operators.streams.grouped import Grouped
from dbsp.operators.streams.inspection_methods import InspectionMethods
from dbsp.operators.streams.join_methods import JoinMethods
from dbsp.operators.streams.ranking_methods import RankingMethods
from dbsp.operators.streams.row_methods import RowMethods
from dbsp.operators.streams.set_methods import SetMethods
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate
from dbsp.runtime.checkpoints import Checkpoint, open_checkpoint
from dbsp.runtime.run import Run


class Stream(RowMethods, SetMethods, JoinMethods, RankingMethods, InspectionMethods, EventTimeMethods):
    """A stream of Z-sets; every method adds one operator to the circuit and returns its output."""

    __slots__ = ()

    @located("Aggregate")
    def group_by(self, *columns: str) -> Grouped[Stream]:
        """Groups of rows that agree on the columns; without columns one group of all rows."""
        return Grouped(self, columns)

    @located("Rolling")
    def rolling(
        self,
        column: str,
        size: Any,
        *,
        partition: Sequence[str] = (),
        **calls: AggregateCall | LinearAggregateCall,
    ) -> Stream:
        """Every row with aggregates over the rows up to `size` before it, itself included.

            out(x) = x . f({ y : y.partition = x.partition and x.column - size <= y.column <= x.column })

        `column` is int, float, date or timestamp, `size` a difference of such values; the calls are
        those of `agg`, over the rows of the window. A row that occurs several times is one row of
        the result and counts several times in windows. Composed of a range join and an aggregate,
        so a tick costs the windows it touches.
        """
        names = self.schema.names
        self.schema.indices((column, *partition))
        for name in calls:
            if name in names:
                raise SchemaError(f"'{name}' is a column already")
        own = {name: f"{name} of the row" for name in names}
        rows = self.distinct().rename(**{renamed: name for name, renamed in own.items()})
        pairs = rows.range_join(
            self,
            on=[(own[name], name) for name in partition],
            left=own[column],
            right=column,
            low=-size,
            high=size - size,
            select=[*own.values(), *names],
        )
        return pairs.group_by(*own.values()).agg(**calls).rename(**own)

    def delay(self) -> Stream:
        """z^-1: the stream as it was one tick before."""
        delayed = self.graph.add_source(Delay(self.schema))
        self.graph.connect(delayed, self)
        return _own(delayed)

    def integrate(self) -> Stream:
        """I: the sum of the stream so far; every tick emits the complete sum."""
        self._only_outside("Integrate", "integrating again would never converge")
        return Integrate()(self)

    def differentiate(self) -> Stream:
        """D: the change of the stream from one tick to the next."""
        self._only_outside("Differentiate", "differentiate outside the fixpoint")
        return Differentiate()(self)

    def _only_outside(self, operator: str, reason: str) -> None:
        if self.graph.parent is not None:
            raise CircuitError(
                f"a stream inside a fixpoint has one value per iteration, made of its changes; {reason}",
                where=f"{operator} at {self.graph.current_source()}",
            )


class FixpointBuilder:
    """A fixpoint being built; use it as a context manager (see `Circuit.fixpoint`)."""

    def __init__(
        self, outer: graph.Graph, name: str, max_iterations: int, recursion: Recursion | str = Recursion.AUTO
    ) -> None:
        self._outer = outer
        self._body = Body(name, outer, max_iterations, recursion)
        self._node: Stream | None = None

    def __enter__(self) -> FixpointBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._close()

    @property
    def graph(self) -> graph.Graph:
        return self._outer

    @located("Fixpoint")
    def _close(self) -> None:
        self._body.validate()
        outside = [self._outer.stream_class(outer) for outer in self._body.entered]
        if not outside:
            raise CircuitError(
                f"the body of '{self._body.name}' reads no stream from outside, so nothing can ever "
                "change in it"
            )
        self._node = _own(self._outer.add(Fixpoint(self._body), *outside))
        self._body.closed = True

    def fixpoint(self, name: str, *, max_iterations: int = 100_000) -> FixpointBuilder:
        """A scope within this one; its results leave into this one."""
        return FixpointBuilder(self._body, name, max_iterations)

    @located("Delay")
    def variable(self, name: str, schema: Schema | Mapping[str, Any]) -> Stream:
        """A recursive relation: empty at iteration 0, then what `define` says of the one before."""
        return _own(self._body.add_source(Delay(as_schema(schema), name)))

    @located("Delay")
    def define(self, variable: Stream, value: Stream) -> None:
        """Say what the variable is at the next iteration; end it in `distinct()` to converge."""
        if variable.graph is not self._body or not isinstance(variable.node.operator, Delay):
            raise CircuitError(f"this is not a variable of scope '{self._body.name}'")
        self._body.connect(variable, widened(value, variable.schema.types))

    @located("Leave")
    def leave(self, stream: Stream) -> Stream:
        """The value of a stream of the scope at the fixpoint, as a stream of the outer circuit.

        A variable leaves as its definition: they are equal at the fixpoint. What does not depend on
        the scope was outside all the time and is returned as it is.
        """
        if self._node is None:
            raise CircuitError(f"take results out of '{self._body.name}' after its with block")
        if isinstance(stream.node.operator, Delay) and stream.node.strict:
            stream = _own(stream.node.strict[0])
        if stream.graph is not self._body:
            self._outer.enter(stream)
            return stream
        self._body.exports.append(stream)
        return Leave(len(self._body.exports) - 1, stream.schema)(self._node)


class Circuit(graph.Graph):
    """A dataflow circuit over Z-sets, built stream by stream; `start` makes it incremental."""

    stream_class = Stream

    def __init__(self, name: str = "circuit") -> None:
        super().__init__(name)
        self._relations: dict[str, set[str]] = {"input": set(), "output": set()}

    @located("Input")
    def input(
        self,
        name: str,
        /,
        *,
        schema: Schema | Mapping[str, Any] | None = None,
        kind: str = "zset",
        key: str | Sequence[str] = (),
        **columns: Any,
    ) -> Stream:
        """An input relation with the given columns.

        `kind="zset"` takes deltas with any weights; `kind="set"` takes assertions and retractions
        of rows that are present or absent; `key=("id",)` takes upserts: one row per key.
        """
        if (schema is None) == (not columns):
            raise SchemaError(f"give the columns of '{name}' either as schema= or by name: x=int, y=str")
        declared = as_schema(columns) if schema is None else as_schema(schema)
        if key:
            kind = "key"
        elif kind not in ("zset", "set"):
            raise SchemaError(f"kind of '{name}' is 'zset' or 'set', not {kind!r}; for upserts give key=")
        indices = declared.indices(key)
        declared.select(indices)  # names no column twice
        self.declare("input", name)
        stream = _own(self.add_source(Input(name, declared, kind, indices)))
        self.named[name] = stream
        return stream

    @located("Constant")
    def constant(self, rows: Iterable[Any] | Mapping[Any, int], schema: Schema | Mapping[str, Any]) -> Stream:
        """A relation that holds the given rows (weight 1, or as mapped) from the first tick on."""
        value = ZSet(rows, as_schema(schema))
        return _own(self.add_source(Constant(tuple(value.items()), value.schema)))

    def fixpoint(
        self, name: str, *, max_iterations: int = 100_000, recursion: Recursion | str = Recursion.AUTO
    ) -> FixpointBuilder:
        """A recursive scope, as a context manager:

            with circuit.fixpoint("closure") as scope:
                path = scope.variable("path", schema)
                scope.define(path, (edge + path.join(edge, ...)).distinct())
            result = scope.leave(path)

        Outer streams may be used inside. A tick that takes more than `max_iterations` raises
        IterationLimitError and changes nothing. `recursion` is how it is evaluated: "auto",
        "incremental" or "insert-only" (see `dbsp.operators.recursion.modes`); a scope in another
        one is always incremental, and one in which more may mean fewer rows never insert-only.
        ValueError for any other mode.
        """
        return FixpointBuilder(self, name, max_iterations, recursion)

    def iterate(
        self,
        name: str,
        start: Stream,
        body: Callable[[Stream], Stream],
        *,
        while_: Callable[[Stream], Stream] | None = None,
        max_iterations: int = 100_000,
    ) -> Stream:
        """Apply `body` again and again, beginning with `start`.

            x[0] = start,   x[i + 1] = body(x[i])   while the stream while_(x[i]) is not empty

        The result is the x at which nothing changes any more, because `body` does not change it or
        the condition has become empty. Built of variables, semijoins and antijoins, so it is
        incremental like them: a tick costs what changes at some iteration.
        """
        unit = Schema((), ())
        with self.fixpoint(name, max_iterations=max_iterations) as scope:
            started = scope.variable(f"{name}, begun", unit)
            later = scope.variable(name, start.schema)
            scope.define(started, self.constant([()], unit))
            x = later + start.antijoin(started, on=[])
            following = body(x)
            if while_ is not None:
                going = while_(x).project()
                following = following.semijoin(going, on=[]) + x.antijoin(going, on=[])
            scope.define(later, following)
        return scope.leave(x)

    def feedback(self, schema: Schema | Mapping[str, Any]) -> Stream:
        """The end of a cycle: z^-1 of the stream that `connect(feedback, stream)` names later."""
        return _own(self.add_source(Delay(as_schema(schema))))

    def connect(self, stream: graph.Stream, *strict: graph.Stream) -> None:
        """Close a cycle: the stream made by `feedback` is `strict`, one tick later."""
        super().connect(stream, *(widened(s, stream.schema.types) for s in strict))

    @located("Output")
    def output(self, name: str, stream: Stream) -> None:
        """Emit the deltas of a stream under a name and keep its integral as a view."""
        self.enter(stream)
        self.declare("output", name)
        Output(name)(stream)

    def validate(self) -> None:
        for node in self.nodes:
            if isinstance(node.operator, Delay) and not node.strict:
                raise CircuitError(
                    "this feedback has no input; call circuit.connect(feedback, stream)",
                    where=node.describe(),
                )
        super().validate()

    def circuit(self, stage: Stage | str = Stage.QUERY) -> graph.Graph:
        """This circuit in one of its forms: "query", "incremental" or "physical"."""
        self.validate()
        return three_stages.circuit(self, Stage(stage))

    def explain(self, run: Run | None = None) -> str:
        """What the passes changed, which rules were applied, which traces are kept for whom, and in
        which order multi-way joins bind variables; with a `run` also how large its traces are, and
        how many prefixes its joins have met.
        """
        self.validate()
        return explain(self, run)

    def start(
        self,
        stage: Stage | str = Stage.PHYSICAL,
        *,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Run:
        """Run the circuit: deltas in, deltas out.

        The stages yield the same; "physical" is the fast one. "query" recomputes everything between
        an integral at every input and a difference at every output: the oracle for the others.

        With a `checkpoint`, a folder, every tick is durable when `step` returns, and a run started
        on the same folder continues after the last of them (see `dbsp.durable`). Raises
        CheckpointError.
        """
        self.validate()
        runnable = three_stages.runnable(self, Stage(stage))
        if checkpoint is None:
            return Run(runnable)
        return open_checkpoint(checkpoint).resume(self, lambda _: Run(runnable))

    def declare(self, kind: str, name: str) -> None:
        """Take a name for an "input" or "output"; raises CircuitError if it is taken."""
        if name in self._relations[kind]:
            raise CircuitError(f"circuit '{self.name}' has an {kind} '{name}' already")
        self._relations[kind].add(name)


def _own(stream: graph.Stream) -> Stream:
    return expect_type(stream, Stream, "a stream with the methods of the builder")
