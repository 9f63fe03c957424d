"""Edits of the page as changes of inputs."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import dbsp
from dbsp.data.schema import Schema
from dbsp.inspector.edited_changes import MOST_ROWS, read_edits

PROGRAM = dbsp.compile("""
.type List = [head: number, tail: List]
.decl item(n: number, price: float, name: symbol, parts: List)
.input item
.decl small(n: unsigned)
.input small
.pragma "word-size" "32"
""")
INPUTS = {**PROGRAM.inputs, "day": Schema.of(d=dt.date, t=dt.datetime, ok=bool, text=str | None)}


def edit(relation: object, *cells: object, weight: object = 1) -> dict[str, object]:
    return {"relation": relation, "cells": list(cells), "weight": weight}


def read(*edits: object) -> Any:
    return read_edits(list(edits), INPUTS, PROGRAM.ranges)


def test_cells_are_read_by_the_types_of_their_columns() -> None:
    found = read(
        edit("item", " -7", "1e3", 'a, "b"', "[1, [2, nil]]"),
        edit("item", "0x10", ".5", "", None, weight=-1),
        edit("day", "2026-01-31", "2026-01-31T12:30:00", "true", None),
        edit("day", "2026-01-31", "2026-01-31T12:30:00", "0", "nil"),
    )
    (first, plus), (second, minus) = found["item"].items()
    assert (first[:3], plus) == ((-7, 1000.0, 'a, "b"'), 1)
    assert (first[3], second, minus) == ((1, (2, None)), (16, 0.5, "", None), -1)
    noon = dt.datetime(2026, 1, 31, 12, 30)
    assert found["day"] == {
        (dt.date(2026, 1, 31), noon, True, None): 1,
        (dt.date(2026, 1, 31), noon, False, "nil"): 1,
    }


def test_the_last_edit_of_a_row_counts() -> None:
    assert read(edit("small", "1"), edit("small", "2"), edit("small", "1", weight=-1)) == {
        "small": {(2,): 1, (1,): -1}
    }


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (None, "expected a list of edited rows, got nothing [invalid-change]"),
        ([], "expected a list of edited rows, got [] [invalid-change]"),
        ([3], "edited row 1: expected a weight of 1 or -1, got 3 [invalid-change]"),
        ([edit("small", "1", weight=2)], "edited row 1: expected a weight of 1 or -1, got {"),
        (
            [edit("small", "1"), edit("smal", "1")],
            "row 2: expected an input (item, small, day), got 'smal' [unknown-input]",
        ),
        ([edit(["small"], "1")], "got ['small'] [unknown-input]"),
        ([edit("small")], "'small': expected 1 value (n: int), got 0 values [wrong-arity]"),
        ([{**edit("small"), "cells": "1"}], "'small': expected 1 value (n: int), got '1' [wrong-arity]"),
        ([edit("small", 1)], "column 'n': expected a text, got 1 [wrong-type]"),
        ([edit("small", None)], "column 'n': expected a text, got nothing [wrong-type]"),
        ([edit("small", "")], "column 'n': expected a whole number, got '' [wrong-type]"),
        ([edit("small", "1; 2")], "column 'n': expected a whole number, got '1; 2' [wrong-type]"),
        (
            [edit("small", "-1")],
            "column 'n': expected an unsigned number of 32 bits (0 to 2^32-1), got '-1' [value-out-of-range]",
        ),
        ([edit("small", f"{2**64}")], "column 'n': expected an unsigned number of 32 bits (0 to 2^32-1)"),
        ([edit("item", "9" * 5000, "1", "", None)], "column 'n': expected a whole number of 32 bits"),
        (
            [edit("item", "1", "1", "\ud800", None)],
            "column 'name': expected UTF-8 text, got half a character [wrong-type]",
        ),
        ([edit("item", "1", "1", "", "[1")], "column 'parts': expected "),
        (
            [edit("day", "31.1.2026", "", "", None)],
            "column 'd': expected a date such as 2024-01-31, got '31.1.2026' [wrong-type]",
        ),
        ([edit("small", "1")] * (MOST_ROWS + 1), "got 1,001; apply them in several ticks [invalid-change]"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: object, message: str) -> None:
    with pytest.raises(dbsp.InputError) as caught:
        read_edits(edits, INPUTS, PROGRAM.ranges)
    assert message in str(caught.value)
