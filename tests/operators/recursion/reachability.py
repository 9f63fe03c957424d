"""Reachability in one scope, and the evaluation that a run uses for it."""

from __future__ import annotations

from dbsp import Circuit, Run, Stream, col
from tests.operators.recursion.closures import EDGE

MODES = ("auto", "incremental", "insert-only")


def reach(c: Circuit, mode: str) -> Stream:
    """The nodes reachable from a start, without edges from shut nodes; only the scope keeps the
    starts."""
    edge = c.input("edge", schema=EDGE, kind="set")
    start = c.input("start", x=int, kind="set").filter(col("x") < 5)
    shut = c.input("shut", x=int, kind="set")
    with c.fixpoint("reach", recursion=mode) as scope:
        found = scope.variable("found", start.schema)
        open_ = found.join(shut, on=["x"], how="anti")
        scope.define(found, (start + then_from(open_, edge)).distinct())
    return scope.leave(found)


def then_from(found: Stream, edge: Stream) -> Stream:
    return found.join(edge, on=["x"], select=["y"]).rename(x="y")


def ways(run: Run) -> set[str]:
    return set(run.evaluations().values())
