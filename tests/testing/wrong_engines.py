"""Engines with one known error each, for the query that copies the bag `a` to `b`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbsp.testing.checked_engine import Weights, difference

Tick = Mapping[str, Weights]


def copied(inputs: Mapping[str, Weights]) -> dict[str, Weights]:
    """The query that the engines claim to compute."""
    return {"b": inputs["a"]}


class Copy:
    """The right engine; others change one of its methods."""

    def __init__(self) -> None:
        self.contents: Weights = {}

    @classmethod
    def start(cls) -> Any:
        return cls()

    def step(self, tick: Tick) -> dict[str, Weights]:
        delta = self.delta(tick.get("a", {}))
        self.contents = difference(self.contents, {row: -weight for row, weight in delta.items()})
        return {"b": delta} if delta else {}

    def delta(self, change: Weights) -> Weights:
        return change

    def view(self, name: str) -> Weights:
        return self.contents


class CopyWithoutViews(Copy):
    view = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "view":
            raise AttributeError(name)
        return super().__getattribute__(name)


class IgnoresDeletions(CopyWithoutViews):
    def delta(self, change: Weights) -> Weights:
        return {row: weight for row, weight in change.items() if weight > 0}


class CountsOnce(CopyWithoutViews):
    def delta(self, change: Weights) -> Weights:
        return {row: 1 if weight > 0 else -1 for row, weight in change.items()}


class DropsTheThirdRow(CopyWithoutViews):
    """Wrong for ticks of three rows only."""

    def delta(self, change: Weights) -> Weights:
        return dict(list(change.items())[:2])


class RepeatsInEmptyTicks(CopyWithoutViews):
    def __init__(self) -> None:
        super().__init__()
        self.last: Weights = {}

    def delta(self, change: Weights) -> Weights:
        self.last = change or self.last
        return self.last


class Raises(Copy):
    def delta(self, change: Weights) -> Weights:
        if (2, 2) in self.contents and (1, 1) in change:
            raise KeyError("lost")
        return change


class ShowsAnOldView(Copy):
    def view(self, name: str) -> Weights:
        return {row: weight for row, weight in self.contents.items() if row != (2, 2)}


class StartsWithARow(Copy):
    def __init__(self) -> None:
        self.contents = {(9, 9): 1}


class Forgetful(Copy):
    """It fails in its first run only, as an engine with a race does."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1

    def delta(self, change: Weights) -> Weights:
        return {} if type(self).runs == 1 else change
