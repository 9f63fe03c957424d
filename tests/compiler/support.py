"""Short ways to run the passes on a text."""

from __future__ import annotations

from collections.abc import Collection

from dbsp.circuit.pass_manager import AppliedPass
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import CHECKED, COMPILER, REWRITES, CompileContext, SourceText
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.datalog.text.report import Report

AS_WRITTEN = tuple(name for name in REWRITES if name != "linearise")
"""The rewritings that leave a transitive rule as it is, for tests of non-linear recursion."""


def parsed_items(text: str) -> tuple[parsed.Item, ...]:
    return parse(text, Report("t.dl", text)).items


def checked_program(text: str, file: str = "t.dl", sources: Sources | None = None) -> checked.CheckedProgram:
    source = SourceText(text, file, sources or Sources())
    program: checked.CheckedProgram = COMPILER.run(
        source, CompileContext.of(source, CompileOptions()), until="assemble"
    )
    return program


def rewrite(
    program: checked.CheckedProgram, names: Collection[str] = REWRITES, magic: Collection[str] = ()
) -> tuple[checked.CheckedProgram, tuple[AppliedPass, ...]]:
    """Return the program after the named rewritings, and the rewritings that changed it."""
    options = CompileOptions(disabled=frozenset(REWRITES).difference(names), magic=tuple(magic))
    context = CompileContext.of(SourceText("", "t.dl", Sources()), options)
    rewritten: checked.CheckedProgram = COMPILER.run(program, context, start=CHECKED, until="stratify")
    return rewritten, tuple(one for one in context.applied.values() if one.changes)


def plans(text: str) -> list[RulePlan]:
    return [plan(normalise(rule)) for rule in checked_program(text).rules]
