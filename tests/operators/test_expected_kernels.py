"""No tick waits for the compiler: each operator says at the start which kernels it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dbsp import Circuit, col, count
from dbsp.kernels.jit import WANTED
from dbsp.kernels.kernel_cache import _USUAL
from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from dbsp.operators.streams.stream import Stream

OPERATORS: dict[str, Callable[[Stream, Stream], Stream]] = {
    "filter": lambda a, b: a.filter(col("v") > 3),
    "map": lambda a, b: a.map(k=col("k"), s=col("v") + 1),
    "distinct": lambda a, b: a.select("k").distinct(),
    "join": lambda a, b: a.join(b, on="k"),
    "semijoin": lambda a, b: a.join(b, on="k", how="semi"),
    "antijoin": lambda a, b: a.join(b, on="k", how="anti"),
    "left join": lambda a, b: a.join(b, on="k", how="left"),
    "range join": lambda a, b: a.range_join(b, on=["k"], left="v", right="w", low=0, high=1),
    "as-of join": lambda a, b: a.asof_join(b, on=["k"], left="v", right="w"),
    "count, sum": lambda a, b: a.group_by("k").agg(n=count(), s=col("v").sum()),
    "min, max": lambda a, b: a.group_by("k").agg(n=col("v").min(), s=col("v").max()),
    "first": lambda a, b: b.group_by("k").agg(n=col("w").first(by="w")),
    "standard deviation": lambda a, b: a.group_by("k").agg(n=col("v").std()),
    "dense rank": lambda a, b: a.dense_rank(by="v", partition=["k"]),
    "min of strings": lambda a, b: a.group_by("k").agg(n=col("s").min()),
    "mean": lambda a, b: a.group_by("k").agg(n=col("v").mean()),
    "sum of floats": lambda a, b: a.group_by("k").agg(n=col("f").sum()),
    "median": lambda a, b: a.group_by("k").agg(n=col("v").median()),
    "count distinct": lambda a, b: a.group_by("k").agg(n=col("v").count_distinct()),
    "top k": lambda a, b: a.top_k(2, by="v", partition=["k"]),
    "rank": lambda a, b: a.rank(by="v", partition=["k"]),
    "lag": lambda a, b: a.lag("v", 1, by="v", partition=["k"]),
    "delay": lambda a, b: a.delay(),
    "integrate": lambda a, b: a.integrate().differentiate(),
}


@pytest.fixture
def wanted() -> Iterator[set[str]]:
    """The kernels that calls and steps want, from now on."""
    others = set(WANTED)
    WANTED.clear()
    choose_tier(INTERPRETED)
    yield WANTED
    choose_tier(COMPILED)
    WANTED.update(others)


@pytest.mark.parametrize("inputs", ["sets", "keys"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_start_expects_the_kernels_of_all_ticks(operator: str, inputs: str, wanted: set[str]) -> None:
    circuit = Circuit("expected")
    kind = {"key": "v"} if inputs == "keys" else {"kind": "set"}
    a = circuit.input("a", k=int, v=int, s=str, f=float, **kind)
    b = circuit.input("b", k=int, w=int, kind="set")
    circuit.output("out", OPERATORS[operator](a, b))
    run = circuit.start()
    expected = wanted | _USUAL
    rows = [(n % 4, n, str(n % 7), n / 2) for n in range(60)]
    run.step({"a": rows, "b": [(n % 4, 2 * n) for n in range(30)]})
    for n in range(14):  # enough small runs to merge them
        run.step({"a": {(n % 5, 100 + n, "9", 0.5): 1}, "b": {(n % 5, 3 * n + 1): 1}})
        run.step({"a": dict.fromkeys(rows[3 * n : 3 * n + 2], -1), "b": {(n % 4, 2 * n): -1}})
    assert wanted - expected == set()
