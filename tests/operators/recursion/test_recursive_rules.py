"""Fixpoints with mutual recursion, negation, aggregates, strings and floats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count
from dbsp.expressions import min_of
from tests import reference
from tests.harness import follow
from tests.operators.recursion.closures import (
    EDGE,
    PAIR,
    SETS,
    STEPS,
    closure,
    compose,
    edges,
    reachable,
    then,
)
from tests.reference import Z, add, distinct
from tests.strategies import Tick, rows, set_ticks, small

pytestmark = pytest.mark.usefixtures("every_recursion")


@given(set_ticks({"a": PAIR, "b": PAIR}, max_ticks=9))
def test_mutual_recursion(sequence: list[Tick]) -> None:
    """odd and even paths, each defined by the other, and a third relation that reads both."""

    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", schema=EDGE, kind="set"), c.input("b", schema=EDGE, kind="set")
        with c.fixpoint("parity") as scope:
            odd, even, back = (scope.variable(name, EDGE) for name in ("odd", "even", "back"))
            scope.define(odd, (a + then(even, a)).distinct())
            scope.define(even, (then(odd, b) + back).distinct())
            scope.define(back, then(even, odd).rename(y="x", x="y").select("x", "y").distinct())
        return {"odd": scope.leave(odd), "even": scope.leave(even), "back": scope.leave(back)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a, b = inputs["a"], inputs["b"]
        return reference.fixpoint(
            lambda x: {
                "odd": distinct(add(a, compose(x["even"], a))),
                "even": distinct(add(compose(x["odd"], b), x["back"])),
                "back": distinct(reference.project(compose(x["even"], x["odd"]), [1, 0])),
            },
            ["odd", "even", "back"],
        )

    follow(build, model, sequence, sets={"a", "b"})


@given(set_ticks({"edge": PAIR, "blocked": rows(small)}, max_ticks=9))
def test_negation_of_a_lower_stratum_inside(sequence: list[Tick]) -> None:
    """The blocked nodes are derived by another recursion."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        blocked = c.input("blocked", x=int, kind="set")
        with c.fixpoint("spread") as spread:
            bad = spread.variable("bad", {"x": int})
            spread.define(bad, (blocked + e.join(bad, on=["x"], select=["y"])).distinct())
        bad = spread.leave(bad)
        with c.fixpoint("closure") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, (e + then(p, e)).join(bad, on=[("y", "x")], how="anti").distinct())
        return {"bad": bad, "p": scope.leave(p)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e = inputs["edge"]
        bad = reference.fixpoint(
            lambda x: {
                "bad": distinct(add(inputs["blocked"], reference.join(e, x["bad"], [(0, 0)], [(0, 1)])))
            },
            ["bad"],
        )["bad"]
        p = reference.fixpoint(
            lambda x: {"p": distinct(reference.antijoin(add(e, compose(x["p"], e)), bad, [(1, 0)]))}, ["p"]
        )["p"]
        return {"bad": bad, "p": p}

    follow(build, model, sequence, sets={"edge", "blocked"})


@given(SETS)
def test_negation_over_a_recursive_relation_outside(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        p = closure(c, e, STEPS["non-linear"])
        nodes = (e.select("x") + e.map(x=col("y"))).distinct()
        pairs = nodes.join(nodes, on=[], select=["x", "x_right"]).rename(y="x_right")
        return {
            "unreachable": pairs.join(p, on=["x", "y"], how="anti"),
            "acyclic": nodes.join(p, on=[("x", "x"), ("x", "y")], how="anti"),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e = inputs["edge"]
        p = reachable(e)
        nodes = {n for row in e for n in row}
        return {
            "unreachable": {(a, b): 1 for a in nodes for b in nodes if (a, b) not in p},
            "acyclic": {(a,): 1 for a in nodes if (a, a) not in p},
        }

    follow(build, model, sequence, sets={"edge"})


WEIGHTED = rows(small, small, st.integers(1, 5))


@given(set_ticks({"edge": WEIGHTED}, max_ticks=8))
def test_aggregate_inside_shortest_paths(sequence: list[Tick]) -> None:
    """min inside the recursion: distances on cycles, with deletions that make paths longer."""

    def build(c: Circuit) -> Stream:
        e = c.input("edge", x=int, y=int, d=int, kind="set")
        with c.fixpoint("distances") as scope:
            p = scope.variable("p", {"x": int, "y": int, "d": int})
            longer = p.join(e, on=[("y", "x")], select=["x", "y_right", "d", "d_right"])
            longer = longer.map(x=col("x"), y=col("y_right"), d=col("d") + col("d_right"))
            scope.define(p, (e + longer.filter(col("d") <= 20)).group_by("x", "y").agg(d=col("d").min()))
        return scope.leave(p)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]

        def body(x: dict[str, Z]) -> dict[str, Z]:
            joined = reference.join(x["p"], e, [(1, 0)], [(0, 0), (1, 1), (0, 2), (1, 2)])
            longer = reference.map_rows(joined, lambda r: (r[0], r[1], r[2] + r[3]))
            within = reference.select(longer, lambda r: r[2] <= 20)
            return {"p": reference.aggregate(add(e, within), [0, 1], [(reference.least, 2)])}

        return reference.fixpoint(body, ["p"])["p"]

    follow(build, model, sequence, sets={"edge"})


@given(set_ticks({"edge": PAIR}, max_ticks=8))
def test_several_aggregates_inside(sequence: list[Tick]) -> None:
    """Sums and counts beside a recursive maximum that converges at 4."""

    def build(c: Circuit) -> Stream:
        e = edges(c)
        with c.fixpoint("counts") as scope:
            p = scope.variable("p", {"x": int, "n": int, "s": int, "m": int})
            seen = e.join(p, on=[("y", "x")], select=["x", "n"])
            both = e.map(x=col("x"), n=1) + seen.map(x=col("x"), n=min_of(col("n") + 1, 4))
            scope.define(p, both.distinct().group_by("x").agg(n=col("n").max(), s=col("n").sum(), m=count()))
        return scope.leave(p)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]

        def body(x: dict[str, Z]) -> dict[str, Z]:
            seen = reference.join(e, x["p"], [(1, 0)], [(0, 0), (1, 1)])
            grown = reference.map_rows(seen, lambda r: (r[0], min(r[1] + 1, 4)))
            both = distinct(add(reference.map_rows(e, lambda r: (r[0], 1)), grown))
            functions = [(reference.largest, 1), (reference.total, 1), (reference.count, None)]
            return {"p": reference.aggregate(both, [0], functions)}

        return reference.fixpoint(body, ["p"])["p"]

    follow(build, model, sequence, sets={"edge"})


@given(set_ticks({"edge": rows(small, small)}, max_ticks=8))
def test_strings_and_floats_inside(sequence: list[Tick]) -> None:
    """Aggregates that need the values: min of strings, sum of floats."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        with c.fixpoint("names") as scope:
            p = scope.variable("p", {"x": int, "s": str})
            own = e.map(x=col("x"), s=col("x").cast(str))
            seen = e.join(p, on=[("y", "x")], select=["x", "s"])
            scope.define(p, (own + seen).group_by("x").agg(s=col("s").max()))
        with c.fixpoint("floats") as floats:
            q = floats.variable("q", {"x": int, "f": float})
            seen = e.join(q, on=[("y", "x")], select=["x", "f"]).map(x=col("x"), f=col("f") / 2.0)
            scaled = (e.map(x=col("x"), f=0.5) + seen).group_by("x").agg(f=col("f").sum())
            floats.define(
                q, scaled.map(lambda row: (row.x, min(row.f * 8 // 1 / 8, 4.0)), {"x": int, "f": float})
            )
        return {"names": scope.leave(p), "floats": floats.leave(q)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e = inputs["edge"]

        def names(x: dict[str, Z]) -> dict[str, Z]:
            own = reference.map_rows(e, lambda r: (r[0], str(r[0])))
            seen = reference.join(e, x["p"], [(1, 0)], [(0, 0), (1, 1)])
            return {"p": reference.aggregate(add(own, seen), [0], [(reference.largest, 1)])}

        def floats(x: dict[str, Z]) -> dict[str, Z]:
            seen = reference.join(e, x["q"], [(1, 0)], [(0, 0), (1, 1)])
            half = reference.map_rows(seen, lambda r: (r[0], r[1] / 2))
            own = reference.map_rows(e, lambda r: (r[0], 0.5))
            sums = reference.aggregate(add(own, half), [0], [(reference.total, 1)])
            return {"q": reference.map_rows(sums, lambda r: (r[0], min(r[1] * 8 // 1 / 8, 4.0)))}

        return {
            "names": reference.fixpoint(names, ["p"])["p"],
            "floats": reference.fixpoint(floats, ["q"])["q"],
        }

    follow(build, model, sequence, sets={"edge"})


@given(set_ticks({"edge": rows(st.integers(0, 6), st.integers(0, 6))}, max_ticks=12, max_size=10))
def test_same_generation(sequence: list[Tick]) -> None:
    def children(a: Stream, b: Stream) -> Stream:
        return a.join(b, on=["x"], select=["y", "y_right"]).rename(x="y", y="y_right")

    def build(c: Circuit) -> Stream:
        e = edges(c)
        with c.fixpoint("generation") as scope:
            sg = scope.variable("sg", EDGE)
            scope.define(sg, (children(e, e) + then(children(e, sg), e)).distinct())
        return scope.leave(sg)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]

        def body(x: dict[str, Z]) -> dict[str, Z]:
            siblings = reference.join(e, e, [(0, 0)], [(0, 1), (1, 1)])
            down = reference.join(e, x["sg"], [(0, 0)], [(0, 1), (1, 1)])
            return {"sg": distinct(add(siblings, compose(down, e)))}

        return reference.fixpoint(body, ["sg"])["sg"]

    follow(build, model, sequence, sets={"edge"})
