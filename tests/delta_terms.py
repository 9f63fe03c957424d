"""The delta of a multi-way join as an ordinary circuit: one join per atom and change, summed.

    D(Q)  =  sum over i of  R1 x ... x R(i-1)  x  D(Ri)  x  z^-1(R(i+1)) x ... x z^-1(Rn)

The other parts commute with the sum, since they are linear: extensions, conditions, the projection.
`MultiwayJoin` is this circuit fused into one operator, which stores no partial matches, such as
the wedges of a triangle; here every join is an ordinary `Join` and stores its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.expressions import Expression, col
from dbsp.operators.joins.delta_term import variables_of
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.linear.filter import SameValue
from dbsp.operators.linear.project import Project
from dbsp.operators.streams.multiway_atoms import Atom, joining
from dbsp.operators.streams.stream import Stream


def delta_terms(
    atoms: Sequence[Atom[Stream]],
    select: Sequence[str] | None = None,
    *,
    where: Expression | Sequence[Expression] = (),
    let: Mapping[str, Any] | None = None,
) -> Stream:
    """Return D(Q), built of elementary operators, for the query Q of `multiway_join`.

    The arguments are those of `multiway_join`. The stream holds the changes of Q in each tick. It
    is for circuits outside of fixpoints, where changes occur between ticks. Raises SchemaError as
    `multiway_join` does, and CircuitError for atoms within a scope.

    The cost of a tick is the size of the binary joins of each term: more than with `multiway_join`
    if rows of some atoms have no match in the others.
    """
    join = joining(atoms, select, where, let or {})
    streams = [atom.stream for atom in atoms]
    parts = [_read(atom, atom.stream.delay()) for atom in atoms]
    names = tuple(dict.fromkeys(name for atom in atoms for name in variables_of(atom.terms)))
    terms = []
    for i, atom in enumerate(atoms):
        parts[i] = _read(atom, streams[i].differentiate())
        terms.append(_product(parts).select(*names))
        parts[i] = _read(atom, streams[i])
    return _finished(terms[0].union(*terms[1:]), join)


def _read(atom: Atom[Stream], stream: Stream) -> Stream:
    """Return the rows that match the atom, as values of its variables."""
    names = stream.schema.names
    first: dict[str, int] = {}
    for column, term in enumerate(atom.terms):
        if isinstance(term, Expression):
            stream = stream.filter(col(names[column]) == term)
        elif term is not None and first.setdefault(term, column) != column:
            stream = SameValue(first[term], column)(stream)
    kept = [*first.values()]
    # The type of a variable is optional only if all of its columns are optional.
    for place, (name, column) in enumerate(first.items()):
        same = [c for c, term in enumerate(atom.terms) if isinstance(term, str) and term == name]
        kept[place] = next((c for c in same if not stream.schema.types[c].nullable), column)
    return Project(tuple(kept), tuple(first))(stream)


def _product(parts: Sequence[Stream]) -> Stream:
    """Return the natural join of all parts; a part that shares a variable is joined first."""
    waiting = list(parts)
    joined = waiting.pop(0)
    while waiting:
        names = set(joined.schema.names)
        shares = [not names.isdisjoint(part.schema.names) for part in waiting]
        joined = _natural(joined, waiting.pop(shares.index(True) if True in shares else 0))
    return joined


def _natural(left: Stream, right: Stream) -> Stream:
    of_left = dict(zip(left.schema.names, left.schema.types, strict=True))
    of_right = dict(zip(right.schema.names, right.schema.types, strict=True))
    shared = [name for name in of_left if name in of_right]
    stricter = [name for name in shared if of_left[name].nullable and not of_right[name].nullable]
    names = tuple(dict.fromkeys([*of_left, *of_right]))
    return Join(
        tuple(map(left.schema.names.index, shared)),
        tuple(map(right.schema.names.index, shared)),
        tuple(
            -right.schema.names.index(n) - 1
            if n in stricter or n not in of_left
            else left.schema.names.index(n)
            for n in names
        ),
        names,
    )(left, right)


def _finished(rows: Stream, join: MultiwayJoin) -> Stream:
    """Apply extensions and conditions to the products, and select the columns of the result."""
    conditions = dict(enumerate(join.conditions))
    waiting = dict(enumerate(join.extensions))
    while True:
        for number, condition in list(conditions.items()):
            if set(condition.columns) <= set(rows.schema.names):
                rows = rows.filter(conditions.pop(number))
        if not waiting:
            return rows.select(*join.columns)
        known = set(rows.schema.names)
        number = next(n for n, (_, value) in waiting.items() if set(value.columns) <= known)
        rows = _extended(rows, *waiting.pop(number))


def _extended(rows: Stream, name: str, value: Expression) -> Stream:
    """Add a variable to the rows; if it is bound already, keep the rows with this value."""
    names = rows.schema.names
    columns = {column: col(column) for column in names}
    if name not in columns:
        return rows.map(**columns, **{name: value})
    again = f"{name} again"
    rows = SameValue(names.index(name), len(names))(rows.map(**columns, **{again: value}))
    types = rows.schema.types
    if types[names.index(name)].nullable and not types[-1].nullable:
        rows = rows.select(*(again if column == name else column for column in names))
        return rows.rename(**{name: again})
    return rows.select(*names)
