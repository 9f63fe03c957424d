"""The plans of a run that continues with the circuit of a checkpoint.

The checkpoint has the plans that row counts chose, or none if the text alone gives them. They count
only if they give the circuit of the checkpoint. Otherwise the plans of the run are unknown, as in a
checkpoint of an earlier version, or one that was written with other options: the run continues, and
its next update or replanning may rebuild the state of rules that did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dbsp.circuit.graph import Graph
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.plans.stored_plans import read_plans, restored_plans
from dbsp.compiler.program_planner import PlannableProgram, ProgramPlanner
from dbsp.compiler.started_program import StartedProgram


class ContinuableProgram(PlannableProgram, Protocol):
    """The part of a `Program` that continuing its runs needs."""

    def on_demand(self, relations: Mapping[str, str]) -> ContinuableProgram | None: ...

    def physical_for(self, plans: Mapping[int, RulePlan], max_iterations: int) -> Graph: ...


def continue_plans(
    program: ContinuableProgram,
    document: str | None,
    graph: Graph | None,
    max_iterations: int,
    planner: ProgramPlanner | None,
    started: StartedProgram | None,
) -> None:
    """Tell a planner and the program of a run the plans of the physical circuit of a checkpoint.

    `graph` is this circuit; None if it is not known. `document` has these plans as JSON. Raises
    CheckpointError if it cannot be read. Cost: the passes from the plans to the circuit.
    """
    found = _plans_of(program, document)
    if found is not None and graph is not None:
        suited, plans = found
        if graph.same_as(suited.physical_for(plans, max_iterations)):
            if planner is not None:
                planner.use(suited, plans)
            if started is not None:
                started.use(plans)
            return
    if planner is not None:
        planner.is_unknown = True


def _plans_of(
    program: ContinuableProgram, document: str | None
) -> tuple[ContinuableProgram, Mapping[int, RulePlan]] | None:
    """Return the plans in a document, and the program with the relations on demand."""
    if document is None:
        return program, program.plans
    stored = read_plans(document)
    suited = program.on_demand(dict(stored.demanded))
    if suited is None:
        return None
    plans = restored_plans(stored, suited.rewritten)
    return None if plans is None else (suited, {**suited.plans, **plans})
