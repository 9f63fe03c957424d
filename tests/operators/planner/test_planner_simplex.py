"""Covering programs, compared with scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from dbsp.operators.planner.simplex import least_cover


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[bool]], list[float]]:
    rows, sets = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    members = [[draw(st.booleans()) for _ in range(rows)] for _ in range(sets)]
    for row in range(rows):  # each row is in a set
        members[draw(st.integers(0, sets - 1))][row] = True
    costs = st.floats(0, 40) | st.integers(0, 3).map(float)
    return members, [draw(costs) for _ in range(sets)]


@given(programs())
def test_the_weights_cover_and_cost_least(program: tuple[list[list[bool]], list[float]]) -> None:
    members, costs = program
    weights = least_cover(members, costs)
    assert all(weight >= 0 for weight in weights)
    for row in range(len(members[0])):
        assert sum(weight for weight, has in zip(weights, members, strict=True) if has[row]) >= 1
    has = np.array(members, float).T
    best = linprog(costs, A_ub=-has, b_ub=-np.ones(len(has)), bounds=(0, None), method="highs")
    cost = sum(float(weight) * cost for weight, cost in zip(weights, costs, strict=True))
    assert cost == pytest.approx(best.fun, abs=1e-6)
