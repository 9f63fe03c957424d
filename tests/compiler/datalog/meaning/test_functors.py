"""User-defined functors: Python functions that rules call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.cli import main
from tests.durable.test_store import ended
from tests.live_program import Subject
from tests.profiles import examples
from tests.test_programs import VALUES, program_changes

TEXT = """
.type Id <: number
.functor join(a: symbol, symbol, n: number): symbol
.functor half(x: number): Id
.functor ratio(float, unsigned): float stateful
.functor small(n: number): unsigned
.functor answer(): number

.decl word(s: symbol, n: number)
.decl measure(f: float, u: unsigned)
.decl id(n: Id)
.input word, measure
.decl joined(s: symbol)
.decl ratios(f: float, s: symbol)
.decl reached(n: number)
.decl counted(s: symbol, n: number)
.output joined, id, ratios, reached, counted

joined(@join(s, t, n - m)) :- word(s, n), word(t, m), n > m, s != @join("a", "b", 1).
id(x) :- word(_, n), x = @half(@half(n) * @answer()).
ratios(@ratio(f + 1.0, u), to_string(@ratio(f, 2u))) :- measure(f, u), @ratio(f, u) < 3.0.
reached(n) :- word(_, n).
reached(m) :- reached(n), m = @half(n) + 1, n < 10.
counted(s, c) :- word(s, _), c = sum @half(n) : { word(s, n), @small(n) < 4u }.
"""

FUNCTORS = {
    "join": lambda a, b, n: f"{a}{b}" * n,
    "half": lambda x: x // 2,
    "ratio": lambda f, u: f / u,  # has no value for 0
    "small": lambda n: n - 1,  # out of range for 0
    "answer": lambda: 42,
}


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_tick_equals_recomputation(data: st.DataObject) -> None:
    subject = Subject(TEXT, functors=FUNCTORS)
    live = subject.start()
    for tick in data.draw(program_changes(subject, VALUES)):
        live.tick(tick)


ONE = """
.functor f(n: number, s: symbol): {result}
.decl r(n: number, s: symbol)
.decl out(x: {result})
.input r
.output out
out(@f(n, s)) :- r(n, s).
"""


def compiled(function: Any, result: str = "number") -> dbsp.Program:
    return dbsp.compile(ONE.format(result=result), functors={"f": function, "another": print})


def test_a_functor_is_called_once_for_the_same_arguments() -> None:
    calls: Counter[tuple[int, str]] = Counter()

    def f(n: int, s: str) -> int:
        calls[n, s] += 1
        return n

    run = compiled(f).start({"r": [(n % 50, "a" * (n % 2)) for n in range(1_000)]})
    run.step({"r": {(3, "a"): -1, (5, "a"): 1}})
    assert set(calls.values()) == {1}


FAILING = {
    "raised ZeroDivisionError: division by zero": lambda n, s: n / 0,
    "returned 'a' of type str, expected int": lambda n, s: s,
    "returned None of type NoneType, expected int": lambda n, s: None,
    "returned True of type bool, expected int": lambda n, s: True,
    "9223372036854775808": lambda n, s: 2**63,
}


@pytest.mark.parametrize(("why", "function"), FAILING.items())
def test_an_error_names_the_rule_the_functor_and_its_arguments(why: str, function: Any) -> None:
    run = compiled(lambda n, s: function(n, s) if s == "a" else n).start({"r": [(1, "b")]})
    with pytest.raises(dbsp.DbspError) as raised:
        run.step({"r": {(7, "a"): 1, (8, "b"): 1}})
    assert "<program>:7:5" in str(raised.value)
    assert why in str(raised.value)
    assert "n = 7" in str(raised.value)
    assert run.view("out").rows() == [(1,)]
    assert run.step({"r": {(8, "b"): 1}})["out"].to_dict() == {(8,): 1}


def test_an_error_of_a_functor_with_three_arguments() -> None:
    program = dbsp.compile(
        """
        .functor f(n: number, s: symbol, m: number): number
        .decl r(s: symbol)
        .input r
        .decl out(n: number)
        .output out
        out(@f(1, s, 3)) :- r(s).
        """,
        functors={"f": lambda n, s, m: int(s)},
    )
    with pytest.raises(dbsp.DbspError) as raised:
        program.start({"r": [("a",)]})
    assert str(raised.value).startswith(
        "<program>:7:13: error: functor '@f' raised ValueError: invalid literal for int() with base 10: 'a': "
        '@f(1, s, 3) with s = "a" [user-function]\n'
    )


def test_results_are_checked() -> None:
    run = compiled(lambda n, s: n - 2, "unsigned").start({"r": [(2, "")]})
    with pytest.raises(dbsp.DbspError, match=r"expected an unsigned number .*, got -1"):
        run.step({"r": {(1, ""): 1}})
    assert compiled(lambda n, s: n, "float").start({"r": [(2, "")]}).view("out").rows() == [(2.0,)]
    assert compiled(lambda n, s: s * n, "symbol").start({"r": [(2, "é")]}).view("out").rows() == [("éé",)]


def test_a_program_with_functors_can_be_durable_and_written(tmp_path: Path) -> None:
    program = compiled(lambda n, s: n + len(s))
    run = program.start({"r": [(1, "a")]}, checkpoint=tmp_path / "state")
    ended(run)
    again = program.start(checkpoint=tmp_path / "state")
    assert again.view("out").rows() == [(2,)]
    again.step({"r": {(2, "b"): 1}})
    assert again.view("out").rows() == [(2,), (3,)]
    ended(again)
    text = program.circuit().to_json()
    with pytest.raises(dbsp.CircuitError, match=r"calls the functor 'f'.*from_json\(text, functors="):
        dbsp.from_json(text)
    circuit = dbsp.from_json(text, {"f": lambda n, s: n})
    assert circuit.to_json() == text


def test_functors_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.dl").write_text(ONE.format(result="symbol"))
    (tmp_path / "r.facts").write_text("2\tab\n")
    (tmp_path / "mine.py").write_text("def f(n, s):\n    return s * n\n")
    (tmp_path / "broken.py").write_text("def f(n, s)\n")
    program, mine = str(tmp_path / "p.dl"), str(tmp_path / "mine.py")
    with pytest.raises(SystemExit, match="0"):
        main(["run", program, "-F", str(tmp_path), "-D", str(tmp_path), "--functors", mine])
    assert (tmp_path / "out.csv").read_text() == "abab\n"
    with pytest.raises(SystemExit, match="0"):
        main(["check", program, "--functors", mine])
    for wrong, why in (("broken.py", "SyntaxError"), ("none.py", "FileNotFoundError")):
        with pytest.raises(SystemExit, match="1"):
            main(["check", program, "--functors", str(tmp_path / wrong)])
        assert f"cannot load functors from {tmp_path / wrong}: {why}" in capsys.readouterr().err.replace(
            "\n", " "
        )


RECORDS = """
.type List = [head: number, rest: List]
.type Shape = Circle { r: number } | Empty {}
.functor rest(l: List): List
.functor shape(l: List, n: number): Shape
.decl list(l: List)
.input list
.decl tail(l: List)
tail(l) :- list(l).
tail(@rest(l)) :- tail(l), l != nil.
.decl empty(n: number)
empty(n) :- n = count : { tail(nil) }.
.decl shapes(s: Shape)
shapes(@shape(l, 7)) :- list(l).
.decl nested(s: Shape)
nested(@shape(@rest(@rest(l)), 7)) :- list(l), l != nil.
.output tail, empty, shapes, nested
"""


def test_records_and_branches() -> None:
    functions = {
        "rest": lambda pair: pair[1],
        "shape": lambda pair, n: dbsp.Branch("Empty") if pair is None else dbsp.Branch("Circle", pair[0] * n),
    }
    run = dbsp.compile(RECORDS, functors=functions).start({"list": [((1, (2, None)),), (None,)]})
    assert set(run.view("tail").rows()) == {((1, (2, None)),), ((2, None),), (None,)}
    assert run.view("empty").rows() == [(1,)]
    assert set(run.view("shapes").rows()) == {(dbsp.Branch("Circle", 7),), (dbsp.Branch("Empty"),)}
    assert run.view("nested").rows() == [(dbsp.Branch("Empty"),)]
    delta = run.step({"list": {(None,): -1}})
    assert delta["shapes"].to_dict() == {(dbsp.Branch("Empty"),): -1}
    assert not delta["tail"]


def test_a_value_that_is_no_branch_of_the_type_is_refused() -> None:
    functions = {"rest": lambda pair: pair, "shape": lambda pair, n: n}
    run = dbsp.compile(RECORDS, functors=functions).start()
    with pytest.raises(dbsp.EvaluationError, match=r"functor '@shape' returned 7: expected Shape, got 7"):
        run.step({"list": [(None,)]})
    assert run.view("shapes").rows() == []
