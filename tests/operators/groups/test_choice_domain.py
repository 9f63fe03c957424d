"""Choice, compared with a loop over the rows, at the top level and in a scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import SchemaError, Stream
from dbsp.operators.groups.choice import _numbered
from tests.everywhere import follow_everywhere
from tests.harness import start
from tests.reference import Row, Z
from tests.strategies import Tick, rows, small, ticks, words

COLUMNS = {"x": int, "y": int, "s": str}
ROW = rows(st.integers(0, 2), small, words)


def chosen(domains: Sequence[Sequence[int]]) -> Callable[[Z], Z]:
    def choose(a: Z) -> Z:
        kept: list[Row] = []
        for row in sorted(row for row, weight in a.items() if weight > 0):
            if not any(all(row[c] == other[c] for c in domain) for other in kept for domain in domains):
                kept.append(row)
        return dict.fromkeys(kept, 1)

    return choose


@pytest.mark.slow
@pytest.mark.parametrize(
    "domains", [((0,),), ((0, 2),), ((0,), (2,)), ((0, 1), (0, 2)), ((2,), (0, 1)), ((0, 1, 2),)]
)
def test_equals_a_loop_over_the_rows(domains: tuple[tuple[int, ...], ...]) -> None:
    def operator(stream: Stream) -> Stream:
        names = stream.schema.names
        return stream.choice_domain(*([names[c] for c in domain] for domain in domains))

    @given(ticks({"a": ROW}))
    def check(sequence: list[Tick]) -> None:
        follow_everywhere(operator, chosen(domains), COLUMNS, "x", sequence)

    check()


@pytest.mark.parametrize("domains", [(), ((),), ("x", ())])
def test_a_domain_has_a_column(domains: tuple[Sequence[str], ...]) -> None:
    with pytest.raises(
        SchemaError, match=r"ChoiceDomain at test_choice_domain\.py:\d+: choice_domain needs one"
    ):
        start(lambda c: c.input("a", schema=COLUMNS).choice_domain(*domains))


def test_the_columns_of_a_domain_must_exist() -> None:
    with pytest.raises(SchemaError, match="'z'"):
        start(lambda c: c.input("a", schema=COLUMNS).choice_domain(["x", "z"]))
    run = start(lambda c: c.input("a", schema=COLUMNS).choice_domain("x", ["y", "s"]))
    run.step({"a": [(1, 1, "p"), (1, 2, "q"), (2, 1, "p"), (3, 2, "q")]})
    assert run.view("out").rows() == [(1, 1, "p"), (3, 2, "q")]


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([0, 2**62, -(2**63)])), max_size=40))
def test_equal_rows_have_equal_numbers(pairs: list[tuple[int, int]]) -> None:
    numbers = _numbered(np.array(pairs, np.int64).reshape(-1, 2))
    assert (
        len(set(zip(pairs, numbers.tolist(), strict=True))) == len(set(pairs)) == len(set(numbers.tolist()))
    )
    assert sorted(set(numbers.tolist())) == list(range(len(set(pairs))))


def test_domains_without_a_common_column_are_numbered_without_a_sort() -> None:
    """A tick recomputes all rows, so it must not sort them for each domain."""
    run = start(lambda c: c.input("a", x=int, y=int).choice_domain("x", "y"))
    side = 30
    run.step({"a": [(x, y) for x in range(side) for y in range(side)]})
    with patch("numpy.unique", side_effect=AssertionError("expected no sort")):
        run.step({"a": {(3, 3): -1}})
    assert run.view("out").rows() == [
        *((x, x) for x in range(3)), (3, 4), (4, 3), *((x, x) for x in range(5, side)),
    ]  # fmt: skip
