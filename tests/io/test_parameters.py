"""Parameters of input and output directives."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbsp.compiler.datalog.meaning.directives import fact_source, unknown_parameters, wrong_parameters
from dbsp.errors import InputError


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("input", {"IO": "stdout"}, "IO=stdout is not known for .input"),
        ("output", {"IO": "stdin"}, "IO=stdin is not known for .output"),
        ("printsize", {"IO": "file"}, "IO=file is not known for .printsize"),
        ("input", {"delimiter": ""}, "the delimiter is empty"),
        ("input", {"delimiter": '"', "rfc4180": "true"}, "with rfc4180=true the delimiter has no quotation"),
        ("input", {"columns": "0"}, "columns='0' does not say where the columns are"),
        ("input", {"columns": "1:1"}, "columns='1:1' does not say"),
        ("input", {"columns": "x:y"}, "columns='x:y' does not say"),
        ("output", {"format": "table"}, "format=table is not known"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(
    kind: str, parameters: dict[str, str], message: str
) -> None:
    ((found, _),) = wrong_parameters(kind, parameters, 2)
    assert found.startswith(message)


def test_parameters_are_checked_again_where_they_are_used() -> None:
    with pytest.raises(InputError, match=r".input r: IO=tape is not known for .input; known are file, stdin"):
        fact_source("r", {"IO": "tape"}, Path())


def test_unknown_parameters() -> None:
    expected = [("the parameter 'filemname' of .output means nothing", "did you mean 'filename'?")]
    assert unknown_parameters("output", {"filemname": "x", "name": "y"}) == expected
