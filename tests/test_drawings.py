"""The drawings on the pages show the circuits that the pages describe."""

from __future__ import annotations

import re
from pathlib import Path

from dbsp import Circuit, multiway_join
from tests.mermaid import mermaid

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "multiway-join.md"


def pairs() -> Circuit:
    circuit = Circuit("pairs")
    a, b = circuit.input("A", x=int, k=int), circuit.input("B", k=int, y=int)
    circuit.output("pair", a.join(b, on=["k"]))
    return circuit


def triangle() -> Circuit:
    circuit = Circuit("triangle")
    r, s, t = (circuit.input(name, x=int, y=int) for name in "RST")
    circuit.output("triangle", multiway_join([r("a", "b"), s("a", "c"), t("b", "c")]))
    return circuit


def edges() -> Circuit:
    circuit = Circuit("edges")
    edge = circuit.input("edge", x=int, y=int)
    circuit.output("triangle", multiway_join([edge("a", "b"), edge("b", "c"), edge("a", "c")]))
    return circuit


def test_the_drawings_of_the_multiway_join() -> None:
    shown = re.findall(r"^```mermaid\n.*?^```\n", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    drawn = [
        pairs().circuit("incremental"),
        triangle().circuit("incremental"),
        edges().circuit("physical"),
    ]
    assert shown == [mermaid(graph) for graph in drawn]
