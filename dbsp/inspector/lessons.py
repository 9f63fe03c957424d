"""The lessons of the tour "DBSP, seen": small circuits, each with ticks to apply one by one.

The notebook `docs/tutorial/dbsp-seen.ipynb` has the same circuits and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dbsp.expressions.vocabulary import col
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.multiway_atoms import multiway_join


@dataclass(frozen=True)
class LessonTick:
    """A tick of a lesson, and what to look at before and after it."""

    text: str
    changes: Mapping[str, Mapping[tuple[Any, ...], int]]


@dataclass(frozen=True)
class Lesson:
    """A circuit with what it shows."""

    title: str
    paragraphs: tuple[str, ...]
    circuit: Callable[[], Circuit]
    ticks: tuple[LessonTick, ...]
    end: str
    """What to try after the last tick."""


ORDERS = {
    ("ann", "tea", 4): 1,
    ("ann", "lamp", 30): 1,
    ("bob", "tea", 5): 1,
    ("bob", "desk", 90): 1,
    ("cleo", "pen", 2): 1,
    ("cleo", "lamp", 25): 1,
    ("cleo", "tea", 4): 1,
    ("dan", "desk", 85): 1,
    ("dan", "pen", 3): 1,
    ("eve", "lamp", 28): 1,
}
LOOP = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (2, 5), (6, 7), (7, 8), (8, 6), (1, 9)]
GRAPH = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 3), (5, 6), (6, 4), (2, 4), (4, 1)]


def filtered() -> Circuit:
    """A filter."""
    circuit = Circuit("large orders")
    order = circuit.input("order", who=str, item=str, euro=int)
    circuit.output("large", order.filter(col("euro") >= 25))
    return circuit


def joined() -> Circuit:
    """A join of two relations."""
    circuit = Circuit("towns")
    order = circuit.input("order", who=str, item=str, euro=int)
    lives = circuit.input("lives", who=str, town=str)
    circuit.output("sold", order.join(lives, on=["who"], select=["town", "item"]))
    return circuit


def made_distinct() -> Circuit:
    """A projection, with and without distinct."""
    circuit = Circuit("items")
    item = circuit.input("order", who=str, item=str, euro=int).select("item")
    circuit.output("weights", item)
    circuit.output("items", item.distinct())
    return circuit


def reached() -> Circuit:
    """A recursion, semi-naive by hand."""
    edges = {"x": int, "y": int}
    circuit = Circuit("paths")
    edge = circuit.input("edge", schema=edges, kind="set")
    with circuit.fixpoint("reach") as scope:
        fresh = scope.variable("fresh", edges)
        longer = fresh.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        new = (scope.delta0(edge) + longer).integrate().distinct().differentiate()
        scope.define(fresh, new)
        total = new.integrate()
    circuit.output("path", scope.leave(total))
    return circuit


def triangles() -> Circuit:
    """A join of three relations at once."""
    circuit = Circuit("triangles")
    edge = circuit.input("edge", x=int, y=int, kind="set")
    atoms = [edge("x", "y"), edge("y", "z"), edge("z", "x")]
    circuit.output("triangle", multiway_join(atoms, where=[col("x") < col("y"), col("x") < col("z")]))
    return circuit


LESSONS = (
    Lesson(
        "Changes, and a filter",
        (
            "A Z-set has rows with weights. A change is a Z-set, too: weight 1 inserts a row, weight -1 "
            "retracts it. A circuit takes changes of its inputs, and returns the changes of its outputs.",
            "A filter needs no memory: it filters the change. Such operators are linear, "
            "f(a + b) = f(a) + f(b), and are their own incremental form.",
        ),
        filtered,
        (
            LessonTick("Ten orders arrive. Step, and watch them run to the output.", {"order": ORDERS}),
            LessonTick(
                "The price of ann's lamp falls to 20, and eve buys a desk. Step, then select the filter: "
                "its change has one retraction and one insertion.",
                {"order": {("ann", "lamp", 30): -1, ("ann", "lamp", 20): 1, ("eve", "desk", 80): 1}},
            ),
        ),
        "Edit rows: insert an order of 3 euros. The filter emits nothing, and nothing after it works.",
    ),
    Lesson(
        "A join",
        (
            "A join is linear in each of its inputs, so its change has two terms: "
            "d(a x b) = da x b_old + a_new x db. It needs all rows so far of both sides. Each Arrange "
            "keeps one side, sorted by the columns of the join.",
            "Choose the query circuit above to see the join alone, and the incremental one to see I, the "
            "sum of all changes, and z^-1, a delay of one tick.",
        ),
        joined,
        (
            LessonTick(
                "Ten orders, and the towns of three people. Dan and eve have no town yet.",
                {"order": ORDERS, "lives": {("ann", "Bern"): 1, ("bob", "Bern"): 1, ("cleo", "Lyon"): 1}},
            ),
            LessonTick(
                "Cleo moves to Bern, and dan lives in Lyon. The join finds their five orders in the state "
                "of the other side; it does not look at the rest.",
                {"lives": {("cleo", "Lyon"): -1, ("cleo", "Bern"): 1, ("dan", "Lyon"): 1}},
            ),
        ),
        "Select an Arrange and All rows to see its state. Select the output: (Bern, tea) has weight 3.",
    ),
    Lesson(
        "Distinct",
        (
            "Three orders of tea make the row (tea) with weight 3. Distinct makes a set of it. It is not "
            "linear: whether a change of weight matters depends on the weight before. So it keeps the sum "
            "of its input, and looks up only the rows that changed.",
        ),
        made_distinct,
        (
            LessonTick("Ten orders arrive, of four items.", {"order": ORDERS}),
            LessonTick(
                "One order of tea is retracted, and both orders of pens. Tea is still ordered, so only the "
                "pen leaves the set.",
                {"order": {("ann", "tea", 4): -1, ("cleo", "pen", 2): -1, ("dan", "pen", 3): -1}},
            ),
        ),
        "Compare the outputs weights and items, tick by tick: go back with the arrows above.",
    ),
    Lesson(
        "Recursion",
        (
            "A path is an edge, or a path and one more edge. The circuit has a cycle, and iterates within "
            "a tick until nothing is new. Delta0 feeds the edges into the first iteration only.",
            "I and D inside of the scope work over iterations: only the paths that are new in an iteration "
            "are extended in the next one. That is semi-naive evaluation.",
        ),
        reached,
        (
            LessonTick(
                "Ten edges arrive, with the loop 6, 7, 8. Step, select the scope, and go through the "
                "iterations with the arrows in the corner: each finds paths that are one edge longer.",
                {"edge": dict.fromkeys(LOOP, 1)},
            ),
            LessonTick(
                "The edge (5, 6) goes. What each iteration does not find any more is retracted at that "
                "iteration. Paths with another derivation stay, and the loop does not keep itself alive.",
                {"edge": {(5, 6): -1}},
            ),
        ),
        "Insert the edge (4, 6) and look at the iterations: the paths behind it come back.",
    ),
    Lesson(
        "Three relations at once",
        (
            "Triangles join three copies of the edges. Two joins would first build all paths of length "
            "two. A multi-way join binds one variable after the other: for each binding it takes the "
            "relation with the fewest candidates, and keeps those that the others have, too.",
            "Its change has one term for each relation, and no term stores paths of length two.",
        ),
        triangles,
        (
            LessonTick("Ten edges with four triangles.", {"edge": dict.fromkeys(GRAPH, 1)}),
            LessonTick(
                "One edge goes and two come. One triangle breaks, and new ones close.",
                {"edge": {(3, 1): -1, (6, 1): 1, (1, 5): 1}},
            ),
        ),
        "Retract an edge that is in no triangle: the join reads it, and emits nothing.",
    ),
)
