"""Atoms, and `multiway_join` over them: the multi-way join as it is written by hand.

>>> from dbsp import Circuit, multiway_join
>>> circuit = Circuit("triangles")
>>> edge = circuit.input("edge", x=int, y=int)
>>> circuit.output("triangle", multiway_join([edge("a", "b"), edge("b", "c"), edge("a", "c")]))
>>> run = circuit.start()
>>> run.step({"edge": [(1, 2), (2, 3), (1, 3)]})["triangle"].rows()
[(1, 2, 3)]
>>> run.step({"edge": {(2, 3): -1}})["triangle"].to_dict()
{(1, 2, 3): -1}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from dbsp.circuit import graph
from dbsp.errors import SchemaError, shorten
from dbsp.expressions import Call, Expression, as_expression
from dbsp.operators.joins.delta_term import AtomTerm
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.streams.fit import located

S = TypeVar("S", bound=graph.Stream)
Bindings: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Atom(Generic[S]):
    """A stream with a term for each column: a variable, a constant, or None."""

    stream: S
    terms: tuple[AtomTerm, ...]

    @property
    def graph(self) -> graph.Graph:
        return self.stream.graph


def atom(stream: S, terms: Sequence[Any]) -> Atom[S]:
    """The atom that reads a stream by these terms (see `dbsp.Stream.__call__`)."""
    if len(terms) != stream.schema.arity:
        raise SchemaError(
            f"an atom of ({stream.schema.describe()}) takes one term per column, got {len(terms)}"
        )
    return Atom(stream, tuple(map(_term, terms)))


def _term(value: Any) -> AtomTerm:
    if value is None or isinstance(value, str):
        return None if value == "_" else value
    constant = as_expression(value)
    if constant.columns:
        raise SchemaError(
            f"{constant!r} is no constant; name a variable and bind it by let= or test it by where="
        )
    return constant


def multiway_join(
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None = None,
    *,
    where: Expression | Sequence[Expression] = (),
    let: Bindings | None = None,
    orders: Sequence[Sequence[str]] | None = None,
) -> S:
    """All ways to give the variables of the atoms values that fit all of them, by one operator.

        Q(v) = product over the atoms of  R(v restricted to the atom's variables)

    An atom is a stream called with a term per column, `edge("a", "b")`: a string is a variable,
    `lit(5)` or any other value a constant to compare with, None or "_" a column not looked at.
    `select` names the variables of the result (default: all, as they occur); weights of equal rows
    add up. `where` are conditions over variables, `let` variables that are functions of others, by
    name, or as pairs where a variable has several: each is tested or computed as soon as what it
    reads is bound. `orders` gives for each atom the order in which a change of it binds the other
    variables; the default goes by the shape of the query.

    A tick costs what the changes extend to, variable by variable (see
    `dbsp.operators.joins.multiway_join`); no result of fewer atoms is kept. Raises SchemaError.
    """
    join = joining(atoms, select, where, let or (), orders)
    return _applied(atoms[0], join, [atom.stream for atom in atoms])


def joining(
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None,
    where: Expression | Sequence[Expression],
    let: Bindings,
    orders: Sequence[Sequence[str]] | None = None,
) -> MultiwayJoin:
    """The operator that `multiway_join` with these arguments applies to the atoms' streams."""
    if not atoms:
        raise SchemaError("a multi-way join needs at least one atom, such as edge('a', 'b')")
    for atom in atoms:
        if not isinstance(atom, Atom):
            raise SchemaError(f"{shorten(atom)} is no atom; call a stream with its terms: edge('a', 'b')")
    return _joining(atoms[0], atoms, select, where, let, orders)


@located("MultiwayJoin")
def _joining(
    first: Atom[S],
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None,
    where: Expression | Sequence[Expression],
    let: Bindings,
    orders: Sequence[Sequence[str]] | None,
) -> MultiwayJoin:
    given = (where,) if isinstance(where, Expression) else tuple(where)
    for condition in given:
        if not isinstance(condition, Expression):
            raise SchemaError(f"where takes conditions such as col('a') < col('b'), not {shorten(condition)}")
    pairs = let.items() if isinstance(let, Mapping) else let
    conditions = tuple(part for condition in given for part in _conjuncts(condition))
    join = MultiwayJoin(
        tuple(atom.terms for atom in atoms),
        (),
        tuple((name, as_expression(value)) for name, value in pairs),
        conditions,
        tuple(map(tuple, orders or ())),
    )
    bindings = join.bindings(*(atom.stream.schema for atom in atoms))
    names = bindings.names if select is None else tuple(select)
    bindings.select(bindings.indices(names))
    join = MultiwayJoin(join.atoms, names, join.extensions, conditions, join.orders)
    join.schema(*(atom.stream.schema for atom in atoms))
    return join


@located("MultiwayJoin")
def _applied(first: Atom[S], join: MultiwayJoin, streams: Sequence[S]) -> S:
    return join(*streams)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """The parts of a conjunction, which can be tested one before the other."""
    if isinstance(condition, Call) and condition.function == "and":
        for part in condition.arguments:
            yield from _conjuncts(part)
    else:
        yield condition
