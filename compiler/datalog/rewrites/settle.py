"""Functions that all rewritings of rules share: rules that must not change, and new strata."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations
from dbsp.compiler.datalog.meaning.stratify import stratify
from dbsp.compiler.datalog.rewrites.plain import by_iterations
from dbsp.compiler.datalog.text.report import Report

Rewriting: TypeAlias = Callable[[checked.CheckedProgram, list[str]], checked.CheckedProgram]


def apply(
    rewriting: Rewriting, program: checked.CheckedProgram, changes: list[str]
) -> checked.CheckedProgram:
    """Rewrite a program, except for relations whose rows depend on the iteration.

    Return the program itself, and describe no change, if no rule has changed.
    """
    noted: list[str] = []
    rewritten = _with_rules_of(by_iterations(program), program, rewriting(program, noted))
    if rewritten.rules == program.rules:
        return program
    changes += noted
    return rewritten


def _with_rules_of(
    relations: Collection[str], program: checked.CheckedProgram, rewritten: checked.CheckedProgram
) -> checked.CheckedProgram:
    """Return the rewritten program with the former rules of these relations."""
    if not relations:
        return rewritten
    rules = [rule for rule in rewritten.rules if rule.head.relation not in relations]
    rules += [rule for rule in program.rules if rule.head.relation in relations]
    return replace(rewritten, rules=tuple(sorted(rules, key=lambda rule: rule.number)))


def restratified(program: checked.CheckedProgram) -> checked.CheckedProgram:
    """Stratify the rules again. Raises CompileError if there is no stratification.

    Relations that have lost all rules but are still used come first: they are empty.
    """
    known = sorted(
        (rule for stratum in program.strata for rule in stratum.rules), key=lambda rule: rule.number
    )
    if known == list(program.rules):
        return program
    report = Report("", "")
    strata = stratify(program.relations, program.rules, program.subsumptions, report)
    report.raise_errors()
    present = {*program.inputs, *(name for stratum in strata for name in stratum.relations)}
    missing = needed_relations(program) - present
    empty = tuple(checked.Stratum((name,), (), False) for name in program.relations if name in missing)
    return replace(program, strata=(*empty, *strata))
