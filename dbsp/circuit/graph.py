"""The circuit graph: nodes hold operators, edges are streams, scopes are graphs within graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import networkx as nx

from dbsp.circuit.call_site import call_site
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import StrictOperator
from dbsp.circuit.program_place import columns_text
from dbsp.circuit.public_names import PublicNames
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, DbspError


class Node:
    """An operator in a graph, with the streams it reads.

    `inputs` are read in the same step; `strict` ones are read as they were one step before, so
    they may come from anywhere in the graph, the node's own consumers included.
    """

    __slots__ = ("graph", "id", "inputs", "is_set", "operator", "schema", "source", "strict")

    def __init__(
        self,
        graph: Graph,
        id: int,
        operator: Operator,
        inputs: tuple[Stream, ...],
        schema: Schema,
        source: str,
    ) -> None:
        self.graph = graph
        self.id = id
        self.operator = operator
        self.inputs = inputs
        self.strict: tuple[Stream, ...] = ()
        self.schema = schema
        self.source = source
        self.is_set: bool = operator.yields_set([stream.node.is_set for stream in inputs])

    @property
    def label(self) -> str:
        return self.operator.label

    @property
    def columns(self) -> str:
        """The columns with their types, in the words of the program that made the node."""
        return columns_text(self.source, self.schema)

    def describe(self) -> str:
        """The node as an error names it: operator and the line of the user's that made it."""
        return placed(self.operator.name, self.source)

    def __repr__(self) -> str:
        return f"<{self.graph.name}#{self.id} {self.label}>"


