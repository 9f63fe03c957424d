"""Save the state of a run that is not in traces, and restore it in a scope of the same circuit.

The state of a run is the sorted runs of traces, the tables, and the memory of some steps about the
tick before (`RememberingStep.memory`). Both functions visit the scopes in the order of the
schedule, which is the same for the same circuit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.runtime.scope import Scope


@dataclass(frozen=True)
class Memories:
    """State that is not in traces: the memory of every step, and the entries of every table."""

    steps: tuple[Any, ...]
    tables: tuple[tuple[tuple[Any, Any], ...], ...]


def memories_of(scope: Scope) -> Memories:
    """Return the memory of the steps and the entries of the tables of a scope and its scopes."""
    return Memories(
        tuple(_memory(step) for step in _steps(scope)), tuple(tuple(table.items()) for table in scope.tables)
    )


def recall(scope: Scope, memories: Memories) -> None:
    """Restore the memory of the steps and the entries of the tables."""
    for step, memory in zip(_steps(scope), memories.steps, strict=True):
        if isinstance(step, RememberingStep):
            step.recall(memory)
    for table, entries in zip(scope.tables, memories.tables, strict=True):
        table.update(entries)
        table.commit()
    for each_scope in scope.scopes():
        each_scope.journal.clear()


def _memory(step: Step) -> Any:
    return step.memory() if isinstance(step, RememberingStep) else None


def _steps(scope: Scope) -> Iterator[Step]:
    for each_scope in scope.scopes():
        yield from each_scope.steps


def signature(graph: Graph) -> str:
    """Return a hash of the operators, columns and connections, on which the state depends."""
    digest = hashlib.sha256()
    for line in _lines(graph):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _lines(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        inputs = [stream.node.id for stream in (*node.inputs, *node.strict)]
        types = ", ".join(map(str, node.schema.types))
        yield f"{node.operator.name}|{node.label}|{types}|{inputs}\n"
        for child in node.operator.children():
            yield "{\n"
            yield from _lines(child)
            yield "}\n"
