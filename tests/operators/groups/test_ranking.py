"""Top-k, ranks and shifts, compared with Python lists that hold a row of weight w w times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, Stream, ValueOutOfRangeError
from tests.everywhere import follow_everywhere
from tests.harness import final_views, follow, start, view
from tests.reference import Row, Z
from tests.strategies import Tick, nullable, resplit, rows, small, ticks, words

COLUMNS = {"k": int, "x": int | None, "s": str}
ROW = rows(st.integers(0, 1), nullable, words)
Order = Sequence[tuple[int, bool]]


def by_value(value: Any) -> Any:
    return (value is not None, value)


def partitions(a: Z, partition: Sequence[int], order: Order) -> list[list[Row]]:
    """The rows of each partition in order; a row of weight w occurs w times."""
    found: dict[Row, list[Row]] = defaultdict(list)
    for row, weight in a.items():
        found[tuple(row[c] for c in partition)] += [row] * weight
    for members in found.values():
        members.sort(key=lambda row: tuple(map(by_value, row)))
        for column, descending in reversed(order):
            # A sort is stable in both directions: rows that tie stay in the order of the whole row.
            members.sort(key=lambda row, c=column: by_value(row[c]), reverse=descending)  # type: ignore[misc]
    return list(found.values())


def top(k: int, partition: Sequence[int], order: Order) -> Callable[[Z], Z]:
    return lambda a: dict(Counter(row for m in partitions(a, partition, order) for row in m[:k]))


def ranked(kind: str, partition: Sequence[int], order: Order) -> Callable[[Z], Z]:
    def rank(a: Z) -> Z:
        result: Counter[Row] = Counter()
        for members in partitions(a, partition, order):
            keys = [tuple(row[c] for c, _ in order) for row in members]
            for place, (row, key) in enumerate(zip(members, keys, strict=True)):
                number = {
                    "rank": keys.index(key),
                    "dense_rank": len(set(keys[: keys.index(key)])),
                    "row_number": place,
                }[kind]
                result[(*row, number + 1)] += 1
        return dict(result)

    return rank


def shifted(column: int, offset: int, partition: Sequence[int], order: Order) -> Callable[[Z], Z]:
    def shift(a: Z) -> Z:
        result: Counter[Row] = Counter()
        for members in partitions(a, partition, order):
            for place, row in enumerate(members):
                other = place - offset
                result[(*row, members[other][column] if 0 <= other < len(members) else None)] += 1
        return dict(result)

    return shift


EVERY = ticks({"a": ROW}, max_ticks=5)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("descending", [False, True])
@given(sequence=EVERY)
def test_top_k(k: int, descending: bool, sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda a: a.top_k(k, "x", partition=["k"], descending=descending),
        top(k, [0], [(1, descending)]),
        COLUMNS,
        "x",
        sequence,
    )


@given(EVERY)
def test_top_k_by_strings_and_in_both_directions(sequence: list[Tick]) -> None:
    def both(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", schema=COLUMNS)
        return {
            "words": a.top_k(2, "s", partition=["k"]),
            "mixed": a.top_k(2, ["x", "s"], descending=[True, False]),
            "turned": a.top_k(3, ["x", "k"], descending=[False, True]),
            "pairs": a.top_k(3, ["k", "x"], descending=True),
            "constant": a.top_k(2, "k", partition=["k", "x"]),
        }

    follow(
        both,
        lambda inputs: {
            "words": top(2, [0], [(2, False)])(inputs["a"]),
            "mixed": top(2, [], [(1, True), (2, False)])(inputs["a"]),
            "turned": top(3, [], [(1, False), (0, True)])(inputs["a"]),
            "pairs": top(3, [], [(0, True), (1, True)])(inputs["a"]),
            "constant": top(2, [0, 1], [(0, False)])(inputs["a"]),
        },
        sequence,
    )


@given(EVERY, st.data())
def test_any_split_of_the_changes_gives_the_same_view(sequence: list[Tick], data: st.DataObject) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", schema=COLUMNS)
        return {"top": a.top_k(2, "x", partition=["k"]), "lag": a.lag("s", by="x", partition=["k"])}

    assert final_views(build, sequence) == final_views(build, data.draw(resplit(sequence)))


@pytest.mark.parametrize("kind", ["rank", "dense_rank", "row_number"])
@pytest.mark.parametrize("descending", [False, True])
@given(sequence=EVERY)
def test_ranks(kind: str, descending: bool, sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda a: getattr(a, kind)("x", partition=["k"], descending=descending, name="place"),
        ranked(kind, [0], [(1, descending)]),
        COLUMNS,
        "x",
        sequence,
    )


@pytest.mark.parametrize("kind", ["lag", "lead"])
@pytest.mark.parametrize("n", [0, 1, 3])
@given(sequence=EVERY)
def test_shifts(kind: str, n: int, sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda a: getattr(a, kind)("s", n, by="x", partition=["k"]),
        shifted(2, n if kind == "lag" else -n, [0], [(1, False)]),
        COLUMNS,
        "x",
        sequence,
    )


@given(ticks({"a": rows(small, small)}))
def test_ranks_of_ranks_with_the_same_names(sequence: list[Tick]) -> None:
    """A lowered circuit has no column names, so they cannot clash there."""

    def model(inputs: dict[str, Z]) -> Z:
        once = ranked("rank", [], [(0, False)])(inputs["a"])
        return ranked("rank", [], [(1, False)])(once)

    follow(lambda c: c.input("a", x=int, y=int).rank("x").rename(first="rank").rank("y"), model, sequence)


def test_a_heavy_row_fills_the_top_alone() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", x=int, s=str)
        return {"top": a.top_k(5, "x"), "lag": a.lag("s", 3, by="x"), "rank": a.rank("x")}

    run = start(build)
    run.step({"a": {(1, "a"): 2**40, (2, "b"): 1, (0, "z"): -(2**50)}})
    assert view(run, "top") == {(1, "a"): 5}
    assert view(run, "lag") == {(1, "a", None): 3, (1, "a", "a"): 2**40 - 3, (2, "b", "a"): 1}
    assert view(run, "rank") == {(1, "a", 1): 2**40, (2, "b", 2**40 + 1): 1}
    run.step({"a": {(1, "a"): 3 - 2**40}})
    assert view(run, "top") == {(1, "a"): 3, (2, "b"): 1}


def test_top_k_reads_only_the_first_rows_of_a_partition() -> None:
    circuit = Circuit("top")
    circuit.output("out", circuit.input("a", x=int, y=int).top_k(3, "x"))
    run = circuit.start()
    run.step({"a": [(i, i % 7) for i in range(200_000)]})
    ticks = [run.step({"a": {(0, 0): sign}}).seconds for sign in (-1, 1) * 10]
    assert sorted(ticks)[len(ticks) // 2] < 0.005
    assert view(run) == {(0, 0): 1, (1, 1): 1, (2, 2): 1}


def test_a_column_that_a_partition_names_twice_counts_once() -> None:
    circuit = Circuit("scores")
    a = circuit.input("a", x=int, s=str)
    circuit.output("top", a.top_k(1, "x", partition=["s", "s"]))
    circuit.output("rank", a.rank("x", partition=["s", "s"]))
    circuit.output("lag", a.lag("x", by="x", partition=["s", "s"]))
    result = circuit.start().step({"a": [(1, "a"), (2, "a"), (3, "b")]})
    assert result["top"].rows() == [(1, "a"), (3, "b")]
    assert result["rank"].rows() == [(1, "a", 1), (2, "a", 2), (3, "b", 1)]
    assert result["lag"].rows() == [(1, "a", None), (2, "a", 1), (3, "b", None)]


def test_what_is_refused() -> None:
    a = Circuit("c").input("a", x=int, y=int)
    with pytest.raises(SchemaError, match=r"TopK at test_ranking.py:\d+: .*got 0"):
        a.top_k(0, "x")
    with pytest.raises(SchemaError, match="at least one column"):
        a.top_k(1, [])
    with pytest.raises(SchemaError, match=r"one of them for each of the 2 columns of by=; got \[True\]"):
        a.rank(["x", "y"], descending=[True])
    with pytest.raises(SchemaError, match=r"Rank at .*unknown column 'z'"):
        a.rank("z")
    with pytest.raises(SchemaError, match="column 'x' occurs twice"):
        a.row_number("x", name="x")
    with pytest.raises(SchemaError, match=r"expected a number of rows n below 2\*\*31, got 1099511627776"):
        a.lag("x", 2**40, by="y")
    run = start(lambda c: c.input("a", x=int).row_number("x"))
    with pytest.raises(
        ValueOutOfRangeError, match=r"row_number numbers at most .* copies of a row, got 1,099,511,627,776"
    ):
        run.step({"a": {(1,): 2**40}})
    lowest = start(lambda c: c.input("a", x=int).lag("x", by="x"))
    with pytest.raises(ValueOutOfRangeError, match="represents None"):
        lowest.step({"a": {(-(2**63),): 2}})
