"""Ints of 5,000 digits, which Python neither reads from a text nor writes as one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import Circuit, DbspError, Schema, ZSet, col, from_json, lit
from dbsp.cli.commands import _number
from dbsp.io.change_script import ChangeScriptReader, parse_change_script
from dbsp.io.facts import read_facts
from dbsp.io.json_rows import parse_json_rows
from tests.cli.support import Command

BIG = 10**5000
DIGITS = "9" * 5000
SCHEMA = Schema.of(x=int)
A = ".decl a(x: number)\n.output a\n"


def stepped(type_: Any, change: Any) -> Any:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=type_))
    return circuit.start().step({"a": change})["out"]


def filtered() -> Circuit:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int).filter(col("x") < 77))
    return circuit


def tuples_filtered() -> Circuit:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=object).filter(col("x") != lit((BIG,))))
    return circuit


def script(line: str) -> Any:
    return parse_change_script([line], ChangeScriptReader({"a": SCHEMA}))


OUT_OF_RANGE: dict[str, Callable[[], Any]] = {
    "value": lambda: stepped(int, {(BIG,): 1}),
    "float": lambda: stepped(float, {(BIG,): 1}),
    "weight": lambda: stepped(int, {(1,): BIG}),
    "weight of a Z-set": lambda: ZSet({(1,): BIG}),
    "literal": lambda: dbsp.compile(f"{A}a({DIGITS})."),
    "negative literal": lambda: dbsp.compile(f"{A}a(-{DIGITS})."),
    "hexadecimal literal": lambda: dbsp.compile(f"{A}a(0x{DIGITS})."),
    "to_number": lambda: dbsp.compile(f'{A}a(to_number("{DIGITS}")).').start(),
    "negative to_number": lambda: dbsp.compile(f'{A}a(to_number("-{DIGITS}")).').start(),
    "power": lambda: dbsp.compile(f"{A}a(10 ^ 5000).").start(),
    "change": lambda: script(f"+a({DIGITS})"),
    "negative change": lambda: script(f"+a(-{DIGITS})"),
    "JSON": lambda: parse_json_rows(f"[[{DIGITS}]]".encode(), "a.json", SCHEMA, "a"),
    "negative JSON": lambda: parse_json_rows(f"[[-{DIGITS}]]".encode(), "a.json", SCHEMA, "a"),
}


@pytest.mark.parametrize("call", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_huge_int_is_out_of_range(call: Callable[[], Any]) -> None:
    with pytest.raises(DbspError, match=r"\[(value-out-of-range|weight-overflow)\]"):
        call()


@pytest.mark.parametrize("sign", ["", "+", "-"])
@pytest.mark.parametrize("digits", [DIGITS, "0x" + DIGITS, "0b" + "1" * 5000, "9" * 4001, "9" * 20])
def test_a_huge_int_in_a_fact_file(tmp_path: Path, sign: str, digits: str) -> None:
    (tmp_path / "a.facts").write_text(f"1\n{sign}{digits}\n")
    with pytest.raises(DbspError, match=r"a.facts:2:1: .* expects a whole number of 64 bits"):
        read_facts(tmp_path / "a.facts", SCHEMA)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "limit": (lambda: dbsp.compile(f"{A}.limitsize a(n={DIGITS})"), "expected a single parameter n"),
    "macro": (
        lambda: dbsp.compile(f"{A}a(M).", macros={"M": BIG}),
        r"^macros\['M'\]: expected a number of 64 bits or a text, got an int of 16610 bits",
    ),
    "JSON of a circuit": (
        lambda: from_json(filtered().to_json().replace("77", DIGITS)),
        "^expected ints of at most 4300 digits, got a longer one",
    ),
    "nested JSON of a circuit": (
        lambda: from_json("[" * 100_000),
        "^expected a circuit, got JSON that is nested too deeply",
    ),
    "circuit": (
        lambda: tuples_filtered().to_json(),
        "an int of 16610 bits cannot be written as JSON, because it has more than 4300 digits",
    ),
    "option": (lambda: _number(DIGITS, "depth"), "^--depth expects a whole number from 1, got '9999"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_a_huge_int_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(DbspError, match=message):
        call()


def test_objects_may_hold_huge_ints() -> None:
    out = stepped(object, {(BIG,): 1, ((BIG, "a"),): 2, (1,): 3})
    assert out.rows() == [(1,), (BIG,), ((BIG, "a"),)]
    assert f"({hex(BIG)}, 'a')" in repr(out)
    assert repr(lit(BIG)) == hex(BIG)
    assert "Filter" in str(tuples_filtered().explain())


@pytest.mark.usefixtures("compiled_kernels")
def test_the_command_line_refuses_huge_sizes(folder: Path, run: Command) -> None:
    for option in ("--max-memory", "--memory-limit", "--max-unpacked"):
        for size in (f"{DIGITS}G", "9" * 30):
            done = run("run", "reach.dl", "-F", "facts", option, size)
            assert done.code == 2
            assert "expected less than 4,000,000 terabytes" in " ".join(done.err.replace("│", " ").split())
    assert run("run", "reach.dl", "-F", "facts", "--jobs", DIGITS).code == 0
