"""Renaming of variables in the tree of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from dbsp.compiler.datomic.tree import query_tree as tree

N = TypeVar("N")


def renamed(node: N, names: Mapping[str, str]) -> N:
    """Return the node with variables renamed, also in inner scopes that use the same names."""
    if not names:
        return node
    return _renamed(node, names)  # type: ignore[no-any-return]  # a node of the same class


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, tree.Variable):
        return replace(node, name=names.get(node.name, node.name))
    if isinstance(node, tree.Constant):
        return node
    if isinstance(node, tuple):
        return tuple(_renamed(part, names) for part in node)
    if is_dataclass(node) and not isinstance(node, type) and type(node).__module__ == tree.__name__:
        parts = {field.name: getattr(node, field.name) for field in fields(node)}
        return replace(node, **{name: _renamed(part, names) for name, part in parts.items()})
    return node


def every_variable(node: Any) -> set[str]:
    """Return the names of all variables in a node, those of inner scopes included."""
    if isinstance(node, tree.Variable):
        return {node.name}
    if isinstance(node, tree.Constant):
        return set()
    if isinstance(node, tuple):
        return set().union(*map(every_variable, node))
    if is_dataclass(node) and not isinstance(node, type) and type(node).__module__ == tree.__name__:
        return set().union(*(every_variable(getattr(node, field.name)) for field in fields(node)))
    return set()
