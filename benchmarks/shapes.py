"""Shapes of rules that are slow unless the compiler knows them: time and memory of each.

Every shape is one small program. `plan` is the time from the text to a run: the choice of the plan
and the circuit. `load` is the first tick; for a shape that is planned for its counts, it includes
that plan. `tick` is the median of ticks of one change. Memory is the stored state, and the peak of
the process above its memory before the load.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.graphs import power_law
from benchmarks.recursion import begin_peak, peak_bytes

Rows: TypeAlias = Mapping[str, Any]

TICKS = 30

SHARES = {"tiny": 0.02, "small": 0.1, "medium": 1.0}
"""The sizes, as a factor for the number of rows."""


@dataclass(frozen=True)
class Shape:
    """A shape and its program; `size` is the number of rows of the size medium.

    `rules`, `load` and `changes` depend on the size: the program, its first rows, and one change
    for each tick.
    """

    name: str
    size: int
    rules: Callable[[int], str]
    load: Callable[[int], Rows]
    changes: Callable[[int], Iterator[Rows]]
    counted: bool = False
    """Whether the run starts with the rows and is planned for their counts."""


class Measured(NamedTuple):
    """The figures of a shape: processor seconds, bytes, and the rows of the outputs."""

    shape: Shape
    size: int
    plan: float
    load: float
    tick: float
    state: int
    peak: int
    rows: int


def measure_shapes(share: float, *, ticks: int = TICKS, only: str = "") -> Iterator[Measured]:
    """Yield the figures of every shape, in one process; a small round first loads the kernels."""
    for shape in SHAPES:
        if only in shape.name:
            play(shape, max(40, int(shape.size * SHARES["tiny"] * share)), 3)
            yield play(shape, max(40, int(shape.size * share)), ticks)


def play(shape: Shape, size: int, ticks: int) -> Measured:
    """Return the figures of a shape of a size."""
    load = shape.load(size)
    before = begin_peak()
    began = time.process_time()
    program = dbsp.compile(shape.rules(size))
    run = program.start()
    planned = time.process_time()
    if shape.counted:
        run = program.start(load)
    else:
        run.step(load)
    loaded = time.process_time()
    taken = []
    for _, change in zip(range(ticks), shape.changes(size), strict=False):
        at = time.process_time()
        run.step(change)
        taken.append(time.process_time() - at)
    peak = peak_bytes() - before
    run.compact()
    rows = sum(len(run.view(name)) for name in run.outputs)
    return Measured(
        shape, size, planned - began, loaded - planned, statistics.median(taken), run.state_bytes, peak, rows
    )


def declarations(inputs: str, outputs: str) -> str:
    """Return declarations of relations of numbers, written as `e(x, y) n(x)`."""
    lines = []
    for kind, text in (("input", inputs), ("output", outputs)):
        for declared in text.split(") "):
            name, columns = declared.rstrip(")").split("(")
            typed = ", ".join(f"{column.strip()}: number" for column in columns.split(","))
            lines.append(f".decl {name}({typed})\n.{kind} {name}\n")
    return "".join(lines)


def numbers(count: int, step: int = 1, **more: Callable[[np.ndarray[Any, Any]], Any]) -> pa.Table:
    """Return a table with the column x, the numbers 0, step, ..., and functions of x."""
    x = np.arange(0, count * step, step)
    return pa.table({"x": x} | {name: function(x) for name, function in more.items()})


def flips(relation: str, row: Callable[[int], tuple[int, ...]], every: int) -> Iterator[Rows]:
    """Yield ticks that remove a row and add it again."""
    for number in range(every):
        yield {relation: {row(number): -1}}
        yield {relation: {row(number): 1}}


# --- the shapes -----------------------------------------------------------------------------------


def _independent(size: int) -> str:
    return declarations("c(x) d(x)", "a(x)") + f"a(0). a(x + 1) :- a(x), c(y), d(y), x < {size}."


def _choice_load(size: int) -> Rows:
    side = int(size**0.5)
    pairs = np.indices((side, side)).reshape(2, -1)
    return {"e": pa.table({"x": pairs[0], "y": pairs[1]})}


def _cycle(size: int) -> str:
    body = ", ".join(f"e(x{at}, x{(at + 1) % size})" for at in range(size))
    return declarations("e(x, y)", "r(x, y)") + f"r(x0, x1) :- {body}."


def _intervals(size: int) -> Rows:
    chance = np.random.default_rng(5)
    low = chance.integers(0, 100 * size, size)
    points = numbers(size, 100)
    return {
        "interval": pa.table({"i": np.arange(size), "l": low, "u": low + chance.integers(1, 300, size)}),
        "point": points,
    }


def _edges(size: int) -> np.ndarray[Any, Any]:
    return power_law(size, np.random.default_rng(5))


def _graph(size: int) -> Rows:
    edges = _edges(size)
    return {"e": pa.table({"x": edges[:, 0], "y": edges[:, 1]})}


def _hub_flips(size: int) -> Iterator[Rows]:
    """Yield ticks that change the edges between the nodes of most edges."""
    edges = _edges(size)
    degrees = np.bincount(edges.ravel())
    hubs = edges[np.argsort(-degrees[edges].min(axis=1), kind="stable")].tolist()
    return flips("e", lambda at: tuple(hubs[at]), len(hubs))


SHAPES = (
    Shape(
        "a part that shares no variable, in a recursion",
        40_000,
        _independent,
        lambda size: {"c": numbers(max(2, size // 40)), "d": numbers(max(2, size // 40))},
        lambda size: flips("c", lambda at: (at % 2,), size),
    ),
    Shape(
        "a negation behind a disjunction",
        200_000,
        lambda size: (
            declarations("b(x) c(x) d(x) e(x, y)", "r(x, y)") + "r(x, y) :- (b(x); c(x)), !d(x), e(x, y)."
        ),
        lambda size: {
            "b": numbers(size),
            "c": numbers(size, 2),
            "d": numbers(size // 3, 3),
            "e": numbers(2 * size, y=lambda x: x + 1),
        },
        lambda size: flips("d", lambda at: (3 * at,), size // 3),
    ),
    Shape(
        "a negation of one of two columns",
        200_000,
        lambda size: declarations("e(x, y) d(x, y)", "r(x, y)") + "r(x, y) :- e(x, y), !d(y, _).",
        lambda size: {
            "e": numbers(size, y=lambda x: x // 2),
            "d": numbers(size // 4, 2, y=lambda x: x + 1),
        },
        lambda size: (
            change
            for pair in zip(
                flips("e", lambda at: (at, at // 2), size // 4),
                flips("d", lambda at: (2 * at, 2 * at + 1), size // 4),
                strict=True,
            )
            for change in pair
        ),
    ),
    Shape(
        "a choice with two domains",
        40_000,
        lambda size: (
            declarations("e(x, y)", "m(x, y)").replace(
                ".decl m(x: number, y: number)", ".decl m(x: number, y: number) choice-domain x, y"
            )
            + "m(x, y) :- e(x, y)."
        ),
        _choice_load,
        lambda size: flips("e", lambda at: (at % int(size**0.5),) * 2, size),
    ),
    Shape(
        "a choice with two domains, in a recursion",
        40_000,
        lambda size: (
            declarations("e(x, y)", "m(x, y)").replace(
                ".decl m(x: number, y: number)", ".decl m(x: number, y: number) choice-domain x, y"
            )
            + "m(0, 0) :- e(0, 0). m(x, y) :- m(_, z), e(x, y), y = z + 1."
        ),
        _choice_load,
        lambda size: flips("e", lambda at: (int(size**0.5) - at % 5 - 1,) * 2, size),
    ),
    Shape(
        "a cycle of 105 atoms",
        105,
        _cycle,
        lambda size: {"e": numbers(100, y=lambda x: x + 1)},
        lambda size: flips("e", lambda at: (at, at + 1), 100),
    ),
    Shape(
        "a value between two others",
        100_000,
        lambda size: (
            declarations("interval(i, l, u) point(x)", "hit(i, x)")
            + "hit(i, x) :- interval(i, l, u), point(x), l <= x, x < u."
        ),
        _intervals,
        lambda size: flips("point", lambda at: (100 * (size - 1 - at % size),), size),
    ),
    Shape(
        "values above a threshold",
        200_000,
        lambda size: declarations("row(x) k(y)", "big(x)") + "big(x) :- row(x), k(y), x > y.",
        lambda size: {"row": numbers(size), "k": [(size - 10,)]},
        lambda size: ({"k": {(size - 10 - at % 2,): -1, (size - 11 + at % 2,): 1}} for at in range(size)),
    ),
    Shape(
        "triangles with an order",
        20_000,
        lambda size: (
            declarations("e(x, y)", "t(x, y, z)") + "t(x, y, z) :- e(x, y), e(y, z), e(x, z), x < y, y < z, "
            f"z < x + {size // 20}."
        ),
        _graph,
        _hub_flips,
    ),
    Shape(
        "what a few nodes reach",
        4_000,
        lambda size: (
            declarations("e(x, y) start(x)", "reached(y)")
            + ".decl path(x: number, y: number)\npath(x, y) :- e(x, y). path(x, z) :- e(x, y), path(y, z).\n"
            "reached(y) :- start(x), path(x, y)."
        ),
        lambda size: {
            "e": pa.table({"x": np.arange(size), "y": np.arange(size) + (np.arange(size) % 100 < 99)}),
            "start": [(50,)],
        },
        lambda size: flips("e", lambda at: (at % 50 + 40, at % 50 + 41), size),
        counted=True,
    ),
)
