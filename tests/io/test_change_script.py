"""Change scripts: what they say, and what is said about them when they are wrong."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io import (
    ChangeScriptReader,
    DataError,
    ScriptTick,
    format_delta,
    parse_change_script,
    read_change_script,
)
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

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
def test_half_of_a_character_is_no_text(half: str) -> None:
    assert refused(f'+name(1, "a{half}")') == (
        f"s.txt:1:12: error: {half[:6]} is half of a character and no text\n"
        f'    +name(1, "a{half}")\n'
        "               ^^^^^^\n"
        "    hint: the other half has to stand next to it"
    )


def test_bytes_that_are_no_text() -> None:
    line = b'+name(1, "\xff")'.decode(errors="surrogateescape")
    assert refused(line) == (
        's.txt:1:11: error: this is not UTF-8 text\n    +name(1, "\ufffd")\n              ^'
    )


def test_an_unknown_relation() -> None:
    assert refused("+edge(1, 2)\n+egde(1, 2)\n") == (
        "s.txt:2:2: error: unknown relation 'egde'\n"
        "    +egde(1, 2)\n"
        "     ^^^^\n"
        "    hint: did you mean 'edge'?"
    )


def test_a_derived_relation() -> None:
    text = refused("+path(1, 2)\n", derived=["path"])
    assert "relation 'path' is computed by rules; only input relations can be changed" in text
    assert "hint: input relations: edge, name" in text


def test_the_wrong_number_of_values() -> None:
    assert refused("-edge(1, 2, 3)\n") == (
        "s.txt:1:2: error: relation 'edge' has 2 columns (x: int, y: int), this line gives 3\n"
        "    -edge(1, 2, 3)\n"
        "     ^^^^^^^^^^^^^"
    )
    assert "relation 'comp.flag' has 0 columns, this line gives 1" in refused("+comp.flag(1)\n")
    assert "has 1 column (w: float), this line gives 0" in refused("+weight()\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('+edge(1, "2")', "column 'y' of relation 'edge' expects a whole number, got a text"),
        ("+edge(1, 2.0)", "expects a whole number, got a number with a fraction"),
        ("+edge(true, 2)", "column 'x' of relation 'edge' expects a whole number, got true"),
        (f"+edge(1, {INT64_MAX + 1})", "expects a whole number of 64 bits"),
        ("+edge(1, " + "9" * 5000 + ")", "expects a whole number of 64 bits"),
        ("+weight(" + "9" * 400 + ")", "expects a number that a float can hold"),
        (
            "+name(1, 2)",
            "column 'name' of relation 'name' expects a text in double quotes, got a whole number",
        ),
        ('+weight("1")', "expects a number, got a text"),
        ('+day("yesterday", "2024-01-01", true)', 'expects a date such as "2024-01-31"'),
        ('+day("2024-01-01", "noon", true)', 'expects a time such as "2024-01-31T12:00:00"'),
        ('+day("2024-01-01", "2024-01-01", 1)', "expects true or false, got a whole number"),
        ("+edge(nil, 1)", "expects a value, got nil"),
        ("+pair(1)", "expects a value of a type that change scripts cannot write"),
    ],
)
def test_the_wrong_type(line: str, message: str) -> None:
    assert message in refused(line)


def test_unsigned_columns() -> None:
    message = refused("+edge(1, -2)\n", ranges={"edge": {"y": UNSIGNED}})
    assert "column 'y' of relation 'edge' expects an unsigned number (0 to 2^63-1)" in message


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("edge(1, 2)", 1, "this is neither a change nor commit"),
        ("comit", 1, "this is neither a change nor commit"),
        ("+edge 1, 2", 6, "expected '(' after 'edge'"),
        ("+edge(1, 2", 11, "expected ',' or ')', the line ends here"),
        ("+edge(1 2)", 9, "expected ',' or ')', found '2'"),
        ("+edge(1,)", 9, "expected a number or a text in quotes"),
        ("+edge(1, ", 10, "expected a value, the line ends here"),
        ("+name(1, Ada)", 10, "expected a number or a text in quotes"),
        ('+name(1, "Ada)', 10, "this text has no closing quote"),
        (r'+name(1, "A\qa")', 12, r"unknown escape \q"),
        ("+edge(1, 2) +edge(3, 4)", 13, "expected the end of the line"),
        ("+edge(1-2, 3)", 8, "expected ',' or ')', found '-'"),
    ],
)
def test_malformed_lines_point_at_the_place(line: str, column: int, message: str) -> None:
    first, shown, caret = refused(line).splitlines()[:3]
    assert first == f"s.txt:1:{column}: error: {message}"
    assert shown == f"    {line}".rstrip()
    assert caret.index("^") == 4 + column - 1


def test_hints() -> None:
    assert "hint: write + or - before 'edge'" in refused("edge(1, 2)")
    assert 'hint: a text is written in double quotes: "like this"' in refused("+name(1, Ada)")
    assert "hint: one change stands on one line" in refused("+edge(1, 2) +edge(3, 4)")


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
    with pytest.raises(DataError, match=r"changes.txt:2:1: error: this is neither"):
        path.write_text("+edge(1, 2)\nfoo\n")
        read_change_script(path, INPUTS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.txt: there is no such change script"):
        read_change_script(tmp_path / "none.txt", INPUTS)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_change_script(tmp_path, INPUTS)
    (tmp_path / "bad.txt").write_bytes(b"+edge(1, 2)\n\xff\n")
    with pytest.raises(InputError, match=r"bad.txt:2: this is not UTF-8 text"):
        read_change_script(tmp_path / "bad.txt", INPUTS)


# One NaN object: two of them would be two keys of a dictionary, though one value here.
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
