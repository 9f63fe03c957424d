"""Every pass of the compiler on small programs: compare the text after the pass with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import dbsp
from dbsp.circuit.pass_manager import Pass, PassManager, Repeat, Representation
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import COMPILER, REWRITES, CompileContext, SourceText
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.operators.stages.circuit_passes import CIRCUIT, CIRCUIT_PASSES
from tests.pass_fixtures import PassCase, pass_cases

FOLDER = Path(__file__).parent / "passes"
CASES = list(pass_cases(FOLDER))


def text_after(name: str, text: str) -> str:
    """Return the text after a pass, with the errors found so far. Other rewritings are disabled."""
    others = set(REWRITES) - {name} if name in (*REWRITES, "demand") else set()
    source = SourceText(text, "t.dl", Sources())
    context = CompileContext.of(source, CompileOptions(disabled=frozenset(others)))
    shown = COMPILER.text_after(name, source, context)
    errors = (f"! {one.span}: {one.message}" for one in context.report.diagnostics if one.severity == "error")
    return "\n".join((shown, *errors))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_pass(case: PassCase) -> None:
    assert text_after(case.name, case.given) == case.expected


def test_every_pass_has_a_case() -> None:
    circuit_cases = pass_cases(Path(__file__).parents[2] / "operators" / "stages" / "passes")
    tested = {case.name for case in (*CASES, *circuit_cases)}
    assert tested == {one.name for one in COMPILER}
    assert {one.name for one in CIRCUIT_PASSES} == {one.name for one in CIRCUIT}


# --- the manager ----------------------------------------------------------------------------------

NUMBER = Representation("number", int, str, int)
TEXT = Representation("text", str, str, len)


def test_representations_of_adjacent_passes_must_match() -> None:
    length = Pass("length", TEXT, NUMBER, "count the characters", lambda text, _: len(text))
    double = Pass("double", NUMBER, NUMBER, "multiply by two", lambda number, _: number * 2)
    with pytest.raises(TypeError, match="pass length takes a text, but pass double returns a number"):
        PassManager([double, length])
    with pytest.raises(TypeError, match="two passes have the name double"):
        PassManager([double, Pass("double", NUMBER, NUMBER, "again", lambda number, _: number)])
    with pytest.raises(TypeError, match="pass length is repeated, but takes a text and returns a number"):
        PassManager([Repeat((length,))])
    with pytest.raises(TypeError, match="pass wrong: expected a text as result, got int"):
        PassManager([Pass("wrong", TEXT, TEXT, "", lambda text, _: len(text))]).run(  # type: ignore[arg-type, return-value]
            "text", CompileContext.of(SourceText("", "", Sources()), CompileOptions())
        )


def test_the_sizes_before_and_after_each_pass() -> None:
    digits = Representation("digits", str, str, lambda text: len(text.strip("0")))
    passes = [
        Pass("twice", TEXT, TEXT, "", lambda text, _: text * 2),
        Pass("same", TEXT, TEXT, "", lambda text, _: text),
        Pass("as_digits", TEXT, digits, "", lambda text, _: text),
        Pass("longer", digits, digits, "", lambda text, _: f"{text}5"),
    ]
    context = CompileContext.of(SourceText("", "", Sources()), CompileOptions())
    assert PassManager(passes).run("70", context) == "70705"
    sizes = {name: (applied.before, applied.after) for name, applied in context.applied.items()}
    assert sizes == {"twice": (2, 4), "same": (4, 4), "as_digits": (4, 3), "longer": (3, 5)}


def test_the_text_after_a_pass_is_that_of_the_program() -> None:
    text = ".decl e(x: number) .input e\n.decl o(x: number) .output o\no(x) :- e(x), x = 2.\n"
    program = dbsp.compile(text)
    assert program.explain(after="propagate_constants").endswith("\no(2) :- e(2).")
    without = dbsp.compile(text, rewrites=["drop_dead"])
    assert without.explain(after="propagate_constants").endswith("\no(x) :- e(x), x = 2.")
    for one in COMPILER:
        assert program.explain(after=one.name)
    with pytest.raises(ValueError, match=r"unknown pass 'fuze'; did you mean 'fuse'\? The passes are pre"):
        program.explain(after="fuze")
