"""`compile` and `Program`: sources of text, starting, facts, errors of a running program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp.errors import (
    ArgumentError,
    CompileError,
    EvaluationError,
    InputError,
    IterationLimitError,
    ValueOutOfRangeError,
)
from tests.compiler.support import AS_WRITTEN

CLOSURE = """.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


# --- the source of the text ---------------------------------------------------------------------


def test_text_path_and_name_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "closure.dl"
    file.write_text(CLOSURE, encoding="utf-8")
    for source in (CLOSURE, file, str(file)):
        program = dbsp.compile(source)
        assert list(program.inputs) == ["edge"]
        assert program.circuit().name == ("<program>" if source is CLOSURE else "closure")


def test_one_line_of_text_is_not_a_file() -> None:
    program = dbsp.compile(".decl a(x: number) .decl b(x: number) .output b b(x) :- a(x).")
    assert list(program.outputs) == ["b"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.dl"
    for source in (missing, str(missing)):
        with pytest.raises(CompileError) as refused:
            dbsp.compile(source)
        assert str(refused.value) == f"cannot read {missing}: No such file or directory [file-not-found]"
    with pytest.raises(CompileError, match=r"cannot read .*: Is a directory \[unreadable-file\]"):
        dbsp.compile(tmp_path)
    latin = tmp_path / "latin.dl"
    latin.write_bytes(b"// caf\xe9\n")
    with pytest.raises(CompileError, match=r"cannot read .*: byte 6 is not UTF-8 text \[unreadable-file\]"):
        dbsp.compile(latin)


def test_places_name_the_file_as_given(tmp_path: Path) -> None:
    file = tmp_path / "bad.dl"
    file.write_text("edge(1).\n")
    with pytest.raises(CompileError) as refused:
        dbsp.compile(file)
    assert str(refused.value).startswith(f"{file}:1:1: error: undefined relation 'edge'")


# --- properties of a program -----------------------------------------------------------------


def test_names_and_columns() -> None:
    program = dbsp.compile(
        """.type Name <: symbol
        .decl a(n: Name, f: float, u: unsigned)
        .decl b(n: symbol)
        .decl c(f: float)
        .input a(filename="a.txt", delimiter=",")
        .output b
        .printsize c
        b(n) :- a(n, _, _).
        c(f) :- a(_, f, _).
        """
    )
    assert {name: schema.describe() for name, schema in program.inputs.items()} == {
        "a": "n: str, f: float, u: int"
    }
    assert list(program.outputs) == ["b", "c"]
    assert program.sizes == ("c",)
    assert list(program.relations) == ["a", "b", "c"]
    assert program.relations["a"].inputs == ({"filename": "a.txt", "delimiter": ","},)
    assert repr(program) == "<program <program>: 2 rules, (a) -> (b, c)>"


def test_the_columns_of_an_unknown_relation() -> None:
    with pytest.raises(InputError) as refused:
        dbsp.compile(CLOSURE).columns("edgy")
    assert str(refused.value) == (
        "unknown relation 'edgy'; did you mean 'edge'? (the relations are edge, path) [unknown-relation]"
    )


def test_inputs_have_set_semantics() -> None:
    run = dbsp.compile(CLOSURE).start()
    run.step({"edge": {(1, 2): 1}})
    result = run.step({"edge": {(1, 2): 5}})
    assert not result["path"]
    assert run.step({"edge": {(1, 2): -1}})["path"].to_dict() == {(1, 2): -1}


def test_an_input_that_is_an_output() -> None:
    run = dbsp.compile(".decl a(x: number)\n.input a\n.output a\n").start()
    assert run.step({"a": [(1,), (2,)]})["a"].to_dict() == {(1,): 1, (2,): 1}


def test_an_input_with_rules_holds_both() -> None:
    run = dbsp.compile(CLOSURE + ".input path\n").start()
    run.step({"edge": {(1, 2): 1}, "path": {(1, 2): 1, (7, 1): 1}})
    assert run.view("path").rows() == [(1, 2), (7, 1), (7, 2)]
    run.step({"edge": {(1, 2): -1}})
    assert run.view("path").rows() == [(1, 2), (7, 1)]


# --- starting -------------------------------------------------------------------------------------


def test_facts_are_in_the_first_tick_and_can_be_retracted() -> None:
    run = dbsp.compile(CLOSURE + "edge(1, 2). edge(2, 3).\n").start()
    assert run.tick == 1
    assert run.view("path").rows() == [(1, 2), (1, 3), (2, 3)]
    assert run.step({"edge": {(1, 2): -1}})["path"].to_dict() == {(1, 2): -1, (1, 3): -1}


def test_initial_changes_and_facts_are_one_tick() -> None:
    program = dbsp.compile(CLOSURE + "edge(1, 2). edge(5, 6).\n")
    run = program.start(initial={"edge": {(2, 3): 1, (5, 6): -1}})
    assert run.tick == 1
    assert run.view("path").rows() == [(1, 2), (1, 3), (2, 3)]


def test_no_tick_happens_without_changes() -> None:
    assert dbsp.compile(CLOSURE).start().tick == 0


def test_rows_that_need_no_input_are_in_the_first_tick() -> None:
    text = """.decl a(x: number) .decl n(c: number) .decl no() .decl k(x: number)
    .output n, no, k
    n(c) :- c = count : { a(_) }.
    no() :- !a(_).
    k(1 + 1).
    """
    run = dbsp.compile(text).start()
    assert run.tick == 1
    assert (run.view("n").rows(), run.view("no").rows(), run.view("k").rows()) == ([(0,)], [()], [(2,)])
    result = run.step({"a": {(7,): 1}})
    assert result["n"].to_dict() == {(0,): -1, (1,): 1}
    assert result["no"].to_dict() == {(): -1}


def test_runs_of_one_program_share_nothing() -> None:
    program = dbsp.compile(CLOSURE)
    first, other = program.start(), program.start()
    first.step({"edge": {(1, 2): 1}})
    assert not other.view("path")


def test_a_recursive_stratum_without_a_base_rule_is_empty() -> None:
    text = """.decl a(x: number) .decl p(x: number) .decl q(x: number) .decl o(x: number) .output o, p
    p(x) :- q(x). q(x) :- p(x), a(x). o(x) :- a(x), !p(x).
    """
    run = dbsp.compile(text).start()
    assert run.step({"a": [(1,)]})["o"].rows() == [(1,)]
    assert run.view("p").rows() == []


def test_a_relation_whose_rules_never_hold_is_empty() -> None:
    text = ".decl a(x: number) .decl p(x: number) .output p\np(x) :- a(x), false.\np(x) :- p(x), a(x).\n"
    run = dbsp.compile(text).start(initial={"a": [(1,)]})
    assert run.view("p").rows() == []


# --- errors while running -------------------------------------------------------------------------

ARITHMETIC = """.decl a(x: number, y: number)
.decl u(x: unsigned)
.decl s(x: symbol)
.decl o(x: number)
.decl ou(x: unsigned)
.output o, ou
o(x / y) :- a(x, y).
o(x + 1) :- a(x, _).
o(z) :- a(x, y), y > 100,
        z = x % (y - 101).
ou(x - 1) :- u(x).
o(to_number(x)) :- s(x).
o(n) :- n = sum x : { a(x, _) }.
"""


@pytest.mark.parametrize(
    ("changes", "error", "where", "message"),
    [
        ({"a": {(4, 0): 1}}, EvaluationError, "<program>:7:3", "division by zero: x / y with x = 4, y = 0"),
        (
            {"a": {(2**63 - 1, 1): 1}},
            ValueOutOfRangeError,
            "<program>:8:3",
            "x + 1 with x = 9223372036854775807",
        ),
        ({"a": {(7, 101): 1}}, EvaluationError, "<program>:10:13", "x % (y - 101) with x = 7, y = 101"),
        (
            {"u": {(0,): 1}},
            ValueOutOfRangeError,
            "<program>:11:4",
            "expected an unsigned number (0 to 2^63-1), got -1",
        ),
        ({"s": {("abc",): 1}}, EvaluationError, "<program>:12:3", 'to_number(x) with x = "abc"'),
        ({"a": {("x", 1): 1}}, InputError, "relation 'a'", "'x'"),
        *(
            (
                {"u": rows},
                ValueOutOfRangeError,
                "relation 'u'",
                f"expected an unsigned number (0 to 2^63-1), got {value}",
            )
            for value in (-1, 2**63)
            for rows in ({(value,): 1}, {(1,): 1, (value,): 1})
        ),
        ({"b": {(1,): 1}}, InputError, "", "unknown input 'b'"),
        ({"o": {(1,): 1}}, InputError, "", "'o' is an output, so it cannot be changed directly"),
    ],
)
def test_errors_name_the_rule_and_change_nothing(
    changes: dict[str, dict[tuple[object, ...], int]], error: type[Exception], where: str, message: str
) -> None:
    run = dbsp.compile(ARITHMETIC).start(initial={"a": [(6, 3)], "u": [(5,)]})
    before = {name: run.view(name).to_dict() for name in run.outputs}
    tick = run.tick
    with pytest.raises(error) as raised:
        run.step(changes)
    assert where in str(raised.value)
    assert message in str(raised.value)
    assert {name: run.view(name).to_dict() for name in run.outputs} == before
    assert run.tick == tick
    run.step({"a": {(9, 3): 1}})
    assert set(run.view("o")) >= {((3,), 1), ((10,), 1), ((15,), 1)}


def test_an_overflowing_sum_is_an_error_and_changes_nothing() -> None:
    text = ".decl a(x: number)\n.decl o(x: number)\n.output o\no(n) :- n = sum x : { a(x) }.\n"
    run = dbsp.compile(text).start(initial={"a": [(2**63 - 1,)]})
    with pytest.raises(ValueOutOfRangeError):
        run.step({"a": {(1,): 1}})
    assert run.view("o").rows() == [(2**63 - 1,)]


def test_recursion_without_bound_reaches_the_limit() -> None:
    text = ".decl n(x: number)\n.output n\nn(0).\nn(x + 1) :- n(x).\n"
    program = dbsp.compile(text)
    with pytest.raises(IterationLimitError) as raised:
        program.start(max_iterations=50)
    assert "'n'" in str(raised.value)
    assert "<program>:1" in str(raised.value)


def test_the_iteration_limit_belongs_to_the_run() -> None:
    program = dbsp.compile(CLOSURE)
    chain = [(i, i + 1) for i in range(30)]
    with pytest.raises(IterationLimitError):
        program.start(initial={"edge": chain}, max_iterations=10)
    assert len(program.start(initial={"edge": chain}).view("path")) == 465


# --- common mistakes ----------------------------------------------------------------------


def test_existence_does_not_multiply_weights() -> None:
    """Every atom matches many rows, but the result has weight 1 and no weight overflows."""
    text = """.decl a(x: number, y: number) .decl o(x: number) .output o
    o(x) :- a(x, 0), a(_, _), a(_, _), a(_, _), a(_, _), a(_, _), a(_, _), a(_, _).
    """
    rows = [(x, y) for x in range(40) for y in range(40)]
    run = dbsp.compile(text).start(initial={"a": rows})
    assert len(run.view("o")) == 40


def test_columns_and_variables_with_awkward_names() -> None:
    text = """.decl r(self: number, schema: number, function: symbol) .decl o(self: number, name: symbol)
    .output o
    o(self, function) :- r(self, schema, function), schema > 1, name = self, name < 9.
    """
    run = dbsp.compile(text).start(initial={"r": [(1, 2, "a"), (3, 1, "b")]})
    assert run.view("o").rows() == [(1, "a")]


def test_aggregates_count_equal_values_of_different_rows() -> None:
    text = """.decl r(x: number, y: number) .decl o(n: number, s: number) .output o
    o(n, s) :- n = count : { r(x, _), r(x, _) }, s = sum x : { r(x, _) }.
    """
    run = dbsp.compile(text).start(initial={"r": [(1, 1), (1, 2), (5, 5)]})
    assert run.view("o").rows() == [(5, 7)]


def test_division_is_not_evaluated_on_rows_that_another_literal_rejects() -> None:
    text = """.decl r(x: number, y: number) .decl ok(y: number) .decl o(z: number) .output o
    o(z) :- z = x / y, r(x, y), ok(y).
    o(z) :- ok(y), z = sum 100 / x : { r(x, y), x != 0 }.
    """
    run = dbsp.compile(text).start(initial={"r": [(4, 2), (0, 7), (5, 0)], "ok": [(2,)]})
    assert run.view("o").rows() == [(2,), (25,)]


def test_deleting_from_a_dense_component_and_zombies() -> None:
    program = dbsp.compile(
        """.decl base(x: number) .decl edge(x: number, y: number) .decl reach(x: number) .output reach
        reach(x) :- base(x).
        reach(y) :- reach(x), edge(x, y).
        """
    )
    run = program.start(initial={"base": [(0,)], "edge": [(0, 1), (1, 2), (2, 1)]})
    assert run.view("reach").rows() == [(0,), (1,), (2,)]
    assert run.step({"edge": {(0, 1): -1}})["reach"].to_dict() == {(1,): -1, (2,): -1}


def test_non_linear_closure_over_several_ticks() -> None:
    text = CLOSURE.replace("path(x, y), edge(y, z)", "path(x, y), path(y, z)")
    run = dbsp.compile(text, rewrites=AS_WRITTEN).start(initial={"edge": [(0, 3), (2, 0), (4, 2)]})
    run.step({"edge": {(0, 4): 1}})
    assert (2, 2) in run.view("path")


def test_arguments_of_other_types_are_refused() -> None:
    with pytest.raises(dbsp.ArgumentError, match="the text of a program or the path of a file, got 3 of"):
        dbsp.compile(3)  # type: ignore[arg-type]
    program = dbsp.compile(".decl a(x: number) .output a a(1).")
    with pytest.raises(dbsp.ArgumentError, match="run: expected a run of this program, or after= with"):
        program.explain("plans")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"functors": 5},
            "functors: expected a mapping from the names of functors to Python functions, got 5",
        ),
        ({"functors": ["f"]}, r"functors: expected a mapping .*, got \['f'\] of type list"),
        ({"functors": {5: len}}, "functors: expected a mapping .*, got 5 of type int"),
        ({"functors": {"f": 5}}, r"functors\['f'\]: expected a Python function, got 5 of type int"),
        ({"macros": 5}, "macros: expected a mapping from the names of macros to texts or numbers, got 5"),
        ({"macros": {5: 5}}, "macros: expected a mapping .*, got 5 of type int"),
        ({"macros": {"A": None}}, r"macros\['A'\]: expected a number of 64 bits or a text, got None"),
        ({"include": 5}, "include: expected a list of folders, got 5 of type int"),
        ({"include": "lib"}, "include: expected a list of folders, got 'lib' of type str"),
        ({"folders": [5]}, "folders: expected a list of folders, got 5 of type int"),
        ({"rewrites": None}, "rewrites: expected True, False or a list of rewritings, got None"),
        (
            {"rewrites": "drop_dead"},
            "rewrites: expected True, False or a list .*, got 'drop_dead' of type str",
        ),
        ({"rewrites": [5]}, "rewrites: expected a list of rewritings, got 5 of type int"),
        ({"magic": 5}, "magic: expected True, False or a list of relations, got 5 of type int"),
        ({"magic": "edge"}, "magic: expected True, False or a list of relations, got 'edge' of type str"),
        ({"magic": [[]]}, r"magic: expected a list of relations, got \[\] of type list"),
    ],
)
def test_options_of_other_types_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dbsp.ArgumentError, match=message):
        dbsp.compile(CLOSURE, **options)


