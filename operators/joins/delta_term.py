"""One delta term of a multi-way join, as a list of actions on the prefixes bound so far.

    the term of atom i:   R1^new x ... x R(i-1)^new x dRi x R(i+1)^old x ... x Rn^old

The term starts from the rows of dRi and binds the other variables one by one, in its own order. A
variable that is a function of bound variables is computed as soon as they are bound, and a
condition is tested as soon as its variables are bound. Between these actions, one `ExtendPrefix`
binds several variables depth first, which needs memory for one prefix only. A comparison that
limits the values of a variable is a part of the level that binds it (see `value_limits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from dbsp.expressions import Expression
from dbsp.expressions.substitution import is_total
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.value_limits import Bound, Limit

AtomTerm: TypeAlias = "str | Expression | None"
"""The term of a column in an atom: a variable, a constant, or None if the column is not read."""

Atoms: TypeAlias = tuple[tuple[AtomTerm, ...], ...]
Extensions: TypeAlias = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class UseAtom:
    """The use of an atom in an `ExtendPrefix`: `bound[l]` are its columns that level l binds.

    Level 0 has the columns that are bound before. `complete` says that all columns are bound after
    the last level.
    """

    atom: int
    bound: tuple[tuple[int, ...], ...]
    complete: bool


@dataclass(frozen=True)
class ExtendPrefix:
    """Bind the variables of `levels` in turn; `uses` are the atoms that restrict them.

    `bounds` are the bounds of the variable of each level.
    """

    levels: tuple[str, ...]
    uses: tuple[UseAtom, ...]
    bounds: tuple[tuple[Bound, ...], ...]


@dataclass(frozen=True)
class BindVariable:
    """Compute a variable."""

    variable: str
    value: Expression


@dataclass(frozen=True)
class RequireEqual:
    """Keep the prefixes in which a bound variable has the value of an expression."""

    variable: str
    value: Expression


@dataclass(frozen=True)
class TestCondition:
    """Keep the prefixes for which a condition holds."""

    condition: Expression


@dataclass(frozen=True)
class TestLimit:
    """Keep the prefixes within a limit."""

    limit: Limit


Action: TypeAlias = ExtendPrefix | BindVariable | RequireEqual | TestCondition | TestLimit


def variables_of(terms: Sequence[AtomTerm]) -> tuple[str, ...]:
    """Return the variables of an atom, each once, in column order."""
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, str)))


def delta_term(
    atoms: Atoms,
    start: int,
    order: Sequence[str],
    extensions: Extensions,
    conditions: Sequence[Expression],
    limits: Sequence[Limit | None] = (),
    narrowing: Sequence[Limit] = (),
) -> tuple[Action, ...]:
    """Return the actions of the term of atom `start` that binds the other variables in this
    order.

    `limits` has for each condition the equivalent limit, or None. `narrowing` are limits without a
    condition.
    """
    return tuple(_Term(atoms, start, order, extensions, conditions, limits, narrowing).actions())


def column_sets(actions: Sequence[Action]) -> dict[int, list[frozenset[int]]]:
    """Return, by atom, the growing sets of bound columns with which the term reads it."""
    found: dict[int, list[frozenset[int]]] = {}
    for action in actions:
        if isinstance(action, ExtendPrefix):
            for use in action.uses:
                sets = found.setdefault(use.atom, [])
                reached: frozenset[int] = frozenset()
                for columns in use.bound:
                    if columns or not sets:
                        reached |= frozenset(columns)
                        sets += [reached] if not sets or reached > sets[-1] else []
    return found


def default_order(atoms: Atoms, start: int, extensions: Extensions) -> tuple[str, ...]:
    """Return an order of the other variables that avoids Cartesian products where possible.

    The next variable is the one in most atoms with a bound variable; among equals the one that
    completes most atoms, then the first one written. An extension binds its variable for free.
    """
    sets = [frozenset(variables_of(terms)) for terms in atoms]
    bound = set(sets[start])
    everything = dict.fromkeys(name for terms in atoms for name in variables_of(terms))
    order: list[str] = []
    while True:
        bound.update(computed(bound, extensions))
        open_ = [name for name in everything if name not in bound]
        if not open_:
            return tuple(order)

        def score(name: str) -> tuple[int, int]:
            having = [names for names in sets if name in names]
            return (
                sum(not names.isdisjoint(bound) for names in having),
                sum(names <= bound | {name} for names in having),
            )

        order.append(max(open_, key=score))  # max keeps the first of equals
        bound.add(order[-1])


def computed(bound: set[str], extensions: Extensions) -> set[str]:
    """Return these variables, and those that can be computed from them."""
    found = set(bound)
    size = 0
    while size < len(found):
        size = len(found)
        found.update(name for name, value in extensions if found.issuperset(value.columns))
    return found


class _Term:
    def __init__(
        self,
        atoms: Atoms,
        start: int,
        order: Sequence[str],
        extensions: Extensions,
        conditions: Sequence[Expression],
        limits: Sequence[Limit | None],
        narrowing: Sequence[Limit],
    ) -> None:
        self._atoms = atoms
        self._variables = [variables_of(terms) for terms in atoms]
        self._order = list(order)
        self._bound = dict.fromkeys(variables_of(atoms[start]))
        self._open = [j for j in range(len(atoms)) if j != start]
        # By number: `==` between expressions builds an expression, so `in` does not work.
        self._extensions = dict(enumerate(extensions))
        self._conditions = dict(enumerate(conditions))
        self._limits = {number: limit for number, limit in enumerate(limits) if limit is not None}
        self._narrowing = list(narrowing)

    def actions(self) -> Iterator[Action]:
        yield from self._computed()
        while self._open or self._order:
            yield self._extended()
            yield from self._computed()
        # Evaluate partial functions last, when nothing else can reject a row.
        yield from self._computed(partial=True)

    def _computed(self, partial: bool = False) -> Iterator[Action]:
        """Yield the computations and tests that the bound variables allow."""
        moved = True
        while moved:
            moved = False
            for number, (name, value) in list(self._extensions.items()):
                if self._bound.keys() >= set(value.columns) and (
                    partial or is_total(value) or name in self._needed()
                ):
                    del self._extensions[number]
                    yield RequireEqual(name, value) if name in self._bound else BindVariable(name, value)
                    self._bound[name] = None
                    moved = True
            for number, condition in list(self._conditions.items()):
                if (partial or is_total(condition)) and self._bound.keys() >= set(condition.columns):
                    del self._conditions[number]
                    yield TestCondition(condition)
        for limit in self._narrowing:
            if self._bound.keys() >= set(limit.columns):
                yield TestLimit(limit)
        self._narrowing = [one for one in self._narrowing if not self._bound.keys() >= set(one.columns)]

    def _needed(self) -> set[str]:
        """Return the variables of atoms that the order does not bind, and their dependencies."""
        if not self._extensions:
            return set()
        names = {name for j in self._open for name in self._variables[j]}
        names = names.difference(self._bound, self._order)
        size = 0
        while size < len(names):
            size = len(names)
            names.update(
                c for name, value in self._extensions.values() if name in names for c in value.columns
            )
        return names

    def _extended(self) -> ExtendPrefix:
        """Bind variables until a computation or test becomes possible, or all."""
        before = set(self._bound)
        levels: list[str] = []
        bounds: list[tuple[Bound, ...]] = []
        while self._order:
            name = self._order.pop(0)
            if name in self._bound:
                continue
            levels.append(name)
            self._bound[name] = None
            bounds.append(tuple(self._take_bounds(name)))
            if self._order and self._may_compute():
                break
        steps = {name: level for level, name in enumerate(levels, 1)}
        uses = [use for j in self._open if (use := self._use(j, before, steps)) is not None]
        complete = {use.atom for use in uses if use.complete}
        self._open = [j for j in self._open if j not in complete]
        return ExtendPrefix(tuple(levels), tuple(uses), tuple(bounds))

    def _take_bounds(self, name: str) -> Iterator[Bound]:
        """Yield the bounds of a variable by the variables bound before; no action tests them."""
        for number, limit in self._limits.items():
            if number in self._conditions and self._bound.keys() >= set(limit.columns):
                del self._conditions[number]
                yield from limit.bounds(name)
        for limit in [*self._narrowing]:
            if self._bound.keys() >= set(limit.columns) and limit.bounds(name):
                self._narrowing.remove(limit)
                yield from limit.bounds(name)

    def _may_compute(self) -> bool:
        bound = self._bound.keys()
        return any(
            bound >= set(value.columns) and (is_total(value) or name in self._needed())
            for name, value in self._extensions.values()
        ) or any(
            is_total(condition) and bound >= set(condition.columns) for condition in self._conditions.values()
        )

    def _use(self, atom: int, before: set[str], steps: Mapping[str, int]) -> UseAtom | None:
        """Return the use of the atom, or None if none of its variables is bound yet.

        `steps` has the levels of the new variables.
        """
        bound: list[list[int]] = [[] for _ in range(len(steps) + 1)]
        count = 0
        for column, term in enumerate(self._atoms[atom]):
            if not isinstance(term, str) or term in before:
                bound[0].append(column)
            elif term in steps:
                bound[steps[term]].append(column)
            else:
                continue
            count += 1
        complete = count == len(self._atoms[atom])
        if not complete and not any(isinstance(self._atoms[atom][c], str) for part in bound for c in part):
            return None
        return UseAtom(atom, tuple(map(tuple, bound)), complete)
