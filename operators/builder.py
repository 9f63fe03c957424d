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
from types import TracebackType
from typing import Any

from dbsp import graph
from dbsp.errors import CircuitError, SchemaError
from dbsp.expressions import Column, Expression, as_expression, col
from dbsp.operators.aggregate import Aggregate
from dbsp.operators.constant import Constant
from dbsp.operators.delay import Delay
from dbsp.operators.differentiate import Differentiate
from dbsp.operators.distinct import Distinct
from dbsp.operators.filter import Filter, FilterFunction
from dbsp.operators.fixpoint import Body, Fixpoint, Leave
from dbsp.operators.input import Input
from dbsp.operators.integrate import Integrate
from dbsp.operators.join import Join
from dbsp.operators.map import FlatMap, Map, MapFunction
from dbsp.operators.output import Output
from dbsp.operators.project import Project, Rename
from dbsp.operators.reduce import Function
from dbsp.operators.semijoin import Antijoin, Semijoin
from dbsp.operators.stages import incrementalize, physical, runnable
from dbsp.operators.union import Minus, Negate, Union
from dbsp.run import Run
from dbsp.schema import Schema, as_schema
from dbsp.stage import Stage

On = Sequence[str | tuple[str, str]]


class Stream(graph.Stream):
    """A stream of Z-sets; every method adds one operator to the circuit and returns its output."""

    __slots__ = ()

    def filter(self, predicate: Expression | Callable[[Any], Any]) -> Stream:
        """The rows for which the condition holds; a function is called with a named tuple."""
        return (Filter(predicate) if isinstance(predicate, Expression) else FilterFunction(predicate))(self)

    def map(
        self,
        function: Callable[[Any], Any] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        /,
        **columns: Any,
    ) -> Stream:
        """Each row becomes another: `map(total=col("a") + col("b"))` or `map(function, schema)`."""
        if function is not None:
            if schema is None or columns:
                raise SchemaError(
                    "map takes either a function and the schema of its rows, or named expressions",
                    where="map",
                )
            return MapFunction(function, as_schema(schema))(self)
        if not columns:
            raise SchemaError("map needs at least one output column", where="map")
        return self._mapped(columns)

    def flat_map(
        self, function: Callable[[Any], Iterable[Any]], schema: Schema | Mapping[str, Any]
    ) -> Stream:
        """Each row becomes any number of rows of `schema`: those that the function returns."""
        return FlatMap(function, as_schema(schema))(self)

    def project(self, *columns: str) -> Stream:
        """Only these columns, in this order; weights of rows that become equal add up."""
        indices = self.schema.indices(columns)
        return Project(indices, tuple(columns), _keeps_all(indices, self.schema))(self)

    def rename(self, **new_to_old: str) -> Stream:
        """The same rows with columns renamed: `rename(a="x")` calls column x now a."""
        return Rename(self.schema.rename(**new_to_old).names)(self)

    def union(self, *others: Stream) -> Stream:
        """The sum of the streams; follow it by `distinct()` for a union of sets."""
        return Union()(self, *others) if others else self

    def __add__(self, other: Stream) -> Stream:
        return Union()(self, other)

    def __sub__(self, other: Stream) -> Stream:
        return Minus()(self, other)

    def __neg__(self) -> Stream:
        return Negate()(self)

    def distinct(self) -> Stream:
        """The rows of positive weight, each with weight 1."""
        return Distinct()(self)

    def join(self, other: Stream, on: On, select: Sequence[str] | None = None) -> Stream:
        """All pairs of rows that agree on `on`: column names, or pairs (left name, right name).

        The result has all columns of the left, then those of the right that are not part of the
        key; a name that both have gets the suffix `_right`. `select` picks among these names (and
        may name key columns of the right, with the suffix where needed).
        """
        left_key, right_key = _keys(self.schema, other.schema, on)
        places: dict[str, int] = {name: i for i, name in enumerate(self.schema.names)}
        default = list(self.schema.names)
        for index, name in enumerate(other.schema.names):
            unique = f"{name}_right" if name in self.schema.names else name
            if unique in places:
                raise SchemaError(f"rename a column first: '{unique}' would occur twice", where="join")
            places[unique] = -index - 1
            if index not in right_key:
                default.append(unique)
        names = default if select is None else list(select)
        for name in names:
            if name not in places:
                raise SchemaError(
                    f"join has no output column '{name}'; it has {', '.join(places)}", where="join"
                )
        return Join(left_key, right_key, tuple(places[n] for n in names), tuple(names))(self, other)

    def semijoin(self, other: Stream, on: On) -> Stream:
        """The rows that have a partner in `other`, with their own weights."""
        return Semijoin(*_keys(self.schema, other.schema, on))(self, other)

    def antijoin(self, other: Stream, on: On) -> Stream:
        """The rows that have no partner in `other`, with their own weights."""
        return Antijoin(*_keys(self.schema, other.schema, on))(self, other)

    def group_by(self, *columns: str) -> Grouped:
        """Groups of rows that agree on the columns; without columns one group of all rows."""
        return Grouped(self, columns)

    def delay(self) -> Stream:
        """z^-1: the stream as it was one tick before."""
        delayed = self.graph.add_source(Delay(self.schema))
        self.graph.connect(delayed, self)
        return _own(delayed)

    def integrate(self) -> Stream:
        """I: the sum of the stream so far; every tick hands out the whole of it."""
        self._only_outside("integrate", "its integral would never stop growing")
        return Integrate()(self)

    def differentiate(self) -> Stream:
        """D: the change of the stream from one tick to the next."""
        self._only_outside("differentiate", "take the difference of the result outside")
        return Differentiate()(self)

    def _only_outside(self, operator: str, reason: str) -> None:
        if self.graph.parent is not None:
            raise CircuitError(
                f"{operator} is not for a stream inside a fixpoint, which stands for one value per "
                f"iteration; {reason}",
                where=f"{operator} at {self.graph.current_source()}",
            )

    def _mapped(self, columns: Mapping[str, Any]) -> Stream:
        """The given columns; plain column references need no evaluation."""
        names = tuple(columns)
        plain = [e.name for e in columns.values() if isinstance(e, Column)]
        if len(plain) == len(columns):
            indices = self.schema.indices(plain)
            if indices == tuple(range(self.schema.arity)):
                return self if names == self.schema.names else Rename(names)(self)
            return Project(indices, names, _keeps_all(indices, self.schema))(self)
        return Map(tuple(map(as_expression, columns.values())), names)(self)


