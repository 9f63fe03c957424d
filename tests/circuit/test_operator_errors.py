"""Errors of operators, inputs and constants name the operator and the caller's line."""

from __future__ import annotations

import pytest

from dbsp import Circuit, CircuitError, InputError, SchemaError, Stream, col, count
from dbsp.errors import ValueOutOfRangeError
from tests.circuit.support import PAIR, Build, Refusal, check_refused, edges


def two_circuits(c: Circuit, e: Stream) -> None:
    _, other = edges("other")
    e.join(other, on=["x"])


def union_of_two_circuits(c: Circuit, e: Stream) -> None:
    e + edges("other")[1]


def output_of_another_circuit(c: Circuit, e: Stream) -> None:
    c.output("out", edges("other")[1])


def union_of_types(c: Circuit, e: Stream) -> None:
    e + c.input("names", x=int, y=str)


def union_of_arities(c: Circuit, e: Stream) -> None:
    e.union(e.select("x"))


def minus_of_types(c: Circuit, e: Stream) -> None:
    e - c.input("names", x=int, y=str)


def join_of_types(c: Circuit, e: Stream) -> None:
    e.join(c.input("names", x=str, z=int), on=["x"])


def join_of_types_in_the_second_pair(c: Circuit, e: Stream) -> None:
    e.join(c.input("names", a=int, b=str), on=[("x", "a"), ("x", "b")])


def semijoin_of_types(c: Circuit, e: Stream) -> None:
    e.join(c.input("names", x=str), on=["x"], how="semi")


def antijoin_without_column(c: Circuit, e: Stream) -> None:
    e.join(e, on=["z"], how="anti")


def select_without_column(c: Circuit, e: Stream) -> None:
    e.select("x", "z")


def select_twice(c: Circuit, e: Stream) -> None:
    e.select("x", "x")


def rename_without_column(c: Circuit, e: Stream) -> None:
    e.rename(a="z")


def rename_into_another(c: Circuit, e: Stream) -> None:
    e.rename(y="x")


def filter_without_column(c: Circuit, e: Stream) -> None:
    e.filter(col("z") > 1)


def filter_by_a_number(c: Circuit, e: Stream) -> None:
    e.filter(col("x") + 1)


def filter_by_no_condition(c: Circuit, e: Stream) -> None:
    e.filter(3)  # type: ignore[arg-type]


def rolling_without_column(c: Circuit, e: Stream) -> None:
    e.rolling("z", 3, n=count())


def map_without_column(c: Circuit, e: Stream) -> None:
    e.map(a=col("z"))


def map_without_schema(c: Circuit, e: Stream) -> None:
    e.map(lambda row: row)


def map_without_anything(c: Circuit, e: Stream) -> None:
    e.map()


def flat_map_without_types(c: Circuit, e: Stream) -> None:
    e.flat_map(lambda row: [row], {"x": "integer"})


def join_without_column(c: Circuit, e: Stream) -> None:
    e.join(e, on=["z"])


def join_selects_unknown(c: Circuit, e: Stream) -> None:
    e.join(e, on=["x"], select=["x", "z"])


def join_of_clashing_names(c: Circuit, e: Stream) -> None:
    e.join(c.input("f", x_right=int, x=int), on=[("x", "x_right")])


def group_without_column(c: Circuit, e: Stream) -> None:
    e.group_by("z")


def group_twice(c: Circuit, e: Stream) -> None:
    e.group_by("x", "x")


