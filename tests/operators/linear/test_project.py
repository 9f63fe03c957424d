"""Project and rename: a bag projection, and names of inputs and outputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col
from tests import reference
from tests.harness import follow, start
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks, words

TRIPLE = rows(small, small, words)


@given(ticks({"a": TRIPLE}), st.lists(st.sampled_from([0, 1, 2]), unique=True))
def test_equals_the_batch_projection_tick_by_tick(sequence: list[Tick], columns: list[int]) -> None:
    follow(
        lambda c: c.input("a", x=int, y=int, s=str).select(*["xys"[i] for i in columns]),
        lambda inputs: reference.project(inputs["a"], columns),
        sequence,
    )


@given(ticks({"a": rows(small, small)}, max_size=9))
def test_a_projection_of_a_set_is_a_set_only_with_all_columns(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int, kind="set")
        return {
            "some": a.select("x").distinct(),
            "all": a.select("y", "x").distinct(),
            "twice": a.map(p=col("y"), q=col("x"), r=col("y")).distinct(),
            "fused": a.select("y", "x").select("x").distinct(),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a = inputs["a"]
        return {
            "some": reference.distinct(reference.project(a, [0])),
            "all": reference.project(a, [1, 0]),
            "twice": reference.project(a, [1, 0, 1]),
            "fused": reference.distinct(reference.project(a, [0])),
        }

    follow(build, model, sequence, sets={"a"})


@given(ticks({"a": TRIPLE, "b": TRIPLE}))
def test_projections_fused_into_joins(sequence: list[Tick]) -> None:
    """One joined stream, read by projections of projections and without a projection."""

    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int, s=str)
        b = c.input("b", x=int, z=int, t=str)
        joined = a.join(b, on=["x"])
        return {
            "all": joined,
            "part": joined.select("t", "y"),
            "less": joined.select("t", "y", "z").rename(u="z").select("u"),
            "none": joined.select("t").select(),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        joined_rows = reference.join(
            inputs["a"], inputs["b"], [(0, 0)], [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
        )
        return {
            "all": joined_rows,
            "part": reference.project(joined_rows, [4, 1]),
            "less": reference.project(joined_rows, [3]),
            "none": reference.project(joined_rows, []),
        }

    follow(build, model, sequence)


@given(ticks({"a": TRIPLE}, max_size=9))
def test_permutations_that_cancel_have_no_node(sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int, s=str)
        swapped = a.select("s", "y", "x")
        return {
            "same": swapped.select("x", "y", "s"),
            "other": swapped.select("y", "s", "x"),
            "less": swapped.select("x", "y"),
            "doubled": a.map(s=col("s"), p=col("x"), y=col("y"), q=col("x")).select("q", "y", "s"),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a = inputs["a"]
        return {
            "same": a,
            "other": reference.project(a, [1, 2, 0]),
            "less": reference.project(a, [0, 1]),
            "doubled": a,
        }

    follow(build, model, sequence)
    circuit = Circuit("cancelling")
    circuit.output("same", build(circuit)["same"])
    assert "Project" not in {node.operator.name for node in circuit.circuit("physical").nodes}


def test_outputs_have_the_last_names() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, s=str)
        return {
            "one": a.rename(p="x"),
            "two": a.rename(q="x", r="s"),
            "three": a.select("s", "x").rename(x="s", s="x"),
        }

    run = start(build)
    assert {name: schema.describe() for name, schema in run.outputs.items()} == {
        "one": "p: int, s: str",
        "two": "q: int, r: str",
        "three": "x: str, s: int",
    }
    run.step({"a": [(1, "a")]})
    assert run.view("three").rows() == [("a", 1)]
    assert run.view("three").schema.names == ("x", "s")


def test_renamed_columns_in_functions_and_expressions() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, y=int)
        return {
            "one": a.filter(col("x") > col("y")),
            "two": a.rename(x="y", y="x").filter(col("x") > col("y")),
            "three": a.rename(left="x", right="y").filter(lambda row: row.left > row.right),
            "four": a.rename(left="x").map(v=col("left") * 10 + col("y")),
        }

    run = start(build)
    run.step({"a": [(1, 2), (4, 3)]})
    assert [run.view(name).rows() for name in ("one", "two", "three", "four")] == [
        [(4, 3)],
        [(1, 2)],
        [(4, 3)],
        [(12,), (43,)],
    ]
