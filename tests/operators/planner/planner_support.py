"""Queries and data for the tests of the planner, and the definition of the join."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from hypothesis import strategies as st

from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.conjunction import Atom, Conjunction


def edges(text: str) -> list[frozenset[str]]:
    """ "ab bc" is {a, b}, {b, c}."""
    return [frozenset(word) for word in text.split()]


def query(text: str, needed: str | None = None, relations: Iterable[str] = ()) -> Conjunction:
    """ "ab bc" is e(a, b), e(b, c), or over the given relations; by default all variables are
    needed."""
    words = text.split()
    names = list(relations) or ["e"] * len(words)
    atoms = tuple(Atom(name, tuple(word)) for name, word in zip(names, words, strict=True))
    return Conjunction(atoms, frozenset(text.replace(" ", "") if needed is None else needed))


def joined(conjunction: Conjunction, data: Mapping[str, Codes], atoms: Iterable[int]) -> set[tuple[int, ...]]:
    """Return all bindings of the variables of some atoms, in the order of
    `conjunction.variables`."""
    found: list[dict[str, int]] = [{}]
    for index in atoms:
        atom = conjunction.atoms[index]
        rows = {tuple(row) for row in data[atom.relation].tolist()}
        rows = {row for row in rows if all(row[column] == value for column, value in atom.fixed)}
        rows = {row for row in rows if all(row[a] == row[b] for a, b in atom.equal)}
        more = []
        for binding, row in itertools.product(found, rows):
            new = {name: value for name, value in zip(atom.variables, row, strict=True) if name is not None}
            if all(binding.get(name, value) == value for name, value in new.items()):
                more.append(binding | new)
        found = more
    names = conjunction.variables
    return {tuple(binding[name] for name in names if name in binding) for binding in found}


def graph(vertices: int, number: int, skew: float, seed: int = 1) -> Codes:
    """Return edges of a random graph; the share of the i-th vertex is proportional to i^-skew."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, vertices + 1) ** -skew
    ends = random.choice(vertices, (number, 2), p=weights / weights.sum())
    return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)


@st.composite
def hypergraphs(draw: st.DrawFn, most: int = 6) -> list[frozenset[str]]:
    edge = st.frozensets(st.sampled_from("abcdef"), min_size=1, max_size=4)
    return draw(st.lists(edge, min_size=1, max_size=most))


@st.composite
def conjunctions(draw: st.DrawFn, most: int = 5) -> Conjunction:
    """Atoms over r1 to r3, of the arity in the name, with conditions, functions and needed
    variables."""
    atoms = []
    for _ in range(draw(st.integers(1, most))):
        arity = draw(st.integers(1, 3))
        names = draw(st.lists(st.sampled_from([*"abcde", None]), min_size=arity, max_size=arity))
        equal = [(names.index(name), at) for at, name in enumerate(names) if name in names[:at] and name]
        variables = [None if name in names[:at] else name for at, name in enumerate(names)]
        fixed = [(at, 0) for at, name in enumerate(names) if name is None and draw(st.booleans())]
        atoms.append(Atom(f"r{arity}", tuple(variables), tuple(fixed), tuple(equal)))
    variables = sorted({name for atom in atoms for name in atom.names})
    subsets = st.frozensets(st.sampled_from(variables), max_size=3) if variables else st.just(frozenset())
    functions = []
    if variables and draw(st.booleans()):
        result = draw(st.sampled_from([*variables, "z"]))
        arguments = draw(subsets) - {result}
        functions = [(result, arguments)] if arguments else []
    links = tuple(link for link in draw(st.lists(subsets, max_size=2)) if link)
    return Conjunction(tuple(atoms), draw(subsets), links, tuple(functions))


@st.composite
def relations(draw: st.DrawFn) -> dict[str, Codes]:
    """Rows for r1 to r3."""
    data = {}
    for arity in (1, 2, 3):
        row = st.tuples(*[st.integers(0, 3)] * arity)
        rows = sorted(draw(st.sets(row, max_size=12)))
        data[f"r{arity}"] = np.array(rows, np.int64).reshape(-1, arity)
    return data
