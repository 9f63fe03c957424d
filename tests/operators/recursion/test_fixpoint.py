"""Fixpoints: the known traps of incremental recursion by name, and all sorts of recursions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import Circuit, IterationLimitError, Run, Stream, UserFunctionError, col, count, max_, min_, sum_
from dbsp.expressions import min_of
from tests import reference
from tests.harness import apply, apply_set, final_views, follow, start, view
from tests.reference import Z, add, distinct
from tests.strategies import Tick, resplit, rows, set_ticks, small, ticks

pytestmark = pytest.mark.usefixtures("every_recursion")

EDGE = {"x": int, "y": int}
PAIR = rows(small, small)
SETS = set_ticks({"edge": PAIR}, max_ticks=9)


def compose(a: Z, b: Z) -> Z:
    return reference.join(a, b, [(1, 0)], [(0, 0), (1, 1)])


def then(a: Stream, b: Stream) -> Stream:
    """x -> z where a has x -> y and b has y -> z."""
    return a.join(b, on=[(a.schema.names[1], b.schema.names[0])], select=["x", "y_right"]).rename(y="y_right")


def edges(c: Circuit, kind: str = "set") -> Stream:
    return c.input("edge", schema=EDGE, kind=kind)


def closure(c: Circuit, e: Stream, step: Callable[[Stream, Stream], Stream], name: str = "closure") -> Stream:
    """The least p with p = distinct(e + step(p, e))."""
    with c.fixpoint(name) as scope:
        p = scope.variable("p", EDGE)
        scope.define(p, (e + step(p, e)).distinct())
    return scope.leave(p)


STEPS: dict[str, Callable[[Stream, Stream], Stream]] = {
    "right linear": lambda p, e: then(p, e),
    "left linear": lambda p, e: then(e, p),
    "non-linear": lambda p, e: then(p, p),
    "both linear": lambda p, e: then(p, e) + then(e, p),
    "cubic": lambda p, e: then(then(p, p), p) + then(p, p),
}


def reachable(e: Z) -> Z:
    return reference.fixpoint(lambda x: {"p": distinct(add(e, compose(x["p"], e)))}, ["p"])["p"]


# --- closures of every form --------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@given(sequence=SETS)
def test_closure_over_several_ticks_with_deletions(step: str, sequence: list[Tick]) -> None:
    follow(
        lambda c: closure(c, edges(c), STEPS[step]),
        lambda inputs: reachable(inputs["edge"]),
        sequence,
        sets={"edge"},
    )


@given(ticks({"edge": PAIR}))
def test_closure_of_a_bag(sequence: list[Tick]) -> None:
    """Edges with any weights, negative ones too: one that is not positive is none."""
    follow(
        lambda c: closure(c, edges(c, "zset").distinct(), STEPS["non-linear"]),
        lambda inputs: reachable(distinct(inputs["edge"])),
        sequence,
    )


@given(ticks({"edge": PAIR}))
def test_weights_inside_a_scope(sequence: list[Tick]) -> None:
    """The union in the body sees raw weights: a derivation may be outweighed by a negative edge."""
    follow(
        lambda c: closure(c, edges(c, "zset"), STEPS["right linear"]),
        lambda inputs: reference.fixpoint(
            lambda x: {"p": distinct(add(inputs["edge"], compose(x["p"], inputs["edge"])))}, ["p"], cap=200
        )["p"],
        [{"edge": {row: abs(w) for row, w in tick.get("edge", {}).items()}} for tick in sequence],
    )


@pytest.mark.parametrize("step", ["right linear", "non-linear"])
@given(sequence=ticks({"edge": PAIR}), data=st.data())
def test_any_split_of_the_changes_gives_the_same_view(
    step: str, sequence: list[Tick], data: st.DataObject
) -> None:
    def build(c: Circuit) -> Stream:
        return closure(c, edges(c, "zset").distinct(), STEPS[step])

    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12))
def test_number_of_paths_in_a_dag(listed: list[tuple[int, int]]) -> None:
    """Bags without distinct converge on a graph without cycles; weights count paths."""
    sequence: list[Tick] = [{"edge": {(min(a, b), max(a, b) + 1): 1}} for a, b in listed]

    def build(c: Circuit) -> Stream:
        e = edges(c, "zset")
        with c.fixpoint("paths") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, e + then(p, e))
        return scope.leave(p)

    def model(inputs: dict[str, Z]) -> Z:
        e = inputs["edge"]
        return reference.fixpoint(lambda x: {"p": add(e, compose(x["p"], e))}, ["p"])["p"]

    follow(build, model, sequence + [{"edge": dict.fromkeys(tick["edge"], -1)} for tick in sequence[::2]])


# --- the known traps ---------------------------------------------------------------------------------


def graph_run(step: str) -> Run:
    return start(lambda c: closure(c, edges(c), STEPS[step]))


@pytest.mark.parametrize("step", STEPS)
def test_non_linear_closure_with_several_ticks(step: str) -> None:
    """Outputs for the same future iteration must accumulate."""
    run = graph_run(step)
    run.step({"edge": [(0, 3), (2, 0), (4, 2)]})
    delta = run.step({"edge": [(0, 4)]})["out"].to_dict()
    assert delta[2, 2] == 1
    assert view(run) == reachable(dict.fromkeys([(0, 3), (2, 0), (4, 2), (0, 4)], 1))


@pytest.mark.parametrize("step", STEPS)
def test_zombie_cycles(step: str) -> None:
    """Base {0}, edges 0 -> 1 -> 2 -> 1; without 0 -> 1 the cycle must not hold itself up."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        base = c.input("base", x=int, kind="set")
        with c.fixpoint("reach") as scope:
            r = scope.variable("r", {"x": int})
            scope.define(r, (base + e.join(r, on=["x"], select=["y"])).distinct())
        return {"reach": scope.leave(r), "closure": closure(c, e, STEPS[step])}

    run = start(build)
    run.step({"base": [(0,)], "edge": [(0, 1), (1, 2), (2, 1)]})
    assert view(run, "reach") == {(0,): 1, (1,): 1, (2,): 1}
    result = run.step({"edge": {(0, 1): -1}})
    assert result["reach"].to_dict() == {(1,): -1, (2,): -1}
    assert view(run, "reach") == {(0,): 1}
    assert view(run, "closure") == dict.fromkeys([(1, 2), (2, 1), (1, 1), (2, 2)], 1)
    run.step({"edge": {(0, 1): 1, (2, 1): -1}})
    assert view(run, "reach") == {(0,): 1, (1,): 1, (2,): 1}


