"""Random conjunctive queries, as circuits with one multi-way join and as plain nested loops.

A query is drawn as plain data, so that a failing query prints and shrinks well. The model loops
over the atoms and over all rows of each; it uses no order, no index and no delta.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from dbsp import Circuit, Run, Stream, col, lit, multiway_join, when
from dbsp.expressions import Expression

from .delta_terms import delta_terms
from .reference import Row, Z, add, consolidate, scale
from .strategies import Tick

NAN = math.nan
"""The NaN of the tests: the same object, so that Python finds rows with it equal."""

LOWEST, LARGEST = -(2**63), 2**63 - 1

VALUES: dict[str, Sequence[Any]] = {
    "int": (0, 1, 2),
    "str": ("", "a", "b"),
    "float": (0.0, -0.0, 1.5, NAN),
}
VARIABLES = {"int": ("a", "b", "c", "d", "e"), "str": ("s", "t"), "float": ("f", "g")}
PYTHON_TYPES: dict[str, type] = {"int": int, "str": str, "float": float}


@dataclass(frozen=True)
class Constant:
    """A term that is a constant."""

    value: Any


Term = str | Constant | None


@dataclass(frozen=True)
class Function:
    """A function of one or two variables by name: a condition, or the value of an extension."""

    name: str
    variables: tuple[str, ...]

    def expression(self) -> Expression:
        return _FUNCTIONS[self.name][0](*map(col, self.variables))

    def value(self, binding: Mapping[str, Any]) -> Any:
        return _FUNCTIONS[self.name][1](*(binding[name] for name in self.variables))


@dataclass(frozen=True)
class Conjunction:
    """Atoms over relations; the kinds of the columns define a relation ('int?': optional)."""

    relations: dict[str, tuple[str, ...]]
    atoms: tuple[tuple[str, tuple[Term, ...]], ...]
    let: dict[str, Function]
    where: tuple[Function, ...]
    select: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...] | None = None

    def schema(self, relation: str) -> dict[str, Any]:
        types = (PYTHON_TYPES[kind.rstrip("?")] for kind in self.relations[relation])
        kinds = zip(types, self.relations[relation], strict=True)
        return {f"c{i}": type_ | None if kind[-1] == "?" else type_ for i, (type_, kind) in enumerate(kinds)}

    def joined(self, streams: Mapping[str, Stream]) -> Stream:
        """Return the query as one multi-way join over streams with these schemas."""
        return multiway_join(
            [streams[name](*map(_given, terms)) for name, terms in self.atoms],
            select=self.select,
            where=[condition.expression() for condition in self.where],
            let={name: function.expression() for name, function in self.let.items()},
            orders=self.orders,
        )

    def started(self) -> Run:
        """Start a circuit with the query as its output."""
        circuit = Circuit("test")
        streams = {name: circuit.input(name, schema=self.schema(name)) for name in self.relations}
        circuit.output("out", self.joined(streams))
        return circuit.start()

    def delta(self, streams: Mapping[str, Stream]) -> Stream:
        """Return the changes of the same query as a circuit of elementary operators."""
        return delta_terms(
            [streams[name](*map(_given, terms)) for name, terms in self.atoms],
            select=self.select,
            where=[condition.expression() for condition in self.where],
            let={name: function.expression() for name, function in self.let.items()},
        )

    def evaluate(self, relations: Mapping[str, Z]) -> Z:
        """Return all matching bindings; loop over all rows of each atom in turn."""
        bindings: list[tuple[dict[str, Any], int]] = [({}, 1)]
        for name, terms in self.atoms:
            found = []
            for binding, weight in bindings:
                for row, more in relations[name].items():
                    extended = _matched(binding, terms, row)
                    if extended is not None:
                        found.append((extended, weight * more))
            bindings = _summed(found)
        bindings = [(b, w) for binding, w in bindings if (b := self._computed(binding)) is not None]
        return consolidate(
            (tuple(binding[name] for name in self.select), weight)
            for binding, weight in bindings
            if all(condition.value(binding) for condition in self.where)
        )

    def _computed(self, binding: dict[str, Any]) -> dict[str, Any] | None:
        waiting = dict(self.let)
        while waiting:
            name = next(n for n, function in waiting.items() if binding.keys() >= set(function.variables))
            value = waiting.pop(name).value(binding)
            if binding.setdefault(name, value) != value:
                return None
        return binding

    def variables(self) -> tuple[str, ...]:
        """Return the variables of the atoms, in order of occurrence."""
        return tuple(dict.fromkeys(t for _, terms in self.atoms for t in terms if isinstance(t, str)))

    def ticks(self, extremes: bool = False) -> st.SearchStrategy[list[Tick]]:
        """Draw a load and changes; many atoms get few rows, to keep the nested loops short."""
        return st.builds(
            self._drawn_ticks, st.integers(0, 2**32), st.integers(4, 14), st.integers(2, 8), st.just(extremes)
        )

    def _drawn_ticks(self, seed: int, rows: int, ticks: int, extremes: bool) -> list[Tick]:
        rng = random.Random(seed)
        most = rows if len(self.atoms) < 4 else rows // 2
        weights = rng.choice([(1,), (1, 1, -1), (1, -1, 2, -2, 3, -7)])

        def row(relation: str) -> Row:
            return tuple(rng.choice(values_of(kind, extremes)) for kind in self.relations[relation])

        loaded = {
            name: consolidate((row(name), rng.choice(weights)) for _ in range(most))
            for name in self.relations
        }
        drawn: list[Tick] = [loaded]
        present = {name: set(delta) for name, delta in loaded.items()}
        for _ in range(ticks):
            if rng.random() < 0.15:  # the negation of an earlier tick, or of all
                past = drawn if rng.random() < 0.3 else [rng.choice(drawn)]
                drawn.append(
                    {name: scale(-1, add(*(t.get(name, {}) for t in past))) for name in self.relations}
                )
                continue
            tick: Tick = {}
            for name in self.relations:
                for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
                    known = sorted(present[name], key=repr)
                    changed = rng.choice(known) if known and rng.random() < 0.5 else row(name)
                    present[name].add(changed)
                    tick[name] = add(tick.get(name, {}), {changed: rng.choice([1, -1, -1, *weights])})
            drawn.append(tick)
        return drawn


def canonical(zset: Mapping[Row, int]) -> Z:
    """Return the same rows with the NaN of the tests."""
    return {tuple(NAN if v != v else v for v in row): weight for row, weight in zset.items()}


def _given(term: Term) -> Any:
    return lit(term.value) if isinstance(term, Constant) else term


def _matched(binding: Mapping[str, Any], terms: Sequence[Term], row: Row) -> dict[str, Any] | None:
    extended = dict(binding)
    for term, value in zip(terms, row, strict=True):
        if isinstance(term, Constant):
            if term.value is not value and term.value != value:
                return None
        elif term is not None:
            known = extended.setdefault(term, value)
            if known is not value and known != value:
                return None
    return extended


def _summed(bindings: Sequence[tuple[dict[str, Any], int]]) -> list[tuple[dict[str, Any], int]]:
    names = tuple(bindings[0][0]) if bindings else ()
    total = consolidate((tuple(binding[name] for name in names), weight) for binding, weight in bindings)
    return [(dict(zip(names, row, strict=True)), weight) for row, weight in total.items()]


def _less(a: Any, b: Any) -> bool:
    """Whether a < b; false if either is None. NaN is the largest value."""
    if a is None or b is None:
        return False
    return bool(a < b or (a == a and b != b))


def _differ(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a is not b and a != b


def _none(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose value is None if an argument is None."""
    return lambda *arguments: None if None in arguments else function(*arguments)


