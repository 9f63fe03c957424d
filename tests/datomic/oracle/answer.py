"""The answer of a query: its inputs, its solutions, and what `:find` makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from dbsp.edn import EdnList, Keyword, Symbol, read

from .clauses import Solver, bindings, check_strata, extended
from .functions import Row, aggregate
from .identity import identity, order
from .model import Source
from .query import Query, RefusedError, is_source, is_symbol, is_variable, read_query, read_rules


def answer(query: str, *inputs: Any) -> Any:
    """Return the answer in the shape of its `:find`; rows of a relation in any order."""
    parsed = parse(query)
    found = rows(query, *inputs)
    if parsed.labels is not None:
        found = [labelled(row, *parsed.labels) for row in found]
    elif parsed.kind in ("collection", "scalar"):
        found = [row[0] for row in found]
    if parsed.kind in ("tuple", "scalar"):
        return found[0] if found else None
    return found


@cache
def parse(query: str) -> Query:
    return read_query(read(query))


def labelled(row: Row, kind: str, names: Sequence[Symbol]) -> dict[Any, Any]:
    make = {"keys": Keyword, "strs": str, "syms": Symbol}[kind]
    return dict(zip((make(str(name)) for name in names), row, strict=True))


def rows(query: str, *inputs: Any) -> list[Row]:
    """Return the different rows of the elements of `:find`, before they are given a shape."""
    parsed = parse(query)
    wanted = parsed.inputs if parsed.inputs is not None else (Symbol("$"),)[: len(inputs)]
    if len(inputs) != len(wanted):
        raise RefusedError(f"expected {len(wanted)} inputs, got {len(inputs)}")
    sources: dict[str, Any] = {}
    rules: Any = parsed.rules
    names: dict[str, Any] = {}
    solutions: list[dict[str, Any]] = [{}]
    for form, value in zip(wanted, inputs, strict=True):
        if is_source(form):
            sources[form.name] = value
        elif is_symbol(form, "%"):
            rules = read(value) if isinstance(value, str) else value
        elif isinstance(form, Symbol) and not is_variable(form):
            names[form.name] = value
        else:
            found = bindings(form, value)
            solutions = [joined for s in solutions for f in found if (joined := extended(s, f)) is not None]
    bound = {name for form in wanted for name in bound_by(form)}
    definitions = read_rules(rules)
    check_strata(definitions)
    solver = Solver(sources, definitions)
    for name in [*map(variable_of, parsed.elements), *(variable.name for variable in parsed.with_)]:
        if name not in bound.union(*map(solver.binds, parsed.where)):
            raise RefusedError(f"{name} of :find is not bound")
    solutions = solver.solve(parsed.where, solutions, bound, "$")
    return found_rows(parsed, solutions, sources, names)


def bound_by(form: Any) -> list[str]:
    if is_variable(form):
        return [form.name]
    return [name for part in form for name in bound_by(part)] if isinstance(form, tuple) else []


def variable_of(element: Any) -> str:
    if isinstance(element, EdnList):
        last = element[-1] if not is_symbol(element[0], "pull") else element[-2]
        return str(last.name)
    return str(element.name)


def found_rows(
    query: Query, solutions: list[dict[str, Any]], sources: dict[str, Any], names: dict[str, Any]
) -> list[Row]:
    wanted = [*map(variable_of, query.elements), *(variable.name for variable in query.with_)]
    # A basis row for each different tuple of the variables of :find and :with.
    basis = {identity(tuple(s[name] for name in wanted)): s for s in solutions}
    keys = [e for e in query.elements if not is_aggregate(e)]
    groups: dict[Any, list[dict[str, Any]]] = {}
    for solution in basis.values():
        group = identity(tuple(solution[variable_of(element)] for element in keys))
        groups.setdefault(group, []).append(solution)
    return [
        tuple(value_of(element, group, sources, names) for element in query.elements)
        for group in groups.values()
    ]


def is_aggregate(element: Any) -> bool:
    return isinstance(element, EdnList) and not is_symbol(element[0], "pull")


def value_of(
    element: Any, group: list[dict[str, Any]], sources: dict[str, Any], names: dict[str, Any]
) -> Any:
    value = group[0][variable_of(element)]
    if not isinstance(element, EdnList):
        return value
    if is_aggregate(element):
        values = [solution[variable_of(element)] for solution in group]
        arguments = [group[0][a.name] if is_variable(a) else a for a in element[1:-1]]
        if is_symbol(element[0], "aggregate"):
            return arguments[0](values)
        return aggregate(str(element[0]), arguments, values)
    pattern = element[-1]
    if isinstance(pattern, Symbol):
        pattern = names[pattern.name]
    source = sources[element[1].name if is_source(element[1]) else "$"]
    return pull(source, pattern, source.entity(value))


def pull(source: Source, pattern: Sequence[Any], entity: int) -> dict[Keyword, Any] | None:
    """Return the attributes of an entity: names, reverse names, `*` and nested maps of them.

    None if the entity has none of them.
    """
    result: dict[Keyword, Any] = {}
    for item in pattern:
        if is_symbol(item, "*"):
            result[Keyword("db/id")] = entity
            for attribute in {fact.a for fact in source.datoms if fact.e == entity}:
                put(result, source, attribute, entity, None)
        elif isinstance(item, Keyword):
            put(result, source, item, entity, None)
        else:
            for attribute, nested in item.items():
                put(result, source, attribute, entity, nested)
    return result or None


def put(result: dict[Keyword, Any], source: Source, attribute: Keyword, entity: int, nested: Any) -> None:
    if attribute == Keyword("db/id"):
        result[attribute] = entity
        return
    is_reverse = attribute.name.startswith("_")
    if is_reverse:
        forward = Keyword(f"{attribute.namespace}/{attribute.name[1:]}")
        values = [f.e for f in source.datoms if f.a == forward and f.v == entity]
    else:
        forward = attribute
        values = source.values(entity, attribute)
    values = sorted(values, key=order)
    about = source.schema[forward]
    if about.ref:
        shown = nested or (Keyword("db/id"),)
        if about.component and not is_reverse and nested is None:
            shown = (Symbol("*"),)
        found = [pull(source, shown, value) for value in values]
        values = [value for value in found if value is not None]
    if values:
        many = (about.many and not is_reverse) or (is_reverse and not about.component)
        result[attribute] = tuple(values) if many else values[0]