class Call:
    """An aggregate function applied to an expression, as written in `agg`."""

    __slots__ = ("argument", "kind")

    def __init__(self, kind: str, argument: Expression | None) -> None:
        self.kind = kind
        self.argument = argument


def count() -> Call:
    """The number of rows of the group: the sum of their weights."""
    return Call("count", None)


def sum_(argument: Expression | str) -> Call:
    """The weighted sum of an expression; exact for ints, compensated for floats."""
    return Call("sum", _expression(argument))


def avg(argument: Expression | str) -> Call:
    """The weighted mean of an expression, a float."""
    return Call("avg", _expression(argument))


def min_(argument: Expression | str) -> Call:
    """The least value of an expression; strings compare as strings."""
    return Call("min", _expression(argument))


def max_(argument: Expression | str) -> Call:
    """The largest value of an expression; strings compare as strings."""
    return Call("max", _expression(argument))


class Grouped:
    """A stream with its grouping columns; `agg` says what to compute of each group."""

    __slots__ = ("_columns", "_stream")

    def __init__(self, stream: Stream, columns: Sequence[str]) -> None:
        stream.schema.indices(columns)
        self._stream = stream
        self._columns = tuple(columns)

    def agg(self, **calls: Call) -> Stream:
        """One row per group: the grouping columns and one column per call.

        A group is present while its summed weight is positive.
        """
        if not calls:
            raise SchemaError("agg needs at least one aggregate, such as n=count()", where="agg")
        columns: dict[str, Expression] = {name: col(name) for name in self._columns}
        functions = []
        for name, call in calls.items():
            if name in self._columns:
                raise SchemaError(f"'{name}' is a grouping column already", where="agg")
            if call.argument is None:
                functions.append(Function(call.kind))
            else:
                columns[name] = call.argument
                functions.append(Function(call.kind, len(columns) - 1))
        values = self._stream._mapped(columns) if columns else self._stream.project()
        names = (*self._columns, *calls)
        return Aggregate(len(self._columns), tuple(functions), names)(values)


class Scope:
    """A fixpoint being built; use it as a context manager (see `Circuit.fixpoint`)."""

    def __init__(self, outer: graph.Graph, name: str, max_iterations: int) -> None:
        self._outer = outer
        self._body = Body(name, outer, max_iterations)
        self._node: Stream | None = None

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._body.validate()
            outside = [self._outer.stream_class(outer) for outer in self._body.entered]
            if not outside:
                raise CircuitError(
                    "the body reads no stream from outside, so nothing can ever change in it",
                    where=f"fixpoint '{self._body.name}'",
                )
            self._node = _own(self._outer.add(Fixpoint(self._body), *outside))

    def fixpoint(self, name: str, *, max_iterations: int = 100_000) -> Scope:
        """A scope within this one; its results leave into this one."""
        return Scope(self._body, name, max_iterations)

    def variable(self, name: str, schema: Schema | Mapping[str, Any]) -> Stream:
        """A recursive relation: empty at iteration 0, then what `define` says of the one before."""
        return _own(self._body.add_source(Delay(as_schema(schema), name)))

    def define(self, variable: Stream, value: Stream) -> None:
        """Say what the variable is at the next iteration; end it in `distinct()` to converge."""
        where = variable.node.describe()
        if variable.graph is not self._body or not isinstance(variable.node.operator, Delay):
            raise CircuitError(f"this is not a variable of scope '{self._body.name}'", where=where)
        if variable.node.strict:
            raise CircuitError("this variable is defined already", where=where)
        kinds = [t.kind for t in variable.schema.types]
        if kinds != [t.kind for t in value.schema.types]:
            raise SchemaError(
                f"variable has ({variable.schema.describe()}) but its definition yields "
                f"({value.schema.describe()})",
                where=where,
            )
        self._body.connect(variable, value)

    def leave(self, stream: Stream) -> Stream:
        """The value of a stream of the scope at the fixpoint, as a stream of the outer circuit.

        A variable leaves as its definition: they are equal at the fixpoint.
        """
        if self._node is None:
            raise CircuitError("take results out after the with block", where=f"fixpoint '{self._body.name}'")
        if isinstance(stream.node.operator, Delay) and stream.node.strict:
            stream = _own(stream.node.strict[0])
        self._body.exports.append(self._body.enter(stream))
        return Leave(len(self._body.exports) - 1, stream.schema)(self._node)


