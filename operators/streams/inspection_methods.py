"""Stream methods that look at a stream, check it, or thin it out; its rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dbsp.circuit import graph
from dbsp.data.zset import ZSet
from dbsp.errors import SchemaError
from dbsp.operators.groups.nonnegative import AssertNonnegative
from dbsp.operators.linear.sample import Sample
from dbsp.operators.linear.scale import Scale
from dbsp.operators.ports.inspect import Inspect
from dbsp.operators.streams.fit import located

S = TypeVar("S", bound="InspectionMethods")


class InspectionMethods(graph.Stream):
    """The methods of a stream that keep its rows and look at them."""

    __slots__ = ()

    @located("Inspect")
    def inspect(self: S, callback: Callable[[ZSet], Any]) -> S:
        """The stream itself; `callback(delta)` is called after every tick that changed it.

        The callback is called for committed ticks only. Inside a fixpoint the delta is that of the
        value at the fixpoint. If the callback raises, `run.step` raises UserFunctionError; the tick
        remains committed. The callback must not step the run.
        """
        return Inspect(callback)(self)

    @located("AssertNonnegative")
    def assert_nonnegative(self: S, name: str) -> S:
        """The stream itself, which must not come to hold a row of negative weight.

        A tick that would leave one is abandoned with InvariantError, which gives `name` and the
        row. Inside a fixpoint the same holds at every iteration. It is checked also if nothing
        reads on.
        """
        return AssertNonnegative(name)(self)

    @located("Sample")
    def sample(self: S, fraction: float, seed: int = 0, *, on: Sequence[str] | None = None) -> S:
        """About `fraction` of the rows, with their weights: those whose hash is low enough.

        The same seed gives the same rows everywhere and always, and a smaller fraction a part of
        those of a larger one. `on` names the columns to go by: rows that agree there are all in the
        sample or all left out, also across streams sampled with one seed.
        """
        if not 0 <= fraction <= 1:
            raise SchemaError(f"a fraction is between 0 and 1, not {fraction!r}")
        columns = tuple(range(self.schema.arity)) if on is None else self.schema.indices(on)
        return Sample(float(fraction), seed, columns)(self)

    @located("Scale")
    def scale(self: S, factor: int) -> S:
        """Every weight times `factor`, an int."""
        if isinstance(factor, bool) or not isinstance(factor, int):
            raise SchemaError(f"weights are ints, so they can be scaled by an int only, not by {factor!r}")
        return Scale(factor)(self)
