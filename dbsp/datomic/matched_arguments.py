"""The arguments of a query: what each item of `:in` stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from dbsp.compiler.datalog.tree.kinds import AnyKind
from dbsp.compiler.datomic.circuits.query_inputs import kind_of_values
from dbsp.compiler.datomic.meaning.argument_checks import at_input, check_arguments
from dbsp.compiler.datomic.meaning.bindable import binding_variables
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic.entity_access import EntityAccess
from dbsp.errors import InputError, shorten
from dbsp.lazy_dataclass import dataclass


@dataclass
class MatchedArguments:
    """The arguments of one call, in the order of `:in`."""

    values: list[Any]
    sources: dict[str, Any] = field(default_factory=dict)
    """The databases and collections, by the name of the source."""
    rules: tree.Rules | None = None
    rules_key: str | None = None
    """Stands for the rules of an argument. The trees of `1` and `1.0` are equal."""
    patterns: dict[str, Any] = field(default_factory=dict)
    """The pull patterns, by their name in `:in`."""
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """The Python functions, by the variable that they are bound to."""
    kinds: dict[str, AnyKind | None] = field(default_factory=dict)
    """The kinds of the values, by variable."""


def match_arguments(query: tree.Query, values: Sequence[Any]) -> MatchedArguments:
    """Match the arguments of a call with `:in`. Raises CompileError if one does not fit."""
    check_arguments(query, values)
    found = MatchedArguments(list(values), rules=query.rules)
    for given, value in zip(query.inputs, values, strict=True):
        match given:
            case tree.SourceInput(name=name):
                if isinstance(value, EntityAccess):
                    found.sources[name] = value
                    continue
                found.sources[name] = rows = _tuples(query, given, value)
                found.kinds |= _kinds_of_tuples(name, rows)
            case tree.RulesInput():
                found.rules_key = value if isinstance(value, str) else repr(value)
                found.rules = _parsed_rules(value) if isinstance(value, str) else parse_rules(value)
            case tree.PatternInput(name=name):
                found.patterns[name] = value
            case tree.BindingInput(binding=tree.BindScalar(variable=variable)) if callable(value):
                found.functions[variable.name] = value
            case tree.BindingInput(binding=binding):
                rows = list(binding_rows(binding, value))
                for at, name in enumerate(binding_variables(binding)):
                    found.kinds[name] = kind_of_values(row[at] for row in rows)
    return found


@lru_cache(maxsize=256)
def _parsed_rules(text: str) -> tree.Rules:
    return parse_rules(text)


def _tuples(query: tree.Query, given: tree.SourceInput, value: Any) -> list[Sequence[Any]]:
    """Return the tuples of a source that is not a database."""
    name = given.name
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        error = InputError(
            f"expected a database or a collection of tuples for the source {name}, got {shorten(value)}; "
            "pass conn.db()",
            code="invalid-argument",
        )
        raise at_input(query, given, error)
    rows = list(value)
    for row in rows:
        if not isinstance(row, Sequence):
            error = InputError(
                f"expected a collection of tuples for the source {name}, got the item {shorten(row)}; write "
                "each item as a tuple or a list",
                code="invalid-argument",
            )
            raise at_input(query, given, error)
    return rows


def _kinds_of_tuples(name: str, rows: Collection[Sequence[Any]]) -> dict[str, AnyKind | None]:
    """Return the kind of each item of the tuples of a source, by the number of items read."""
    found: dict[str, AnyKind | None] = {}
    for width in range(1, max(map(len, rows), default=0) + 1):
        long = [row for row in rows if len(row) >= width]
        for at in range(width):
            found[f"{name} {width} {at}"] = kind_of_values(row[at] for row in long)
    return found
