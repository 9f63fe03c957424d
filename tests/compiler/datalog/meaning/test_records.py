"""Records and branches in runs: growing, failing, resuming, in every stage, in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import Branch
from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.meaning.checked import Rule
from dbsp.errors import InputError, IterationLimitError
from dbsp.io.change_script import read_change_script
from dbsp.io.facts import read_facts
from dbsp.io.problems import DataError
from dbsp.runtime.agreement import check_agreement
from tests.io.support import lines_of

COUNT = """
    .type List = [head: number, tail: List]
    .decl limit(n: number)
    .input limit
    .decl list(l: List, n: number)
    .decl item(l: List, x: number)
    .output list, item
    list(nil, 0) :- limit(_).
    list([n, l], n + 1) :- list(l, n), limit(m), n < m.
    item(l, x) :- list(l, m), limit(m), l = [x, _].
    item(rest, x) :- item([_, rest], _), rest = [x, _].
"""

PROGRAMS = Path(__file__).parents[3] / "programs"


def test_lists_grow_and_shrink() -> None:
    run = dbsp.compile(COUNT).start({"limit": [(1000,)]})
    assert len(run.view("list")) == 1001
    assert sorted(row[1] for row in run.view("item").to_dict()) == list(range(1000))
    longest = max(run.view("list").rows(), key=lambda row: row[1])[0]
    for n in reversed(range(1000)):
        head, longest = longest
        assert head == n
    assert longest is None
    delta = run.step({"limit": {(1000,): -1, (998,): 1}})
    assert len(delta["list"]) == 2 and set(delta["list"].to_dict().values()) == {-1}
    run.step({"limit": {(998,): -1}})
    assert len(run.view("list")) == len(run.view("item")) == 0


def test_terms_that_grow_without_end_are_an_error_of_the_tick() -> None:
    program = dbsp.compile(
        """
        .type List = [head: number, tail: List]
        .decl start(n: number)
        .input start
        .decl list(l: List)
        .output list
        list([n, nil]) :- start(n), n < 5.
        list([n, nil]) :- start(n), n > 4.
        list([n, l]) :- list(l), start(n), n > 4.
        """
    )
    run = program.start({"start": [(1,)]}, max_iterations=50)
    before = run.view("list").to_dict()
    with pytest.raises(IterationLimitError):
        run.step({"start": {(7,): 1, (1,): -1}})
    assert run.view("list").to_dict() == before == {((1, None),): 1}
    assert run.step({"start": {(2,): 1}})["list"].to_dict() == {((2, None),): 1}


@pytest.mark.parametrize("name", ["records", "branches"])
def test_all_stages_agree(name: str) -> None:
    program = dbsp.compile(PROGRAMS / f"{name}.dl")
    assert check_agreement(lambda stage: program.start(stage=stage), 12, seed=5, values=3)


@pytest.mark.parametrize("snapshot_every", [1, 2, 100])
def test_a_run_resumes_from_a_checkpoint(tmp_path: Path, snapshot_every: int) -> None:
    program = dbsp.compile(COUNT)
    run = program.start(checkpoint=_store(tmp_path, snapshot_every))
    run.step({"limit": {(3,): 1}})
    run.step({"limit": {(5,): 1}})
    run.step({"limit": {(3,): -1}})
    views = {name: run.view(name).to_dict() for name in ("list", "item")}
    assert run.log is not None
    run.log.close()
    again = program.start(checkpoint=_store(tmp_path, snapshot_every))
    assert again.tick == 3
    assert {name: again.view(name).to_dict() for name in ("list", "item")} == views
    delta = again.step({"limit": {(5,): -1, (2,): 1}})
    fresh = program.start({"limit": [(2,)]})
    assert again.view("list").to_dict() == fresh.view("list").to_dict()
    assert len(delta["list"]) == 3


def _store(folder: Path, snapshot_every: int) -> Any:
    from dbsp.durable import Store

    return Store(folder, snapshot_every=snapshot_every, sync=False)


def test_rows_are_given_as_tuples_and_branches() -> None:
    program = dbsp.compile(
        """
        .type Pair = [a: number, b: symbol]
        .type Shape = Dot {} | Box { corner: Pair, size: unsigned }
        .decl shape(s: Shape, p: Pair)
        .input shape
        .decl corner(p: Pair)
        .output corner
        corner(c) :- shape($Box(c, _), _).
        corner(p) :- shape($Dot, p).
        """
    )
    assert program.inputs["shape"].describe() == "s: Shape, p: Pair"
    run = program.start()
    box = Branch("Box", (1, "x"), 3)
    run.step({"shape": [(box, None), (Branch("Dot"), (2, "y")), (Branch("Dot"), None)]})
    assert run.view("corner").rows() == [(None,), ((1, "x"),), ((2, "y"),)]
    run.step({"shape": {(box, None): -1}})
    assert run.view("corner").rows() == [(None,), ((2, "y"),)]
    before = len(run.interner)
    for wrong, message in [
        ((Branch("Box", (1, 2), 3), None), "field 'b' of Pair: expected str, got 2 of type int"),
        (
            (Branch("Box", (1, "x"), -3), None),
            "field 'size' of $Box: expected an unsigned number (0 to 2^63-1), got -3",
        ),
        (
            (Branch("Dot"), [1, "x"]),
            "expected Pair, a record, got [1, 'x'] of type list; write a record as a tuple",
        ),
        ((None, None), 'expected Shape, got None of type NoneType; write Branch("Dot", ...)'),
    ]:
        with pytest.raises((InputError, dbsp.ValueOutOfRangeError)) as refused:
            run.step({"shape": [wrong]})
        assert message in str(refused.value)
    assert len(run.interner) <= before + 1 and len(run.view("corner")) == 2


def test_files_of_records_and_their_errors(tmp_path: Path) -> None:
    program = dbsp.compile(COUNT)
    schema = program.columns("list")
    path = tmp_path / "list.facts"
    path.write_text("[2, [1, nil]]\t2\nnil\t0\n")
    rows = [((2, (1, None)), 2), (None, 0)]
    assert read_facts(path, schema) == rows
    assert lines_of(dbsp.ZSet(rows, schema)) == (b"nil\t0\n[2, [1, nil]]\t2\n", 0)
    path.write_text("[2, [1, nil]], 2\n[2, x], 3\n")
    with pytest.raises(DataError) as refused:
        read_facts(path, schema, delimiter=", ")
    assert str(refused.value) == (
        f"{path}:2:5: error: column 'l' of relation 'list' expects a record [head, tail] of type List, or"
        " nil, got '[2, x]' [wrong-type]\n    [2, x], 3\n        ^"
    )
    script = tmp_path / "changes.txt"
    script.write_text("+list([1, nil], 3)\n-list([1, 2], 3)\n")
    with pytest.raises(DataError) as refused:
        read_change_script(script, {"list": schema})
    assert str(refused.value) == (
        f"{script}:2:11: error: column 'l' of 'list' expects a record [head, tail] of type List,"
        " or nil [wrong-type]\n"
        "    -list([1, 2], 3)\n              ^"
    )


def test_a_plan_joins_a_record_in_one_way_only() -> None:
    """A plan omits conditions of a pattern that follow from other conditions."""
    program = dbsp.compile(
        """
        .type Pair = [a: number, b: number]
        .decl pair(p: Pair)
        .decl edge(a: number, b: number)
        .input pair, edge
        .decl both(a: number, b: number)
        .output both
        both(a, b) :- pair([a, b]), edge(a, b).
        .plan 0: (2, 1)
        .decl apart(a: number, b: number)
        .output apart
        apart(a, b) :- pair([a, b]).
        """
    )
    assert isinstance(program.checked.rules[0], Rule)
    text = program.explain()
    first, second = text.index("both(a, b) :-"), text.index("apart(a, b) :-")
    assert "let #1 = [a, b]" in text[first:second] and "part 1" not in text[first:second]
    assert "let a = part 1 of #1" in text[second:] and "[a, b]\n" not in text[second:].split("=>")[0][30:]
    for stage in Stage:
        run = program.start({"pair": [((1, 2),), (None,)], "edge": [(1, 2), (3, 4)]}, stage=stage)
        assert run.view("both").rows() == run.view("apart").rows() == [(1, 2)]


def test_records_and_their_parts_in_one_join() -> None:
    """A record and its parts determine each other: from each atom some order binds everything."""
    program = dbsp.compile(
        """
        .type Pair = [a: number, b: number]
        .decl pair(p: Pair)
        .decl edge(a: number, b: number)
        .decl back(p: Pair, q: Pair)
        .input pair, edge, back
        .decl ring(a: number, b: number, c: number)
        .output ring
        ring(a, b, c) :- pair([a, b]), edge(b, c), back([c, a], p), p = [a, b].
        """,
        strategy="wcoj",
    )
    assert check_agreement(lambda stage: program.start(stage=stage), 60, seed=2, values=3)
    run = program.start()
    run.step({"pair": [((1, 2),)], "edge": [(2, 3)]})
    assert run.step({"back": [((3, 1), (1, 2)), ((3, 1), None)]})["ring"].to_dict() == {(1, 2, 3): 1}
    assert run.step({"edge": {(2, 3): -1}})["ring"].to_dict() == {(1, 2, 3): -1}
    assert run.step({"edge": {(2, 3): 1}, "pair": {((1, 2),): -1}})["ring"].to_dict() == {}
    assert run.step({"pair": {((1, 2),): 1}})["ring"].to_dict() == {(1, 2, 3): 1}


@pytest.mark.parametrize(
    "rules",
    [
        "p(nil).  o(1) :- p(nil).  o(2) :- p([1, nil]).",
        "p(nil).  o(1) :- !p(nil).  o(2) :- !p([1, nil]).",
        "p([1, nil]).  p([2, [1, nil]]).  o(x) :- p([x, nil]).  o(3) :- p(nil).  l(x) :- p([_, x]).",
        "p(nil).  p([4, nil]).  l(x) :- p(x).  o(1) :- p(x), x = nil.  o(2) :- p(x), x != nil.",
        "p(x) :- x = nil.  l(x) :- p(x).  o(1) :- p(x), x = nil.  o(2) :- p(_).  o(3) :- p(nil).",
        "p(x) :- q(x).  q(x) :- given(x).  q([2, [3, nil]]).  q(nil).  l(x) :- p(x).  o(1) :- p(nil).",
        "pair(x, x) :- given(x).  o(1) :- pair(nil, nil).  l(x) :- given(x), pair(x, nil).",
        "t($Two(nil, [1, nil])).  t($None()).  l(x) :- t($Two(nil, x)).  o(1) :- t($Two(_, nil)).",
        "inner([nil, 1]).  inner([[3, nil], 2]).  l(x) :- inner([x, _]).  o(n) :- inner([nil, n]).",
        "f(3).  f(1).  o(1) :- f(x), x / 2 > 1.  o(2) :- f(x), x / 2 < 0.6.  o(3) :- f(4).",
        "p(nil).  o(1) :- p(3).",
        "f(1).  o(1) :- f(nil).",
        "u(5).  o(1) :- u(-1).",
    ],
)
def test_inlined_relations_agree_with_stored_ones(rules: str) -> None:
    """The columns of an inlined relation, which has none in the end, still type its arguments."""
    text = """
    .type List = [head: number, tail: List]
    .type Tree = None {} | Two { left: List, right: List }
    .type Inner = [list: List, n: number]
    .decl p(x: List) inline
    .decl q(x: List) inline
    .decl pair(x: List, y: List) inline
    .decl t(x: Tree) inline
    .decl inner(x: Inner) inline
    .decl f(x: float) inline
    .decl u(x: unsigned) inline
    .decl given(x: List)
    .decl o(x: number)
    .decl l(x: List)
    .output o, l
    given(nil).
    given([1, nil]).
    """

    def result(text: str) -> Any:
        try:
            run = dbsp.compile(text).start()
        except dbsp.CompileError as error:
            return error.code, str(error).split()[0]
        return {name: run.view(name).to_dict() for name in ("o", "l")}

    inlined, stored = result(text + rules), result((text + rules).replace(" inline\n", "\n"))
    assert inlined == stored
