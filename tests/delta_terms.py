"""The delta of a multi-way join as an ordinary circuit: one join per atom and change, added up.

    D(Q)  =  sum over i of  R1 x ... x R(i-1)  x  D(Ri)  x  z^-1(R(i+1)) x ... x z^-1(Rn)

Everything that is not a join commutes with the sum, since it is linear: what extensions compute,
conditions, the projection. `MultiwayJoin` is this circuit fused into one operator, which keeps no wedge
of a triangle; here every join is one of the catalogue and keeps its inputs.
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
from dbsp.operators.streams.builder import Stream
from dbsp.operators.streams.multiway_atoms import Atom, joining


def delta_terms(
    atoms: Sequence[Atom[Stream]],
    select: Sequence[str] | None = None,
    *,
    where: Expression | Sequence[Expression] = (),
    let: Mapping[str, Any] | None = None,
) -> Stream:
    """D(Q) of the query Q that `multiway_join` with these arguments is, of elementary operators.

    The stream of the changes of Q: its value in a tick is what Q gains and loses in that tick. For circuits
    outside of fixpoints, where a change is one from a tick to the next. Raises SchemaError as
    `multiway_join` does, and CircuitError for atoms within a scope.

    A tick costs what the joins of each term make, two by two: more than by `multiway_join` wherever rows of
    some atoms have no match in the others.
    """
    join = joining(atoms, select, where, let or {})
    streams = [one.stream for one in atoms]
    parts = [_read(one, one.stream.delay()) for one in atoms]
    names = tuple(dict.fromkeys(name for one in atoms for name in variables_of(one.terms)))
    terms = []
    for i, one in enumerate(atoms):
        parts[i] = _read(one, streams[i].differentiate())
        terms.append(_product(parts).project(*names))
        parts[i] = _read(one, streams[i])
    return _finished(terms[0].union(*terms[1:]), join)


def _read(one: Atom[Stream], stream: Stream) -> Stream:
    """The rows that fit the atom, as values of its variables."""
    names = stream.schema.names
    first: dict[str, int] = {}
    for column, term in enumerate(one.terms):
        if isinstance(term, Expression):
            stream = stream.filter(col(names[column]) == term)
        elif term is not None and first.setdefault(term, column) != column:
            stream = SameValue(first[term], column)(stream)
    kept = [*first.values()]
    # The type of a variable is optional only where all of its columns are.
    for place, (name, column) in enumerate(first.items()):
        same = [c for c, term in enumerate(one.terms) if isinstance(term, str) and term == name]
        kept[place] = next((c for c in same if not stream.schema.types[c].nullable), column)
    return Project(tuple(kept), tuple(first))(stream)


def _product(parts: Sequence[Stream]) -> Stream:
    """The natural join of all, always with one that shares a variable if there is any."""
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
    """What extensions and conditions leave of the products, with the columns of the result."""
    conditions = dict(enumerate(join.conditions))
    waiting = dict(enumerate(join.extensions))
    while True:
        for number, condition in list(conditions.items()):
            if set(condition.columns) <= set(rows.schema.names):
                rows = rows.filter(conditions.pop(number))
        if not waiting:
            return rows.project(*join.columns)
        known = set(rows.schema.names)
        number = next(n for n, (_, value) in waiting.items() if set(value.columns) <= known)
        rows = _extended(rows, *waiting.pop(number))


def _extended(rows: Stream, name: str, value: Expression) -> Stream:
    """The rows with a variable more; where it is there already, those in which it has this value."""
    names = rows.schema.names
    columns = {column: col(column) for column in names}
    if name not in columns:
        return rows.map(**columns, **{name: value})
    again = f"{name} again"
    rows = SameValue(names.index(name), len(names))(rows.map(**columns, **{again: value}))
    types = rows.schema.types
    if types[names.index(name)].nullable and not types[-1].nullable:
        rows = rows.project(*(again if column == name else column for column in names))
        return rows.rename(**{name: again})
    return rows.project(*names)
