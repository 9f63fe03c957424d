"""explode: one row for each element of a list, against a model in Python, tick by tick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, col, count, from_json
from dbsp.errors import ArgumentError, SchemaError, ValueOutOfRangeError
from dbsp.operators.linear.explode import Explode
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"x": int, "l": list[int | None], "o": "list[{a: int, b: list[str]}]?"}
DROP = {"keep_empty": False}

numbers = st.lists(st.none() | small, max_size=3).map(tuple)
structs = st.none() | st.lists(
    st.tuples(small, st.lists(st.sampled_from("ab"), max_size=2).map(tuple)), max_size=2
).map(tuple)


def exploded(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    inner = a.explode("o", into="p", **DROP).map(x=col("x"), a=col("p").field("a"), b=col("p").field("b"))
    return {
        "numbers": a.explode("l", **DROP),
        "placed": a.explode("l", into="e", position="at", **DROP),
        "structs": a.explode("o", position="at", **DROP),
        "twice": inner.explode("b", into="letter", **DROP),
        "pairs": a.explode("l", into="e", **DROP).explode("o", into="p", **DROP),
        "sums": a.explode("l", into="e", **DROP).group_by("e").agg(n=count()),
        "kept": a.explode("l", position="at"),
        "kept structs": a.explode("o", into="p", position="at"),
        "kept pairs": a.explode("o", into="p").explode("l", into="e"),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]
    numbers = reference.flat_map(a, lambda r: [(r[0], e, r[2]) for e in r[1]])
    counts: dict[Any, int] = {}
    for row, weight in numbers.items():
        counts[row[1]] = counts.get(row[1], 0) + weight
    return {
        "numbers": numbers,
        "placed": reference.flat_map(a, lambda r: [(r[0], e, r[2], at) for at, e in enumerate(r[1])]),
        "structs": reference.flat_map(a, lambda r: [(*r[:2], e, at) for at, e in enumerate(r[2] or ())]),
        "twice": reference.flat_map(a, lambda r: [(r[0], s[0], e) for s in r[2] or () for e in s[1]]),
        "pairs": reference.flat_map(a, lambda r: [(r[0], e, s) for e in r[1] for s in r[2] or ()]),
        "kept": reference.flat_map(a, lambda r: [(r[0], e, r[2], at) for at, e in placed(r[1])]),
        "kept structs": reference.flat_map(a, lambda r: [(*r[:2], e, at) for at, e in placed(r[2])]),
        "kept pairs": reference.flat_map(
            a, lambda r: [(r[0], e, s) for _, s in placed(r[2]) for _, e in placed(r[1])]
        ),
        "sums": {(e, n): 1 for e, n in counts.items() if n > 0},
    }


def placed(elements: Any) -> list[tuple[int | None, Any]]:
    """The elements of a list with their positions; None for an empty list and for None."""
    return list(enumerate(elements)) if elements else [(None, None)]


@given(ticks({"a": rows(small, numbers, structs)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(exploded, model, sequence)


@given(ticks({"a": rows(small, numbers, structs)}, max_ticks=3))
def test_the_circuit_read_from_json_has_the_same_results(sequence: list[Tick]) -> None:
    circuit = Circuit("exploded")
    for name, stream in exploded(circuit).items():
        circuit.output(name, stream)
    run, read = circuit.start(), from_json(circuit.to_json()).start()
    for tick in sequence:
        assert dict(run.step(tick)) == dict(read.step(tick))


def test_the_drawing_names_the_columns() -> None:
    assert Explode(1, "item", "place").label == "Explode into item, place"
    assert Explode(1, "item").label == "Explode into item"


def test_wrong_columns_are_refused() -> None:
    a = Circuit("wrong").input("a", schema=COLUMNS)
    with pytest.raises(SchemaError, match="explode expects a list, got 'x: int'; declare the column as list"):
        a.explode("x")
    with pytest.raises(SchemaError, match="unknown column 'z'"):
        a.explode("z")
    with pytest.raises(SchemaError, match="column 'x' occurs twice"):
        a.explode("l", into="x")
    with pytest.raises(SchemaError, match="column 'o' occurs twice"):
        a.explode("l", position="o")
    with pytest.raises(ArgumentError, match="explode expects column names"):
        a.explode(col("l"))  # type: ignore[arg-type]


def test_the_types_of_the_elements() -> None:
    a = Circuit("types").input("a", x=int, l=list[int], o="list[str]?")
    assert a.explode("l", position="at").schema.describe() == "x: int, l: int?, o: list[str]?, at: int?"
    dropped = a.explode("o", "e", position="at", keep_empty=False)
    assert dropped.schema.describe() == "x: int, l: list[int], e: str, at: int"


def test_the_lowest_int_is_no_element_beside_none() -> None:
    circuit = Circuit("lowest")
    a = circuit.input("a", l=list[int])
    circuit.output("out", a.explode("l"))
    run = circuit.start()
    run.step({"a": [([1],)]})
    with pytest.raises(ValueOutOfRangeError, match=r"-2\*\*63 represents None in an optional int column"):
        run.step({"a": [([-(2**63)],)]})
    assert run.view("out").rows() == [(1,)]
    assert run.step({"a": [([],)]})["out"].rows() == [(None,)]