def test_a_path_with_a_nul_character_cannot_be_read() -> None:
    with pytest.raises(CompileError, match=r"cannot read 'a\\x00.dl': embedded null"):
        dbsp.compile(Path("a\0.dl"))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda p, r: p.columns(5), InputError, "unknown relation 5 .the relations are edge, path"),
        (lambda p, r: p.columns([]), InputError, r"unknown relation \[\] .the relations are"),
        (lambda p, r: p.why(r, 5, (1, 2)), InputError, "unknown relation 5 .the relations are"),
        (lambda p, r: p.why_not(r, ["edge"], (1, 2)), InputError, r"unknown relation \['edge'\] "),
        (lambda p, r: p.why_changed(r, None, (1, 2)), InputError, "unknown relation None .the relations"),
        (lambda p, r: p.why_changed(r, [], (1, 2)), InputError, r"unknown relation \[\] .the relations are"),
        (
            lambda p, r: p.why(r, "edge", (1, 2), depth="2"),
            ArgumentError,
            "depth: expected a number of rules, got",
        ),
        (
            lambda p, r: p.why_not(r, "edge", (7, 7), depth=None),
            ArgumentError,
            "depth: expected a number of rules",
        ),
        (lambda p, r: p.why(5, "edge", (1, 2)), ArgumentError, "run: expected a run of this program, got 5"),
        (lambda p, r: p.query("edge(x, y)", r), ArgumentError, "run: expected a run of this program, got"),
        (lambda p, r: p.query(r, 5), ArgumentError, "body: expected the body of a rule as a text, got 5 of"),
        (lambda p, r: p.explain(after=5), ArgumentError, "unknown pass 5; the passes are preprocess"),
        (
            lambda p, r: p.explain(plans={}),
            ArgumentError,
            "plans: expected the plans of this program, as plans",
        ),
        (lambda p, r: p.start(plans=5), ArgumentError, "plans: expected the plans of this program, as plans"),
        (lambda p, r: p.plans_for(5), ArgumentError, "statistics: expected counts, as counted.. returns"),
        (
            lambda p, r: p.start(circuit=5),
            ArgumentError,
            "circuit: expected a query circuit of this program, got",
        ),
        (
            lambda p, r: p.start(max_iterations="9"),
            ArgumentError,
            "max_iterations: expected a number of 1 or more",
        ),
        (
            lambda p, r: p.stored_in(5),
            ArgumentError,
            "checkpoint: expected an open checkpoint, such as Store",
        ),
        (
            lambda p, r: p.open(5),
            ArgumentError,
            "folder: expected the folder of a checkpoint, got 5 of type int",
        ),
    ],
)
def test_questions_of_other_types_are_refused(
    ask: Callable[[Any, Any], object], error: type[dbsp.DbspError], message: str
) -> None:
    program = dbsp.compile(CLOSURE)
    with pytest.raises(error, match=message):
        ask(program, program.start({"edge": [(1, 2)]}))
