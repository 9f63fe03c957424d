"""Recursive Datalog programs with their data.

Closures, reachability, points-to, same generation, recursion through negation, and GALEN. Every
program has the output `result`; the last two kinds have two outputs. duckdb runs the SQL query of a
program; recursive SQL allows one recursive relation, used once, so not every program has a query.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks.changes import Codes
from benchmarks.graphs import uniform
from benchmarks.workloads import layers

Relations: TypeAlias = dict[str, Codes]

GALEN = "GALEN"


@dataclass(frozen=True)
class Case:
    """A program with its data.

    `base` returns the relations for one of the numbers in `sizes`. With `cut`, the relation `e` is
    a chain with its links in order, which can be cut at any position.
    """

    name: str
    rules: str
    columns: Mapping[str, tuple[str, ...]]
    base: Callable[[int], Relations]
    sizes: Mapping[str, int]
    sql: str = ""
    cut: bool = False
    outputs: tuple[str, ...] = ("result",)


# --- closures and reachability -------------------------------------------------------------------

_EDGE = ".decl e(x: number, y: number)\n.input e\n"
_CLOSURE = _EDGE + ".decl result(x: number, y: number)\n.output result\nresult(x, y) :- e(x, y).\n"
_FORMS = {
    "left-linear": "result(x, z) :- result(x, y), e(y, z).",
    "right-linear": "result(x, z) :- e(x, y), result(y, z).",
    "transitive": "result(x, z) :- result(x, y), result(y, z).",
}
_ODD = "result(x, z) :- result(x, y), e(y, w), result(w, z)."
"""Walks of an odd number of edges: no closure, and each row has many derivations."""
_REACH = _EDGE + ".decl result(x: number)\n.output result\nresult(0).\nresult(y) :- result(x), e(x, y).\n"
_CLOSURE_SQL = """
    WITH RECURSIVE path(x, y) AS (
        SELECT x, y FROM e UNION SELECT path.x, e.y FROM path JOIN e ON path.y = e.x
    )
    SELECT x, y FROM path
"""
_REACH_SQL = """
    WITH RECURSIVE seen(x) AS (
        SELECT CAST(0 AS BIGINT) UNION SELECT e.y FROM seen JOIN e ON seen.x = e.x
    )
    SELECT x FROM seen
"""


def dag(nodes: int) -> Relations:
    """Return the graph of the workload w3dag: components of 250 nodes, deep and narrow."""
    return {"e": layers(nodes)}


def chain(links: int) -> Relations:
    nodes = np.arange(links)
    return {"e": np.column_stack((nodes, nodes + 1))}


def sparse(edges: int) -> Relations:
    """Return a graph with three edges per node, in which nearly every node reaches every other."""
    return {"e": uniform(edges, np.random.default_rng(edges), degree=3)}


# --- points-to -----------------------------------------------------------------------------------

_POINTS_TO = """
.decl new(v: number, o: number)
.decl assign(v: number, w: number)
.decl load(v: number, w: number)
.decl store(v: number, w: number)
.input new, assign, load, store
.decl heap(p: number, o: number)
.decl result(v: number, o: number)
.output result
result(v, o) :- new(v, o).
result(v, o) :- assign(v, w), result(w, o).
result(v, o) :- load(v, w), result(w, p), heap(p, o).
heap(p, o) :- store(v, w), result(v, p), result(w, o).
"""

LOCALS = 12
"""Variables of a method; the first PARAMETERS of them are its parameters."""

PARAMETERS = 3

METHODS = 25
"""Methods of a module."""

MODULE = 1_000
"""Approximate number of statements of a module."""


def statements(count: int) -> Relations:
    """Return about `count` statements of a program: v = new o, v = w, v = *w, *v = w.

    More than half are assignments to a later variable of a method from an earlier one. Some of
    these pass arguments: the number of calls per method follows a power law, so that the parameters
    of a few methods are assigned from everywhere in their module. Modules do not call each other:
    the analysis is context-insensitive, and a few calls between modules would make every pointer
    point to everything.
    """
    chance = np.random.default_rng(count)
    modules = max(1, count // MODULE)
    calls, assigns, news, loads, stores = (int(count * share) for share in (0.08, 0.47, 0.17, 0.14, 0.14))

    def within_methods(number: int) -> Codes:
        method = chance.integers(0, modules * METHODS, number) * LOCALS
        early, late = np.sort(chance.integers(0, LOCALS, (number, 2)), axis=1).T
        return np.column_stack((method + late, method + early))

    module = chance.integers(0, modules, calls) * METHODS
    callee = module + np.minimum(2 * chance.pareto(1.2, calls), METHODS - 1).astype(np.int64)
    caller = module + chance.integers(0, METHODS, calls)
    arguments = np.column_stack(
        (
            callee * LOCALS + chance.integers(0, PARAMETERS, calls),
            caller * LOCALS + chance.integers(0, LOCALS, calls),
        )
    )
    assign = np.concatenate((within_methods(assigns), arguments))
    objects = np.arange(news)
    return {
        "new": np.column_stack((chance.integers(0, modules * METHODS * LOCALS, news), objects)),
        "assign": distinct(assign[assign[:, 0] != assign[:, 1]]),
        "load": distinct(within_methods(loads)),
        "store": distinct(within_methods(stores)),
    }


def distinct(rows: Codes) -> Codes:
    return np.ascontiguousarray(np.unique(rows, axis=0))


# --- same generation -----------------------------------------------------------------------------

_GENERATION = """
.decl up(x: number, a: number)
.decl flat(a: number, b: number)
.decl down(b: number, y: number)
.input up, flat, down
.decl result(x: number, y: number)
.output result
result(x, y) :- flat(x, y).
result(x, y) :- up(x, a), result(a, b), down(b, y).
"""
_GENERATION_SQL = """
    WITH RECURSIVE sg(x, y) AS (
        SELECT a, b FROM flat
        UNION SELECT up.x, down.y FROM sg JOIN up ON up.a = sg.x JOIN down ON down.b = sg.y
    )
    SELECT x, y FROM sg
