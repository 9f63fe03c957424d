"""Sums of weights that fit in 64 bits are never refused, whatever the order of their terms."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, WeightOverflowError, col, multiway_join
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

large = st.sampled_from([INT64_MIN, INT64_MAX, 2**62, -(2**62), 1, -1]) | st.integers(INT64_MIN, INT64_MAX)


def rows_of(size: int, width: int, copies: int) -> Codes:
    """`size` rows, of which the last `copies` are equal and the others decrease."""
    rows = np.zeros((size + copies, width), np.int64)
    rows[:size, -1:] = np.arange(size, 0, -1).reshape(size, 1)
    return rows


@pytest.mark.parametrize(("width", "size"), [(0, 0), (1, 0), (2, 0), (1, 100), (2, 100)])
@given(st.lists(large, min_size=1, max_size=6))
def test_consolidate_is_exact(width: int, size: int, weights: list[int]) -> None:
    rows = rows_of(size, width, len(weights))
    given_weights = np.array([5] * size + weights, np.int64)
    total = sum(weights)
    for order in (np.arange(len(rows)), np.lexsort(rows.T[::-1]) if width else np.arange(len(rows))):
        arguments = rows[order].copy(), given_weights[order]
        if INT64_MIN <= total <= INT64_MAX:
            found_rows, sums = consolidate(*arguments)
            found = dict(zip(map(tuple, found_rows.tolist()), sums, strict=True))
            assert found.get((0,) * width, 0) == total
            assert len(found) == size + (total != 0)
        else:
            with pytest.raises(OverflowError, match="the sum of weights is outside the 64-bit range"):
                consolidate(*arguments)


def multiway(a: Stream) -> Stream:
    keys = a.select("x").distinct()
    return multiway_join([a("x", "y"), keys("x"), keys("x")], select=["x"])


OPERATORS: dict[str, Callable[[Stream], Stream]] = {
    "project": lambda a: a.select("x"),
    "map": lambda a: a.map(x=col("x")),
    "map by a function": lambda a: a.map(lambda row: (row.x,), {"x": int}),
    "flat_map": lambda a: a.flat_map(lambda row: [(row.x,)], {"x": int}),
    "map to a constant": lambda a: a.map(x=col("y") * 0 + 1),
    "multi-way join": multiway,
    "join": lambda a: a.join(a.select("x").distinct(), on=["x"], select=["x"]),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_operators_sum_in_any_order(operator: Callable[[Stream], Stream]) -> None:
    for stage in ("query", "incremental", "physical", "distributed"):
        for weights in sorted({*permutations((2**62, 2**62, -(2**62) + 1))}):
            circuit = Circuit("c")
            circuit.output("out", operator(circuit.input("a", x=int, y=int)))
            run = circuit.start(stage)
            tick = {"a": {(1, at): weight for at, weight in enumerate(weights)}}
            assert run.step(tick)["out"].to_dict() == {(1,): 2**62 + 1}
            with pytest.raises(WeightOverflowError, match="the sum of weights is outside the 64-bit range"):
                run.step({"a": {(1, 9): 2**62}})
            assert run.step({"a": {(1, 9): -1}})["out"].to_dict() == {(1,): -1}


def test_aggregates_sum_in_any_order() -> None:
    """The weights of a value come from several rows and several runs of the trace."""
    for name, aggregate in (("least", col("y").min()), ("greatest", col("y").max())):
        for weights in sorted({*permutations((2**62, 2**62, -(2**62)))}):
            circuit = Circuit("c")
            a = circuit.input("a", x=int, y=int, z=int)
            circuit.output("out", a.group_by("x").agg(y=aggregate))
            run = circuit.start()
            run.step({"a": {(1, 5, at): weight for at, weight in enumerate(weights)}})
            assert run.view("out").rows() == [(1, 5)], name
