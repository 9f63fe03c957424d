"""Stream methods that observe, check, sample or scale a stream; its rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.data.zset import ZSet
from dbsp.errors import ArgumentError, SchemaError, shorten, wrong_argument
from dbsp.operators.groups.nonnegative import AssertNonnegative
from dbsp.operators.linear.sample import Sample
from dbsp.operators.linear.scale import Scale
from dbsp.operators.ports.inspect import Inspect
from dbsp.operators.streams.fit import expect_int, listed, located

S = TypeVar("S", bound="InspectionMethods")


@methods_end_at_caller
class InspectionMethods(graph.Stream):
    """The methods of a stream that do not compute new rows."""

    __slots__ = ()

    @located("Inspect")
    def inspect(self: S, callback: Callable[[ZSet], Any]) -> S:
        """Call `callback(delta)` after the commit of every tick that changes the stream.

        Inside a fixpoint the delta is that of the value at the fixpoint. If the callback raises,
        `run.step` raises UserFunctionError; the tick remains committed. The callback must not step
        the run. Linear: O(|delta|) per tick and the callback.

        Parameters:
            callback: a function that takes the delta as a `ZSet`; its result is ignored.

        Returns:
            The stream itself, for further methods. The callback is called whether or not something
            reads the result.

        Raises:
            ArgumentError: `callback` is not a function.

        Examples:
            >>> circuit = Circuit("watched")
            >>> seen = circuit.input("seen", x=int).inspect(lambda delta: print(delta.to_dict()))
            >>> circuit.output("seen", seen)
            >>> result = circuit.start().step({"seen": [(1,)]})
            {(1,): 1}
        """
        if not callable(callback):
            raise ArgumentError(f"inspect expects a function of a delta, got {shorten(callback)}")
        return Inspect(callback)(self)

    @located("AssertNonnegative")
    def assert_nonnegative(self: S, name: str) -> S:
        """Require that no row of the stream has a negative weight, in any tick.

        A tick that would leave such a row is rolled back and raises InvariantError with `name` and
        the row. Inside a fixpoint this holds at every iteration. The check takes place whether or
        not something reads the result. O(|delta| log n) per tick; the state is a trace of the rows.

        Parameters:
            name: the name of the promise, for the error.

        Returns:
            The stream itself.

        Examples:
            >>> circuit = Circuit("stock")
            >>> circuit.output("stock", circuit.input("moved", item=str).assert_nonnegative("stock"))
            >>> run = circuit.start()
            >>> run.step({"moved": {("bolt",): 2}})["stock"].to_dict()
            {('bolt',): 2}
        """
        if not isinstance(name, str):
            raise wrong_argument("name", "the name of a promise", name)
        return AssertNonnegative(name)(self)

    @located("Sample")
    def sample(self: S, fraction: float, seed: int = 0, *, on: Sequence[str] | None = None) -> S:
        """Keep about `fraction` of the rows, with their weights, chosen by a hash of the row.

            sample(s)(x) = s(x) if hash(seed, x[on]) < fraction * 2^64 else 0

        The same seed selects the same rows in every run and on every machine, and a smaller
        fraction selects a subset of a larger one. Linear: O(|delta|) per tick, no state besides
        hashes of strings and objects.

        Parameters:
            fraction: the part of the rows to keep, from 0 to 1.
            seed: a number that selects the sample.
            on: the columns to hash, by default all. Rows that agree in these columns are either
                all kept or all dropped, also across streams sampled with one seed.

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: a column does not exist, or `fraction` is not between 0 and 1.

        Examples:
            >>> circuit = Circuit("sample")
            >>> circuit.output("some", circuit.input("n", x=int).sample(0.1, seed=7))
            >>> some = circuit.start().step({"n": [(x,) for x in range(1000)]})["some"]
            >>> 60 < len(some.rows()) < 140
            True
        """
        if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise SchemaError(
                f"sample expects a fraction between 0 and 1, got {shorten(fraction)}", code="invalid-argument"
            )
        expect_int(seed, "seed")
        everything = tuple(range(self.schema.arity))
        columns = everything if on is None else self.schema.indices(listed(on, "on="))
        return Sample(float(fraction), seed, columns)(self)

    @located("Scale")
    def scale(self: S, factor: int) -> S:
        """Multiply every weight by `factor`.

            scale(s)(x) = factor * s(x)

        Linear: O(|delta|) per tick, no state. A tick in which a weight leaves 64 bits raises
        WeightOverflowError.

        Parameters:
            factor: an int; 0 removes all rows, -1 negates the stream.

        Returns:
            A stream with the same columns.

        Raises:
            SchemaError: `factor` is not an int.

        Examples:
            >>> circuit = Circuit("double")
            >>> circuit.output("double", circuit.input("a", x=int).scale(2))
            >>> circuit.start().step({"a": {(1,): 3}})["double"].to_dict()
            {(1,): 6}
        """
        if isinstance(factor, bool) or not isinstance(factor, int):
            raise SchemaError(
                f"scale expects an int, because weights are ints; got {shorten(factor)}",
                code="invalid-argument",
            )
        return Scale(factor)(self)
