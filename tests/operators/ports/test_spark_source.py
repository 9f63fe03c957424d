"""SparkSource: the Z-set of a micro-batch. Needs no Spark: a micro-batch is an Arrow table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, InputError, Run, Schema, SchemaError, from_json
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.spark_pair import bind_ports

PERSON = Schema.of(id=int, name=str | None, age=int)


def source(kind: str = "zset", **settings: Any) -> SparkSource:
    return SparkSource("person", PERSON, kind, (0,) if kind == "key" else (), **settings)


def circuit_of(operator: SparkSource) -> Circuit:
    circuit = Circuit("people")
    circuit.output("out", circuit.input("person", schema=PERSON))
    return bind_ports(circuit, [operator])


def started(operator: SparkSource) -> Run:
    return circuit_of(operator).start()


def table(*rows: tuple[Any, ...], **further: list[Any]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.string(), pa.int32())
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.table({**dict(zip(PERSON.names, arrays, strict=True)), **further})


def step(run: Run, operator: SparkSource, batch: pa.Table) -> dict[tuple[Any, ...], int]:
    return run.step({"person": operator.change(batch)})["out"].to_dict()


ann, bob, old_ann = (1, "ann", 30), (2, "bob", 40), (1, "ann", 29)


def test_rows_are_added_once_each() -> None:
    operator = source()
    assert step(started(operator), operator, table(ann, bob, ann)) == {ann: 2, bob: 1}


def test_weights_are_taken_as_they_are() -> None:
    operator = source(encoding="weight", column="n")
    delta = step(started(operator), operator, table(ann, bob, ann, n=pa.array([3, -1, -1], pa.int8())))
    assert delta == {ann: 2, bob: -1}


@pytest.mark.parametrize(
    "word", ["I", "insert", "c", "create", "r", "read", "update_postimage", "+I", "+U", "INSERT"]
)
def test_what_is_there(word: str) -> None:
    operator = source(encoding="operations")
    assert step(started(operator), operator, table(ann, operation=[word])) == {ann: 1}


@pytest.mark.parametrize("word", ["D", "delete", "d", "update_preimage", "-U", "-D"])
def test_what_is_gone(word: str) -> None:
    operator = source(encoding="operations")
    assert step(started(operator), operator, table(ann, operation=[word])) == {ann: -1}


@pytest.mark.parametrize("word", ["U", "u", "update"])
def test_an_update_without_its_old_row_needs_a_key(word: str) -> None:
    keyed = source("key", encoding="operations")
    run = started(keyed)
    step(run, keyed, table(old_ann, operation=["c"]))
    assert step(run, keyed, table(ann, operation=[word])) == {old_ann: -1, ann: 1}
    with pytest.raises(
        InputError,
        match=f"source 'person': the operation '{word}' in 1 row of column 'operation' needs a key",
    ):
        source(encoding="operations").change(table(ann, operation=[word]))


@given(
    st.lists(st.tuples(st.sampled_from([ann, bob, old_ann]), st.sampled_from("IUD")), max_size=12),
    st.integers(1, 4),
)
def test_a_change_feed_with_a_key_is_a_dict(changes: list[tuple[Any, str]], size: int) -> None:
    operator = source("key", encoding="operations")
    run = started(operator)
    expected: dict[int, Any] = {}
    for at in range(0, len(changes), size):
        part = changes[at : at + size]
        step(
            run,
            operator,
            table(*(row for row, _ in part), operation=pa.array([w for _, w in part], pa.string())),
        )
        for row, word in part:
            if word == "D":
                expected.pop(row[0], None)
            else:
                expected[row[0]] = row
        assert run.view("out").rows() == sorted(expected.values())


def test_a_delete_by_key_reads_no_other_column() -> None:
    operator = source("key", encoding="operations", column="__op")
    run = started(operator)
    step(run, operator, table(ann, bob, __op=["c", "c"]))
    gone = table((1, None, None), (3, "eve", 5), __op=["d", "c"])
    assert step(run, operator, gone) == {ann: -1, (3, "eve", 5): 1}


def test_the_last_row_of_a_key_stays() -> None:
    operator = source("key", encoding="upsert")
    run = started(operator)
    assert step(run, operator, table(old_ann, bob, ann)) == {ann: 1, bob: 1}
    assert step(run, operator, table(old_ann)) == {ann: -1, old_ann: 1}


def test_changes_out_of_order_are_sorted() -> None:
    operator = source("key", encoding="operations", sequence_by="version")
    run = started(operator)
    feed = table(
        ann, old_ann, old_ann, bob, bob,
        operation=["update_postimage", "update_preimage", "insert", "delete", "insert"],
        version=[2, 2, 1, 4, 3],
    )  # fmt: skip
    assert step(run, operator, feed) == {ann: 1}
    ordered_by_a_column_of_its_own = source("key", encoding="upsert", sequence_by="age")
    assert step(run, ordered_by_a_column_of_its_own, table(ann, old_ann)) == {}


def test_what_was_never_there_is_counted() -> None:
    operator = source("set", encoding="operations")
    run = started(operator)
    result = run.step({"person": operator.change(table(ann, bob, operation=["D", "I"]))})
    assert result["out"].to_dict() == {bob: 1}
    assert result.absent == {"person": 1}
    result = run.step({"person": operator.change(table(bob, operation=["I"]))})
    assert (result.absent, result.present) == ({}, {"person": 1})


@pytest.mark.parametrize(
    ("operator", "batch", "message"),
    [
        (
            source(),
            table(ann).drop_columns(["age"]),
            r"source 'person': expected the columns \(id, name, age\), got \(id, name\): missing 'age'",
        ),
        (source(), table(ann, size=[1]), "unexpected 'size'; drop or rename it"),
        (source(encoding="weight"), table(ann), "missing 'weight'"),
        (
            source(encoding="weight"),
            table(ann, weight=[1.5]),
            "the weight column 'weight': expected integers, got double",
        ),
        (
            source(encoding="weight"),
            table(ann, bob, weight=pa.array([1, None])),
            "the weight column 'weight' is null in 1 row",
        ),
        (
            source(encoding="operations"),
            table(ann, bob, bob, operation=["I", "X", "X"]),
            "the operation column 'operation': expected insert, .*, got 'X' in 2 rows",
        ),
        (
            source(encoding="operations"),
            table(ann, operation=pa.array([None], pa.string())),
            "the operation column 'operation' is null in 1 row",
        ),
        (
            source(encoding="operations"),
            table(ann, operation=[1]),
            "the operation column 'operation': expected strings, got int64",
        ),
        (
            source("key", encoding="upsert"),
            table((None, "x", 1), ann),
            "source 'person': the key column 'id' is null in 1 row",
        ),
        (
            source("key", encoding="upsert", sequence_by="v"),
            table(ann, v=pa.array([None], pa.int64())),
            "the column 'v' of sequence_by is null in 1 row",
        ),
        (source(), table((1, "ann", None)), "relation 'person'.*column 'age': expected int, got None"),
    ],
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(
    operator: SparkSource, batch: pa.Table, message: str
) -> None:
    run = started(operator)
    with pytest.raises((InputError, SchemaError), match=message):
        run.step({"person": operator.change(batch)})
    assert run.tick == 0
    assert not run.view("out")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoding": "updates"}, "unknown encoding 'updates'; expected one of append, weight,"),
        ({"encoding": "upsert"}, "encoding='upsert' needs a key"),
        ({"encoding": "append", "column": "w"}, "encoding='append' has no weight or operation"),
        ({"encoding": "weight", "column": "age"}, "'age' is a column of the relation"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises((InputError, SchemaError), match=f"source 'person': {message}"):
        source(**settings)


def test_it_is_part_of_the_circuit_as_it_is_written() -> None:
    circuit = circuit_of(source("key", encoding="operations", column="op", sequence_by="at"))
    again = from_json(circuit.to_json())
    assert again.same_as(circuit)
    assert [node.label for node in again.nodes] == ["SparkSource person [operations]", "Output out"]


def test_only_an_input_that_is_there_can_be_bound() -> None:
    circuit = circuit_of(source())
    with pytest.raises(SchemaError, match=r"Input person: expected the columns .*, got "):
        bind_ports(circuit, [SparkSource("person", Schema.of(id=int))])
