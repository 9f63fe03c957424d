"""Opaque relations: relations with rows that no single rule derives.

An equivalence has rows that follow from all its other rows. A choice, a subsumption and a limit
drop rows. The numbers of `autoinc()` depend on the ticks in which the rows were inserted. A proof
ends at the rows of such relations, and at the rows of relations in the same stratum. These rows are
read from the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.numbering import is_number
from dbsp.compiler.datalog.tree.traversal import walk

NUMBERED = "was numbered by autoinc()"


def opaque_relations(program: checked.CheckedProgram) -> Mapping[str, str]:
    """The opaque relations, each with the reason as text that continues "the row ..."."""
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
            yield "was selected by a choice-domain"
        if relation.subsumed:
            yield "is not subsumed by another row"
        if relation.limit is not None:
            yield "was derived before the relation reached its limit"
    if any(is_number(node) for rule in stratum.rules for node in walk(rule)):
        yield NUMBERED


def without_rules(program: checked.CheckedProgram, names: Mapping[str, str]) -> checked.CheckedProgram:
    """The program with the named relations as inputs without rules."""
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
