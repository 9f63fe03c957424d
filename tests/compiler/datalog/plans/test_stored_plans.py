"""Stored plans: reading repeats the planning with the recorded choices, exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.plans.stored_plans import read_plans, restored_plans, written_plans
from dbsp.compiler.program import Program
from dbsp.errors import DbspError, expect_present
from tests.profiles import examples
from tests.random_datalog import programs
from tests.random_edits import versions
from tests.random_rules import grouped_programs, range_programs

few = st.integers(0, 3)
contents = st.fixed_dictionaries(
    {arity: st.sets(st.tuples(*[few] * arity), max_size=12) for arity in range(1, 5)}
)
"""The rows of the inputs, by their number of columns."""


def first(texts: list[str]) -> str:
    return texts[0]


CYCLES = """
    .decl a(x: number, y: number) .input a
    .decl b(y: number, z: number) .input b
    .decl c(z: number, w: number) .input c
    .decl o(x: number, w: number) .output o
    o(x, w) :- a(x, y), b(y, z), a(x, z), b(z, w), c(w, v), c(v, u), a(u, w).
    .decl n(x: number, n: number) .output n
    n(x, k) :- a(x, _), k = count : { a(x, y), b(y, z), c(z, x) }.
    .decl s(x: number, y: number) .output s
    s(x, y) :- a(x, _), b(_, y), c(y, _), c(_, z), z > x. .plan 0: (3, 1, 2, 4)
"""
ROWS: Any = {
    "a": [(i % 9, i % 7) for i in range(60)],
    "b": [(i % 5, i % 11) for i in range(50)],
    "c": [(i % 3, i % 4) for i in range(12)],
}


def written(program: Program, plans: Mapping[int, RulePlan]) -> str:
    """Return the document of all plans, also of those that the text gives."""
    none = {number: replace(plan, steps=None) for number, plan in plans.items()}
    return expect_present(written_plans(program.rewritten, none, plans, {"p": "few"}), "a document")


def restored(program: Program, document: str) -> dict[int, RulePlan] | None:
    return restored_plans(read_plans(document), program.rewritten)


def compare(text: str, strategy: Any, rows: Mapping[str, Any]) -> set[str]:
    """Compare all plans with the restored ones; return their kinds."""
    program = dbsp.compile(text, strategy)
    try:
        counts = program.counted({name: rows[name] for name in program.inputs})
    except DbspError:
        return set()
    plans = program.plans_for(counts)
    document = written(program, plans)
    never = {number for number, plan in plans.items() if plan.steps is None}
    expected = {number: plan for number, plan in plans.items() if number not in never}
    assert restored(program, document) == expected
    assert written(program, {**plans, **(restored(program, document) or {})}) == document
    return {group.choice.kind for plan in expected.values() for group in plan.joined}


@settings(max_examples=examples(150))
@given(
    programs() | versions(1, cyclic=True).map(first) | range_programs() | grouped_programs(),
    st.sampled_from(["auto", "auto", "binary", "wcoj"]),
    contents,
)
def test_the_plans_of_random_programs_are_restored(text: str, strategy: str, rows: Any) -> None:
    inputs = {name: rows.get(schema.arity, set()) for name, schema in dbsp.compile(text).inputs.items()}
    event(f"kinds: {', '.join(sorted(compare(text, strategy, inputs)))}")


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [("auto", {"binary", "hybrid"}), ("binary", {"binary"}), ("wcoj", {"binary", "multiway"})],
)
def test_mixed_plans_aggregates_and_orders_of_the_text(strategy: str, kinds: set[str]) -> None:
    assert compare(CYCLES, strategy, ROWS) == kinds


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [0, 1, 2],
        [0, 1, None, 2],
        [0, 1, None],
        [0, 1, None, None, 2],
        [0, 1, 1, None, None],
        [0, 1, -1, None, None],
        [0, 1, 3, None, None],
        [0, 1, 2, None, None, None],
    ],
)
def test_trees_of_other_atoms_are_not_restored(nodes: list[int | None]) -> None:
    program = dbsp.compile(
        CYCLES.partition(".decl o")[0] + ".output c\n c(x, w) :- a(x, y), b(y, z), a(z, w)."
    )
    document = json.loads(written(program, program.plans))
    choice = document["fields"]["rules"][0]["fields"]["choices"][0]["fields"]

    def tree(atoms: list[int | None]) -> dict[int, RulePlan] | None:
        fields: list[dict[str, Any]] = [{} if atom is None else {"atom": atom} for atom in atoms]
        choice["nodes"] = [{"class": "StoredNode", "fields": each} for each in fields]
        return restored(program, json.dumps(document))

    assert tree([0, 1, None, 2, None]) == program.plans
    assert tree([2, 1, None, 0, None]) not in (None, program.plans)
    assert tree(nodes) is None