@pytest.mark.parametrize("step", STEPS)
def test_deletion_inside_a_dense_component(step: str) -> None:
    dense = [(a, b) for a in range(6) for b in range(6) if a != b]
    run = graph_run(step)
    run.step({"edge": dense})
    present: Z = dict.fromkeys(dense, 1)
    for edge in [(0, 1), (1, 0), (2, 3), (5, 0), (4, 0), (3, 0), (2, 0)]:
        run.step({"edge": {edge: -1}})
        present = apply_set(present, {edge: -1})
        assert view(run) == reachable(present), edge
    for edge in dense[::-1]:
        run.step({"edge": {edge: -1}})
        present = apply_set(present, {edge: -1})
    assert view(run) == present == {}
    run.compact()
    assert run.state_rows == 0


@pytest.mark.slow
def test_deletion_and_insertion_in_a_long_chain() -> None:
    chain = [(i, i + 1) for i in range(60)]
    run = graph_run("right linear")
    run.step({"edge": chain})
    assert len(run.view("out")) == 60 * 61 // 2
    run.step({"edge": {(10, 11): -1}})
    assert len(run.view("out")) == 10 * 11 // 2 + 49 * 50 // 2
    run.step({"edge": {(10, 11): 1, (20, 21): -1}})
    run.step({"edge": [(20, 21), (60, 0)]})
    assert len(run.view("out")) == 61 * 61
    run.step({"edge": {(60, 0): -1}})
    assert view(run) == reachable(dict.fromkeys(chain, 1))


def test_a_shortcut_comes_and_goes() -> None:
    """A row keeps its derivation while the iteration of it changes."""
    run = graph_run("right linear")
    run.step({"edge": [(0, 1), (1, 2), (2, 3), (3, 4)]})
    assert run.step({"edge": [(0, 4)]})["out"].to_dict() == {}
    assert run.step({"edge": {(0, 4): -1}})["out"].to_dict() == {}
    assert run.step({"edge": {(1, 2): -1, (0, 4): 1}})["out"].to_dict() == dict.fromkeys(
        [(0, 2), (0, 3), (1, 2), (1, 3), (1, 4)], -1
    )


