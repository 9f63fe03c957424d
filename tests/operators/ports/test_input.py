"""Inputs: Z-sets, sets and keyed relations, staged one by one or passed to the step."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, InputError, Run, Stream, ValueOutOfRangeError, WeightOverflowError
from tests import reference
from tests.harness import apply_set, follow, start, view
from tests.reference import Row, Z, add, distinct
from tests.strategies import Tick, deltas, nullable, rows, small, ticks, words

PAIR = rows(small, words)
COLUMNS = {"x": int, "s": str}


# --- Z-sets ---------------------------------------------------------------------------------------


@given(ticks({"a": PAIR}))
def test_a_zset_takes_any_weights(sequence: list[Tick]) -> None:
    follow(lambda c: c.input("a", schema=COLUMNS), lambda inputs: inputs["a"], sequence)


@given(
    st.lists(st.tuples(st.sampled_from(["insert", "delete", "add"]), deltas(PAIR)), max_size=6), deltas(PAIR)
)
def test_staged_changes_add_up_with_those_of_the_step(staged: list[tuple[str, Z]], given_: Z) -> None:
    run = start(lambda c: c.input("a", schema=COLUMNS))
    handle = run.input("a")
    expected = given_
    for method, delta in staged:
        if method == "add":
            handle.add(delta)
            expected = add(expected, delta)
        else:
            getattr(handle, method)(list(delta))
            expected = add(expected, dict.fromkeys(delta, 1 if method == "insert" else -1))
    assert run.step({"a": given_})["out"].to_dict() == expected
    assert run.step()["out"].to_dict() == {}


# --- sets -----------------------------------------------------------------------------------------


def of_set(c: Circuit) -> dict[str, Stream]:
    a = c.input("a", schema=COLUMNS, kind="set")
    return {"out": a, "bag": a + a}


@given(ticks({"a": PAIR}))
def test_a_set_holds_each_row_once(sequence: list[Tick]) -> None:
    follow(
        of_set,
        lambda inputs: {"out": inputs["a"], "bag": add(inputs["a"], inputs["a"])},
        sequence,
        sets={"a"},
    )


@given(ticks({"a": PAIR, "b": PAIR}))
def test_presence_is_looked_up_in_the_order_of_a_join(sequence: list[Tick]) -> None:
    follow(
        lambda c: c.input("a", schema=COLUMNS, kind="set").join(
            c.input("b", p=int, q=str, kind="set"), on=[("s", "q")]
        ),
        lambda inputs: reference.join(inputs["a"], inputs["b"], [(1, 1)], [(0, 0), (0, 1), (1, 0)]),
        sequence,
        sets={"a", "b"},
    )


@given(ticks({"a": PAIR}))
def test_changes_without_effect_are_counted(sequence: list[Tick]) -> None:
    run = start(of_set)
    before: Z = {}
    for tick in sequence:
        result = run.step(tick)
        delta = tick.get("a", {})
        absent = sum(w < 0 and row not in before for row, w in delta.items())
        present = sum(w > 0 and row in before for row, w in delta.items())
        assert result.absent == ({"a": absent} if absent else {})
        assert result.present == ({"a": present} if present else {})
        before = apply_set(before, delta)


Action = tuple[str, Any]
actions = st.lists(
    st.tuples(st.sampled_from(["insert", "delete"]), st.lists(PAIR, max_size=3))
    | st.tuples(st.just("add"), deltas(PAIR, max_size=3)),
    max_size=8,
)


def stage(run: Run, listed: list[Action]) -> None:
    for method, argument in listed:
        getattr(run.input("a"), method)(argument)


@given(st.lists(actions, max_size=4))
def test_the_last_staged_change_of_a_row_counts(staged: list[list[Action]]) -> None:
    run = start(of_set)
    value: Z = {}
    for listed in staged:
        stage(run, listed)
        run.step()
        for method, argument in listed:
            weighted = argument.items() if method == "add" else ((row, 1) for row in argument)
            for row, weight in weighted:
                value = apply_set(value, {row: -weight if method == "delete" else weight})
        assert view(run) == value


def test_a_later_change_in_a_list_counts() -> None:
    run = start(of_set)
    run.input("a").delete([(1, "a")])
    result = run.step({"a": [(1, "a"), (2, "b"), (1, "a")]})
    assert result["out"].to_dict() == {(1, "a"): 1, (2, "b"): 1}
    assert not result.absent and not result.present


def test_a_weight_of_zero_changes_nothing() -> None:
    run = start(of_set)
    run.input("a").insert([(1, "a")])
    run.input("a").add({(1, "a"): 0})
    assert run.step({"a": {(1, "a"): 0}})["out"].to_dict() == {(1, "a"): 1}
    assert run.step({"a": {(1, "a"): 0}})["out"].to_dict() == {}


@given(ticks({"a": rows()}))
def test_sets_without_columns(sequence: list[Tick]) -> None:
    run = follow(
        lambda c: c.input("a", schema={}, kind="set"), lambda inputs: inputs["a"], sequence, sets={"a"}
    )
    run.input("a").delete([()])
    run.input("a").insert([()])
    run.step()
    assert view(run) == {(): 1}


def test_a_set_that_nothing_reads() -> None:
    run = start(lambda c: {"b": c.input("b", x=int)} if c.input("a", x=int, kind="set") else {})
    result = run.step({"a": [(1,)], "b": [(2,)]})
    assert result["b"].to_dict() == {(2,): 1}
    assert run.step({"a": [(1,)]}).present == {"a": 1}


# --- keyed relations ------------------------------------------------------------------------------


def keyed(c: Circuit) -> dict[str, Stream]:
    users = c.input("a", schema={"id": int, "s": str, "n": int | None}, key=["id"])
    return {"out": users, "names": users.select("s"), "set": users.distinct()}


USER = rows(small, words, nullable)
users = st.lists(USER, max_size=5, unique_by=lambda row: row[0])


def replaced(before: Z, upserts: list[Row], deletes: list[Row]) -> Z:
    gone = {row[0] for row in upserts + deletes}
    return {row: 1 for row in before if row[0] not in gone} | dict.fromkeys(upserts, 1)


@given(st.lists(st.tuples(users, users), max_size=6))
def test_upserts_and_deletions_use_the_key(sequence: list[tuple[list[Row], list[Row]]]) -> None:
    run = start(keyed)
    value: Z = {}
    for upserts, deletes in sequence:
        # a negative weight beside a new row of the same key is the replaced row
        change = {**dict.fromkeys(deletes, -1), **dict.fromkeys(upserts, 1)}
        before, value = value, replaced(value, upserts, deletes)
        result = run.step({"a": change})
        assert result["out"].to_dict() == reference.minus(value, before)
        assert view(run) == view(run, "set") == value
        assert view(run, "names") == reference.project(value, [1])
        known = {row[0] for row in before}
        fresh = {row[0] for row in upserts}
        missing = len({row[0] for row in deletes} - known - fresh)
        assert result.absent == ({"a": missing} if missing else {})
        same = len(set(upserts) & set(before))
        assert result.present == ({"a": same} if same else {})


@given(st.lists(st.tuples(st.booleans(), USER), max_size=12))
def test_the_last_staged_change_of_a_key_counts(changes: list[tuple[bool, Row]]) -> None:
    run = start(keyed)
    value: Z = {}
    for number, (upsert, row) in enumerate(changes):
        (run.input("a").upsert if upsert else run.input("a").delete)([row])
        value = replaced(value, [row], []) if upsert else replaced(value, [], [row])
        if number % 3 == 2:
            run.step()
            assert view(run) == value
    run.step()
    assert view(run) == value


def test_delete_by_the_key_alone() -> None:
    run = start(keyed)
    run.step({"a": [(1, "a", 5), (2, "b", None), (3, "c", 7)]})
    run.input("a").delete([(1,), {"id": 3}])
    result = run.step()
    assert result["out"].to_dict() == {(1, "a", 5): -1, (3, "c", 7): -1}
    run.input("a").delete([(9,), (2, "whatever", 4)])
    result = run.step()
    assert result["out"].to_dict() == {(2, "b", None): -1} and result.absent == {"a": 1}


def test_delete_by_a_key_of_two_columns() -> None:
    run = start(lambda c: c.input("a", x=int, s=str, y=str, key=["y", "x"]))
    run.step({"a": [(1, "a", "k"), (2, "b", "k"), (1, "c", "l")]})
    run.input("a").delete([("k", 1), {"x": 2, "y": "k"}])
    assert run.step()["out"].to_dict() == {(1, "a", "k"): -1, (2, "b", "k"): -1}
    with pytest.raises(InputError, match=r"relation 'a': row 0, column 'y': expected str, got 1 of type int"):
        run.input("a").delete([(1, "k")])


def test_a_key_of_all_columns_makes_a_set() -> None:
    run = start(lambda c: c.input("a", x=int, y=int, key=["y", "x"]))
    run.input("a").insert([(1, 2), (1, 2), (3, 4)])
    run.step()
    run.input("a").delete([(1, 2)])
    run.step({"a": [(3, 4)]})
    assert view(run) == {(3, 4): 1}


def test_two_rows_for_one_key_in_one_change_are_refused() -> None:
    run = start(keyed)
    with pytest.raises(InputError) as caught:
        run.step({"a": {(1, "a", None): 1, (1, "b", None): 1}})
    assert str(caught.value).startswith("Input at test_input.py:")
    assert "relation 'a': a change without an order has two rows of one key" in str(caught.value)
    assert str(caught.value).endswith("to keep the last row of each key [duplicate-key]")
    assert view(run) == {}
    run.step({"a": [(1, "a", None), (1, "b", None)]})  # a list has an order
    assert view(run) == {(1, "b", None): 1}


def test_upsert_needs_a_key() -> None:
    run = start(of_set)
    with pytest.raises(
        InputError, match=r"relation 'a': upsert needs an input with a key; .*\[missing-key\]"
    ):
        run.input("a").upsert([(1, "a")])


# --- forms of changes, and what is refused --------------------------------------------------------


def test_forms_of_changes() -> None:

    from dbsp import ZSet

    forms: list[Any] = [
        {(1, "a"): 1, (2, "b"): 1},
        [(1, "a"), (2, "b")],
        [{"s": "a", "x": 1}, (2, "b")],
        {(1, "a"), (2, "b")},
        (row for row in [(1, "a"), (2, "b")]),
        ZSet([(1, "a"), (2, "b")]),
        pa.table({"x": [1, 2], "s": ["a", "b"]}),
        pa.table({"s": ["a", "b"], "x": [1, 2]}),
    ]
    for form in forms:
        for kind in ("zset", "set"):
            run = start(lambda c, kind=kind: c.input("a", schema=COLUMNS, kind=kind))
            form = list(form) if hasattr(form, "send") else form
            assert run.step({"a": form})["out"].to_dict() == {(1, "a"): 1, (2, "b"): 1}


REFUSED: list[tuple[Any, type[Exception], str]] = [
    ([(1,)], InputError, r"relation 'a': row 0: expected 2 values \(x: int, s: str\), got 1: \(1,\)"),
    ([(1, 2)], InputError, r"relation 'a': row 0, column 's': expected str, got 2 of type int"),
    ({(1, 2): 1}, InputError, r"relation 'a': row \(1, 2\), column 's': expected str, got 2 of type int"),
    (
        {(1, "a"): 1.0},
        InputError,
        r"relation 'a': expected an int as the weight of a row, got 1\.0 of type float \[invalid-weight\]",
    ),
    ({(1, "a"): True}, InputError, r"expected an int as the weight of a row, got True of type bool"),
    (
        {(1, "a"): 2**63},
        WeightOverflowError,
        r"relation 'a': the weight 9223372036854775808 is outside the 64-bit range",
    ),
    ("ab", InputError, r"relation 'a': expected a collection of rows, .* got 'ab' of type str"),
    (7, InputError, r"relation 'a': expected a collection of rows, .* got 7 of type int \[invalid-change\]"),
    (
        (1, "a"),
        InputError,
        r"got the single row \(1, 'a'\); write it as a list, \[\(1, 'a'\)\] \[invalid-change",
    ),
    ({"x": 1, "s": "a"}, InputError, r"column 'x': expected an array or a list of values, got 1 of type int"),
    (
        [(10**5000, "a")],
        ValueOutOfRangeError,
        r"column 'x': expected an int from .*, got an int of 16610 bits \[value-out-of-range\]",
    ),
    ([7], InputError, r"relation 'a'.*expected a row of .*, got 7 of type int"),
    ([{"x": 1}], InputError, r"relation 'a'.*expected the columns .*; missing: 's'"),
    ([{"x": 1, "s": "a", "t": 1}], InputError, r"relation 'a'.*unknown: 't'"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused_changes_name_the_relation_and_change_nothing(number: int) -> None:
    change, kind, message = REFUSED[number]
    run = start(of_set)
    run.step({"a": [(1, "z")]})
    run.input("a").insert([(5, "staged")])
    with pytest.raises(kind, match=message):
        run.step({"a": change})
    assert view(run) == {(1, "z"): 1} and run.tick == 1
    assert run.step()["out"].to_dict() == {(5, "staged"): 1}  # the staged changes remain
    run.input("a").insert([(6, "kept")])
    if not isinstance(change, (str, int)):
        with pytest.raises(kind):
            (run.input("a").add if isinstance(change, dict) else run.input("a").insert)(change)
    assert run.step()["out"].to_dict() == {(6, "kept"): 1}  # a call that raises has staged nothing


def test_weights_that_add_up_beyond_int64() -> None:
    run = start(lambda c: c.input("a", x=int))
    run.input("a").add({(1,): 2**62})
    run.input("a").add({(1,): 2**62})
    with pytest.raises(
        WeightOverflowError, match=r"relation 'a': the sum of weights is outside the 64-bit range"
    ):
        run.step()
    run.input("a").clear()
    run.step({"a": {(1,): 2**62}})
    with pytest.raises(
        WeightOverflowError, match=r"^Arrange at harness\.py:\d+: the sum of weights is outside"
    ):
        run.step({"a": {(1,): 2**62}})
    assert view(run) == {(1,): 2**62}


@given(ticks({"a": PAIR}))
def test_a_set_is_the_distinct_of_a_zset_that_never_goes_below_zero(sequence: list[Tick]) -> None:
    """The changes of a set are those of the distinct of a Z-set."""
    run = start(of_set)
    other = start(lambda c: c.input("a", schema=COLUMNS).distinct())
    value: Z = {}
    for tick in sequence:
        after = apply_set(value, tick.get("a", {}))
        delta = run.step(tick)["out"].to_dict()
        assert other.step({"a": reference.minus(after, value)})["out"].to_dict() == delta
        value = after
        assert view(other) == distinct(value) == view(run)
