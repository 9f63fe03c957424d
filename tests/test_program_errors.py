"""Bad input to a running program: the message, the unchanged run, and the next tick."""

from __future__ import annotations

import random
from typing import Any

import pytest

import dbsp
from dbsp.errors import DbspError, EvaluationError, InputError, ValueOutOfRangeError, WeightOverflowError

from .live_program import LiveProgram, Subject

PROGRAM = """.decl edge(x: number, y: number)
.decl name(x: number, s: symbol)
.decl size(x: number, f: float)
.decl path(x: number, y: number)
.decl named(s: symbol, t: symbol)
.decl quotient(x: number, q: number)
.decl total(n: number)
.decl many(n: number)
.input edge, name, size
.output path, named, quotient, total, many
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
named(s, t) :- path(x, y), name(x, s), name(y, t).
quotient(x, 100 / z + 1) :-
    edge(x, y),
    z = y - 50.
total(sum x * y : { edge(x, y) }).
many(n) :- edge(77, _), n = count : { name(_, _), name(_, _), name(_, _), name(_, _), name(_, _) }.
"""

SUBJECT = Subject(PROGRAM)


@pytest.fixture
def live() -> LiveProgram:
    """A run with rows in every relation, and a cycle inside the recursion."""
    rows: list[Any] = [("edge", pair, 1) for pair in [(1, 2), (2, 3), (3, 1), (3, 4)]]
    return SUBJECT.start([*rows, ("name", (1, "one"), 1), ("name", (3, "three"), 1), ("size", (1, 0.5), 1)])


def refused(live: LiveProgram, changes: Any, error: type[DbspError], *messages: str) -> None:
    """Check that the step raises an error with these texts, and that the run is unchanged."""
    with pytest.raises(error) as raised:
        live.run.step(changes)
    for message in messages:
        assert message in str(raised.value)
    assert live.run.tick == 1
    live.check_views()
    live.tick([("edge", (4, 5), 1), ("edge", (3, 1), -1), ("name", (5, "five"), 1)])
    live.tick([("edge", (5, 1), 1), ("edge", (2, 3), -1)])


@pytest.mark.parametrize(
    ("changes", "error", "messages"),
    [
        ({"egde": [(1, 2)]}, InputError, ["unknown input 'egde'; did you mean 'edge'? [unknown-input]"]),
        ({"path": [(1, 2)]}, InputError, ["'path' is an output, so it cannot be changed directly"]),
        ({7: [(1, 2)]}, InputError, ["unknown input 7; the inputs are edge, name, size [unknown-input]"]),
        (["edge"], InputError, ["expected a mapping from the names of inputs", "got ['edge'] of type list"]),
        ("edge", InputError, ["expected a mapping from the names of inputs", "[invalid-change]"]),
        (
            {"edge": [(1, 2), (1, 2, 3)]},
            InputError,
            ["relation 'edge': row 1: expected 2 values (x: int, y: int), got 3: (1, 2, 3)"],
        ),
        (
            {"edge": {(1,): 1}},
            InputError,
            ["relation 'edge'", "expected 2 values (x: int, y: int), got 1: (1,)"],
        ),
        (
            {"edge": [5]},
            InputError,
            ["relation 'edge': row 0: expected a row of (x: int, y: int), got 5 of type int"],
        ),
        ({"edge": "ab"}, InputError, ["relation 'edge': expected a collection of rows", "got 'ab'"]),
        ({"edge": 5}, InputError, ["relation 'edge': expected a collection of rows", "got 5 of type int"]),
        (
            {"edge": [{"x": 1}]},
            InputError,
            ["relation 'edge': row 0: expected the columns (x: int, y: int), got (x); missing: 'y'"],
        ),
        (
            {"edge": [{"x": 1, "y": 2, "z": 3}]},
            InputError,
            ["expected the columns (x: int, y: int), got (x, y, z); unknown: 'z'"],
        ),
        ({"edge": [(1, "2")]}, InputError, ["relation 'edge': row 0, column 'y': expected int, got '2'"]),
        ({"edge": {(1, 2.0): 1}}, InputError, ["column 'y': expected int, got 2.0 of type float"]),
        ({"edge": [(True, 2)]}, InputError, ["column 'x': expected int, got True of type bool"]),
        ({"edge": [(None, 2)]}, InputError, ["column 'x': expected int, got None"]),
        ({"name": [(1, b"one")]}, InputError, ["column 's': expected str, got b'one' of type bytes"]),
        ({"size": [(1, "0.5")]}, InputError, ["column 'f': expected float, got '0.5'"]),
        (
            {"edge": [(1, 2**63)]},
            ValueOutOfRangeError,
            ["column 'y': expected an int from -2**63 to 2**63 - 1, got 9223372036854775808"],
        ),
        (
            {"edge": {(1, 2): 2**63}},
            WeightOverflowError,
            ["the weight 9223372036854775808 is outside the 64-bit"],
        ),
        ({"edge": {(1, 2): 1.5}}, InputError, ["relation 'edge': expected an int as the weight", "1.5 of"]),
        (
            {"edge": {(1, 2): True}},
            InputError,
            ["expected an int as the weight of a row, got True of type bool"],
        ),
        ({"edge": dbsp.ZSet({("a", 2): 1})}, InputError, ["relation 'edge'", "expected int, got 'a'"]),
        # The good part of a bad change is not applied either.
        ({"name": [(1, "uno")], "edge": [(1, 9), (1, None)]}, InputError, ["row 1, column 'y'"]),
        (
            {"edge": {(1, 50): 1}},
            EvaluationError,
            ["<program>:14:13", "division by zero: 100 / z with z = 0"],
        ),
        ({"edge": {(8, -(2**63)): 1}}, ValueOutOfRangeError, ["<program>:16:9", "y - 50 with y = -922"]),
        ({"edge": {(2**62, 3): 1}}, ValueOutOfRangeError, ["<program>:17:11", "x * y with x = 461"]),
        (
            {"edge": {(2**31, 2**31): 1, (2**31 + 1, 2**31): 1}},
            ValueOutOfRangeError,
            ["<program>:17", "the sum of a group is outside the 64-bit range", "rolled back"],
        ),
        (
            {"edge": [(77, 1)], "name": [(x, "s") for x in range(7132)]},
            WeightOverflowError,
            ["<program>:18", "weights is outside the 64-bit range", "rolled back"],
        ),
    ],
)
def test_a_bad_step_says_why_and_changes_nothing(
    live: LiveProgram, changes: Any, error: type[DbspError], messages: list[str]
) -> None:
    refused(live, changes, error, *messages)


