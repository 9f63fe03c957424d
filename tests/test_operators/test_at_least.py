"""AtLeast: rows by their weight, and whether a stream has a number of rows."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp import Stream
from dbsp.operators.groups.at_least import AtLeast

from ..everywhere import follow_everywhere
from ..reference import Z
from ..strategies import Tick, rows, small, ticks

COLUMNS = {"x": int}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_that_occur_often_enough(number: int) -> None:
    def operator(stream: Stream) -> Stream:
        return AtLeast(number)(stream)

    def model(a: Z) -> Z:
        return {row: 1 for row, weight in a.items() if weight >= number}

    @given(ticks({"a": rows(small)}))
    def check(sequence: list[Tick]) -> None:
        follow_everywhere(operator, model, COLUMNS, "x", sequence)

    check()


@given(ticks({"a": rows(small)}))
def test_whether_there_are_so_many_rows(sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda stream: AtLeast(3)(stream.distinct().project()),
        lambda a: {(): 1} if sum(weight > 0 for weight in a.values()) >= 3 else {},
        COLUMNS,
        "x",
        sequence,
    )
