"""A compiled program: its relations, its plans, its circuit, and its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.pass_manager import AppliedPass
from dbsp.circuit.stage import Stage, StageName
from dbsp.compiler.continued_plans import continue_plans
from dbsp.compiler.datalog.circuits.lowering_context import relation_schema
from dbsp.compiler.datalog.circuits.program_report import explain
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import (
    CHECKED,
    COMPILER,
    MAX_ITERATIONS,
    PLANNED,
    CompileContext,
    SourceText,
)
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.meaning.word_size import range_of
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.plan_rules import PlannedProgram, plan_rules
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.rewrites.demanded_keys import why_few_keys
from dbsp.compiler.first_tick import count_relations, load
from dbsp.compiler.lost_rows import lost_rows
from dbsp.compiler.program_planner import ProgramPlanner, stored_plans
from dbsp.compiler.question_methods import QuestionMethods
from dbsp.compiler.sharded_load import load_sharded
from dbsp.compiler.started_program import StartedProgram
from dbsp.compiler.stored_source import read_source, source_document
from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.diagnostics import Diagnostic
from dbsp.display.displayed import Displayed
from dbsp.display.report_text import Report
from dbsp.errors import (
    ArgumentError,
    CheckpointError,
    CompileError,
    counted,
    wrong_argument,
)
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.stages.passes.distribute import ScopePolicy, ScopePolicyName
from dbsp.operators.stages.stage_report import exchange_lines
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.sharded_start import (
    expect_scopes,
    expect_shards,
    expect_unobserved,
    open_shard_folder,
)
from dbsp.runtime.checkpoints import Checkpoint, open_checkpoint
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.memory import capacity_of
from dbsp.runtime.observation import measurements
from dbsp.runtime.run import Run
from dbsp.runtime.ticks import Ticks
from dbsp.runtime.unknown_members import unknown_before_start
from dbsp.runtime.update_report import state_lines

if TYPE_CHECKING:
    from dbsp.circuit.circuit_drawing import CircuitDrawing, Stages
    from dbsp.circuit.pictures.grouping import Collapse
    from dbsp.circuit.pictures.selection import PathMeasure
    from dbsp.display.document import Document
    from dbsp.durable.moments import Moment
    from dbsp.durable.past_run import PastRun
    from dbsp.operators.streams.sharded_start import ShardedPlace
    from dbsp.shards.sharded_run import ShardedRun


@methods_end_at_caller
class Program(QuestionMethods, Displayed):
    """A compiled program. It holds no data: each call of `start` creates an independent run.

    A program can be pickled, for example to send it to a worker process, which compiles its texts
    again. Included files are part of it; functors are pickled by reference, as any function is.

    Examples:
        >>> program = compile(".decl edge(x: number) .input edge .output edge")
        >>> program
        <program <program>: 0 rules, (edge) -> (edge)>
        >>> program.start({"edge": [(1,)]}).view("edge").rows()
        [(1,)]
    """

    public_names = (
        "circuit",
        "columns",
        "counted",
        "draw",
        "explain",
        "files",
        "inputs",
        "open",
        "outputs",
        "plans_for",
        "query",
        "relations",
        "start",
        "text",
        "warnings",
        "why",
        "why_changed",
        "why_not",
    )
    """The names that `dir` shows, and so the completion of a shell; other modules call more."""

    def __init__(self, source: SourceText, options: CompileOptions) -> None:
        self.source = source
        self.options = options
        context = CompileContext.of(source, options)
        super().__init__(COMPILER.run(source, context, until="assemble"))
        self._rewrite(context)
        self._texts = dict(context.report.sources)

    def __dir__(self) -> list[str]:
        return list(self.public_names)

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name):
            # Copy, pickle and others look up names with underscores.
            if name.startswith("_"):
                raise AttributeError(name)
            raise unknown_before_start("program", name, self.public_names, Run.public_names)

    def _rewrite(self, context: CompileContext) -> None:
        """Rewrite and plan the checked program."""
        planned: PlannedProgram = COMPILER.run(self.checked, context, start=CHECKED, until="plan")
        self.rewritten: checked.CheckedProgram = planned.program
        """The program after the rewritings: cheaper rules for the same outputs (see
        `datalog.rewrites`)."""
        self.rewrites: tuple[AppliedPass, ...] = tuple(
            applied for applied in context.applied.values() if applied.changes
        )
        """The rewritings that changed the program, and their changes."""
        self.plans: dict[int, RulePlan] = planned.plans
        """The plan of every rule, by the number of the rule, based on the rules alone, without
        counts."""
        self._searches = context.searches

    def suited_to(self, counted: Statistics, current: Mapping[str, str]) -> Program:
        """Return the program with the relations on demand that suit these counts.

        `current` are the relations that a run derives on demand because of earlier counts, with the
        reasons. They stay if the counts do not tell.
        """
        selected: dict[str, str] = {}
        for search in self._searches:
            why = why_few_keys(search, counted)
            if why is None:
                selected.update((name, current[name]) for name in search.columns if name in current)
            elif why:
                selected.update((name, f"{column}: {why}") for name, column in search.columns.items())
        return self._deriving(selected)

    def on_demand(self, relations: Mapping[str, str]) -> Program | None:
        """Return the program with these relations on demand, for the reasons given by name.

        None if this program has no choice about one of them.
        """
        choices = {name for search in self._searches for name in search.columns}
        return self._deriving(relations) if choices.issuperset(relations) else None

    def _deriving(self, demanded: Mapping[str, str]) -> Program:
        return Program(self._own_source, replace(self.options, demanded=demanded)) if demanded else self

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self._own_source, self.options)

    @property
    def _own_source(self) -> SourceText:
        """The source with the included files, which may change: it compiles to the same program."""
        return replace(self.source, sources=replace(self.source.sources, texts=self._texts))

    def plans_for(
        self, statistics: Statistics, rules: Iterable[checked.Rule] | None = None
    ) -> dict[int, RulePlan]:
        """Return the plans of all or some rules, by number, for data with these counts."""
        if not isinstance(statistics, Statistics):
            raise wrong_argument("statistics", "counts, as counted() returns them", statistics)
        return plan_rules(self.rewritten, Policy(statistics, self.options.strategy), rules)

    def circuit_for(self, plans: Mapping[int, RulePlan], max_iterations: int = MAX_ITERATIONS) -> Circuit:
        """Return the query circuit that evaluates the rules by these plans (see `plans_for`)."""
        if not isinstance(plans, Mapping) or any(rule.number not in plans for rule in self.rewritten.rules):
            raise wrong_argument("plans", "the plans of this program, as plans_for() returns them", plans)
        context = CompileContext.of(self.source, self.options)
        context.max_iterations = max_iterations
        planned = PlannedProgram(self.rewritten, dict(plans))
        circuit: Circuit = COMPILER.run(planned, context, start=PLANNED, until="build")
        return circuit

    def physical_for(self, plans: Mapping[int, RulePlan], max_iterations: int = MAX_ITERATIONS) -> Graph:
        """Return the physical circuit that evaluates the rules by these plans."""
        if plans is self.plans and max_iterations == MAX_ITERATIONS:
            return self._physical
        return self.circuit_for(plans, max_iterations).circuit(Stage.PHYSICAL)

    @property
    def text(self) -> str:
        """The text of the program."""
        return self.source.text

    @property
    def file(self) -> str:
        """The file of the program as passed to `compile`; `<program>` for a text."""
        return self.source.file

    @property
    def files(self) -> tuple[str, ...]:
        """The file of the program and the files that it includes.

        Examples:
            >>> compile(".decl edge(x: number) .input edge .output edge").files
            ('<program>',)
        """
        return tuple(self._texts)

    @property
    def relations(self) -> Mapping[str, checked.Relation]:
        """Every declared relation by name: columns, directives, position."""
        return self.checked.relations

    def columns(self, relation: str) -> Schema:
        """Return the columns of a relation as the engine stores them.

        Parameters:
            relation: the name of a relation of the program.

        Returns:
            The names and types of the columns.

        Raises:
            InputError: the relation is unknown.

        Examples:
            >>> program = compile(".decl edge(x: number, y: symbol) .input edge .output edge")
            >>> program.columns("edge").describe()
            'x: int, y: str'
        """
        if not isinstance(relation, str) or relation not in self.rewritten.relations:
            from dbsp.compiler.why.question import expect_relation

            expect_relation(relation, self.rewritten.relations)
        return relation_schema(self.rewritten.relations[relation])

    @property
    def inputs(self) -> dict[str, Schema]:
        """The schema of every relation that accepts changes."""
        return {name: relation_schema(self.relations[name]) for name in self.checked.inputs}

    @property
    def ranges(self) -> dict[str, dict[str, IntRange]]:
        """By relation, the columns whose range of ints is smaller than 64 bits, with their
        range."""
        word = self.checked.types.word_size
        return {
            name: {
                attribute.name: found
                for attribute in relation.attributes
                if (found := range_of(attribute.kind, word))
            }
            for name, relation in self.relations.items()
        }

    @property
    def type_names(self) -> dict[str, dict[str, str]]:
        """By relation, the declared type of each column."""
        return {
            name: {attribute.name: attribute.type_name for attribute in relation.attributes}
            for name, relation in self.relations.items()
        }

    @property
    def outputs(self) -> dict[str, Schema]:
        """The schema of every relation that emits deltas, including those with only a
        .printsize."""
        names = dict.fromkeys((*self.checked.outputs, *self.checked.sizes))
        return {name: relation_schema(self.relations[name]) for name in names}

    @property
    def sizes(self) -> tuple[str, ...]:
        """The relations with a .printsize directive."""
        return self.checked.sizes

    @property
    def facts(self) -> dict[str, list[tuple[Any, ...]]]:
        """The facts written in the program, by relation."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for fact in self.checked.facts:
            found.setdefault(fact.relation, []).append(fact.row)
        return found

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics about legal but suspicious parts of the program."""
        return self.checked.warnings

    def circuit(self, stage: Stage | StageName = Stage.QUERY) -> Graph:
        """Return the circuit of the program in one of its stages.

        Parameters:
            stage: "query" for the circuit as written, over whole relations; "incremental" for the
                circuit over changes; "physical" for the circuit that a run steps; "distributed"
                for the circuit that the shards of a sharded run step.

        Returns:
            The graph, for drawing and for `to_json`.

        Raises:
            ArgumentError: the stage is unknown.

        Examples:
            >>> program = compile(".decl edge(x: number) .input edge .output edge")
            >>> [node.label for node in program.circuit("query").nodes]
            ['Input edge', 'Output edge']
        """
        return self._query.circuit(stage)

    def draw(
        self,
        path: str | Path | None = None,
        *,
        stage: Stages = Stage.QUERY,
        overview: bool = False,
        only: str | None = None,
        readers: bool = False,
        depth: int | None = None,
        collapse: Collapse | None = None,
        critical: PathMeasure | None = None,
        title: str | None = None,
    ) -> CircuitDrawing:
        """Draw the circuit of the program, or its relations.

        Parameters:
            path: a file to write, in the format of its suffix (see `CircuitDrawing.write`); by
                default no file is written.
            stage: a stage as in `circuit`, or a list of stages that are drawn side by side, with
                the same colour for the same rule.
            overview: draw the relations of the program and which of them each one is derived from,
                instead of a circuit; a frame is a recursive stratum.
            only: the name of a relation; only what leads to it is drawn.
            readers: draw what depends on the relation, too.
            depth: the greatest number of arrows from the relation.
            collapse: draw one node for each rule ("rules"), for each relation or recursive scope
                ("strata"), or for each scope ("scopes").
            critical: mark the longest path, by the number of its "nodes".
            title: the heading; by default the name of the program.

        Returns:
            The drawing, which a notebook shows as a picture.

        Raises:
            ArgumentError: an option is wrong, or there is no relation `only`.
            SetupError: Graphviz is not installed, and `path` needs it.

        Examples:
            >>> program = compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl loop(x: number) .output loop
            ...     loop(x) :- edge(x, y), x = y.
            ... ''')
            >>> [node.title for node in program.draw(overview=True).picture.nodes]
            ['edge', 'loop']
            >>> [node.title for node in program.draw(only="loop").picture.nodes]
            ['Input edge', 'Filter x == y', 'Project x', 'Distinct']
        """
        from dbsp.circuit.circuit_drawing import drawing_of, picture_of_stages, stages_of  # loads slowly

        if overview:
            from dbsp.compiler.datalog.circuits.relation_overview import relations_picture

            picture = relations_picture(self.checked, self.file)
        else:
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

    @cached_property
    def _query(self) -> Circuit:
        return self.circuit_for(self.plans)

    @cached_property
    def _physical(self) -> Graph:
        return self._query.circuit(Stage.PHYSICAL)

    @overload
    def start(
        self,
        initial: Mapping[str, InputChange] | None = ...,
        *,
        max_iterations: int = ...,
        stage: Stage | StageName = ...,
        plans: Mapping[int, RulePlan] | None = ...,
        circuit: Circuit | None = ...,
        checkpoint: str | Path | Checkpoint | None = ...,
        memory_limit: int | str | None = ...,
        shards: None = ...,
        scopes: None = ...,
        observe: bool = ...,
        update: bool = ...,
    ) -> Run: ...

    @overload
    def start(
        self,
        initial: Mapping[str, InputChange] | None = ...,
        *,
        max_iterations: int = ...,
        stage: Stage | StageName = ...,
        plans: Mapping[int, RulePlan] | None = ...,
        circuit: Circuit | None = ...,
        checkpoint: ShardedPlace | None = ...,
        memory_limit: int | str | None = ...,
        shards: int,
        scopes: ScopePolicy | ScopePolicyName | None = ...,
        observe: Literal[False] = ...,
        update: Literal[False] = ...,
    ) -> ShardedRun: ...

    def start(
        self,
        initial: Mapping[str, InputChange] | None = None,
        *,
        max_iterations: int = MAX_ITERATIONS,
        stage: Stage | StageName = Stage.PHYSICAL,
        plans: Mapping[int, RulePlan] | None = None,
        circuit: Circuit | None = None,
        checkpoint: ShardedPlace | Checkpoint | None = None,
        memory_limit: int | str | None = None,
        shards: int | None = None,
        scopes: ScopePolicy | ScopePolicyName | None = None,
        observe: bool = False,
        update: bool = False,
    ) -> Run | ShardedRun:
        """Start a run of the program.

        The facts of the program and the `initial` changes are applied as the first tick, before
        this method returns. If there are none, no tick happens. A fact can be retracted later like
        any other row.

        Rules of three atoms or more over inputs are planned for the row counts of the first tick.
        The exception is a body that is a single cyclic core: it is always one multi-way join, whose
        cost is never far from the best. `run.replan()` plans all rules for the current counts.

        Parameters:
            initial: changes for the first tick, by input; see `Run.step` for their forms.
            max_iterations: the maximum number of iterations of a recursion in one tick.
            stage: the stage of the circuit to run (see `circuit`). "query" recomputes everything in
                every tick; use it only to check the other stages.
            plans: the plans to start with, such as the result of `plans_for`.
            circuit: a query circuit of this program, such as the result of `circuit_for` after
                adding inputs and outputs. It runs as it is, without replanning.
            checkpoint: a folder. Every tick is stored there when `step` returns. If the folder
                already holds ticks, the run continues after the last one, and the facts and
                `initial` are not applied.
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
            observe: whether to collect statistics of every node from the first tick on, as
                `run.observe()` does from the next one; not with `shards`.
            update: whether the checkpoint may belong to another program, such as this one before an
                edit. The run then continues the other program, and is updated to this one as its
                next tick (see `Run.update`); `run.log.result` is the result of that tick. Both
                programs get the functors of this one. Not with `shards`, `plans`, `circuit` or
                another stage.

        Returns:
            The run, with the first tick applied; with `shards` a `ShardedRun`.

        Raises:
            InputError: a change does not fit its input. IterationLimitError: a recursion needs more
                than `max_iterations` iterations. Later ticks
                raise it from `Run.step`.
            CheckpointError: the folder cannot be used, or belongs to another program; with `update`
                if it has no text of that program, or if an input with rows is not in this one.
            ArgumentError: `stage` is unknown, `memory_limit` is not an amount, `shards` is not a
                number of processes, or another argument has the wrong type.
            CircuitError: shards cannot run the program. ShardError: a process cannot be started.

        Examples:
            >>> program = compile('''
            ...     .decl price(item: symbol, euro: number) .input price
            ...     .decl cheap(item: symbol) .output cheap
            ...     cheap(item) :- price(item, euro), euro < 10.
            ...     price("tea", 4).
            ... ''')
            >>> run = program.start({"price": [("pen", 2), ("bag", 40)]})
            >>> run.view("cheap").rows()
            [('pen',), ('tea',)]
        """
        policy = expect_scopes(scopes, shards)
        if type(max_iterations) is not int or max_iterations < 1:
            raise wrong_argument("max_iterations", "a number of 1 or more", max_iterations)
        if circuit is not None and not isinstance(circuit, Circuit):
            raise wrong_argument("circuit", "a query circuit of this program", circuit)
        if update:
            if shards is not None or plans is not None or circuit is not None or stage != Stage.PHYSICAL:
                raise ArgumentError("update= cannot be combined with shards=, plans=, circuit= or stage=")
            if checkpoint is None:
                raise ArgumentError("update= needs checkpoint= with the folder of the run to update")
            opened = open_checkpoint(checkpoint)
            running = self.stored_in(opened) or self
            run = running.start(
                initial,
                max_iterations=max_iterations,
                checkpoint=opened,
                memory_limit=memory_limit,
                observe=observe,
            )
            return run if running is self else _updated(run, running, self)
        if shards is not None:
            expect_shards(shards, stage)
            expect_unobserved(observe)
            stage = Stage.PHYSICAL
        planner = started = None
        chosen = self.plans if plans is None else plans
        if circuit is None:
            if stage == Stage.PHYSICAL:
                started = StartedProgram(self, chosen, max_iterations)
            if self._replans(stage):
                planner = ProgramPlanner(self, chosen, max_iterations)
            own = plans is None and max_iterations == MAX_ITERATIONS
            circuit = self._query if own else self.circuit_for(chosen, max_iterations)
        limit = capacity_of(memory_limit)
        if shards is not None:
            return load_sharded(
                self,
                circuit,
                initial,
                planner,
                started,
                plans=None if started is None else stored_plans(self, chosen),
                max_iterations=max_iterations,
                ranges=self.ranges,
                adapt=plans is None,
                shards=shards,
                memory_limit=limit,
                folder=open_shard_folder(checkpoint),
                identity=self.identity,
                scopes=policy,
            )
        stored: Checkpoint | None = None
        if checkpoint is None:
            run = circuit.start(stage, memory_limit=limit)
        else:
            stored = opened = open_checkpoint(checkpoint)

            def resumed(written: str | None) -> Run:
                graph = self._graph_of(circuit, stage, written)
                return Run(graph, memory_limit=limit, spill=opened.spill)

            run = opened.resume(self.identity, resumed, self.stored_source)
        try:
            run.planner = planner
            run.ranges = {name: found for name, found in self.ranges.items() if name in run.inputs}
            run.program = started
            if observe:
                run.observe()
            if started is not None and stored is not None and stored.circuit is not None:
                continue_plans(self, run.stored_plans, run.graph, max_iterations, planner, started)
            elif started is not None:
                run.stored_plans = stored_plans(self, chosen)
            if run.tick:
                return run
            return load(self, run, initial, planner if plans is None else None)
        except BaseException:
            if run.log is not None:
                run.log.close()
            raise

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
        """Open a checkpoint of this program as of a tick, to read it.

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
            A run at that tick, to be read only: views, `query`, `why` and `explain`.

        Raises:
            ArgumentError: `as_of` is neither a tick nor a time.
            CheckpointError: the tick is outside the history, or the folder is damaged or of another
                program.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> program = compile(".decl edge(x: number) .input edge .output edge")
            >>> run = program.start({"edge": [(1,)]}, checkpoint=folder)
            >>> _ = run.step({"edge": [(2,)]})
            >>> past = program.open(folder, as_of=1)
            >>> past.view("edge").rows(), program.why(past, "edge", (2,))
            ([(1,)], None)
        """
        from dbsp.durable.past_ticks import PastTicks

        if not isinstance(folder, str | Path):
            raise wrong_argument("folder", "the folder of a checkpoint", folder)
        graph_of = partial(self._graph_of, self._query, stage)
        past = PastTicks(
            folder,
            self.identity,
            graph_of,
            allow_pickle=allow_pickle,
            verify=verify,
            memory_limit=capacity_of(memory_limit),
            progress=progress,
        )
        run = past.open(as_of)
        if self._replans(stage):
            run.planner = planner = ProgramPlanner(self, self.plans, MAX_ITERATIONS)
            continue_plans(self, run.stored_plans, run.graph, MAX_ITERATIONS, planner, None)
        run.ranges = {name: found for name, found in self.ranges.items() if name in run.inputs}
        return run

    def counted(
        self, initial: Mapping[str, InputChange] | None = None, *, max_iterations: int = MAX_ITERATIONS
    ) -> Statistics:
        """Return the row counts of all relations of the rules after the facts and these changes.

        The counts come from a run in which every relation is an output, and cost as much as
        starting it.
        """
        return count_relations(self, initial, max_iterations)

    @property
    def identity(self) -> str:
        """The name of the program in a checkpoint: a hash of its text and word size."""
        word = "" if self.checked.types.word_size == 64 else "\0words of 32 bits"
        text = "\0".join(self._texts.values())
        return hashlib.sha256((text + word).encode(errors="surrogatepass")).hexdigest()

    @property
    def stored_source(self) -> dict[str, Any]:
        """The texts and options of the program as JSON, which its checkpoints have."""
        return source_document(self.source, self._texts, self.options)

    def stored_in(self, checkpoint: Checkpoint) -> Program | None:
        """Return the program that a checkpoint continues, with the functors of this program.

        This program itself for a new checkpoint; None if the checkpoint does not have the text of
        its program, as for a circuit that was built by hand.

        Parameters:
            checkpoint: an open checkpoint, such as `dbsp.durable.Store(folder)`.

        Raises:
            CheckpointError: these functors do not compile the program, or another version of dbsp
                wrote it.

        Examples:
            >>> import tempfile
            >>> from dbsp.durable import Store
            >>> folder = tempfile.mkdtemp()
            >>> text = ".decl edge(x: number) .input edge .output edge"
            >>> compile(text).start(checkpoint=folder).log.close()
            >>> store = Store(folder)
            >>> compile(text + " .decl node(x: number)").stored_in(store).text == text
            True
        """
        if not hasattr(checkpoint, "query"):
            raise wrong_argument("checkpoint", "an open checkpoint, such as Store(folder)", checkpoint)
        if checkpoint.query in (None, self.identity):
            return self
        if checkpoint.source is None:
            return None
        source, options = read_source(checkpoint.source, self.options.functors)
        try:
            return Program(source, options)
        except CompileError as error:
            checkpoint.close()
            raise CheckpointError(
                f"the checkpoint continues another program, which does not compile with these functors: "
                f"{error.diagnostics[0].render()}",
                code="checkpoint-other-program",
            ) from None

    @property
    def numbers_rows(self) -> bool:
        """Whether rows keep numbers that `autoinc` gave them, so that runs keep their plans."""
        return any(map(numbers_rows, self.rewritten.rules))

    def _replans(self, stage: Stage | StageName) -> bool:
        return stage == Stage.PHYSICAL and not self.numbers_rows

    def _graph_of(self, circuit: Circuit, stage: Stage | StageName, written: str | None) -> Graph:
        """Return the graph to run: that of a checkpoint if it has one; a new plan may differ."""
        if written is None:
            return circuit.runnable(stage)
        from dbsp.operators.streams.circuit_reader import read_circuit  # few runs read a circuit

        own = circuit is self._query and stage == Stage.PHYSICAL
        like = self._physical if own else circuit.circuit(stage)
        return read_circuit(written, self.options.functors, like=like)

    def explain(
        self,
        run: Run | ShardedRun | None = None,
        plans: Mapping[int, RulePlan] | None = None,
        *,
        after: str | None = None,
        analyze: bool = False,
    ) -> str:
        """Describe how the program is evaluated.

        The report lists the strata, the rules with their positions, and the steps of each rule. For
        every join it shows whether the join is acyclic, a bound of its rows, the chosen plan, and
        the order in which a change of each atom binds the variables. It ends with the traces and
        their readers. With a `run`, it adds the actual counts of prefixes and rows of the multi-way
        joins, next to the expected ones, the sizes of the traces, and what the latest update kept,
        changed, rebuilt, added and dropped.

        Parameters:
            run: a run of this program, to report actual counts.
            plans: the plans to describe; by default those of the run, or of the program.
            after: the name of a pass (see `dbsp.compiler.datalog.compiler_passes`). The result is
                then the text of the program, the plans or the circuit after this pass.
            analyze: whether to add the operators of the run as a tree, from each output to the
                inputs, with the rows and seconds of each since `run.observe()`, and what it stores.

        Returns:
            The report as text.

        Raises:
            ArgumentError: no pass has the name `after`, or `analyze` is given for a run without
                statistics.

        Examples:
            >>> program = compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl loop(x: number) .output loop
            ...     loop(x) :- edge(x, y), x = y.
            ... ''')
            >>> print(program.explain(after="propagate_constants").splitlines()[-1])
            loop(x) :- edge(x, x).
        """
        if run is not None and not isinstance(run, Ticks):
            raise wrong_argument("run", "a run of this program, or after= with the name of a pass", run)
        if analyze and not (isinstance(run, Run) and run.stats()):
            raise ArgumentError(
                "analyze= needs a run of one process with statistics; start it with observe=True, or call "
                "run.observe() before the ticks to measure"
            )
        if plans is None:
            planner = None if run is None else run.planner
            plans = planner.plans if isinstance(planner, ProgramPlanner) else self.plans
        if run is not None and isinstance(run.planner, ProgramPlanner):
            suited = run.planner.program
            if isinstance(suited, Program) and suited is not self and suited.options.demanded:
                return suited._explain(run, plans, after, analyze)
        return self._explain(run, plans, after, analyze)

    def _explain(
        self,
        run: Run | ShardedRun | None,
        plans: Mapping[int, RulePlan],
        after: str | None,
        analyze: bool,
    ) -> str:
        if after is not None:
            context = CompileContext.of(self.source, self.options)
            context.plans = plans
            return Report(COMPILER.text_after(after, self.source, context))
        circuit = run.graph if run else self.circuit_for(plans).circuit(Stage.PHYSICAL)
        report = explain(self.rewritten, plans, circuit, run, self.rewrites)
        lines = [report]
        if not isinstance(run, Run):
            physical = circuit if run is None else self.circuit_for(plans).circuit(Stage.PHYSICAL)
            lines += ["", *exchange_lines(physical)]
        if run is not None and run.latest_update is not None:
            tick, relations = run.latest_update
            lines += ["", f"update (tick {tick})", *state_lines(relations)]
        if isinstance(run, Run) and analyze:
            lines += ["", "operators", *_operators(run)]
        return Report("\n".join(lines))

    def _display(self) -> Document:
        from dbsp.compiler.datalog.circuits.program_display import program_document

        return program_document(self, len(self.checked.rules))

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<program {self.file}: {counted(len(self.checked.rules), 'rule')}, ({inputs}) -> ({outputs})>"


def _updated(run: Run, old: Program, new: Program) -> Run:
    """Return a run with a checkpoint, updated to a program. Releases the checkpoint on an error."""
    try:
        for name, rows in lost_rows(run, old, new).items():
            raise CheckpointError(
                f"update= keeps all rows of inputs, and the program has no input '{name}', which has "
                f"{counted(rows, 'row')} in the checkpoint; choose another folder, or start the program of "
                "the folder (see Program.stored_in), and drop the input with run.update(program)",
                code="checkpoint-other-program",
            )
        run.update(new)
    except BaseException:
        if run.log is not None:
            run.log.close()
        raise
    return run


def _operators(run: Run) -> list[str]:
    """Return the operators of a run as lines of a tree, with what was measured of each."""
    from dbsp.circuit.pictures.circuit_picture import circuit_picture
    from dbsp.circuit.pictures.plan_tree import plan_tree

    picture = circuit_picture(run.graph, measurements(run.scope, run.kept()), terms=False)
    return [f"  {line}" for line in plan_tree(picture)]
