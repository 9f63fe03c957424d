"""Fusion of adjacent linear operators."""

from __future__ import annotations

import pytest

from dbsp import col, lit
from dbsp.operators.stages.passes.fuse import fuse
from tests.operators.stages.support import Build, X, Y, Z, after


@pytest.mark.parametrize(
    "build, expected, times",
    [
        (lambda a, b: a.filter(X > 0).filter(Y > 0), "Filter (x > 0) & (y > 0)(a)", 1),
        (
            lambda a, b: a.filter(X > 0).filter(Y > 0).filter(X < Y),
            "Filter (x > 0) & (y > 0) & (x < y)(a)",
            2,
        ),
        # the first of two conditions may fail, the second one must not
        (lambda a, b: a.filter(X % 2 == 0).filter(Y > 0), "Filter (x % 2 == 0) & (y > 0)(a)", 1),
        (lambda a, b: a.map(x=X + 1, y=Y).map(z=X < 2, w=Y), "Map z = x + 1 < 2, w = y(a)", 1),
        (
            lambda a, b: a.map(x=X, y=Y, s=X + Y).map(z=col("s") * 2, w=X * Y),
            "Map z = (x + y) * 2, w = x * y(a)",
            1,
        ),
        (
            lambda a, b: a.distinct().map(z=X + 1).map(w=Z * 2),
            "Map w = (x + 1) * 2(Distinct(a))",
            1,
        ),
    ],
)
def test_successive_linear_operators_are_fused(build: Build, expected: str, times: int) -> None:
    text, changes = after(fuse, build)
    assert text == expected
    assert len(changes) == times
    assert set(changes) <= {"Filter fused with Filter", "Map fused with Map"}


@pytest.mark.parametrize(
    "build, expected",
    [
        # if the first condition is None, `&` still evaluates the second one
        (
            lambda a, b: a.filter(X > 0).filter(lit(6) // X > 2),
            "Filter 6 // x > 2(Filter x > 0(a))",
        ),
        # another reader
        (
            lambda a, b: (s := a.filter(X > 0)).filter(Y > 0) + s,
            "Union(Filter y > 0(Filter x > 0(a)), Filter x > 0(a))",
        ),
        # an expression that would be evaluated twice, and one that would be dropped
        (
            lambda a, b: a.map(x=X, y=Y, s=X + 1).map(z=col("s") * col("s")),
            "Map z = s * s(Map x = x, y = y, s = x + 1(a))",
        ),
        (
            lambda a, b: a.map(x=X, y=Y, s=X + 1).map(z=X < 2),
            "Map z = x < 2(Map x = x, y = y, s = x + 1(a))",
        ),
        # rows that become equal in the first map may cancel before the second map
        (
            lambda a, b: a.map(z=X * 0).map(w=lit(4) // Z),
            "Map w = 4 // z(Map z = x * 0(a))",
        ),
        # `when` evaluates some of the rows only
        (
            lambda a, b: a.map(x=X, y=Y, q=lit(4) // Y).map(z=(X > 5) & (col("q") > 1)),
            "Map z = (x > 5) & (q > 1)(Map x = x, y = y, q = 4 // y(a))",
        ),
        (lambda a, b: a.filter(X > 0).map(z=X + 1), "Map z = x + 1(Filter x > 0(a))"),
    ],
)
def test_operators_that_are_not_fused(build: Build, expected: str) -> None:
    assert after(fuse, build) == (expected, [])
