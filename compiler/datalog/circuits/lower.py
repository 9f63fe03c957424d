"""Plans to the query circuit: a stream per relation, a fixpoint scope per recursive stratum."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.compiler.datalog.circuits.alternating_lowering import AlternatingLowering
from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext
from dbsp.compiler.datalog.circuits.stratum_lowering import StratumLowering
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.stages.join_strategy import JoinStrategy
from dbsp.operators.streams.builder import Circuit, InputKind
from dbsp.operators.streams.stream import Stream


def lower_program(
    program: checked.CheckedProgram,
    plans: Mapping[int, RulePlan],
    name: str,
    max_iterations: int,
    recursion: Recursion = Recursion.AUTO,
    external: frozenset[str] = frozenset(),
) -> Circuit:
    """Return the query circuit of a program; `plans` has the plan of every rule, by its number.

    An index outside of the run keeps the rows of the `external` inputs.

    The inputs of the circuit are the inputs of the program. Its outputs are the outputs of the
    program and the relations whose size is printed. Relations that no output depends on are
    omitted.
    """
    circuit = Circuit(name, strategy=JoinStrategy.AS_WRITTEN)  # the plans have chosen the joins
    context = LoweringContext(program, plans, circuit, max_iterations, recursion, external)
    streams = lower_relations(context, program)
    for name in dict.fromkeys((*program.outputs, *program.sizes)):
        with context.at(name):
            circuit.output(name, streams[name])
    return circuit


def lower_relations(context: LoweringContext, program: checked.CheckedProgram) -> dict[str, Stream]:
    """Add the inputs and the relations that the outputs need to the circuit; return the streams."""
    streams: dict[str, Stream] = {}
    for name in program.inputs:
        with context.at(name):
            kind: InputKind = "external" if name in context.external else "set"
            streams[name] = context.circuit.input(name, schema=context.schema(name), kind=kind)
    context.given |= streams
    needed = needed_relations(program)
    for stratum in program.strata:
        if not needed.isdisjoint(stratum.relations):
            lowering = StratumLowering if stratum.halves is None else AlternatingLowering
            streams |= lowering(context, stratum, streams).streams()
    return streams