class Stream(metaclass=PublicNames):
    """The output of a node: at every tick one Z-set over `schema`."""

    __slots__ = ("node",)
    public_names: tuple[str, ...] = ("schema",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def graph(self) -> Graph:
        return self.node.graph

    @property
    def schema(self) -> Schema:
        """The names and types of the columns."""
        return self.node.schema

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        return f"<stream of {self.node!r}: {self.schema.describe()}>"


S = TypeVar("S", bound=Stream)


class Graph(metaclass=PublicNames):
    """Nodes in the order they were added, which is an order they can be stepped in.

    A node is added with its inputs, so cycles can only be closed afterwards, by `connect` on a
    strict operator. A graph with a parent is a nested scope: streams of the ancestors enter it
    through an operator made by `entering`.
    """

    stream_class: type[Stream] = Stream
    public_names: tuple[str, ...] = ("name", "validate", "to_json", "to_networkx", "content_hash", "same_as")

    def __init__(self, name: str, parent: Graph | None = None) -> None:
        self.name = name
        self.parent = parent
        if parent is not None:
            self.stream_class = parent.stream_class
        self.nodes: list[Node] = []
        self.exports: list[Stream] = []
        """The streams of a nested scope that are taken out of it."""
        self.named: dict[str, Stream] = {}
        """The streams that are relations of the query, in this scope or a nested one."""
        self._entered: dict[Node, Stream] = {}
        self._source: str | None = None

    @property
    def entered(self) -> dict[Node, Stream]:
        """Outer nodes whose streams enter this scope, with the stream inside, in order."""
        return self._entered

    def add(self, operator: Operator, *inputs: S) -> S:
        """Append a node reading `inputs`, in the innermost of their scopes.

        Raises CircuitError when the inputs belong to different circuits and SchemaError when their
        columns do not fit the operator, both naming the operator and the user's own line.
        """
        source = self.current_source()
        try:
            target = self._innermost(inputs)
            entered = tuple(target.enter(stream) for stream in inputs)
            schema = operator.schema(*(stream.schema for stream in entered))
        except DbspError as error:
            error.where = error.where or placed(operator.name, source)
            raise
        return target.append(operator, entered, schema, source)  # type: ignore[return-value]

    def add_source(self, operator: Operator) -> Stream:
        """Append a node without inputs to this very scope."""
        return self.append(operator, (), operator.schema(), self.current_source())

    def append(self, operator: Operator, inputs: tuple[Stream, ...], schema: Schema, source: str) -> Stream:
        """Append a node whose inputs are known to fit; used by `add` and by graph rewriting."""
        node = Node(self, len(self.nodes), operator, inputs, schema, source)
        self.nodes.append(node)
        return self.stream_class(node)

    def connect(self, stream: Stream, *strict: Stream) -> None:
        """Close a cycle: the node of `stream` reads `strict` as they were one step before."""
        node = stream.node
        try:
            if not isinstance(node.operator, StrictOperator) or not node.operator.strict:
                raise CircuitError("a cycle must pass through a strict operator (a delay); this one is not")
            if node.strict:
                raise CircuitError("the input of this delay is connected already")
            entered = tuple(node.graph.enter(s) for s in strict)
            node.operator.accept(*(s.schema for s in entered))
        except DbspError as error:
            error.where = error.where or node.describe()
            raise
        node.strict = entered

    def enter(self, stream: S) -> S:
        """The stream as seen inside this scope; streams of this very graph are returned as is."""
        if stream.graph is self:
            return stream
        inside = self._entered.get(stream.node)
        if inside is not None:
            return inside  # type: ignore[return-value]
        if self.parent is None:
            raise _scope_mismatch(stream.graph, self)
        outer = self.parent.enter(stream)
        inside = self._entered.get(outer.node)
        if inside is None:
            inside = self.append(self.entering(outer), (), outer.schema, self.current_source())
            self._entered[outer.node] = inside
        return inside  # type: ignore[return-value]

    def entering(self, outer: Stream) -> Operator:
        """The operator by which an outer stream enters this scope."""
        raise CircuitError(f"'{self.name}' is not a nested scope")

    def outer_of(self, stream: Stream) -> Stream:
        """The stream of the parent that enters this scope as `stream`."""
        for outer, inside in self._entered.items():
            if inside.node is stream.node:
                return self.stream_class(outer)
        raise CircuitError("this stream does not come from outside", where=stream.node.describe())

    def settings(self) -> dict[str, int | str]:
        """What a nested scope is made with besides its name, for writing it down."""
        return {}

    def to_networkx(self) -> nx.MultiDiGraph:
        """The circuit as a networkx graph with attributes (see `dbsp.circuit.networkx_form`)."""
        from dbsp.circuit.networkx_form import to_networkx

        return to_networkx(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """The circuit as JSON text, for `dbsp.from_json`.

        Raises CircuitError naming the node that holds a function that cannot be imported by name.
        """
        from dbsp.circuit.graph_json import to_json

        return to_json(self, indent=indent)

    def content_hash(self) -> str:
        """A hash of what the circuit is, not of where it was built; the same in every process."""
        from dbsp.circuit.graph_json import content_hash

        return content_hash(self)

    def same_as(self, other: Graph) -> bool:
        """Return whether both circuits have equal nodes in the same order; see `content_hash`.

        Parameters:
            other: the circuit to compare with.

        Returns:
            True if both have the same `content_hash`.

        Examples:
            >>> dbsp.Circuit("empty").same_as(dbsp.Circuit("empty"))
            True
        """
        return self.content_hash() == other.content_hash()

    @property
    def root(self) -> Graph:
        graph = self
        while graph.parent is not None:
            graph = graph.parent
        return graph

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def _innermost(self, inputs: Sequence[Stream]) -> Graph:
        """The deepest graph of the inputs; its own ancestors must hold all the others."""
        if not inputs:
            return self
        deepest = max((stream.graph for stream in inputs), key=lambda graph: graph.depth)
        for stream in inputs:
            graph: Graph | None = deepest
            while graph is not None and graph is not stream.graph:
                graph = graph.parent
            if graph is None:
                raise _scope_mismatch(stream.graph, deepest)
        return deepest

    @contextmanager
    def at(self, source: object) -> Iterator[None]:
        """Nodes added inside the block have this source, such as the place of a rule."""
        previous, self._source = self._source, source if isinstance(source, str) else str(source)
        try:
            yield
        finally:
            self._source = previous

    def current_source(self) -> str:
        """`file:line` of the innermost caller outside this package, or what `at` was given."""
        graph: Graph | None = self
        while graph is not None:
            if graph._source is not None:
                return graph._source
            graph = graph.parent
        return call_site()

    def validate(self) -> None:
        """Check what building cannot: every strict operator connected, no cycle without one.

        Raises CircuitError naming the nodes. O(nodes + edges).
        """
        for node in self.nodes:
            for child in node.operator.children():
                child.validate()
        if all(stream.node.id < node.id for node in self.nodes for stream in node.inputs):
            return  # every node stands behind its inputs, as building it leaves it
        edges = nx.DiGraph([(s.node, node) for node in self.nodes for s in node.inputs])
        try:
            cycle = nx.find_cycle(edges)
        except nx.NetworkXNoCycle:
            return
        path = " -> ".join(edge[0].describe() for edge in cycle)
        raise CircuitError(f"cycle without a delay: {path}; put a delay (z^-1) into it")

    def walk(self) -> Iterator[Node]:
        """Every node, those of nested scopes included."""
        for node in self.nodes:
            yield node
            for child in node.operator.children():
                yield from child.walk()

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        return f"<circuit '{self.name}': {len(self.nodes)} nodes>"


def _scope_mismatch(origin: Graph, other: Graph) -> CircuitError:
    """What is wrong with using a stream of `one` in `other`, which is not inside of it."""
    if origin.root is other.root:
        return CircuitError(
            f"a stream inside scope '{origin.name}' cannot be used outside of it; "
            "take it out with scope.leave(stream)"
        )
    return CircuitError(
        f"inputs belong to circuits '{origin.root.name}' and '{other.root.name}'; "
        "connect them inside one circuit"
    )


def placed(name: str, source: str) -> str:
    """`Join at etl.py:41`, or just the name where no line is known."""
    return f"{name} at {source}" if source else name
