"""What the check needs of an engine, and the forms of the Z-sets that cross this border."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

Row = tuple[Any, ...]
Weights = dict[Row, int]
"""A Z-set: by row, its weight, which is not 0."""


class EngineRun(Protocol):
    """An engine that has started, such as `dbsp.Run`.

    If it also has a method `view(name)`, the check compares the contents of each output, too.
    """

    def step(self, changes: Any, /) -> Any:
        """Apply the changes of one tick, and return the changes of the outputs.

        `changes` has, by input, a dict from rows to weights. The result has, by output, a Z-set: a
        dict from rows to weights, an object with a method `to_dict` that returns one, or an
        iterable of rows. An output that is not in the result has not changed.
        """


class Engine(Protocol):
    """An engine to check, such as `dbsp.Circuit` and `dbsp.Program`: `start` begins a new run."""

    def start(self) -> EngineRun: ...


class Refused(Exception):
    """A query raises this for contents of the inputs that the engine must refuse.

    The engine must then raise an error of type `error` and keep its state.
    """

    def __init__(self, error: type[Exception] = Exception) -> None:
        super().__init__(error)
        self.error = error


def weights_of(value: Any) -> Weights:
    """Return the weights of a Z-set in any form; an iterable may repeat a row."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {row: weight for row, weight in value.items() if weight}
    rows: Iterable[Row] = value
    return dict(Counter(rows))


def difference(after: Weights, before: Weights) -> Weights:
    """Return `after` minus `before`."""
    if not before:
        return after
    changed = {row: weight - before.get(row, 0) for row, weight in after.items()}
    changed.update((row, -weight) for row, weight in before.items() if row not in after)
    return {row: weight for row, weight in changed.items() if weight}
