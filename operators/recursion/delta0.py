"""delta_0: how a stream of the outer circuit enters a nested scope.

    delta_0(s)[tick, iteration] = s[tick] if iteration = 0 else 0

    tick \\ iteration   0      1   2   ...
    0                  s[0]   0   0
    1                  s[1]   0   0

Read as an integral over iterations, the outer value is simply there in every iteration. (DBSP paper,
arXiv 2203.16684, section 5.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Arranged, Operator, Step
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.kernels.arrays import Codes
from dbsp.runtime.scope import Scope


@dataclass(frozen=True)
class Delta0(Operator):
    """The entering of the `index`-th outer stream of a scope."""

    index: int
    columns: Schema
    is_set: bool
    kept: bool = False

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.is_set

    @property
    def keeps_integral(self) -> bool:
        return self.kept

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        outer = scope.outer_steps[self.index]
        if isinstance(outer, Arranged):
            return ArrangedDelta0Step(outer, self.index, scope)
        return Delta0Step(outer, self.index, scope)


class Delta0Step(Step):
    __slots__ = ("_index", "_outer", "_scope")

    def __init__(self, outer: Step, index: int, scope: Scope) -> None:
        super().__init__()
        self._outer = outer
        self._index = index
        self._scope = scope

    def integral(self) -> Batch:
        return self._outer.integral()

    def step(self) -> None:
        self.out = _entering(self._scope, self._outer, self._index)


def _entering(scope: Scope, outer: Step, index: int) -> Batch | None:
    """What enters at the present iteration: the delta, or all there is when the scope begins anew."""
    if scope.iteration != 0:
        return None
    return outer.out if scope.entering is None else scope.entering[index]


class ArrangedDelta0Step(Arranged):
    """An outer trace read inside: its rows count as iteration 0 here, so none is stored again."""

    __slots__ = ("_index", "_outer", "_scope")

    def __init__(self, outer: Arranged, index: int, scope: Scope) -> None:
        super().__init__()
        self._outer = outer
        self._index = index
        self._scope = scope

    def step(self) -> None:
        self.out = _entering(self._scope, self._outer, self._index)

    def integral(self) -> Batch:
        return self._outer.integral()

    @property
    def before(self) -> int:
        if self._scope.iteration != 0:
            return self._outer.count
        return self._outer.before if self._scope.entering is None else 0

    @property
    def count(self) -> int:
        return self._outer.count

    @property
    def table(self) -> Codes:
        return self._outer.table

    @property
    def coordinates(self) -> int:
        return self._outer.coordinates