_FUNCTIONS: dict[str, tuple[Callable[..., Expression], Callable[..., Any]]] = {
    "less": (lambda x, y: x < y, _less),
    "differ": (lambda x, y: x != y, _differ),
    "positive": (lambda x: x > 0, lambda x: _less(0, x)),
    "at most": (lambda x, y: x <= y, lambda x, y: None not in (x, y) and not _less(y, x)),
    "above": (lambda x, y: x > y, lambda x, y: _less(y, x)),
    "at least": (lambda x, y: x >= y, lambda x, y: None not in (x, y) and not _less(x, y)),
    "equal": (lambda x, y: x == y, lambda x, y: None not in (x, y) and not _differ(x, y)),
    "less than next": (lambda x, y: x < y + 1, lambda x, y: None not in (x, y) and x < y + 1),
    "above previous": (lambda x, y: x > y - 1, lambda x, y: None not in (x, y) and x > y - 1),
    "one or more": (lambda x: x >= 1, lambda x: x is not None and x >= 1),
    "below 2": (lambda x: x < 2, lambda x: _less(x, 2)),
    "not 1": (lambda x: x != 1, lambda x: _differ(x, 1)),
    "null": (lambda x: x.is_null(), lambda x: x is None),
    "copy": (lambda x: x, lambda x: x),
    "smaller": (lambda x, y: when(x < y).then(x).otherwise(y), lambda x, y: x if _less(x, y) else y),
    "next": (lambda x: x + 1, _none(lambda x: x + 1)),
    "sum": (lambda x, y: x + y, _none(lambda x, y: x + y)),
    "sum below 3": (lambda x, y: x + y < 3, lambda x, y: None not in (x, y) and x + y < 3),
}
FALLIBLE = {"next", "sum", "sum below 3", "smaller"}
"""Functions that may overflow for extreme values, or return both None and -2**63."""


