"""The solutions of clauses: nested loops, one clause after the other, over lists of bindings.

A solution is a dictionary from names of variables to values. A clause waits until the variables
that it only reads are bound. Rules are solved by demand: a call with some arguments bound gets a
table; all tables are filled again and again until none grows. The tables of a negation are filled
before the negation is decided, which is right because a rule may not depend on its own negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from dbsp.edn import EdnList, Keyword

from .functions import FUNCTIONS, Row
from .identity import identity, same
from .model import Source
from .query import (
    BLANK,
    DOTS,
    Definition,
    RefusedError,
    branches,
    clause_of,
    is_source,
    is_symbol,
    is_variable,
    variables,
)

Solution = dict[str, Any]
Key = tuple[str, str, tuple[Any, ...]]
Calls = tuple[tuple[str, tuple[bool, ...]], ...]


@dataclass
class Table:
    """The rows found for one call of a rule: `arguments` has None where the call is unbound."""

    arguments: tuple[Any, ...]
    bound: tuple[bool, ...]
    rows: dict[Any, Row] = field(default_factory=dict)


Tables = dict[Key, Table]


@dataclass
class Solver:
    sources: Mapping[str, Any]
    rules: Mapping[str, list[Definition]]
    complete: Tables = field(default_factory=dict)

    # --- the fixpoint --------------------------------------------------------------------------

    def solve(
        self, clauses: Sequence[Any], start: list[Solution], bound: set[str], source: str
    ) -> list[Solution]:
        """Return all solutions of the clauses that extend one of `start`."""
        tables: Tables = {}
        while True:
            before = size(tables)
            solutions = self.conjunction(clauses, start, bound, source, tables)
            for (in_source, name, _), table in list(tables.items()):
                for definition in self.rules[name]:
                    self.fill(table, definition, in_source, tables)
            if size(tables) == before:
                self.complete.update(tables)
                return solutions

    def fill(self, table: Table, definition: Definition, source: str, tables: Tables) -> None:
        start: Solution | None = {}
        bound = set()
        for name, value, is_bound in zip(definition.parameters, table.arguments, table.bound, strict=True):
            if is_bound:
                start = extended(start, {name: value})
                bound.add(name)
        if start is not None:
            for solution in self.conjunction(definition.clauses, [start], bound, source, tables):
                row = tuple(solution[name] for name in definition.parameters)
                table.rows[identity(row)] = row

    def conjunction(
        self, clauses: Sequence[Any], start: list[Solution], bound: set[str], source: str, tables: Tables
    ) -> list[Solution]:
        remaining, bound, solutions = list(clauses), set(bound), start
        while remaining:
            clause = self.choose(remaining, bound)
            remaining = [other for other in remaining if other is not clause]
            solutions = distinct(self.step(clause, solutions, bound, source, tables))
            bound |= self.binds(clause)
        return solutions

    # --- the order of clauses ------------------------------------------------------------------

    def choose(self, remaining: Sequence[Any], bound: set[str]) -> Any:
        """Return the clause to solve next: filters first, negations last."""
        ready = [clause for clause in remaining if self.is_ready(clause, bound)]
        if ready:
            return min(ready, key=lambda clause: self.rank(clause, bound))
        for clause in remaining:
            if not can_negate(clause, bound):
                raise RefusedError(f"variables are not bound in {clause}")
        return remaining[0]

    def rank(self, clause: Any, bound: set[str]) -> tuple[int, int]:
        kind = kind_of(clause)
        rank = ["function", "pattern", "rule", "or", "or-join", "not", "not-join"].index(kind)
        return rank, len(set(variables(clause)) - bound)

    def is_ready(self, clause: Any, bound: set[str], calls: Calls = ()) -> bool:
        """Return whether a clause can be solved; `calls` are the calls of rules around it."""
        kind = kind_of(clause)
        items = clause_of(clause)[1]
        if kind == "pattern":
            return True
        if kind == "function":
            return set(variables(tuple(items[0]))) <= bound
        if kind == "rule":
            return self.is_safe(items[0].name, tuple(not is_free(a, bound) for a in items[1:]), calls)
        if kind in ("or", "or-join"):
            shared, required = or_variables(clause)
            return required <= bound and all(
                self.closes(branch, bound & shared, shared, calls) for branch in branches(or_branches(clause))
            )
        return set(variables(clause)) <= bound

    def closes(self, clauses: Sequence[Any], bound: set[str], wanted: set[str], calls: Calls) -> bool:
        """Return whether the clauses can be solved from `bound` and bind all of `wanted`."""
        remaining, bound = list(clauses), set(bound)
        while ready := [clause for clause in remaining if self.is_ready(clause, bound, calls)]:
            remaining = [clause for clause in remaining if clause not in ready]
            bound = bound.union(*map(self.binds, ready))
        return wanted <= bound and all(can_negate(clause, bound) for clause in remaining)

    def is_safe(self, name: str, bound: tuple[bool, ...], calls: Calls) -> bool:
        """Return whether a rule binds all its variables when these arguments are bound."""
        if name not in self.rules:
            raise RefusedError(f"unknown rule {name}")
        if (name, bound) in calls:
            return True
        for definition in self.rules[name]:
            if len(definition.parameters) != len(bound):
                raise RefusedError(f"{name} has {len(definition.parameters)} variables, not {len(bound)}")
            given = {p for p, is_bound in zip(definition.parameters, bound, strict=True) if is_bound}
            if not set(definition.required) <= given:
                return False
            inner = (*calls, (name, bound))
            if not self.closes(definition.clauses, given, set(definition.parameters), inner):
                return False
        return True

    def binds(self, clause: Any) -> set[str]:
        kind = kind_of(clause)
        if kind in ("not", "not-join"):
            return set()
        if kind == "function":
            return set(variables(tuple(clause[1:])))
        return set(variables(clause))

    # --- one clause ----------------------------------------------------------------------------

    def step(
        self, clause: Any, solutions: list[Solution], bound: set[str], source: str, tables: Tables
    ) -> Iterable[Solution]:
        kind = kind_of(clause)
        own, items = clause_of(clause)
        source = own or source
        if kind == "pattern":
            return self.pattern(items, solutions, source)
        if kind == "function":
            return self.function(clause, solutions)
        if kind == "rule":
            return self.call(items, solutions, bound, source, tables)
        if kind in ("or", "or-join"):
            return self.union(clause, solutions, bound, source, tables)
        return self.negation(clause, solutions, bound, source)

    def pattern(self, terms: Row, solutions: list[Solution], source: str) -> Iterable[Solution]:
        data = self.source(source)
        rows = data.datoms if isinstance(data, Source) else list(data)
        if isinstance(data, Source) and len(terms) > 1 and isinstance(terms[1], Keyword):
            rows = [row for row in rows if row[1] is terms[1]]  # saves half of the time
        for solution in solutions:
            for row in rows:
                if len(row) < len(terms):
                    raise RefusedError(f"a tuple of {source} is shorter than the pattern {terms}")
                match: Solution | None = solution
                for position, (term, value) in enumerate(zip(terms, row, strict=False)):
                    if position == 1 and isinstance(data, Source):
                        value = data.entity(value)
                    match = matched(match, term, value, as_entity(data, row, position))
                if match is not None:
                    yield match

    def source(self, name: str) -> Any:
        if name not in self.sources:
            raise RefusedError(f"unknown source {name}")
        return self.sources[name]

    def function(self, clause: Any, solutions: list[Solution]) -> Iterable[Solution]:
        (head, *arguments), *binding = clause
        for solution in solutions:
            function = solution[head.name] if is_variable(head) else None
            values = [self.argument(argument, solution) for argument in arguments]
            result = function(*values) if function else self.built_in(str(head), values)
            if not binding:
                if result is not None and result is not False:
                    yield solution
                continue
            for found in bindings(binding[0], result):
                joined = extended(solution, found)
                if joined is not None:
                    yield joined

    def argument(self, form: Any, solution: Solution) -> Any:
        if is_variable(form):
            return solution[form.name]
        return self.source(form.name) if is_source(form) else form

    def built_in(self, name: str, values: Sequence[Any]) -> Any:
        if name in ("get-else", "get-some", "missing?") and values[0].entity(values[1]) is None:
            return None  # an ident or a lookup ref without an entity
        if name == "get-else":
            data, entity, attribute, default = values
            return next(iter(data.values(data.entity(entity), attribute)), default)
        if name == "get-some":
            data, entity, *attributes = values
            for attribute in attributes:
                for value in data.values(data.entity(entity), attribute):
                    return (data.entity(attribute), value)
            return None
        if name == "missing?":
            data, entity, attribute = values
            return not data.values(data.entity(entity), attribute)
        if name not in FUNCTIONS:
            raise RefusedError(f"unknown function {name}")
        return FUNCTIONS[name](*values)

    def call(
        self, items: Row, solutions: list[Solution], bound: set[str], source: str, tables: Tables
    ) -> Iterable[Solution]:
        name, arguments = items[0].name, items[1:]
        is_bound = tuple(not is_free(argument, bound) for argument in arguments)
        for solution in solutions:
            values = tuple(
                None if not b else solution[a.name] if is_variable(a) else a
                for a, b in zip(arguments, is_bound, strict=True)
            )
            key = (
                source,
                name,
                tuple(identity(v) if b else None for v, b in zip(values, is_bound, strict=True)),
            )
            table = self.complete.get(key) or tables.setdefault(key, Table(values, is_bound))
            for row in list(table.rows.values()):
                match: Solution | None = solution
                for argument, value in zip(arguments, row, strict=True):
                    match = matched(match, argument, value, None)
                if match is not None:
                    yield match

    def union(
        self, clause: Any, solutions: list[Solution], bound: set[str], source: str, tables: Tables
    ) -> Iterable[Solution]:
        shared, _ = or_variables(clause)
        for solution in solutions:
            inner = {name: value for name, value in solution.items() if name in shared}
            for branch in branches(or_branches(clause)):
                for found in self.conjunction(branch, [inner], bound & shared, source, tables):
                    yield {**solution, **{name: found[name] for name in shared}}

    def negation(
        self, clause: Any, solutions: list[Solution], bound: set[str], source: str
    ) -> Iterable[Solution]:
        items = clause_of(clause)[1]
        clauses = items[2:] if kind_of(clause) == "not-join" else items[1:]
        shared = set(variables(clause)) & bound
        for solution in solutions:
            inner = {name: value for name, value in solution.items() if name in shared}
            if not self.solve(clauses, [inner], shared, source):
                yield solution


# --- bindings ----------------------------------------------------------------------------------


def bindings(form: Any, value: Any) -> list[Solution]:
    """Return what a binding form binds when it is matched with a value; nil matches nothing."""
    if value is None:
        return []
    if is_symbol(form, BLANK):
        return [{}]
    if is_variable(form):
        return [{form.name: value}]
    if len(form) == 2 and is_symbol(form[1], DOTS):
        return [found for item in items_of(value) for found in bindings(form[0], item)]
    if len(form) == 1 and isinstance(form[0], tuple):
        return [found for item in items_of(value) for found in bindings(form[0], item)]
    values = items_of(value)
    if len(values) < len(form):
        raise RefusedError(f"{value} has fewer values than {form}")
    results = []
    for parts in product(*(bindings(part, item) for part, item in zip(form, values, strict=False))):
        merged: Solution | None = {}
        for part in parts:
            merged = extended(merged, part)
        if merged is not None:
            results.append(merged)
    return results


def items_of(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise RefusedError(f"{value!r} is not a collection")
    return list(value)


def extended(solution: Solution | None, found: Solution) -> Solution | None:
    """Return the solution with more variables, or None if they have other values already."""
    if solution is None:
        return None
    for name, value in found.items():
        if name in solution and not same(solution[name], value):
            return None
    return {**solution, **found}


def as_entity(data: Any, row: Row, position: int) -> Callable[[Any], Any] | None:
    """Return how an identifier in this position of a datom is resolved, if it is an entity."""
    if isinstance(data, Source) and (position in (0, 1, 3) or (position == 2 and data.is_ref(row[1]))):
        return data.entity
    return None


def matched(
    solution: Solution | None, term: Any, value: Any, entity: Callable[[Any], Any] | None
) -> Solution | None:
    """Match one term of a pattern or call with a value."""
    if solution is None or is_symbol(term, BLANK):
        return solution
    if is_variable(term):
        if term.name not in solution:
            return {**solution, term.name: value}
        term = solution[term.name]
    if same(term, value) or (entity is not None and same(entity(term), value)):
        return solution
    return None


# --- clauses -----------------------------------------------------------------------------------


def can_negate(clause: Any, bound: set[str]) -> bool:
    """Return whether a negation can be decided; other variables of `not` are its own."""
    names = set(variables(clause))
    return (kind_of(clause) == "not" and bool(names & bound)) or (
        kind_of(clause) == "not-join" and names <= bound
    )


def kind_of(clause: Any) -> str:
    items = clause_of(clause)[1]
    if isinstance(clause, EdnList):
        name = str(items[0])
        return name if name in ("not", "not-join", "or", "or-join") else "rule"
    return "function" if items and isinstance(items[0], EdnList) else "pattern"


def is_free(argument: Any, bound: set[str]) -> bool:
    return is_symbol(argument, BLANK) or (is_variable(argument) and argument.name not in bound)


def or_branches(clause: Any) -> Row:
    items = clause_of(clause)[1]
    return items[2:] if kind_of(clause) == "or-join" else items[1:]


def or_variables(clause: Any) -> tuple[set[str], set[str]]:
    """Return the variables that an `or` shares with the clauses around it, and the required."""
    if kind_of(clause) == "or-join":
        listed = clause_of(clause)[1][1]
        required = variables(listed[0]) if listed and isinstance(listed[0], tuple) else []
        return set(variables(listed)), set(required)
    sets = [set(variables(branch)) for branch in branches(or_branches(clause))]
    if any(names != sets[0] for names in sets):
        raise RefusedError(f"the branches of {clause} have different variables")
    return sets[0], set()


def distinct(solutions: Iterable[Solution]) -> list[Solution]:
    found = {frozenset((name, identity(value)) for name, value in s.items()): s for s in solutions}
    return list(found.values())


def size(tables: Tables) -> int:
    return len(tables) + sum(len(table.rows) for table in tables.values())


def negated_calls(clauses: Iterable[Any], negated: bool = False) -> list[tuple[str, bool]]:
    """Return the rules that clauses call, each with whether the call is negated."""
    found = []
    for clause in clauses:
        kind, items = kind_of(clause), clause_of(clause)[1]
        if kind == "rule":
            found.append((items[0].name, negated))
        elif kind in ("or", "or-join"):
            for branch in branches(or_branches(clause)):
                found += negated_calls(branch, negated)
        elif kind in ("not", "not-join"):
            found += negated_calls(items[2:] if kind == "not-join" else items[1:], True)
    return found


def check_strata(rules: Mapping[str, list[Definition]]) -> None:
    """Refuse rules that depend on their own negation."""
    direct = {
        name: {call for d in definitions for call in negated_calls(d.clauses)}
        for name, definitions in rules.items()
    }
    for name, calls in direct.items():
        for called, negated in calls:
            reached, todo = {called}, [called]
            while todo:
                new = {other for other, _ in direct.get(todo.pop(), ())} - reached
                reached |= new
                todo += new
            if negated and name in reached:
                raise RefusedError(f"{name} depends on its own negation")
