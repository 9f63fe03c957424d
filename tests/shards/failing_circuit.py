"""A circuit with a part for every family of errors of a tick, each with inputs of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbsp import Circuit, col, count, fold, linear

Tick = dict[str, Any]
BIG = 2**62


@dataclass(frozen=True)
class Failure:
    """Changes that fail: after those of `before`."""

    name: str
    fails: Tick
    before: list[Tick] = field(default_factory=list)


def refuse(row: Any) -> bool:
    if row.x == 13:
        raise ValueError("thirteen")
    return True


def refuse_rows(row: Any) -> tuple[int, int]:
    refuse(row)
    return row.x, 1


def refuse_all(row: Any) -> list[tuple[int, int]]:
    return [refuse_rows(row)]


def refuse_group(pairs: list[tuple[Any, int]]) -> int:
    if any(value == 13 for value, _ in pairs):
        raise ValueError("thirteen in a group")
    return len(pairs)


def refuse_sum(total: int, rows: int) -> int:
    if total > 100:
        raise ValueError("more than 100")
    return total - rows


def wrong_type(row: Any) -> tuple[Any, int]:
    return ("text" if row.x == 13 else row.x), 1


PAIR = {"x": int, "y": int}


def failing() -> Circuit:
    """Build the circuit; the parts are named as the failures below."""
    c = Circuit("failing")

    def part(name: str, **kind: Any) -> Any:
        return c.input(name, schema=PAIR, **kind)

    c.output("divided", part("division").filter(10 / col("x") > 1))
    c.output("multiplied", part("product").map(x=col("x") * col("y")))
    c.output("filtered", part("filter").filter(refuse))
    c.output("mapped", part("map").map(refuse_rows, PAIR))
    c.output("expanded", part("flat_map").flat_map(refuse_all, PAIR))
    c.output("typed", part("type").map(wrong_type, PAIR))
    for name in ("fold", "linear", "count", "count_all", "sum", "avg", "arg_max", "count_in_tick"):
        source = part(name)
        rows = source if name in ("count_all", "fold") else source.filter(col("y") > -5)
        groups = rows.group_by() if name == "count_all" else rows.group_by("x")
        functions: dict[str, Any] = {
            "fold": fold(refuse_group, "y", type=int),
            "linear": linear(refuse_sum, "y", count(), type=int),
            "sum": col("y").sum(),
            "avg": col("y").mean(),
            "arg_max": col("y").last(by="y"),
        }
        c.output(f"{name}_of", groups.agg(n=functions.get(name, count())))
        # Read by another key, so that the groups are on other shards than the rows.
        c.output(f"{name}_by_y", source.group_by("y").agg(n=count(), m=col("x").last(by="x")))
    c.output("projected", part("projection").select("y"))
    c.output("summed", part("weights").select("y").distinct())
    scaled = part("scale")
    c.output("scaled", scaled + scaled)
    c.output("joined", part("left").join(part("right"), on=["x"]))
    c.output("crossed", part("wide").select("y").join(part("other").select("y"), on=[]))
    c.output("keyed", part("keyed", key=["x"]).group_by("y").agg(n=count()))
    stock = part("stock") - part("sold")
    c.output("checked", stock.assert_nonnegative("enough in stock"))
    edge = part("edge", kind="set")
    for name, bound in (("rounds", 30), ("growth", 1000)):
        seed = part(name, kind="set")
        with c.fixpoint(name, max_iterations=bound) as scope:
            number = scope.variable(name, PAIR)
            more = col("x") + 1 if name == "rounds" else col("x") * col("x") * 4
            grown = number.map(x=more, y=col("y") % 3)
            scope.define(number, (seed + grown).distinct())
        c.output(f"{name}_reached", scope.leave(number))
    with c.fixpoint("walk", max_iterations=20) as scope:
        walk = scope.variable("walk", {"x": int, "y": int})
        step = walk.join(edge.map(y=col("x"), z=col("y")), on=["y"]).map(x=col("x") + 1, y=col("z"))
        scope.define(walk, (edge + step).distinct())
    c.output("walked", scope.leave(walk))
    return c


def ring(size: int) -> Tick:
    return {"edge": [(n, (n + 1) % size) for n in range(size)]}


SOME = [(n, n % 3 + 1) for n in range(1, 9)]

FAILURES = [
    Failure("division by zero", {"division": [*SOME, (0, 1)]}),
    Failure("overflow of a product", {"product": [*SOME, (2**40, 2**40)]}),
    *(Failure(f"exception in {name}", {name: [*SOME, (13, 1)]}) for name in ("filter", "map", "flat_map")),
    Failure("a value of a wrong type", {"type": [(13, 1)]}),
    Failure("exception in fold", {"fold": [*SOME, (3, 13)]}),
    Failure("exception in linear", {"linear": [*SOME, (3, 101)]}),
    *(
        Failure(
            f"overflow of {name}",
            {name: {(1, 2): BIG, **dict.fromkeys(SOME, 1)}},
            [{name: {(1, 0): BIG}}, {name: {(1, 1): BIG - 1}}],
        )
        for name in ("count", "count_all")
    ),
    Failure("overflow of count() in a tick", {"count_in_tick": {(1, n): BIG for n in range(8)}}),
    Failure("overflow of a sum", {"sum": [(1, BIG)]}, [{"sum": [(1, BIG - 1)]}, {"sum": [(1, 1)]}]),
    Failure("overflow of an average", {"avg": [(1, BIG)]}, [{"avg": [(1, BIG - 1)]}, {"avg": [(1, 1)]}]),
    Failure("overflow of a projection", {"projection": {(n, 1): BIG for n in range(8)}}),
    Failure("overflow of a projection on two shards", {"projection": {(0, 1): BIG, (1, 1): BIG}}),
    Failure("overflow before distinct", {"weights": {(n, 1): BIG for n in range(8)}}),
    Failure(
        "overflow before distinct in later ticks",
        {"weights": {(2, 1): 1}},
        [{"weights": {(0, 1): BIG}}, {"weights": {(1, 1): BIG - 1}}],
    ),
    Failure("overflow of a multiple", {"scale": {(1, 1): BIG}}),
    Failure("overflow of a join", {"left": {(1, 1): BIG}, "right": {(1, 1): 2, (2, 2): 1}}),
    Failure("overflow of a product of streams", {"wide": {(1, 1): BIG}, "other": {(1, 1): 2, (2, 2): 1}}),
    Failure("two rows of a key", {"keyed": {(1, 1): 1, (1, 2): 1}}),
    Failure("too many rows sold", {"sold": [(n, 1) for n in range(1, 5)]}, [{"stock": SOME}]),
    Failure("iterations", {"rounds": [(1, 1), (5, 2)]}),
    Failure("overflow in a recursion", {"growth": [(1, 1)]}),
    Failure("iterations of a walk", ring(4)),
    Failure("an unknown input", {"nothing": [(1, 1)]}),
    Failure("a wrong type", {"map": [("one", 1)]}),
    Failure("a wrong weight", {"map": {(1, 1): 2**63}}),
]
