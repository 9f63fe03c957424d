"""Plans to the query circuit: a stream per relation, a fixpoint scope per recursive stratum."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext
from dbsp.compiler.datalog.circuits.stratum_lowering import StratumLowering
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.stream import Stream


def lower_program(
    program: checked.CheckedProgram,
    plans: Mapping[int, RulePlan],
    name: str,
    max_iterations: int,
    recursion: Recursion = Recursion.AUTO,
) -> Circuit:
    """Return the query circuit of a program; `plans` has the plan of every rule, by its number.

    The inputs of the circuit are the inputs of the program. Its outputs are the outputs of the
    program and the relations whose size is printed. Relations that no output depends on are
    omitted.
    """
    circuit = Circuit(name)
    context = LoweringContext(program, plans, circuit, max_iterations, recursion)
    streams: dict[str, Stream] = {}
    for name in program.inputs:
        with context.at(name):
            streams[name] = circuit.input(name, schema=context.schema(name), kind="set")
    needed = needed_relations(program)
    for stratum in program.strata:
        if not needed.isdisjoint(stratum.relations):
            streams |= StratumLowering(context, stratum, streams).streams()
    for name in dict.fromkeys((*program.outputs, *program.sizes)):
        with context.at(name):
            circuit.output(name, streams[name])
    return circuit
