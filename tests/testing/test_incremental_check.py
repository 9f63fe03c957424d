"""The check accepts right engines, and finds each error with the smallest changes that show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import dbsp
from dbsp.testing import Checked, Mismatch, Refused, check_incremental, random_changes
from dbsp.testing.checked_engine import Weights
from tests.testing import wrong_engines
from tests.testing.wrong_engines import Copy, Forgetful, Raises, copied

CHANGES = random_changes({"a": (range(3), range(3))}, ticks=25, seed=2)
CLOSURE = """
.decl edge(x: number, y: number) .input edge
.decl path(x: number, y: number) .output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def closure(inputs: Mapping[str, Weights]) -> dict[str, set[Any]]:
    paths = set(inputs["edge"])
    while new := {(x, z) for x, y in paths for w, z in inputs["edge"] if y == w} - paths:
        paths |= new
    return {"path": paths}


def mismatch(engine: Any, changes: Any = CHANGES, **options: Any) -> Mismatch:
    with pytest.raises(Mismatch) as raised:
        check_incremental(engine, copied, changes, **options)
    return raised.value


def test_a_program_and_a_circuit() -> None:
    changes = random_changes({"edge": (range(4), range(4))}, ticks=15, rows=3, sets=["edge"])
    done = check_incremental(dbsp.compile(CLOSURE), closure, changes, sets=["edge"])
    rows = sum(len(delta) for tick in changes for delta in tick.values())
    assert done == Checked(runs=4, ticks=15 + 1 + rows + 45, rows=rows)

    circuit = dbsp.Circuit("counts")
    by_x = circuit.input("sale", x=int, y=int).group_by("x").agg(n=dbsp.count())
    circuit.output("sold", by_x)

    def counts(inputs: Mapping[str, Weights]) -> dict[str, list[Any]]:
        total: dict[int, int] = {}
        for (x, _), weight in inputs["sale"].items():
            total[x] = total.get(x, 0) + weight
        return {"sold": list(total.items())}

    check_incremental(circuit, counts, random_changes({"sale": (range(3), range(3))}, seed=7))


def test_an_engine_without_views() -> None:
    assert check_incremental(wrong_engines.CopyWithoutViews, copied, CHANGES).runs == 4


@pytest.mark.parametrize(
    ("engine", "shapes", "problem"),
    [
        ("IgnoresDeletions", [[1], [-1]], "the change of 'b': expected {ROW: -1}, got nothing"),
        ("CountsOnce", [[2]], "the change of 'b': expected {ROW: +2}, got {ROW: +1}"),
        ("DropsTheThirdRow", [[1, 1, 1]], "the change of 'b': expected {ROW: +1}, got nothing"),
        ("RepeatsInEmptyTicks", [[1], []], "the change of 'b': expected nothing, got {ROW: +1}"),
        ("ShowsAnOldView", [[1]], "the contents of 'b': expected {(2, 2): +1}, got nothing"),
        ("Raises", [[1], [1]], "the engine raised KeyError('lost')"),
    ],
)
def test_the_smallest_changes_that_show_an_error(engine: str, shapes: Any, problem: str) -> None:
    found = mismatch(getattr(wrong_engines, engine))
    assert [[*delta.values()] for tick in found.changes for delta in (tick.get("a", {}),)] == shapes
    rows = [row for tick in found.changes for row in tick.get("a", {})]
    assert found.problem in {problem.replace("ROW", repr(row)) for row in rows}
    assert found.tick == len(shapes)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{found.problem}; tick {len(shapes)} of these changes")
    space: dict[str, Any] = {}
    exec("\n".join(lines[1:]), space)
    assert space["changes"] == found.changes


def test_the_error_of_the_engine_is_the_cause() -> None:
    found = mismatch(Raises)
    assert found.changes == [{"a": {(2, 2): 1}}, {"a": {(1, 1): 1}}]
    assert isinstance(found.__cause__, KeyError)


def test_splits_show_what_the_given_ticks_do_not() -> None:
    rows = [{"a": {(x, x): 1}} for x in range(3)]
    assert check_incremental(wrong_engines.DropsTheThirdRow, copied, rows, splits=False).runs == 1
    found = mismatch(wrong_engines.DropsTheThirdRow, rows)
    assert found.changes == [{"a": {(0, 0): 1, (1, 1): 1, (2, 2): 1}}]
    assert "tick 1 of these changes in one tick:" in str(found)
    found = mismatch(wrong_engines.RepeatsInEmptyTicks, rows)
    assert "tick 2 of these changes with empty ticks between:" in str(found)


def test_smaller_changes_delete_no_absent_row() -> None:
    """Unless the given changes do: an engine may not be made for them."""
    found = mismatch(wrong_engines.IgnoresDeletions, [{"a": {(1, 1): 3}}, {"a": {(1, 1): -2}}])
    assert found.changes == [{"a": {(1, 1): 1}}, {"a": {(1, 1): -1}}]
    found = mismatch(wrong_engines.IgnoresDeletions, [{"a": {(1, 1): 1}}, {"a": {(1, 1): -2}}])
    assert found.changes == [{"a": {(1, 1): -1}}]


def test_inputs_with_set_semantics() -> None:
    changes = [{"a": {(1,): 1}}, {"a": {(1,): 1, (2,): 4}}, {"a": {(1,): -3, (3,): -1}}]
    program = dbsp.compile(".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x).")
    assert check_incremental(program, copied, changes, sets=["a"]).runs == 4
    # As a bag, the same changes have other contents.
    with pytest.raises(Mismatch, match="expected nothing, got"):
        check_incremental(
            program, lambda inputs: {"b": set(inputs["a"])}, changes[:1] * 2 + [{"a": {(1,): -1}}]
        )
    found = mismatch(wrong_engines.CopyWithoutViews, changes, sets=["a"])
    assert found.problem == "the change of 'b': expected {(2,): +1}, got {(2,): +2}"


