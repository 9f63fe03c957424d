"""Transitive closures in several forms, as circuits and as plain iteration."""

from __future__ import annotations

from collections.abc import Callable

from dbsp import Circuit, Run, Stream
from tests import reference
from tests.harness import apply_set, view
from tests.reference import Z, add, distinct, minus
from tests.strategies import Tick, rows, set_ticks, small

EDGE = {"x": int, "y": int}
PAIR = rows(small, small)
SETS = set_ticks({"edge": PAIR}, max_ticks=9)


def compose(a: Z, b: Z) -> Z:
    return reference.join(a, b, [(1, 0)], [(0, 0), (1, 1)])


def then(a: Stream, b: Stream) -> Stream:
    """x -> z where a has x -> y and b has y -> z."""
    return a.join(b, on=[(a.schema.names[1], b.schema.names[0])], select=["x", "y_right"]).rename(y="y_right")


def edges(c: Circuit, kind: str = "set") -> Stream:
    return c.input("edge", schema=EDGE, kind=kind)


def closure(c: Circuit, e: Stream, step: Callable[[Stream, Stream], Stream], name: str = "closure") -> Stream:
    """The least p with p = distinct(e + step(p, e))."""
    with c.fixpoint(name) as scope:
        p = scope.variable("p", EDGE)
        scope.define(p, (e + step(p, e)).distinct())
    return scope.leave(p)


STEPS: dict[str, Callable[[Stream, Stream], Stream]] = {
    "right linear": lambda p, e: then(p, e),
    "left linear": lambda p, e: then(e, p),
    "non-linear": lambda p, e: then(p, p),
    "both linear": lambda p, e: then(p, e) + then(e, p),
    "cubic": lambda p, e: then(then(p, p), p) + then(p, p),
}


def started(step: str, mode: str = "auto", most: int = 1000, kind: str = "set") -> Run:
    """Start a circuit with the closure of its edges, defined by one of STEPS."""
    circuit = Circuit("test")
    edge = circuit.input("edge", schema=EDGE, kind=kind)
    with circuit.fixpoint("closure", recursion=mode, max_iterations=most) as scope:
        path = scope.variable("path", EDGE)
        scope.define(path, (edge + STEPS[step](path, edge)).distinct())
    circuit.output("out", scope.leave(path))
    return circuit.start()


def expect_recomputation(run: Run, sequence: list[Tick]) -> None:
    """Compare every delta and view of a run of `started` with the closure from scratch."""
    edges: Z = {}
    before: Z = {}
    for tick in sequence:
        edges = apply_set(edges, tick.get("edge", {}))
        after = reachable(edges)
        assert run.step(tick)["out"].to_dict() == minus(after, before)
        assert view(run) == after
        before = after


def chain(start: int, stop: int) -> list[tuple[int, int]]:
    return [(x, x + 1) for x in range(start, stop - 1)]


def closure_of(start: int, stop: int) -> Z:
    """The closure of a chain."""
    return {(x, y): 1 for x in range(start, stop) for y in range(x + 1, stop)}


def reachable(e: Z) -> Z:
    return reference.fixpoint(lambda x: {"p": distinct(add(e, compose(x["p"], e)))}, ["p"])["p"]
