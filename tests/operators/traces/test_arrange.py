"""Arrangements: one trace per stream and column order, shared by all its readers."""

from __future__ import annotations

from hypothesis import given

from dbsp import Circuit, Stream, col, count
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z
from tests.strategies import Tick, rows, set_ticks, small, ticks

TRIPLE = rows(small, small, small)
COLUMNS = {"x": int, "y": int, "z": int}


def readers(c: Circuit) -> dict[str, Stream]:
    """All kinds of readers of one stream, by different keys."""
    a, b = c.input("a", schema=COLUMNS), c.input("b", schema=COLUMNS)
    return {
        "xy": a.join(b, on=["x", "y"], select=["z", "z_right"]),
        "yx": b.join(a, on=["y", "x"], select=["z", "z_right"]),
        "x": a.join(b, on=["x"], select=["y", "z_right"]),
        "zx": a.join(b, on=[("z", "x")], select=["y", "z_right"]),
        "crossed": a.join(b, on=[("x", "y"), ("y", "x")], select=["z", "z_right"]),
        "product": a.join(b, on=[], select=["x", "z_right"]),
        "semi": a.join(b, on=["y"], how="semi"),
        "anti": a.join(b, on=["z", "x"], how="anti"),
        "distinct": a.distinct(),
        "ends": a.group_by("y").agg(low=col("z").min(), high=col("x").max(), n=count()),
        "self": a.join(a, on=[("x", "z")], select=["y", "y_right"]),
        "all": a,
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a, b = inputs["a"], inputs["b"]
    return {
        "xy": reference.join(a, b, [(0, 0), (1, 1)], [(0, 2), (1, 2)]),
        "yx": reference.join(b, a, [(0, 0), (1, 1)], [(0, 2), (1, 2)]),
        "x": reference.join(a, b, [(0, 0)], [(0, 1), (1, 2)]),
        "zx": reference.join(a, b, [(2, 0)], [(0, 1), (1, 2)]),
        "crossed": reference.join(a, b, [(0, 1), (1, 0)], [(0, 2), (1, 2)]),
        "product": reference.join(a, b, [], [(0, 0), (1, 2)]),
        "semi": reference.semijoin(a, b, [(1, 1)]),
        "anti": reference.antijoin(a, b, [(2, 2), (0, 0)]),
        "distinct": reference.distinct(a),
        "ends": reference.aggregate(
            a, [1], [(reference.least, 2), (reference.largest, 0), (reference.count, None)]
        ),
        "self": reference.join(a, a, [(0, 2)], [(0, 1), (1, 1)]),
        "all": a,
    }


@given(ticks({"a": TRIPLE, "b": TRIPLE}))
def test_readers_of_every_kind_agree(sequence: list[Tick]) -> None:
    follow(readers, model, sequence)


def test_few_orders_serve_all_readers() -> None:
    run = start(readers)
    orders = [
        node.label
        for node in run.graph.walk()
        if node.label.startswith("Arrange") and node.inputs[0].node.label == "Input a"
    ]
    assert len(orders) == len(set(orders)) <= 5


def test_a_deletion_is_found_in_every_order() -> None:
    run = start(readers)
    run.step({"a": [(1, 2, 3), (3, 2, 1)], "b": [(1, 2, 3)]})
    run.step({"a": {(1, 2, 3): -1, (3, 2, 1): -1}})
    assert {name for name in run.outputs if view(run, name)} == set()
    run.step({"b": {(1, 2, 3): -1}})
    run.compact()
    assert run.state_rows == 0 and run.state_bytes == 0


@given(set_ticks({"a": TRIPLE, "b": TRIPLE}, max_ticks=6))
def test_readers_of_several_orders_inside_a_scope(sequence: list[Tick]) -> None:
    """A variable read by four keys, an outer stream by three, with the keys in different orders."""

    def build(c: Circuit) -> Stream:
        a, b = c.input("a", schema=COLUMNS, kind="set"), c.input("b", schema=COLUMNS, kind="set")
        with c.fixpoint("orders") as scope:
            v = scope.variable("v", COLUMNS)
            parts = [
                v.join(a, on=[("x", "y"), ("y", "x")], select=["x", "y", "z_right"]),
                v.join(a, on=[("z", "x"), ("x", "z")], select=["z", "y", "y_right"]),
                v.join(v, on=[("y", "z"), ("z", "y")], select=["x", "x_right", "z"]),
                v.join(b, on=[("z", "z")], select=["y", "z", "x_right"]),
                v.join(b, on=[("y", "x"), ("x", "y")], how="semi").map(x=col("z"), y=col("x"), z=col("y")),
            ]
            shaped = [
                part.map(**dict(zip("xyz", map(col, part.schema.names), strict=True))) for part in parts
            ]
            scope.define(v, b.union(*shaped).distinct())
        return scope.leave(v)

    def model(inputs: dict[str, Z]) -> Z:
        a, b = inputs["a"], inputs["b"]

        def body(now: dict[str, Z]) -> dict[str, Z]:
            v = now["v"]
            return {
                "v": reference.distinct(
                    reference.add(
                        b,
                        reference.join(v, a, [(0, 1), (1, 0)], [(0, 0), (0, 1), (1, 2)]),
                        reference.join(v, a, [(2, 0), (0, 2)], [(0, 2), (0, 1), (1, 1)]),
                        reference.join(v, v, [(1, 2), (2, 1)], [(0, 0), (1, 0), (0, 2)]),
                        reference.join(v, b, [(2, 2)], [(0, 1), (0, 2), (1, 0)]),
                        reference.project(reference.semijoin(v, b, [(1, 0), (0, 1)]), [2, 0, 1]),
                    )
                )
            }

        return reference.fixpoint(body, ["v"])["v"]

    follow(build, model, sequence, sets={"a", "b"})
