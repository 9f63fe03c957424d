"""Rolling aggregates: every row with aggregates of the rows before it, up to a distance."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, SchemaError, col, count
from dbsp.circuit.stage import Stage

Rows = dict[tuple[str, int, int], int]

CHANGES = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 3)),
        st.sampled_from((1, 1, 2, -1)),
        max_size=5,
    ),
    max_size=5,
)


def build() -> Circuit:
    circuit = Circuit()
    sale = circuit.input("sale", shop=str, day=int, price=int)
    rolled = sale.rolling(
        "day", 3, partition=["shop"], n=count(), total=col("price").sum(), most=col("price").max()
    )
    circuit.output("out", rolled)
    return circuit


def model(rows: Rows) -> dict[tuple[str, int, int, int, int, int], int]:
    out = {}
    for (shop, day, price), own in rows.items():
        window: dict[int, int] = {}
        for (s, d, p), w in rows.items():
            if s == shop and day - 3 <= d <= day:
                window[p] = window.get(p, 0) + w
        n = sum(window.values())
        if own > 0 and n > 0:
            present = [p for p, w in window.items() if w > 0]
            out[(shop, day, price, n, sum(p * w for p, w in window.items()), max(present))] = 1
    return out


@given(CHANGES)
def test_every_stage_follows_the_definition(changes: list[Rows]) -> None:
    circuit = build()
    runs = [circuit.start(stage) for stage in Stage]
    rows: Rows = {}
    for change in changes:
        for row, weight in change.items():
            rows[row] = rows.get(row, 0) + weight
        for run in runs:
            run.step({"sale": change})
            assert run.view("out").to_dict() == model(rows)


def test_the_size_for_a_timestamp_is_a_timedelta() -> None:
    circuit = Circuit()
    seen = circuit.input("seen", at=datetime)
    circuit.output("out", seen.rolling("at", timedelta(minutes=5), n=count()))
    run = circuit.start()
    noon = datetime(2024, 1, 1, 12)
    run.step({"seen": [(noon,), (noon + timedelta(minutes=4),), (noon + timedelta(minutes=8),)]})
    assert [n for _, n in run.view("out").rows()] == [1, 2, 2]


def test_a_result_may_not_take_the_name_of_a_column() -> None:
    circuit = Circuit()
    seen = circuit.input("seen", at=int)
    with pytest.raises(SchemaError, match=r"Rolling at test_rolling\.py:\d+: 'at' is already a column"):
        seen.rolling("at", 1, at=count())
