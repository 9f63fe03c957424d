"""What an operator is: a frozen specification, and a step that runs it.

The specification says what is computed; it validates its inputs, names itself in drawings and
errors, and can be compared and hashed. Its step is made once per run and holds the state. The
graph, the scheduler and the drawing know operators only through these two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph, Node, Stream
    from dbsp.circuit.rewriting import Rewriting
    from dbsp.data.interner import Interner
    from dbsp.runtime.scope import Scope
    from dbsp.state.trace import Trace

S = TypeVar("S", bound="Stream")

Time: TypeAlias = tuple[int, ...]
"""A time within a tick: the iteration of each nested scope, outermost first."""


@dataclass(frozen=True, slots=True)
class TermRows:
    """What one delta term of a multi-way join has met since its step was made.

    `atom` is the input whose changes it takes, `changed` counts their rows. `levels` has for each
    variable that the term binds, in order, how many prefixes were bound up to it.
    """

    atom: int
    changed: int
    levels: tuple[tuple[str, int], ...]


class Step:
    """One node at run time. `step` reads the inputs' `out` and sets its own.

    `out` is this step's delta as a consolidated batch, or None when nothing changed. It is valid
    until the node is stepped again.
    """

    __slots__ = ("node", "out")

    node: Node
    out: Batch | None

    def __init__(self) -> None:
        self.out = None

    def step(self) -> None:
        raise AssertionError(f"{type(self).__name__} does not say how it steps")

    @property
    def evaluation(self) -> str | None:
        """How it is evaluated at present, in words, for a step that has a choice."""
        return None

    def connect(self, strict: Sequence[Step]) -> None:
        """Receive the strict inputs' steps, which may come later in the schedule."""

    def advance(self) -> bool:
        """End an iteration of a nested scope; True when something goes into the next one."""
        return False

    def next_time(self) -> Time | None:
        """The earliest later time at which this step has work waiting (nested scopes)."""
        return None

    def reset(self) -> None:
        """Begin the iterations of a nested scope anew (strict steps)."""

    def forget(self) -> None:
        """Let go of the latest delta."""
        self.out = None

    def memory(self) -> Any:
        """What the step remembers between ticks that is in no trace or table; None if nothing.

        Written to checkpoints, so made of plain values and batches; handed to another step of an equal
        operator when a run goes on with another circuit.
        """
        return None

    def recall(self, memory: Any) -> None:
        """Remember again what `memory` once gave, before the first step."""

    def integral(self) -> Batch:
        """The sum of all deltas so far, for an operator that keeps it (`Operator.keeps_integral`).

        Of an arrangement it is the integral of the stream it arranges, in that stream's column order.
        """
        raise AssertionError(f"{type(self).__name__} does not keep its integral")

    @property
    def kept_rows(self) -> int:
        """How many rows are kept for `integral`; no less than it has, but for parts not merged yet."""
        return 0 if self.trace is None else self.trace.rows

    def replay(self) -> None:
        """Set `out` to the integral of the output, as if all of the past had come in this step.

        For an operator that can do it (`Operator.replays`); the inputs need not be replayed for it.
        """
        raise AssertionError(f"{type(self).__name__} cannot replay its past")

    @property
    def trace(self) -> Trace | None:
        """The trace this step keeps itself, for statistics."""
        return None

    @property
    def join_terms(self) -> tuple[TermRows, ...]:
        """What the delta terms of a multi-way join have met."""
        return ()


class Arranged(Step):
    """A step whose consumers also read a trace of its stream (see `dbsp.operators.traces.arrange`)."""

    __slots__ = ()

    @property
    def before(self) -> int:
        """Runs of the trace that hold the integral without this step's delta."""
        raise AssertionError("an arranged step says what its trace held before")

    @property
    def table(self) -> Codes:
        """The run table to hand to kernels."""
        raise AssertionError("an arranged step has a run table")

    @property
    def count(self) -> int:
        """Runs of the trace, this step's delta included."""
        raise AssertionError("an arranged step counts its runs")

    @property
    def coordinates(self) -> int:
        """How many columns at the end of a run row hold its time: the nested scopes around it."""
        return 0


def expect_arranged(node: Node, sources: Sequence[Step]) -> list[Arranged]:
    """Return the input steps of a node, all of which are arrangements; raise InvariantError if not."""
    arranged = [source for source in sources if isinstance(source, Arranged)]
    if len(arranged) < len(sources):
        names = ", ".join(type(source).__name__ for source in sources)
        message = f"expected arrangements as inputs, got {names}; this is a defect of dbsp"
        raise InvariantError(message, where=node.describe())
    return arranged


