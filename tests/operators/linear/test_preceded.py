"""Preceded, compared with the comparison of Python tuples."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp import SchemaError, Stream
from tests.everywhere import follow_everywhere
from tests.harness import start
from tests.reference import select
from tests.strategies import Tick, rows, small, ticks, words

COLUMNS = {"x": int, "s": str, "y": int, "t": str}


def preceded(stream: Stream) -> Stream:
    return stream.preceded()


@given(ticks({"a": rows(small, words, small, words)}))
def test_equals_the_comparison_of_tuples(sequence: list[Tick]) -> None:
    follow_everywhere(preceded, lambda a: select(a, lambda row: row[2:] < row[:2]), COLUMNS, "x", sequence)


def test_halves_of_different_types_are_refused() -> None:
    with pytest.raises(
        SchemaError, match=r"columns of two rows of the same types, .*; got \(x: int, y: str\)"
    ):
        start(lambda c: preceded(c.input("a", x=int, y=str)))
