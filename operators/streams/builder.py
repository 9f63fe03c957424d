"""Building a circuit by hand: `Circuit`, and `Stream` with one method per operator.

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
from dbsp.errors import ArgumentError, CircuitError, SchemaError, expect_type, shorten, wrong_argument
from dbsp.operators.joins.band import distance
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
from dbsp.operators.streams.fit import expect_stream, listed, located, widened
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
    public_names = (
        "filter",
        "map",
        "project",
        "rename",
        "flat_map",
        "generate_series",
        "scale",
        "distinct",
        "union",
        "join",
        "left_join",
        "right_join",
        "full_join",
        "semijoin",
        "antijoin",
        "range_join",
        "asof_join",
        "group_by",
        "rank",
        "dense_rank",
        "row_number",
        "number_rows",
        "top_k",
        "lag",
        "lead",
        "rolling",
        "window",
        "watermark",
        "preceded",
        "choice_domain",
        "equivalence_classes",
        "sample",
        "at_least",
        "widen",
        "delay",
        "integrate",
        "differentiate",
        "inspect",
        "assert_nonnegative",
        "schema",
    )

    @located("Aggregate")
    def group_by(self, *columns: str) -> Grouped[Stream]:
        """Group the rows by the named columns; without columns all rows are one group.

        No cost by itself: call `agg` or `final` on the result.

        Parameters:
            columns: the names of the grouping columns, each as one argument.

        Returns:
            The groups, with the methods `agg` and `final`.

        Raises:
            SchemaError: a column does not exist, or is named twice.
            ArgumentError: an argument is not a column name; add an expression by `map` first.

        Examples:
            >>> circuit = Circuit("shops")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("sum", sale.group_by("shop").agg(n=count(), euro=sum_("euro")))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 4), ("b", 5)]})["sum"].rows()
            [('a', 2, 7), ('b', 1, 5)]
        """
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
        """Add aggregates over the rows up to `size` before each row, the row itself included.

            out(x) = x . f({ y : y.partition = x.partition
                                 and x.column - size <= y.column <= x.column })

        A row that occurs several times is one row of the result and counts several times in
        windows. Composed of a range join and an aggregate: a tick costs the rows of the windows
        that contain a changed row.

        Parameters:
            column: the column that orders the rows: int, float, date or timestamp.
            size: the length of the window: a number, or a timedelta for dates and timestamps.
            partition: the columns in which the rows of a window agree with its row.
            calls: an aggregate for each new column, as in `Grouped.agg`.

        Returns:
            A stream with the columns of this one and one column per call.

        Raises:
            SchemaError: a column does not exist, a name is already that of a column, or `size` does
                not fit the type of the column.
            ArgumentError: a call is not an aggregate.

        Examples:
            >>> circuit = Circuit("traffic")
            >>> seen = circuit.input("seen", second=int, cars=int)
            >>> circuit.output("sum", seen.rolling("second", 10, cars_10s=sum_("cars")))
            >>> circuit.start().step({"seen": [(1, 3), (9, 4), (15, 5)]})["sum"].rows()
            [(1, 3, 3), (9, 4, 7), (15, 5, 9)]
        """
        partition = listed(partition, "partition=")
        names = self.schema.names
        at, *_ = self.schema.indices((column, *partition))
        extent = distance(self.schema.types[at], size, "size=") if size is not None else None
        if extent is None or extent < 0:
            raise SchemaError(
                f"size= expects a length that is not negative, got {shorten(size)}", code="invalid-window"
            )
        for name in calls:
            if name in names:
                raise SchemaError(
                    f"'{name}' is already a column; give the aggregate another name", code="duplicate-column"
                )
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
        """Delay the stream by one tick.

            z^-1(s)[t] = s[t - 1],   z^-1(s)[0] = 0

        O(|delta|) per tick; the state is one delta.

        Returns:
            A stream whose delta is that of the previous tick.

        Examples:
            >>> circuit = Circuit("late")
            >>> circuit.output("late", circuit.input("now", x=int).delay())
            >>> run = circuit.start()
            >>> run.step({"now": [(1,)]})["late"].rows(), run.step()["late"].rows()
            ([], [(1,)])
        """
        delayed = self.graph.add_source(Delay(self.schema))
        self.graph.connect(delayed, self)
        return _own(delayed)

    def integrate(self) -> Stream:
        """Sum the stream over all ticks so far.

            I(s)[t] = s[0] + s[1] + ... + s[t]

        Every tick emits the complete sum as its delta, so a tick costs the size of the sum, and so
        does the state. To read the sum of an output use `run.view` instead.

        Returns:
            A stream with the same columns.

        Raises:
            CircuitError: the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("sums")
            >>> circuit.output("sum", circuit.input("a", x=int).integrate())
            >>> run = circuit.start()
            >>> run.step({"a": [(1,)]})["sum"].to_dict(), run.step({"a": [(2,)]})["sum"].to_dict()
            ({(1,): 1}, {(1,): 1, (2,): 1})
        """
        self._only_outside("Integrate", "call integrate() on a stream outside the fixpoint")
        return Integrate()(self)

    def differentiate(self) -> Stream:
        """Subtract the previous tick's delta from that of this tick; the inverse of `integrate`.

            D(s)[t] = s[t] - s[t - 1]

        O(|s[t]| + |s[t - 1]|) per tick; the state is one delta.

        Returns:
            A stream with the same columns.

        Raises:
            CircuitError: the stream is inside a fixpoint.

        Examples:
            >>> circuit = Circuit("changes")
            >>> circuit.output("change", circuit.input("a", x=int).differentiate())
            >>> run = circuit.start()
            >>> run.step({"a": [(1,)]})["change"].to_dict(), run.step()["change"].to_dict()
            ({(1,): 1}, {(1,): -1})
        """
        self._only_outside("Differentiate", "call differentiate() on a stream outside the fixpoint")
        return Differentiate()(self)

    def _only_outside(self, operator: str, remedy: str) -> None:
        if self.graph.parent is not None:
            raise CircuitError(
                f"a stream inside a fixpoint consists of changes per iteration, not per tick; {remedy}",
                where=f"{operator} at {self.graph.current_source()}",
                code="scope-misuse",
            )


class FixpointBuilder:
    """A fixpoint under construction, used as a context manager (see `Circuit.fixpoint`)."""

    def __init__(
        self, outer: graph.Graph, name: str, max_iterations: int, recursion: Recursion | str = Recursion.AUTO
    ) -> None:
        self._outer = outer
        self._body = Body(name, outer, max_iterations, recursion)
        self._node: Stream | None = None

    def __repr__(self) -> str:
        state = "complete" if self._node is not None else "under construction"
        return f"<fixpoint '{self._body.name}' of {self._outer!r}: {state}>"

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
                f"the body of '{self._body.name}' reads no stream from outside, so it would never "
                "change; use a stream of the outer circuit in it",
                code="incomplete-circuit",
            )
        self._node = _own(self._outer.add(Fixpoint(self._body), *outside))
        self._body.closed = True

    def fixpoint(self, name: str, *, max_iterations: int = 100_000) -> FixpointBuilder:
        """Open a scope nested in this one; its results leave into this one.

        Parameters:
            name: the name of the scope, for errors and drawings.
            max_iterations: the number of iterations after which a tick raises IterationLimitError.

        Returns:
            The scope, to be used as a context manager. It is always evaluated incrementally.

        Examples:
            >>> circuit = Circuit("nested")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("outer") as outer:
            ...     total = outer.variable("total", n.schema)
            ...     with outer.fixpoint("inner") as inner:
            ...         part = inner.variable("part", n.schema)
            ...         inner.define(part, (n + total + part).distinct())
            ...     outer.define(total, inner.leave(part))
            >>> circuit.output("total", outer.leave(total))
            >>> circuit.start().step({"n": [(1,)]})["total"].rows()
            [(1,)]
        """
        return FixpointBuilder(self._body, name, max_iterations)

    @located("Delay")
    def variable(self, name: str, schema: Schema | Mapping[str, Any]) -> Stream:
        """Declare a recursive relation of the scope.

            variable[0] = 0,   variable[i + 1] = value[i]      value as given to `define`

        Parameters:
            name: the name of the variable, for errors and drawings.
            schema: the columns of the variable.

        Returns:
            The stream of the variable, for use inside the scope.

        Raises:
            SchemaError: `schema` is not valid.

        Examples:
            >>> circuit = Circuit("closure")
            >>> edge = circuit.input("edge", x=int, y=int)
            >>> with circuit.fixpoint("path") as scope:
            ...     path = scope.variable("path", edge.schema)
            ...     step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
            ...     scope.define(path, (edge + step.rename(y="y_right")).distinct())
            >>> path
            <stream of <path#0 Delay path>: x: int, y: int>
        """
        return _own(self._body.add_source(Delay(as_schema(schema), name)))

    @located("Delay")
    def define(self, variable: Stream, value: Stream) -> None:
        """Define the variable at the next iteration as the `value` of this one.

        End the value in `distinct()`, so that the iteration converges.

        Parameters:
            variable: a stream that `variable` of this scope returned.
            value: a stream with columns of the same types.

        Raises:
            CircuitError: `variable` is not a variable of this scope, or is already defined.
            SchemaError: the columns of `value` do not fit the variable.
            ArgumentError: an argument is not a stream.

        Examples:
            >>> circuit = Circuit("down")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("down") as scope:
            ...     down = scope.variable("down", n.schema)
            ...     lower = down.filter(col("x") > 0).map(x=col("x") - 1)
            ...     scope.define(down, (n + lower).distinct())
            >>> circuit.output("down", scope.leave(down))
            >>> circuit.start().step({"n": [(2,)]})["down"].rows()
            [(0,), (1,), (2,)]
        """
        expect_stream(variable, "define")
        expect_stream(value, "define")
        if variable.graph is not self._body or not isinstance(variable.node.operator, Delay):
            raise CircuitError(
                f"define expects a variable of scope '{self._body.name}', got another stream; create one "
                "with scope.variable(name, schema)",
                code="scope-misuse",
            )
        self._body.connect(variable, widened(value, variable.schema.types))

    @located("Leave")
    def leave(self, stream: Stream) -> Stream:
        """Return the value of a stream at the fixpoint, as a stream of the outer circuit.

        Call it after the `with` block. A variable leaves as its definition: they are equal at the
        fixpoint. A stream that does not depend on the scope is returned unchanged.

        Parameters:
            stream: a stream of this scope.

        Returns:
            A stream of the outer circuit with the same columns.

        Raises:
            CircuitError: the `with` block has not ended, or the stream belongs to another circuit.
            ArgumentError: `stream` is not a stream.

        Examples:
            >>> circuit = Circuit("down")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("down") as scope:
            ...     down = scope.variable("down", n.schema)
            ...     lower = down.filter(col("x") > 0).map(x=col("x") - 1)
            ...     scope.define(down, (n + lower).distinct())
            >>> scope.leave(down).schema.describe()
            'x: int'
        """
        expect_stream(stream, "leave")
        if self._node is None:
            raise CircuitError(
                f"scope '{self._body.name}' is not complete; call leave() after its with block",
                code="scope-misuse",
            )
        if isinstance(stream.node.operator, Delay) and stream.node.strict:
            stream = _own(stream.node.strict[0])
        if stream.graph is not self._body:
            self._outer.enter(stream)
            return stream
        self._body.exports.append(stream)
        return Leave(len(self._body.exports) - 1, stream.schema)(self._node)


class Circuit(graph.Graph):
    """A dataflow circuit over Z-sets, built stream by stream; `start` runs it incrementally.

    Examples:
        >>> circuit = Circuit("orders")
        >>> order = circuit.input("order", id=int, price=float)
        >>> circuit.output("large", order.filter(col("price") > 5.0))
        >>> circuit.start().step({"order": [(1, 3.0), (2, 7.5)]})["large"].rows()
        [(2, 7.5)]
    """

    stream_class = Stream
    public_names = (
        "name",
        "input",
        "constant",
        "output",
        "fixpoint",
        "feedback",
        "connect",
        "iterate",
        "start",
        "explain",
        "validate",
        "circuit",
        "to_json",
        "to_networkx",
        "content_hash",
        "same_as",
    )

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
        """Declare an input relation.

        `run.step` takes its changes. What a change means depends on the kind of the input:

            kind="zset"    any weights; a change is added to the relation
            kind="set"     a positive weight asserts a row, a negative weight retracts it
            key=("id",)    a positive weight replaces the row of its key, a negative one removes it

        Parameters:
            name: the name of the input.
            schema: the columns, as a `Schema` or a mapping from names to types; needed for columns
                called `schema`, `kind` or `key`.
            kind: "zset" or "set".
            key: the key columns, a name or several; the relation has at most one row per key.
            columns: the columns, by name, instead of `schema`.

        Returns:
            The stream of the input.

        Raises:
            SchemaError: there are no columns, a type is not valid, a key column does not exist, or
                `kind` is unknown.
            ArgumentError: `kind` or `key` is a type instead of text.
            CircuitError: the circuit already has an input of this name.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", id=int, name=str, key="id")
            >>> circuit.output("person", person)
            >>> run = circuit.start()
            >>> run.step({"person": [(1, "Ada")]})["person"].to_dict()
            {(1, 'Ada'): 1}
            >>> run.step({"person": [(1, "Eva")]})["person"].to_dict()
            {(1, 'Ada'): -1, (1, 'Eva'): 1}
        """
        _expect_text(kind, "kind", "'zset' or 'set'")
        for part in (key,) if isinstance(key, str) or not isinstance(key, Iterable) else key:
            _expect_text(part, "key", "the name of a key column or a list of names")
        if (schema is None) == (not columns):
            raise SchemaError(
                f"expected the columns of '{name}' either as schema={{'x': int}} or by name, x=int",
                code="invalid-argument",
            )
        declared = as_schema(columns) if schema is None else as_schema(schema)
        if key:
            kind = "key"
        elif kind not in ("zset", "set"):
            raise SchemaError(
                f"kind= of '{name}' expects 'zset' or 'set', got {kind!r}; for one row per key give key=",
                code="invalid-argument",
            )
        indices = declared.indices(key)
        declared.select(indices)  # raises SchemaError for a column that occurs twice
        self.declare("input", name)
        stream = _own(self.add_source(Input(name, declared, kind, indices)))
        self.named[name] = stream
        return stream

    @located("Constant")
    def constant(self, rows: Iterable[Any] | Mapping[Any, int], schema: Schema | Mapping[str, Any]) -> Stream:
        """Declare a relation that holds the given rows from the first tick on.

        Parameters:
            rows: an iterable of rows, or a mapping from rows to weights.
            schema: the columns of the rows.

        Returns:
            The stream of the rows: all of them in the first tick, no change afterwards.

        Raises:
            SchemaError: `schema` is not valid.
            InputError: a row does not fit the schema.

        Examples:
            >>> circuit = Circuit("units")
            >>> circuit.output("unit", circuit.constant([("m",), ("kg",)], {"name": str}))
            >>> circuit.start().step()["unit"].rows()
            [('kg',), ('m',)]
        """
        value = ZSet(rows, as_schema(schema))
        return _own(self.add_source(Constant(tuple(value.items()), value.schema)))

    @located("Fixpoint")
    def fixpoint(
        self, name: str, *, max_iterations: int = 100_000, recursion: Recursion | str = Recursion.AUTO
    ) -> FixpointBuilder:
        """Open a recursive scope, to be used as a context manager.

        Inside the `with` block declare variables, define each by a stream, and use outer streams
        freely. After the block `leave` returns results. A tick iterates the scope until nothing
        changes; how it is evaluated, and at what cost, is in `dbsp.operators.recursion.modes`.

        Parameters:
            name: the name of the scope, for errors and drawings.
            max_iterations: the number of iterations after which a tick raises IterationLimitError
                and changes nothing.
            recursion: "auto", "incremental" or "insert-only". A scope whose results do not only
                grow with its inputs is never evaluated insert-only.

        Returns:
            The scope, with the methods `variable`, `define`, `leave` and `fixpoint`.

        Raises:
            ArgumentError: `recursion` is not one of the modes.
            CircuitError: at the end of the block, if a variable is not defined or the scope reads
                no stream from outside.

        Examples:
            >>> circuit = Circuit("closure")
            >>> edge = circuit.input("edge", x=int, y=int)
            >>> with circuit.fixpoint("path") as scope:
            ...     path = scope.variable("path", edge.schema)
            ...     step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
            ...     scope.define(path, (edge + step.rename(y="y_right")).distinct())
            >>> circuit.output("path", scope.leave(path))
            >>> circuit.start().step({"edge": [(1, 2), (2, 3)]})["path"].rows()
            [(1, 2), (1, 3), (2, 3)]
        """
        return FixpointBuilder(self, name, max_iterations, recursion)

    @located("Fixpoint")
    def iterate(
        self,
        name: str,
        start: Stream,
        body: Callable[[Stream], Stream],
        *,
        while_: Callable[[Stream], Stream] | None = None,
        max_iterations: int = 100_000,
    ) -> Stream:
        """Apply `body` repeatedly, starting with `start`, until nothing changes.

            x[0] = start,   x[i + 1] = body(x[i])   while the stream while_(x[i]) is not empty

        The result is the x at which `body` changes nothing or the condition is empty. Composed of
        variables, semijoins and antijoins: a tick costs the changes at all iterations.

        Parameters:
            name: the name of the scope, for errors and drawings.
            start: the first value.
            body: a function from a stream to a stream with columns of the same types.
            while_: a function from a stream to a stream; the iteration ends when it is empty.
            max_iterations: the number of iterations after which a tick raises IterationLimitError
                and changes nothing.

        Returns:
            A stream with the columns of `start`.

        Raises:
            SchemaError: `body` returns a stream with other columns.
            ArgumentError: `start` is not a stream.

        Examples:
            >>> circuit = Circuit("halve")
            >>> n = circuit.input("n", x=int)
            >>> halved = circuit.iterate(
            ...     "halve", n, lambda s: s.map(x=col("x") // 2), while_=lambda s: s.filter(col("x") > 10)
            ... )
            >>> circuit.output("small", halved)
            >>> circuit.start().step({"n": [(100,)]})["small"].rows()
            [(6,)]
        """
        expect_stream(start, "iterate")
        unit = Schema((), ())
        with self.fixpoint(name, max_iterations=max_iterations) as scope:
            started = scope.variable(f"{name}, started", unit)
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
        """Return the delayed end of a cycle; `connect` closes the cycle later.

            feedback[t] = s[t - 1],   feedback[0] = 0      s the stream given to `connect`

        Parameters:
            schema: the columns of the stream.

        Returns:
            A stream that can be used before the stream it depends on exists.

        Raises:
            SchemaError: `schema` is not valid.

        Examples:
            >>> circuit = Circuit("sums")
            >>> n = circuit.input("n", x=int)
            >>> before = circuit.feedback({"x": int})
            >>> total = n + before
            >>> circuit.connect(before, total)
            >>> circuit.output("total", total)
            >>> run = circuit.start()
            >>> run.step({"n": [(1,)]})["total"].to_dict(), run.step({"n": [(2,)]})["total"].to_dict()
            ({(1,): 1}, {(1,): 1, (2,): 1})
        """
        return _own(self.add_source(Delay(as_schema(schema))))

    @located("Delay")
    def connect(self, stream: graph.Stream, *strict: graph.Stream) -> None:
        """Close a cycle: `stream` becomes `strict`, one tick later.

        Parameters:
            stream: a stream that `feedback` returned.
            strict: the stream to delay.

        Raises:
            CircuitError: `stream` is not a feedback, or it is already connected.
            SchemaError: the columns of the two streams differ.
            ArgumentError: an argument is not a stream.

        Examples:
            >>> circuit = Circuit("late")
            >>> n = circuit.input("n", x=int)
            >>> late = circuit.feedback(n.schema)
            >>> circuit.connect(late, n)
            >>> circuit.output("late", late)
            >>> run = circuit.start()
            >>> run.step({"n": [(1,)]})["late"].rows(), run.step()["late"].rows()
            ([], [(1,)])
        """
        for each in (stream, *strict):
            expect_stream(each, "connect")
        super().connect(stream, *(widened(s, stream.schema.types) for s in strict))

    @located("Output")
    def output(self, name: str, stream: Stream) -> None:
        """Declare a stream as an output; its integral becomes a view of the run.

        O(|delta| log n) per tick; the state is the integral, unless an operator already keeps it.

        Parameters:
            name: the name of the output.
            stream: the stream to emit.

        Raises:
            ArgumentError: `stream` is not a stream.
            CircuitError: the circuit already has an output of this name, or the stream belongs to
                another circuit or a scope.

        Examples:
            >>> circuit = Circuit("names")
            >>> circuit.output("name", circuit.input("person", id=int, name=str).project("name"))
            >>> run = circuit.start()
            >>> run.step({"person": [(1, "Ada")]})["name"].rows(), run.view("name").rows()
            ([('Ada',)], [('Ada',)])
        """
        expect_stream(stream, "output")
        self.enter(stream)
        self.declare("output", name)
        Output(name)(stream)

    def validate(self) -> None:
        """Check the whole circuit; `start` and `explain` call it first.

        O(nodes + edges).

        Raises:
            CircuitError: a feedback is not connected, or a cycle has no delay.

        Examples:
            >>> circuit = Circuit("open")
            >>> end = circuit.feedback({"x": int})
            >>> try:
            ...     circuit.validate()
            ... except CircuitError as error:
            ...     print(error.message)
            this feedback has no input; call circuit.connect(feedback, stream)
        """
        for node in self.nodes:
            if isinstance(node.operator, Delay) and not node.strict:
                raise CircuitError(
                    "this feedback has no input; call circuit.connect(feedback, stream)",
                    where=node.describe(),
                    code="incomplete-circuit",
                )
        super().validate()

    def circuit(self, stage: Stage | str = Stage.QUERY) -> graph.Graph:
        """Return this circuit in one of its three forms.

        Parameters:
            stage: "query" (as built), "incremental" (over changes) or "physical" (with traces).

        Returns:
            A graph, for drawing and for `to_json`.

        Raises:
            ArgumentError: `stage` is not one of the three.
            CircuitError: the circuit is not complete (see `validate`).

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> circuit.circuit("physical")
            <circuit 'evens': 4 nodes>
        """
        self.validate()
        return three_stages.circuit(self, _stage(stage))

    def explain(self, run: Run | None = None) -> str:
        """Describe how the circuit is evaluated, as text.

        The text lists the rewritings, the laws of incrementalisation that were used, the traces
        with the operators that read them, and the order in which multi-way joins bind variables.

        Parameters:
            run: a run of this circuit, to add the sizes of its traces and the number of prefixes
                that its joins have visited.

        Returns:
            The text.

        Raises:
            CircuitError: the circuit is not complete (see `validate`).

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> "trace of Filter" in circuit.explain()
            True
        """
        self.validate()
        if run is not None and not isinstance(run, Run):
            raise wrong_argument("run", "a run of the circuit", run)
        return explain(self, run)

    def start(
        self,
        stage: Stage | str = Stage.PHYSICAL,
        *,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Run:
        """Start a run of the circuit; `run.step` takes changes and returns the changes of outputs.

        All stages return the same results. "physical" is the fast one; "query" recomputes
        everything in every tick and serves as the oracle for the others.

        Parameters:
            stage: "physical", "incremental" or "query".
            checkpoint: a folder. Every tick is durable when `step` returns, and a run started on
                the same folder continues after the last tick (see `dbsp.durable`).

        Returns:
            A run in its initial state, or in that of the checkpoint.

        Raises:
            ArgumentError: `stage` is not one of the three.
            CircuitError: the circuit is not complete (see `validate`).
            CheckpointError: the checkpoint is damaged, in use, or of another circuit.

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> run = circuit.start()
            >>> run.step({"n": [(1,), (2,)]})["even"].rows()
            [(2,)]
        """
        self.validate()
        runnable = three_stages.runnable(self, _stage(stage))
        if checkpoint is None:
            return Run(runnable)
        return open_checkpoint(checkpoint).resume(self, lambda _: Run(runnable))

    def declare(self, kind: str, name: str) -> None:
        """Reserve a name for an "input" or "output"; raise CircuitError if it is in use."""
        if name in self._relations[kind]:
            raise CircuitError(
                f"circuit '{self.name}' already has an {kind} '{name}'; choose another name",
                code="duplicate-name",
            )
        self._relations[kind].add(name)


def _own(stream: graph.Stream) -> Stream:
    return expect_type(stream, Stream, "a stream with the methods of the builder")


def _expect_text(value: Any, parameter: str, expected: str) -> None:
    """Raise ArgumentError if an option of `Circuit.input` is the type of a column of that name."""
    if isinstance(value, str):
        return
    type_name = getattr(value, "__name__", None) or repr(value)
    raise ArgumentError(
        f"{parameter}= expects {expected}, got {shorten(value)}; for a column called '{parameter}' give "
        f"all columns as schema={{'{parameter}': {type_name}, ...}}"
    )


def _stage(stage: Stage | str) -> Stage:
    """The stage of this name. Raises ArgumentError."""
    if stage not in list(Stage):
        stages = ", ".join(repr(each.value) for each in Stage)
        raise ArgumentError(f"stage= expects one of {stages}, got {shorten(stage)}")
    return Stage(stage)
