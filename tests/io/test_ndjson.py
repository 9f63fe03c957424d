"""Lines of JSON that PyArrow reads in bulk give the rows that the reader of lines gives."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, DbspError
from dbsp.data.schema import Schema
from dbsp.io import ndjson_rows
from dbsp.io.ndjson_rows import NdjsonRows
from tests.profiles import examples

GOOD = {
    "int": ["1", "-5", "9223372036854775807"],
    "float": ["1.5", "2", "1e3"],
    "str": ['"a"', '""', '"2024-01-31"'],
    "bool": ["true"],
    "date": ['"2024-01-31"'],
    "time": ['"10:00:00"'],
    "timestamp": ['"2024-01-31T12:00:00"', '"2024-01-31 12:00:00.5"', '"2024-01-31"'],
    "decimal": ["1.25", '"1.25"', "3"],
    "bytes": ['"xy"'],
    "object": ["1", '"a"', '"2024-01-31"', "1.5", '[1, "2024-01-31 10:00:00"]'],
    "list[str]": ["[]", '["2024-01-31"]', '["a", "b"]'],
    "list[date]": ["[]", '["2024-01-31"]'],
    "{a: int, b: str}": ['{"a": 1, "b": "x"}', '{"b": "2024-01-31", "a": 1}'],
}
"""By type, JSON texts of its values."""
OTHERS = [
    *("1", "1.0", "true", "null", '"a"', "[]", "[1]", "[null]", "{}", '{"a": 1}', "9223372036854775808"),
    *("-0", "01", "NaN", '"\\ud800"', '"2024-01-31T12:00:00Z"', '"2024-02-30"', "", '"x', '["a"]'),
]


def schema_of(kinds: list[str], optional: bool) -> Schema:
    types = Schema.of(**{f"k{at}": kind for at, kind in enumerate(kinds)}).types
    return Schema(
        tuple(f"k{at}" for at in range(len(kinds))),
        tuple(type_.optional() if optional else type_ for type_ in types),
    )


def rows_of(path: Path, schema: Schema) -> Any:
    """Return the rows, with the types of their values, or that they are refused."""
    circuit = Circuit("lines")
    circuit.output("o", circuit.input("a", schema=schema))
    run = circuit.start()
    try:
        run.step({"a": dbsp.read_ndjson(path)})
    except DbspError:
        return "refused"
    return sorted((repr(row), weight) for row, weight in run.view("o").items())


@st.composite
def files(draw: st.DrawFn) -> tuple[list[str], bool, str]:
    kinds = draw(st.lists(st.sampled_from(list(GOOD)), min_size=1, max_size=3))
    one_in_eight = st.integers(0, 7).map(lambda number: number == 0)
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        members = []
        for at, kind in enumerate(kinds):
            if not draw(one_in_eight):
                values = OTHERS if draw(one_in_eight) else GOOD[kind]
                members.append(f'"k{at}": {draw(st.sampled_from(values))}')
        if draw(one_in_eight):
            members.append(draw(st.sampled_from(['"x": 1', *members])))
        lines.append(f"{{{', '.join(draw(st.permutations(members)))}}}")
        if draw(one_in_eight):
            lines.append(draw(st.sampled_from(["", "  ", "null", "[]", lines[-1] + "x"])))
    return kinds, draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@settings(max_examples=examples(300))
@given(files(), st.integers(1, 40))
def test_both_ways_read_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[list[str], bool, str], block: int
) -> None:
    kinds, optional, text = file
    path = tmp_path_factory.mktemp("lines") / "a.ndjson"
    path.write_bytes(text.encode())
    schema = schema_of(kinds, optional)
    found = rows_of(path, schema)
    with patch.object(ndjson_rows, "_BLOCK", block):
        assert rows_of(path, schema) == found
    with patch.object(NdjsonRows, "_in_bulk", lambda self, block, fields: None):
        assert rows_of(path, schema) == found


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        ("date", '{"k0": 1}', "refused"),
        ("timestamp", '{"k0": 1}', "refused"),
        ("timestamp", '{"k0": "2024-01-31T12:00:00Z"}', "refused"),
        ("date", '{"k0": "\\ud800"}', "refused"),
        ("list[int]", '{"k0": {"a": 1}}', "refused"),
        ("{a: int}", '{"k0": [1]}', "refused"),
        ("list[str]", '{"k0": ["2024-01-31"]}', [(("2024-01-31",),)]),
        ("list[date]", '{"k0": ["2024-01-31"]}', [((dt.date(2024, 1, 31),),)]),
        ("object", '{"k0": ["2024-01-31", 1]}', [(("2024-01-31", 1),)]),
        ("object", '{"k0": 1}\n{"k0": 1.5}', [(1,), (1.5,)]),
        ("object", '{"k0": 9223372036854775808}', [(2**63,)]),
        ("int", '\n \n{"k0": 1}\n\n', [(1,)]),
    ],
)
def test_values_that_pyarrow_would_guess(tmp_path: Path, kind: str, line: str, expected: Any) -> None:
    (tmp_path / "a.ndjson").write_text(line)
    found = rows_of(tmp_path / "a.ndjson", schema_of([kind], optional=False))
    assert found == (expected if expected == "refused" else sorted((repr(row), 1) for row in expected))
