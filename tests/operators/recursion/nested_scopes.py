"""Comparison of nested scopes with plain loops, and one circuit of two scopes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from dbsp import Circuit, Stream, col
from dbsp.circuit.stage import Stage
from dbsp.runtime.run import Run
from tests.harness import apply_set, view
from tests.reference import Row, Z, minus
from tests.strategies import Tick

X, Y = col("x"), col("y")
PAIR = {"x": int, "y": int}
FAST = (Stage.PHYSICAL,)
ALL = tuple(Stage)


def follow(
    build: Callable[[Circuit], Stream],
    model: Callable[..., Iterable[Row]],
    sequence: list[Tick],
    stages: Iterable[Stage] = FAST,
) -> list[Run]:
    """Step runs of all stages; views and deltas must agree with plain loops over the inputs.

    `model` receives the sets of rows of the inputs in the order of their names.
    """
    runs = []
    for stage in stages:
        circuit = Circuit("test")
        circuit.output("out", build(circuit))
        runs.append(circuit.start(stage))
    inputs: dict[str, Z] = {name: {} for name in sorted(runs[0].inputs)}
    before: Z = {}
    for number, tick in enumerate(sequence, 1):
        for name, delta in tick.items():
            inputs[name] = apply_set(inputs[name], delta)
        after = dict.fromkeys(model(*(set(rows) for rows in inputs.values())), 1)
        for run in runs:
            told = f"tick {number} of {sequence}"
            assert run.step(tick)["out"].to_dict() == minus(after, before), told
            assert view(run) == after, told
        before = after
    return runs


def graph_ticks(nodes: int, edges: int, ticks: int, seed: int, weight: int | None = None) -> list[Tick]:
    """A random graph, then ticks that replace some edges; optionally a third column below
    `weight`."""
    draw = random.Random(seed)

    def edge() -> Row:
        pair = (draw.randrange(nodes), draw.randrange(nodes))
        return pair if weight is None else (*pair, draw.randrange(1, weight))

    present = {edge() for _ in range(edges)}
    sequence: list[Tick] = [{"edge": dict.fromkeys(present, 1)}]
    for _ in range(ticks):
        gone = draw.sample(sorted(present), min(len(present), draw.randint(0, 4)))
        come = {edge() for _ in range(draw.randint(0, 4))} - present - set(gone)
        present = (present - set(gone)) | come
        sequence.append({"edge": dict.fromkeys(gone, -1) | dict.fromkeys(come, 1)})
    return sequence


def closed(pairs: Iterable[Row], step: Iterable[Row]) -> set[Row]:
    """Return all (x, z) with a pair (x, y) and a walk of steps from y to z."""
    found, new = set(pairs), set(pairs)
    while new:
        new = {(x, z) for x, y in new for w, z in step if w == y} - found
        found |= new
    return found


def longer(path: Stream, edge: Stream) -> Stream:
    return path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")


def alternating(circuit: Circuit) -> Stream:
    """Pairs connected by alternating steps: any number of a, then one of b, and so on.

    The inner scope computes the closure under a; the outer scope adds a step of b.
    """
    a, b = (circuit.input(name, schema=PAIR, kind="set") for name in "ab")
    with circuit.fixpoint("turns") as outer:
        start = outer.variable("start", PAIR)
        with outer.fixpoint("steps") as inner:
            found = inner.variable("found", PAIR)
            inner.define(found, (start + a + longer(found, a)).distinct())
        reached = inner.leave(found)
        outer.define(start, longer(reached, b).distinct())
    return outer.leave(reached)


def alternating_model(a: set[Row], b: set[Row]) -> set[Row]:
    start: set[Row] = set()
    while True:
        reached = closed(start | a, a)
        following = {(x, z) for x, y in reached for w, z in b if w == y}
        if following == start:
            return reached
        start = following
