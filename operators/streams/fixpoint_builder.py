"""`FixpointBuilder`: a recursive scope while its body is under construction."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.schema import Schema, as_schema
from dbsp.errors import CircuitError
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave
from dbsp.operators.recursion.modes import Recursion, RecursionName
from dbsp.operators.streams.fit import expect_stream, located, widened
from dbsp.operators.streams.stream import Stream, own_stream
from dbsp.operators.time.delay import Delay


@methods_end_at_caller
class FixpointBuilder:
    """A fixpoint under construction, used as a context manager (see `Circuit.fixpoint`)."""

    def __init__(
        self,
        outer: graph.Graph,
        name: str,
        max_iterations: int,
        recursion: Recursion | RecursionName = Recursion.AUTO,
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
        self._node = own_stream(self._outer.add(Fixpoint(self._body), *outside))
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
        return own_stream(self._body.add_source(Delay(as_schema(schema), name)))

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

    @located("Delta0")
    def enter(self, stream: Stream) -> Stream:
        """Return a stream from outside as a stream of this scope.

            enter(s)[i] = s        at every iteration i

        An operator with a stream of the scope does so by itself. Only methods that refer to
        iterations, such as `delay` and `differentiate`, need it: `edge.differentiate()` is the
        difference over ticks, `scope.enter(edge).differentiate()` that over iterations.

        Parameters:
            stream: a stream of an outer circuit, or of this scope.

        Returns:
            The stream inside the scope.

        Raises:
            CircuitError: the stream belongs to another circuit, or the scope is complete.
            ArgumentError: `stream` is not a stream.

        Examples:
            >>> circuit = Circuit("first")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("first") as scope:
            ...     all_rows = scope.variable("all_rows", n.schema)
            ...     scope.define(all_rows, scope.enter(n).differentiate().integrate())
            >>> circuit.output("all", scope.leave(all_rows))
            >>> circuit.start().step({"n": [(1,)]})["all"].rows()
            [(1,)]
        """
        expect_stream(stream, "enter")
        return own_stream(self._body.enter(stream))

    @located("Delta0")
    def delta0(self, stream: Stream) -> Stream:
        """Return a stream from outside as the delta_0 of the DBSP paper: once, at iteration 0.

            delta0(s)[0] = s,   delta0(s)[i] = 0 for i > 0

        It is `enter(stream).differentiate()`, and `delta0(s).integrate()` is `enter(s)`.

        Parameters:
            stream: a stream of an outer circuit.

        Returns:
            The stream inside the scope.

        Raises:
            CircuitError: the stream belongs to another circuit, or the scope is complete.
            ArgumentError: `stream` is not a stream.

        Examples:
            >>> circuit = Circuit("steps")
            >>> n = circuit.input("n", x=int)
            >>> with circuit.fixpoint("steps") as scope:
            ...     now = scope.variable("now", n.schema)
            ...     lower = now.filter(col("x") > 0).map(x=col("x") - 1)
            ...     scope.define(now, scope.delta0(n) + lower)
            ...     every = now.integrate()
            >>> circuit.output("every", scope.leave(every))
            >>> circuit.start().step({"n": [(2,)]})["every"].to_dict()
            {(0,): 1, (1,): 1, (2,): 1}
        """
        return self.enter(stream).differentiate()

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
            stream = own_stream(stream.node.strict[0])
        if stream.graph is not self._body:
            self._outer.enter(stream)
            return stream
        self._body.exports.append(stream)
        return Leave(len(self._body.exports) - 1, stream.schema)(self._node)