def test_the_search_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = mismatch(wrong_engines.IgnoresDeletions, CHANGES)
    first = mismatch(wrong_engines.IgnoresDeletions, CHANGES, attempts=0)
    assert first.changes == CHANGES[: first.tick]
    with monkeypatch.context() as patched:
        starts: list[object] = []
        engine = wrong_engines.IgnoresDeletions
        patched.setattr(wrong_engines.IgnoresDeletions, "start", lambda: starts.append(1) or engine())
        between = mismatch(wrong_engines.IgnoresDeletions, CHANGES, attempts=2)
    assert len(starts) <= 1 + 1 + 2
    size = [len(repr(each.changes)) for each in (first, between, unlimited)]
    assert size[0] > size[1] > size[2]


def test_an_error_that_does_not_come_again() -> None:
    Forgetful.runs = 0
    found = mismatch(Forgetful)
    assert "which do not fail in every run" in str(found)
    assert found.changes == CHANGES[: found.tick]


def test_wrong_contents_at_the_start() -> None:
    found = mismatch(wrong_engines.StartsWithARow)
    assert (found.tick, found.changes) == (0, [])
    assert found.problem == "the contents of 'b' at the start: expected nothing, got {(9, 9): +1}"


class Limited(Copy):
    """It refuses contents of more than two rows, as `limited` demands."""

    after_refusal = "same"

    def delta(self, change: Weights) -> Weights:
        if len({**self.contents, **change}) - (-1 in change.values()) > 2 and self.after_refusal != "accepts":
            if self.after_refusal == "other":
                self.contents = {}
            raise (ValueError if self.after_refusal != "type" else TypeError)("too many")
        return change


def limited(inputs: Mapping[str, Weights]) -> dict[str, Weights]:
    if len(inputs["a"]) > 2:
        raise Refused(ValueError)
    return copied(inputs)


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("same", None),
        ("accepts", "expected an error of type ValueError, got a result"),
        ("type", "the engine raised TypeError('too many')"),
        ("other", "after an error, the contents of 'b': expected {(0,): +1, (1,): +1}, got nothing"),
    ],
)
def test_a_tick_that_must_be_refused(after: str, problem: str | None) -> None:
    class Engine(Limited):
        after_refusal = after

    changes = [{"a": [(x,)]} for x in range(4)] + [{"a": {(0,): -1}}, {"a": {(3,): 1}}]
    if problem is None:
        check_incremental(Engine, limited, changes, splits=False)
    else:
        with pytest.raises(Mismatch) as raised:
            check_incremental(Engine, limited, changes, splits=False)
        assert raised.value.problem == problem
        assert len(raised.value.changes) == 3


def test_an_insertion_and_a_deletion_are_left_out_together() -> None:
    class ForgetsTheLast(Copy):
        def delta(self, change: Weights) -> Weights:
            gone = {row for row, weight in change.items() if self.contents.get(row) == -weight}
            return {row: weight for row, weight in change.items() if row not in gone}

    changes = [{"a": {(1,): 3}}, {"a": {(1,): -1}}, {"a": {(1,): -1}}, {"a": {(1,): -1}}]
    assert mismatch(ForgetsTheLast, changes).changes == [{"a": {(1,): 1}}, {"a": {(1,): -1}}]


def test_smaller_changes_fail_in_the_same_way() -> None:
    class TwoErrors(Raises):
        def delta(self, change: Weights) -> Weights:
            return {row: weight for row, weight in super().delta(change).items() if weight > 0}

    changes = [{"a": {(2, 2): 1, (0, 0): 1}}, {"a": {(1, 1): 1, (0, 0): -1}}]
    assert mismatch(TwoErrors, changes).changes == [{"a": {(2, 2): 1}}, {"a": {(1, 1): 1}}]


def test_an_engine_that_computes_nothing_before_its_first_tick() -> None:
    class Late(Copy):
        """It emits the constant row 'c' in its first tick."""

        def delta(self, change: Weights) -> Weights:
            return change if self.contents else {**change, ("c",): 1}

    def with_constant(inputs: Mapping[str, Weights]) -> dict[str, Weights]:
        return {"b": {**inputs["a"], ("c",): 1}}

    check_incremental(Late, with_constant, CHANGES)


def test_a_list_of_rows_repeats_them() -> None:
    check_incremental(Copy, lambda inputs: {"b": [(1,)] * inputs["a"].get((1,), 0)}, [{"a": {(1,): 2}}])


def test_many_rows_are_cut_short() -> None:
    class Empty(wrong_engines.CopyWithoutViews):
        def delta(self, change: Weights) -> Weights:
            return {}

    found = mismatch(Empty, [{"a": [(x,) for x in range(13)]}], attempts=0)
    assert "(9,): +1} and 3 more rows, got nothing" in found.problem


def test_wrong_arguments() -> None:
    with pytest.raises(dbsp.ArgumentError, match=r"a collection of names of inputs, got 'a'; write \['a'\]"):
        check_incremental(Copy, copied, [], sets="a")
    message = "expected a Z-set as the changes of 'a' in tick 2, got 7; give a dict from rows to weights"
    for wrong in (7, {(1,): "x"}, [[1]]):
        with pytest.raises(dbsp.ArgumentError, match=message.replace("7", ".*")):
            check_incremental(Copy, copied, [{}, {"a": wrong}])
