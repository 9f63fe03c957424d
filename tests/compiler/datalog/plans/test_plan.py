"""The order of evaluation of single rules, as `explain` shows it."""

from __future__ import annotations

import re

import pytest

import dbsp

RELATIONS = """
.decl e(x: number, y: number)  .decl t(x: number, y: number, z: number)  .decl n(x: number)  .decl flag()
.decl o(x: number)  .decl oo(x: number, y: number)
.output o, oo
"""


def steps(rule: str) -> list[str]:
    """Return the numbered steps of one rule."""
    report = dbsp.compile(RELATIONS + rule).explain()
    return re.findall(r"^ +\d+\. (.*)$", report, re.MULTILINE)


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        # The scan with the most constants starts; then connected scans, in any order of the body.
        (
            "o(z) :- e(x, y), n(w), t(1, 2, x), e(y, z), e(z, w).",
            [
                "scan t(1, 2, x)",
                "join e(x, y) on x",
                "join e(y, z) on y",
                "join e(z, w) on z",
                "join n(w) on w",
            ],
        ),
        # Then a scan whose columns are all used; of e only the existence of a row matters.
        ("oo(y, z) :- e(y, _), t(y, z, z).", ["scan t(y, z, z)", "join e(y, _) on y"]),
        ("oo(y, z) :- e(y, _), e(y, z).", ["scan e(y, z)", "join e(y, _) on y"]),
        ("oo(x, z) :- e(x, y), e(y, z), n(z).", ["scan e(x, y)", "join e(y, z) on y", "join n(z) on z"]),
        # A cross product comes last.
        (
            "oo(x, z) :- n(x), n(z), e(x, y), flag().",
            [
                "scan n(x)",
                "join e(x, y) on x",
                "keep all rows if there is a row flag()",
                "cross product with n(z)",
            ],
        ),
        # Conditions as soon as their variables are bound, then negation, then the next scan.
        (
            "o(z) :- e(x, y), e(y, z), !n(y), x < y, z != 3.",
            [
                "scan e(x, y)",
                "keep rows with x < y",
                "keep rows without n(y)",
                "join e(y, z) on y",
                "keep rows with z != 3",
            ],
        ),
        # An equation binds its unbound side, which may then be used by a join.
        (
            "o(z) :- e(x, y), x + y = v, e(v, z), z = w + 1, w = 2 * v.",
            [
                "scan e(x, y)",
                "let v = x + y",
                "let w = 2 * v",
                "let z = w + 1",
                "join e(v, z) on v, z",
            ],
        ),
        # An equation with a constant moves the constant into the atom.
        ("o(y) :- e(x, y), x = 3.", ["scan e(3, y)"]),
        # Repeated variables and expressions as arguments.
        (
            "o(x) :- t(x, x, _), e(x + 1, x), !t(x, _, x).",
            [
                "scan t(x, x, _)",
                "keep rows without t(x, _, x)",
                "let #1 = x + 1",
                "join e(#1, x) on #1, x",
            ],
        ),
        # A function that may have no value is evaluated after all other literals.
        (
            "oo(x, z) :- e(x, y), z = x / y, 10 % y > 1, n(x), y != 0, !n(y).",
            [
                "scan e(x, y)",
                "keep rows with y != 0",
                "keep rows without n(y)",
                "join n(x) on x",
                "keep rows with 10 % y > 1",
                "let z = x / y",
            ],
        ),
        # ... but before a cross product.
        (
            "o(w) :- e(x, y), z = x / y, e(z, w).",
            ["scan e(x, y)", "let z = x / y", "join e(z, w) on z"],
        ),
        # An aggregate that binds its outer variables itself is evaluated once for all groups.
        (
            "oo(x, c) :- n(x), c = sum y * 2 : { e(x, y), y > 1 }.",
            [
                "scan n(x)",
                "let #1 = sum y * 2 per x (0 for no rows) over: scan e(x, y); keep rows with y > 1",
                "let c = #1",
            ],
        ),
        # An aggregate that only compares them starts from the values found so far.
        (
            "oo(x, c) :- n(x), c = count : { e(_, y), y < x }.",
            [
                "scan n(x)",
                "let #1 = count per x, for the values found so far (0 for no rows) over: "
                "range join e(_, y) with y < x",
                "let c = #1",
            ],
        ),
        ("o(c) :- c = count : { n(_) }.", ["let #1 = count (0 for no rows) over: scan n(_)", "let c = #1"]),
        # Aggregates over the same rows are computed together, with any variable names.
        (
            "oo(n, s) :- n(x), n = count : { t(x, _, q), q > 1 }, s = sum a : { t(x, a, b), b > 1 }.",
            [
                "scan n(x)",
                "let #1 = count, #2 = sum a per x (0 for no rows) over: "
                "scan t(x, a, q); keep rows with q > 1",
                "let n = #1",
                "let s = #2",
            ],
        ),
        # No group of 0: a function has no value over no rows, or a condition excludes 0.
        (
            "oo(n, s) :- n(x), n = count : { e(x, _) }, s = max y : { e(x, y) }.",
            [
                "scan n(x)",
                "let #1 = count, #2 = max y per x over: scan e(x, y)",
                "let n = #1",
                "let s = #2",
            ],
        ),
        (
            "oo(x, n) :- n(x), n = sum y : { e(x, y) }, 0 < n.",
            ["scan n(x)", "let #1 = sum y per x over: scan e(x, y)", "let n = #1", "keep rows with 0 < n"],
        ),
        (
            "oo(x, n) :- n(x), n = sum y : { e(x, y) }, n < 1.",
            [
                "scan n(x)",
                "let #1 = sum y per x (0 for no rows) over: scan e(x, y)",
                "let n = #1",
                "keep rows with n < 1",
            ],
        ),
        # The result of an aggregate is compared, and not assigned before the aggregate.
        (
            "o(x) :- n(x), 2 = count : { e(x, _) }.",
            ["scan n(x)", "let #1 = count per x over: scan e(x, _)", "keep rows with 2 = #1"],
        ),
        ("o(1) :- true.", []),
    ],
)
def test_order(rule: str, order: list[str]) -> None:
    assert steps(rule) == order


