"""The rows of a relation with lattice columns: one per key, with least upper bounds.

    r(key, v)  =  aggregate by key of (inputs + rules), v the least upper bound of the values

In a recursion this is the value of the relation in each iteration. The values only rise from one
iteration to the next, since the rules are monotone (see `meaning.lattice_uses`); so the last
iteration is the least fixpoint.
"""

from __future__ import annotations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.word_size import range_of
from dbsp.compiler.datalog.tree.kinds import Lattice, flat_top, type_of
from dbsp.errors import expect_present
from dbsp.expressions import Expression, col
from dbsp.expressions.expression import Functor
from dbsp.operators.groups.lattice_folds import FlatBound, FunctorBound
from dbsp.operators.streams.aggregate_calls import fold
from dbsp.operators.streams.stream import Stream

_BUILT_IN = {
    "min": Expression.min,
    "max": Expression.max,
    "bor": Expression.bit_or,
    "band": Expression.bit_and,
}


def joined(relation: checked.Relation, candidates: Stream, program: checked.CheckedProgram) -> Stream:
    """Return one row for each value of the other columns, with the least upper bounds."""
    names = candidates.schema.names
    key = [column.name for column in relation.attributes if column.lattice is None]
    bounds = {
        column.name: _upper_bound(column.name, column.lattice, program)
        for column in relation.attributes
        if column.lattice is not None
    }
    return candidates.group_by(*key).agg(**bounds).select(*names)


def _upper_bound(name: str, lattice: Lattice, program: checked.CheckedProgram) -> Expression:
    """Return the aggregate of a column that is the least upper bound of its values."""
    if lattice.join in _BUILT_IN:
        return _BUILT_IN[lattice.join](col(name))
    return fold(_bound_of(lattice, program), name, type=type_of(lattice.kind))


def _bound_of(lattice: Lattice, program: checked.CheckedProgram) -> FlatBound | FunctorBound:
    """Return the function of weighted values that is their least upper bound, for Python values."""
    if lattice.join == "flat":
        return FlatBound(expect_present(flat_top(lattice.kind), "the branch 'Top' of a flat lattice"))
    signature = program.functors[lattice.join]
    range_ = range_of(lattice.kind, program.types.word_size)
    functor = Functor(
        signature.name,
        tuple(map(type_of, signature.parameters)),
        type_of(signature.result),
        signature.function,
    )
    if range_ is None:
        return FunctorBound(functor)
    return FunctorBound(functor, (range_.low, range_.high), range_.expected)
