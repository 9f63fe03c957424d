"""The circuit graph: nodes hold operators, edges are streams, scopes are graphs within graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.call_site import call_site
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import StrictOperator
from dbsp.circuit.program_place import columns_text
from dbsp.circuit.public_names import PublicNames
from dbsp.data.schema import Schema
from dbsp.display.displayed import Displayed
from dbsp.errors import CircuitError, DbspError, counted, wrong_argument

if TYPE_CHECKING:
    import networkx as nx


class Node:
    """An operator in a graph, with the streams it reads.

    `inputs` are read in the same step; `strict` inputs are read as they were one step before, so
    they may come from any node of the graph, including consumers of this node.
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

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        state = {name: getattr(self, name) for name in self.__slots__}
        return None, state | {"strict": ()}

    @property
    def label(self) -> str:
        return self.operator.label

    @property
    def columns(self) -> str:
        """The columns with their types, in the words of the program that made the node."""
        return columns_text(self.source, self.schema)

    def describe(self) -> str:
        """Return the node as errors name it: the operator and the source line that built it."""
        return placed(self.operator.name, self.source)

    def __repr__(self) -> str:
        return f"<{self.graph.name}#{self.id} {self.label}>"


class Stream(Displayed, metaclass=PublicNames):
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

    _described_by = "dbsp.circuit.graph_display:stream_document"

    def __repr__(self) -> str:
        return f"<stream of {self.node!r}: {self.schema.describe()}>"


class AddedAt:
    """A block of statements in which the nodes that are added to a graph have this source."""

    __slots__ = ("_graph", "_previous", "_source")

    def __init__(self, graph: Graph, source: str) -> None:
        self._graph = graph
        self._source = source

    def __enter__(self) -> None:
        self._previous = self._graph._source
        self._graph._source = self._source

    def __exit__(self, *exception: object) -> None:
        self._graph._source = self._previous


S = TypeVar("S", bound=Stream)


