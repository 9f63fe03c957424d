"""Planning a running program again: by the rows that it keeps, and from then on by those plans.

The counts are of the live relations: inputs, and derived relations where the circuit keeps their rows. A
rule over a relation that is kept nowhere is planned by its shape alone, as it is without data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Rule
from dbsp.compiler.datalog.meaning.show import show_rule
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.planner.statistics import Source, Statistics
from dbsp.data.schema import Schema
from dbsp.data.values import encode_value
from dbsp.kernels.arrays import Codes
from dbsp.operators.streams.builder import Circuit
from dbsp.runtime.replanning import Proposal
from dbsp.runtime.run import Run


class PlannableProgram(Protocol):
    """What planning needs of a `Program`."""

    @property
    def rewritten(self) -> CheckedProgram: ...

    def columns(self, relation: str) -> Schema: ...

    def plans_for(
        self, statistics: Statistics, rules: Iterable[Rule] | None = None
    ) -> dict[int, RulePlan]: ...

    def circuit_for(self, plans: Mapping[int, RulePlan], max_iterations: int) -> Circuit: ...


class ProgramPlanner:
    """Chooses among the circuits of a program for one run (see `dbsp.runtime.replanning`)."""

    def __init__(self, program: PlannableProgram, plans: Mapping[int, RulePlan], max_iterations: int) -> None:
        self.program = program
        self.plans = plans
        """The plan of every rule that the run goes by, by the rule's number."""
        self.restored = False
        """Whether the circuit comes from a checkpoint, and may have been planned in any way."""
        self._max_iterations = max_iterations
        self._proposed = plans

    def propose(self, run: Run) -> Proposal | None:
        """The circuit for the rows that the run keeps now, if any rule is planned differently by them."""
        return self._proposal(self.program.plans_for(statistics(self.program, run, run.rows)))

    def propose_to_begin(self, run: Run, rows: Source) -> Proposal | None:
        """The same for the rows of the first tick, of the rules for which counting is worth its time.

        Two atoms are joined in one way. A cyclic core that is joined at once makes no more than the
        largest possible result; joined two at a time it may be loaded faster, but not by so much as
        counting takes.
        """
        program = self.program
        rules_to_count = [
            rule
            for rule in program.rewritten.clauses
            if any(
                len(group.scans) > 2 and group.choice.kind != "multiway"
                for group in self.plans[rule.number].joined
            )
        ]
        if not rules_to_count:
            return None
        return self._proposal(
            {**self.plans, **program.plans_for(statistics(program, run, rows), rules_to_count)}
        )

    def _proposal(self, plans: Mapping[int, RulePlan]) -> Proposal | None:
        """The circuit by these plans, unless they are those that the run goes by."""
        program = self.program
        changed = [
            rule
            for rule in program.rewritten.clauses
            if self.restored or plans[rule.number].steps != self.plans[rule.number].steps
        ]
        if not changed:
            return None
        self._proposed = plans
        circuit = program.circuit_for(plans, self._max_iterations).circuit(Stage.PHYSICAL)
        return Proposal(circuit, tuple(f"{rule.span}: {show_rule(rule)}" for rule in changed))

    def adopt(self, proposal: Proposal) -> None:
        """The plans of the latest proposal are those of the run."""
        self.plans = self._proposed
        self.restored = False


def statistics(program: PlannableProgram, run: Run, rows: Source) -> Statistics:
    """The counts of relations whose rows are given in the codes of a run."""

    def code(name: str, column: int, value: Any) -> int:
        return encode_value(program.columns(name).types[column], value, run.interner)

    def known(name: str) -> Codes | None:
        return rows(name) if name in program.rewritten.relations else None

    return Statistics(known, code)
