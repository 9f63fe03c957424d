"""The parts of a query, read from EDN data: `:find`, `:with`, `:in`, `:where`, `:keys`, rules.

Clauses and bindings stay EDN data: a vector is a tuple, a list an `EdnList`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dbsp.edn import EdnList, Keyword, Symbol


class RefusedError(Exception):
    """The query has no meaning, for example because a variable is never bound."""


def is_variable(form: Any) -> bool:
    return isinstance(form, Symbol) and form.name.startswith("?")


def is_source(form: Any) -> bool:
    return isinstance(form, Symbol) and form.name.startswith("$")


def is_symbol(form: Any, name: str) -> bool:
    return isinstance(form, Symbol) and form.namespace is None and form.name == name


BLANK, DOTS, DOT = "_", "...", "."


@dataclass(frozen=True)
class Query:
    elements: tuple[Any, ...]
    kind: str
    """relation, collection, tuple or scalar"""
    with_: tuple[Any, ...]
    inputs: tuple[Any, ...] | None
    """None without `:in`, which stands for `$`."""
    where: tuple[Any, ...]
    labels: tuple[str, tuple[Any, ...]] | None
    rules: tuple[Any, ...]


def read_query(form: Any) -> Query:
    """Read a query in the form of a vector or a map."""
    parts = dict(sections(form))
    find = parts["find"]
    if any(isinstance(element, Symbol) and element.name[0] not in "?." for element in find):
        parts = {name: question_marks(items) for name, items in parts.items()}
        find = parts["find"]
    where = parts.get("where", ())
    if where and not isinstance(where[0], tuple):
        where = (where,)
    kind, elements = "relation", find
    if len(find) == 2 and is_symbol(find[1], DOT):
        kind, elements = "scalar", find[:1]
    elif len(find) == 1 and isinstance(find[0], tuple) and not isinstance(find[0], EdnList):
        kind, elements = "tuple", find[0]
        if len(elements) == 2 and is_symbol(elements[1], DOTS):
            kind, elements = "collection", elements[:1]
    labels = next(((kind, parts[kind]) for kind in ("keys", "strs", "syms") if kind in parts), None)
    return Query(
        elements,
        kind,
        parts.get("with", ()),
        parts.get("in"),
        flattened(where),
        labels,
        parts.get("rules", ()),
    )


def sections(form: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if isinstance(form, Mapping):
        for name, items in form.items():
            yield name.name, tuple(items)
        return
    starts = [i for i, item in enumerate(form) if isinstance(item, Keyword)]
    for start, end in zip(starts, [*starts[1:], len(form)], strict=True):
        yield form[start].name, tuple(form[start + 1 : end])


def question_marks(form: Any) -> Any:
    """Return a query whose variables are plain symbols with question marks before them."""
    if isinstance(form, Symbol):
        return form if form.name[0] in "?$%_." else Symbol(f"?{form.name}")
    if isinstance(form, EdnList):
        return EdnList((form[0], *map(question_marks, form[1:])))
    return tuple(map(question_marks, form)) if isinstance(form, tuple) else form


def variables(form: Any) -> list[str]:
    """Return the names of the variables that a clause shares with the clauses around it."""
    if is_variable(form):
        return [form.name]
    if not isinstance(form, (tuple, list)):
        return []
    items = clause_of(form)[1] if isinstance(form, EdnList) else form
    if isinstance(form, EdnList) and len(items) > 1 and is_symbol(items[0], "not-join"):
        return variables(items[1])
    if isinstance(form, EdnList) and len(items) > 1 and is_symbol(items[0], "or-join"):
        return variables(items[1])
    return list(dict.fromkeys(name for item in items for name in variables(item)))


def clause_of(form: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
    """Split a list or a vector into the name of its source, if it has one, and the rest."""
    if form and is_source(form[0]):
        return form[0].name, tuple(form[1:])
    return None, tuple(form)


def flattened(clauses: Iterable[Any]) -> tuple[Any, ...]:
    """Replace `(and clause ...)` among clauses by its clauses."""
    found: list[Any] = []
    for clause in clauses:
        is_and = isinstance(clause, EdnList) and is_symbol(clause[0], "and")
        found += flattened(clause[1:]) if is_and else [clause]
    return tuple(found)


def branches(forms: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the clauses of every branch of an `or`."""
    return [flattened((form,)) for form in forms]


@dataclass(frozen=True)
class Definition:
    """One definition of a rule."""

    required: tuple[str, ...]
    parameters: tuple[str, ...]
    clauses: tuple[Any, ...]


def read_rules(form: Any) -> dict[str, list[Definition]]:
    rules: dict[str, list[Definition]] = {}
    for head, *clauses in form:
        name, *rest = head
        required: tuple[str, ...] = ()
        if rest and isinstance(rest[0], tuple):
            required = tuple(variable.name for variable in rest[0])
            rest = rest[1:]
        parameters = required + tuple(variable.name for variable in rest)
        rules.setdefault(name.name, []).append(Definition(required, parameters, flattened(clauses)))
    for name, definitions in rules.items():
        if len({(len(d.required), len(d.parameters)) for d in definitions}) > 1:
            raise RefusedError(f"the definitions of {name} have different numbers of variables")
    return rules
