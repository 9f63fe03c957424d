"""Numbers of 32 bits: their range, and the options that set the word size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.errors import EvaluationError, ValueOutOfRangeError
from tests.live_program import Subject
from tests.profiles import examples

TEXT = """
.type Pair = [x: number, u: unsigned]
.decl n(x: number)
.decl u(x: unsigned)
.decl pair(p: Pair)
.input n, u, pair
.decl twice(x: number)
.output twice
twice(x + x) :- n(x).
.decl next(x: unsigned)
.output next
next(x + 1) :- u(x).
.decl first(x: number, u: unsigned)
.output first
first(x, u) :- pair([x, u]).
"""
PRAGMA = '.pragma "word-size" "32"\n'


def test_the_option_overrides_the_pragma() -> None:
    row = {"n": [(2**30,)]}
    assert dbsp.compile(TEXT).start(row).view("twice").rows() == [(2**31,)]
    assert dbsp.compile(TEXT, word_size=32).start(row).view("twice").rows() == [(-(2**31),)]
    assert dbsp.compile(PRAGMA + TEXT).start(row).view("twice").rows() == [(-(2**31),)]
    assert dbsp.compile(PRAGMA + TEXT, word_size=64).start(row).view("twice").rows() == [(2**31,)]
    with pytest.raises(dbsp.ArgumentError, match="word_size= expects 32 or 64, got 16"):
        dbsp.compile(TEXT, word_size=16)
    with pytest.raises(dbsp.ArgumentError, match=r"word_size= expects 32 or 64, got 32\.0"):
        dbsp.compile(TEXT, word_size=32.0)  # type: ignore[call-overload]


def test_the_macro_for_the_word_size_follows_the_option() -> None:
    text = (
        ".decl r(x: number) .output r r(x) :- x = RAM_DOMAIN_SIZE.\n#if RAM_DOMAIN_SIZE == 32\nr(0).\n#endif"
    )
    assert dbsp.compile(text, word_size=32).start().view("r").rows() == [(0,), (32,)]
    assert dbsp.compile(text).start().view("r").rows() == [(64,)]


NUMBERS = [0, 1, -1, 2, 5, -7, 31, 32, 33, 65535, 2**31 - 1, -(2**31)]
UNSIGNED = [0, 1, 2, 5, 31, 32, 65535, 2**31, 2**32 - 1]


@st.composite
def terms(draw: st.DrawFn, kind: str, depth: int = 3) -> str:
    """A term over x and y (numbers), u and v (unsigned) and f (a float)."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        values = {"number": [*map(str, NUMBERS), *"xyxyxy"], "unsigned": [*map(str, UNSIGNED), *"uvuvuv"]}
        return draw(st.sampled_from(values[kind]))
    same = terms(kind, depth - 1)
    other = terms("unsigned" if kind == "number" else "number", depth - 1)
    form = draw(st.integers(0, 4))
    if form == 0:
        return f"{'utoi' if kind == 'number' else 'itou'}({draw(other)})"
    if form == 1:
        inside = draw(st.sampled_from(["f", "f * 1.5", "itof(x) + f"]))
        return f"{'to_number' if kind == 'number' else 'to_unsigned'}({inside})"
    if form == 2:
        return f"({'-' if kind == 'number' and draw(st.booleans()) else 'bnot '}{draw(same)})"
    operators = ["+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land"]
    return f"({draw(same)} {draw(st.sampled_from(operators))} {draw(same)})"


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms("number"), terms("unsigned"), st.data())
def test_random_terms_equal_the_reference(number: str, unsigned: str, data: st.DataObject) -> None:
    subject = Subject(
        f"""{PRAGMA}.decl a(x: number, u: unsigned, f: float)
        .decl b(y: number, v: unsigned)
        .input a, b
        .decl r(n: number, m: unsigned)
        .output r
        r({number}, {unsigned}) :- a(x, u, f), b(y, v).
        .decl s(n: number, m: unsigned)
        .output s
        s(sum {number} : {{ a(x, u, f), b(y, v) }}, sum {unsigned} : {{ a(x, u, f), b(y, v) }}).
        """
    )
    floats = st.sampled_from([0.0, 0.5, -1.5, 2.0**31, -(2.0**31), 2.0**33 + 1, 2.0**63, -1e10])
    row_of_a = st.tuples(st.just("a"), st.tuples(_one(NUMBERS), _one(UNSIGNED), floats), st.just(1))
    row_of_b = st.tuples(st.just("b"), st.tuples(_one(NUMBERS), _one(UNSIGNED)), st.just(1))
    rows = data.draw(st.lists(row_of_a | row_of_b, min_size=1, max_size=9))
    live = subject.start()
    live.tick(rows)
    live.tick([(name, row, -1) for name, row, _ in rows[::2]])
    live.tick([(name, row, 1) for name, row, _ in rows[::4]])


