"""Opaque relations and selected relations: those that the rules alone do not determine.

The numbers of `autoinc()` depend on the ticks in which the rows were inserted. So a relation in a
stratum with such numbers is *opaque*: a proof ends at its rows, which are read from the run.

A choice, a subsumption and a limit remove rows that the rules derive, and a lattice column joins
them. So a relation in a stratum with one of them is *selected*: its rows are read from the run as
well, but each is proved by a rule and other rows that were kept. A row that no rule derives alone
is the least upper bound of several derived rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.numbering import is_number
from dbsp.compiler.datalog.tree.traversal import walk

NUMBERED = "was numbered by autoinc()"


def opaque_relations(program: checked.CheckedProgram) -> Mapping[str, str]:
    """The opaque relations, each with the reason as text that continues "the row ..."."""
    return {name: NUMBERED for stratum in program.strata if _numbers(stratum) for name in stratum.relations}


def _numbers(stratum: checked.Stratum) -> bool:
    return any(is_number(node) for rule in stratum.rules for node in walk(rule))


def selected_relations(program: checked.CheckedProgram) -> frozenset[str]:
    """The selected relations that are not opaque."""
    return frozenset(
        name
        for stratum in program.strata
        if not _numbers(stratum) and any(selects(program.relations[name]) for name in stratum.relations)
        for name in stratum.relations
    )


def selects(relation: checked.Relation) -> bool:
    """Whether the relation lacks derived rows: by a choice, a subsumption, a limit or a lattice."""
    chosen = relation.choices or relation.subsumed or relation.limit is not None
    return bool(chosen or relation.lattice_columns)


def as_plain(relation: checked.Relation) -> checked.Relation:
    """The relation as one that has exactly the inserted and derived rows."""
    attributes = tuple(replace(column, lattice=None) for column in relation.attributes)
    return replace(relation, attributes=attributes, equivalence=False, choices=(), subsumed=False, limit=None)


def without_rules(program: checked.CheckedProgram, names: Iterable[str]) -> checked.CheckedProgram:
    """The program with the named relations, all of some strata, as inputs without rules."""
    names = set(names)
    return replace(
        program,
        relations={
            name: as_plain(relation) if name in names else relation
            for name, relation in program.relations.items()
        },
        rules=tuple(rule for rule in program.rules if rule.head.relation not in names),
        subsumptions=tuple(rule for rule in program.subsumptions if rule.head.relation not in names),
        strata=tuple(stratum for stratum in program.strata if not names & set(stratum.relations)),
        inputs=tuple(
            dict.fromkeys((*program.inputs, *(name for name in program.relations if name in names)))
        ),
    )
