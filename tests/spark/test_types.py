"""Every type of Spark: there and back through a circuit, or refused with the column's name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dbsp
from dbsp import Circuit, SchemaError
from dbsp.spark.spark_types import conform
from tests.spark.support import Arrivals, finish

UTC = dt.UTC
BERLIN = dt.timezone(dt.timedelta(hours=2))

# (Spark type, relation type, input value, output value in Spark, output type in Spark)
TYPES: list[tuple[str, str, Any, Any, str]] = [
    ("byte", "int", -128, -128, "bigint"),
    ("short", "int", 1, 1, "bigint"),
    ("int", "int", 2**31 - 1, 2**31 - 1, "bigint"),
    ("long", "int", 2**63 - 1, 2**63 - 1, "bigint"),
    ("float", "float", 0.5, 0.5, "double"),
    ("double", "float", -1e300, -1e300, "double"),
    ("boolean", "bool", True, True, "boolean"),
    ("string", "str", "grün", "grün", "string"),
    ("binary", "bytes", b"\x00\xff", b"\x00\xff", "binary"),
    ("date", "date", dt.date(1582, 10, 15), dt.date(1582, 10, 15), "date"),
    (
        "timestamp",
        "timestamp",
        dt.datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=BERLIN),
        dt.datetime(2026, 7, 1, 10, 0, 0, 1, tzinfo=UTC),
        "timestamp",
    ),
    ("timestamp_ntz", "timestamp", dt.datetime(2026, 7, 1, 12), dt.datetime(2026, 7, 1, 12), "timestamp_ntz"),
    (
        "decimal(20, 3)",
        "object",
        Decimal("12345678901234567.125"),
        Decimal("12345678901234567.125"),
        "decimal(20,3)",
    ),
    ("array<int>", "object", [1, None, 2], [1, None, 2], "array<int>"),
    (
        "timestamp",
        "timestamptz(Europe/Rome)",
        dt.datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=BERLIN),
        dt.datetime(2026, 7, 1, 10, 0, 0, 1, tzinfo=UTC),
        "timestamp",
    ),
    ("decimal(20, 3)", "decimal(18, 3)", Decimal("-1.125"), Decimal("-1.125"), "decimal(18,3)"),
    ("array<int>", "list[int?]", [1, None, 2], [1, None, 2], "array<bigint>"),
    (
        "struct<a: long, b: string>",
        "{a: int?, b: str?}",
        (1, None),
        {"a": 1, "b": None},
        "struct<a: long, b: string>",
    ),
    (
        "struct<a: long, b: array<struct<c: string>>>",
        "object",
        {"a": 1, "b": [{"c": "x"}]},
        {"a": 1, "b": [{"c": "x"}]},
        "struct<a: long, b: array<struct<c: string>>>",
    ),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_round_trips(spark: Any, tmp_path: Path, zone: str) -> None:
    names = [f"c{i}" for i in range(len(TYPES))]
    ddl = ", ".join(f"{name} {spec[0]}" for name, spec in zip(names, TYPES, strict=True))
    arrivals = Arrivals(tmp_path / "in", ddl)
    nothing = (None,) * len(TYPES)
    arrivals.put(tuple(spec[2] for spec in TYPES), nothing)
    arrivals.put(nothing)

    circuit = Circuit("types")
    schema = {name: f"{spec[1]}?" for name, spec in zip(names, TYPES, strict=True)}
    circuit.output("out", circuit.input("in", schema=schema))
    seen: list[pa.Table] = []
    out = ", ".join(f"{name} {spec[4]}" for name, spec in zip(names, TYPES, strict=True))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        finish(
            dbsp.spark.stream(circuit)
            .source("in", arrivals.frame(spark))
            .sink("out", lambda frame, tick: seen.append(frame.toArrow()), schema=out)
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    first, second = seen
    rows = [tuple(row.values()) for row in first.to_pylist()]
    assert sorted(rows, key=repr) == sorted([(*(spec[3] for spec in TYPES), 1), (*nothing, 1)], key=repr)
    assert second.to_pylist() == [dict.fromkeys(names) | {"weight": 1}]


def test_schemas_of_spark_and_of_relations(spark: Any) -> None:
    assert dbsp.spark.schema_of("a int not null, b string, c decimal(10, 2) not null").describe() == (
        "a: int, b: str?, c: object"
    )
    schema = dbsp.Schema.of(a=int, b=str | None, at="timestamp", d=Decimal)
    struct = dbsp.spark.struct_of(schema, "d decimal(10, 2), at timestamp_ntz")
    assert struct.simpleString() == "struct<a:bigint,b:string,at:timestamp_ntz,d:decimal(10,2)>"
    assert [field.nullable for field in struct.fields] == [False, True, False, False]
    nested = dbsp.Schema.of(p="decimal(18, 2)", z="timestamptz(Europe/Rome)?", l="list[{a: int, b: str?}]")
    assert dbsp.spark.struct_of(nested).simpleString() == (
        "struct<p:decimal(18,2),z:timestamp,l:array<struct<a:bigint,b:string>>>"
    )


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("m map<string, int>", r"column 'm': relations have no maps.*array_sort\(map_entries\(m\)\)"),
        ("xs array<struct<m: map<int, int>>>", r"column 'xs\[\]\.m': relations have no maps"),
        (
            "i interval day",
            r"column 'i': relations have no type interval day; cast the column",
        ),
        ("v variant", "column 'v': relations have no type variant"),
        ("n void", "column 'n': relations have no type void"),
        ("m map<string, int>, v variant", r"column 'm': .*; column 'v': "),
    ],
)
def test_types_that_relations_do_not_have(spark: Any, ddl: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        dbsp.spark.schema_of(ddl)


def test_types_that_spark_cannot_hold(spark: Any) -> None:
    schema = dbsp.Schema.of(a=int, d=object)
    with pytest.raises(SchemaError, match="column 'd' holds objects; give their Spark type"):
        dbsp.spark.struct_of(schema)
    with pytest.raises(SchemaError, match="column 'a': expected a Spark type for int, got string"):
        dbsp.spark.struct_of(schema, "a string, d decimal(3, 1)")
    with pytest.raises(SchemaError, match="unknown column 'e'"):
        dbsp.spark.struct_of(schema, "e string, d decimal(3, 1)")
    with pytest.raises(SchemaError, match="expected a StructType or DDL text, got 3"):
        dbsp.spark.struct_of(schema, 3)
    with pytest.raises(SchemaError, match="column 'd': relations have no maps"):
        dbsp.spark.struct_of(schema, "d map<int, int>")
    with pytest.raises(SchemaError, match=r"column 'l.d' has the type duration, which Spark cannot hold"):
        dbsp.spark.struct_of(dbsp.Schema.of(l="{d: duration}"))
    narrow = dbsp.spark.struct_of(dbsp.Schema.of(a=int), "a byte")
    with pytest.raises(SchemaError, match=r"column 'a'.*300"):
        conform(pa.table({"a": [300]}), narrow)
