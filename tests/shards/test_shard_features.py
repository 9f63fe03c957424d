"""What one process can do works on shards, or is refused at the start with the reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import Circuit, DbspError, col, count, fold
from dbsp.durable import Store
from dbsp.runtime.agreement import random_changes
from tests.shards.compared_shards import ComparedShards

PAIR = {"x": int, "y": int}
HEAD = """
    .decl a(x: number, y: number) .input a
    .decl b(x: number, y: number) .input b
"""


def large(pairs: list[tuple[Any, int]]) -> int:
    return sum(value * weight for value, weight in pairs)


def double(row: Any) -> tuple[int, int]:
    return 2 * row.x, row.y


def circuit_of(part: Callable[[Any, Any], Any], **kind: Any) -> Circuit:
    circuit = Circuit("part")
    a, b = circuit.input("a", schema=PAIR, **kind), circuit.input("b", schema=PAIR, kind="set")
    circuit.output("out", part(a, b))
    return circuit


def rules(text: str, **options: Any) -> Any:
    return dbsp.compile(HEAD + text, **options).circuit("physical")


CLOSURE = ".decl p(x: number, y: number) .output p p(x, y) :- a(x, y). p(x, z) :- p(x, y), b(y, z)."
WORKING: dict[str, Callable[[], Any]] = {
    **{
        f"recursion {mode}": lambda mode=mode: rules(CLOSURE, recursion=mode)  # type: ignore[misc]
        for mode in ("auto", "incremental", "insert-only")
    },
    "recursion without a pivot": lambda: rules(
        ".decl p(x: number, y: number) .output p p(x, y) :- a(x, y). p(x, z) :- p(x, y), p(y, z), x != z."
    ),
    "aggregates": lambda: circuit_of(
        lambda a, b: a.group_by("x").agg(
            n=count(), most=col("y").max(), total=col("y").sum(), own=fold(large, "y", type=int)
        )
    ).circuit("physical"),
    "aggregates in rules": lambda: rules(
        ".decl s(x: number, n: number) .output s s(x, n) :- a(x, _), n = sum y : { b(x, y) }."
    ),
    "top-k": lambda: circuit_of(lambda a, b: a.distinct().top_k(2, "y", partition=["x"])).circuit("physical"),
    "windows": lambda: circuit_of(
        lambda a, b: a.window("x", 3).group_by("window_start").agg(n=count())
    ).circuit("physical"),
    "as-of": lambda: circuit_of(lambda a, b: a.asof_join(b, left="x", right="x", on=["y"])).circuit(
        "physical"
    ),
    "eqrel": lambda: rules(".decl e(x: number, y: number) eqrel .output e e(x, y) :- a(x, y)."),
    "choice": lambda: rules(".decl c(x: number, y: number) choice-domain x .output c c(x, y) :- a(x, y)."),
    "subsumption": lambda: rules(
        ".decl m(x: number, y: number) .output m m(x, y) :- a(x, y). m(x, y) <= m(x, z) :- y < z."
    ),
    "multi-way joins": lambda: rules(
        ".decl t(x: number, y: number, z: number) .output t t(x, y, z) :- a(x, y), b(y, z), a(z, x).",
        strategy="wcoj",
    ),
    "keyed inputs": lambda: circuit_of(lambda a, b: a.join(b, on=["x"]), key=["x"]).circuit("physical"),
    "Python functions": lambda: circuit_of(lambda a, b: a.map(double, PAIR).distinct()).circuit("physical"),
}


@pytest.mark.parametrize("name", WORKING)
def test_what_works(name: str) -> None:
    for shards in (2, 3):
        compared = ComparedShards(WORKING[name](), shards, shards)
        draw = random.Random(name)
        for tick in range(6):
            if name == "keyed inputs":
                changes: dict[str, Any] = {
                    "a": [((n + tick) % 7, draw.randrange(9)) for n in range(5)],
                    "b": [(tick, tick)],
                }
            else:
                changes = random_changes(draw, compared.one.inputs, 6)
            compared.tick(changes)
        assert compared.one.tick == 6


# --- what is refused ------------------------------------------------------------------------------


def notice(change: Any) -> None:
    raise AssertionError("a refused circuit runs")


def sharded(folder: Path) -> Path:
    """Return a folder with a checkpoint of a sharded run."""
    with circuit_of(lambda a, b: a).start(shards=1, checkpoint=folder) as run:
        run.step({"a": [(1, 2)]})
    return folder


REFUSED: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "inspect": (
        lambda folder: circuit_of(lambda a, b: a.inspect(notice)).start(shards=2),
        "not-shardable",
        r"^Inspect at .*; remove the callback and read result\[...\] of step, or start without shards",
    ),
    "ord": (
        lambda folder: dbsp.compile(
            ".decl s(t: symbol) .input s .decl o(n: number) .output o o(ord(t)) :- s(t)."
        ).start(shards=2),
        "not-shardable",
        "ord numbers the values of one process",
    ),
    "external inputs": (
        lambda folder: circuit_of(lambda a, b: a, kind="external").start(shards=2),
        "not-shardable",
        "kept outside of the circuit, in the process of the caller; start without shards",
    ),
    "a function that cannot be pickled": (
        lambda folder: circuit_of(lambda a, b: a.map(lambda row: row, PAIR)).start(shards=2),
        "not-picklable",
        "define it at the top level of a module",
    ),
    "another number of shards": (
        lambda folder: circuit_of(lambda a, b: a).start(shards=2, checkpoint=sharded(folder)),
        "checkpoint-other-shards",
        "start the run with shards=1, open the folder with ShardFolder",
    ),
    "keep= of a store": (
        lambda folder: circuit_of(lambda a, b: a).start(shards=2, checkpoint=Store(folder, keep=3)),  # type: ignore[call-overload]
        "invalid-argument",
        "expected a folder or a ShardFolder, since shards= is given",
    ),
    "one process for a folder of shards": (
        lambda folder: circuit_of(lambda a, b: a).start(checkpoint=sharded(folder)),
        "checkpoint-other-program",
        "is the checkpoint of a run with 1 shard; start the run with shards=1",
    ),
    "as_of": (
        lambda folder: circuit_of(lambda a, b: a).open(sharded(folder), as_of=1),
        "checkpoint-other-program",
        "is the checkpoint of a run with 1 shard; start the run with shards=1",
    ),
    "whole relations": (
        lambda folder: circuit_of(lambda a, b: a).start(stage="query", shards=2),
        "invalid-argument",
        "shards= needs the stage 'physical' or 'distributed'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_at_the_start(name: str, tmp_path: Path) -> None:
    start, code, message = REFUSED[name]
    with pytest.raises(DbspError, match=message) as refused:
        start(tmp_path)
    assert refused.value.code == code


def test_methods_that_a_sharded_run_does_not_have() -> None:
    with circuit_of(lambda a, b: a.filter(col("x") > 0)).start(shards=1) as run:
        for method, advice in (
            (run.transaction, "stage the parts with"),
            (run.observe, r"stats\(\) and explain\(\) show"),
            (run.watch, "no watch; start the circuit without shards= to see"),
            (run.record, "no record; start the circuit without shards= to see"),
            (run.trace_tick, "no trace_tick; start the circuit without shards= to see"),
        ):
            with pytest.raises(DbspError, match=advice) as refused:
                method()
            assert refused.value.code == "not-shardable"
        assert run.step({"a": [(1, 2)]})["out"].to_dict() == {(1, 2): 1}
