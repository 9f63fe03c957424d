"""Change scripts: their values, and the messages about errors in them."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.change_script import ChangeScriptReader, ScriptTick, parse_change_script, read_change_script
from dbsp.io.problems import DataError
from dbsp.io.results import float_text, format_delta, literal_of
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests.io.support import lines_of

INPUTS = {
    "edge": Schema.of(x=int, y=int),
    "name": Schema.of(id=int, name=str),
    "weight": Schema.of(w=float),
    "comp.flag": Schema.of(),
    "day": Schema.of(d=dt.date, t=dt.datetime, b=bool),
    "maybe": Schema.of(x=int | None),
    "pair": Schema.of(p=tuple),
}


def parse(text: str, **options: Any) -> list[ScriptTick]:
    return parse_change_script(text.splitlines(keepends=True), ChangeScriptReader(INPUTS, "s.txt", **options))


def only_row(line: str) -> tuple[Any, ...]:
    (tick,) = parse(line)
    ((row,),) = tick.changes.values()
    return row


def refused(text: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        parse(text, **options)
    return str(caught.value)


def test_changes_are_gathered_into_ticks() -> None:
    first, second = parse(
        """// a remark
        # another
        +edge(1, 2)
        -edge(2, 3)      // behind a change

        +name(1, "a b")  # as well
        commit
        + edge ( 5 , 6 ).
        commit // done
        """
    )
    assert first.changes == {"edge": {(1, 2): 1, (2, 3): -1}, "name": {(1, "a b"): 1}}
    assert (first.lines, len(first)) == ("3-7", 3)
    assert second.changes == {"edge": {(5, 6): 1}}
    assert second.lines == "8-9"


def test_a_line_may_have_several_changes() -> None:
    (tick,) = parse('+edge(1, 2) -edge(2, 3). + name(1, "+edge(1)")-edge(1, 2)  // last\n')
    assert tick.changes == {"edge": {(1, 2): -1, (2, 3): -1}, "name": {(1, "+edge(1)"): 1}}
    assert tick.lines == "1"


def test_changes_behind_the_last_commit_are_a_tick() -> None:
    assert [tick.lines for tick in parse("+edge(1, 2)\ncommit\n+edge(2, 3)\n")] == ["1-2", "3"]


def test_empty_ticks_count_and_empty_scripts_have_none() -> None:
    assert [len(tick) for tick in parse("commit\n\ncommit\n")] == [0, 0]
    assert parse("") == []
    assert parse("// nothing\n") == []


def test_the_last_change_of_a_row_decides() -> None:
    (tick,) = parse("+edge(1, 2)\n-edge(1, 2)\n-edge(3, 4)\n+edge(3, 4)\n")
    assert tick.changes == {"edge": {(1, 2): -1, (3, 4): 1}}


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("+edge(-1, 0x1F)", (-1, 31)),
        ("+edge(+7, 0b101)", (7, 5)),
        (f"+edge({INT64_MIN}, {INT64_MAX})", (INT64_MIN, INT64_MAX)),
        ('+name(1, "")', (1, "")),
        (r'+name(1, "a\"b\\c\n\tA\/")', (1, 'a"b\\c\n\tA/')),
        (r'+name(1, "\ud83d\uDE00!")', (1, "\U0001f600!")),
        ('+name(1, "// no remark, (no) #end")', (1, "// no remark, (no) #end")),
        ("+weight(1)", (1.0,)),
        ("+weight(-1.5e-3)", (-0.0015,)),
        ("+weight(-inf)", (-math.inf,)),
        ("+comp.flag()", ()),
        ("+comp.flag( )", ()),
        (
            '+day("2024-02-29", "2024-02-29T10:00", true)',
            (dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 10), True),
        ),
        ("+maybe(nil)", (None,)),
    ],
)
def test_values(line: str, row: tuple[Any, ...]) -> None:
    found = only_row(line)
    assert found == row
    assert list(map(type, found)) == list(map(type, row))


def test_nan_is_one_value() -> None:
    (tick,) = parse("+weight(nan)\n-weight(nan)\n")
    assert list(tick.changes["weight"].values()) == [-1]


@pytest.mark.parametrize("half", [r"\ud83d", r"\udE00", r"\uD83D\u0041"])
def test_half_of_a_character_is_refused(half: str) -> None:
    assert refused(f'+name(1, "a{half}")') == (
        f"s.txt:1:12: error: {half[:6]} is only half of a surrogate pair [invalid-line]\n"
        f'    +name(1, "a{half}")\n'
        "               ^^^^^^\n"
        "    hint: write both escapes of the pair, such as \ud83d\ude00"
    )


def test_bytes_that_are_not_utf8_are_refused() -> None:
    line = b'+name(1, "\xff")'.decode(errors="surrogateescape")
    assert refused(line) == (
        's.txt:1:11: error: expected UTF-8 text [invalid-encoding]\n    +name(1, "\ufffd")\n              ^'
    )


def test_an_unknown_relation() -> None:
    assert refused("+edge(1, 2)\n+egde(1, 2)\n") == (
        "s.txt:2:2: error: unknown relation 'egde' [unknown-relation]\n"
        "    +egde(1, 2)\n"
        "     ^^^^\n"
        "    hint: did you mean 'edge'?"
    )


def test_a_derived_relation() -> None:
    text = refused("+path(1, 2)\n", derived=["path"])
    message = "relation 'path' is computed by rules; only input relations can be changed [not-an-input]"
    assert message in text
    assert "hint: the input relations are edge, name" in text


def test_the_wrong_number_of_values() -> None:
    assert refused("-edge(1, 2, 3)\n") == (
        "s.txt:1:2: error: relation 'edge' has 2 columns (x: int, y: int), got 3 [wrong-arity]\n"
        "    -edge(1, 2, 3)\n"
        "     ^^^^^^^^^^^^^"
    )
    assert "relation 'comp.flag' has 0 columns, got 1" in refused("+comp.flag(1)\n")
    assert "has 1 column (w: float), got 0" in refused("+weight()\n")


def test_messages_show_the_declared_types() -> None:
    program = dbsp.compile("""
        .type Age <: unsigned
        .type List = [head: number, tail: List]
        .type Shape = Dot {} | Circle {radius: float}
        .decl person(n: number, t: symbol, u: Age, f: float, l: List, s: Shape)
        .input person
    """)
    reader = ChangeScriptReader(program.inputs, type_names=program.type_names)
    with pytest.raises(DataError) as caught:
        reader.feed("+person(1)")
    assert caught.value.diagnostics[0].message == (
        "relation 'person' has 6 columns (n: number, t: symbol, u: Age, f: float, l: List, s: Shape), got 1"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('+edge(1, "2")', "column 'y' of relation 'edge' expects a whole number, got a text"),
        ("+edge(1, 2.0)", "expects a whole number, got a number with a fraction"),
        ("+edge(true, 2)", "column 'x' of relation 'edge' expects a whole number, got true"),
        (f"+edge(1, {INT64_MAX + 1})", "expects a whole number of 64 bits (-2^63 to 2^63-1) [value-out-of"),
        ("+edge(1, " + "9" * 5000 + ")", "expects a whole number of 64 bits"),
        ("+weight(" + "9" * 400 + ")", "expects a number within the range of a float [value-out-of-range]"),
        (
            "+name(1, 2)",
            "column 'name' of relation 'name' expects a text in double quotes, got a whole number",
        ),
        ('+weight("1")', "expects a number, got a text [wrong-type]"),
        ('+day("yesterday", "2024-01-01", true)', 'expects a date such as "2024-01-31"'),
        ('+day("2024-01-01", "noon", true)', 'expects a time such as "2024-01-31T12:00:00"'),
        ('+day("2024-01-01", "2024-01-01", 1)', "expects true or false, got a whole number"),
        ("+edge(nil, 1)", "expects a value, got nil"),
        ("+pair(1)", "expects a value of a type that change scripts do not support"),
    ],
)
def test_the_wrong_type(line: str, message: str) -> None:
    assert message in refused(line)


@pytest.mark.parametrize("number", [-2, 2**63, -(2**64)])
def test_unsigned_columns(number: int) -> None:
    message = refused(f"+edge(1, {number})\n", ranges={"edge": {"y": UNSIGNED}})
    assert "column 'y' of relation 'edge' expects an unsigned number (0 to 2^63-1)" in message
    assert "[value-out-of-range]" in message


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("edge(1, 2)", 1, "expected a change or commit"),
        ("comit", 1, "expected a change or commit, got 'comit'"),
        ("+edge 1, 2", 6, "expected '(' after 'edge'"),
        ("+edge(1, 2", 11, "expected ',' or ')', got the end of the line"),
        ("+edge(1 2)", 9, "expected ',' or ')', got '2'"),
        ("+edge(1,)", 9, "expected a number or a text in quotes"),
        ("+edge(1, ", 10, "expected a value, got the end of the line"),
        ("+name(1, Ada)", 10, "expected a number or a text in quotes"),
        ('+name(1, "Ada)', 10, "this text has no closing quote"),
        (r'+name(1, "A\qa")', 12, r"unknown escape \q"),
        ("+edge(1, 2) edge(3, 4)", 13, "expected another change or the end of the line"),
        ("+edge(1, 2) +edge", 13, "expected another change or the end of the line"),
        ("+edge(1, 2). -edge(3, x)", 23, "expected a number or a text in quotes"),
        ("+edge(1-2, 3)", 8, "expected ',' or ')', got '-'"),
    ],
)
def test_malformed_lines_point_at_the_place(line: str, column: int, message: str) -> None:
    first, shown, caret = refused(line).splitlines()[:3]
    assert first == f"s.txt:1:{column}: error: {message} [invalid-line]"
    assert shown == f"    {line}".rstrip()
    assert caret.index("^") == 4 + column - 1


def test_hints() -> None:
    assert "hint: write + or - before 'edge'" in refused("edge(1, 2)")
    assert 'hint: write a text in double quotes: "like this"' in refused("+name(1, Ada)")
    assert "hint: for example: +edge(1, 2) -edge(2, 3)" in refused("+edge(1, 2), +edge(3, 4)")


def test_several_problems_are_reported_together_and_many_cut_short() -> None:
    assert refused("+edge(1)\n+edge(1, 2)\n+none(1)\n").count("error:") == 2
    text = refused("+none(1)\n" * 50)
    assert text.count("error:") == 10
    assert text.endswith("only the first 10 are shown")


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "changes.txt"
    path.write_bytes(b"\xef\xbb\xbf+edge(1, 2)\r\ncommit\r\n")
    (tick,) = read_change_script(path, INPUTS)
    assert tick.changes == {"edge": {(1, 2): 1}}
    with pytest.raises(DataError, match=r"changes.txt:2:1: error: expected a change") as caught:
        path.write_text("+edge(1, 2)\nfoo\n")
        read_change_script(path, INPUTS)
    assert caught.value.code == "invalid-line"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.txt: there is no such change script \[file-not-found\]"):
        read_change_script(tmp_path / "none.txt", INPUTS)
    with pytest.raises(InputError, match=r"cannot be read: Is a directory \[unreadable-file\]"):
        read_change_script(tmp_path, INPUTS)
    (tmp_path / "bad.txt").write_bytes(b"+edge(1, 2)\n\xff\n")
    with pytest.raises(InputError, match=r"bad.txt:2: expected UTF-8 text \[invalid-encoding\]"):
        read_change_script(tmp_path / "bad.txt", INPUTS)


@given(st.floats())
@example(240.0)
@example(1e-4)
@example(9.999999999999999e-05)
@example(1e-6)
@example(9.999999999999999e-07)
@example(1e9)
@example(9999999999.999998)
@example(1e10)
@example(-1.5e-7)
@example(5e-324)
def test_a_float_looks_the_same_in_scripts_and_result_files(value: float) -> None:
    in_bulk = pc.cast(pa.array([value]), pa.string())[0].as_py()
    assert float_text(value) == literal_of(value) == in_bulk
    data, _ = lines_of(ZSet({(value,): 1}, schema=Schema.of(f=float)))
    assert data.decode() == f"{float_text(value + 0.0)}\n"


def test_whole_numbers_of_float_columns_are_read_back() -> None:
    delta = ZSet({(240.0,): 1, (-3.0,): -1, (1e20,): 1}, schema=Schema.of(w=float))
    lines = list(format_delta({"weight": delta}))
    assert lines == ["-weight(-3)", "+weight(240)", "+weight(1e+20)"]
    (tick,) = parse("\n".join(lines))
    assert tick.changes == {"weight": {(240.0,): 1, (-3.0,): -1, (1e20,): 1}}
    assert {type(w) for (w,) in tick.changes["weight"]} == {float}


# Always the same NaN object: two different ones would be two keys of a dictionary.
FLOATS = st.floats(allow_nan=False) | st.just(math.nan)
rows = st.tuples(st.integers(INT64_MIN, INT64_MAX), st.text(st.characters(codec="utf-8")), FLOATS)


@settings(deadline=None)  # the first example may have to load compiled kernels
@given(st.dictionaries(rows, st.sampled_from([1, -1])))
def test_a_formatted_delta_is_read_back(delta: dict[tuple[Any, ...], int]) -> None:
    schema = Schema.of(i=int, s=str, f=float)
    lines = list(format_delta({"r": ZSet(delta, schema=schema)}))
    reader = ChangeScriptReader({"r": schema}, "s.txt")
    ticks = parse_change_script(lines, reader)
    read_back = ZSet(ticks[0].changes["r"] if ticks else {}, schema=schema)
    assert list(format_delta({"r": read_back})) == lines
