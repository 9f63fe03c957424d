"""Multi-way join: all assignments of values to variables that satisfy several relations.

    Q(v) = product over the atoms i of  Ri(v restricted to the variables of atom i)

A binary join plan of a cyclic query creates intermediate rows without a match: a graph has far more
wedges than triangles. This operator creates no such row. The join is linear in each of its
relations, so its delta is a sum of one term per atom. The term of an atom joins its delta with the
new relations before it and the old relations after it:

    dQ = sum over i of  R1^new x ... x R(i-1)^new x dRi x R(i+1)^old x ... x Rn^old

Each term binds one variable after the other (`dbsp.kernels.multiway`), in its own order. An
initial load is a single term whose other relations are empty: plain generic join.

Cost: the total cost of insertions is at most the size of the largest possible result for the sizes
of the relations, times a logarithm (Ngo, Re, Rudra, SIGMOD Record 2013; Ammar et al.,
Delta-BiGJoin, VLDB 2018). A relation that occurs in several atoms is stored once per column order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, TypeVar

from dbsp.circuit.field_ranges import SOME_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import CircuitError, SchemaError
from dbsp.expressions import Expression, bind
from dbsp.expressions.readable_text import plain_name, readable
from dbsp.expressions.substitution import is_total
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.delta_term import (
    Action,
    Atoms,
    AtomTerm,
    Extensions,
    column_sets,
    computed,
    default_order,
    delta_term,
    variables_of,
)
from dbsp.operators.joins.multiway_arrangements import TermArrangements
from dbsp.operators.joins.multiway_definition import definition, impossible
from dbsp.operators.joins.multiway_split import split
from dbsp.operators.joins.multiway_step import MultiwayJoinStep
from dbsp.operators.joins.multiway_term import AtomReader, TermStep
from dbsp.operators.joins.value_limits import Limit, limit_of
from dbsp.operators.linear.project import Project
from dbsp.operators.traces.arrange import expect_order, in_own_order, is_external

T = TypeVar("T")


@dataclass(frozen=True)
class MultiwayJoin(Operator):
    """The natural join of any number of relations, each read by an atom.

    `atoms` gives for every column of every input its variable, the constant (a literal) that it is
    compared with, or None if the join does not read it. `columns` are the variables of the result;
    weights of equal rows add up. `extensions` (z, f) bind z to the value of the expression f where
    z is free, and compare them where it is bound. `conditions` are over variables. `orders` has
    for each atom the order in which its delta term binds the other variables (default: by shape).

    Conditions and extensions that cannot fail are evaluated as soon as their variables are bound,
    the others on the result (`dbsp.operators.joins.multiway_split`). An extension that binds a
    variable of an atom is evaluated earlier, also for rows that a later atom rejects.

    A condition that limits a variable (see `dbsp.operators.joins.value_limits`) is a part of the
    level that binds the variable. `narrowing` are such conditions that may fail: the join leaves
    out the rows for which they are false, and an operator after it evaluates them on the others.
    """

    input_counts = SOME_INPUTS

    atoms: Atoms = field(compare=False)
    columns: tuple[str, ...]
    extensions: Extensions = field(default=(), compare=False)
    conditions: tuple[Expression, ...] = field(default=(), compare=False)
    orders: tuple[tuple[str, ...], ...] = ()
    narrowing: tuple[Expression, ...] = field(default=(), compare=False)
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The fields that equality compares: `==` on expressions builds another expression."""
    _known: ClassVar[tuple[tuple[Schema, ...], dict[str, Any]] | None] = None
    """The schemas of the inputs of the last call, and its results (see `_once`)."""

    def __post_init__(self) -> None:
        atoms = tuple(
            tuple(term.key if isinstance(term, Expression) else term for term in terms)
            for terms in self.atoms
        )
        extensions = tuple((name, value.key) for name, value in self.extensions)
        conditions = tuple(condition.key for condition in self.conditions)
        narrowing = tuple(condition.key for condition in self.narrowing)
        object.__setattr__(self, "identity", (atoms, extensions, conditions, narrowing))

    @property
    def label(self) -> str:
        atoms = ", ".join(f"({', '.join(map(shown, terms))})" for terms in self.atoms)
        tested = ", ".join(map(repr, (*self.conditions, *self.narrowing)))
        return f"{self.name} {atoms}{' where ' + tested if tested else ''} -> {', '.join(self.columns)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        terms = [[plain_name(shown(term)) for term in terms] for terms in self.atoms]
        tested = ", ".join(map(readable, (*self.conditions, *self.narrowing)))
        atoms = ", ".join(f"({', '.join(atom)})" for atom in terms)
        return f"{self.name} {atoms}{' where ' + tested if tested else ''}"

    @property
    def law(self) -> str:
        return "multilinear"

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, those of the atoms first."""
        names = [name for terms in self.atoms for name in variables_of(terms)]
        return tuple(dict.fromkeys([*names, *(name for name, _ in self.extensions)]))

    def schema(self, *inputs: Schema) -> Schema:
        bindings = self.bindings(*inputs)
        for condition in (*self.conditions, *self.narrowing):
            type_ = bind(condition, bindings).type
            if type_.kind != "bool":
                raise SchemaError(
                    f"expected a condition, got {condition!r} of type {type_}", code="invalid-expression"
                )
        self.narrowing_limits(inputs)
        self._check_orders()
        return bindings.select(bindings.indices(self.columns))

    def bindings(self, *inputs: Schema) -> Schema:
        """Return the variables with their types. Raises SchemaError if an atom does not fit."""
        return self._once("bindings", inputs, self._bindings)

    def _bindings(self, *inputs: Schema) -> Schema:
        if len(inputs) != len(self.atoms) or not inputs:
            raise SchemaError(
                f"expected one stream for each of the {len(self.atoms)} atoms, and at least one, "
                f"got {len(inputs)}",
                code="wrong-arity",
            )
        types: dict[str, Type] = {}
        for terms, schema in zip(self.atoms, inputs, strict=True):
            if len(terms) != schema.arity:
                raise SchemaError(
                    f"expected {schema.arity} terms for the columns ({schema.describe()}), got {len(terms)}",
                    code="wrong-arity",
                )
            for name, term, type_ in zip(schema.names, terms, schema.types, strict=True):
                if isinstance(term, str):
                    self._agree(types, term, type_)
                elif isinstance(term, Expression) and bind(term, schema).type.coding != type_.coding:
                    raise SchemaError(
                        f"expected a constant of type {type_} for column '{name}', got {term!r}",
                        code="wrong-type",
                    )
        waiting = dict(enumerate(self.extensions))
        while waiting:
            known = Schema(tuple(types), tuple(types.values()))
            ready = [number for number, (_, value) in waiting.items() if set(value.columns) <= types.keys()]
            if not ready:
                name, value = next(iter(waiting.values()))
                missing = ", ".join(sorted(set(value.columns) - types.keys()))
                raise SchemaError(
                    f"'{name} = {value!r}' needs {missing}, which no atom binds", code="unbound-variable"
                )
            for number in ready:
                name, value = waiting.pop(number)
                self._agree(types, name, bind(value, known).type)
        return Schema(tuple(types), tuple(types.values()))

    def _agree(self, types: dict[str, Type], name: str, type_: Type) -> None:
        known = types.setdefault(name, type_)
        if known.coding != type_.coding:
            raise SchemaError(
                f"variable '{name}' has type {known} in one place and {type_} in another",
                code="invalid-join-key",
            )
        if known.nullable and not type_.nullable:
            types[name] = type_  # None matches no value of a column without None

    def _check_orders(self) -> None:
        if not self.orders:
            return
        if len(self.orders) != len(self.atoms):
            raise SchemaError(
                f"expected {len(self.atoms)} orders of variables, one for each atom, got {len(self.orders)}",
                code="invalid-join-order",
            )
        names = {name for terms in self.atoms for name in variables_of(terms)}
        for terms, order in zip(self.atoms, self.orders, strict=True):
            others = names.difference(variables_of(terms))
            bound = computed({*variables_of(terms), *order}, self.extensions)
            if len(set(order)) != len(order) or not set(order) <= others <= bound:
                raise SchemaError(
                    f"expected an order that names each of ({', '.join(sorted(others))}) once, "
                    f"got ({', '.join(order)})",
                    code="invalid-join-order",
                )

    def null_mismatch(self, *inputs: Schema) -> frozenset[str]:
        """Return the variables that are optional in some places only: None has no match there.

        Rows with None are dropped where the variable is bound. No condition may see their None,
        since the variable is not optional; and an int may have the code of None.
        """
        return self._once("null mismatch", inputs, self._null_mismatch)

    def _null_mismatch(self, *inputs: Schema) -> frozenset[str]:
        kinds: dict[str, set[bool]] = {}
        for terms, schema in zip(self.atoms, inputs, strict=True):
            for term, type_ in zip(terms, schema.types, strict=True):
                if isinstance(term, str):
                    kinds.setdefault(term, set()).add(type_.nullable)
        bindings = self.bindings(*inputs)
        for name, value in self.extensions:
            kinds.setdefault(name, set()).add(bind(value, bindings).type.nullable)
        return frozenset(name for name, found in kinds.items() if len(found) > 1)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        determined = set(self.columns)
        grown = True
        while grown:  # a value computed from determined variables is determined
            more = {name for name, value in self.extensions if determined.issuperset(value.columns)}
            grown, determined = not more <= determined, determined | more
        all_read = all(term is not None for terms in self.atoms for term in terms)
        return all(inputs) and all_read and determined.issuperset(self.variables)

    def term_orders(self) -> tuple[tuple[str, ...], ...]:
        """Return, for each atom, the order in which its term binds the other variables."""
        if self.orders:
            return self.orders
        return tuple(default_order(self.atoms, i, self.extensions) for i in range(len(self.atoms)))

    def narrowing_limits(self, inputs: Sequence[Schema]) -> list[Limit]:
        """Return the limits that `narrowing` sets. Raises SchemaError if a condition sets none."""
        bindings = self.bindings(*inputs)
        found = []
        for condition in self.narrowing:
            limit = limit_of(condition, bindings)
            if limit is None:
                raise SchemaError(
                    f"expected a condition that limits the values of a variable, got {condition!r}",
                    code="invalid-expression",
                )
            found.append(limit)
        return found

    def terms(self, inputs: Sequence[Schema]) -> Sequence[tuple[Action, ...]]:
        """Return the actions of each delta term."""
        return self._once("terms", tuple(inputs), self._terms)

    def _terms(self, *inputs: Schema) -> Sequence[tuple[Action, ...]]:
        bindings = self.bindings(*inputs)
        limits = [limit_of(c, bindings) if is_total(c) else None for c in self.conditions]
        narrowing = self.narrowing_limits(inputs)
        return tuple(
            delta_term(self.atoms, start, order, self.extensions, self.conditions, limits, narrowing)
            for start, order in enumerate(self.term_orders())
        )

    def _once(self, what: str, inputs: tuple[Schema, ...], function: Callable[..., T]) -> T:
        """Return `function(*inputs)`, which is kept until another call has other inputs.

        Lowering a join, the check of the lowered node and the steps of its terms need the same.
        """
        last = self._known
        if last is None or last[0] != inputs:
            last = inputs, {}
            object.__setattr__(self, "_known", last)
        known = last[1]
        if what not in known:
            known[what] = function(*inputs)
        found: T = known[what]
        return found

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Return the join of the columns that are read, then the operators that can fail on a
        row."""
        core, rest = split(self, [stream.schema for stream in inputs])
        stream = core.narrowed(rewriting, inputs)
        for operator in rest:
            stream = rewriting.add(operator, stream)
        return stream

    def narrowed(self, rewriting: Rewriting, inputs: Sequence[Stream]) -> Stream:
        """Add this join over projections without unread columns, so that weights add up first."""
        kept, atoms = [], []
        unread: list[str] = []
        for stream, terms in zip(inputs, self._used_atoms(), strict=True):
            if is_external(stream):
                # A projection would have to be stored; the index outside has complete rows.
                missing = [column for column, term in enumerate(terms) if term is None]
                fresh = {column: f"unread column {len(unread) + at}" for at, column in enumerate(missing)}
                unread += fresh.values()
                terms = tuple(fresh.get(column, term) for column, term in enumerate(terms))
            columns = tuple(c for c, term in enumerate(terms) if term is not None)
            if len(columns) < len(terms):
                names = tuple(stream.schema.names[c] for c in columns)
                stream = rewriting.add(Project(columns, names), stream)
            kept.append(stream)
            atoms.append(tuple(terms[c] for c in columns))
        names_left = {name for terms in atoms for name in variables_of(terms)}
        orders = tuple(
            (
                *(name for name in order if name in names_left and name not in unread),
                *(name for name in unread if name not in variables_of(terms)),
            )
            for terms, order in zip(atoms, self.orders, strict=False)
        )
        join = replace(self, atoms=tuple(atoms), orders=orders)
        return rewriting.add(join, *kept)

    def _lookup_columns(self, start: int, order: tuple[str, ...]) -> frozenset[int]:
        """Return the columns of atom `start` by which its term looks up its first variable.

        In a delta sorted by such a column, neighbouring rows look up neighbouring values.
        """
        meeting = [
            terms
            for j, terms in enumerate(self.atoms)
            if j != start and order[:1] and order[0] in variables_of(terms)
        ]
        near = {name for terms in meeting for name in variables_of(terms)}
        return frozenset(
            c for c, term in enumerate(self.atoms[start]) if isinstance(term, str) and term in near
        )

    def _used_atoms(self) -> Atoms:
        """Return the atoms with None in place of variables that are used only once."""
        used = Counter(term for terms in self.atoms for term in terms if isinstance(term, str))
        used.update(name for name, value in self.extensions for name in (name, *value.columns))
        used.update(name for c in (*self.conditions, *self.narrowing) for name in c.columns)
        used.update(self.columns)
        return tuple(
            tuple(None if isinstance(term, str) and used[term] == 1 else term for term in terms)
            for terms in self.atoms
        )

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        core, rest = split(self, inputs)
        evaluate = definition(core, interner, inputs)
        schema = core.schema(*inputs)
        functions = []
        for operator in rest:
            functions.append(operator.function(interner, schema))
            schema = operator.schema(schema)

        def evaluate_all(*batches: Batch) -> Batch:
            result = evaluate(*batches)
            for function in functions:
                result = function(result)
            return result

        return evaluate_all

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        chosen = TermArrangements(rewriting)
        rows = []
        orders = self.term_orders()
        for start, actions in enumerate(self.terms([stream.schema for stream in inputs])):
            sets = column_sets(actions)
            rows.append(
                [
                    -1 if j == start else chosen.arrangement_for(stream, sets.get(j, []))
                    for j, stream in enumerate(inputs)
                ]
            )
        for start, (stream, order) in enumerate(zip(inputs, orders, strict=True)):
            rows[start][start] = chosen.delta_input(stream, self._lookup_columns(start, order))
        join = DeltaMultiwayJoin(self, tuple(map(tuple, rows)), tuple(chosen.orders))
        return rewriting.add(join, *chosen.streams)


