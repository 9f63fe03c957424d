"""Relations whose rows are taken as the run has them, for no rule alone derives them.

An equivalence has rows that follow from all others; a choice, a subsumption and a limit leave rows out; the
numbers of `autoinc()` are those of the ticks in which rows came. A proof ends at rows of such relations, and
at those of relations that are computed together with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.numbering import is_number
from dbsp.compiler.datalog.tree.traversal import walk

NUMBERED = "was numbered"


def wholes(program: checked.CheckedProgram) -> Mapping[str, str]:
    """The relations that are taken as a whole, and what makes them so."""
    found: dict[str, str] = {}
    for stratum in program.strata:
        reasons = list(_reasons(program, stratum))
        if reasons:
            found.update(dict.fromkeys(stratum.relations, reasons[0]))
    return found


def _reasons(program: checked.CheckedProgram, stratum: checked.Stratum) -> Iterator[str]:
    for name in stratum.relations:
        relation = program.relations[name]
        if relation.equivalence:
            yield "follows from an equivalence"
        if relation.choices:
            yield "was chosen"
        if relation.subsumed:
            yield "is left by subsumption"
        if relation.limit is not None:
            yield "came before the limit of the relation"
    if any(is_number(node) for rule in stratum.rules for node in walk(rule)):
        yield NUMBERED


def without_rules(program: checked.CheckedProgram, names: Mapping[str, str]) -> checked.CheckedProgram:
    """The program with some relations as inputs that have no rules."""
    rules = tuple(rule for rule in program.rules if rule.head.relation not in names)
    relations = {
        name: replace(relation, equivalence=False, choices=(), subsumed=False, limit=None)
        if name in names
        else relation
        for name, relation in program.relations.items()
    }
    return replace(
        program,
        relations=relations,
        rules=rules,
        subsumptions=(),
        strata=tuple(stratum for stratum in program.strata if not names.keys() & set(stratum.relations)),
        inputs=tuple(dict.fromkeys((*program.inputs, *names))),
    )
