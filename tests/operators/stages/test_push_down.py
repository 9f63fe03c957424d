"""Filters and projections move towards the inputs."""

from __future__ import annotations

from typing import Any

import pytest

from dbsp import col, count, lit
from dbsp.operators.stages.passes.push_filters import push_filters
from dbsp.operators.stages.passes.push_projections import push_projections
from tests.operators.stages.support import PAIR, Build, W, X, Y, Z, after


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda a, b: (a + b).filter(X > 0), "Union(Filter x > 0(a), Filter x > 0(b))"),
        (lambda a, b: (a - b).filter(X > 0), "Minus(Filter x > 0(a), Filter x > 0(b))"),
        (lambda a, b: (-a).filter(X > 0), "Negate(Filter x > 0(a))"),
        (lambda a, b: a.distinct().filter(X > 0), "Distinct(Filter x > 0(a))"),
        (lambda a, b: a.rename(z="x").filter(Z > 0), "Rename(Filter x > 0(a))"),
        (lambda a, b: a.select("y").filter(Y > 0), "Project y(Filter y > 0(a))"),
        (lambda a, b: a.map(z=X + 1, w=Y).filter(W > 0), "Map z = x + 1, w = y(Filter y > 0(a))"),
        (
            lambda a, b: a.group_by("x").agg(n=count()).filter(X > 0),
            "Aggregate n(Project x(Filter x > 0(a)))",
        ),
        (lambda a, b: a.join(b, on=["x"]).filter(Y > 0), "Join(Filter y > 0(a), b)"),
        (lambda a, b: a.join(b, on=["x"]).filter(col("y_right") > 0), "Join(a, Filter y > 0(b))"),
        # Of a conjunction, each condition goes to its side, and the rest stays.
        (
            lambda a, b: a.join(b, on=["x"], where=(Y > 0) & (col("y_right") < 9) & (X > 1)),
            "Join(Filter (y > 0) & (x > 1)(a), Filter y < 9(b))",
        ),
        (
            lambda a, b: a.join(b, on=["x"], where=(col("y_right") > Y) & (Y > 0)),
            "Filter y_right > y(Join(Filter y > 0(a), b))",
        ),
        (
            lambda a, b: a.join(b, on=["x"], where=lit(None, bool) & (Y > 0), select=["x"]),
            "Project x(Filter lit(None, BOOL)(Join(Filter y > 0(a), b)))",
        ),
        (lambda a, b: a.join(b, on=["x"], how="semi").filter(Y > 0), "Semijoin(Filter y > 0(a), b)"),
        (lambda a, b: a.join(b, on=["x"], how="anti").filter(X > 0), "Antijoin(Filter x > 0(a), b)"),
        (lambda a, b: (a + a).filter(X > 0), "Union(Filter x > 0(a), Filter x > 0(a))"),
        (
            lambda a, b: (a.join(b, on=["x", "y"]).distinct() + b).filter(Y > 0),
            "Union(Distinct(Join(Filter y > 0(a), b)), Filter y > 0(b))",
        ),
        (lambda a, b: a.filter(Y > 0).distinct().filter(X > 0), "Distinct(Filter x > 0(Filter y > 0(a)))"),
    ],
)
def test_a_condition_moves_down(build: Build, expected: str) -> None:
    text, changes = after(push_filters, build)
    assert text == expected
    assert len(changes) == 1
    assert changes[0].startswith("Filter moved below ")


@pytest.mark.parametrize(
    "build, expected",
    [
        # it reads a computed column
        (lambda a, b: a.map(z=X + 1, w=Y).filter(Z > 0), "Filter z > 0(Map z = x + 1, w = y(a))"),
        (
            lambda a, b: a.group_by("x").agg(n=count()).filter(col("n") > 0),
            "Filter n > 0(Aggregate n(Project x(a)))",
        ),
        (
            lambda a, b: a.join(b, on=["x"]).filter(col("y_right") > Y),
            "Filter y_right > y(Join(a, b))",
        ),
        (lambda a, b: a.join(b, on=["x"]).filter(lit(True)), "Filter True(Join(a, b))"),
        # another part of the condition may fail, and must still be evaluated for that row
        (
            lambda a, b: a.join(b, on=["x"], where=(lit(4) // col("y_right") > 1) & (Y > 0)),
            "Filter (4 // y_right > 1) & (y > 0)(Join(a, b))",
        ),
        # it may fail for a row that never reaches it
        (lambda a, b: (a + b).filter(X % 2 == 0), "Filter x % 2 == 0(Union(a, b))"),
        (
            lambda a, b: a.join(b, on=["x"]).filter(lit(4) // Y > 1),
            "Filter 4 // y > 1(Join(a, b))",
        ),
        # the map may fail, and must still evaluate that row
        (
            lambda a, b: a.map(z=lit(4) // X, w=Y).filter(W > 2),
            "Filter w > 2(Map z = 4 // x, w = y(a))",
        ),
        # another reader needs all rows
        (lambda a, b: (s := a + b).filter(X > 0) + s, "Union(Filter x > 0(Union(a, b)), Union(a, b))"),
        # time, and opaque functions
        (lambda a, b: a.delay().filter(X > 0), "Filter x > 0(Delay)"),
        (
            lambda a, b: a.flat_map(twice, PAIR).filter(X > 0),
            "Filter x > 0(FlatMap twice(a))",
        ),
        (lambda a, b: a.map(same, PAIR).filter(X > 0), "Filter x > 0(Map same(a))"),
    ],
)
def test_a_condition_stays(build: Build, expected: str) -> None:
    assert after(push_filters, build) == (expected, [])


def twice(row: Any) -> list[Any]:
    return [row, row]


def same(row: Any) -> Any:
    return row


@pytest.mark.parametrize(
    "build, expected, changes",
    [
        (
            lambda a, b: a.join(b, on=["x"], select=["x", "y_right"]),
            "Join(Project x(a), b)",
            ["Join keeps only x: int of its left input"],
        ),
        (
            lambda a, b: a.join(b, on=[("y", "x")], select=["x"]),
            "Join(a, Project x(b))",
            ["Join keeps only x: int of its right input"],
        ),
        (
            lambda a, b: a.join(b, on=[("y", "y")], select=["y"]),
            "Join(Project y(a), Project y(b))",
            ["Join keeps only y: int of its left input", "Join keeps only y: int of its right input"],
        ),
        (
            lambda a, b: (
                a.join(b, on=["x"]) + a.join(b, on=["x", "y"], select=["x", "y", "y_right"])
            ).select("x"),
            "Union(Project x(Join(a, b)), Project x(Join(a, b)))",
            ["Project moved below Union"],
        ),
        (
            lambda a, b: (a.join(b, on=["x"], how="anti") + b).select("x"),
            "Union(Project x(Antijoin(a, b)), Project x(b))",
            ["Project moved below Union"],
        ),
        # b has another reader, which needs all columns
        (
            lambda a, b: a.join(b, on=["x"], select=["x", "y"]) + b,
            "Union(Join(a, b), b)",
            [],
        ),
        # no node below the union can absorb the projection
        (lambda a, b: (a + b).select("x"), "Project x(Union(a, b))", []),
        (lambda a, b: a.join(b, on=["x", "y"]), "Join(a, b)", []),
    ],
)
def test_push_projections(build: Build, expected: str, changes: list[str]) -> None:
    assert after(push_projections, build) == (expected, changes)
