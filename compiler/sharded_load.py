"""The start of a program on shards, with its first tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dbsp.circuit.stage import Stage
from dbsp.compiler.first_tick import StartableProgram, has_first_tick, propose_first
from dbsp.compiler.program_planner import ProgramPlanner
from dbsp.data.int_range import IntRange
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.sharded_start import start_sharded
from dbsp.runtime.input_changes import InputChange

if TYPE_CHECKING:
    from dbsp.shards.sharded_run import ShardedRun


def load_sharded(
    program: StartableProgram,
    circuit: Circuit,
    initial: Mapping[str, InputChange] | None,
    planner: ProgramPlanner | None,
    *,
    ranges: Mapping[str, Mapping[str, IntRange]],
    adapt: bool,
    shards: int,
    memory_limit: int | None,
) -> ShardedRun:
    """Start a circuit of a program on shards, and step its first tick unless it would be empty.

    With `adapt` and a planner, the rules are first planned for the rows of that tick.
    """
    # A plain run encodes the changes, so that the circuit is known before the shards start.
    plain = circuit.start()
    plain.ranges = {name: found for name, found in ranges.items() if name in plain.inputs}
    for name, rows in program.facts.items():
        plain.input(name).insert(rows)
    staged = plain.prepare(initial)
    graph = circuit.circuit(Stage.DISTRIBUTED)
    if planner is not None and adapt:
        proposal = propose_first(plain, planner, staged)
        if proposal is not None:
            graph = distribute(proposal.graph)
            planner.adopt(proposal)
    run = start_sharded(graph, shards, memory_limit, plain.interner)
    try:
        run.planner = planner
        run.ranges = plain.ranges
        if has_first_tick(program, initial):
            run.step_staged(staged)
    except BaseException:
        run.close()
        raise
    return run
