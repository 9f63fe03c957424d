"""A circuit as text, one line per node: its number, operator, inputs, columns and source line.

    0  Input edge: (x: number, y: number)  [reach.dl:1:7]
    1  Fixpoint path (0): ()
      scope path
        0  Delta0 (outer 0): (x: number, y: number)
        1  Delay path (next 5): (x: number, y: number)  [reach.dl:2:7]

Inputs are numbers of nodes of the same scope. An input marked `next` is read one step late; `outer`
is a node of the surrounding scope.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.circuit.graph import Graph, Node


def to_text(graph: Graph) -> str:
    """Return the nodes of a circuit and of its scopes, in order; equal circuits have equal text.

    O(edges).
    """
    return "\n".join(listed_lines(graph))


def listed_lines(graph: Graph, indent: str = "") -> Iterator[str]:
    """Yield the lines of the listing."""
    entered = {inside.node: outer.id for outer, inside in graph.entered.items()}
    width = len(str(len(graph.nodes) - 1))
    for node in graph.nodes:
        yield f"{indent}{node.id:>{width}}  {_line(node, entered.get(node))}"
        for child in node.operator.children():
            yield f"{indent}  scope {child.name}"
            yield from listed_lines(child, f"{indent}    ")
            yield f"{indent}    leaves: {', '.join(str(stream.node.id) for stream in child.exports)}"


def _line(node: Node, outer: int | None) -> str:
    inputs = [str(stream.node.id) for stream in node.inputs]
    inputs += [f"next {stream.node.id}" for stream in node.strict]
    if outer is not None:
        inputs.append(f"outer {outer}")
    read = f" ({', '.join(inputs)})" if inputs else ""
    source = f"  [{node.source}]" if node.source else ""
    return f"{' '.join(node.label.split())}{read}: ({node.columns}){source}"
