"""Random small circuits of all operators; every stream has the columns (x, y, s).

A circuit is drawn as a list of choices, so that a failing circuit shrinks to few operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from dbsp import (
    Circuit,
    Stream,
    col,
    count,
    fold,
    linear,
    lit,
    when,
)
from dbsp.operators.streams.join_methods import How

COLUMNS = {"x": int, "y": int | None, "s": str}
LIMIT = 5


def is_small(row: Any) -> bool:
    return bool(row.x < 3)


def turned(row: Any) -> tuple[Any, ...]:
    return (row.y or 0, row.x, row.s)


def copies(row: Any) -> list[tuple[Any, ...]]:
    return [(row.x, None, row.s), (row.x, row.y, row.s * 2)] if row.x < 2 else []


def size(pairs: list[tuple[Any, int]]) -> int:
    return sum(abs(weight) for _, weight in pairs)


def total(first: int, rows: int) -> int:
    return first + rows


FUNCTIONS = (is_small, turned, copies, size, total)
"""The Python functions of these circuits, which `from_json` needs."""


def shaped(stream: Stream, x: Any, y: Any, s: Any) -> Stream:
    """Convert a stream to the common columns, with small ints."""
    return stream.map(x=x % LIMIT, y=y, s=s)


def grouped(a: Stream) -> Stream:
    groups = a.group_by("s").agg(
        n=count(),
        most=col("x").max(),
        low=col("y").min(),
        kinds=col("x").count_distinct(),
        odd=fold(size, "x", type=int),
    )
    return shaped(groups, col("most") + col("kinds"), col("low") + col("odd"), col("s"))


def averaged(a: Stream) -> Stream:
    groups = a.group_by("x").agg(
        mean=col("x").mean(),
        half=col("x").median(),
        q=col("s").quantile(0.5),
        top=col("s").last(by="y"),
        both=linear(total, "x", count(), type=int),
        t=col("y").sum(),
    )
    y = when(col("mean") > col("half")).then(col("t")).otherwise(col("both"))
    return shaped(groups, col("x"), y, col("q").str.concat(col("top").fill_null("?")))


def joined_where(c: Circuit, a: Stream, b: Stream, how: How) -> Stream:
    found = a.join(b, on="s", how=how, where=(col("x") < col("x_right")) & (col("x") > 0))
    if how in ("semi", "anti"):
        return found
    return shaped(found, col("x").fill_null(0), col("x_right"), col("s"))


def closed(c: Circuit, a: Stream, b: Stream) -> Stream:
    with c.fixpoint("closure") as scope:
        reached = scope.variable("reached", COLUMNS)
        step = reached.join(b, on=[("y", "x")], select=["x", "y_right", "s"]).rename(y="y_right")
        scope.define(reached, (a + step).distinct())
    return scope.leave(reached)


def closed_twice(c: Circuit, a: Stream, b: Stream) -> Stream:
    with c.fixpoint("outer") as outer:
        all_rows = outer.variable("all_rows", COLUMNS)
        with outer.fixpoint("inner") as inner:
            part = inner.variable("part", COLUMNS)
            step = part.join(b, on=[("y", "x")], select=["x", "y_right", "s"]).rename(y="y_right")
            inner.define(part, (all_rows + a + step).distinct())
        turned = (
            inner.leave(part).filter(~col("y").is_null()).map(x=col("y").fill_null(0), y=col("x"), s=col("s"))
        )
        outer.define(all_rows, (a + turned.filter(col("x") < 2)).distinct())
    return outer.leave(all_rows)


def delayed(c: Circuit, a: Stream) -> Stream:
    """The rows of all earlier ticks, as a set."""
    seen = c.feedback(COLUMNS)
    c.connect(seen, (seen + a).distinct())
    return seen


UNARY: dict[str, Callable[..., Stream]] = {
    "filter": lambda c, a: a.filter((col("x") > 1) | (col("s") == "a")),
    "filter_function": lambda c, a: a.filter(is_small),
    "map": lambda c, a: shaped(a, col("x") + 1, col("y") * 2 - lit(1), col("s").str.upper()),
    "map_function": lambda c, a: a.map(turned, COLUMNS),
    "flat_map": lambda c, a: a.flat_map(copies, COLUMNS),
    "project": lambda c, a: shaped(a.select("s", "x"), col("x"), col("x"), col("s")),
    "rename": lambda c, a: shaped(a.rename(p="x"), col("p"), col("y"), col("s")),
    "distinct": lambda c, a: a.distinct(),
    "negate": lambda c, a: -a,
    "explode": lambda c, a: shaped(
        a.with_columns(part=col("s").str.replace("a", "").str.split()).explode("part"),
        col("x"),
        col("y"),
        col("part").fill_null("none"),
    ),
    "grouped": lambda c, a: grouped(a),
    "computed": lambda c, a: (
        a.group_by("s")
        .agg(x=col("x").max() - col("x").min(), y=col("y").sum() + count())
        .select("x", "y", "s")
    ),
    "averaged": lambda c, a: averaged(a),
    "top_k": lambda c, a: a.top_k(2, "x", partition=["s"], descending=True),
    "top_k_by_word": lambda c, a: a.top_k(2, ["s", "y"]),
    "rank": lambda c, a: shaped(a.rank("y", partition=["x"]), col("rank"), col("y"), col("s")),
    "dense_rank": lambda c, a: shaped(a.dense_rank("s"), col("rank"), col("y"), col("s")),
    "row_number": lambda c, a: shaped(a.top_k(9, "y").row_number("y"), col("number"), col("y"), col("s")),
    "lag": lambda c, a: shaped(a.lag("y", by="x", partition=["s"]), col("x"), col("y_lag"), col("s")),
    "lead": lambda c, a: shaped(a.lead("s", 2, by="x"), col("x"), col("y"), col("s_lead").fill_null("end")),
    "delayed": delayed,
}
BINARY: dict[str, Callable[..., Stream]] = {
    "union": lambda c, a, b: a + b,
    "minus": lambda c, a, b: a - b,
    "join": lambda c, a, b: shaped(
        a.join(b, on=["x"], select=["y", "x", "s_right"]), col("x"), col("y"), col("s_right")
    ),
    "semijoin": lambda c, a, b: a.join(b, on=["s"], how="semi"),
    "antijoin": lambda c, a, b: a.join(b, on=[("y", "y")], how="anti"),
    "left_join": lambda c, a, b: shaped(
        a.join(b, on=[("x", "x"), "s"], select=["x", "y_right", "s"], how="left"),
        col("x"),
        col("y_right"),
        col("s"),
    ),
    "left_where": lambda c, a, b: joined_where(c, a, b, "left"),
    "full_where": lambda c, a, b: joined_where(c, a, b, "full"),
    "semi_where": lambda c, a, b: joined_where(c, a, b, "semi"),
    "anti_where": lambda c, a, b: joined_where(c, a, b, "anti"),
    "closed": closed,
    "closed_twice": closed_twice,
}

NEGATING = ("negate", "minus")
RECURSIVE = ("closed", "closed_twice")

Choices = list[tuple[str, int, int]]
"""(operator, first input, second input): inputs are counted back from the newest stream."""


def choices(max_size: int = 5) -> st.SearchStrategy[Choices]:
    names = st.sampled_from([*UNARY, *BINARY])
    return st.lists(st.tuples(names, st.integers(0, 3), st.integers(0, 3)), max_size=max_size)


def build(chosen: Choices) -> Circuit:
    """Build the circuit of these choices over the inputs 'a' (a Z-set) and 'b' (a set).

    Every result is an output. A recursion over rows of negative weight need not end, so it reads a
    stream that may have such rows through `distinct`.
    """
    circuit = Circuit("random")
    streams = [
        circuit.input("a", schema=COLUMNS),
        circuit.input("b", schema=COLUMNS, kind="set"),
        circuit.constant([(1, 2, "a"), (2, None, "b")], COLUMNS),
    ]
    negative: set[int] = set()
    """The streams that may have rows of negative weight, although the inputs have none."""
    for name, *places in chosen:
        read = [len(streams) - 1 - place % len(streams) for place in places[: 1 if name in UNARY else 2]]
        if name in RECURSIVE:
            sources = [streams[n].distinct() if n in negative else streams[n] for n in read]
        else:
            sources = [streams[n] for n in read]
            if name in NEGATING or not negative.isdisjoint(read):
                negative.add(len(streams))
        streams.append((UNARY | BINARY)[name](circuit, *sources))
    for number, stream in enumerate(streams[3:]):
        circuit.output(f"out{number}", stream)
    return circuit
