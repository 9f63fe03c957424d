"""Names for new variables and columns that no other variable or column has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain, count

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import variables


def new_names(attributes: Iterable[checked.Attribute], taken: Collection[str]) -> list[str]:
    """Return a name for each attribute that is not taken: its own, or with a number."""
    found: list[str] = []
    for attribute in attributes:
        names = chain([attribute.name], (f"{attribute.name}{number}" for number in count()))
        found.append(next(name for name in names if name not in taken and name not in found))
    return found


def new_variables(
    attributes: Collection[checked.Attribute], rule: checked.Rule
) -> tuple[syntax.Variable, ...]:
    """Return a variable for each attribute that the rule does not use."""
    names = new_names(attributes, {name.split("#")[0] for name in variables(rule)})
    return tuple(
        syntax.Variable(name, rule.span, attribute.kind)
        for name, attribute in zip(names, attributes, strict=True)
    )