class Graph(Displayed, metaclass=PublicNames):
    """Nodes in the order in which they were added, which is a valid order of execution.

    A node is added with its inputs, so a cycle is closed afterwards, by `connect` on a strict
    operator. A graph with a parent is a nested scope: streams of the ancestors enter it through the
    operator that `entering` returns.
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
        """The streams of a nested scope that leave it."""
        self.named: dict[str, Stream] = {}
        """The streams that are relations of the query, in this scope or a nested one."""
        self.origins: dict[Node, Stream] = {}
        """By node of the query, in any scope, the stream that has the same rows, if there is one.

        Empty in the query itself."""
        self._entered: dict[Node, Stream] = {}
        self._source: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Strict inputs are pickled after all nodes: pickle would recurse along the whole cycle.
        strict = [(node, node.strict) for node in self.nodes if node.strict]
        return self.__dict__ | {"strict": strict, "origins": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for node, streams in state.pop("strict"):
            node.strict = streams
        self.__dict__ |= state

    @property
    def entered(self) -> dict[Node, Stream]:
        """Outer nodes whose streams enter this scope, with the stream inside, in order."""
        return self._entered

    def add(self, operator: Operator, *inputs: S, schema: Schema | None = None) -> S:
        """Append a node that reads `inputs`, in the innermost of their scopes.

        `schema` is the schema of the output, if the operator has been checked before over inputs
        with these schemas.

        Raises CircuitError if the inputs belong to different circuits and SchemaError if their
        columns do not fit the operator. Both name the operator and the source line of the caller.
        """
        try:
            target = self._innermost(inputs)
            entered = tuple([target.enter(stream) for stream in inputs])
        except DbspError as error:
            error.where = error.where or placed(operator.name, self.current_source())
            raise
        return target.add_inside(operator, entered, schema)  # type: ignore[return-value]

    def add_source(self, operator: Operator) -> Stream:
        """Append a node without inputs to this scope."""
        return self.add_inside(operator, ())

    def add_inside(
        self, operator: Operator, inputs: tuple[Stream, ...], schema: Schema | None = None
    ) -> Stream:
        """Append a node that reads streams of this scope, after the checks of `add`."""
        source = self.current_source()
        try:
            if schema is None:
                schema = operator.checked_schema(*[stream.node.schema for stream in inputs])
            operator.check_inputs(self, inputs)
        except DbspError as error:
            error.where = error.where or placed(operator.name, source)
            raise
        return self.append(operator, inputs, schema, source)

    def append(self, operator: Operator, inputs: tuple[Stream, ...], schema: Schema, source: str) -> Stream:
        """Append a node without checking its inputs; used by `add` and by graph rewriting."""
        node = Node(self, len(self.nodes), operator, inputs, schema, source)
        self.nodes.append(node)
        return self.stream_class(node)

    def connect(self, stream: Stream, *strict: Stream) -> None:
        """Close a cycle: the node of `stream` reads `strict` as they were one step before."""
        node = stream.node
        try:
            if not isinstance(node.operator, StrictOperator) or not node.operator.strict:
                raise CircuitError(
                    "expected a delay to close the cycle at; make one with circuit.feedback(...)",
                    code="cycle-without-delay",
                )
            if node.strict:
                raise CircuitError(
                    f"{node.operator.label} already has an input; define or connect it once",
                    code="duplicate-definition",
                )
            entered = tuple(node.graph.enter(s) for s in strict)
            node.operator.accept(*(s.schema for s in entered))
            node.operator.check_strict(node, entered)
        except DbspError as error:
            error.where = error.where or node.describe()
            raise
        node.strict = entered

    def enter(self, stream: S) -> S:
        """Return the stream inside this scope; a stream of this graph is returned unchanged."""
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

    def carry_names(self, source: Graph, images: Mapping[Node, Stream]) -> None:
        """Give the names and origins of the streams of `source` to their images in this graph."""
        for name, stream in source.named.items():
            if stream.node in images:
                self.named[name] = images[stream.node]
        if source.parent is not None:
            return  # the circuit around it has the origins of all scopes
        if source.origins:
            pairs = [(origin, stream.node) for origin, stream in source.origins.items()]
        else:
            pairs = [(node, node) for node in source.walk()]
        for origin, node in pairs:
            if node in images:
                self.origins[origin] = images[node]

    def entering(self, outer: Stream) -> Operator:
        """Return the operator by which an outer stream enters this scope."""
        raise CircuitError(f"expected a nested scope, got the circuit '{self.name}'", code="scope-misuse")

    def outer_of(self, stream: Stream) -> Stream:
        """Return the stream of the parent that enters this scope as `stream`."""
        for outer, inside in self._entered.items():
            if inside.node is stream.node:
                return self.stream_class(outer)
        raise CircuitError(
            f"expected a stream that enters scope '{self.name}' from outside",
            where=stream.node.describe(),
            code="scope-misuse",
        )

    def settings(self) -> dict[str, int | str]:
        """Return the arguments of a scope or a circuit besides its name, for `to_json`."""
        return {}

    @ends_at_caller
    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the circuit as a networkx graph with attributes, nested scopes included.

        Examples:
            >>> circuit = Circuit("copy")
            >>> circuit.output("out", circuit.input("a", x=int))
            >>> list(circuit.to_networkx().nodes(data="label"))
            [('0', 'Input a'), ('1', 'Output out')]
        """
        from dbsp.circuit.networkx_form import to_networkx

        return to_networkx(self)

    @ends_at_caller
    def to_json(self, *, indent: int | None = None) -> str:
        """Return the circuit as JSON text, which `dbsp.from_json` reads.

        Parameters:
            indent: the number of blanks per level; everything in one line if None.

        Raises:
            CircuitError: a node holds a function that cannot be imported by its name, or this is a
                nested scope.

        Examples:
            >>> circuit = Circuit("copy")
            >>> circuit.output("out", circuit.input("a", x=int))
            >>> from_json(circuit.to_json()).start().step({"a": [(1,)]})["out"].to_dict()
            {(1,): 1}
        """
        from dbsp.circuit.graph_json import to_json

        return to_json(self, indent=indent)

    @ends_at_caller
    def content_hash(self) -> str:
        """Return a hash of the operators and their connections; equal in every process.

        Source lines do not count: equal circuits built at different places have equal hashes.

        Raises:
            CircuitError: as for `to_json`.

        Examples:
            >>> one, other = Circuit("c"), Circuit("c")
            >>> one.content_hash() == other.content_hash(), len(one.content_hash())
            (True, 64)
        """
        from dbsp.circuit.graph_json import content_hash

        return content_hash(self)

    @ends_at_caller
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
        if not isinstance(other, Graph):
            raise wrong_argument("other", "a circuit", other)
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
        """Return the deepest graph of the inputs; all others must be its ancestors."""
        if not inputs:
            return self
        first = inputs[0].graph
        if all(stream.node.graph is first for stream in inputs):
            return first
        deepest = max((stream.graph for stream in inputs), key=lambda graph: graph.depth)
        for stream in inputs:
            graph: Graph | None = deepest
            while graph is not None and graph is not stream.graph:
                graph = graph.parent
            if graph is None:
                raise _scope_mismatch(stream.graph, deepest)
        return deepest

    def at(self, source: object) -> AddedAt:
        """Record `source`, such as the position of a rule, for the nodes added in the block."""
        return AddedAt(self, source if isinstance(source, str) else str(source))

    def current_source(self) -> str:
        """Return the argument of `at`, or `file:line` of the caller outside this package."""
        graph: Graph | None = self
        while graph is not None:
            if graph._source is not None:
                return graph._source
            graph = graph.parent
        return call_site()

    def validate(self) -> None:
        """Check that every cycle passes through a delay and that every delay has an input.

        O(nodes + edges). `start` does this too.

        Raises:
            CircuitError: a cycle without a delay, or a delay without an input; names the nodes.

        Examples:
            >>> circuit = Circuit("copy")
            >>> circuit.output("out", circuit.input("a", x=int))
            >>> circuit.validate()
        """
        for node in self.nodes:
            for child in node.operator.children():
                child.validate()
        if all(stream.node.id < node.id for node in self.nodes for stream in node.inputs):
            return  # every node comes after its inputs, as in every graph that `add` built
        import networkx as nx  # slow to import

        edges = nx.DiGraph([(s.node, node) for node in self.nodes for s in node.inputs])
        try:
            cycle = nx.find_cycle(edges)
        except nx.NetworkXNoCycle:
            return
        path = " -> ".join(edge[0].describe() for edge in cycle)
        raise CircuitError(
            f"cycle without a delay: {path}; add a delay to it with circuit.feedback(...)",
            code="cycle-without-delay",
        )

    def walk(self) -> Iterator[Node]:
        """Yield every node, including those of nested scopes."""
        for node in self.nodes:
            yield node
            for child in node.operator.children():
                yield from child.walk()

    def __dir__(self) -> list[str]:
        return dir(type(self))

    _described_by = "dbsp.circuit.graph_display:graph_document"

    def __repr__(self) -> str:
        return f"<circuit '{self.name}': {counted(len(self.nodes), 'node')}>"


def _scope_mismatch(origin: Graph, other: Graph) -> CircuitError:
    """Return the error of using a stream of `origin` in `other`, which is not inside it."""
    if origin.root is other.root:
        return CircuitError(
            f"a stream inside scope '{origin.name}' cannot be used outside it; "
            "use scope.leave(stream) instead",
            code="scope-misuse",
        )
    names = f"'{origin.root.name}' and '{other.root.name}'"
    if origin.root.name == other.root.name:
        names = f"both called '{origin.root.name}'"
    return CircuitError(
        f"the inputs belong to different circuits, {names}; build both in one circuit",
        code="different-circuits",
    )


def placed(name: str, source: str) -> str:
    """Return `Join at etl.py:41`, or the name alone if the line is not known."""
    return f"{name} at {source}" if source else name
