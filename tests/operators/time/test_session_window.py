"""session_window, against a recomputation from scratch, tick by tick."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Stream, count
from dbsp.errors import SchemaError, ValueOutOfRangeError
from tests import reference
from tests.harness import follow
from tests.reference import Z
from tests.strategies import Tick, nullable, rows, small, ticks, words

COLUMNS = {"t": int, "o": int | None, "s": str}
DAY = dt.timedelta(days=1)
DAYS = st.integers(0, 12).map(lambda day: dt.date(2024, 2, 25) + day * DAY)


def sessions(a: Z, time: Any, key: Any, gap: Any) -> Z:
    """The rows with start and end of their session, found by a walk over the sorted times."""
    weights: dict[Any, int] = {}
    for row, weight in a.items():
        if time(row) is not None:
            weights[key(row), time(row)] = weights.get((key(row), time(row)), 0) + weight
    members: dict[Any, list[Any]] = {}
    of_time: dict[Any, list[Any]] = {}
    for k, t in sorted((k, t) for (k, t), weight in weights.items() if weight > 0):
        if k not in members or t - members[k][-1] >= gap:
            members[k] = []
        members[k].append(t)
        of_time[k, t] = members[k]
    found: Z = {}
    for row, weight in a.items():
        session = of_time.get((key(row), time(row)))
        if session is not None:
            found[(*row, session[0], session[-1] + gap)] = weight
    return found


def built(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS)
    found = a.session_window("t", 2, partition=["s"])
    return {
        "whole": a.session_window("t", 3),
        "parts": found,
        "optional": a.session_window("o", 1, partition=["s"], names=("from", "to")),
        "counts": found.group_by("s", "session_start", "session_end").agg(n=count()),
    }


def model(inputs: dict[str, Z]) -> dict[str, Z]:
    a = inputs["a"]
    parts = sessions(a, lambda r: r[0], lambda r: r[2], 2)
    counts: dict[Any, int] = {}
    for row, weight in parts.items():
        counts[row[2:]] = counts.get(row[2:], 0) + weight
    return {
        "whole": sessions(a, lambda r: r[0], lambda r: 0, 3),
        "parts": parts,
        "optional": sessions(a, lambda r: r[1], lambda r: r[2], 1),
        "counts": {(*group, n): 1 for group, n in counts.items() if n > 0},
    }


@given(ticks({"a": rows(st.integers(-6, 6), nullable, words)}))
def test_equals_the_model_tick_by_tick(sequence: list[Tick]) -> None:
    follow(built, model, sequence)


@given(ticks({"a": rows(DAYS, small)}))
def test_days(sequence: list[Tick]) -> None:
    follow(
        lambda c: {"out": c.input("a", d=dt.date, x=int).session_window("d", 2 * DAY)},
        lambda inputs: {"out": sessions(inputs["a"], lambda r: r[0], lambda r: 0, 2 * DAY)},
        sequence,
    )


def test_sessions_of_timestamps_join_and_part() -> None:
    circuit = Circuit("visits")
    click = circuit.input("click", at="timestamptz(Europe/Rome)?", page=str)
    circuit.output("out", click.session_window("at", dt.timedelta(minutes=30)).select("page", "session_end"))
    run = circuit.start()

    def at(minute: int) -> dt.datetime:
        return dt.datetime(2024, 3, 31, tzinfo=dt.UTC) + dt.timedelta(minutes=minute)

    run.step({"click": [(at(30), "a"), (at(80), "c")]})  # clocks change between the two
    assert [end.astimezone(dt.UTC) for _, end in run.view("out").rows()] == [at(60), at(110)]
    run.step({"click": [(at(55), "b"), (None, "d")]})
    assert [end.astimezone(dt.UTC) for _, end in run.view("out").rows()] == [at(110)] * 3
    run.step({"click": {(at(55), "b"): -1}})
    assert [end.astimezone(dt.UTC) for _, end in run.view("out").rows()] == [at(60), at(110)]


def test_columns_may_have_any_names() -> None:
    circuit = Circuit("names")
    a = circuit.input("a", time=int, start=int, end=int, last=int)
    circuit.output("out", a.session_window("time", 1, partition=["end", "start"]))
    found = circuit.start().step({"a": [(5, 1, 2, 3)]})["out"]
    assert found.rows() == [(5, 1, 2, 3, 5, 6)]
    assert a.session_window("time", 1).schema.names[4:] == ("session_start", "session_end")


def test_only_the_rows_of_a_changed_session_are_emitted() -> None:
    circuit = Circuit("visits")
    circuit.output("out", circuit.input("a", t=int).session_window("t", 5))
    run = circuit.start()
    run.step({"a": [(100 * i + j,) for i in range(50) for j in range(3)]})
    delta = run.step({"a": [(4906,)]})["out"].to_dict()
    assert delta == {
        **{(4900 + j, 4900, 4907): -1 for j in range(3)},
        **{(4900 + j, 4900, 4911): 1 for j in (0, 1, 2, 6)},
    }


def test_a_session_beyond_the_range_of_the_type_is_an_error() -> None:
    circuit = Circuit("visits")
    circuit.output("out", circuit.input("a", t=int).session_window("t", 5))
    with pytest.raises(ValueOutOfRangeError):
        circuit.start().step({"a": [(2**63 - 2,)]})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a: a.session_window("z", 1), "SessionWindow at .*: unknown column 'z'"),
        (lambda a: a.session_window("s", 1), "an event time is an int, date or timestamp, got 's: str'"),
        (lambda a: a.session_window("t", 0), "gap= expects a length of time above 0, got 0"),
        (lambda a: a.session_window("t", DAY), "gap: expected an int for an int column"),
        (lambda a: a.session_window("t", 1, partition=["t"]), "column 't' occurs twice"),
        (
            lambda a: a.session_window("t", 1, names=("s", "end")),
            "'s' is already a column; give the sessions other names with names=",
        ),
        (
            lambda a: a.session_window("t", 1, names=("b", "b")),
            "'b' is already a column; give the sessions other names with names=",
        ),
    ],
)
def test_wrong_arguments(build: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        build(Circuit("a").input("a", schema=COLUMNS))


def test_the_reference_of_this_test() -> None:
    assert reference.distinct(sessions({(1,): 1, (2,): 1, (5,): 1}, lambda r: r[0], lambda r: 0, 2)) == {
        (1, 1, 4): 1,
        (2, 1, 4): 1,
        (5, 5, 7): 1,
    }
