"""The first tick of a run of a program: its facts and initial changes, planned for their counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.meaning.checked import CheckedProgram, Rule
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.program_planner import PlannableProgram, ProgramPlanner, statistics
from dbsp.data.batch import Batch
from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.statistics import Statistics
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.replanning import Proposal
from dbsp.runtime.run import Run
from dbsp.runtime.table_parts import first_parts, is_repeatable


class StartableProgram(PlannableProgram, Protocol):
    """The part of a `Program` that the first tick needs."""

    @property
    def checked(self) -> CheckedProgram: ...

    @property
    def facts(self) -> Mapping[str, list[tuple[Any, ...]]]: ...

    @property
    def file(self) -> str: ...


def load(
    program: StartableProgram,
    run: Run,
    initial: Mapping[str, InputChange] | None,
    planner: ProgramPlanner | None = None,
) -> Run:
    """Step the first tick of a run, unless it would be empty, and return the run.

    With a `planner`, the rules are first planned for the rows of that tick. With a memory limit,
    files are read and applied in parts, and the rules are planned for the first part of each.
    """
    for name, rows in program.facts.items():
        run.input(name).insert(rows)
    if not has_first_tick(program, initial):
        return run
    if run.budget is not None and initial and any(map(is_repeatable, initial.values())):
        if planner is not None:
            _plan(run, planner, run.net(first_parts(initial, run.input_ports))[0])
        with run.transaction() as transaction:
            transaction.step(initial)
    else:
        staged = run.prepare(initial)
        if planner is not None:
            _plan(run, planner, staged)
        run.step_staged(staged)
    run.record_sizes()
    return run


def has_first_tick(program: StartableProgram, initial: Mapping[str, InputChange] | None) -> bool:
    """Return whether a program has a first tick with these changes: it would not be empty."""
    return bool(initial or program.facts or _has_constants(program))


def propose_first(run: Run, planner: ProgramPlanner, staged: Mapping[str, Batch]) -> Proposal | None:
    """Return the circuit for these changes of the inputs; None if no plan changes."""
    return planner.propose_first(run, lambda name: _inserted(staged.get(name)))


def _plan(run: Run, planner: ProgramPlanner, staged: Mapping[str, Batch]) -> None:
    """Switch to the plans for these changes of the inputs."""
    proposal = propose_first(run, planner, staged)
    if proposal is not None:
        run.switch_to(proposal)
        planner.adopt(proposal)


def count_relations(
    program: StartableProgram, initial: Mapping[str, InputChange] | None, max_iterations: int
) -> Statistics:
    """Return the row counts of all relations after the facts and these changes.

    See `Program.counted`.
    """
    rewritten = program.rewritten
    derived = (name for stratum in rewritten.strata for name in stratum.relations)
    names = tuple(dict.fromkeys((*rewritten.inputs, *derived)))
    everything = replace(rewritten, outputs=names, sizes=())
    run = load(
        program, lower_program(everything, program.plans, program.file, max_iterations).start(), initial
    )

    def rows(name: str) -> Codes | None:
        return run.view(name).stored.rows if name in names else None

    return statistics(program, run, rows)


def _has_constants(program: StartableProgram) -> bool:
    """Whether a rule without positive atoms derives a row in the first tick."""
    return any(not rule.body or _has_no_positive_atom(rule) for rule in program.checked.rules)


def _has_no_positive_atom(rule: Rule) -> bool:
    return not any(isinstance(literal, syntax.Atom) for literal in rule.body)


def _inserted(batch: Batch | None) -> Codes | None:
    """Return the rows that a change inserts."""
    return None if batch is None else batch.rows.compress(batch.weights > 0, 0)
