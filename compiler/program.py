"""A compiled program: what it means, how it is evaluated, and runs of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.circuit.pass_manager import AppliedPass
from dbsp.circuit.stage import Stage
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
from dbsp.compiler.first_tick import count_relations, load
from dbsp.compiler.planner.statistics import Statistics
from dbsp.compiler.program_planner import ProgramPlanner
from dbsp.compiler.question_methods import QuestionMethods
from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.diagnostics import Diagnostic
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.circuit_reader import from_json
from dbsp.runtime.checkpoints import Checkpoint, open_checkpoint
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.run import Run


class Program(QuestionMethods):
    """A compiled program. It holds no data: `start` makes a run, as many as wanted."""

    def __init__(self, source: SourceText, options: CompileOptions) -> None:
        self.source = source
        self.options = options
        context = CompileContext.of(source, options)
        super().__init__(COMPILER.run(source, context, until="assemble"))
        planned: PlannedProgram = COMPILER.run(self.checked, context, start=CHECKED, until="plan")
        self.rewritten: checked.CheckedProgram = planned.program
        """What is planned and run: rules for the same outputs that cost less (see `datalog.rewrites`)."""
        self.rewrites: tuple[AppliedPass, ...] = tuple(
            applied for applied in context.applied.values() if applied.changes
        )
        """What was changed on the way there, and why."""
        self.plans: dict[int, RulePlan] = planned.plans
        """The plan of every rule, by the rule's number, made by the shape of the rules alone."""
        self._all_text = "\0".join(context.report.sources.values())

    def plans_for(
        self, statistics: Statistics, rules: Iterable[checked.Rule] | None = None
    ) -> dict[int, RulePlan]:
        """The plan of every rule, or of some, by its number, for data of which these are the counts."""
        return plan_rules(self.rewritten, Policy(statistics, self.options.strategy), rules)

    def circuit_for(self, plans: Mapping[int, RulePlan], max_iterations: int = MAX_ITERATIONS) -> Circuit:
        """The query circuit in which the rules are evaluated by these plans; see `plans_for`."""
        context = CompileContext.of(self.source, self.options)
        context.max_iterations = max_iterations
        planned = PlannedProgram(self.rewritten, dict(plans))
        circuit: Circuit = COMPILER.run(planned, context, start=PLANNED, until="build")
        return circuit

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def file(self) -> str:
        """The file of the program as it was given; `<program>` for a text."""
        return self.source.file

    @property
    def relations(self) -> Mapping[str, checked.Relation]:
        """Every declared relation: columns, directives, position."""
        return self.checked.relations

    def columns(self, relation: str) -> Schema:
        """The columns of a relation as the engine stores them."""
        return relation_schema(self.rewritten.relations[relation])

    @property
    def inputs(self) -> dict[str, Schema]:
        """The relations that take changes, and their columns."""
        return {name: relation_schema(self.relations[name]) for name in self.checked.inputs}

    @property
    def ranges(self) -> dict[str, dict[str, IntRange]]:
        """By relation, the columns that hold fewer ints than there are of 64 bits, and which."""
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
        """The relations that hand out deltas, those that are only counted (.printsize) included."""
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
        """What is legal and yet probably a mistake."""
        return self.checked.warnings

    def circuit(self, stage: Stage | str = Stage.QUERY) -> Graph:
        """The circuit of the program in one of its forms: "query", "incremental" or "physical"."""
        return self._query.circuit(stage)

    @cached_property
    def _query(self) -> Circuit:
        return self.circuit_for(self.plans)

    def start(
        self,
        initial: Mapping[str, InputChange] | None = None,
        *,
        max_iterations: int = MAX_ITERATIONS,
        stage: Stage | str = Stage.PHYSICAL,
        plans: Mapping[int, RulePlan] | None = None,
        circuit: Circuit | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Run:
        """A new run of the program.

        The program's facts and the `initial` changes are its first tick, which has happened when
        this returns (there is none when there is nothing to do); a fact may be retracted later like
        any other row. A tick in which a recursion takes more than `max_iterations` iterations raises
        IterationLimitError. `stage` says which form of the circuit is run (see `circuit`); the slow
        "query" recomputes everything in every tick and is there to check the others against.

        Rules of three atoms or more over inputs are planned for the counts of the first tick, except where
        all of a body is one cyclic core: that is joined at once, which is never far off. All rules are
        planned again whenever `run.replan()` is called. `plans` are other plans to begin with, such as
        those of `plans_for`; `circuit` is a query circuit of this program, such as one of `circuit_for` to
        which other inputs and outputs were bound; it is run as it is and not planned again.

        With a `checkpoint`, a folder, every tick is durable when `step` returns, and a run started on
        the same folder goes on after the last of them: then there is no first tick again, and `initial`
        is left alone (see `dbsp.durable`). Raises CheckpointError.
        """
        planner = None
        # Rows that are numbered keep their numbers, so the circuit keeps its plans.
        fixed = any(map(numbers_rows, self.rewritten.rules))
        if circuit is None and Stage(stage) is Stage.PHYSICAL and not fixed:
            planner = ProgramPlanner(self, self.plans if plans is None else plans, max_iterations)
        if circuit is None and plans is None and max_iterations == MAX_ITERATIONS:
            circuit = self._query
        elif circuit is None:
            circuit = self.circuit_for(self.plans if plans is None else plans, max_iterations)
        if checkpoint is None:
            run = circuit.start(stage)
        else:
            run = open_checkpoint(checkpoint).resume(self._identity, partial(self._resumed, circuit, stage))
        run.planner = planner
        run.ranges = {name: found for name, found in self.ranges.items() if name in run.inputs}
        if run.tick:
            if planner is not None:
                planner.restored = True
            return run
        try:
            return load(self, run, initial, planner if plans is None else None)
        except BaseException:
            if run.log is not None:
                run.log.close()
            raise

    def counted(
        self, initial: Mapping[str, InputChange] | None = None, *, max_iterations: int = MAX_ITERATIONS
    ) -> Statistics:
        """The counts of all relations of the rules, derived ones included, over the facts and these changes.

        They come from a run in which every relation is an output. Costs what starting one costs.
        """
        return count_relations(self, initial, max_iterations)

    @property
    def _identity(self) -> str:
        """What tells the program from others in a checkpoint: its text, and how numbers are computed."""
        word = "" if self.checked.types.word_size == 64 else "\0words of 32 bits"
        return hashlib.sha256((self._all_text + word).encode(errors="surrogatepass")).hexdigest()

    def _resumed(self, circuit: Circuit, stage: Stage | str, written: str | None) -> Run:
        """A run of the circuit that a checkpoint has: another plan might be chosen by now."""
        return circuit.start(stage) if written is None else Run(from_json(written, self.options.functors))

    def explain(
        self,
        run: Run | None = None,
        plans: Mapping[int, RulePlan] | None = None,
        *,
        after: str | None = None,
    ) -> str:
        """How the program is evaluated, in words.

        Strata, rules with their positions, the steps of each; of every join whether it is acyclic, how
        many rows it makes at most, how it is chosen to be made and in which order the changes of each
        atom bind the variables; traces and who reads them. With a `run`, also the prefixes and rows that
        its multi-way joins have met, against those expected, and how large its traces are; the plans are
        those that the run goes by, unless others are given.

        `after` is the name of a pass (see `dbsp.compiler.datalog.compiler_passes`): then the text is that of
        the program, its plans or its circuit right after this pass. ValueError for an unknown name.

        >>> from dbsp import compile
        >>> program = compile('''
        ...     .decl edge(x: number, y: number) .input edge
        ...     .decl loop(x: number) .output loop
        ...     loop(x) :- edge(x, y), x = y.
        ... ''')
        >>> print(program.explain(after="propagate_constants").splitlines()[-1])
        loop(x) :- edge(x, x).
        """
        if plans is None:
            planner = None if run is None else run.planner
            plans = planner.plans if isinstance(planner, ProgramPlanner) else self.plans
        if after is not None:
            context = CompileContext.of(self.source, self.options)
            context.plans = plans
            return COMPILER.text_after(after, self.source, context)
        circuit = run.graph if run else self.circuit_for(plans).circuit(Stage.PHYSICAL)
        return explain(self.rewritten, plans, circuit, run, self.rewrites)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<program {self.file}: {len(self.checked.rules)} rules, ({inputs}) -> ({outputs})>"
