"""Multi-way joins that variables divide: some atoms by their columns, the others on every shard.

    path(x, y), edge(y, z), edge(z, w)      by x: path is placed by x, and every shard has the edges

A result row has one value of each variable, so it is on one shard: that of the rows which match in
the atoms that are divided. At least one atom has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin, MultiwayJoin

Columns = tuple[int, ...]


def free_variables(join: MultiwayJoin) -> list[str]:
    """Return the variables that are read from atoms, not computed."""
    computed = {name for name, _ in join.extensions}
    return [name for name in join.variables if name not in computed]


def divided_columns(operator: DeltaMultiwayJoin, names: Sequence[str]) -> list[Columns | None] | None:
    """Return by input the columns that place its rows, None if every shard has them.

    Return None if the join cannot be divided by these variables: no atom has all of them, or each
    that has them is read from the same input as an atom that has not.
    """
    divided = {atom for atom, terms in enumerate(operator.join.atoms) if set(names) <= _variables(terms)}
    while divided:
        wanted: list[set[Columns | None]] = [set() for _ in operator.arranged]
        for row in operator.places:
            for atom, place in enumerate(row):
                wanted[place].add(_columns(operator, atom, place, names) if atom in divided else None)
        mixed = {place for place, found in enumerate(wanted) if len(found) > 1}
        if not mixed:
            return [next(iter(found), None) for found in wanted]
        divided -= {atom for row in operator.places for atom, place in enumerate(row) if place in mixed}
    return None


def most_shared(join: MultiwayJoin) -> str | None:
    """Return the variable that most atoms have; None if no atom has one."""
    atoms = [_variables(terms) for terms in join.atoms]
    return max(free_variables(join), key=lambda name: sum(name in names for names in atoms), default=None)


def divided_by(
    operator: DeltaMultiwayJoin, name: str
) -> tuple[DeltaMultiwayJoin, list[tuple[int, Columns | None]]]:
    """Return the join with an input of its own for each placement of an input, and the placements.

    The atoms with the variable are placed by it, and every shard has the others. The placements are
    the numbers of the inputs before, each with the columns that place its rows.
    """
    found: dict[tuple[int, Columns | None], int] = {}
    places = []
    for row in operator.places:
        moved = []
        for atom, place in enumerate(row):
            divided = name in _variables(operator.join.atoms[atom])
            columns = _columns(operator, atom, place, (name,)) if divided else None
            moved.append(found.setdefault((place, columns), len(found)))
        places.append(tuple(moved))
    arranged = tuple(operator.arranged[place] for place, _ in found)
    return replace(operator, places=tuple(places), arranged=arranged), list(found)


def _variables(terms: Sequence[object]) -> set[object]:
    return {term for term in terms if isinstance(term, str)}


def _columns(operator: DeltaMultiwayJoin, atom: int, place: int, names: Sequence[str]) -> Columns:
    """Return the columns of an input with the values of variables in an atom."""
    terms = operator.join.atoms[atom]
    columns = {term: column for column, term in reversed(list(enumerate(terms))) if isinstance(term, str)}
    return tuple(operator.arranged[place].index(columns[name]) for name in names)