def _one(values: list[int]) -> st.SearchStrategy[int]:
    return st.sampled_from(values)


@pytest.mark.parametrize(
    ("word_size", "changes", "message"),
    [
        (
            32,
            {"n": [(1,), (2**31,)]},
            "relation 'n', column 'x': expected a whole number of 32 bits (-2^31 to 2^31-1), got 2147483648",
        ),
        (
            32,
            {"n": {(-(2**31) - 1,): -1}},
            "relation 'n', column 'x': expected a whole number of 32 bits (-2^31 to 2^31-1), got -2147483649",
        ),
        (
            32,
            {"u": [(2**32,)]},
            "relation 'u', column 'x': expected an unsigned number of 32 bits (0 to 2^32-1), got 4294967296",
        ),
        (
            32,
            {"pair": [((2**31, 0),)]},
            "field 'x' of Pair: expected a whole number of 32 bits (-2^31 to 2^31-1), got 2147483648",
        ),
        (
            32,
            {"pair": [((0, 2**32),)]},
            "field 'u' of Pair: expected an unsigned number of 32 bits (0 to 2^32-1), got 4294967296",
        ),
        (64, {"u": [(-1,)]}, "relation 'u', column 'x': expected an unsigned number (0 to 2^63-1), got -1"),
    ],
)
def test_rows_out_of_range_are_refused(word_size: int, changes: dict[str, object], message: str) -> None:
    run = dbsp.compile(TEXT, word_size=word_size).start({"n": [(5,)]})
    with pytest.raises(ValueOutOfRangeError, match=re.escape(message)):
        run.step({"u": [(7,)], **changes})
    assert run.tick == 1 and not run.view("next")
    run.step({"n": [(2**31 - 1,)], "u": [(2**32 - 1,)], "pair": [((-(2**31), 2**32 - 1),)]})
    if word_size == 32:
        assert run.view("twice").rows() == [(-2,), (10,)]
        assert run.view("next").rows() == [(0,)]


def test_what_c_has_no_value_for_is_an_error() -> None:
    text = ".decl n(x: number) .input n .decl q(x: number) .output q q(x / y) :- n(x), n(y), x < y."
    run = dbsp.compile(text, word_size=32).start()
    with pytest.raises(
        ValueOutOfRangeError, match=r"32 bits .*, got 2147483648: x / y with x = -2147483648, y = -1"
    ):
        run.step({"n": [(-(2**31),), (-1,)]})
    with pytest.raises(EvaluationError, match="division by zero"):
        run.step({"n": [(-1,), (0,)]})
    run.step({"n": [(-7,), (2,)]})
    assert run.view("q").rows() == [(-3,)]


def test_functors_give_numbers_in_range() -> None:
    text = (
        ".functor f(x: number): {0} .decl n(x: number) .input n .decl r(x: {0}) .output r r(@f(x)) :- n(x)."
    )
    for kind, wrong, right in (("number", 2**31, -(2**31)), ("unsigned", 2**32, 2**32 - 1)):
        program = dbsp.compile(
            text.format(kind), functors={"f": lambda x, w=wrong, r=right: w if x else r}, word_size=32
        )
        run = program.start({"n": [(0,)]})
        assert run.view("r").rows() == [(right,)]
        with pytest.raises(ValueOutOfRangeError, match=rf"32 bits .*, got {wrong}: @f\(x\) with x = 1"):
            run.step({"n": [(1,)]})


def test_questions_are_asked_in_the_same_words() -> None:
    program = dbsp.compile(TEXT, word_size=32)
    run = program.start({"n": [(2**31 - 1,)]})
    assert program.query(run, "n(x), y = x + 1").rows() == [(2**31 - 1, -(2**31))]
    assert str(program.why(run, "twice", (-2,))).startswith("twice(-2)\n")
    with pytest.raises(dbsp.CompileError, match="2147483648 is outside the range of type number"):
        program.query(run, "n(x), x < 2147483648")


def test_a_resumed_run_keeps_its_word_size(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = dbsp.compile(TEXT, word_size=32).start({"n": [(2**30,)]}, checkpoint=folder)
    assert run.log is not None
    run.log.snapshot()
    run.log.close()
    with pytest.raises(dbsp.errors.CheckpointError, match="another"):
        dbsp.compile(TEXT).start(checkpoint=folder)
    again = dbsp.compile(TEXT, word_size=32).start(checkpoint=folder)
    assert again.view("twice").rows() == [(-(2**31),)]
    with pytest.raises(ValueOutOfRangeError):
        again.step({"n": [(2**31,)]})
