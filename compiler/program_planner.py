"""Replan a running program by the counts of the rows that its circuit keeps.

The counts are those of the inputs, and of derived relations whose rows the circuit keeps. A rule
over a relation without kept rows is planned by its shape alone, as without data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Rule
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.plans.stored_plans import written_plans
from dbsp.data.schema import Schema
from dbsp.data.values import encode_value
from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.statistics import Source, Statistics
from dbsp.operators.streams.builder import Circuit
from dbsp.runtime.replanning import CountedRun, Proposal


class PlannableProgram(Protocol):
    """The part of a `Program` that planning needs."""

    @property
    def rewritten(self) -> CheckedProgram: ...

    @property
    def plans(self) -> dict[int, RulePlan]: ...

    @property
    def options(self) -> CompileOptions: ...

    def columns(self, relation: str) -> Schema: ...

    def suited_to(self, counted: Statistics, current: Mapping[str, str]) -> PlannableProgram: ...

    def plans_for(
        self, statistics: Statistics, rules: Iterable[Rule] | None = None
    ) -> dict[int, RulePlan]: ...

    def circuit_for(self, plans: Mapping[int, RulePlan], max_iterations: int) -> Circuit: ...


class ProgramPlanner:
    """Chooses the circuit of a program for one run (see `dbsp.runtime.replanning`)."""

    def __init__(self, program: PlannableProgram, plans: Mapping[int, RulePlan], max_iterations: int) -> None:
        self.program: PlannableProgram = program
        """The program with the relations that the run derives on demand."""
        self.plans = plans
        """The plan of every rule in the run, by the number of the rule."""
        self.is_unknown = False
        """Whether the run has other plans, because its checkpoint does not say which."""
        self._max_iterations = max_iterations
        self._written = program
        self._proposed = (program, plans)

    def use(self, program: PlannableProgram, plans: Mapping[int, RulePlan]) -> None:
        """Record that the run uses these plans of the program, with these relations on demand."""
        self.program, self.plans, self.is_unknown = program, plans, False

    def propose(self, run: CountedRun) -> Proposal | None:
        """Return the circuit for the current rows of the run, or None if no plan changes."""
        counted = statistics(self._written, run, run.rows)
        program = self._written.suited_to(counted, self.program.options.demanded)
        return self._proposal(program, program.plans_for(statistics(program, run, run.rows)))

    def propose_first(self, run: CountedRun, rows: Source) -> Proposal | None:
        """Return the circuit for the rows of the first tick, or None if no plan changes.

        Only some rules are worth counting for. Two atoms have only one join order. A cyclic core in
        one multi-way join creates at most as many rows as the largest possible result. Binary joins
        may load it faster, but the gain is less than the cost of counting.
        """
        program = self._written.suited_to(statistics(self._written, run, rows), {})
        plans = self.plans if program is self.program else program.plans
        rules_to_count = worth_counting(program.rewritten.clauses, plans)
        if rules_to_count:
            plans = {**plans, **program.plans_for(statistics(program, run, rows), rules_to_count)}
        return self._proposal(program, plans)

    def _proposal(self, program: PlannableProgram, plans: Mapping[int, RulePlan]) -> Proposal | None:
        """Return the circuit for these plans, or None if the run already uses them."""
        other = self.is_unknown or program.options.demanded.keys() != self.program.options.demanded.keys()
        changed = [
            rule
            for rule in program.rewritten.clauses
            if other or plans[rule.number].steps != self.plans[rule.number].steps
        ]
        if not changed:
            return None
        self._proposed = (program, plans)
        circuit = program.circuit_for(plans, self._max_iterations).circuit(Stage.PHYSICAL)
        changes = tuple(f"{rule.span}: {show_rule(rule)}" for rule in changed)
        return Proposal(circuit, changes, stored_plans(program, plans))

    def adopt(self, proposal: Proposal) -> None:
        """Record that the run switched to the latest proposal."""
        self.use(*self._proposed)


def stored_plans(program: PlannableProgram, plans: Mapping[int, RulePlan]) -> str | None:
    """Return the plans for a checkpoint; None if they are those of the text, without counts."""
    return written_plans(program.rewritten, program.plans, plans, program.options.demanded)


def worth_counting(rules: Iterable[Rule], plans: Mapping[int, RulePlan]) -> list[Rule]:
    """Return the rules whose plans counts may improve much (see `ProgramPlanner.propose_first`)."""
    return [
        rule
        for rule in rules
        if any(
            len(group.scans) > 2 and group.choice.kind != "multiway" for group in plans[rule.number].joined
        )
    ]


def statistics(program: PlannableProgram, run: CountedRun, rows: Source) -> Statistics:
    """Return the statistics of relations whose rows are in the codes of a run."""

    def code(name: str, column: int, value: Any) -> int:
        return encode_value(program.columns(name).types[column], value, run.interner)

    def known(name: str) -> Codes | None:
        return rows(name) if name in program.rewritten.relations else None

    return Statistics(known, code)
