"""Orders by the shape of the query."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp.operators.planner.conjunction import Conjunction
from dbsp.operators.planner.variable_orders import default_orders
from tests.operators.planner.planner_support import conjunctions


@pytest.mark.parametrize(
    ("atoms", "orders"),
    [
        (["ab", "bc", "ac"], ["c", "a", "b"]),
        (
            ["ab", "bc", "cd", "de"],
            ["cde", "ade", "bae", "cba"],
        ),  # a path: each variable is connected to the bound ones
        (["ab", "ac", "ad", "bc", "bd", "cd"], ["cd", "bd", "bc", "ad", "ac", "ab"]),
        # c is in two atoms with a bound variable, d in one: c first, although d is written first.
        (["ab", "ad", "ac", "bc"], ["cd", "bc", "bd", "ad"]),
        # Both are in one atom: the variable that completes its atom is first.
        (["a", "abc", "ad"], ["dbc", "d", "bc"]),
        (["ab", "cd"], ["cd", "ab"]),  # a cross product: no other order exists
    ],
)
def test_default_orders(atoms: list[str], orders: list[str]) -> None:
    assert default_orders(atoms) == tuple(map(tuple, orders))


def test_columns_that_are_not_read() -> None:
    assert default_orders([("a", None), (None, "a", "b")]) == (("b",), ())


@given(conjunctions())
def test_an_order_binds_each_variable_that_no_function_computes(conjunction: Conjunction) -> None:
    atoms = [atom.variables for atom in conjunction.atoms]
    for atom, order in zip(conjunction.atoms, default_orders(atoms, conjunction.functions), strict=True):
        assert len(set(order)) == len(order)
        bound = conjunction.determined(atom.names)
        for name in order:
            assert name not in bound
            near = {
                other
                for one in conjunction.atoms
                if not bound.isdisjoint(one.names)
                for other in one.names
                if other not in bound
            }
            assert name in near or not near
            bound = conjunction.determined({*bound, name})
        assert bound >= set(conjunction.variables)