class Circuit(graph.Graph):
    """A dataflow circuit over Z-sets, built stream by stream; `start` makes it incremental."""

    stream_class = Stream

    def __init__(self, name: str = "circuit") -> None:
        super().__init__(name)
        self._relations: dict[str, set[str]] = {"input": set(), "output": set()}

    def input(
        self,
        name: str,
        /,
        *,
        schema: Schema | Mapping[str, Any] | None = None,
        kind: str = "zset",
        key: Sequence[str] = (),
        **columns: Any,
    ) -> Stream:
        """An input relation with the given columns.

        `kind="zset"` takes deltas with any weights; `kind="set"` takes assertions and retractions
        of rows that are present or absent; `key=("id",)` takes upserts: one row per key.
        """
        where = f"input '{name}'"
        if (schema is None) == (not columns):
            raise SchemaError("give the columns either as schema= or by name: x=int, y=str", where=where)
        whole = as_schema(columns) if schema is None else as_schema(schema)
        if key:
            kind = "key"
        elif kind not in ("zset", "set"):
            raise SchemaError(f"kind is 'zset' or 'set', not {kind!r}; for upserts give key=", where=where)
        self._declare("input", name)
        return _own(self.add_source(Input(name, whole, kind, whole.indices(key))))

    def constant(
        self, rows: Iterable[Sequence[Any]] | Mapping[Any, int], schema: Schema | Mapping[str, Any]
    ) -> Stream:
        """A relation that holds the given rows (with weight 1, or as mapped) from the first tick on."""
        weighted = rows.items() if isinstance(rows, Mapping) else ((tuple(row), 1) for row in rows)
        return _own(self.add_source(Constant(tuple(weighted), as_schema(schema))))

    def fixpoint(self, name: str, *, max_iterations: int = 100_000) -> Scope:
        """A recursive scope, as a context manager:

            with circuit.fixpoint("closure") as scope:
                path = scope.variable("path", schema)
                scope.define(path, (edge + path.join(edge, ...)).distinct())
            result = scope.leave(path)

        Outer streams may be used inside. A tick that takes more than `max_iterations` raises
        IterationLimitError and changes nothing.
        """
        return Scope(self, name, max_iterations)

    def feedback(self, schema: Schema | Mapping[str, Any]) -> Stream:
        """The other end of a cycle: z^-1 of the stream that `connect(feedback, stream)` names later."""
        return _own(self.add_source(Delay(as_schema(schema))))

    def output(self, name: str, stream: Stream) -> None:
        """Hand out the deltas of a stream under a name and keep its integral as a view."""
        self._declare("output", name)
        Output(name)(stream)

    def circuit(self, stage: Stage | str = Stage.QUERY) -> graph.Graph:
        """This circuit in one of its forms: "query", "incremental" or "physical"."""
        stage = Stage(stage)
        if stage is Stage.QUERY:
            return self
        self.validate()
        incremental, _ = incrementalize(self)
        return incremental if stage is Stage.INCREMENTAL else physical(incremental)

    def start(self, stage: Stage | str = Stage.PHYSICAL) -> Run:
        """Run the circuit: deltas in, deltas out.

        The stages yield the same; "physical" is the fast one. "query" recomputes everything between
        an integral at every input and a difference at every output: the oracle for the others.
        """
        self.validate()
        return Run(runnable(self, Stage(stage)))

    def _declare(self, kind: str, name: str) -> None:
        if name in self._relations[kind]:
            raise CircuitError(f"there is an {kind} '{name}' already", where=f"circuit '{self.name}'")
        self._relations[kind].add(name)


def _own(stream: graph.Stream) -> Stream:
    assert isinstance(stream, Stream)
    return stream


def _expression(argument: Expression | str) -> Expression:
    return col(argument) if isinstance(argument, str) else argument


def _keeps_all(indices: Sequence[int], schema: Schema) -> bool:
    return set(indices) == set(range(schema.arity))


def _keys(left: Schema, right: Schema, on: On) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = [(name, name) if isinstance(name, str) else name for name in on]
    return left.indices(a for a, _ in pairs), right.indices(b for _, b in pairs)