def aggregate_nothing(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg()


def aggregate_into_key(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg(x=count())


def aggregate_without_column(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg(n=col("z").sum())


def sum_of_strings(c: Circuit, e: Stream) -> None:
    c.input("names", x=int, s=str).group_by("x").agg(n=col("s").sum())


def input_twice(c: Circuit, e: Stream) -> None:
    c.input("edge", x=int)


def input_of_unknown_type(c: Circuit, e: Stream) -> None:
    c.input("f", x="integer")


def input_without_columns(c: Circuit, e: Stream) -> None:
    c.input("f")


def input_of_unknown_kind(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, kind="bag")


def input_with_unknown_key(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, key=["id"])


def input_with_key_twice(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, key=["x", "x"])


def output_twice(c: Circuit, e: Stream) -> None:
    c.output("out", e)
    c.output("out", e)


def constant_of_wrong_type(c: Circuit, e: Stream) -> None:
    c.constant([(1, "a")], PAIR)


def constant_of_wrong_weight(c: Circuit, e: Stream) -> None:
    c.constant({(1, 2): 1.5}, PAIR)  # type: ignore[dict-item]


def constant_overflow(c: Circuit, e: Stream) -> None:
    c.constant([(1, 2**63)], PAIR)


ERRORS: dict[Build, Refusal] = {
    two_circuits: (CircuitError, "Join", "circuits, 'other' and 'c'; build both in one circuit"),
    union_of_two_circuits: (
        CircuitError,
        "Union",
        "the inputs belong to different circuits, 'other' and 'c'; build both in one circuit",
    ),
    output_of_another_circuit: (
        CircuitError,
        "Output",
        "circuits, 'other' and 'c'; build both in one circuit",
    ),
    union_of_types: (
        SchemaError,
        "Union",
        "columns of the streams differ: (x: int, y: int) and (x: int, y: str)",
    ),
    union_of_arities: (
        SchemaError,
        "Union",
        "the columns of the streams differ: (x: int, y: int) and (x: int)",
    ),
    minus_of_types: (
        SchemaError,
        "Minus",
        "columns of the streams differ: (x: int, y: int) and (x: int, y: str)",
    ),
    join_of_types: (SchemaError, "Join", "cannot join 'x: int' with 'x: str': the types differ"),
    join_of_types_in_the_second_pair: (SchemaError, "Filter", "cannot compare 'a: int' with 'b: str'"),
    semijoin_of_types: (SchemaError, "Semijoin", "cannot join 'x: int' with 'x: str': the types differ"),
    antijoin_without_column: (
        SchemaError,
        "Join",
        "on=: unknown column 'z'; the columns are (x: int, y: int)",
    ),
    select_without_column: (SchemaError, "Select", "unknown column 'z'; the columns are (x: int, y: int)"),
    select_twice: (SchemaError, "Project", "column 'x' occurs twice in (x, x)"),
    rename_without_column: (SchemaError, "Rename", "unknown column 'z'; the columns are (x: int, y: int)"),
    rename_into_another: (SchemaError, "Rename", "column 'y' occurs twice in (y, y)"),
    filter_without_column: (SchemaError, "Filter", "unknown column 'z'; the columns are (x: int, y: int)"),
    filter_by_a_number: (
        SchemaError,
        "Filter",
        'expects a boolean expression, but col("x") + 1 has type int',
    ),
    filter_by_no_condition: (SchemaError, "Filter", "or a function of a row; got 3"),
    rolling_without_column: (SchemaError, "Rolling", "unknown column 'z'; the columns are (x: int, y: int)"),
    map_without_column: (SchemaError, "Map", "unknown column 'z'; the columns are (x: int, y: int)"),
    map_without_schema: (
        SchemaError,
        "Map",
        "either a function and the schema of its rows, or named expressions",
    ),
    map_without_anything: (SchemaError, "Map", "map needs at least one column, such as"),
    flat_map_without_types: (SchemaError, "FlatMap", "column 'x': unknown type 'integer'"),
    join_without_column: (SchemaError, "Join", "unknown column 'z'; the columns are (x: int, y: int)"),
    join_selects_unknown: (SchemaError, "Join", "no column 'z'; its columns are x, y, x_right, y_right"),
    join_of_clashing_names: (SchemaError, "Join", "column 'x_right' would occur twice in the result"),
    group_without_column: (SchemaError, "Aggregate", "unknown column 'z'; the columns are (x: int, y: int)"),
    group_twice: (SchemaError, "Aggregate", "column 'x' occurs twice in (x, x)"),
    aggregate_nothing: (SchemaError, "Aggregate", "agg needs at least one aggregate, such as n=count()"),
    aggregate_into_key: (SchemaError, "Aggregate", "'x' is already a grouping column"),
    aggregate_without_column: (
        SchemaError,
        "Aggregate",
        "unknown column 'z'; the columns are (x: int, y: int)",
    ),
    sum_of_strings: (
        SchemaError,
        "Aggregate",
        "sum 'n' expects an int, a float, a decimal or a duration, got str",
    ),
    input_twice: (CircuitError, "Input", "circuit 'c' already has an input 'edge'"),
    input_of_unknown_type: (SchemaError, "Input", "column 'x': unknown type 'integer'"),
    input_without_columns: (
        SchemaError,
        "Input",
        "expected the columns of 'f' either as schema={'x': int} or by name",
    ),
    input_of_unknown_kind: (
        SchemaError,
        "Input",
        "kind= of 'f' expects 'zset' or 'set', got 'bag'; for one row per key give key=",
    ),
    input_with_unknown_key: (SchemaError, "Input", "unknown column 'id'; the columns are (x: int)"),
    input_with_key_twice: (SchemaError, "Input", "column 'x' occurs twice in (x, x)"),
    output_twice: (CircuitError, "Output", "circuit 'c' already has an output 'out'"),
    constant_of_wrong_type: (InputError, "Constant", "row 0, column 'y': expected int, got 'a' of type str"),
    constant_of_wrong_weight: (InputError, "Constant", "expected an int as weight, got 1.5 of type float"),
    constant_overflow: (
        ValueOutOfRangeError,
        "Constant",
        "column 'y': expected an int from -2**63 to 2**63 - 1, got 9223372036854775808",
    ),
}


@pytest.mark.parametrize("build", ERRORS, ids=lambda build: build.__name__)
def test_refused_with_the_operator_and_the_line(build: Build) -> None:
    check_refused(build, *ERRORS[build])
