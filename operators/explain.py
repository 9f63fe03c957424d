"""What was made of a query on the way to the circuit that is run, in words."""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.graph import Graph, Node
from dbsp.operators.arrange import Arrange
from dbsp.operators.fixpoint import Fixpoint
from dbsp.operators.passes import optimise
from dbsp.operators.rules import RULES
from dbsp.operators.stages import incrementalize, physical


def explain(query: Graph) -> str:
    """The passes and their changes, the rules applied, and the traces of the physical circuit."""
    return "\n".join(_report(query))


def _report(query: Graph) -> Iterator[str]:
    optimised, applied = optimise(query)
    yield "passes"
    for one in applied:
        grown = f"{one.before} nodes" if one.before == one.after else f"{one.before} -> {one.after} nodes"
        yield f"  {one.name}: {grown}" + ("" if one.changes else ", nothing changed")
        yield from (f"    {change}" for change in one.changes)
    _, firings = incrementalize(optimised)
    yield "rules"
    for name, rule in RULES.items():
        times = sum(firing.rule.name == name for firing in firings)
        if times:
            yield f"  {name}, {times} x:  {rule.equation}"
    circuit = physical(query)
    yield f"physical circuit: {sum(1 for _ in circuit.walk())} nodes"
    readers: dict[Node, list[Node]] = {}
    for node in circuit.walk():
        for stream in (*node.inputs, *node.strict):
            readers.setdefault(stream.node, []).append(node)
    for node in circuit.walk():
        if isinstance(node.operator, Arrange):
            (source,) = (stream.node for stream in node.inputs)
            columns = ", ".join(node.schema.names)
            yield f"  trace of {_named(source)} by ({columns}), read by {_list(readers.get(node, []))}"
        elif isinstance(node.operator, Fixpoint):
            yield (
                f"  scope {node.operator.body.name}: incremental by tick and iteration, "
                f"at most {node.operator.body.max_iterations} iterations"
            )


def _list(nodes: list[Node]) -> str:
    return "; ".join(map(_named, nodes)) or "nobody"


def _named(node: Node) -> str:
    """The node with what tells it from its like, and where it comes from."""
    return f"{node.label} ({node.source})" if node.source else node.label
