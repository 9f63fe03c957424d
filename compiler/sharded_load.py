"""The start of a program on shards, with its first tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from dbsp.circuit.stage import Stage
from dbsp.compiler.continued_plans import ContinuableProgram, continue_plans
from dbsp.compiler.first_tick import StartableProgram, has_first_tick, propose_first
from dbsp.compiler.program_planner import ProgramPlanner
from dbsp.compiler.started_program import StartedProgram
from dbsp.data.int_range import IntRange
from dbsp.operators.stages.passes.distribute import ScopePolicy
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.sharded_start import start_sharded
from dbsp.runtime.input_changes import InputChange
from dbsp.runtime.ticks import Ticks

if TYPE_CHECKING:
    from dbsp.shards.shard_folder import ShardFolder
    from dbsp.shards.sharded_run import ShardedRun


class ShardableProgram(StartableProgram, ContinuableProgram, Protocol):
    """The part of a `Program` that its start on shards needs."""


def load_sharded(
    program: ShardableProgram,
    circuit: Circuit,
    initial: Mapping[str, InputChange] | None,
    planner: ProgramPlanner | None,
    started: StartedProgram | None,
    *,
    plans: str | None,
    max_iterations: int,
    ranges: Mapping[str, Mapping[str, IntRange]],
    adapt: bool,
    shards: int,
    memory_limit: int | None,
    folder: ShardFolder | None,
    identity: str,
    scopes: ScopePolicy | None,
) -> ShardedRun:
    """Start a circuit of a program on shards, and step its first tick unless it would be empty.

    `plans` are those of the circuit, for a checkpoint. With `adapt` and a planner, the rules are
    first planned for the rows of that tick. A run that continues has the circuit of its checkpoint.
    """
    graph = circuit.circuit(Stage.PHYSICAL)
    if folder is not None and folder.tick:
        run = start_sharded(
            graph,
            shards,
            memory_limit,
            folder,
            scopes=scopes,
            query=identity,
            functors=program.options.functors,
        )
        with _closed_on_errors(run):
            run.planner, run.ranges, run.program = planner, _ranges_of(run, ranges), started
            placed = run.placed
            continue_plans(program, placed.plans, placed.physical, max_iterations, planner, started)
            run.record_sizes()
        return run
    try:
        # A plain run encodes the changes, so that the circuit is known before the shards start.
        plain = circuit.start()
        plain.ranges = _ranges_of(plain, ranges)
        _stage_facts(program, plain)
        staged = plain.prepare(initial)
        if planner is not None and adapt:
            proposal = propose_first(plain, planner, staged)
            if proposal is not None:
                graph, plans = proposal.graph, proposal.plans
                planner.adopt(proposal)
    except BaseException:
        if folder is not None:
            folder.close()
        raise
    run = start_sharded(
        graph,
        shards,
        memory_limit,
        folder,
        scopes=scopes,
        query=identity,
        interner=plain.interner,
        plans=plans,
    )
    with _closed_on_errors(run):
        run.shares_interner = False  # the plain run is not used any more
        run.planner, run.ranges, run.program = planner, plain.ranges, started
        if has_first_tick(program, initial):
            run.step_staged(staged)
        run.record_sizes()
    return run


def _ranges_of(
    run: Ticks, ranges: Mapping[str, Mapping[str, IntRange]]
) -> Mapping[str, Mapping[str, IntRange]]:
    return {name: found for name, found in ranges.items() if name in run.inputs}


def _stage_facts(program: StartableProgram, run: Ticks) -> None:
    for name, rows in program.facts.items():
        run.input(name).insert(rows)


@contextmanager
def _closed_on_errors(run: ShardedRun) -> Iterator[None]:
    try:
        yield
    except BaseException:
        run.close()
        raise
