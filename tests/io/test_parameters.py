"""Parameters of input and output directives."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbsp.compiler.datalog.meaning.directives import fact_source, unknown_parameters, wrong_parameters
from dbsp.errors import InputError


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("input", {"IO": "stdout"}, "unknown value IO=stdout in .input"),
        ("output", {"IO": "stdin"}, "unknown value IO=stdin in .output"),
        ("printsize", {"IO": "file"}, "unknown value IO=file in .printsize"),
        ("input", {"delimiter": ""}, "the delimiter is empty"),
        ("input", {"delimiter": '"', "rfc4180": "true"}, "with rfc4180=true the delimiter cannot contain"),
        ("input", {"columns": "0"}, "columns='0' does not give the position of every column"),
        ("input", {"columns": "1:1"}, "columns='1:1' does not give"),
        ("input", {"columns": "x:y"}, "columns='x:y' does not give"),
        ("input", {"IO": "parquet", "columns": "0:1"}, "columns= does not apply to IO=parquet"),
        ("input", {"filename": "x.ndjson", "columns": "0:1"}, "columns= does not apply to IO=ndjson"),
        ("output", {"IO": "csv", "delimiter": ";;"}, "with IO=csv the delimiter is one character"),
        ("output", {"format": "table"}, "unknown value format=table"),
    ],
)
def test_invalid_parameters(kind: str, parameters: dict[str, str], message: str) -> None:
    ((found, _),) = wrong_parameters(kind, parameters, 2)
    assert found.startswith(message)


def test_parameters_are_checked_again_where_they_are_used() -> None:
    message = r".input r: unknown value IO=tape in .input; known: file, stdin.* \[invalid-directive\]"
    with pytest.raises(InputError, match=message):
        fact_source("r", {"IO": "tape"}, Path())


def test_unknown_parameters() -> None:
    expected = [("unknown parameter 'filemname' of .output is ignored", "did you mean 'filename'?")]
    assert unknown_parameters("output", {"filemname": "x", "name": "y"}) == expected
