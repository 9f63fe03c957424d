"""Whether the ids of interned values become numbers in the rows of a circuit.

`ord` returns the id of a string or a record as a number. A program may store it and compare it with
the number of an equal value later. So the ids of the values of such a circuit must not change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.expressions import Call

_RETURN_IDS = frozenset({"ord", "code_of"})


def exposes_ids(graph: Graph) -> bool:
    """Return whether an expression of the circuit returns ids of values as numbers."""
    return any(map(returns_ids, graph.walk()))


def returns_ids(node: Node) -> bool:
    """Return whether an expression of a node returns ids of values as numbers."""
    return _finds(node.operator)


def _finds(root: Any) -> bool:
    """Return whether a call that returns ids is in the fields of an operator, at any depth."""
    waiting, seen = [root], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Call) and value.function in _RETURN_IDS:
            return True
        if isinstance(value, (Graph, Schema, Type)) or id(value) in seen:
            continue
        seen.add(id(value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            waiting += [getattr(value, f.name) for f in dataclasses.fields(value) if f.name != "origin"]
        elif isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            waiting += value
    return False
