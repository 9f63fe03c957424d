"""`autoinc()`: the numbers of the derivations of a body, over ticks, stages, joins, checkpoints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.circuit.stage import Stage
from tests.durable.test_store import ended
from tests.profiles import examples

TEXT = """
.decl r(x: number, s: symbol)
.decl one, two(x: number, y: number)
.input r, one, two
.decl shop(s: symbol)
shop(s) :- r(_, s).
.decl id(i: number, s: symbol)
.output id
id(autoinc(), s) :- shop(s).
id($, cat(s, t)) :- shop(s), shop(t), s < t, !r(0, s).
.decl row(i: number, j: number, x: number)
.output row
row(i, $, x) :- i = autoinc(), r(x, _).
.decl path(i: number, x: number, z: number)
.output path
path($, x, z) :- one(x, y), two(y, z), one(z, x), n = count : { r(x, _) }, n < range(0, 3).
.decl later(i: number, s: symbol)
.output later
later(i - 100, s) :- id(i, s), i > 3.
.decl odd(i: number)
.output odd
odd(i) :- r(_, _), i = $, i % 2 = 1.
"""

VALUES = st.integers(0, 2)
ROWS = {"r": st.tuples(VALUES, st.sampled_from("abc")), "one": st.tuples(VALUES, VALUES)}
ROWS["two"] = ROWS["one"]
TICKS = st.lists(
    st.fixed_dictionaries(
        {name: st.dictionaries(rows, st.sampled_from([1, 1, -1]), max_size=4) for name, rows in ROWS.items()}
    ),
    min_size=1,
    max_size=6,
)


def derivations(inputs: dict[str, set[Any]]) -> dict[str, Counter[Any]]:
    """The number of derivations of each row without its number."""
    r, one, two = inputs["r"], inputs["one"], inputs["two"]
    shops = {s for _, s in r}
    count = Counter(x for x, _ in r)
    return {
        "id": Counter(shops) + Counter(s + t for s in shops for t in shops if s < t and (0, s) not in r),
        "row": Counter((x,) for x, _ in r),
        "path": Counter(
            (x, z)
            for x, y in one
            for y2, z in two
            if y == y2 and (z, x) in one
            for n in range(3)
            if count[x] < n
        ),
    }


def check(run: dbsp.Run, inputs: dict[str, set[Any]], before: dict[str, Any], used: dict[Any, int]) -> Any:
    views = {name: run.view(name).to_dict() for name in run.outputs}
    wanted = derivations(inputs)
    assert Counter(s for _, s in views["id"]) == wanted["id"]
    assert Counter((x,) for *_, x in views["row"]) == wanted["row"]
    assert Counter((x, z) for _, x, z in views["path"]) == wanted["path"]
    assert set(views["later"]) == {(i - 100, s) for i, s in views["id"] if i > 3}
    now = {number for name in ("id", "row", "path") for row in views[name] for number in numbers(name, row)}
    old = {number for name in ("id", "row", "path") for row in before[name] for number in numbers(name, row)}
    assert len(now) == sum(len(numbers(name, row)) for name in ("id", "row", "path") for row in views[name])
    # A number is never used again.
    for number in now - old:
        assert used.get(number, 0) == 0
        used[number] = 1
    return views


def numbers(name: str, row: Any) -> tuple[int, ...]:
    return row[:2] if name == "row" else row[:1]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(TICKS)
def test_numbers_are_unique_and_stable(ticks: list[Any]) -> None:
    program = dbsp.compile(TEXT)
    runs = [program.start(stage=stage) for stage in Stage]
    inputs: dict[str, set[Any]] = {name: set() for name in ROWS}
    before: dict[str, Any] = {name: {} for name in program.outputs}
    used: dict[Any, int] = {}
    for tick in ticks:
        for name, changes in tick.items():
            inputs[name] |= {row for row, weight in changes.items() if weight > 0}
            inputs[name] -= {row for row, weight in changes.items() if weight < 0}
        results = [{n: z.to_dict() for n, z in run.step(tick).items()} for run in runs]
        assert results[0] == results[1] == results[2]
        after = check(runs[-1], inputs, before, used)
        for name, delta in results[-1].items():
            assert delta == difference(before[name], after[name])
        # A row that is derived both before and after keeps its number.
        kept = Counter(s for _, s in before["id"]) & Counter(s for _, s in after["id"])
        assert len(before["id"].keys() & after["id"].keys()) >= len(kept - repeated(before, after))
        before = after


def difference(before: dict[Any, int], after: dict[Any, int]) -> dict[Any, int]:
    return dict.fromkeys(after.keys() - before.keys(), 1) | dict.fromkeys(before.keys() - after.keys(), -1)


def repeated(*views: dict[str, Any]) -> Counter[str]:
    """Texts that two rules derive: the text does not identify the row that is retracted."""
    return Counter(s for view in views for s, n in Counter(s for _, s in view["id"]).items() if n > 1)


def first_tick(text: str, rows: Any) -> list[Any]:
    return dbsp.compile(text).start({"r": rows}).view("out").rows()


DECLARED = ".decl r(x: number, s: symbol)\n.decl out(i: number, s: symbol)\n.input r\n.output out\n"


def test_rows_of_one_tick_are_numbered_in_the_order_of_their_values() -> None:
    rows = [(2, "b"), (10, "a"), (2, "a")]
    assert first_tick(f"{DECLARED}out($, s) :- r(x, s).", rows) == [(0, "a"), (1, "b"), (2, "a")]
    assert first_tick(f"{DECLARED}out($, s) :- r(_, s), r(x, s).", [(2, "b")]) == [(0, "b")]
    text = f'{DECLARED}out($, s) :- r(_, s).\nout($, s) :- s = "z".'
    assert first_tick(text, [(1, "b"), (2, "b")]) == [(0, "b"), (1, "z"), (2, "b")]
    assert first_tick(f"{DECLARED}out(i * 10, s) :- r(x, s), i = $, i != 1.", rows) == [(0, "a"), (20, "a")]


def test_a_rule_without_atoms_is_numbered_once() -> None:
    text = ".decl a(n: number)\n.output a\n.decl b(n: number)\nb(1).\n" + "a(autoinc()) :- b(1).\n" * 3
    run = dbsp.compile(text).start()
    assert run.view("a").rows() == [(0,), (1,), (2,)]
    run.step({"b": {(1,): -1}})
    assert run.step({"b": {(1,): 1}})["a"].to_dict() == {(3,): 1, (4,): 1, (5,): 1}


def test_a_resumed_run_continues_numbering(tmp_path: Path) -> None:
    program = dbsp.compile(f"{DECLARED}out($, s) :- r(_, s).")
    ended(program.start({"r": [(1, "a"), (1, "b")]}, checkpoint=tmp_path))
    run = program.start(checkpoint=tmp_path)
    assert run.step({"r": {(1, "b"): -1, (1, "c"): 1}})["out"].to_dict() == {(1, "b"): -1, (2, "c"): 1}
    ended(run)


def test_magic_sets_and_rewritings_do_not_change_numbers() -> None:
    text = (
        ".decl r(x: number, s: symbol)\n.decl id(i: number, x: number)\n.decl out(i: number)\n.input r\n"
        ".output out\nid($, x) :- r(x, _).\nout(i) :- id(i, 2).\n"
        '.decl p(x: number)\np(x) :- r(x, _).\np(x) :- r(x, "a").\nout($) :- p(x), x < 2.'
    )
    rows = {"r": [(1, "a"), (2, "b"), (1, "b")]}
    plain = dbsp.compile(text, rewrites=False).start(rows).view("out").rows()
    assert plain == [(1,), (4,)]
    for options in ({}, {"magic": True}):
        assert dbsp.compile(text, **options).start(rows).view("out").rows() == plain  # type: ignore[arg-type]


def test_proofs_end_at_numbers_and_plans_stay() -> None:
    program = dbsp.compile(f"{DECLARED}out($, s) :- r(_, s).")
    run = program.start({"r": [(1, "a")]})
    assert str(program.why(run, "out", (0, "a"))).splitlines() == ['out(0, "a")   was numbered by autoinc()']
    with pytest.raises(dbsp.CircuitError, match="this run has no planner"):
        run.replan()


def test_the_rows_of_an_aggregate_are_numbered() -> None:
    """Both rules make a name for a new column, and the physical circuit has no renamings."""
    text = """
        .decl sale(x: number, euro: number) .input sale
        .decl total(x: number, euro: number)
        total(x, euro) :- sale(x, _), euro = sum e : { sale(x, e) }.
        .decl id(n: number, x: number) .output id
        id(autoinc(), x) :- total(x, _).
        .decl again(n: number, x: number) .output again
        again(autoinc(), x) :- id(_, x).
    """
    run = dbsp.compile(text).start({"sale": [(1, 2), (1, 3), (2, 4)]})
    assert (run.view("id").rows(), run.view("again").rows()) == ([(0, 1), (2, 2)], [(1, 1), (3, 2)])
    delta = run.step({"sale": {(1, 2): -1}})
    assert (delta["id"].to_dict(), delta["again"].to_dict()) == (
        {(0, 1): -1, (4, 1): 1},
        {(1, 1): -1, (5, 1): 1},
    )
