"""Circuits as Mermaid text, which GitHub shows as drawings."""

from __future__ import annotations

from dbsp.circuit.graph import Graph


def mermaid(graph: Graph) -> str:
    """Return the operators and streams of a circuit without scopes, as a fenced block.

    The number on an arrow is the position of a factor in a product. A dashed arrow is read one step
    late; a cylinder is a trace.
    """
    lines = ["```mermaid", "flowchart TD"]
    for node in graph.nodes:
        left, right = ("[(", ")]") if node.operator.name == "Arrange" else ("[", "]")
        lines.append(f'  n{node.id}{left}"{node.label}"{right}')
    for node in graph.nodes:
        product = node.operator.law in ("bilinear", "multilinear")
        for number, stream in enumerate(node.inputs, 1):
            lines.append(f"  n{stream.node.id} -->{f'|{number}|' if product else ''} n{node.id}")
        lines += [f"  n{stream.node.id} -.-> n{node.id}" for stream in node.strict]
    return "\n".join([*lines, "```", ""])
