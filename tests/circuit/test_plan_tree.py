"""The operators of a run as a tree of text."""

from __future__ import annotations

import re

import pytest

import dbsp
from dbsp import ArgumentError, Circuit, Program
from dbsp.circuit.pictures.circuit_picture import circuit_picture
from dbsp.circuit.pictures.plan_tree import plan_tree

PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
.decl far(x: number, n: number)
.output far
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
far(x, n) :- edge(x, _), n = count : { path(x, _) }.
"""


def operators(program: Program, run: dbsp.Run) -> list[str]:
    """Return the lines of the tree with amounts that differ from run to run replaced."""
    lines = program.explain(run, analyze=True).splitlines()
    return [re.sub(r"[\d.]+ (µs|ms|s)\b", "TIME", line) for line in lines[lines.index("operators") + 1 :]]


def test_every_operator_is_in_the_tree_once_with_its_counts() -> None:
    program = dbsp.compile(PROGRAM)
    run = program.start({"edge": [(1, 2), (2, 3), (3, 4)]}, observe=True)
    run.step({"edge": [(4, 5)]})
    lines = [line for line in operators(program, run) if "(above)" not in line]
    assert len(lines) == len(run.stats())
    found = sorted(
        (int(m[1].replace(",", "")), int(m[2]))
        for line in lines
        if (m := re.search(r" ([\d,]+) rows?  +TIME  +(\d+) steps?", line))
    )
    assert found == sorted((stats.rows_out, stats.steps) for stats in run.stats())
    kept = sorted(rows for rows, _ in run.kept().values())
    assert sorted(int(rows) for line in lines for rows in re.findall(r" (\d+) stored, ", line)) == kept


def test_the_form_of_a_tree() -> None:
    circuit = Circuit("shop")
    sold = circuit.input("sold", shop=str, euro=int)
    shops = circuit.input("shops", shop=str, region=str)
    total = sold.join(shops, on=["shop"])
    circuit.output("joined", total)
    circuit.output("big", total.filter(dbsp.col("euro") > 9))
    lines = plan_tree(circuit_picture(circuit.circuit("physical")))
    text = "\n".join(re.sub(r" +\S*test_plan_tree\.py:\d+$", "", line) for line in lines)
    assert (
        text
        == """\
Output joined
├─ Join on shop
│  ├─ Arrange by shop, euro
│  │  Input sold
│  └─ Arrange by shop, region
│     Input shops
└─ Arrange by shop, euro, region
   Join on shop (above)
Output big
├─ Filter euro > 9
│  Join on shop (above)
└─ Arrange by shop, euro, region
   Filter euro > 9 (above)"""
    )


def test_a_recursion_is_entered_once() -> None:
    program = dbsp.compile(PROGRAM)
    lines = operators(program, program.start({"edge": [(1, 2)]}, observe=True))
    (entered,) = [number for number, line in enumerate(lines) if "[Fixpoint path]" in line]
    assert "Leave" in lines[entered - 1] and "Distinct" in lines[entered + 1]
    assert any(line.strip("│├└─ ").startswith("Delay path") for line in lines)


def test_a_run_without_statistics() -> None:
    program = dbsp.compile(PROGRAM)
    for run in (None, program.start({"edge": [(1, 2)]})):
        with pytest.raises(ArgumentError, match="analyze= needs a run of one process with statistics; start"):
            program.explain(run, analyze=True)


def test_a_program_on_demand() -> None:
    program = dbsp.compile(PROGRAM, magic=True)
    run = program.start({"edge": [(1, 2), (2, 3)]}, observe=True)
    assert any("Output far" in line for line in operators(program, run))