"""

FAMILY = 120
"""Nodes of a family: a tree, or a dag if some nodes have a second parent."""


def families(nodes: int, *, second: float) -> Relations:
    """Return families with `nodes` nodes in total; a node has three children on average.

    The share `second` of the nodes has a second parent in the generation of the first. `flat`
    relates each root to itself, and each root of an even family to the root of the next family.
    """
    chance = np.random.default_rng(nodes)
    up: list[tuple[int, int]] = []
    roots = np.arange(max(1, nodes // FAMILY)) * FAMILY
    for root in roots.tolist():
        parents, born = [root], 1
        while born < FAMILY:
            children: list[int] = []
            for parent in parents:
                for _ in range(min(int(chance.integers(1, 6)), FAMILY - born)):
                    child = root + born
                    born += 1
                    children.append(child)
                    up.append((child, parent))
                    if chance.random() < second:
                        up.append((child, parents[int(chance.integers(len(parents)))]))
            parents = children
    ways = distinct(np.array(up, np.int64))
    even = roots[:-1:2]
    flat = np.concatenate((np.column_stack((roots, roots)), np.column_stack((even, even + FAMILY))))
    return {"up": ways, "flat": flat, "down": np.ascontiguousarray(ways[:, ::-1])}


# --- recursion through negation ------------------------------------------------------------------

_GAME = """
.pragma "negation" "well-founded"
.decl move(x: number, y: number)
.input move
.decl result(x: number)
.output result
result(x) :- move(x, y), !result(y).
"""
_GUARDED = """
.pragma "negation" "well-founded"
.decl e(x: number, y: number)
.decl guard(x: number, y: number)
.input e, guard
.decl result(x: number)
.output result
result(x) :- e(x, _), x < 10.
result(y) :- result(x), e(x, y), !closed(y).
.decl closed(x: number)
closed(y) :- guard(x, y), result(x).
"""
"""Reach nodes that no reached node closes: each half of the recursion is recursive itself."""


def game(positions: int) -> Relations:
    """Return a graph with two moves per position."""
    return {"move": uniform(2 * positions, np.random.default_rng(positions), degree=2)}


def guarded(nodes: int) -> Relations:
    """Return a graph with three edges per node, in which one node in ten guards another one."""
    chance = np.random.default_rng(nodes)
    edges = uniform(3 * nodes, chance, degree=3)
    return {"e": edges, "guard": distinct(chance.integers(0, edges.max() + 1, (nodes // 10, 2)))}


# --- GALEN ---------------------------------------------------------------------------------------

_GALEN = """
.decl p(x: number, z: number)
.decl q(x: number, r: number, z: number)
.decl c(y: number, w: number, z: number)
.decl r(y: number, u: number, e: number)
.decl s(r: number, q: number)
.decl u(w: number, r: number, z: number)
.input p, q, c, r, s, u
.output p, q
p(x, z) :- p(x, y), p(y, z).
q(x, r, z) :- p(x, y), q(y, r, z).
p(x, z) :- p(y, w), u(w, r, z), q(x, r, y).
p(x, z) :- c(y, w, z), p(x, w), p(x, y).
q(x, q2, z) :- q(x, r, z), s(r, q2).
q(x, e, o) :- q(x, y, z), r(y, u2, e), q(z, u2, o).
"""
_GALEN_COLUMNS = {
    "p": ("x", "z"),
    "q": ("x", "r", "z"),
    "c": ("y", "w", "z"),
    "r": ("y", "u", "e"),
    "s": ("r", "q"),
    "u": ("w", "r", "z"),
}
GALEN_ROWS = (7_560_179, 16_595_494)
"""Rows of p and q in the least model of the ontology."""


def galen(source: Path) -> Case:
    """Return the ontology from a folder or zip file of comma-separated `p.txt`, `q.txt`, ..."""
    return Case(GALEN, _GALEN, _GALEN_COLUMNS, lambda _: read_galen(source), {"": 0}, outputs=("p", "q"))


def read_galen(source: Path) -> Relations:
    return {name: read_numbers(source, f"{name}.txt") for name in _GALEN_COLUMNS}


def read_numbers(source: Path, file: str) -> Codes:
    """Read the numbers of a file in a folder or in a zip file."""
    if source.is_dir():
        return np.loadtxt(source / file, np.int64, delimiter=",", ndmin=2)
    with zipfile.ZipFile(source) as packed:
        name = next((entry for entry in packed.namelist() if Path(entry).name == file), None)
        if name is None:
            raise FileNotFoundError(f"expected {file} in {source}")
        return np.loadtxt(io.BytesIO(packed.read(name)), np.int64, delimiter=",", ndmin=2)


# --- all -----------------------------------------------------------------------------------------

_NODES = {"tiny": 250, "small": 2_000, "medium": 20_000, "large": 50_000}
_LINKS = {"tiny": 20, "small": 200, "medium": 1_000}
_EDGES = {"tiny": 200, "small": 10_000, "medium": 100_000, "large": 1_000_000}
_WALKS = {"tiny": 30, "small": 300, "medium": 1_200, "large": 3_000}
_STATEMENTS = {"tiny": 200, "small": 1_000, "medium": 10_000, "large": 100_000}
_PERSONS = {"tiny": 240, "small": 1_000, "medium": 10_000, "large": 100_000}
_POSITIONS = {"tiny": 60, "small": 1_000, "medium": 10_000, "large": 100_000}
_THREE_VALUED = ("result", "result.undefined")
_E = {"e": ("x", "y")}
_UP = {"up": ("x", "a"), "flat": ("a", "b"), "down": ("b", "y")}
_V = {"new": ("v", "o"), "assign": ("v", "w"), "load": ("v", "w"), "store": ("v", "w")}

W3 = "closure of the dag, left-linear"
"""The name of the case W3."""

CASES = (
    *(
        Case(f"closure of the dag, {form}", _CLOSURE + rule, _E, dag, _NODES, _CLOSURE_SQL)
        for form, rule in _FORMS.items()
    ),
    *(
        Case(
            f"closure of a chain, {form}",
            _CLOSURE + rule,
            _E,
            chain,
            _LINKS,
            _CLOSURE_SQL,
            cut=True,
        )
        for form, rule in _FORMS.items()
    ),
    Case("walks of odd length", _CLOSURE + _ODD, _E, sparse, _WALKS),
    Case("reach along a chain", _REACH, _E, chain, _LINKS | {"large": 10_000}, _REACH_SQL, cut=True),
    Case("reach in a random graph", _REACH, _E, sparse, _EDGES, _REACH_SQL),
    Case("points-to", _POINTS_TO, _V, statements, _STATEMENTS),
    Case(
        "same generation, trees",
        _GENERATION,
        _UP,
        lambda nodes: families(nodes, second=0.0),
        _PERSONS,
        _GENERATION_SQL,
    ),
    Case(
        "same generation, dags",
        _GENERATION,
        _UP,
        lambda nodes: families(nodes, second=0.2),
        _PERSONS,
        _GENERATION_SQL,
    ),
    Case("game", _GAME, {"move": ("x", "y")}, game, _POSITIONS, outputs=_THREE_VALUED),
    Case(
        "guarded reach",
        _GUARDED,
        {"e": ("x", "y"), "guard": ("x", "y")},
        guarded,
        _POSITIONS,
        outputs=_THREE_VALUED,
    ),
)