@given(set_ticks({"a": PAIR, "b": PAIR}, max_ticks=9))
def test_mutual_recursion(sequence: list[Tick]) -> None:
    """odd and even paths, each defined by the other, and a third relation that reads both."""

    def build(c: Circuit) -> dict[str, Stream]:
        a, b = c.input("a", schema=EDGE, kind="set"), c.input("b", schema=EDGE, kind="set")
        with c.fixpoint("parity") as scope:
            odd, even, back = (scope.variable(name, EDGE) for name in ("odd", "even", "back"))
            scope.define(odd, (a + then(even, a)).distinct())
            scope.define(even, (then(odd, b) + back).distinct())
            scope.define(back, then(even, odd).rename(y="x", x="y").project("x", "y").distinct())
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
    """The blocked nodes are themselves derived, by a recursion of their own."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        blocked = c.input("blocked", x=int, kind="set")
        with c.fixpoint("spread") as spread:
            bad = spread.variable("bad", {"x": int})
            spread.define(bad, (blocked + e.join(bad, on=["x"], select=["y"])).distinct())
        bad = spread.leave(bad)
        with c.fixpoint("closure") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, (e + then(p, e)).antijoin(bad, on=[("y", "x")]).distinct())
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
        nodes = (e.project("x") + e.map(x=col("y"))).distinct()
        pairs = nodes.join(nodes, on=[], select=["x", "x_right"]).rename(y="x_right")
        return {
            "unreachable": pairs.antijoin(p, on=["x", "y"]),
            "acyclic": nodes.antijoin(p, on=[("x", "x"), ("x", "y")]),
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
            scope.define(p, (e + longer.filter(col("d") <= 20)).group_by("x", "y").agg(d=min_("d")))
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
    """Sums and counts beside a maximum that feeds back and settles at 4."""

    def build(c: Circuit) -> Stream:
        e = edges(c)
        with c.fixpoint("counts") as scope:
            p = scope.variable("p", {"x": int, "n": int, "s": int, "m": int})
            seen = e.join(p, on=[("y", "x")], select=["x", "n"])
            both = e.map(x=col("x"), n=1) + seen.map(x=col("x"), n=min_of(col("n") + 1, 4))
            scope.define(p, both.distinct().group_by("x").agg(n=max_("n"), s=sum_("n"), m=count()))
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
    """Aggregates that have to look at the values: min of strings, sum of floats."""

    def build(c: Circuit) -> dict[str, Stream]:
        e = edges(c)
        with c.fixpoint("names") as scope:
            p = scope.variable("p", {"x": int, "s": str})
            own = e.map(x=col("x"), s=col("x").to_string())
            seen = e.join(p, on=[("y", "x")], select=["x", "s"])
            scope.define(p, (own + seen).group_by("x").agg(s=max_("s")))
        with c.fixpoint("floats") as floats:
            q = floats.variable("q", {"x": int, "f": float})
            seen = e.join(q, on=[("y", "x")], select=["x", "f"]).map(x=col("x"), f=col("f") / 2.0)
            scaled = (e.map(x=col("x"), f=0.5) + seen).group_by("x").agg(f=sum_("f"))
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


# --- imports and exports -----------------------------------------------------------------------------


@given(set_ticks({"edge": PAIR, "other": PAIR}, max_ticks=8))
def test_imports_plain_and_arranged_and_exports_of_every_kind(sequence: list[Tick]) -> None:
    """One outer stream enters as it is and as the trace of a join; variables, definitions and parts leave."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, other = edges(c), c.input("other", schema=EDGE, kind="set")
        constant = c.constant([(0, 1), (1, 4)], EDGE)
        with c.fixpoint("closure") as scope:
            p = scope.variable("p", EDGE)
            step = then(p, e) + then(constant, p)
            defined = (e + step + constant).distinct()
            scope.define(p, defined)
            part = p.semijoin(other, on=["x", "y"])
            ends = p.project("y").distinct()
        leaving = {"p": p, "defined": defined, "step": step, "part": part, "ends": ends, "again": p}
        return {name: scope.leave(stream) for name, stream in leaving.items()} | {
            "e": e.join(other, on=["x"])
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e, other = inputs["edge"], inputs["other"]
        constant: Z = {(0, 1): 1, (1, 4): 1}

        def step(p: Z) -> Z:
            return add(compose(p, e), compose(constant, p))

        p = reference.fixpoint(lambda x: {"p": distinct(add(e, step(x["p"]), constant))}, ["p"])["p"]
        return {
            "p": p,
            "defined": p,
            "again": p,
            "step": step(p),
            "part": reference.semijoin(p, other, [(0, 0), (1, 1)]),
            "ends": distinct(reference.project(p, [1])),
            "e": reference.join(e, other, [(0, 0)], [(0, 0), (0, 1), (1, 1)]),
        }

    follow(build, model, sequence, sets={"edge", "other"})


@given(SETS)
def test_a_scope_after_a_scope_and_a_delay(sequence: list[Tick]) -> None:
    """The second scope imports what left the first, now and one tick before."""

    def build(c: Circuit) -> dict[str, Stream]:
        p = closure(c, edges(c), STEPS["right linear"])
        turned = p.map(x=col("y"), y=col("x"))
        both = closure(c, (p + turned).distinct(), STEPS["non-linear"], "both")
        return {"both": both, "before": closure(c, p.delay(), STEPS["left linear"], "before")}

    run = start(build)
    inputs: dict[str, Z] = {"edge": {}}
    past: Z = {}
    for tick in sequence:
        run.step(tick)
        apply(inputs, tick, {"edge"})
        p = reachable(inputs["edge"])
        assert view(run, "both") == reachable(distinct(add(p, reference.project(p, [1, 0]))))
        assert view(run, "before") == past
        past = p


@given(SETS)
def test_a_variable_that_is_only_imported(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> Stream:
        with c.fixpoint("plain") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, edges(c))
        return scope.leave(p)

    follow(build, lambda inputs: inputs["edge"], sequence, sets={"edge"})


@given(ticks({"unit": rows(), "edge": PAIR}))
def test_relations_without_columns_inside(sequence: list[Tick]) -> None:
    """found() holds once there is a cycle or it is asserted; then everything is allowed."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, unit = edges(c, "zset").distinct(), c.input("unit", schema={}).distinct()
        with c.fixpoint("found") as scope:
            p, found = scope.variable("p", EDGE), scope.variable("found", {})
            scope.define(p, (e + then(p, e) + e.map(x=col("y"), y=col("x")).join(found, on=[])).distinct())
            scope.define(found, (unit + p.filter(col("x") == col("y")).project()).distinct())
        return {"p": scope.leave(p), "found": scope.leave(found)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e, unit = distinct(inputs["edge"]), distinct(inputs["unit"])

        def body(x: dict[str, Z]) -> dict[str, Z]:
            turned = reference.join(reference.project(e, [1, 0]), x["found"], [], [(0, 0), (0, 1)])
            loops = reference.project(reference.select(x["p"], lambda r: r[0] == r[1]), [])
            return {"p": distinct(add(e, compose(x["p"], e), turned)), "found": distinct(add(unit, loops))}

        return reference.fixpoint(body, ["p", "found"])

    follow(build, model, sequence)


# --- scopes within scopes ----------------------------------------------------------------------------


def components(c: Circuit, e: Stream) -> Stream:
    """Edges that stay inside a strongly connected component, found by trimming to and fro.

    An inner fixpoint labels every node with the smallest node that reaches it; edges between labels go; the
    same against the edges; until nothing goes: the classic that needs two nested loops and deletions in both.
    """

    def labels(outer: object, kept: Stream, name: str) -> Stream:
        with outer.fixpoint(name) as inner:  # type: ignore[attr-defined]
            label = inner.variable("label", {"x": int, "l": int})
            own = kept.map(x=col("x"), l=col("x")) + kept.map(x=col("y"), l=col("y"))
            seen = kept.join(label, on=["x"], select=["y", "l"]).rename(x="y")
            inner.define(label, (own + seen).group_by("x").agg(l=min_("l")))
        return inner.leave(label)

    def trimmed(kept: Stream, label: Stream) -> Stream:
        ends = kept.join(label, on=["x"]).join(label.rename(y="x", m="l"), on=["y"])
        return ends.filter(col("l") == col("m")).project("x", "y")

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
    """The inner closure runs over what the outer one has so far, without what is reached already."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, more = edges(c), c.input("more", schema=EDGE, kind="set")
        with c.fixpoint("outer") as outer:
            q = outer.variable("q", EDGE)
            base = (e + then(q, more)).distinct()
            with outer.fixpoint("inner") as inner:
                p = inner.variable("p", EDGE)
                inner.define(p, (base + then(p, p).antijoin(more, on=["x", "y"])).distinct())
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
@settings(max_examples=25)
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
                second.define(b, (third.leave(d) - a.antijoin(b, on=["x"])).distinct())
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


# --- iteration caps and errors -----------------------------------------------------------------------


def counting(c: Circuit, cap: int) -> Stream:
    """n -> n + 1 without end, as soon as there is an n."""
    seed = c.input("seed", n=int)
    with c.fixpoint("count up", max_iterations=cap) as scope:
        n = scope.variable("n", {"n": int})
        scope.define(n, (seed + n.map(n=col("n") + 1)).distinct())
    return scope.leave(n)


def test_a_recursion_without_bound_ends_with_an_error_and_changes_nothing() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        return {"out": counting(c, 50), "edge": closure(c, edges(c), STEPS["right linear"])}

    run = start(build)
    run.step({"edge": [(1, 2)]})
    for _ in range(2):
        with pytest.raises(IterationLimitError) as caught:
            run.step({"seed": [(1,)], "edge": [(2, 3)]})
        assert re.match(
            r"Fixpoint at test_fixpoint\.py:\d+: scope 'count up' has not converged after 50 iterations; "
            r"the recursion may be without bound .*raise max_iterations if it is not",
            str(caught.value),
        )
        assert view(run) == {} and view(run, "edge") == {(1, 2): 1} and run.tick == 1
    result = run.step({"edge": [(2, 3)]})
    assert result["edge"].to_dict() == {(1, 3): 1, (2, 3): 1} and result["out"].to_dict() == {}


def test_a_recursion_that_swings_to_and_fro_ends_with_an_error() -> None:
    """Negation of itself has no fixpoint while it is fed."""

    def build(c: Circuit) -> Stream:
        seed = c.input("seed", n=int)
        with c.fixpoint("liar", max_iterations=100) as scope:
            n = scope.variable("n", {"n": int})
            scope.define(n, seed.antijoin(n, on=["n"]).distinct())
        return scope.leave(n)

    run = start(build)
    with pytest.raises(IterationLimitError, match="scope 'liar' has not converged after 100 iterations"):
        run.step({"seed": [(1,)]})
    run.step()
    assert view(run) == {}


def test_the_cap_is_as_many_iterations_as_are_needed() -> None:
    def build(cap: int) -> Callable[[Circuit], Stream]:
        def build(c: Circuit) -> Stream:
            e = edges(c)
            with c.fixpoint("closure", max_iterations=cap) as scope:
                p = scope.variable("p", EDGE)
                scope.define(p, (e + then(p, e)).distinct())
            return scope.leave(p)

        return build

    chain = [(i, i + 1) for i in range(10)]
    run = start(build(11))
    run.step({"edge": chain})
    assert len(run.view("out")) == 55
    with pytest.raises(IterationLimitError, match="after 5 iterations"):
        start(build(5)).step({"edge": chain})


def test_an_error_deep_inside_names_the_inner_operator() -> None:
    def careful(row: object) -> bool:
        if row.x == 3:  # type: ignore[attr-defined]
            raise RuntimeError("three")
        return True

    def build(c: Circuit) -> Stream:
        e = edges(c)
        with c.fixpoint("closure") as scope:
            p = scope.variable("p", EDGE)
            scope.define(p, (e + then(p, e).map(x=col("x"), y=col("y"))).filter(careful).distinct())
        return scope.leave(p)

    run = start(build)
    run.step({"edge": [(0, 1)]})
    with pytest.raises(
        UserFunctionError, match=r"^Filter at test_fixpoint\.py:\d+: function .*careful raised"
    ):
        run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    assert view(run) == {(0, 1): 1}
    run.step({"edge": [(1, 2)]})
    assert view(run) == {(0, 1): 1, (0, 2): 1, (1, 2): 1}


def test_quiet_ticks_do_not_iterate() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        return {"p": closure(c, edges(c), STEPS["right linear"]), "other": c.input("other", x=int)}

    run = start(build)
    run.step({"edge": [(0, 1), (1, 2)]})
    run.observe()
    run.step({"other": [(1,)]})
    run.step()
    inside = [stats for stats in run.stats() if stats.node.graph.parent is not None]
    assert inside and not any(stats.steps for stats in inside)
