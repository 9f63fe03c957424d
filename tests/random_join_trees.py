"""Random trees of joins as chains of stream methods, and as loops over Z-sets.

A tree is drawn as plain data, so that a failing tree prints and shrinks well. Its columns have
unique names, given by a rename after each join, or keep the names that `join` gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from dbsp import Stream, col
from tests.reference import Row, Z, consolidate
from tests.strategies import Tick, deltas, nullable, words

INPUTS: dict[str, dict[str, Any]] = {
    "a": {"x": int, "y": int},
    "b": {"x": int, "y": int, "s": str},
    "c": {"x": int | None, "y": int},
}
"""The inputs; two of them have only int columns, so that cycles are frequent."""

_SMALL = st.integers(0, 2)
_ROWS = {
    "a": st.tuples(_SMALL, _SMALL),
    "b": st.tuples(_SMALL, _SMALL, words),
    "c": st.tuples(nullable.map(lambda value: value and value % 3), _SMALL),
}
_WEIGHTS = st.sampled_from([1, 1, 1, -1, 2, -3])


def tree_ticks() -> st.SearchStrategy[list[Tick]]:
    """Draw changes of the inputs; some ticks are empty."""
    change = st.fixed_dictionaries(
        {}, optional={name: deltas(row, _WEIGHTS, max_size=7) for name, row in _ROWS.items()}
    )
    return st.lists(change, min_size=1, max_size=4)


@dataclass(frozen=True)
class Joined:
    """A join of an earlier value with another one; columns are numbers.

    `shown` are columns of both sides, `limit` a condition on two of the result, `same` two columns
    of the result that must be equal.
    """

    left: int
    right: int
    on: tuple[tuple[int, int], ...]
    shown: tuple[int, ...]
    limit: tuple[int, int] | None
    same: tuple[int, int] | None


@dataclass(frozen=True)
class JoinTree:
    """Values: the three inputs, then one for each join. The last is the result."""

    joins: tuple[Joined, ...]
    shared: int | None
    """A value that is an output, too."""

    def streams(self, inputs: Mapping[str, Stream]) -> dict[str, Stream]:
        """Return the outputs as streams."""
        values = [inputs[name] for name in INPUTS]
        for number, join in enumerate(self.joins):
            values.append(_stream(join, values[join.left], values[join.right], f"v{number}_"))
        return self._outputs(values)

    def model(self, inputs: Mapping[str, Z]) -> dict[str, Z]:
        """Return the outputs for complete inputs."""
        values = [inputs.get(name, {}) for name in INPUTS]
        widths = [len(columns) for columns in INPUTS.values()]
        for join in self.joins:
            values.append(_joined(join, values[join.left], values[join.right]))
            widths.append(len(join.shown))
        return self._outputs(values)

    def _outputs(self, values: list[Any]) -> dict[str, Any]:
        found = {"out": values[-1]}
        return found if self.shared is None else found | {"shared": values[self.shared]}


def _stream(join: Joined, left: Stream, right: Stream, prefix: str) -> Stream:
    names = [f"{prefix}{at}" for at in range(left.schema.arity + right.schema.arity)]
    one = left.rename(**dict(zip(names, left.schema.names, strict=False)))
    other = right.rename(**dict(zip(names[left.schema.arity :], right.schema.names, strict=True)))
    on = [(one.schema.names[a], other.schema.names[b]) for a, b in join.on]
    pairs = one.join(other, on=on, select=[*one.schema.names, *other.schema.names])
    if join.same is not None:
        first, second = (names[at] for at in join.same)
        pairs = pairs.filter(col(first) == col(second))
    if join.limit is not None:
        low, high = (names[at] for at in join.limit)
        pairs = pairs.filter(col(low) <= col(high))
    return pairs.map(**{names[at]: col(names[at]) for at in join.shown})


def _joined(join: Joined, left: Z, right: Z) -> Z:
    found = []
    for a, weight in left.items():
        for b, other in right.items():
            row = (*a, *b)
            if all(a[i] == b[j] for i, j in join.on) and _holds(join, row):
                found.append((tuple(row[at] for at in join.shown), weight * other))
    return consolidate(found)


def _holds(join: Joined, row: Row) -> bool:
    for pair, test in ((join.same, _equal), (join.limit, _at_most)):
        if pair is not None:
            first, second = (row[at] for at in pair)
            if first is None or second is None or not test(first, second):
                return False
    return True


_equal: Callable[[Any, Any], bool] = lambda first, second: bool(first == second)  # noqa: E731
_at_most: Callable[[Any, Any], bool] = lambda first, second: bool(first <= second)  # noqa: E731


@st.composite
def join_trees(draw: st.DrawFn) -> JoinTree:
    """Draw a tree of two to four joins; most joins continue the latest one."""
    types: list[list[Any]] = [list(columns.values()) for columns in INPUTS.values()]
    joins: list[Joined] = []
    for _ in range(draw(st.integers(2, 4))):
        latest = len(types) - 1
        left = latest if latest > 2 else draw(st.integers(0, 2))
        right = draw(st.sampled_from([0, 0, 1, 2, draw(st.integers(0, latest))]))
        ints = [[at for at, one in enumerate(types[side]) if one is not str] for side in (left, right)]
        most = min(2, *map(len, ints))
        on = [*zip(*(draw(st.permutations(side))[:most] for side in ints), strict=True)]
        if most > 1 and (not joins or draw(st.integers(0, 3)) == 0):
            on.pop()  # one key column continues a path; two of different atoms close a cycle
        if str in types[left] and str in types[right] and draw(st.booleans()):
            on.append((types[left].index(str), types[right].index(str)))
        both = types[left] + types[right]
        keys = {len(types[left]) + key for _, key in on}
        shown = [at for at in range(len(both)) if at not in keys]
        if draw(st.integers(0, 3)) == 0:
            shown = draw(st.lists(st.sampled_from(range(len(both))), min_size=1, max_size=6, unique=True))
        numbers = [at for at, one in enumerate(both) if one is not str]
        pair = st.none() | st.none()
        if numbers:
            pair |= st.tuples(st.sampled_from(numbers), st.sampled_from(numbers))
        joins.append(Joined(left, right, tuple(on), tuple(shown), draw(pair), draw(pair)))
        types.append([both[at] for at in shown])
    shared = draw(st.none() | st.none() | st.integers(3, len(types) - 2)) if len(types) > 4 else None
    return JoinTree(tuple(joins), shared)