def values_of(kind: str, extremes: bool = False) -> list[Any]:
    values = [*VALUES[kind.rstrip("?")]]
    if extremes and kind.startswith("int"):
        values += [LARGEST, LOWEST + 1 if kind[-1] == "?" else LOWEST]
    return [*values, None] if kind[-1] == "?" else values


@st.composite
def conjunctions(
    draw: st.DrawFn,
    kinds: Sequence[str] = ("int", "int", "int", "int?", "str", "str?", "float", "float?"),
    most: int = 5,
    extremes: bool = False,
    relations: dict[str, tuple[str, ...]] | None = None,
) -> Conjunction:
    """Draw a query of 1 to `most` atoms, over the given or up to three random relations.

    With `extremes`, its constants may be extreme, and its functions compute no new values.
    """
    if relations is None:
        arities = st.sampled_from([0, 1, 2, 2, 2, 2, 3, 3, 4])
        relations = {
            name: tuple(draw(st.sampled_from(kinds)) for _ in range(draw(arities)))
            for name in "pqr"[: draw(st.integers(1, 3))]
        }
    sizes = [size for size in (1, 2, 2, 3, 3, 3, 4, 4, 5) if size <= most]
    some = draw(st.integers(2, 5))  # few variables make cycles, many make separate parts

    def term(kind: str) -> Term:
        names = VARIABLES[kind.rstrip("?")][:some]
        drawn = draw(st.sampled_from([*names, *names, *names, Constant, None]))
        return (
            Constant(draw(st.sampled_from(values_of(kind.rstrip("?"), extremes))))
            if drawn is Constant
            else drawn
        )

    atoms = tuple(
        (name, tuple(map(term, relations[name])))
        for name in [draw(st.sampled_from(sorted(relations))) for _ in range(draw(st.sampled_from(sizes)))]
    )
    query = Conjunction(relations, atoms, {}, (), ())
    names = query.variables()
    of_kind = {kind: [n for n in names if n in VARIABLES[kind]] for kind in VARIABLES}
    let: dict[str, Function] = {}
    for target in ("y", "z"):
        if of_kind["int"] and draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from([target, *names_of_ints(names)]))
            drawn = draw(_functions(("copy", "next"), ("smaller", "sum"), [*of_kind["int"], *let], extremes))
            let.setdefault(name, drawn)
    bound = tuple(dict.fromkeys([*names, *let]))
    where = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        group = draw(st.sampled_from(sorted(of_kind)))
        usable = [*dict.fromkeys([*of_kind[group], *(let if group == "int" else ())])]
        if usable:
            single = ("null", "positive") if group == "int" else ("null",)
            where.append(draw(_functions(single, ("less", "differ"), usable, extremes)))
    select = tuple(draw(st.permutations(bound))[: draw(st.integers(0, len(bound)))])
    query = replace(query, let=let, where=tuple(where), select=select)
    return replace(query, orders=draw(st.none() | orders(query)))


def names_of_ints(names: Sequence[str]) -> list[str]:
    return [name for name in names if name in VARIABLES["int"]]


def _functions(
    unary: Sequence[str], binary: Sequence[str], names: Sequence[str], extremes: bool
) -> st.SearchStrategy[Function]:
    name = st.sampled_from(list(dict.fromkeys(names)))
    drawn = [
        st.builds(Function, st.just(function), st.tuples(*[name] * arity))
        for arity, functions in ((1, unary), (2, binary))
        for function in functions
        if not (extremes and function in FALLIBLE)
    ]
    return st.one_of(drawn)


@st.composite
def orders(draw: st.DrawFn, query: Conjunction) -> tuple[tuple[str, ...], ...]:
    """Draw an order of the other variables for each atom."""
    return tuple(
        tuple(draw(st.permutations([name for name in query.variables() if name not in terms])))
        for _, terms in query.atoms
    )
