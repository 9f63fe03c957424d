"""Rewritings of a checked program to one that derives the same outputs and costs a live circuit less.

Each pass is a function from a program to a program; it notes what it changed, for `explain`. What inputs
hold and what the outputs are is the same after it, at every tick and under deletions; relations in between
may be gone or hold fewer rows. The strata are made anew at the end.

    propagate_constants   x = 5, r(x, y)  is  r(5, y); functions of constants computed
    drop_dead             rules that never hold, and what no output depends on
    specialise            a constant that all uses of a relation have is put into its rules
    inline_once           a relation that is used once is put into the rule that uses it
    share                 rules that join the same atoms are written alike

    demand                if asked for: rows are derived only if something uses them (magic sets)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations
from dbsp.compiler.datalog.meaning.stratify import stratify
from dbsp.compiler.datalog.rewrites.constants import propagate_constants
from dbsp.compiler.datalog.rewrites.dead import drop_dead
from dbsp.compiler.datalog.rewrites.demand import demand
from dbsp.compiler.datalog.rewrites.inline_rules import inline_once
from dbsp.compiler.datalog.rewrites.plain import by_iterations
from dbsp.compiler.datalog.rewrites.share import share
from dbsp.compiler.datalog.rewrites.specialise import specialise
from dbsp.compiler.datalog.text.report import Report

Pass = Callable[[checked.CheckedProgram, list[str]], checked.CheckedProgram]

PASSES: tuple[Pass, ...] = (propagate_constants, drop_dead, specialise, inline_once)
"""Applied in turn until none finds anything to do."""

LAST: tuple[Pass, ...] = (share,)
"""Applied once, to what is left."""

NAMES = tuple(one.__name__ for one in (*PASSES, *LAST))


@dataclass(frozen=True, slots=True)
class AppliedRewrite:
    """What one pass did to a program."""

    name: str
    changes: tuple[str, ...]


def chosen_passes(rewrites: bool | Iterable[str]) -> tuple[str, ...]:
    """The names of all passes, of none, or those given; ValueError for one that does not exist."""
    if isinstance(rewrites, bool):
        return NAMES if rewrites else ()
    names = tuple(rewrites)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"{name!r} is no rewriting; there are {', '.join(NAMES)}")
    return names


def rewrite(
    program: checked.CheckedProgram, names: Collection[str] = NAMES, magic: Collection[str] = ()
) -> tuple[checked.CheckedProgram, tuple[AppliedRewrite, ...]]:
    """The program after the passes of these names, and what each of them did.

    They are applied in turn until none finds anything to do; then the relations in `magic` are put on demand,
    and once more. Each application of one takes time linear in the size of the rules; every further turn
    comes of a rule, a relation or a variable that is gone.
    """
    changes: dict[str, list[str]] = {one.__name__: [] for one in (*PASSES, *LAST) if one.__name__ in names}
    program = _settled(program, changes)
    if magic:
        asked: list[str] = []
        program = _settled(demand(program, magic, asked), changes)
        changes[demand.__name__] = asked
    for one in LAST:
        if one.__name__ in changes:
            program = one(program, changes[one.__name__])
    applied = tuple(AppliedRewrite(name, tuple(noted)) for name, noted in changes.items() if noted)
    return restratified(program) if applied else program, applied


def _settled(program: checked.CheckedProgram, changes: dict[str, list[str]]) -> checked.CheckedProgram:
    before = None
    while before is not program:
        before = program
        for one in PASSES:
            if one.__name__ in changes:
                noted: list[str] = []
                rewritten = _with_rules_of(by_iterations(program), program, one(program, noted))
                if rewritten.rules != program.rules:
                    changes[one.__name__] += noted
                    program = rewritten
    return program


def _with_rules_of(
    relations: Collection[str], program: checked.CheckedProgram, rewritten: checked.CheckedProgram
) -> checked.CheckedProgram:
    """The rewritten program with the rules that these relations had before."""
    if not relations:
        return rewritten
    rules = [rule for rule in rewritten.rules if rule.head.relation not in relations]
    rules += [rule for rule in program.rules if rule.head.relation in relations]
    return replace(rewritten, rules=tuple(sorted(rules, key=lambda rule: rule.number)))


def restratified(program: checked.CheckedProgram) -> checked.CheckedProgram:
    """The program with the strata of its rules; raises CompileError if there are none.

    Relations that have lost all rules but are still looked at come first: they are empty.
    """
    report = Report("", "")
    strata = stratify(program.relations, program.rules, program.subsumptions, report)
    report.raise_errors()
    there = {*program.inputs, *(name for stratum in strata for name in stratum.relations)}
    asked = needed_relations(program) - there
    empty = tuple(checked.Stratum((name,), (), False) for name in program.relations if name in asked)
    return replace(program, strata=(*empty, *strata))
