"""The condition `where` of a join, whose parts are evaluated on one side where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given

from dbsp import Circuit, Stream, col
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, nullable, rows, small, ticks

X, Y, Z_ = col("x"), col("y"), col("z")
CONDITIONS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "both sides": ((X > 0) & (Z_ < 2) & (X != Z_), lambda x, z: x > 0 and z < 2 and x != z),
    "left": ((X > 0) & (X < 3), lambda x, z: 0 < x < 3),
    "some": ((Z_ > X) & (X > -2), lambda x, z: z > x > -2),
    "either": ((X > 0) | (Z_ > 0), lambda x, z: x > 0 or z > 0),
    "isin": (X.isin([1, 2]) & ~Z_.isin([0]), lambda x, z: x in (1, 2) and z != 0),
}


def joined(c: Circuit) -> dict[str, Stream]:
    a, b = c.input("a", k=int, x=int), c.input("b", k=int, z=int)
    o = c.input("o", k=int, y=int | None)
    streams = {name: a.join(b, on="k", where=where) for name, (where, _) in CONDITIONS.items()}
    streams["nullable"] = a.join(o, on="k", where=(Y > 0) & (X > 0))
    streams["selected"] = (a + a).join(b, on="k", where=(X > 0) & (Z_ > 0) & (X > Z_), select=["k"])
    return streams


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    def pairs(left: Z, right: Z, keep: Callable[[Any, Any], Any], key_only: bool = False) -> Z:
        found: Z = {}
        for (k, x), weight in left.items():
            for (j, z), other in right.items():
                if k == j and keep(x, z):
                    row = (k,) if key_only else (k, x, z)
                    found[row] = found.get(row, 0) + weight * other
        return {row: weight for row, weight in found.items() if weight}

    a, b, o = inputs["a"], inputs["b"], inputs["o"]
    result = {name: pairs(a, b, keep) for name, (_, keep) in CONDITIONS.items()}
    result["nullable"] = pairs(a, o, lambda x, y: y is not None and y > 0 and x > 0)
    result["selected"] = pairs(reference.scale(2, a), b, lambda x, z: x > z > 0, key_only=True)
    return result


@given(ticks({"a": rows(small, small), "b": rows(small, small), "o": rows(small, nullable)}))
def test_equals_the_pairs_that_pass(sequence: list[Tick]) -> None:
    follow(joined, model, sequence)
