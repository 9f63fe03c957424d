"""Save the state of a run that is not in traces, and restore it in a scope of the same circuit.

The state of a run is the sorted runs of traces, the tables, and the memory of some steps about the
tick before (`RememberingStep.memory`). Both functions visit the scopes in the order of the
schedule, which is the same for the same circuit. A memory is a plain value, a batch, an array, or a
tuple of those; a table has plain keys and values (see `dbsp.durable.typed_values`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import Forgetful, Port
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.circuit.value_json import encode
from dbsp.data.batch import Batch
from dbsp.durable.background import rest
from dbsp.durable.typed_values import Decoding, Encoding, UnsupportedValueError, value_refused
from dbsp.errors import CircuitError
from dbsp.kernels.arrays import Codes
from dbsp.runtime.scope import Scope

ADVICE = "use plain values, or Store(folder, allow_pickle=True)"


def captured_memories(scope: Scope) -> list[tuple[Node, Any]]:
    """Return by step its node and its memory, which does not change when the scope is stepped."""
    return [
        (step.node, _constant(step.memory()) if isinstance(step, RememberingStep) else None)
        for step in _steps(scope)
    ]


def _constant(memory: Any) -> Any:
    """Return a memory with copies of its arrays, which are small; batches never change."""
    if isinstance(memory, np.ndarray):
        return memory.copy()
    return tuple(map(_constant, memory)) if type(memory) is tuple else memory


def _steps(scope: Scope) -> Iterator[Step]:
    for each_scope in scope.scopes():
        yield from each_scope.steps


def written_memories(
    memories: Sequence[tuple[Node, Any]],
    entries: Sequence[Mapping[Any, Any]],
    allow_pickle: bool,
) -> tuple[dict[str, Any], list[Codes]]:
    """Return the memory of all steps and the entries of all tables as JSON, and the arrays in it.

    Raises CheckpointError, with the node, for a value that has no typed encoding.
    """
    arrays: list[Codes] = []
    encoding = Encoding(allow_pickle)
    steps = []
    for node, memory in memories:
        try:
            steps.append(_written(memory, arrays, encoding))
        except UnsupportedValueError as error:
            raise value_refused(error, f"the memory of {node.describe()}", ADVICE) from None
    tables = []
    for table in entries:
        rest()
        try:
            tables.append([[encoding.encode(key), encoding.encode(value)] for key, value in table.items()])
        except UnsupportedValueError as error:
            raise value_refused(error, "a table of the circuit", ADVICE) from None
    return {"steps": steps, "tables": tables}, arrays


def read_memories(
    head: Any, arrays: Sequence[Codes], allow_pickle: bool
) -> tuple[list[Any], list[list[Any]]]:
    """Return the memory by step, and the entries by table. Raises errors of a wrong form."""
    decoding = Decoding(allow_pickle)
    steps = [_read(memory, arrays, decoding) for memory in head["steps"]]
    tables = [
        [(decoding.decode(key), decoding.decode(value)) for key, value in entries]
        for entries in head["tables"]
    ]
    return steps, tables


def recall(scope: Scope, steps: Sequence[Any], tables: Sequence[Iterable[tuple[Any, Any]]]) -> None:
    """Restore the memory of the steps and the entries of the tables."""
    for step, memory in zip(_steps(scope), steps, strict=True):
        if isinstance(step, RememberingStep):
            step.recall(memory)
    for table, entries in zip(scope.tables, tables, strict=True):
        table.update(entries)
        table.commit()
    for each_scope in scope.scopes():
        each_scope.journal.clear()


def _written(memory: Any, arrays: list[Codes], encoding: Encoding) -> Any:
    if isinstance(memory, Batch):
        arrays += (memory.rows, memory.weights)
        return {"batch": [len(arrays) - 2, memory.arity]}
    if isinstance(memory, np.ndarray):
        if memory.dtype != np.int64 or memory.ndim != 1:
            raise UnsupportedValueError(memory)
        arrays.append(memory)
        return {"array": len(arrays) - 1}
    if type(memory) is tuple:
        return [_written(part, arrays, encoding) for part in memory]
    return encoding.encode(memory.item() if isinstance(memory, np.generic) else memory)


def _read(written: Any, arrays: Sequence[Codes], decoding: Decoding) -> Any:
    if isinstance(written, list):
        return tuple(_read(part, arrays, decoding) for part in written)
    if isinstance(written, dict) and "array" in written:
        return arrays[written["array"]]
    if isinstance(written, dict) and "batch" in written:
        at, width = written["batch"]
        return read_batch(arrays[at], arrays[at + 1], width)
    return decoding.decode(written)


def read_batch(rows: Codes, weights: Codes, width: int) -> Batch:
    """Return a batch of these flat rows.

    Raises ValueError unless they are consolidated rows of this width.
    """
    if width < 0 or len(rows) != len(weights) * width:
        raise ValueError(f"expected {len(weights)} rows of {width} columns, got {len(rows)} codes")
    table = rows.reshape(len(weights), width)
    if not weights.all():
        raise ValueError("a row has weight 0")
    ascending, equal = np.zeros((2, max(len(table) - 1, 0)), np.bool_)
    equal[:] = True
    for column in range(width):
        ascending |= equal & (table[1:, column] > table[:-1, column])
        equal &= table[1:, column] == table[:-1, column]
    if not ascending.all():
        raise ValueError("the rows are not in ascending order")
    return Batch(table, weights)


# --- the identity of a circuit --------------------------------------------------------------------


def signature(graph: Graph, whole: bool = False) -> str:
    """Return a hash of the operators, columns and connections, on which the state depends.

    With `whole` it is that of the circuit whose states keep all rows: the state of that circuit
    fits this one, too.
    """
    digest = hashlib.sha256()
    for line in _lines(graph, whole):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _lines(graph: Graph, whole: bool) -> Iterator[str]:
    for node in graph.nodes:
        operator, strict = node.operator, node.strict
        if whole and isinstance(operator, Forgetful):
            operator, strict = operator.whole, ()
        inputs = [stream.node.id for stream in (*node.inputs, *strict)]
        types = ", ".join(map(str, node.schema.types))
        yield f"{_text(operator)}|{types}|{inputs}\n"
        for child in operator.children():
            yield "{\n"
            yield from _lines(child, whole)
            yield "}\n"


def _text(operator: Operator) -> str:
    """The operator as text; a port is the same with any binding and any callback."""
    if isinstance(operator, Port):
        relevant = ("relation", "kind", "key", "integrated")
        dealt = f" dealt by {operator.dealt}" if hasattr(operator, "dealt") else ""
        return f"port {[getattr(operator, name, None) for name in relevant]}{dealt}"
    return f"{operator.name}|{operator.label}|{_parameters(operator)}"


def _parameters(operator: Operator) -> str:
    """The fields of an operator as text: its expressions, constants and functions."""
    if not dataclasses.is_dataclass(operator):
        return ""
    written = {}
    for field in dataclasses.fields(operator):
        value = getattr(operator, field.name)
        if not field.compare or isinstance(value, Graph):
            continue
        try:
            written[field.name] = encode(value)
        except CircuitError:  # a function without a name by which it can be imported, or a scope
            written[field.name] = getattr(value, "__qualname__", type(value).__name__)
    return json.dumps(written, sort_keys=True)