def test_a_rule_that_never_holds() -> None:
    assert "never holds" in dbsp.compile(RELATIONS + "o(x) :- n(x), false.").explain()


def test_the_whole_report() -> None:
    program = dbsp.compile(
        """.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl unused, lonely(x: number)
.input edge
.output path
.printsize lonely
edge(1, 2).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), z < 10.
unused(x) :- path(x, _).
lonely(x) :- edge(x, _), !path(_, x).
"""
    )
    report, _, exchanges = program.explain().partition("\n\non several shards\n")
    assert exchanges.startswith("  ")
    assert (
        report
        == """\
rewritten by drop_dead
  unused is left out: no output depends on it

inputs
  edge(x: number, y: number), 1 fact in the program

stratum 1 (path): recursive, one scope iterated to its fixpoint
  insert-only while deletions are cheap, then incremental by tick and iteration; \
restarts where that costs less
  rule 1 at <program>:8:1, evaluated outside of the scope
    path(x, y) :- edge(x, y).
      1. scan edge(x, y)
      => path(x, y)
  rule 2 at <program>:9:1
    path(x, z) :- path(x, y), edge(y, z), z < 10.
      1. scan path(x, y) [recursive]
      2. join edge(y, z) on y
      3. keep rows with z < 10
      => path(x, z)
      join of path(x, y), edge(y, z)
        acyclic: Graham's reduction removes every atom
        join tree: path(x, y) below edge(y, z); edge(y, z) is a root
        at most n^2 rows for n rows each (cover: 1 path(x, y) + 1 edge(y, z)); width 1
        two-way joins, because the query is acyclic; no row counts for path, edge
        (path(x, y) ⋈ edge(y, z))

stratum 2 (lonely)
  rule 4 at <program>:11:1
    lonely(x) :- edge(x, _), !path(_, x).
      1. scan edge(x, _)
      2. keep rows without path(_, x)
      => lonely(x)

outputs
  path(x: number, y: number)
  lonely(x: number) (its size)

traces
  Filter of rule 2 by (x, y) for rule 2
  path by (y, x) for rule 2
  path by (x, y) for itself
  Project of rule 4 by (x) for rule 4
  Project of rule 4 by (x) for rule 4
  Antijoin of rule 4 by (x) for lonely
  edge by (x, y) for itself"""
    )
