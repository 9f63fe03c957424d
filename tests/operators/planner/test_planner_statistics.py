"""The statistics, compared with counts by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.statistics import SAMPLE, Degree, FanOut, Statistics
from tests.operators.planner.planner_support import conjunctions, graph, joined, relations


@given(conjunctions(), relations())
def test_counts_of_an_atom(conjunction: Conjunction, data: dict[str, Codes]) -> None:
    counted = Statistics(data.get, encode=lambda relation, column, value: value)
    for index, atom in enumerate(conjunction.atoms):
        found = joined(conjunction, data, [index])
        assert counted.matching(atom) == len(found)
        rows = [
            row
            for row in data[atom.relation].tolist()
            if all(row[c] == v for c, v in atom.fixed) and all(row[a] == row[b] for a, b in atom.equal)
        ]
        total = len(data[atom.relation])
        assert counted.selectivity(atom) == pytest.approx(len(rows) / total if total else 1)
        for given_ in atom.names:
            under = Counter(
                row[[n for n in conjunction.variables if n in atom.names].index(given_)] for row in found
            )
            mean = len(found) / len(under) if under else 0.0
            degree = counted.degree(atom, [given_], [name for name in atom.names if name != given_])
            assert degree == Degree(pytest.approx(mean), max(under.values(), default=0))


@given(relations())
def test_distinct_prefixes(data: dict[str, Codes]) -> None:
    counted = Statistics(data.get)
    for columns in [(), (0,), (1,), (2, 0), (0, 1, 2)]:
        assert counted.distinct("r3", columns) == len({tuple(row) for row in data["r3"][:, columns].tolist()})


def test_fan_out_has_a_direction() -> None:
    orders = np.array([[order, order % 10] for order in range(500)])
    customers = np.array([[customer, customer * 7] for customer in range(20)])
    counted = Statistics({"orders": orders, "customers": customers}.get)
    order, customer = Atom("orders", ("o", "c")), Atom("customers", ("c", "r"))
    assert counted.fan_out(order, customer) == FanOut(1.0, 1.0)
    assert counted.fan_out(customer, order) == FanOut(25.0, 0.5)


def test_fan_out_of_many_rows_is_sampled() -> None:
    edges = graph(2_000, 40_000, 0.3)
    out = Counter(edges[:, 0].tolist())
    wedges = sum(out[end] for end in edges[:, 1].tolist())
    a, b = Atom("e", ("a", "b")), Atom("e", ("b", "c"))
    found = Statistics({"e": edges}.get).fan_out(a, b)
    assert found is not None
    assert len(edges) > 10 * SAMPLE
    assert found.mean == pytest.approx(wedges / len(edges), rel=0.15)
    assert found == Statistics({"e": edges}.get).fan_out(a, b)  # the same sample every time


def test_constants() -> None:
    rows = np.array([[1, 10], [1, 20], [2, 10], [3, 10]])
    atom = Atom("r", (None, "x"), ((0, "one"),))
    codes = {"one": 1, "two": 2}
    exact = Statistics({"r": rows}.get, encode=lambda relation, column, value: codes.get(value))
    assert (exact.matching(atom), exact.selectivity(atom)) == (2.0, 0.5)
    assert exact.matching(Atom("r", (None, "x"), ((0, "nowhere"),))) == 0.0
    # Without codes, a constant has the mean frequency of the values of its column.
    assert Statistics({"r": rows}.get).selectivity(atom) == pytest.approx(1 / 3)


def test_rows_are_read_once_and_only_if_needed() -> None:
    asked: list[str] = []

    def source(relation: str) -> Codes:
        asked.append(relation)
        return np.zeros((3, 2), np.int64)

    counted = Statistics(source)
    assert asked == []
    assert (counted.rows("r"), counted.distinct("r", (0,)), counted.rows("r")) == (3.0, 1.0, 3.0)
    assert asked == ["r"]


def test_an_unknown_relation_has_no_statistics() -> None:
    counted = Statistics.none()
    a, b = Atom("r", ("x",)), Atom("s", ("x",))
    found = [counted.rows("r"), counted.distinct("r", (0,)), counted.matching(a), counted.selectivity(a)]
    assert [*found, counted.degree(a, ["x"], []), counted.fan_out(a, b)] == [None] * 6
    assert not counted.knows("r")
