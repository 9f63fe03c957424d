"""AtLeast: rows by their weight, and whether a stream has a number of rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dbsp import SchemaError, Stream
from tests.everywhere import follow_everywhere
from tests.harness import start
from tests.reference import Z
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"x": int}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_of_sufficient_weight(number: int) -> None:
    def operator(stream: Stream) -> Stream:
        return stream.at_least(number)

    def model(a: Z) -> Z:
        return {row: 1 for row, weight in a.items() if weight >= number}

    @given(ticks({"a": rows(small)}))
    def check(sequence: list[Tick]) -> None:
        follow_everywhere(operator, model, COLUMNS, "x", sequence)

    check()


@given(ticks({"a": rows(small)}))
def test_a_stream_with_a_number_of_rows(sequence: list[Tick]) -> None:
    follow_everywhere(
        lambda stream: stream.distinct().select().at_least(3),
        lambda a: {(): 1} if sum(weight > 0 for weight in a.values()) >= 3 else {},
        COLUMNS,
        "x",
        sequence,
    )


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2"])
def test_the_weight_must_be_an_int_of_1_or_more(number: Any) -> None:
    with pytest.raises(SchemaError, match=r"AtLeast at test_at_least\.py:\d+: at_least expects a weight"):
        start(lambda c: c.input("a", schema=COLUMNS).at_least(number))
