"""`Circuit`: build a circuit of streams, and start it.

>>> from dbsp import Circuit
>>> circuit = Circuit("closure")
>>> edge = circuit.input("edge", x=int, y=int)
>>> with circuit.fixpoint("path") as scope:
...     path = scope.variable("path", edge.schema)
...     step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
...     scope.define(path, (edge + step.rename(x="x", y="y_right")).distinct())
>>> circuit.output("path", scope.leave(path))
>>> run = circuit.start()
>>> run.step({"edge": {(1, 2): 1, (2, 3): 1}})["path"].rows()
[(1, 2), (1, 3), (2, 3)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit import graph
from dbsp.circuit.stage import Stage, StageName
from dbsp.data.schema import Schema, as_schema
from dbsp.data.zset import ZSet
from dbsp.display.report_text import Report
from dbsp.durable.step_memory import signature
from dbsp.errors import ArgumentError, CircuitError, SchemaError, choice, shorten, wrong_argument
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.modes import Recursion, RecursionName
from dbsp.operators.stages import circuit_stages
from dbsp.operators.stages.circuit_context import CircuitContext
from dbsp.operators.stages.join_strategy import JoinStrategy, JoinStrategyName
from dbsp.operators.stages.passes.distribute import ScopePolicy, ScopePolicyName
from dbsp.operators.stages.stage_report import explain
from dbsp.operators.streams.fit import expect_function, expect_stream, located, widened
from dbsp.operators.streams.fixpoint_builder import FixpointBuilder
from dbsp.operators.streams.sharded_start import (
    expect_scopes,
    expect_shards,
    open_shard_folder,
    start_sharded,
)
from dbsp.operators.streams.stream import Stream, own_stream
from dbsp.operators.time.delay import Delay
from dbsp.runtime.checkpoints import Checkpoint, open_checkpoint
from dbsp.runtime.memory import capacity_of
from dbsp.runtime.run import Run
from dbsp.runtime.ticks import Ticks
from dbsp.runtime.unknown_members import unknown_before_start

if TYPE_CHECKING:
    from dbsp.circuit.circuit_drawing import CircuitDrawing, Stages
    from dbsp.circuit.pictures.grouping import Collapse
    from dbsp.circuit.pictures.selection import PathMeasure
    from dbsp.durable.moments import Moment
    from dbsp.durable.past_run import PastRun
    from dbsp.operators.streams.sharded_start import ShardedPlace
    from dbsp.shards.sharded_run import ShardedRun


InputKind: TypeAlias = Literal["zset", "set", "external"]
"""What a change of an input means; see `Circuit.input`."""


@methods_end_at_caller
class Circuit(graph.Graph):
    """A dataflow circuit over Z-sets, built stream by stream; `start` runs it incrementally.

    Chains of `join` outside of scopes are planned. With "auto", a cyclic chain, such as the joins
    that find triangles, becomes a multi-way join, and an acyclic one stays as written. "binary"
    orders two-way joins by the shape of the chain, and "wcoj" makes one multi-way join of each
    chain. "as-written" keeps all joins. The strategy changes the cost and no row; the stream of a
    replaced join cannot be read from a run any more. `explain` shows the replaced joins.

    Parameters:
        name: the name of the circuit.
        strategy: "auto", "binary", "wcoj" or "as-written".

    Raises:
        ArgumentError: `strategy` is unknown.

    Examples:
        >>> circuit = Circuit("orders")
        >>> order = circuit.input("order", id=int, price=float)
        >>> circuit.output("large", order.filter(col("price") > 5.0))
        >>> circuit.start().step({"order": [(1, 3.0), (2, 7.5)]})["large"].rows()
        [(2, 7.5)]
    """

    stream_class = Stream
    public_names = (
        "name",
        "strategy",
        "input",
        "constant",
        "output",
        "fixpoint",
        "feedback",
        "connect",
        "iterate",
        "start",
        "open",
        "explain",
        "validate",
        "circuit",
        "draw",
        "to_json",
        "to_networkx",
        "content_hash",
        "same_as",
    )

    def __init__(
        self, name: str = "circuit", *, strategy: JoinStrategy | JoinStrategyName = JoinStrategy.AUTO
    ) -> None:
        super().__init__(name)
        self._strategy = choice("strategy", JoinStrategy, strategy)
        self._relations: dict[str, set[str]] = {"input": set(), "output": set()}

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name):
            # Copy, pickle and others look up names with underscores.
            if name.startswith("_"):
                raise AttributeError(name)
            raise unknown_before_start("circuit", name, self.public_names, Run.public_names)

    @property
    def strategy(self) -> JoinStrategy:
        """How the planner may change the joins of this circuit."""
        return self._strategy

    def settings(self) -> dict[str, int | str]:
        return {} if self._strategy is JoinStrategy.AUTO else {"strategy": self._strategy.value}

    @located("Input")
    def input(
        self,
        name: str,
        /,
        *,
        schema: Schema | Mapping[str, Any] | None = None,
        kind: InputKind = "zset",
        key: str | Sequence[str] = (),
        **columns: Any,
    ) -> Stream:
        """Declare an input relation.

        `run.step` takes its changes. What a change means depends on the kind of the input:

            kind="zset"    any weights; a change is added to the relation
            kind="set"     a positive weight asserts a row, a negative weight retracts it
            key=("id",)    a positive weight replaces the row of its key, a negative one removes it
            kind="external"  exact deltas of a set of rows that an index keeps outside of the run
                           (see `dbsp.state.external_traces`)

        Parameters:
            name: the name of the input.
            schema: the columns, as a `Schema` or a mapping from names to types; needed for columns
                called `schema`, `kind` or `key`.
            kind: "zset", "set" or "external".
            key: the key columns, a name or several; the relation has at most one row per key.
            columns: the columns, by name, instead of `schema`.

        Returns:
            The stream of the input.

        Raises:
            SchemaError: there are no columns, a type is not valid, a key column does not exist, or
                `kind` is unknown.
            ArgumentError: `kind` or `key` is a type instead of text.
            CircuitError: the circuit already has an input of this name.

        Examples:
            >>> circuit = Circuit("people")
            >>> person = circuit.input("person", id=int, name=str, key="id")
            >>> circuit.output("person", person)
            >>> run = circuit.start()
            >>> run.step({"person": [(1, "Ada")]})["person"].to_dict()
            {(1, 'Ada'): 1}
            >>> run.step({"person": [(1, "Eva")]})["person"].to_dict()
            {(1, 'Ada'): -1, (1, 'Eva'): 1}
        """
        _expect_text(kind, "kind", "'zset' or 'set'")
        for part in (key,) if isinstance(key, str) or not isinstance(key, Iterable) else key:
            _expect_text(part, "key", "the name of a key column or a list of names")
        if (schema is None) == (not columns):
            raise SchemaError(
                f"expected the columns of '{name}' either as schema={{'x': int}} or by name, x=int",
                code="invalid-argument",
            )
        declared = as_schema(columns) if schema is None else as_schema(schema)
        if not key and kind not in ("zset", "set", "external"):
            raise SchemaError(
                f"kind= of '{name}' expects 'zset' or 'set', got {kind!r}; for one row per key give key=",
                code="invalid-argument",
            )
        indices = declared.indices(key)
        declared.select(indices)  # raises SchemaError for a column that occurs twice
        self.declare("input", name)
        stream = own_stream(self.add_source(Input(name, declared, "key" if key else kind, indices)))
        self.named[name] = stream
        return stream

    @located("Constant")
    def constant(self, rows: Iterable[Any] | Mapping[Any, int], schema: Schema | Mapping[str, Any]) -> Stream:
        """Declare a relation that holds the given rows from the first tick on.

        Parameters:
            rows: an iterable of rows, or a mapping from rows to weights.
            schema: the columns of the rows.

        Returns:
            The stream of the rows: all of them in the first tick, no change afterwards.

        Raises:
            SchemaError: `schema` is not valid.
            InputError: a row does not fit the schema.

        Examples:
            >>> circuit = Circuit("units")
            >>> circuit.output("unit", circuit.constant([("m",), ("kg",)], {"name": str}))
            >>> circuit.start().step()["unit"].rows()
            [('kg',), ('m',)]
        """
        value = ZSet(rows, as_schema(schema))
        return own_stream(self.add_source(Constant(tuple(value.items()), value.schema)))

    @located("Fixpoint")
    def fixpoint(
        self,
        name: str,
        *,
        max_iterations: int = 100_000,
        recursion: Recursion | RecursionName = Recursion.AUTO,
    ) -> FixpointBuilder:
        """Open a recursive scope, to be used as a context manager.

        Inside the `with` block declare variables, define each by a stream, and use outer streams
        freely. After the block `leave` returns results. A tick iterates the scope until nothing
        changes; how it is evaluated, and at what cost, is in `dbsp.operators.recursion.modes`.

        Parameters:
            name: the name of the scope, for errors and drawings.
            max_iterations: the number of iterations after which a tick raises IterationLimitError
                and changes nothing.
            recursion: "auto", "incremental" or "insert-only". A scope whose results do not only
                grow with its inputs is never evaluated insert-only.

        Returns:
            The scope, with the methods `variable`, `define`, `leave` and `fixpoint`.

        Raises:
            ArgumentError: `recursion` is not one of the modes.
            CircuitError: at the end of the block, if a variable is not defined or the scope reads
                no stream from outside.

        Examples:
            >>> circuit = Circuit("closure")
            >>> edge = circuit.input("edge", x=int, y=int)
            >>> with circuit.fixpoint("path") as scope:
            ...     path = scope.variable("path", edge.schema)
            ...     step = path.join(edge, on=[("y", "x")], select=["x", "y_right"])
            ...     scope.define(path, (edge + step.rename(y="y_right")).distinct())
            >>> circuit.output("path", scope.leave(path))
            >>> circuit.start().step({"edge": [(1, 2), (2, 3)]})["path"].rows()
            [(1, 2), (1, 3), (2, 3)]
        """
        return FixpointBuilder(self, name, max_iterations, recursion)

    @located("Fixpoint")
    def iterate(
        self,
        name: str,
        start: Stream,
        body: Callable[[Stream], Stream],
        *,
        while_: Callable[[Stream], Stream] | None = None,
        max_iterations: int = 100_000,
    ) -> Stream:
        """Apply `body` repeatedly, starting with `start`, until nothing changes.

            x[0] = start,   x[i + 1] = body(x[i])   while the stream while_(x[i]) is not empty

        The result is the x at which `body` changes nothing or the condition is empty. Composed of
        variables, semijoins and antijoins: a tick costs the changes at all iterations.

        Parameters:
            name: the name of the scope, for errors and drawings.
            start: the first value.
            body: a function from a stream to a stream with columns of the same types.
            while_: a function from a stream to a stream; the iteration ends when it is empty.
            max_iterations: the number of iterations after which a tick raises IterationLimitError
                and changes nothing.

        Returns:
            A stream with the columns of `start`.

        Raises:
            SchemaError: `body` returns a stream with other columns.
            ArgumentError: `start` is not a stream.

        Examples:
            >>> circuit = Circuit("halve")
            >>> n = circuit.input("n", x=int)
            >>> halved = circuit.iterate(
            ...     "halve", n, lambda s: s.map(x=col("x") // 2), while_=lambda s: s.filter(col("x") > 10)
            ... )
            >>> circuit.output("small", halved)
            >>> circuit.start().step({"n": [(100,)]})["small"].rows()
            [(6,)]
        """
        expect_stream(start, "iterate")
        expect_function(body, "body")
        unit = Schema((), ())
        with self.fixpoint(name, max_iterations=max_iterations) as scope:
            started = scope.variable(f"{name}, started", unit)
            later = scope.variable(name, start.schema)
            scope.define(started, self.constant([()], unit))
            x = later + start.join(started, on=[], how="anti")
            following = body(x)
            if while_ is not None:
                going = while_(x).select()
                following = following.join(going, on=[], how="semi") + x.join(going, on=[], how="anti")
            scope.define(later, following)
        return scope.leave(x)

    def feedback(self, schema: Schema | Mapping[str, Any]) -> Stream:
        """Return the delayed end of a cycle; `connect` closes the cycle later.

            feedback[t] = s[t - 1],   feedback[0] = 0      s the stream given to `connect`

        Parameters:
            schema: the columns of the stream.

        Returns:
            A stream that can be used before the stream it depends on exists.

        Raises:
            SchemaError: `schema` is not valid.

        Examples:
            >>> circuit = Circuit("sums")
            >>> n = circuit.input("n", x=int)
            >>> before = circuit.feedback({"x": int})
            >>> total = n + before
            >>> circuit.connect(before, total)
            >>> circuit.output("total", total)
            >>> run = circuit.start()
            >>> run.step({"n": [(1,)]})["total"].to_dict(), run.step({"n": [(2,)]})["total"].to_dict()
            ({(1,): 1}, {(1,): 1, (2,): 1})
        """
        return own_stream(self.add_source(Delay(as_schema(schema))))

    @located("Delay")
    def connect(self, stream: graph.Stream, *strict: graph.Stream) -> None:
        """Close a cycle: `stream` becomes `strict`, one tick later.

        Parameters:
            stream: a stream that `feedback` returned.
            strict: the stream to delay.

        Raises:
            CircuitError: `stream` is not a feedback, or it is already connected.
            SchemaError: the columns of the two streams differ.
            ArgumentError: an argument is not a stream.

        Examples:
            >>> circuit = Circuit("late")
            >>> n = circuit.input("n", x=int)
            >>> late = circuit.feedback(n.schema)
            >>> circuit.connect(late, n)
            >>> circuit.output("late", late)
            >>> run = circuit.start()
            >>> run.step({"n": [(1,)]})["late"].rows(), run.step()["late"].rows()
            ([], [(1,)])
        """
        for each in (stream, *strict):
            expect_stream(each, "connect")
        super().connect(stream, *(widened(s, stream.schema.types) for s in strict))

    @located("Output")
    def output(self, name: str, stream: Stream) -> None:
        """Declare a stream as an output; its integral becomes a view of the run.

        O(|delta| log n) per tick; the state is the integral, unless an operator already keeps it.

        Parameters:
            name: the name of the output.
            stream: the stream to emit.

        Raises:
            ArgumentError: `name` is not a string, or `stream` is not a stream.
            CircuitError: the circuit already has an output of this name, or the stream belongs to
                another circuit or a scope.

        Examples:
            >>> circuit = Circuit("names")
            >>> circuit.output("name", circuit.input("person", id=int, name=str).select("name"))
            >>> run = circuit.start()
            >>> run.step({"person": [(1, "Ada")]})["name"].rows(), run.view("name").rows()
            ([('Ada',)], [('Ada',)])
        """
        expect_stream(stream, "output")
        self.enter(stream)
        self.declare("output", name)
        Output(name)(stream)

    def validate(self) -> None:
        """Check the whole circuit; `start` and `explain` call it first.

        O(nodes + edges).

        Raises:
            CircuitError: a feedback is not connected, or a cycle has no delay.

        Examples:
            >>> circuit = Circuit("open")
            >>> end = circuit.feedback({"x": int})
            >>> try:
            ...     circuit.validate()
            ... except CircuitError as error:
            ...     print(error.message)
            this feedback has no input; call circuit.connect(feedback, stream)
        """
        for node in self.nodes:
            if isinstance(node.operator, Delay) and not node.strict:
                raise CircuitError(
                    "this feedback has no input; call circuit.connect(feedback, stream)",
                    where=node.describe(),
                    code="incomplete-circuit",
                )
        super().validate()

    def circuit(self, stage: Stage | StageName = Stage.QUERY) -> graph.Graph:
        """Return this circuit in one of its stages.

        Parameters:
            stage: "query" (as built), "incremental" (over changes), "physical" (with traces) or
                "distributed" (with exchanges between shards).

        Returns:
            A graph, for drawing and for `to_json`.

        Raises:
            ArgumentError: `stage` is unknown.
            CircuitError: the circuit is not complete (see `validate`).

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> circuit.circuit("physical")
            <circuit 'evens': 4 nodes>
        """
        self.validate()
        return circuit_stages.circuit(self, choice("stage", Stage, stage), self._context())

    def draw(
        self,
        path: str | Path | None = None,
        *,
        stage: Stages = Stage.QUERY,
        only: str | None = None,
        readers: bool = False,
        depth: int | None = None,
        collapse: Collapse | None = None,
        critical: PathMeasure | None = None,
        title: str | None = None,
    ) -> CircuitDrawing:
        """Draw this circuit.

        Parameters:
            path: a file to write, in the format of its suffix (see `CircuitDrawing.write`); by
                default no file is written.
            stage: a stage as in `circuit`, or a list of stages that are drawn side by side, with
                the same colour for the same source line.
            only: the name of a relation; only what leads to it is drawn.
            readers: draw what depends on the relation, too.
            depth: the greatest number of arrows from the relation.
            collapse: draw one node for each source line ("rules"), for each relation or recursive
                scope ("strata"), or for each scope ("scopes").
            critical: mark the longest path, by the number of its "nodes".
            title: the heading; by default the name of the circuit.

        Returns:
            The drawing, which a notebook shows as a picture.

        Raises:
            ArgumentError: an option is wrong, or the circuit has no relation `only`.
            CircuitError: the circuit is not complete (see `validate`).
            SetupError: Graphviz is not installed, and `path` needs it.

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> [node.title for node in circuit.draw(stage="physical").picture.nodes]
            ['Input n', 'Filter x % 2 == 0', 'Arrange by x', 'Output even']
        """
        from dbsp.circuit.circuit_drawing import drawing_of, picture_of_stages, stages_of  # loads slowly

        picture = picture_of_stages({name: self.circuit(name) for name in stages_of(stage)})
        return drawing_of(
            picture,
            path,
            only=only,
            readers=readers,
            depth=depth,
            collapse=collapse,
            critical=critical,
            title=title,
        )

    def explain(self, run: Run | ShardedRun | None = None) -> str:
        """Describe how the circuit is evaluated, as text.

        The text lists the rewritings, the laws of incrementalisation that were used, the traces
        with the operators that read them, the order in which multi-way joins bind variables, and
        the exchanges of the distributed circuit with their reasons.

        Parameters:
            run: a run of this circuit, to add the sizes of its traces and the number of prefixes
                that its joins have visited.

        Returns:
            The text.

        Raises:
            CircuitError: the circuit is not complete (see `validate`).

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> "trace of Filter" in circuit.explain()
            True
        """
        self.validate()
        if run is not None and not isinstance(run, Ticks):
            raise wrong_argument("run", "a run of the circuit", run)
        return Report(explain(self, run, self._strategy))

    @overload
    def start(
        self,
        stage: Stage | StageName = ...,
        *,
        checkpoint: str | Path | Checkpoint | None = ...,
        memory_limit: int | str | None = ...,
        shards: None = ...,
        scopes: None = ...,
    ) -> Run: ...

    @overload
    def start(
        self,
        stage: Stage | StageName = ...,
        *,
        checkpoint: ShardedPlace | None = ...,
        memory_limit: int | str | None = ...,
        shards: int,
        scopes: ScopePolicy | ScopePolicyName | None = ...,
    ) -> ShardedRun: ...

    def start(
        self,
        stage: Stage | StageName = Stage.PHYSICAL,
        *,
        checkpoint: ShardedPlace | Checkpoint | None = None,
        memory_limit: int | str | None = None,
        shards: int | None = None,
        scopes: ScopePolicy | ScopePolicyName | None = None,
    ) -> Run | ShardedRun:
        """Start a run of the circuit; `run.step` takes changes and returns the changes of outputs.

        All stages return the same results. "physical" is the fast one; "query" recomputes
        everything in every tick and serves as the oracle for the others; "distributed" is the
        physical circuit in the form that several shards run.

        Parameters:
            stage: "physical", "distributed", "incremental" or "query".
            checkpoint: a folder. Every tick is durable when `step` returns, and a run started on
                the same folder continues after the last tick (see `dbsp.durable`).
            memory_limit: the memory for the state: bytes, or an amount such as "500M" or "25%" of
                the machine's. The units are K, M, G and T, also as "MB" or "MiB"; K is 1024 bytes,
                M is 1024 K. The state beyond it is stored in files, in the folder `spill` of the
                checkpoint or in a temporary one, and the run continues, slower.
            shards: the number of processes that run the circuit, each on a part of the rows. The
                stage is then "physical" or "distributed", and the memory limit that of all
                together. `run.close()` ends the processes.
            scopes: where recursions run that no column divides: "gather" for the first shard,
                "exchange" for all shards together. By default they begin on the first shard, and
                are exchanged when their state is larger than the memory of a shard.

        Returns:
            A run in its initial state, or in that of the checkpoint; with `shards` a `ShardedRun`.

        Raises:
            ArgumentError: `stage` is unknown, `memory_limit` is not an amount, or `shards` not a
                number of processes.
            CircuitError: the circuit is not complete (see `validate`), or shards cannot run it.
            ShardError: a process cannot be started.
            CheckpointError: the checkpoint is damaged, in use, or of another circuit.

        Examples:
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> run = circuit.start()
            >>> run.step({"n": [(1,), (2,)]})["even"].rows()
            [(2,)]
        """
        stage = choice("stage", Stage, stage)
        limit = capacity_of(memory_limit)
        policy = expect_scopes(scopes, shards)
        if shards is not None:
            expect_shards(shards, stage)
            graph = self.runnable(Stage.PHYSICAL)
            return start_sharded(graph, shards, limit, open_shard_folder(checkpoint), scopes=policy)
        if checkpoint is None:
            return self.start_within(stage, limit, None)
        opened = open_checkpoint(checkpoint)
        return opened.resume(
            self,
            lambda written: Run(self._resumed(stage, written), memory_limit=limit, spill=opened.spill),
        )

    def start_within(self, stage: Stage | StageName, limit: int | None, spill: Path | None) -> Run:
        """Start a run whose state beyond `limit` bytes is stored in the folder `spill`."""
        return Run(self.runnable(stage), memory_limit=limit, spill=spill)

    def open(
        self,
        folder: str | Path,
        *,
        as_of: Moment | None = None,
        stage: Stage | StageName = Stage.PHYSICAL,
        allow_pickle: bool = False,
        verify: bool = True,
        memory_limit: int | str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> PastRun:
        """Open a checkpoint of this circuit as of a tick, to read it.

        Nothing is locked or changed, so a run may write to the folder meanwhile. The ticks that can
        be opened are those that `Store(folder, keep=...)` keeps. Cost: reading the snapshot before
        that tick, and repeating the ticks since then.

        Parameters:
            folder: the folder of the checkpoint.
            as_of: a tick, a datetime or the ISO text of one; by default the latest tick. A time
                means the last tick that was written until then.
            stage: the stage that `start` was called with.
            allow_pickle: whether to read pickled values, which can run any code.
            verify: whether to verify the content of large files (see `dbsp.durable.Store`).
            memory_limit: the memory for the state, as for `start`.
            progress: is called with the number of every tick that is repeated.

        Returns:
            A run at that tick, to be read only.

        Raises:
            ArgumentError: `as_of` is neither a tick nor a time.
            CircuitError: the circuit is not complete (see `validate`).
            CheckpointError: the tick is outside the history, or the folder is damaged or of another
                circuit.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> circuit = Circuit("evens")
            >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
            >>> run = circuit.start(checkpoint=folder)
            >>> _ = run.step({"n": [(1,), (2,)]})
            >>> _ = run.step({"n": [(4,)]})
            >>> circuit.open(folder, as_of=1).view("even").rows()
            [(2,)]
        """
        from dbsp.durable.past_ticks import PastTicks

        past = PastTicks(
            folder,
            self,
            lambda written: self._resumed(stage, written),
            allow_pickle=allow_pickle,
            verify=verify,
            memory_limit=capacity_of(memory_limit),
            progress=progress,
        )
        return past.open(as_of)

    def runnable(self, stage: Stage | StageName) -> graph.Graph:
        """Return the circuit that a run of this stage steps. Raises as `start`."""
        self.validate()
        return circuit_stages.runnable(self, choice("stage", Stage, stage), self._context())

    def _resumed(self, stage: Stage | StageName, written: str | None) -> graph.Graph:
        """Return the circuit that continues a checkpoint: its own one if it has another plan."""
        own = self.runnable(stage)
        if written is None or stage != Stage.PHYSICAL:
            return own
        from dbsp.operators.streams.circuit_reader import read_circuit  # it imports this module

        stored = read_circuit(written, {}, like=own)
        fits = signature(stored) in (signature(own), signature(own, whole=True))
        return own if fits else stored

    def _context(self) -> CircuitContext:
        return CircuitContext(strategy=self._strategy)

    def declare(self, kind: str, name: str) -> None:
        """Reserve a name for an "input" or "output"; raise CircuitError if it is in use."""
        if not isinstance(name, str):
            raise wrong_argument(f"the name of an {kind}", "a string", name)
        if name in self._relations[kind]:
            raise CircuitError(
                f"circuit '{self.name}' already has an {kind} '{name}'; choose another name",
                code="duplicate-name",
            )
        self._relations[kind].add(name)


def _expect_text(value: Any, parameter: str, expected: str) -> None:
    """Raise ArgumentError if an option of `Circuit.input` is the type of a column of that name."""
    if isinstance(value, str):
        return
    type_name = value.__name__ if isinstance(value, type) else repr(value)
    raise ArgumentError(
        f"{parameter}= expects {expected}, got {shorten(value)}; for a column called '{parameter}' give "
        f"all columns as schema={{'{parameter}': {type_name}, ...}}"
    )
