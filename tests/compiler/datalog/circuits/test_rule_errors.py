"""A run-time error of a rule names the place, the expression as written, and its variables."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.errors import DbspError, EvaluationError, ValueOutOfRangeError
from tests.profiles import examples

HEADER = """\
.type List = [head: number, tail: List]
.functor half(n: number): number
.decl s(n: number, t: symbol)  .input s
.decl u(a: unsigned, b: unsigned)  .input u
.decl l(x: List)  .input l
.decl k(n: number, m: number)  .input k
.decl r(x: number)  .output r
"""
FIRST = HEADER.count("\n") + 1
"""The line on which the rules of a case start."""


def half(n: int) -> int:
    """The functor of the cases: fails for odd numbers."""
    if n % 2:
        raise ValueError("odd")
    return n // 2


def failing_step(rules: str, changes: Any, **options: Any) -> DbspError:
    """The error of one step, after which the run is unchanged and accepts a good tick."""
    program = dbsp.compile(HEADER + dedent(rules), functors={"half": half}, **options)
    run = program.start({"s": [(1, "1")], "u": [(5, 3)], "l": [((7, None),)], "k": [(4, 2)]})
    before = {name: run.view(name).to_dict() for name in run.outputs}
    tick = run.tick
    with pytest.raises(DbspError) as raised:
        run.step(changes)
    assert run.tick == tick
    assert {name: run.view(name).to_dict() for name in run.outputs} == before
    run.step({"s": [(2, "2")]})
    assert run.tick == tick + 1
    return raised.value


DIVISION = "division by zero: {} [division-by-zero]"
OVERFLOW = "the result does not fit in 64 bits: {} [value-out-of-range]"

CASES: dict[str, tuple[str, Any, str, str, str]] = {
    # name: rules, changes, place, message, the text under the caret
    "head": (
        "r(100 / n) :- s(n, _).",
        {"s": [(0, "a")]},
        "1:3",
        DIVISION.format("100 / n with n = 0"),
        "100 / n",
    ),
    "part of a term": (
        "r(1 + 100 % (n - 3) * 2) :- s(n, _).",
        {"s": [(3, "a")]},
        "1:7",
        DIVISION.format("100 % (n - 3) with n = 3"),
        "100 % (n - 3)",
    ),
    "two variables": (
        "r(n) :- k(n, m), n * m > 3.",
        {"k": [(2**62, 3)]},
        "1:18",
        OVERFLOW.format("n * m with n = 4611686018427387904, m = 3"),
        "n * m",
    ),
    "second line": (
        "r(z) :- k(n, m),\n    z = n\n      / m.",
        {"k": [(1, 0)]},
        "2:9",
        DIVISION.format("n / m with n = 1, m = 0"),
        "n",
    ),
    "variable of an equation": (
        "r(100 / z) :- s(n, _), z = n - 50.",
        {"s": [(50, "a")]},
        "1:3",
        DIVISION.format("100 / z with z = 0"),
        "100 / z",
    ),
    "equation": (
        "r(100 / z) :- s(n, _), z = n - 50.",
        {"s": [(-(2**63), "a")]},
        "1:28",
        OVERFLOW.format("n - 50 with n = -9223372036854775808"),
        "n - 50",
    ),
    "constant variable": (
        "r(x / n) :- s(x, _), n = 0, x > 2.",
        {"s": [(7, "a")]},
        "1:3",
        DIVISION.format("x / n with x = 7, n = 0"),
        "x / n",
    ),
    "symbol": (
        "r(to_number(t)) :- s(_, t).",
        {"s": [(3, 'a "b"')]},
        "1:3",
        'the string is not an integer: to_number(t) with t = "a \\"b\\"" [invalid-conversion]',
        "to_number(t)",
    ),
    "unsigned": (
        ".decl o(x: unsigned)  .output o\no(a - b) :- u(a, b).",
        {"u": [(3, 5)]},
        "2:3",
        "expected an unsigned number (0 to 2^63-1), got -2: a - b with a = 3, b = 5 [value-out-of-range]",
        "a - b",
    ),
    "conversion to unsigned": (
        ".decl o(x: unsigned)  .output o\no(to_unsigned(n)) :- s(n, _).",
        {"s": [(-3, "a")]},
        "2:3",
        "expected an unsigned number (0 to 2^63-1), got -3: to_unsigned(n) with n = -3 [value-out-of-range]",
        "to_unsigned(n)",
    ),
    "functor": (
        "r(1 + @half(n + 1)) :- k(n, m), m > 5.",
        {"k": [(4, 6)]},
        "1:7",
        "functor '@half' raised ValueError: odd: @half(n + 1) with n = 4 [user-function]",
        "@half(n + 1)",
    ),
    "power": (
        "r(n ^ m) :- k(n, m).",
        {"k": [(3, 99)]},
        "1:3",
        OVERFLOW.format("n ^ m with n = 3, m = 99"),
        "n ^ m",
    ),
    "negative": (
        "r(-n) :- k(n, _).",
        {"k": [(-(2**63), 1)]},
        "1:3",
        OVERFLOW.format("-n with n = -9223372036854775808"),
        "-n",
    ),
    "value of an aggregate": (
        "r(x) :- x = sum n / m : { k(n, m) }.",
        {"k": [(9, 0)]},
        "1:17",
        DIVISION.format("n / m with n = 9, m = 0"),
        "n / m",
    ),
    "condition in an aggregate": (
        "r(x) :- x = count : { k(n, m), n / m > 1 }.",
        {"k": [(9, 0)]},
        "1:32",
        DIVISION.format("n / m with n = 9, m = 0"),
        "n / m",
    ),
    "result of an aggregate": (
        'r(10 / count : { k(_, 5) }) :- s(_, "zero").',
        {"s": [(1, "zero")]},
        "1:3",
        DIVISION.format("10 / count : { k(_, 5) } with count : { k(_, 5) } = 0"),
        "10 / count : { k(_, 5) }",
    ),
    "sum": (
        "r(x) :- s(_, _), x = sum n : { k(n, _) }.",
        {"k": [(2**63 - 1, 1)]},
        "1:22",
        "the sum of a group is outside the 64-bit range [value-out-of-range]",
        "sum n : { k(n, _) }",
    ),
    "range": (
        "r(x) :- k(n, m), x = range(n, m).",
        {"k": [(0, 10**8)]},
        "1:22",
        "range(0, 100000000, 1) has 100,000,000 values; the maximum is 10,000,000 [value-out-of-range]",
        "range(n, m)",
    ),
    "range end": (
        "r(x) :- k(n, m), x = range(n, n / m).",
        {"k": [(3, 0)]},
        "1:31",
        DIVISION.format("n / m with n = 3, m = 0"),
        "n / m",
    ),
    "argument of an atom": (
        "r(n) :- k(n, m), s(n / m, _).",
        {"k": [(3, 0)]},
        "1:20",
        DIVISION.format("n / m with n = 3, m = 0"),
        "n / m",
    ),
    "negated atom": (
        "r(n) :- k(n, m), !s(n / m, _).",
        {"k": [(3, 0)]},
        "1:21",
        DIVISION.format("n / m with n = 3, m = 0"),
        "n / m",
    ),
    "macro": (
        "#define DIV(a, b) a / b\nr(DIV(100, n)) :- s(n, _).",
        {"s": [(0, "a")]},
        "2:7",
        DIVISION.format("100 / n with n = 0"),
        "100, n",
    ),
    "macro of a rule": (
        "#define RULE r(1 / n) :- s(n, _).\nRULE",
        {"s": [(0, "a")]},
        "2:1",
        DIVISION.format("1 / n with n = 0"),
        "RULE",
    ),
    "macro of a constant": (
        "#define ZERO 0\nr(n  /  ZERO) :- s(n, _), n > 3.",
        {"s": [(4, "a")]},
        "2:3",
        DIVISION.format("n / ZERO with n = 4, ZERO = 0"),
        "n  /  ZERO",
    ),
    "alternative": (
        "r(x + 1) :- s(x, _); s(_, t), x = to_number(t).",
        {"s": [(2**63 - 1, "5")]},
        "1:3",
        OVERFLOW.format("x + 1 with x = 9223372036854775807"),
        "x + 1",
    ),
    "second head": (
        ".decl o(x: unsigned)  .output o\nr(n), o(to_unsigned(n)) :- s(n, _).",
        {"s": [(-1, "a")]},
        "2:9",
        "expected an unsigned number (0 to 2^63-1), got -1: to_unsigned(n) with n = -1 [value-out-of-range]",
        "to_unsigned(n)",
    ),
    "component": (
        """\
        .comp C { .decl q(x: number)
          q(10 / n) :- s(n, _). }
        .init c = C
        r(x) :- c.q(x).""",
        {"s": [(0, "a")]},
        "2:5",
        DIVISION.format("10 / n with n = 0"),
        "10 / n",
    ),
    "inline relation": (
        ".decl q(x: number) inline\nq(n + 1) :- s(n, _).\nr(100 / y) :- q(y).",
        {"s": [(-1, "a")]},
        "3:3",
        DIVISION.format("100 / y with y = 0"),
        "100 / y",
    ),
    "term of an inline relation": (
        ".decl q(x: number) inline\nq(10 / n) :- s(n, _).\nr(100 - y) :- q(y).",
        {"s": [(0, "a")]},
        "2:3",
        DIVISION.format("10 / n with n = 0"),
        "10 / n",
    ),
    "recursion": (
        "r(1) :- s(1, _).\nr(y + 6 / (3 - x)) :- r(x), k(x, y).",
        {"k": [(1, 0), (3, 5)]},
        "2:7",
        DIVISION.format("6 / (3 - x) with x = 3"),
        "6 / (3 - x)",
    ),
    "magic": (
        """\
        .decl q(x: number, y: number) magic
        q(n, 10 / m) :- k(n, m).
        r(y) :- s(n, _), q(n, y).""",
        {"s": [(5, "a")], "k": [(5, 0)]},
        "2:6",
        DIVISION.format("10 / m with m = 0"),
        "10 / m",
    ),
    "subsumption": (
        ".decl q(x: number, y: number)  .output q\nq(n, m) :- k(n, m).\nq(a, b) <= q(a, c) :- 1 / c < b.",
        {"k": [(1, 0), (1, 1)]},
        "3:23",
        DIVISION.format("1 / c with c = 0"),
        "1 / c",
    ),
    "multi-way join": (
        "r(a + b) :- k(a, b), k(b, c), k(c, a), a / (a + b - c - 2) > 0.",
        {"k": [(1, 3), (3, 2), (2, 1)]},
        "1:40",
        DIVISION.format("a / (a + b - c - 2) with a = 1, b = 3, c = 2"),
        "a / (a + b - c - 2)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule_error_shows_the_source(case: str) -> None:
    rules, changes, place, message, marked = CASES[case]
    error = failing_step(rules, changes)
    line, column = map(int, place.split(":"))
    where, text, carets, *notes = str(error).split("\n")
    assert where == f"<program>:{FIRST + line - 1}:{column}: error: {message}"
    assert text == "    " + dedent(rules).split("\n")[line - 1]
    assert text[carets.index("^") :][: carets.count("^")] == marked
    component = ["    note: in component instance 'c'"] if case == "component" else []
    assert notes == [*component, "    note: the tick was rolled back"]
    assert error.where == f"<program>:{FIRST + line - 1}:{column}"
    assert f"{error.message} [{error.code}]" == message


def test_records_are_shown_as_written() -> None:
    error = failing_step("r(h / (ord(x) - ord(x))) :- l(x), x = [h, _], h > 7.", {"l": [((8, (2, None)),)]})
    assert error.message == "division by zero: h / (ord(x) - ord(x)) with h = 8, x = [8, [2, nil]]"


@pytest.mark.parametrize("recursion", ["insert-only", "incremental", "auto"])
@pytest.mark.parametrize("rewrites", [True, False])
def test_errors_in_every_mode(recursion: str, rewrites: bool) -> None:
    rules, changes, _, message, _ = CASES["recursion"]
    error = failing_step(rules, changes, recursion=recursion, rewrites=rewrites)
    assert f"{error.message} [{error.code}]" == message
    assert isinstance(error, EvaluationError)


@pytest.mark.parametrize("strategy", ["binary", "wcoj", "auto"])
def test_errors_of_every_join(strategy: str) -> None:
    rules, changes, _, message, _ = CASES["multi-way join"]
    error = failing_step(rules, changes, strategy=strategy)
    assert f"{error.message} [{error.code}]" == message


def test_words_of_32_bits() -> None:
    error = failing_step("r(n / m) :- k(n, m).", {"k": [(-(2**31), -1)]}, word_size=32)
    assert isinstance(error, ValueOutOfRangeError)
    assert error.message == (
        "expected a whole number of 32 bits (-2^31 to 2^31-1), got 2147483648: "
        "n / m with n = -2147483648, m = -1"
    )


def test_many_rows_are_evaluated_at_once_and_the_first_that_fails_is_shown() -> None:
    rows = [(n, "a") for n in range(1, 50)]
    error = failing_step("r(100 / (n - 20)) :- s(n, _).", {"s": rows})
    assert error.message == "division by zero: 100 / (n - 20) with n = 20"


def test_the_first_tick_fails_likewise() -> None:
    program = dbsp.compile(".decl s(n: number)\n.input s\n.decl r(n: number)\n.output r\nr(1 / n) :- s(n).")
    with pytest.raises(EvaluationError, match=r"^<program>:5:3: error: division by zero: 1 / n with n = 0"):
        program.start({"s": [(0,)]})


def test_an_included_file_is_named(tmp_path: Any) -> None:
    (tmp_path / "rules.dl").write_text("r(1 / n) :- s(n).\n", encoding="utf-8")
    (tmp_path / "main.dl").write_text(
        '.decl s(n: number)\n.input s\n.decl r(n: number)\n.output r\n#include "rules.dl"\n', encoding="utf-8"
    )
    run = dbsp.compile(tmp_path / "main.dl").start()
    with pytest.raises(EvaluationError) as raised:
        run.step({"s": [(0,)]})
    assert str(raised.value).split("\n")[:3] == [
        f"{tmp_path}/rules.dl:1:3: error: division by zero: 1 / n with n = 0 [division-by-zero]",
        "    r(1 / n) :- s(n).",
        "      ^^^^^",
    ]


def test_a_circuit_from_json_names_the_rule() -> None:
    text = ".decl s(n: number)\n.input s\n.decl r(n: number)\n.output r\nr(1 / n) :- s(n)."
    run = dbsp.from_json(dbsp.compile(text).circuit().to_json()).start()
    with pytest.raises(EvaluationError) as raised:
        run.step({"s": [(0,)]})
    assert str(raised.value) == (
        'Map at <program>:5:1: division by zero: lit(1).truncdiv(col("n")) with n = 0 [division-by-zero]'
    )
    assert run.tick == 0


def test_after_a_checkpoint_the_rule_is_still_named(tmp_path: Any) -> None:
    text = ".decl s(n: number)\n.input s\n.decl r(n: number)\n.output r\nr(1 / n) :- s(n)."
    for tick in (1, 2):
        run = dbsp.compile(text).start({"s": [(1,)]}, checkpoint=tmp_path / "state")
        with pytest.raises(EvaluationError) as raised:
            run.step({"s": [(0,)]})
        assert str(raised.value).split("\n") == [
            "<program>:5:3: error: division by zero: 1 / n with n = 0 [division-by-zero]",
            "    r(1 / n) :- s(n).",
            "      ^^^^^",
            "    note: the tick was rolled back",
        ]
        assert run.tick == tick
        run.step({"s": [(tick + 1,)]})
        assert run.log is not None
        run.log.close()


def test_a_question_shows_its_own_text() -> None:
    program = dbsp.compile(".decl s(n: number, t: symbol)\n.input s\n.output s")
    run = program.start({"s": [(0, "a"), (1, "b")]})
    with pytest.raises(EvaluationError) as raised:
        program.query(run, "s(n, t),\n x = 10 / n.")
    assert str(raised.value).split("\n") == [
        "<question>:2:6: error: division by zero: 10 / n with n = 0 [division-by-zero]",
        "     x = 10 / n",
        "         ^^^^^^",
    ]


def test_a_recursion_without_end_shows_the_relation() -> None:
    text = (
        ".decl s(n: number)\n.input s\n.decl up(x: number)\n.output up\nup(x) :- s(x).\nup(x + 1) :- up(x)."
    )
    run = dbsp.compile(text).start(max_iterations=10)
    with pytest.raises(dbsp.IterationLimitError) as raised:
        run.step({"s": [(1,)]})
    first, line, carets = str(raised.value).split("\n")
    assert first.startswith("<program>:3:7: error: scope 'up' has not converged after 10 iterations")
    assert first.endswith("; the tick was rolled back [iteration-limit]")
    assert (line, carets) == ("    .decl up(x: number)", "          ^^")
    assert run.tick == 0


NAMES = ("n", "m", "y")
TERMS = st.recursive(
    st.sampled_from(NAMES) | st.sampled_from(["2", "7", "0"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=6,
)
SHOWN = re.compile(r"division by zero: (.*?)(?: with (.*))?", re.DOTALL)


def value_of(term: str, values: dict[str, int]) -> int:
    """The value of a term of Datalog; ZeroDivisionError if it has none."""
    tree = ast.parse(term, mode="eval").body

    def value(node: ast.expr) -> int:
        match node:
            case ast.Name(id=name):
                return values[name]
            case ast.Constant(value=int(number)):
                return number
            case ast.BinOp(left=left, op=operation, right=right):
                a, b = value(left), value(right)
                match operation:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.Div():
                        return int(Fraction(a, b))
                    case _:
                        return a - b * int(Fraction(a, b))
        raise AssertionError(ast.dump(node))

    return value(tree)


@settings(max_examples=examples(60), deadline=None)
@given(
    TERMS,
    TERMS,
    TERMS,
    st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 3)), min_size=1, max_size=12),
    st.booleans(),
)
def test_the_shown_part_fails_for_the_shown_values(
    head: str, equation: str, condition: str, rows: list[tuple[int, int]], rewrites: bool
) -> None:
    """The text under the carets is the text of the message, and it fails with the shown values."""
    equation, condition = equation.replace("y", "n"), condition.replace("y", "m")
    text = (
        ".decl k(n: number, m: number)\n.input k\n.decl r(x: number, y: number)\n.output r\n"
        f"r({head}, y) :- k(n, m), k(m, _), y = {equation}, {condition} < 3."
    )
    run = dbsp.compile(text, rewrites=rewrites).start()
    try:
        run.step({"k": rows})
    except EvaluationError as error:
        found = SHOWN.fullmatch(error.message)
        assert found is not None
        part, shown = found[1], found[2]
        pairs = [pair.split(" = ") for pair in shown.split(", ")] if shown else []
        values = {name: int(value) for name, value in pairs}
        assert values.keys() == {name for name in NAMES if name in part}
        with pytest.raises(ZeroDivisionError):
            value_of(part, values)
        _, line, carets, *_ = str(error).split("\n")
        assert line[carets.index("^") :][: carets.count("^")] == part


def test_powers_with_negative_exponents() -> None:
    program = dbsp.compile(
        ".decl k(n: number, m: number)\n.input k\n.decl r(n: number, m: number, p: number)\n.output r\n"
        "r(n, m, n ^ m) :- k(n, m).\n"
    )
    exponents = [-1, -2, -3, -63, -(2**63) + 1, -(2**63)]
    rows = [(n, m) for n in (1, -1, 2, -2, -(2**63)) for m in exponents]
    found = program.start({"k": rows}).view("r").rows()
    assert found == sorted((n, m, n ** (m % 2) if abs(n) == 1 else 0) for n, m in rows)
    for exponent in exponents:
        with pytest.raises(EvaluationError, match="division by zero: n \\^ m with n = 0"):
            program.start({"k": [(0, exponent)]})
