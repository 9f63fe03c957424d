"""Circuits from the coordinator to the shards.

A circuit is pickled, so its functions travel by their names: a shard imports the module of each
function. Functions of the main module need that a shard runs the main module as
`multiprocessing` does, under the name `__mp_main__`. A circuit without such functions does not need
it, so most programs need no `if __name__ == "__main__":`.
"""

from __future__ import annotations

import io
import multiprocessing.spawn
import pickle
from typing import Any

from dbsp.circuit.graph import Graph, Node
from dbsp.errors import CircuitError, cause_text
from dbsp.lazy_dataclass import dataclass

_PACKAGE = "dbsp."

_importing_main = False
"""Whether this process is a shard that imports the main module of its coordinator."""


@dataclass(frozen=True, slots=True)
class ShippedGraph:
    """A pickled circuit, and how to import the main module if the circuit needs it."""

    data: bytes
    main_module: dict[str, Any] | None
    modules: tuple[str, ...]
    """The modules of dbsp that the circuit has functions or objects of."""
    gathered: tuple[int, ...] = ()
    """The positions of the fixpoints whose state the first shard measures."""


def ship_graph(graph: Graph, gathered: tuple[int, ...] = ()) -> ShippedGraph:
    """Return the circuit as bytes. Raises CircuitError with the node that cannot be pickled."""
    file = io.BytesIO()
    pickler = _GraphPickler(file)
    try:
        pickler.dump(graph)
    except Exception as error:  # pickle raises PicklingError, AttributeError, TypeError, ...
        raise _refusal(graph, error) from None
    main_module = None
    if pickler.needs_main:
        main_module = _main_module()
        if main_module is None:
            raise _refusal(graph, None)
    return ShippedGraph(file.getvalue(), main_module, tuple(sorted(pickler.modules)), gathered)


def receive_graph(shipped: ShippedGraph) -> Graph:
    """Return the circuit in a shard."""
    global _importing_main
    if shipped.main_module is not None:
        _importing_main = True
        try:
            multiprocessing.spawn.prepare(shipped.main_module)
        finally:
            _importing_main = False
    graph = pickle.loads(shipped.data)
    if not isinstance(graph, Graph):
        raise AssertionError(f"expected a pickled circuit, got {type(graph).__name__}")
    return graph


def refuse_in_shard() -> None:
    """Raise CircuitError in a shard that imports the main module, and so would start shards."""
    if _importing_main:
        raise CircuitError(
            "a sharded run is started while a shard imports the main module, because the circuit has "
            'functions of that module; put the start of the run under `if __name__ == "__main__":`, or '
            "define the functions in another module",
            code="unguarded-main",
        )


class _GraphPickler(pickle.Pickler):
    """Notes the modules of the functions and classes of the objects."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.needs_main = False
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        # Called before every function, class and object that is not of a basic type.
        module = getattr(value, "__module__", None)
        if module == "__main__":
            self.needs_main = True
        elif isinstance(module, str) and module.startswith(_PACKAGE):
            self.modules.add(module)
        return NotImplemented


def _main_module() -> dict[str, Any] | None:
    """Return how a shard imports the main module; None in an interactive session."""
    data = multiprocessing.spawn.get_preparation_data("shard")
    # The key authenticates connections of multiprocessing, which shards do not have.
    data.pop("authkey", None)
    if "init_main_from_name" in data or "init_main_from_path" in data:
        return data
    return None


def _refusal(graph: Graph, error: Exception | None) -> CircuitError:
    node = next((node for node in graph.walk() if _is_innermost_failure(node)), None)
    if error is None:
        reason = "is defined in the interactive session, which other processes cannot import"
    else:
        reason = f"cannot be sent to other processes ({cause_text(error)})"
    return CircuitError(
        f"a function or value of this node {reason}; define it at the top level of a module",
        where=None if node is None else node.describe(),
        code="not-picklable",
    )


def _is_innermost_failure(node: Node) -> bool:
    children = [inner for child in node.operator.children() for inner in child.walk()]
    return _fails(node.operator) and not any(_fails(inner.operator) for inner in children)


def _fails(value: Any) -> bool:
    """Whether an operator cannot be sent to a shard."""
    pickler = _GraphPickler(io.BytesIO())
    try:
        pickler.dump(value)
    except Exception:
        return True
    return pickler.needs_main and _main_module() is None