class Evaluated(Step):
    """Runs an operator pointwise: its function of batches applied to the inputs of this step.

    That is the whole story for linear operators, which are their own incremental form (DBSP paper,
    theorem 3.3). They map nothing to nothing, so quiet inputs cost nothing.
    """

    __slots__ = ("_empty", "_function", "_sources")

    def __init__(
        self, function: Callable[..., Batch], sources: Sequence[Step], arities: Sequence[int]
    ) -> None:
        super().__init__()
        self._function = function
        self._sources = tuple(sources)
        self._empty = tuple(Batch.empty(arity) for arity in arities)

    def step(self) -> None:
        self.out = None
        for source in self._sources:
            if source.out is not None:
                break
        else:
            return
        result = self._function(
            *(
                empty if source.out is None else source.out
                for source, empty in zip(self._sources, self._empty, strict=True)
            )
        )
        if len(result):
            self.out = result


@dataclass(frozen=True, eq=True)
class Operator:
    """The specification of an operator; subclasses are frozen dataclasses of plain values.

    A linear operator gives `schema` and `function`; an operator that is not linear says how it is
    incrementalised; an operator with state says how it starts.
    """

    def __call__(self, *streams: S) -> S:
        """Add a node for this operator to the streams' circuit; returns its output stream."""
        return streams[0].graph.add(self, *streams)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def label(self) -> str:
        """One line for drawings: the name and what distinguishes this operator from its like."""
        return self.name

    @property
    def strict(self) -> bool:
        """Whether the output of a step depends on earlier steps only, so that cycles may pass."""
        return False

    @property
    def shareable(self) -> bool:
        """Whether two equal nodes over equal inputs may be made one."""
        return True

    def schema(self, *inputs: Schema) -> Schema:
        """The output's schema; raises SchemaError when the inputs do not fit."""
        raise AssertionError(f"{self.name} does not say what it yields")

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        """The operator's definition as a function of Z-sets over the given schemas."""
        raise AssertionError(f"{self.name} is not a function of Z-sets")

    def accept(self, *strict: Schema) -> None:
        """Check what is connected to the strict inputs; raises SchemaError."""

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        """Whether all weights of the result are 0 or 1, given for which inputs that holds."""
        return False

    @property
    def keeps_integral(self) -> bool:
        """Whether the step remembers its integral anyway, so that a view need not store it again."""
        return False

    @property
    def replays(self) -> bool:
        """Whether the step can hand out all of its past again from its state (`Step.replay`)."""
        return False

    @property
    def monotone(self) -> bool:
        """Whether more rows in never mean fewer rows out: f(a) <= f(a + b), for all a, b >= 0."""
        return False

    def depends_on_ticks(self, node: Node) -> bool:
        """Whether what it has put out depends on the ticks in which rows came, not only on their sum.

        The state of such an operator cannot be made again from the integrals of its inputs.
        """
        return self.law == "changes"

    def fingerprint(self, node: Node) -> Hashable:
        """What tells the operator of a node from others: over equal inputs, equals compute the same."""
        return self

    @property
    def law(self) -> str:
        """The rule by which the operator is incrementalised (see `dbsp.operators.stages.laws`)."""
        return "linear"

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The operator in terms of simpler ones, for one that is defined that way; else itself."""
        return self.copy(rewriting, node, inputs)

    def copy(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The same operator over the new inputs; what holds cycles or scopes copies them too."""
        return rewriting.add(self, *inputs, graph=rewriting.graph_of(node.graph))

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The incremental form over deltas as it is run: with shared traces in place of integrals."""
        return self.copy(rewriting, node, inputs)

    def prune(self, node: Node, readers: Sequence[Node]) -> bool:
        """Drop what this operator holds inside it and none of `readers` asks for (see `dbsp.circuit.prune`).

        True when the node reads fewer streams than before.
        """
        return False

    @property
    def is_port(self) -> bool:
        """Whether the node faces the outside and so is never dropped."""
        return False

    def start(self, node: Node, sources: Sequence[Step], scope: Scope) -> Step:
        """The step that runs this operator inside `scope`."""
        schemas = [stream.schema for stream in node.inputs]
        function = self.function(scope.interner, *schemas)
        return Evaluated(function, sources, [schema.arity for schema in schemas])

    def children(self) -> Sequence[Graph]:
        """Nested scopes, for drawing and validation."""
        return ()
