"""Windows over event time, the watermark, and groups that it closes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    CircuitError,
    EvaluationError,
    InvariantError,
    Run,
    SchemaError,
    Stream,
    ValueOutOfRangeError,
    col,
    count,
    linear,
    lit,
)
from dbsp.circuit.stage import Stage
from tests import reference
from tests.everywhere import follow_everywhere
from tests.harness import start, view
from tests.reference import Row, Z, add, aggregate, flat_map, minus, select
from tests.strategies import Tick, rows, small, ticks

COLUMNS = {"t": int, "u": int | None}
ROW = rows(small, st.none() | st.integers(-9, 9))


def windows_of(time: int | None, size: int, hop: int) -> Iterator[tuple[int, int]]:
    if time is not None:
        for start in range(-50, 50):
            if start % hop == 0 and start <= time < start + size:
                yield start, start + size


@pytest.mark.parametrize(("size", "hop"), [(3, None), (1, None), (4, 2), (5, 3), (2, 5)])
@given(ticks({"a": ROW}))
def test_every_row_is_in_the_windows_that_contain_its_time(
    size: int, hop: int | None, sequence: list[Tick]
) -> None:
    def model(a: Z) -> Z:
        return flat_map(a, lambda row: [(*row, *w) for w in windows_of(row[1], size, hop or size)])

    follow_everywhere(lambda s: s.window("u", size, hop), model, COLUMNS, "t", sequence)


def test_windows_of_dates_and_timestamps() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        a = c.input("a", day=date, at=datetime)
        quarter, week = timedelta(minutes=15), timedelta(days=7)
        return {
            "weeks": a.window("day", week, names=("from", "until")).select("from", "until"),
            "quarters": a.window("at", 2 * quarter, hop=quarter).select("window_start", "window_end"),
        }

    run = start(build)
    run.step({"a": [(date(1970, 1, 8), datetime(1969, 12, 31, 23, 59))]})
    assert view(run, "weeks") == {(date(1970, 1, 8), date(1970, 1, 15)): 1}
    assert view(run, "quarters") == {
        (datetime(1969, 12, 31, 23, 30), datetime(1970, 1, 1)): 1,
        (datetime(1969, 12, 31, 23, 45), datetime(1970, 1, 1, 0, 15)): 1,
    }


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
def test_a_window_beyond_the_range_of_its_type(time: int) -> None:
    run = start(lambda c: c.input("a", t=int).window("t", 10))
    with pytest.raises(ValueOutOfRangeError, match=r"Window at .*beyond the range of type int"):
        run.step({"a": [(time,)]})
    days = start(lambda c: c.input("a", t=date).window("t", timedelta(days=3)))
    with pytest.raises(ValueOutOfRangeError):
        days.step({"a": [(date.max,)]})


@pytest.mark.parametrize(
    ("size", "hop"), [(100, 100), (100, 7), (7, 100), (2**62, 2**61), (2**63 - 1, 2**62)]
)
@given(st.integers(0, 300), st.booleans())
def test_windows_up_to_the_limits_of_ints(size: int, hop: int, distance: int, last: bool) -> None:
    """A row is refused if one of its windows, and nothing else, is beyond the range."""
    time = 2**63 - 1 - distance if last else -(2**63) + distance
    latest = time // hop * hop
    starts = list(range(latest, time - size, -hop))
    run = start(lambda c: c.input("a", t=int).window("t", size, hop))
    if all(begin >= -(2**63) and begin + size < 2**63 for begin in starts):
        run.step({"a": [(time,)]})
        assert view(run) == {(time, begin, begin + size): 1 for begin in starts}
    else:
        with pytest.raises(ValueOutOfRangeError):
            run.step({"a": [(time,)]})


def test_the_first_and_the_last_weeks() -> None:
    run = start(lambda c: c.input("a", t=date).window("t", timedelta(days=7)).select("window_start"))
    run.step({"a": [(date(9999, 12, 25),), (date(1, 1, 7),)]})
    assert view(run) == {(date(9999, 12, 23),): 1, (date(1, 1, 4),): 1}


def test_many_windows_of_a_row() -> None:
    run = start(lambda c: c.input("a", t=int).window("t", 86_400, 1).group_by("t").agg(n=count()))
    run.step({"a": {(5,): 2, (90_000,): 1}})
    assert view(run) == {(5, 2 * 86_400): 1, (90_000, 86_400): 1}


# --- the watermark --------------------------------------------------------------------------------

EVENT = rows(st.integers(0, 30), small)
EVENTS = ticks({"a": EVENT}, max_ticks=10, max_size=4)
LATENESS = 5


class Model:
    """Computes the on-time rows, the late rows and the watermark by loops."""

    def __init__(self) -> None:
        self.mark: int | None = None
        self.on_time: Z = {}
        self.late: Z = {}

    def step(self, delta: Z) -> None:
        before = self.mark
        late = select(delta, lambda row: before is not None and row[0] < before)
        self.late = add(self.late, late)
        self.on_time = add(self.on_time, minus(delta, late))
        inserted = [row[0] - LATENESS for row, weight in delta.items() if weight > 0]
        self.mark = max([*inserted, *([] if before is None else [before])], default=None)


def watched(circuit: Circuit) -> None:
    split = circuit.input("a", t=int, v=int).watermark("t", LATENESS)
    circuit.output("on_time", split.on_time)
    circuit.output("late", split.late)
    circuit.output("watermark", split.watermark)


@pytest.mark.parametrize("stage", Stage)
@given(EVENTS)
def test_rows_older_than_the_watermark_are_late(stage: Stage, sequence: list[Tick]) -> None:
    circuit = Circuit()
    watched(circuit)
    run = circuit.start(stage)
    model = Model()
    for tick in sequence:
        before = (dict(model.on_time), dict(model.late))
        model.step(tick.get("a", {}))
        result = run.step(tick)
        assert result["on_time"].to_dict() == minus(model.on_time, before[0])
        assert result["late"].to_dict() == minus(model.late, before[1])
        assert view(run, "on_time") == model.on_time
        assert view(run, "late") == model.late
        assert view(run, "watermark") == ({} if model.mark is None else {(model.mark,): 1})


def test_a_failed_tick_does_not_change_the_watermark() -> None:
    circuit = Circuit()
    watched(circuit)
    a = circuit.input("b", x=int)
    circuit.output("failing", a.map(y=lit(1) // col("x")))
    run = circuit.start()
    run.step({"a": [(10, 0)]})
    with pytest.raises(EvaluationError):
        run.step({"a": [(1000, 0)], "b": [(0,)]})
    assert view(run, "watermark") == {(5,): 1}
    run.step({"a": [(6, 0)]})
    assert view(run, "late") == {}


def test_a_watermark_of_timestamps() -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        split = c.input("a", at=datetime).watermark("at", timedelta(minutes=1))
        late = split.late.group_by().agg(n=count())
        return {"on_time": split.on_time, "late": late, "watermark": split.watermark}

    noon = datetime(2024, 1, 1, 12)
    run = start(build)
    run.step({"a": [(noon,), (noon - timedelta(hours=1),)]})  # in one tick nothing is late
    run.step({"a": [(noon - timedelta(minutes=1),), (noon - timedelta(minutes=1, microseconds=1),)]})
    assert len(view(run, "on_time")) == 3
    assert view(run, "late") == {(1,): 1}
    assert view(run, "watermark") == {(noon - timedelta(minutes=1),): 1}
    first = start(build)
    first.step({"a": [(datetime.min,)]})
    assert view(first, "watermark") == {(datetime.min,): 1}


# --- closing --------------------------------------------------------------------------------------


def closing(circuit: Circuit) -> None:
    split = circuit.input("a", t=int, v=int).watermark("t", LATENESS)
    windows = split.on_time.window("t", 6, 3)
    grouped = windows.group_by("window_end", "window_start")
    final = grouped.final(split.watermark, "window_end", n=count(), s=col("v").sum(), m=col("v").max())
    circuit.output("final", final)
    spread = linear(int.__add__, col("v"), count(), type=int)
    other = windows.group_by("window_end").final(
        split.watermark, "window_end", mid=col("v").median(), x=spread
    )
    circuit.output("other", other)


def closed(model: Model, end: int, key: list[int], functions: list[Any]) -> Z:
    windowed = flat_map(model.on_time, lambda row: [(*row, *w) for w in windows_of(row[0], 6, 3)])
    mark = model.mark
    past = select(windowed, lambda row: mark is not None and row[end] <= mark)
    return aggregate(past, key, functions)


@pytest.mark.parametrize("stage", Stage)
@given(EVENTS)
def test_a_group_is_emitted_when_the_watermark_reaches_its_end(stage: Stage, sequence: list[Tick]) -> None:
    circuit = Circuit()
    closing(circuit)
    run = circuit.start(stage)
    model = Model()
    functions = [(reference.count, None), (reference.total, 1), (reference.largest, 1)]
    value: Z = {}
    for tick in sequence:
        model.step(tick.get("a", {}))
        before, value = value, closed(model, 3, [3, 2], functions)
        result = run.step(tick)
        assert view(run, "final") == value
        assert result["final"].to_dict() == minus(value, before)
        assert set(result["final"].to_dict().values()) <= {1}  # emitted once, never retracted
    sums = closed(model, 3, [3], [(reference.count, None), (reference.total, 1)])
    assert {(row[0], row[2]) for row in view(run, "other")} == {(e, s + n) for e, n, s in sums}


def test_the_state_is_bounded_by_the_open_windows() -> None:
    """With ten rows in every tick, the state holds only the rows of the open windows."""

    def build(c: Circuit) -> Stream:
        split = c.input("a", t=int, v=int).watermark("t", 20)
        return split.on_time.window("t", 10).group_by("window_end").final(
            split.watermark, "window_end", n=count(), s=col("v").sum()
        ).filter(col("n") < 0)  # so that the view holds nothing  # fmt: skip

    run: Run = start(build)
    most = 0
    for tick in range(1500):
        run.step({"a": [(tick, v) for v in range(10)]})
        open_rows = 10 * (min(tick, 20 + 10) + 1)
        most = max(most, run.state_rows)
        assert run.state_rows <= 8 * open_rows + 1024
    assert most < 4000 < 15_000


def test_a_row_of_a_closed_group_is_refused() -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", t=int)
        windows = a.window("t", 10)  # of all rows, late ones too
        return windows.group_by("window_end").final(a.watermark("t", 0).watermark, "window_end", n=count())

    run = start(build)
    run.step({"a": [(5,), (12,)]})
    assert view(run) == {(10, 1): 1}
    with pytest.raises(
        InvariantError, match=r"Close at .*row \(10,\) arrived after the watermark had closed"
    ):
        run.step({"a": [(7,), (100,)]})
    run.step({"a": [(13,), (20,)]})
    assert view(run) == {(10, 1): 1, (20, 2): 1}


def test_refused() -> None:
    c = Circuit()
    a = c.input("a", t=int, u=int | None, s=str, d=date)
    b = c.input("b", at=datetime)
    for message, build in [
        (r"Window at .*an event time is an int, date or timestamp, got 's: str'", lambda: a.window("s", 3)),
        ("size= expects a length of time above 0, got 0", lambda: a.window("t", 0)),
        ("hop= expects a length of time above 0, got -1", lambda: a.window("t", 3, -1)),
        ("size= expects a length of time above 0, got None", lambda: a.window("t", None)),
        (
            "size: expected a timedelta of whole days for a date column",
            lambda: a.window("d", timedelta(hours=1)),
        ),
        ("lateness= expects a length of time that is not negative, got -1", lambda: a.watermark("t", -1)),
        (r"Watermark at .*'u: int\?' may be None", lambda: a.watermark("u", 1)),
        ("closes= expects a grouping column", lambda: a.group_by("t").final(a, "d", n=count())),
        (
            "closes a group, 't: int', needs a watermark of the same type",
            lambda: a.group_by("t").final(b, "t", n=count()),
        ),
        ("at least one aggregate", lambda: a.group_by("t").final(a.select("t"), "t")),
    ]:
        with pytest.raises(SchemaError, match=message):
            build()
    with c.fixpoint("scope") as scope:
        v = scope.variable("v", b.schema)
        scope.define(v, b)
        with pytest.raises(CircuitError, match=r"call watermark\(\) on a stream outside"):
            v.watermark("at", timedelta(1))
        with pytest.raises(CircuitError, match=r"call final\(\) on a stream outside"):
            v.group_by("at").final(b, "at", n=count())


def test_rows_keep_their_weights() -> None:
    row: Row = (7, 1)
    run = start(lambda c: c.input("a", t=int, v=int).window("t", 5))
    run.step({"a": {row: -3}})
    assert view(run) == {(7, 1, 5, 10): -3}
