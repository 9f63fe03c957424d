"""Imports and exports of fixpoints, iteration limits and errors."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given

from dbsp import Circuit, IterationLimitError, Stream, UserFunctionError, col
from tests import reference
from tests.harness import apply, follow, start, view
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
from tests.strategies import Tick, rows, set_ticks, ticks

pytestmark = pytest.mark.usefixtures("every_recursion")


@given(set_ticks({"edge": PAIR, "other": PAIR}, max_ticks=8))
def test_imports_plain_and_arranged_and_exports_of_every_kind(sequence: list[Tick]) -> None:
    """One outer stream enters both plainly and as the trace of a join; variables, definitions and
    intermediate streams leave."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, other = edges(c), c.input("other", schema=EDGE, kind="set")
        constant = c.constant([(0, 1), (1, 4)], EDGE)
        with c.fixpoint("closure") as scope:
            p = scope.variable("p", EDGE)
            step = then(p, e) + then(constant, p)
            defined = (e + step + constant).distinct()
            scope.define(p, defined)
            part = p.join(other, on=["x", "y"], how="semi")
            ends = p.select("y").distinct()
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
    """The second scope imports the result of the first, of this tick and of the previous one."""

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
    """found() holds if a cycle exists or found() is an input row; then every pair is allowed."""

    def build(c: Circuit) -> dict[str, Stream]:
        e, unit = edges(c, "zset").distinct(), c.input("unit", schema={}).distinct()
        with c.fixpoint("found") as scope:
            p, found = scope.variable("p", EDGE), scope.variable("found", {})
            scope.define(p, (e + then(p, e) + e.map(x=col("y"), y=col("x")).join(found, on=[])).distinct())
            scope.define(found, (unit + p.filter(col("x") == col("y")).select()).distinct())
        return {"p": scope.leave(p), "found": scope.leave(found)}

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        e, unit = distinct(inputs["edge"]), distinct(inputs["unit"])

        def body(x: dict[str, Z]) -> dict[str, Z]:
            turned = reference.join(reference.project(e, [1, 0]), x["found"], [], [(0, 0), (0, 1)])
            loops = reference.project(reference.select(x["p"], lambda r: r[0] == r[1]), [])
            return {"p": distinct(add(e, compose(x["p"], e), turned)), "found": distinct(add(unit, loops))}

        return reference.fixpoint(body, ["p", "found"])

    follow(build, model, sequence)


def counting(c: Circuit, cap: int) -> Stream:
    """n -> n + 1 without end, if there is any n."""
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
            r"the recursion may not terminate.* If it terminates, raise the limit with max_iterations=N",
            str(caught.value),
        )
        assert view(run) == {} and view(run, "edge") == {(1, 2): 1} and run.tick == 1
    result = run.step({"edge": [(2, 3)]})
    assert result["edge"].to_dict() == {(1, 3): 1, (2, 3): 1} and result["out"].to_dict() == {}


def test_a_recursion_that_oscillates_ends_with_an_error() -> None:
    """A relation that negates itself has no fixpoint while its input has rows."""

    def build(c: Circuit) -> Stream:
        seed = c.input("seed", n=int)
        with c.fixpoint("liar", max_iterations=100) as scope:
            n = scope.variable("n", {"n": int})
            scope.define(n, seed.join(n, on=["n"], how="anti").distinct())
        return scope.leave(n)

    run = start(build)
    with pytest.raises(IterationLimitError, match="scope 'liar' has not converged after 100 iterations"):
        run.step({"seed": [(1,)]})
    run.step()
    assert view(run) == {}


def test_the_limit_can_be_the_exact_number_of_iterations() -> None:
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
