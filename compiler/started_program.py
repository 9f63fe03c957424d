"""The program of a run, and its update to another program (see `dbsp.runtime.program_update`).

Rules that both programs have keep the plans of the run (see `datalog.plans.kept_plans`). Only the
other rules are planned, by the counts of the rows that the run has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.circuits.lowering_context import relation_schema
from dbsp.compiler.datalog.plans.kept_plans import kept_plans
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.program_planner import (
    PlannableProgram,
    ProgramPlanner,
    statistics,
    stored_plans,
    worth_counting,
)
from dbsp.compiler.subscribed_program import CompiledProgram, SubscribedProgram
from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, wrong_argument
from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.statistics import Source
from dbsp.runtime.ports import InputPort
from dbsp.runtime.program_update import ProposedUpdate, RunningProgram
from dbsp.runtime.replanning import CountedRun, Planner


class UpdatableProgram(CompiledProgram, Protocol):
    """The part of a `Program` that an update and subscriptions need."""

    @property
    def facts(self) -> dict[str, list[tuple[Any, ...]]]: ...

    @property
    def inputs(self) -> dict[str, Schema]: ...

    @property
    def ranges(self) -> dict[str, dict[str, IntRange]]: ...

    @property
    def identity(self) -> str: ...

    @property
    def stored_source(self) -> dict[str, Any]: ...

    @property
    def numbers_rows(self) -> bool: ...


class UpdatedRun(CountedRun, Protocol):
    """The part of a run that an update needs, in one process or on shards."""

    planner: Planner | None
    program: RunningProgram | None
    ranges: Mapping[str, Mapping[str, IntRange]]
    input_ports: Mapping[str, InputPort]


class StartedProgram(SubscribedProgram):
    """The program of one run, with what `Program.start` was called with."""

    def __init__(self, program: UpdatableProgram, plans: Mapping[int, RulePlan], max_iterations: int) -> None:
        super().__init__(program, max_iterations)
        self.program = program
        self._plans = plans
        """The plans of a run that is never replanned."""

    def use(self, plans: Mapping[int, RulePlan]) -> None:
        """Record that the run uses these plans."""
        self._plans = plans

    def update_to(self, run: UpdatedRun, program: Any) -> ProposedUpdate:
        """Return the circuit of another program for the run, and change nothing."""
        if not isinstance(program, type(self.program)):
            raise wrong_argument("program", "a compiled program, as dbsp.compile(text) returns it", program)
        self._check_ranges(program)
        source = self._comparable_rows(run, program)
        running = run.planner if isinstance(run.planner, ProgramPlanner) else None
        suited: PlannableProgram = program
        if not program.numbers_rows:
            demanded = running.program.options.demanded if running is not None else {}
            suited = program.suited_to(statistics(program, run, source), demanded)
        plans = dict(suited.plans)
        kept: dict[int, RulePlan] = {}
        if program.options.strategy == self.program.options.strategy:
            kept = kept_plans(self._plans if running is None else running.plans, plans)
        others = [rule for rule in suited.rewritten.clauses if rule.number not in kept]
        counted = [] if program.numbers_rows else worth_counting(others, plans)
        if counted:
            plans |= suited.plans_for(statistics(suited, run, source), counted)
        plans |= kept
        started = StartedProgram(program, plans, self._max_iterations)
        planner = None
        if not program.numbers_rows:
            planner = ProgramPlanner(program, plans, self._max_iterations)
            planner.use(suited, plans)
        graph = suited.circuit_for(plans, self._max_iterations).circuit(Stage.PHYSICAL)

        def adopt() -> None:
            run.program = started
            run.planner = planner
            run.ranges = {name: found for name, found in program.ranges.items() if name in run.input_ports}

        return ProposedUpdate(
            graph,
            program.identity,
            program.stored_source,
            stored_plans(suited, plans),
            self._changed_facts(program),
            adopt,
        )

    def _comparable_rows(self, run: UpdatedRun, program: UpdatableProgram) -> Source:
        """Return the source of the rows of relations with the same columns in both programs."""
        before, after = self.program.rewritten.relations, program.rewritten.relations

        def rows(name: str) -> Codes | None:
            if name not in before or name not in after:
                return None
            if relation_schema(before[name]).types != relation_schema(after[name]).types:
                return None
            return run.rows(name)

        return rows

    def _check_ranges(self, program: UpdatableProgram) -> None:
        """Raise CircuitError if a column of a common input has another range of ints."""
        before, after = self.program.ranges, program.ranges
        for name in self.program.inputs:
            if name in program.inputs and before.get(name) != after.get(name):
                raise CircuitError(
                    f"expected the input '{name}' with its ranges of ints, got other ranges: an update keeps "
                    "the rows of an input, and cannot change them; give the new input another name, or "
                    "restart the program",
                    code="changed-input",
                )

    def _changed_facts(self, program: UpdatableProgram) -> dict[str, dict[tuple[Any, ...], int]]:
        """Return by input the facts that only one program has; those of the old one with -1."""
        changes: dict[str, dict[tuple[Any, ...], int]] = {}
        for name in program.inputs:
            before = dict.fromkeys(self.program.facts.get(name, ()))
            after = dict.fromkeys(program.facts.get(name, ()))
            weights = {row: -1 for row in before if row not in after}
            weights |= {row: 1 for row in after if row not in before}
            if weights:
                changes[name] = weights
        return changes