def test_a_step_that_fails_keeps_the_staged_changes(live: LiveProgram) -> None:
    live.run.input("edge").insert([(4, 5), (9, 9)])
    live.run.input("name").delete([(1, "one")])
    with pytest.raises(InputError, match="expected int, got 'x'"):
        live.run.step({"edge": [("x", 1)]})
    assert live.run.tick == 1
    assert live.run.step()["path"].to_dict() == {(x, 5): 1 for x in (1, 2, 3, 4)} | {(9, 9): 1}
    assert (1, "one") not in live.run.asserted("name").to_dict()


def test_an_invalid_change_leaves_the_staged_changes(live: LiveProgram) -> None:
    edge = live.run.input("edge")
    edge.insert([(4, 5)])
    with pytest.raises(InputError, match="row 1, column 'y': expected int, got '6'"):
        edge.insert([(5, 6), (5, "6")])
    with pytest.raises(InputError, match="expected an int as the weight"):
        edge.add({(5, 7): 0.5})
    with pytest.raises(InputError, match=r"unknown input 'egde'; did you mean 'edge'\?"):
        live.run.input("egde")
    assert live.run.step()["path"].to_dict() == {(x, 5): 1 for x in (1, 2, 3, 4)}


def test_upsert_needs_a_key(live: LiveProgram) -> None:
    with pytest.raises(InputError, match="relation 'edge': upsert needs an input with a key"):
        live.run.input("edge").upsert([(1, 2)])


def test_views_that_do_not_exist(live: LiveProgram) -> None:
    with pytest.raises(InputError, match=r"unknown output 'paht'; did you mean 'path'\?"):
        live.run.view("paht")


def test_large_weights_of_a_set_mean_present_and_absent(live: LiveProgram) -> None:
    live.tick([("edge", (4, 5), 2**63 - 1)])
    live.tick([("edge", (4, 5), 2**63 - 1), ("edge", (1, 2), -(2**63))], "staged")
    live.tick([("edge", (4, 5), -(2**63))])
    live.run.step({"edge": {(4, 5): 0}})
    live.check_views()


def test_a_start_that_fails_returns_no_run() -> None:
    with pytest.raises(InputError, match="unknown input 'egde'"):
        SUBJECT.program.start(initial={"egde": [(1, 2)]})
    with pytest.raises(EvaluationError, match="division by zero"):
        SUBJECT.program.start(initial={"edge": [(1, 50)]})


def test_good_and_bad_ticks_in_any_order() -> None:
    """Errors of every kind between valid ticks do not change the run."""
    generator = random.Random(5)
    live = SUBJECT.start()
    bad: list[Any] = [
        {"edge": [(1, 50), (2, 3)]},
        {"edge": [(1, 2), ("a", 1)]},
        {"edge": {(2**62, 3): 1, (1, 2): -1}},
        {"nothing": []},
        {"edge": {(1, 2): 1, (3, 3): None}},
    ]
    for _ in range(60):
        live.tick(
            [
                ("edge", (generator.randrange(5), generator.randrange(5)), generator.choice([1, 1, -1]))
                for _ in range(generator.randrange(4))
            ]
        )
        with pytest.raises(DbspError):
            live.run.step(generator.choice(bad))


@pytest.mark.parametrize(
    ("word_size", "column", "value", "expected"),
    [
        (64, "u", 2**63, "an unsigned number (0 to 2^63-1)"),
        (64, "u", -1, "an unsigned number (0 to 2^63-1)"),
        (64, "n", 2**63, "an int from -2**63 to 2**63 - 1"),
        (32, "u", 2**64, "an unsigned number of 32 bits (0 to 2^32-1)"),
        (32, "n", 2**31, "a whole number of 32 bits (-2^31 to 2^31-1)"),
    ],
)
def test_an_int_out_of_range_names_the_range_of_its_column(
    word_size: int, column: str, value: int, expected: str
) -> None:
    text = ".decl e(u: unsigned, n: number) .input e .output e"
    row = {"u": 0, "n": 0, column: value}
    with pytest.raises(ValueOutOfRangeError) as caught:
        dbsp.compile(text, word_size=word_size).start().step({"e": [row]})
    assert f"column '{column}': expected {expected}, got {value} [value-out-of-range]" in str(caught.value)
