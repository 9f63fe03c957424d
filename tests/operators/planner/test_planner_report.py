"""The reports about chosen plans."""

from __future__ import annotations

import numpy as np

from dbsp.operators.planner.choose import choose
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.estimate_report import report, show_atom
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from tests.operators.planner.planner_support import query


def test_a_query_by_its_shape() -> None:
    assert list(report(choose(query("ab bc ac cd"), Statistics.none()))) == [
        "cyclic: Graham's reduction leaves 3 atoms",
        "core: e(a, b), e(b, c), e(a, c)",
        "attached to the core: e(c, d) below e(b, c)",
        "at most n^2 rows for n rows each (cover: 1 e(a, b) + 1 e(c, d)); width 1.5",
        "a multi-way join of the core, because two-way joins may create more rows than the largest result; "
        "no row counts for e",
        "[e(a, b), e(b, c), e(a, c)]",
        "  change of e(a, b): c (by the shape of the query)",
        "  change of e(b, c): a (by the shape of the query)",
        "  change of e(a, c): b (by the shape of the query)",
        "([e(a, b), e(b, c), e(a, c)] ⋈ e(c, d))",
    ]


def test_a_query_over_counted_rows() -> None:
    complete = np.array([[a, b] for a in range(10) for b in range(10)])
    lines = list(report(choose(query("ab bc ac"), Statistics({"e": complete}.get), Strategy.WCOJ)))
    assert lines[2] == (
        "at most n^1.5 rows for n rows each, 1,000 for the row counts "
        "(cover: 1/2 e(a, b) + 1/2 e(b, c) + 1/2 e(a, c)); width 1.5"
    )
    assert lines[3] == "a multi-way join, as requested"
    assert lines[4].startswith("multiway: ")
    assert lines[4].endswith("200 rows kept")
    assert lines[5:] == [
        "[e(a, b), e(b, c), e(a, c)]",
        "  1,000 rows expected",
        "  change of e(a, b): c (10 proposed by e(b, c), 10 left)",
        "  change of e(b, c): a (10 proposed by e(a, b), 10 left)",
        "  change of e(a, c): b (10 proposed by e(a, b), 10 left)",
    ]


def test_two_atoms_and_a_projection() -> None:
    rows = np.array([[x, y] for x in range(20) for y in range(30)])
    lines = list(report(choose(query("ab bc", "a"), Statistics({"e": rows}.get))))
    assert lines[:2] == [
        "acyclic: Graham's reduction removes every atom",
        "join tree: e(a, b) below e(b, c); e(b, c) is a root",
    ]
    assert lines[-2:] == ["(e(a, b) ⋈ e(b, c))", "  400 rows expected, 20 after projection"]


def test_one_atom() -> None:
    conjunction = Conjunction((Atom("e", ("a", None, None, "b"), ((1, "x"),), ((0, 2),)),), frozenset("ab"))
    assert show_atom(conjunction.atoms[0]) == "e(a, 'x', a, b)"
    assert list(report(choose(conjunction))) == [
        "acyclic: Graham's reduction removes every atom",
        "at most n^1 rows for n rows each (cover: 1 e(a, 'x', a, b)); width 1",
    ]
