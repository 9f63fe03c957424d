"""The gain of each rewriting of rules: a program that it suits, with and without it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.changes import Codes
from benchmarks.contest import net
from benchmarks.graphs import Churn, power_law, uniform
from benchmarks.planner import Tick, seconds

_EDGES = ".decl e(x: number, y: number)\n.input e\n.decl out(x: number, y: number)\n.output out\n"
_REACH = ".decl path(x: number, y: number)\npath(x, y) :- e(x, y).\n"


def components(edges: int, chance: np.random.Generator, *, size: int = 20) -> Codes:
    """Return edges within groups of nodes, so that a node reaches few others."""
    found = uniform(edges, chance, degree=2)
    found[:, 1] = found[:, 0] // size * size + found[:, 1] % size
    found = np.unique(found[found[:, 0] != found[:, 1]], axis=0)
    return np.ascontiguousarray(found)


GRAPHS: dict[str, Callable[[int, np.random.Generator], Codes]] = {
    "sparse": lambda edges, chance: uniform(edges, chance, degree=2),
    "power law": power_law,
    "components": components,
}


@dataclass(frozen=True)
class Case:
    """A rewriting and a program; `others` are the rewritings of both runs."""

    rewriting: str
    what: str
    rules: str
    graph: str
    edges: int
    others: tuple[str, ...] = ()
    on_demand: bool = False
    """Whether relations are on demand in both runs."""


_HOP = ".decl hop(x: number, y: number, z: number)\nhop(x, y, z) :- e(x, y), e(y, z).\n"
_SAME = (
    ".decl same(x: number, y: number)\nsame(x, x) :- e(x, _).\nsame(x, y) :- e(x, p), same(p, q), e(y, q).\n"
)

CASES = (
    Case(
        "propagate_constants",
        "two edges and back",
        "out(x, y) :- e(x, y), e(z, w), y = z, w = x.",
        "power law",
        20_000,
    ),
    Case(
        "drop_dead",
        "a rule that never holds",
        ".decl never(x: number)\nnever(x) :- never(y), e(x, y).\n"
        "out(x, y) :- e(x, y), e(y, x). out(x, z) :- e(x, y), e(y, z), e(z, w), never(w).",
        "power law",
        20_000,
    ),
    Case(
        "specialise",
        "closure from a node",
        _REACH + "path(x, z) :- path(x, y), e(y, z).\nout(1, y) :- path(1, y).",
        "components",
        20_000,
    ),
    Case(
        "inline_once",
        "two edges from the sources of a node",
        _HOP + "out(x, z) :- hop(x, _, z), e(x, 1).",
        "power law",
        20_000,
    ),
    Case(
        "factor",
        "a negation behind a disjunction",
        "out(x, y) :- (e(x, 1); e(x, 2); e(1, x); e(x, x)), !e(2, x), e(x, y).",
        "power law",
        20_000,
    ),
    Case(
        "separate",
        "edges, if there is a triangle",
        "out(x, y) :- e(x, y), x < 10, e(a, b), e(b, c), e(c, a), a < 5.",
        "power law",
        2_000,
    ),
    Case(
        "share",
        "paths of three edges",
        "out(x, w) :- e(x, y), e(y, z), e(z, w), w < 100.\nout(a, d) :- e(c, d), e(b, c), e(a, b), d > 1000.",
        "sparse",
        5_000,
    ),
    Case(
        "linearise",
        "closure by pairs of paths",
        _REACH + "path(x, z) :- path(x, y), path(y, z).\nout(x, y) :- path(x, y).",
        "components",
        20_000,
    ),
    Case(
        "choose_demand",
        "closure from two nodes",
        _REACH + "path(x, z) :- path(x, y), e(y, z).\nout(1, y) :- path(1, y).\nout(2, y) :- path(2, y).",
        "components",
        20_000,
    ),
    Case(
        "demand",
        "closure from the ends of a node",
        _REACH + "path(x, z) :- e(x, y), path(y, z).\nout(x, y) :- e(1, x), path(x, y).",
        "components",
        20_000,
    ),
    Case(
        "reverse_recursion",
        "closure from two nodes, right-linear",
        _REACH + "path(x, z) :- e(x, y), path(y, z).\nout(1, y) :- path(1, y).\nout(2, y) :- path(2, y).",
        "sparse",
        2_000,
        on_demand=True,
    ),
    Case(
        "reverse_recursion",
        "cycles that a node reaches",
        ".decl loop(x: number, y: number)\nloop(x, y) :- e(x, y), e(y, x).\n"
        "loop(x, z) :- e(x, y), loop(y, z).\nout(1, y) :- loop(1, y).",
        "power law",
        20_000,
        on_demand=True,
    ),
    Case("demand", "same generation as a node", _SAME + "out(1, y) :- same(1, y).", "components", 5_000),
)

SHARES = {"tiny": 0.02, "small": 0.1, "medium": 1.0, "large": 2.0}


class Figures(NamedTuple):
    """Processor seconds of the load and of the median tick of one change; stored rows and bytes."""

    load: float
    tick: float
    rows: int
    bytes: int


@dataclass(frozen=True)
class Rewritten:
    """The figures of a case with its rewriting and without it."""

    case: Case
    edges: int
    with_it: Figures
    without: Figures

    @property
    def ratios(self) -> tuple[float, ...]:
        """The figures with the rewriting divided by those without it."""
        return tuple(a / max(b, 1e-9) for a, b in zip(self.with_it, self.without, strict=True))


def measure_rewrites(
    share: float, *, ticks: int = 100, repeat: int = 3, only: str = ""
) -> Iterator[Rewritten]:
    """Measure every case: the minimum of several rounds with and without the rewriting."""
    for case in CASES:
        if only in f"{case.rewriting}, {case.what}":
            edges = max(40, int(case.edges * share))
            chance = np.random.default_rng(edges)
            base = GRAPHS[case.graph](edges, chance)
            churn = Churn(base, case.what, own=True)
            changes = [net(churn.tick(1)) for _ in range(ticks)]
            yield compared(case, base, changes, repeat)


def compared(case: Case, base: Codes, changes: Sequence[Tick], repeat: int) -> Rewritten:
    """Return the minimum figures of both runs; raise ValueError if their results differ."""
    played: dict[bool, list[Figures]] = {True: [], False: []}
    found = {}
    for _ in range(1 + repeat):  # the first round compiles kernels and is not counted
        for on in played:
            figures, found[on] = play(case, on, base, changes)
            played[on].append(figures)
    if found[True] != found[False]:
        raise ValueError(f"{case.rewriting} changes the result of {case.what}")
    least = {on: Figures(*map(min, zip(*figures[1:], strict=True))) for on, figures in played.items()}
    return Rewritten(case, len(base), least[True], least[False])


def play(case: Case, on: bool, base: Codes, changes: Sequence[Tick]) -> tuple[Figures, dbsp.ZSet]:
    """Return the figures and the result."""
    magic = on if case.rewriting == "demand" else case.on_demand or None
    names = (*case.others, *((case.rewriting,) if on and case.rewriting != "demand" else ()))
    run = dbsp.compile(_EDGES + case.rules, rewrites=names, magic=magic).start()
    table = pa.table({"x": base[:, 0], "y": base[:, 1]})
    began = time.process_time()
    run.step({"e": table})
    load = time.process_time() - began
    tick = statistics.median(seconds(run, list(changes)))
    run.compact()
    return Figures(load, tick, run.state_rows, run.state_bytes), run.view("out")
