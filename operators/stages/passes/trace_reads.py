"""Which rows of its input traces a node reads: those that fit the changes of the tick.

A join looks up the changes of one side in the trace of the other, so a bound of the changes is a
bound of the rows that it reads. A function of groups reads the groups of the changes. The result is
a `Bounds` for each look-up: rows below it are never read. All other nodes may
read every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from dbsp.circuit.graph import Node
from dbsp.operators.groups.aggregate import AccumulatedAggregate
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.groups.group_step import RecomputeGroups
from dbsp.operators.groups.ranking import LeadingTopK
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.interval_join import DeltaIntervalJoin
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.joins.range_join import DeltaRangeJoin
from dbsp.operators.stages.passes.watermark_bounds import NONE, Bounds, moved, strongest


def trace_reads(node: Node, place: int, inputs: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of each look-up of a node in the trace of its input `place`.

    `inputs` are the bounds of the changes of its inputs.
    """
    operator = node.operator
    if isinstance(operator, DeltaJoin):
        return [partners(operator, inputs)[place]]
    if isinstance(operator, DeltaSemijoin):
        found = partners(operator, inputs)[place]
        # The presence of a key is looked up for rows of the left input and for changes of the key.
        return [found] if place == 0 else [found, inputs[1]]
    if isinstance(operator, DeltaMultiwayJoin):
        return _atoms_read(operator, place, inputs)
    if isinstance(operator, DeltaDistinct):
        return [inputs[0]]
    if isinstance(operator, RecomputeGroups):
        return [moved(inputs[0], range(len(operator.operator.groups(operator.over))))]
    if isinstance(operator, LeadingTopK):
        return [moved(inputs[0], range(len(operator.top.partition)))]
    if isinstance(operator, AccumulatedAggregate) and place > 0:
        return [moved(inputs[0], range(operator.aggregate.key))]
    return [NONE]


def partners(join: DeltaJoin | DeltaSemijoin, inputs: Sequence[Bounds]) -> tuple[Bounds, Bounds]:
    """Return the bounds of the rows of each side that fit a change of the other side."""
    left: list[Bounds] = []
    right: list[Bounds] = []
    for x, y, low, high in _conditions(join):
        if high is not None:
            left.append(_shifted(inputs[1], y, x, -high))
        if low is not None:
            right.append(_shifted(inputs[0], x, y, low))
    return strongest(left), strongest(right)


def _shifted(bounds: Bounds, column: int, to: int, by: int) -> Bounds:
    """Return the bounds of a column, shifted, as bounds of the column `to` of other rows."""
    return {(marks, to): offset + by for (marks, own), offset in bounds.items() if own == column}


def _conditions(join: DeltaJoin | DeltaSemijoin) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Yield (x, y, low, high): of all partners, low <= right column y - left column x <= high."""
    for column in range(join.key):
        yield column, join.realign[column] if join.realign else column, 0, 0
    if isinstance(join, DeltaRangeJoin) and not join.band.floats:
        low, high = join.band.low, join.band.high
        yield join.key, join.key, None if low is None else int(low), None if high is None else int(high)
    if isinstance(join, DeltaIntervalJoin):
        # first + low <= point <= last + high
        yield join.key, join.key, None, -join.low
        yield join.key, join.last, -join.high, None


# --- multi-way joins ------------------------------------------------------------------------------

Values: TypeAlias = dict[str, Bounds]
"""By variable, bounds of its values, as those of column 0."""


def changed_values(join: DeltaMultiwayJoin, inputs: Sequence[Bounds]) -> list[Values]:
    """Return for the term of each atom the bounds of the variables that its changes bind.

    The changes of an atom bind all of its variables, and other atoms are looked up by them.
    """
    return [_values(join, atom, row[atom], inputs) for atom, row in enumerate(join.places)]


def _atoms_read(join: DeltaMultiwayJoin, place: int, inputs: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of each look-up of a term in the trace of the input `place`."""
    changes = changed_values(join, inputs)
    reads = []
    for term, row in enumerate(join.places):
        for atom, read in enumerate(row):
            if atom != term and read == place:
                columns = _variables(join, atom, place)
                known = [changes[term].get(name, NONE) if name is not None else NONE for name in columns]
                reads.append(strongest(moved(values, _only(c)) for c, values in enumerate(known)))
    return reads


def _values(join: DeltaMultiwayJoin, atom: int, place: int, inputs: Sequence[Bounds]) -> Values:
    values: Values = {}
    for column, name in enumerate(_variables(join, atom, place)):
        if name is not None:
            values[name] = strongest((values.get(name, NONE), moved(inputs[place], [column])))
    return values


def _variables(join: DeltaMultiwayJoin, atom: int, place: int) -> list[str | None]:
    """Return by column of an input the variable of an atom that reads it, or None."""
    terms = (join.join.atoms[atom][column] for column in join.arranged[place])
    return [term if isinstance(term, str) else None for term in terms]


def _only(column: int) -> list[int | None]:
    """Return the columns by which `moved` makes column 0 the given one."""
    return [None] * column + [0]
