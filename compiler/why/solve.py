"""Find the solutions of the body of a rule, given some bound variables.

The search is depth-first over batches of bindings. It joins all matching rows of the most bound
atom in one array operation, then evaluates every condition whose variables are bound on all of
them. It continues with pieces of the result, each larger than the one before. So the first solution
is found early, and many solutions are found at array speed.

The order of literals is: conditions and equations whose variables are bound; negations; atoms with
a bound column; aggregates; functions that may have no value; generators; atoms without a bound
column. A binding for which a function has no value is not a solution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dbsp.compiler.datalog.meaning.signatures import is_partial
from dbsp.compiler.datalog.meaning.term_expressions import expression, predicate
from dbsp.compiler.datalog.plans.normalise import (
    Absent,
    AggregateLiteral,
    AggregateResult,
    Condition,
    Generated,
    NormalLiteral,
    Numbered,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import type_of
from dbsp.compiler.datalog.tree.traversal import find, variables
from dbsp.compiler.why.bindings import Bindings
from dbsp.compiler.why.fact_table import FactTable
from dbsp.data.columns import decode_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import FLOAT, Type
from dbsp.data.values import encode_value
from dbsp.errors import DbspError
from dbsp.expressions.bound_expression import Bound, bind
from dbsp.expressions.series import coded_series
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.operators.groups.exact_results import exact_sum

Body: TypeAlias = Sequence[NormalLiteral]

_MANY = 1_000_000
"""The maximum number of rows of a cross product that are built at once."""


class Solver:
    """Finds the solutions of bodies over tables whose codes belong to one interner."""

    def __init__(self, tables: Mapping[str, FactTable], interner: Interner) -> None:
        self.tables = tables
        self.interner = interner
        self._bound: dict[
            int, tuple[object, Bound]
        ] = {}  # by the id of the term, which is stored to keep it alive

    def solutions(self, body: Body, given: Bindings, below: int | None = None) -> Iterator[Bindings]:
        """Yield all solutions of the body, in pieces. A scan is numbered by its position in the
        body.

        With `below`, the rows of the scans of the body itself have smaller heights than that.
        """
        return self.solve(list(enumerate(body)), given, below)

    def holds(self, body: Body, given: Bindings) -> bool:
        """Whether the body has a solution."""
        return any(found.size for found in self.solutions(body, given))

    def solve(
        self, left: Sequence[tuple[int, NormalLiteral]], given: Bindings, below: int | None = None
    ) -> Iterator[Bindings]:
        """Yield solutions as `solutions` does, for literals with given numbers."""
        while left and given.size:
            known = given.values.keys()
            ready = [at for at, (_, literal) in enumerate(left) if _is_ready(literal, known)]
            place = min(ready, key=lambda at: self._priority(left[at][1], known))
            number, literal = left[place]
            left = [*left[:place], *left[place + 1 :]]
            match literal:
                case Scan():
                    for start in self._starts(literal, given):
                        joined = self._joined(number, literal, start, below)
                        for piece in joined.chunks() if left else (joined,):
                            yield from self.solve(left, piece, below)
                    return
                case Absent(pattern=pattern):
                    columns, keys = self._keys(pattern, given)
                    found, _ = self.tables[pattern.relation].find(columns, keys)
                    given = given.take(np.bincount(found, minlength=given.size) == 0)
                case Condition():
                    given = self._conditioned(literal.comparison, given)
                case Numbered():
                    raise AssertionError(
                        "a relation with numbered rows is opaque: its rules are not searched"
                    )
                case Generated():
                    given = self._generated(literal, given)
                case AggregateLiteral():
                    given = self._aggregated(literal, given)
        if given.size:
            yield given

    def _priority(self, literal: NormalLiteral, known: Collection[str]) -> tuple[int, int, int]:
        """Return a sort key: the literal with the least key is next (see the order above)."""
        match literal:
            case Scan():
                free = sum(name is not None and name not in known for name in literal.variables)
                named_columns = len(literal.variables) - literal.variables.count(None)
                bound = named_columns - free + len(literal.constants)
                # Without any named column, the scan only tests whether the relation has a row.
                return (2 if bound or not free else 6), free, len(self.tables[literal.relation])
            case Generated(variable=variable):
                return (0 if variable in known else 5), 0, 0
            case Numbered():
                return 7, 0, 0
            case AggregateLiteral():
                return 3, 0, 0
            case Absent():
                return 1, 0, 0
            case Condition(comparison=comparison):
                calls = (call.function for call in find(comparison, syntax.Call))
                return (4 if any(map(is_partial, calls)) else 0), 0, 0

    # --- atoms -----------------------------------------------------------------------------------

    def _keys(self, scan: Scan, given: Bindings) -> tuple[list[int], Codes]:
        """Return the bound columns of a scan, and their values for each binding."""
        schema = self.tables[scan.relation].schema
        known: dict[int, Codes] = {}
        for column, value in scan.constants:
            known[column] = np.full(given.size, self._constant(value, schema.types[column]))
        for column, name in enumerate(scan.variables):
            if name is not None and name in given.values:
                known[column] = given.values[name]
        for first, second in scan.equal:
            if first in known:
                known[second] = known[first]
        columns = sorted(known)
        if not columns:
            return [], np.empty((given.size, 0), np.int64)
        return columns, np.stack([known[column] for column in columns], axis=1)

    def _constant(self, value: syntax.Constant, type_: Type) -> int:
        return encode_value(type_, value.value, self.interner)

    def _starts(self, scan: Scan, given: Bindings) -> Iterator[Bindings]:
        """Yield the bindings in pieces that limit the size of a cross product with the scan."""
        if self._keys(scan, given)[0]:
            yield given
            return
        size = max(1, _MANY // (len(self.tables[scan.relation]) + 1))
        for start in range(0, given.size, size):
            yield given.take(slice(start, start + size))

    def _joined(self, number: int, scan: Scan, given: Bindings, below: int | None) -> Bindings:
        table = self.tables[scan.relation]
        columns, keys = self._keys(scan, given)
        of_binding, rows = table.find(columns, keys)
        keep = np.ones(len(rows), bool) if below is None else table.heights[rows] < below
        for first, second in scan.equal:
            keep &= table.rows[rows, first] == table.rows[rows, second]
        of_binding, rows = of_binding[keep], rows[keep]
        found = given.take(of_binding).choose(number, rows)
        for column, name in enumerate(scan.variables):
            if name is not None and name not in given.values:
                found = found.bind(name, table.rows[rows, column])
        return found

    # --- conditions and terms --------------------------------------------------------------------

    def _conditioned(self, comparison: syntax.Comparison, given: Bindings) -> Bindings:
        for side, other in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
            if isinstance(side, syntax.Variable) and side.name not in given.values:
                found, codes = self.evaluate(other, given)
                return found.bind(side.name, codes)
        found, holds = self._evaluated(comparison, given)
        return found.take(holds == 1)

    def evaluate(self, term: syntax.Term, given: Bindings) -> tuple[Bindings, Codes]:
        """Return the bindings for which a term without aggregates has a value, and the values."""
        if isinstance(term, syntax.Variable):
            return given, given.values[term.name]
        return self._evaluated(term, given)

    def _evaluated(self, what: syntax.Term | syntax.Comparison, given: Bindings) -> tuple[Bindings, Codes]:
        bound = self._bind(what)
        rows = given.matrix(bound.schema.names)
        try:
            return given, bound.evaluate(rows, self.interner)
        except DbspError:
            # Some bindings have no value: evaluate them one by one to find out which.
            values = [(at, self._value(bound, rows[at : at + 1])) for at in range(given.size)]
            with_value = [(at, value) for at, value in values if value is not None]
            kept = np.array([at for at, _ in with_value], np.int64)
            return given.take(kept), np.array([value for _, value in with_value], np.int64)

    def _value(self, bound: Bound, row: Codes) -> int | None:
        try:
            return int(bound.evaluate(row, self.interner)[0])
        except DbspError:
            return None

    def _bind(self, what: syntax.Term | syntax.Comparison) -> Bound:
        known = self._bound.get(id(what))
        if known is None:
            unbound = predicate(what) if isinstance(what, syntax.Comparison) else expression(what)
            kinds = {variable.name: variable.kind for variable in find(what, syntax.Variable)}
            schema = Schema(tuple(kinds), tuple(type_of(kind) for kind in kinds.values()))
            known = self._bound[id(what)] = (what, bind(unbound, schema))
        return known[1]

    # --- generators ------------------------------------------------------------------------------

    def _generated(self, literal: Generated, given: Bindings) -> Bindings:
        """Return the bindings with each value of a generator; a series that is too long has
        none."""
        if literal.variable in given.values:
            return self._conditioned(literal.membership, given)
        names = tuple(f"{literal.variable}.{place}" for place in range(len(literal.call.arguments)))
        for name, argument in zip(names, literal.call.arguments, strict=True):
            given, codes = self.evaluate(argument, given)
            given = given.bind(name, codes)
        kind = type_of(literal.call.kind).kind
        found: list[int] = []
        value_codes: list[Codes] = [np.empty(0, np.int64)]
        for at, ends in enumerate(given.matrix(names)):
            try:
                values, _ = coded_series(kind, [ends[place : place + 1] for place in range(len(names))])
            except DbspError:
                continue
            found += [at] * len(values)
            value_codes.append(values)
        return given.take(np.array(found, np.int64)).bind(literal.variable, np.concatenate(value_codes))

    # --- aggregates ------------------------------------------------------------------------------

    def _aggregated(self, literal: AggregateLiteral, given: Bindings) -> Bindings:
        kept: list[int] = []
        results: list[list[int]] = []
        keys = given.matrix(literal.injected).tolist()
        known: dict[tuple[int, ...], list[int] | None] = {}
        for at, key in enumerate(map(tuple, keys)):
            if key not in known:
                known[key] = self.aggregates(literal, dict(zip(literal.injected, key, strict=True)))
            values = known[key]
            if values is not None:
                kept.append(at)
                results.append(values)
        found = given.take(np.array(kept, np.int64))
        codes = np.array(results, np.int64).reshape(len(kept), len(literal.results))
        for result, column in zip(literal.results, codes.T, strict=True):
            if result.variable in found.values:
                equal = found.values[result.variable] == column
                found = found.take(equal)
                codes = codes[equal]
            else:
                found = found.bind(result.variable, column)
        return found

    def aggregates(self, literal: AggregateLiteral, injected: Mapping[str, int]) -> list[int] | None:
        """Return the codes of the results for one binding; None if one of them has no value."""
        inner = list(self.solutions(literal.body, Bindings.single(injected)))
        codes = [self._aggregate(result, inner) for result in literal.results]
        found = [code for code in codes if code is not None]
        return found if len(found) == len(codes) else None

    def _aggregate(self, result: AggregateResult, inner: Sequence[Bindings]) -> int | None:
        if result.value is None:
            return sum(piece.size for piece in inner)
        type_ = type_of(result.value.kind)
        codes = np.concatenate(
            [np.empty(0, np.int64), *(self.evaluate(result.value, piece)[1] for piece in inner)]
        )
        if not len(codes):
            return 0 if result.function == "sum" else None
        if result.function in ("min", "max"):
            pick = min if result.function == "min" else max
            if type_.ordered_codes:
                return int(pick(codes.tolist()))
            distinct = np.unique(codes)
            values = decode_column(type_, distinct, self.interner)
            return int(distinct[pick(range(len(distinct)), key=values.__getitem__)])
        total: int | float
        if type_ == FLOAT:
            total = exact_sum(codes)
        else:
            total = sum(codes.tolist())
            if not INT64_MIN <= total <= INT64_MAX:
                return None
        value = total / len(codes) if result.function == "mean" else total
        return encode_value(type_of(result.kind), value, self.interner)


def solvable(body: Body, bound: Collection[str]) -> list[NormalLiteral]:
    """Return the literals of a part of a body that can be evaluated, in order.

    `bound` are the variables bound beforehand; each literal may bind more.
    """
    known = set(bound)
    ready_literals: list[NormalLiteral] = []
    waiting = list(body)
    while ready := [literal for literal in waiting if _is_ready(literal, known)]:
        for literal in ready:
            match literal:
                case Scan():
                    known.update(literal.names)
                case AggregateLiteral():
                    known.update(literal.variables)
                case Condition():
                    known.update(literal.names)
                case Generated(variable=variable):
                    known.add(variable)
        ready_literals += ready
        waiting = [literal for literal in waiting if literal not in ready]
    return ready_literals


def _is_ready(literal: NormalLiteral, known: Collection[str]) -> bool:
    """Whether the variables that a literal needs are bound."""
    match literal:
        case Scan():
            return True
        case Numbered():
            return False  # the number of a row depends on the ticks so far
        case Absent(pattern=pattern):
            return all(name in known for name in pattern.names)
        case AggregateLiteral(injected=injected):
            return all(name in known for name in injected)
        case Generated():
            return all(name in known for name in literal.arguments)
        case Condition(comparison=comparison):
            return _is_decided(comparison, known)


def _is_decided(comparison: syntax.Comparison, known: Collection[str]) -> bool:
    """Whether a comparison is bound, or is an equation that binds its only unbound variable."""
    left = all(name in known for name in variables(comparison.left))
    right = all(name in known for name in variables(comparison.right))
    if (left and right) or comparison.operator != "=":
        return left and right
    return (left and isinstance(comparison.right, syntax.Variable)) or (
        right and isinstance(comparison.left, syntax.Variable)
    )
