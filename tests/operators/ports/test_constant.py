"""Constants: present from the first tick on, also if the first tick fails."""

from __future__ import annotations

import datetime as dt
import math
import zoneinfo

import pytest
from hypothesis import given

from dbsp import Circuit, Stream, UserFunctionError, count
from dbsp.data.type_inference import as_type
from dbsp.data.types import list_type
from tests import reference
from tests.harness import follow, start, view
from tests.reference import Z
from tests.strategies import Tick, deltas, rows, small, ticks

PAIR = rows(small, small)


@given(deltas(PAIR), ticks({"a": PAIR}))
def test_present_from_the_first_tick_on(value: Z, sequence: list[Tick]) -> None:
    def build(c: Circuit) -> dict[str, Stream]:
        constant = c.constant(value, {"x": int, "y": int})
        a = c.input("a", x=int, y=int)
        return {
            "alone": constant,
            "joined": a.join(constant, on=["x"]),
            "without": a.join(constant, on=["x"], how="anti"),
            "groups": (a + constant).group_by("x").agg(n=count()),
            "set": constant.distinct(),
        }

    def model(inputs: dict[str, Z]) -> dict[str, Z]:
        a = inputs["a"]
        return {
            "alone": value,
            "joined": reference.join(a, value, [(0, 0)], [(0, 0), (0, 1), (1, 1)]),
            "without": reference.antijoin(a, value, [(0, 0)]),
            "groups": reference.aggregate(reference.add(a, value), [0], [(reference.count, None)]),
            "set": reference.distinct(value),
        }

    follow(build, model, sequence)


def test_a_failed_first_tick_is_repeated() -> None:
    def fail_once(row: object, failed: list[int] = []) -> bool:  # noqa: B006
        failed.append(1)
        if len(failed) == 1:
            raise RuntimeError("once")
        return True

    run = start(lambda c: c.constant([(1,)], {"x": int}).filter(fail_once))
    with pytest.raises(UserFunctionError):
        run.step()
    assert view(run) == {}
    assert run.step()["out"].to_dict() == {(1,): 1}
    assert run.step()["out"].to_dict() == {}


def test_rows_in_every_form() -> None:
    schema = {"x": int, "s": str}
    forms: list[object] = [
        [(1, "a"), (2, "b"), (1, "a")],
        [{"s": "a", "x": 1}, {"x": 2, "s": "b"}, [1, "a"]],
        {(1, "a"): 2, (2, "b"): 1},
        (row for row in [(1, "a"), (1, "a"), (2, "b")]),
    ]
    for form in forms:
        run = start(lambda c, form=form: c.constant(form, schema))
        run.step()
        assert view(run) == {(1, "a"): 2, (2, "b"): 1}


def test_no_rows_and_rows_without_columns() -> None:
    run = start(lambda c: {"none": c.constant([], {"x": int}), "unit": c.constant([()], {})})
    result = run.step()
    assert result["none"].to_dict() == {} and result["unit"].to_dict() == {(): 1}


def test_objects_that_are_equal_in_python_stay_different() -> None:
    run = start(lambda c: {str(i): c.constant([(v,)], {"o": object}) for i, v in enumerate([1, True, 1.0])})
    run.step()
    assert [repr(run.view(name).rows()) for name in "012"] == ["[(1,)]", "[(True,)]", "[(1.0,)]"]


def test_both_instants_of_a_local_time_stay_different() -> None:
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    times = [dt.datetime(2024, 10, 27, 2, 30, tzinfo=rome, fold=fold) for fold in (0, 1)]
    zoned = as_type("timestamptz(Europe/Rome)")

    def constants(c: Circuit) -> dict[str, Stream]:
        single = {f"time {i}": c.constant([(time,)], {"t": zoned}) for i, time in enumerate(times)}
        lists = {f"list {i}": c.constant([([t],)], {"t": list_type(zoned)}) for i, t in enumerate(times)}
        return single | lists

    run = start(constants)
    run.step()
    assert [run.view(f"time {i}").rows()[0][0].fold for i in (0, 1)] == [0, 1]
    assert [run.view(f"list {i}").rows()[0][0][0].fold for i in (0, 1)] == [0, 1]


def test_equal_rows_add_up_before_distinct() -> None:
    """NaN differs from itself in Python but is one value here: two of them have weight 2."""
    run = start(
        lambda c: {
            "bag": (bag := c.constant([(math.nan,), (float("nan"),), (0.0,), (-0.0,)], {"f": float})),
            "set": bag.distinct(),
        }
    )
    run.step()
    assert [w for _, w in run.view("bag").items()] == [2, 2]
    assert [w for _, w in run.view("set").items()] == [1, 1]
