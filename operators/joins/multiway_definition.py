"""The definition of the multi-way join: join one relation after the other, from scratch.

    Q(v) = product over the atoms i of  Ri(v restricted to the variables of atom i)

It shares only the join of two batches with the delta terms, which are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.expressions import Expression, bind
from dbsp.kernels import consolidate, join_runs, project, register_run
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.operators.linear.filter import filter_rows

if TYPE_CHECKING:
    from dbsp.operators.joins.multiway_join import MultiwayJoin


def definition(join: MultiwayJoin, interner: Interner, inputs: Sequence[Schema]) -> Callable[..., Batch]:
    """Return the join as a function of complete Z-sets."""
    bindings = join.bindings(*inputs)
    null_mismatch = join.null_mismatch(*inputs)
    narrowing = join.narrowing_limits(inputs)

    def evaluate(*batches: Batch) -> Batch:
        if impossible(join.atoms, inputs, interner):
            return Batch.empty(len(join.columns))
        names: tuple[str, ...] = ()
        found = Batch(np.empty((1, 0), np.int64), np.ones(1, np.int64))
        atoms = list(zip(join.atoms, inputs, batches, strict=True))
        extensions = dict(enumerate(join.extensions))
        while atoms or extensions:
            for number, (name, value) in list(extensions.items()):
                if not set(value.columns) <= set(names) or (name not in names and atoms):
                    continue
                del extensions[number]
                bound = bind(value, bindings.select(bindings.indices(names)))
                codes = bound.evaluate(found.rows, interner)
                if name in names:
                    keep = found.rows[:, names.index(name)] == codes
                    if name in null_mismatch:
                        keep &= codes != NULL
                    found = filter_rows(found, keep)
                else:
                    names = (*names, name)
                    found = Batch(np.column_stack((found.rows, codes)), found.weights)
            if atoms:
                # Prefer an atom that shares a variable, to keep intermediate results small.
                shares = [not set(names).isdisjoint(t for t in a[0] if isinstance(t, str)) for a in atoms]
                terms, schema, batch = atoms.pop(shares.index(True) if True in shares else 0)
                own, rows = _matching(terms, schema, batch, interner, null_mismatch)
                names, found = _joined(names, found, own, rows)
        for condition in join.conditions:
            bound = bind(condition, bindings.select(bindings.indices(names)))
            found = filter_rows(found, bound.mask(found.rows, interner))
        for limit in narrowing:
            found = filter_rows(found, limit.holds(found.rows, names, interner))
        taken = np.array([names.index(name) for name in join.columns], np.int64)
        return found.projected(taken)

    return evaluate


def _matching(
    terms: Sequence[str | Expression | None],
    schema: Schema,
    batch: Batch,
    interner: Interner,
    null_mismatch: frozenset[str],
) -> tuple[tuple[str, ...], Batch]:
    """Return the variables of an atom, and their values in the matching rows."""
    places: dict[str, int] = {}
    keep = np.ones(len(batch), np.bool_)
    for column, term in enumerate(terms):
        if isinstance(term, Expression):
            keep &= batch.rows[:, column] == constant_code(term, schema, interner)
        elif term is not None:
            keep &= batch.rows[:, column] == batch.rows[:, places.setdefault(term, column)]
            if term in null_mismatch:
                keep &= batch.rows[:, column] != NULL
    batch = filter_rows(batch, keep)
    taken = np.array(list(places.values()), np.int64)
    return tuple(places), batch.projected(taken)


def _joined(
    names: tuple[str, ...], found: Batch, own: tuple[str, ...], rows: Batch
) -> tuple[tuple[str, ...], Batch]:
    """Return the natural join of the bindings so far with the rows of one more atom."""
    key = [name for name in own if name in names]
    new = [name for name in own if name not in names]
    left = [*key, *(name for name in names if name not in key)]
    by_left = np.array([names.index(name) for name in left], np.int64)
    by_right = np.array([own.index(name) for name in (*key, *new)], np.int64)
    run = project(rows.rows, rows.weights, by_right)
    table = np.zeros((1, 3), np.int64)
    register_run(table, 0, *run)
    columns = np.array([*range(len(left)), *(-v - 1 for v in range(len(key), len(own)))], np.int64)
    delta = project(found.rows, found.weights, by_left)
    joined, weights, _ = join_runs(*delta, len(key), table, 1, len(own), columns)
    return (*left, *new), Batch(*consolidate(joined, weights))


def impossible(
    atoms: Sequence[Sequence[str | Expression | None]], inputs: Sequence[Schema], interner: Interner
) -> bool:
    """Whether a constant is the int that represents None in its column, so that no row matches."""
    return any(
        isinstance(term, Expression)
        and type_.kind == "int"
        and type_.nullable
        and constant_code(term, schema, interner) == NULL
        for terms, schema in zip(atoms, inputs, strict=True)
        for term, type_ in zip(terms, schema.types, strict=True)
    )


def constant_code(term: Expression, schema: Schema, interner: Interner) -> int:
    """Return the code of a constant."""
    row: Codes = np.zeros((1, schema.arity), np.int64)
    return int(bind(term, schema).evaluate(row, interner)[0])