@dataclass(frozen=True)
class DeltaMultiwayJoin(Operator):
    """The incremental form: `places[i][j]` is the input from which the term of atom i reads atom j.

    Every input is a stream with its columns in the order `arranged` gives. It is an arrangement if
    the term of another atom reads it.
    """

    input_counts = SOME_INPUTS

    join: MultiwayJoin
    places: tuple[tuple[int, ...], ...]
    arranged: tuple[tuple[int, ...], ...]

    @property
    def monotone(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "MultiwayJoin"

    @property
    def label(self) -> str:
        return self.join.label

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return self.join.caption(columns)

    def schema(self, *inputs: Schema) -> Schema:
        return self.join.checked_schema(*self.inputs_of(inputs))

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        join = self.join
        schemas = self.inputs_of([stream.schema for stream in inputs])
        own = [in_own_order(each.schema, order) for each, order in zip(inputs, self.arranged, strict=True)]
        for start, (row, actions) in enumerate(zip(self.places, join.terms(schemas), strict=True)):
            read = column_sets(actions)
            for atom, place in enumerate(row):
                fits = own[place].types == schemas[atom].types
                if atom != start:
                    found = expect_order(inputs[place], ())
                    fits &= found == self.arranged[place]
                    fits &= all(set(found[: len(columns)]) == columns for columns in read.get(atom, []))
                if not fits:
                    raise CircuitError(
                        f"the term of atom {start} cannot read atom {atom} from input {place}, "
                        f"{inputs[place].node.describe()} in the order {self.arranged[place]}",
                        code="invalid-circuit-file",
                    )

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.join.yields_set([inputs[row[i]] for i, row in enumerate(self.places)])

    def inputs_of(self, given: Sequence[Schema]) -> list[Schema]:
        """Return the schemas of the streams of the atoms."""
        atoms = len(self.join.atoms)
        places = {place for row in self.places for place in row}
        if (
            [len(row) for row in self.places] != [atoms] * atoms
            or not places <= set(range(len(given)))
            or len(self.arranged) != len(given)
        ):
            raise SchemaError(
                f"expected {atoms} times {atoms} numbers of inputs, and an order for each of the "
                f"{len(given)} inputs; got {self.places} and {self.arranged}",
                code="wrong-arity",
            )
        return [in_own_order(given[row[i]], self.arranged[row[i]]) for i, row in enumerate(self.places)]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        join = self.join
        schemas = self.inputs_of([stream.schema for stream in node.inputs])
        terms: list[TermStep] = []
        if impossible(join.atoms, schemas, scope.interner):
            return MultiwayJoinStep(terms, len(join.columns), scope)
        for start, actions in enumerate(join.terms(schemas)):
            readings = [
                AtomReader(terms_, sources[place], self.arranged[place], new=j < start)
                for j, (terms_, place) in enumerate(zip(join.atoms, self.places[start], strict=True))
            ]
            terms.append(TermStep(join, schemas, start, actions, readings, scope))
        return MultiwayJoinStep(terms, len(join.columns), scope)


def shown(term: AtomTerm) -> str:
    """Return the text of the term."""
    return "_" if term is None else term if isinstance(term, str) else repr(term)
