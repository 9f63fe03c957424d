"""Fixpoints within fixpoints, up to three deep."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count
from tests import reference
from tests.harness import follow
from tests.operators.recursion.closures import EDGE, PAIR, compose, edges, reachable, then
from tests.profiles import examples
from tests.reference import Z, add, distinct
from tests.strategies import Tick, rows, set_ticks

pytestmark = pytest.mark.usefixtures("every_recursion")


def components(c: Circuit, e: Stream) -> Stream:
    """Edges that stay inside a strongly connected component, found by alternating trims.

    An inner fixpoint labels every node with the smallest node that reaches it, and edges between
    different labels are dropped. The same is done on the reversed edges, until no edge is dropped.
    This needs two nested loops with deletions in both.
    """

    def labels(outer: object, kept: Stream, name: str) -> Stream:
        with outer.fixpoint(name) as inner:  # type: ignore[attr-defined]
            label = inner.variable("label", {"x": int, "l": int})
            own = kept.map(x=col("x"), l=col("x")) + kept.map(x=col("y"), l=col("y"))
            seen = kept.join(label, on=["x"], select=["y", "l"]).rename(x="y")
            inner.define(label, (own + seen).group_by("x").agg(l=col("l").min()))
        return inner.leave(label)

    def trimmed(kept: Stream, label: Stream) -> Stream:
        ends = kept.join(label, on=["x"]).join(label.rename(y="x", m="l"), on=["y"])
        return ends.filter(col("l") == col("m")).select("x", "y")

    with c.fixpoint("components") as scope:
        removed = scope.variable("removed", EDGE)
        kept = (e - removed).distinct()
        forward = trimmed(kept, labels(scope, kept, "forward"))
        turned = forward.map(x=col("y"), y=col("x"))
        back = trimmed(turned, labels(scope, turned, "backward")).map(x=col("y"), y=col("x"))
        scope.define(removed, (e - back).distinct())
        inside = back.distinct()
    return scope.leave(inside)


@given(set_ticks({"edge": PAIR}, max_ticks=6))
def test_strongly_connected_components_by_nested_scopes(sequence: list[Tick]) -> None:
    def model(inputs: dict[str, Z]) -> Z:
        p = reachable(inputs["edge"])
        return {(a, b): 1 for a, b in inputs["edge"] if (b, a) in p or a == b}

    follow(lambda c: components(c, edges(c)), model, sequence, sets={"edge"})


@given(set_ticks({"edge": PAIR, "more": PAIR}, max_ticks=7))
def test_nested_closure_with_negation_between(sequence: list[Tick]) -> None:
    """The inner closure uses the rows of the outer scope, without reached rows."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, more = edges(c), c.input("more", schema=EDGE, kind="set")
        with c.fixpoint("outer") as outer:
            q = outer.variable("q", EDGE)
            base = (e + then(q, more)).distinct()
            with outer.fixpoint("inner") as inner:
                p = inner.variable("p", EDGE)
                inner.define(p, (base + then(p, p).join(more, on=["x", "y"], how="anti")).distinct())
            closed = inner.leave(p)
            outer.define(q, (closed + e).distinct())
            sizes = closed.group_by("x").agg(n=count())
        return {"q": outer.leave(q), "sizes": outer.leave(sizes)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e, more = inputs["edge"], inputs["more"]

        def closed(q: Z) -> Z:
            base = distinct(add(e, compose(q, more)))

            def inner(x: dict[str, Z]) -> dict[str, Z]:
                step = reference.antijoin(compose(x["p"], x["p"]), more, [(0, 0), (1, 1)])
                return {"p": distinct(add(base, step))}

            return reference.fixpoint(inner, ["p"])["p"]

        q = reference.fixpoint(lambda x: {"q": distinct(add(closed(x["q"]), e))}, ["q"])["q"]
        return {"q": q, "sizes": reference.aggregate(closed(q), [0], [(reference.count, None)])}

    follow(build, model, sequence, sets={"edge", "more"})


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(set_ticks({"edge": rows(st.integers(0, 3), st.integers(0, 3))}, max_ticks=5))
def test_three_scopes_deep(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        e = edges(c)
        with c.fixpoint("first", max_iterations=100) as first:
            a = first.variable("a", EDGE)
            with first.fixpoint("second", max_iterations=100) as second:
                b = second.variable("b", EDGE)
                with second.fixpoint("third") as third:
                    d = third.variable("d", EDGE)
                    third.define(d, (e + then(d, e) + a + b).distinct())
                second.define(b, (third.leave(d) - a.join(b, on=["x"], how="anti")).distinct())
            first.define(a, second.leave(b).filter(col("x") != col("y")).distinct())
        return first.leave(a)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]

        def third(a: Z, b: Z) -> Z:
            return reference.fixpoint(lambda x: {"d": distinct(add(e, compose(x["d"], e), a, b))}, ["d"])["d"]

        def second(a: Z) -> Z:
            def body(x: dict[str, Z]) -> dict[str, Z]:
                lacking = reference.antijoin(a, x["b"], [(0, 0)])
                return {"b": distinct(reference.minus(third(a, x["b"]), lacking))}

            return reference.fixpoint(body, ["b"])["b"]

        def first(x: dict[str, Z]) -> dict[str, Z]:
            return {"a": distinct(reference.select(second(x["a"]), lambda r: r[0] != r[1]))}

        return reference.fixpoint(first, ["a"])["a"]

    follow(build, model, sequence, sets={"edge"})
