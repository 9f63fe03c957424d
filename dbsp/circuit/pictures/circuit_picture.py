"""The picture of a circuit: a node per operator, a frame per scope.

Node 4 of a circuit has the id `n4`, and node 2 of its scope the id `n4_2`. A scope is drawn as a
frame only: its results leave from the nodes inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from dbsp.circuit.drawn_terms import Sum
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.pictures.picture import (
    Measured,
    NodeKind,
    PictureData,
    PictureEdge,
    PictureFrame,
    PictureNode,
)
from dbsp.circuit.program_place import ProgramPlace
from dbsp.expressions.readable_text import plain_name

_KINDS: Mapping[str, NodeKind] = {
    "Input": "input",
    "SparkSource": "input",
    "Constant": "constant",
    "Output": "output",
    "SparkSink": "output",
    "Delay": "delay",
    "Integrate": "integral",
    "Arrange": "trace",
    "Delta0": "entering",
    "Leave": "leaving",
}
_SHORT = 90
"""The longest text of a rule that a box shows."""

Measurements: TypeAlias = Mapping[Node, Measured]


def circuit_picture(
    graph: Graph, measured: Measurements | None = None, *, prefix: str = "n", terms: bool = True
) -> PictureData:
    """Return the picture of a circuit. O(nodes + edges).

    Parameters:
        graph: the circuit.
        measured: what a run measured of its nodes.
        prefix: the start of all ids.
        terms: whether an incremental form inside a scope is drawn as its terms.
    """
    drawing = _Drawing(measured or {}, terms)
    drawing.draw(graph, prefix, "")
    return drawing.picture(graph.name)


def node_ids(graph: Graph, prefix: str = "n") -> dict[Node, str]:
    """Return the id that each node has in the picture of the circuit, those of scopes included."""
    ids: dict[Node, str] = {}
    for node in graph.nodes:
        ids[node] = f"{prefix}{node.id}"
        for child in node.operator.children():
            ids |= node_ids(child, f"{ids[node]}_")
    return ids


def node_titles(graph: Graph) -> dict[Node, str]:
    """Return the titles of the nodes in the picture of the circuit; a scope has its label."""
    drawn = {node.id: node.title for node in circuit_picture(graph, terms=False).nodes}
    return {node: drawn.get(id, node.label) for node, id in node_ids(graph).items()}


class _Drawing:
    """The parts of a picture so far."""

    def __init__(self, measured: Measurements, terms: bool) -> None:
        self.measured = measured
        self.terms = terms
        self.nodes: list[PictureNode] = []
        self.edges: list[PictureEdge] = []
        self.frames: list[PictureFrame] = []
        self.relations: dict[Node, str] = {}
        self._texts: dict[Node, tuple[str, ...]] = {}

    def picture(self, title: str) -> PictureData:
        """Return the picture; the last node of each rule in a scope shows the text of the rule."""
        around = {frame.id: frame.parent for frame in self.frames if frame.kind == "change"}
        last = {
            (node.rule, around.get(node.frame, node.frame)): node.id
            for node in self.nodes
            if 0 < len(node.text) <= _SHORT
        }
        shown = set(last.values())
        nodes = (replace(node, shows_text=True) if node.id in shown else node for node in self.nodes)
        return PictureData(title, tuple(nodes), tuple(self.edges), tuple(self.frames))

    def draw(self, graph: Graph, prefix: str, frame: str) -> dict[Node, str]:
        """Add the nodes and edges of a graph; return the ids of the nodes."""
        self.relations |= {stream.node: name for name, stream in graph.named.items()}
        ids: dict[Node, str] = {}
        results: dict[Node, list[str]] = {}
        for node in graph.nodes:
            ids[node] = f"{prefix}{node.id}"
            scopes = node.operator.children()
            for number, child in enumerate(scopes):
                inner = f"{ids[node]}_scope{number}"
                self.frames.append(
                    PictureFrame(inner, node.label, "scope", frame, self.measured.get(node, Measured()))
                )
                self._texts.update(
                    (entered.node, self.texts(outer)) for outer, entered in child.entered.items()
                )
                inside = self.draw(child, f"{ids[node]}_", inner)
                for outer, entering in child.entered.items():
                    self.edges.append(PictureEdge(ids[outer], inside[entering.node], "entering"))
                results.setdefault(node, []).extend(inside[stream.node] for stream in child.exports)
            if scopes:
                continue
            index = getattr(node.operator, "index", 0)
            sources = [
                results[stream.node][index] if stream.node in results else ids[stream.node]
                for stream in node.inputs
            ]
            self._add(node, ids[node], frame, sources)
        for node in graph.nodes:
            for stream in node.strict:
                self.edges.append(PictureEdge(ids[stream.node], ids[node], "delayed"))
        return ids

    def _add(self, node: Node, id: str, frame: str, sources: Sequence[str]) -> None:
        drawn = self._node(node, id, frame)
        dimensions = _dimensions(node.graph)
        terms = node.operator.drawn_terms(len(sources), len(dimensions)) if self.terms else ()
        if not terms:
            self.nodes.append(drawn)
            self.edges += [PictureEdge(source, id) for source in sources]
            return
        inner = f"{id}_terms"
        self.frames.append(PictureFrame(inner, drawn.title, "change", frame))
        sums = _Sums(self, drawn, inner, dimensions)
        name = drawn.title.removeprefix("Change of ")
        for number, term in enumerate(terms):
            made = f"{id}_term{number}"
            self.nodes.append(replace(drawn, id=made, title=name, frame=inner, measured=Measured()))
            for at, (source, steps) in enumerate(zip(sources, term.inputs, strict=True)):
                self.edges.append(PictureEdge(sums.of(at, source, steps), made))
            sign = "+" if term.sign > 0 else "\N{MINUS SIGN}"
            self.edges.append(PictureEdge(made, id, label=sign))
        self.nodes.append(replace(drawn, title="Sum of the terms", frame=inner))

    def _node(self, node: Node, id: str, frame: str) -> PictureNode:
        operator, source = node.operator, node.source
        columns, rule, text = node.schema.describe(), source, ""
        names = self.texts(node)  # now, when those of its inputs are known
        if isinstance(source, ProgramPlace):
            columns = source.types.describe(node.schema, names)
            rule = str(source.clause or source)
            text = source.clause_text
        return PictureNode(
            id,
            operator.caption([self._read(stream.node, node) for stream in node.inputs]),
            _KINDS.get(operator.name, "operator"),
            operator.name,
            columns,
            source,
            rule,
            text,
            relation=self.relations.get(node, ""),
            frame=frame,
            measured=self.measured.get(node, Measured()),
        )

    def _read(self, node: Node, reader: Node) -> Sequence[str]:
        """Return the names by which the title of a reader calls the columns of a node."""
        first = reader.operator.first_argument
        if first is not None and node.source == reader.source and node.inputs:
            formulas = node.operator.column_texts([self.texts(stream.node) for stream in node.inputs])
            if formulas is not None:
                return [*self.texts(node)[:first], *formulas[first:]]
        return self.texts(node)

    def texts(self, node: Node) -> tuple[str, ...]:
        """Return what each column of a node holds: its name, or a formula if a compiler named it.

        Nodes come after their inputs, so this does not recurse along the circuit.
        """
        if node not in self._texts:
            names = [plain_name(name) for name in node.schema.names]
            if any(name.startswith("#") for name in names):
                reads = node.inputs or [s for s in node.strict if s.node in self._texts]
                known = [self.texts(stream.node) for stream in reads]
                known_texts = node.operator.column_texts(known) if known else None
                if known_texts is None and known and len(known[0]) == len(names):
                    known_texts = known[0]  # the operator keeps the columns
                if known_texts is not None:
                    pairs = zip(names, known_texts, strict=True)
                    names = [text if name.startswith("#") else name for name, text in pairs]
            self._texts[node] = tuple(names)
        return self._texts[node]


class _Sums:
    """The integrals and delays of the terms of one node; equal ones are drawn once."""

    def __init__(self, drawing: _Drawing, node: PictureNode, frame: str, dimensions: Sequence[str]) -> None:
        self.drawing = drawing
        self.node = node
        self.frame = frame
        self.dimensions = dimensions
        self._made: dict[tuple[int, tuple[tuple[str, str], ...]], str] = {}

    def of(self, input: int, source: str, steps: Sequence[Sum]) -> str:
        """Return the id of the node for one input of a term, and add the nodes that lead to it."""
        chain: list[tuple[str, str]] = []
        for dimension, step in zip(self.dimensions, steps, strict=True):
            if step != "delta":
                chain.append(("I", dimension))
            if step == "old":
                chain.append(("z^-1", dimension))
        at = source
        for length in range(1, len(chain) + 1):
            key = (input, tuple(chain[:length]))
            if key not in self._made:
                made = self._made[key] = f"{self.node.id}_sum{len(self._made)}"
                name, dimension = chain[length - 1]
                kind: NodeKind = "integral" if name == "I" else "delay"
                title = f"{name} over the {dimension}"
                self.drawing.nodes.append(
                    PictureNode(
                        made,
                        title,
                        kind,
                        title,
                        rule=self.node.rule,
                        frame=self.frame,
                    )
                )
                self.drawing.edges.append(PictureEdge(at, made))
            at = self._made[key]
        return at


def _dimensions(graph: Graph) -> list[str]:
    """Return the time dimensions of the streams of a graph, the outermost first."""
    scopes: list[str] = []
    while graph.parent is not None:
        scopes.append(graph.name)
        graph = graph.parent
    if len(scopes) == 1:
        return ["ticks", "iterations"]
    return ["ticks", *(f"iterations of {name}" for name in reversed(scopes))]
