"""Atoms, and `multiway_join` over them: a multi-way join built by hand.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit import graph
from dbsp.errors import SchemaError, shorten, wrong_argument
from dbsp.expressions import Call, Expression, as_expression
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.delta_term import AtomTerm
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.streams.fit import listed, located

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
    """Return the atom that reads a stream by these terms (see `dbsp.Stream.__call__`)."""
    if len(terms) != stream.schema.arity:
        raise SchemaError(
            f"an atom of ({stream.schema.describe()}) needs one term per column, got {len(terms)}",
            code="wrong-arity",
        )
    return Atom(stream, tuple(map(_term, terms)))


def _term(value: Any) -> AtomTerm:
    if value is None or isinstance(value, str):
        return None if value == "_" else value
    constant = as_expression(value)
    if constant.columns:
        raise SchemaError(
            f"a term of an atom is a variable or a constant, got {constant!r}; name a variable here, and "
            "bind it with let= or test it with where=",
            code="invalid-expression",
        )
    return constant


@ends_at_caller
def multiway_join(
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None = None,
    *,
    where: Expression | Sequence[Expression] = (),
    let: Bindings | None = None,
    orders: Sequence[Sequence[str]] | None = None,
) -> S:
    """Join any number of streams by their shared variables, with one operator.

        Q(v) = product over the atoms of  R(v restricted to the variables of the atom)

    A tick costs the extensions of the changed rows, variable by variable (see
    `dbsp.operators.joins.multiway_join`). The state is one trace per stream and column order;
    results of fewer atoms are not stored. Weights of equal rows add up.

    Parameters:
        atoms: streams called with one term per column, `edge("a", "b")`. A string is a variable,
            `lit(5)` or any other value a constant to compare with; None or "_" ignores the column.
        select: the variables of the result; by default all, in the order of their first use.
        where: conditions over the variables, each tested as soon as its variables are bound.
        let: variables that are functions of others: a mapping from names to expressions, or pairs
            where one variable has several.
        orders: for each atom, the order in which a change of it binds the other variables; by
            default the shape of the query decides.

    Returns:
        A stream with one column for each selected variable.

    Raises:
        SchemaError: an atom has the wrong number of terms, a variable has two types or is unknown,
            a condition is not boolean, or `atoms` is empty or holds something else than atoms.
        ArgumentError: `select`, `let` or `orders` is not of its form.
        CircuitError: the streams belong to different circuits.

    Examples:
        >>> circuit = Circuit("triangles")
        >>> edge = circuit.input("edge", x=int, y=int)
        >>> circuit.output("triangle", multiway_join([edge("a", "b"), edge("b", "c"), edge("a", "c")]))
        >>> circuit.start().step({"edge": [(1, 2), (2, 3), (1, 3)]})["triangle"].rows()
        [(1, 2, 3)]
    """
    atoms = _expect_atoms(atoms)
    join = joining(atoms, select, where, let or (), orders)
    return _applied(atoms[0], join, [atom.stream for atom in atoms])


def joining(
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None,
    where: Expression | Sequence[Expression],
    let: Bindings,
    orders: Sequence[Sequence[str]] | None = None,
) -> MultiwayJoin:
    """Return the operator that `multiway_join` with these arguments applies to the streams."""
    atoms = _expect_atoms(atoms)
    return _joining(atoms[0], atoms, select, where, let, orders)


def _expect_atoms(atoms: Sequence[Atom[S]]) -> Sequence[Atom[S]]:
    """Return the atoms; raise SchemaError if there are none or if something else is among them."""
    given = [atoms] if isinstance(atoms, str) or not isinstance(atoms, Iterable) else list(atoms)
    if not given:
        raise SchemaError(
            "a multi-way join needs at least one atom, such as edge('a', 'b')", code="invalid-argument"
        )
    for atom in given:
        if not isinstance(atom, Atom):
            raise SchemaError(
                "a multi-way join expects a list of atoms, streams called with their terms such as "
                f"edge('a', 'b'); got {shorten(atom)}",
                code="invalid-argument",
            )
    return given


@located("MultiwayJoin")
def _joining(
    first: Atom[S],
    atoms: Sequence[Atom[S]],
    select: Sequence[str] | None,
    where: Expression | Sequence[Expression],
    let: Bindings,
    orders: Sequence[Sequence[str]] | None,
) -> MultiwayJoin:
    if not isinstance(where, Expression | Iterable):
        where = (where,)  # the error below shows it
    given = (where,) if isinstance(where, Expression) else tuple(where)
    for condition in given:
        if not isinstance(condition, Expression):
            raise SchemaError(
                f"where= expects conditions such as col('a') < col('b'), got {shorten(condition)}",
                code="invalid-expression",
            )
    names = None if select is None else listed(select, "select=")
    conditions = tuple(part for condition in given for part in _conjuncts(condition))
    join = MultiwayJoin(
        tuple(atom.terms for atom in atoms),
        (),
        tuple((name, as_expression(value)) for name, value in _pairs(let)),
        conditions,
        tuple(
            listed(order, "an order of orders=")
            for order in _each(orders or (), "orders=", "lists of variables")
        ),
    )
    bindings = join.bindings(*(atom.stream.schema for atom in atoms))
    names = bindings.names if names is None else names
    bindings.select(bindings.indices(names))
    join = MultiwayJoin(join.atoms, names, join.extensions, conditions, join.orders)
    join.schema(*(atom.stream.schema for atom in atoms))
    return join


def _pairs(let: Bindings) -> list[tuple[str, Any]]:
    """Return the variables of `let` with their values; raise ArgumentError for anything else."""
    pairs = list(let.items()) if isinstance(let, Mapping) else _each(let, "let=", "pairs (name, expression)")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise wrong_argument("let=", "a mapping from names to expressions, or pairs of both", pair)
    return [(name, value) for name, value in pairs]


def _each(values: Any, what: str, expected: str) -> list[Any]:
    """Return the values of an argument as a list; raise ArgumentError if there are none to list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise wrong_argument(what, f"a list of {expected}", values)
    return list(values)


@located("MultiwayJoin")
def _applied(first: Atom[S], join: MultiwayJoin, streams: Sequence[S]) -> S:
    return join(*streams)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the parts of a conjunction; each can be tested as soon as its variables are bound."""
    if isinstance(condition, Call) and condition.function == "and":
        for part in condition.arguments:
            yield from _conjuncts(part)
    else:
        yield condition
