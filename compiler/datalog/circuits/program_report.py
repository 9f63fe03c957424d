"""Text about a compiled program: strata, rules, and the order of each rule's steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.pass_manager import AppliedPass
from dbsp.compiler.datalog.circuits.join_report import joins, show_multiway, show_scan
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import needed_relations, reads_any
from dbsp.compiler.datalog.meaning.dominance import by_extreme
from dbsp.compiler.datalog.meaning.show import show_literal, show_rule, show_term, show_variable
from dbsp.compiler.datalog.plans.normalise import Scan
from dbsp.compiler.datalog.plans.plan_steps import (
    PlannedAggregate,
    PlannedAntijoin,
    PlannedAssignment,
    PlannedFilter,
    PlannedJoin,
    PlannedMultiwayJoin,
    PlannedNumbering,
    PlannedRange,
    PlannedSeries,
    PlanStep,
    RulePlan,
    SubPlan,
)
from dbsp.operators.ports.input import Input
from dbsp.operators.recursion.evaluation_options import describe_evaluation
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.stages.stage_report import trace_uses

if TYPE_CHECKING:
    from dbsp.runtime.run import Run
    from dbsp.shards.sharded_run import ShardedRun


def explain(
    program: checked.CheckedProgram,
    plans: Mapping[int, RulePlan],
    circuit: Graph,
    run: Run | ShardedRun | None = None,
    rewrites: Sequence[AppliedPass] = (),
) -> str:
    """Return a report on a program and its plans: one part per stratum, in the order of evaluation.

    `circuit` is the physical circuit of these plans. With a `run`, the report includes the rows
    that its multi-way joins counted, and the rows and bytes of its traces. `rewrites` are the
    passes that changed the program.
    """
    traces = _traces(program, circuit, run)
    return "\n".join((*_rewrites(rewrites), *_report(program, plans, circuit, run), "", *traces))


def plans_text(program: checked.CheckedProgram, plans: Mapping[int, RulePlan]) -> str:
    """Return every rule with the order of its steps and the choice of its joins."""
    lines: list[str] = []
    for stratum in program.strata:
        for rule in (*stratum.rules, *stratum.subsumptions):
            lines.append(f"rule {rule.number}: {show_rule(rule)}")
            lines += _plan(plans[rule.number], stratum)
            lines += (f"      {line}" for line in joins(plans[rule.number], None))
    return "\n".join(lines)


def _rewrites(rewrites: Sequence[AppliedPass]) -> Iterator[str]:
    """Yield the changes that rewritings made before the rules were planned."""
    for applied in rewrites:
        yield f"rewritten by {applied.name}"
        yield from (f"  {change}" for change in applied.changes)
    if rewrites:
        yield ""


def _report(
    program: checked.CheckedProgram,
    plans: Mapping[int, RulePlan],
    circuit: Graph,
    run: Run | ShardedRun | None,
) -> Iterator[str]:
    scopes = _scopes(circuit if run is None else run.graph, run)
    counted = None if run is None else run.join_terms()
    facts: dict[str, int] = {}
    for fact in program.facts:
        facts[fact.relation] = facts.get(fact.relation, 0) + 1
    yield "inputs"
    for name in program.inputs:
        number = facts.get(name, 0)
        facts_text = f", {number} fact{'s' if number > 1 else ''} in the program" if number else ""
        yield f"  {_declaration(program.relations[name])}{facts_text}"
    needed = needed_relations(program)
    for number, stratum in enumerate(program.strata, 1):
        names = ", ".join(stratum.relations)
        yield ""
        yield f"stratum {number} ({names}){_recursion(stratum)}"
        if needed.isdisjoint(stratum.relations):
            yield "  omitted: no output depends on it"
            continue
        yield from _kinds(program, stratum)
        yield from (f"  {line}" for line in scopes.get(names, ()))
        for rule in stratum.rules:
            base = stratum.recursive and not reads_any(rule, stratum.relations)
            yield f"  rule {rule.number} at {rule.span}{', evaluated outside of the scope' if base else ''}"
            yield f"    {show_rule(rule)}"
            yield from _plan(plans[rule.number], stratum)
            yield from (f"      {line}" for line in joins(plans[rule.number], counted))
        for rule in stratum.subsumptions:
            yield f"  subsumption {rule.number} at {rule.span}"
            yield f"    {show_rule(rule)}"
            best = by_extreme(stratum, rule.head.relation)
            if best is None:
                yield from _plan(plans[rule.number], stratum)
            else:
                column = program.relations[rule.head.relation].attributes[best[0]].name
                yield f"      keep the {'greatest' if best[1] else 'least'} {column} for all other columns"
    yield ""
    yield "outputs"
    for name in dict.fromkeys((*program.outputs, *program.sizes)):
        size = " (its size)" if name not in program.outputs else ""
        yield f"  {_declaration(program.relations[name])}{size}"


def _recursion(stratum: checked.Stratum) -> str:
    if stratum.halves is None:
        return ": recursive, one scope iterated to its fixpoint" if stratum.recursive else ""
    possible, true = (", ".join(name for part in half for name in part.relations) for half in stratum.halves)
    return (
        ": recursive through negation, one scope iterated to the well-founded model\n"
        f"  each iteration derives the possible rows ({possible}), then the true rows ({true})"
    )


def _scopes(circuit: Graph, run: Run | ShardedRun | None) -> dict[str, list[str]]:
    """Return how each scope is evaluated, by name; with a run, also its current mode."""
    evaluations = {} if run is None else run.evaluations()
    return {
        node.operator.body.name: [
            describe_evaluation(node.operator.body),
            *filter(None, [evaluations.get(node)]),
        ]
        for node in circuit.nodes
        if isinstance(node.operator, Fixpoint)
    }


def _kinds(program: checked.CheckedProgram, stratum: checked.Stratum) -> Iterator[str]:
    """Yield the properties of relations of a stratum that are more than sets of rows."""
    for name in stratum.relations:
        relation = program.relations[name]
        if relation.equivalence:
            yield f"  {name} is an equivalence relation, stored as classes of equal values"
        for domain in relation.choices:
            columns = ", ".join(relation.attributes[column].name for column in domain)
            yield f"  {name} keeps one row for each ({columns})"
        if relation.limit is not None and stratum.recursive:
            yield f"  stops after the first iteration in which {name} has {relation.limit:,} rows"


def _declaration(relation: checked.Relation) -> str:
    columns = ", ".join(f"{column.name}: {column.type_name}" for column in relation.attributes)
    return f"{relation.name}({columns})"


def _plan(plan: RulePlan, stratum: checked.Stratum) -> Iterator[str]:
    if plan.steps is None:
        yield "      never holds"
        return
    recursive = stratum.relations if stratum.recursive else ()
    for number, line in enumerate(_steps(plan.steps, recursive), 1):
        yield f"      {number}. {line}"
    rule = plan.rule.rule
    subsumption = rule.dominating is not None
    yield f"      => {'remove ' if subsumption else ''}{show_literal(rule.head)}"


def _range(within: PlannedRange) -> str:
    parts = [] if within.first is None else [show_variable(within.first), "<" if within.low else "<="]
    parts.append(show_variable(within.point))
    if within.last is not None:
        parts += ["<" if within.high else "<=", show_variable(within.last)]
    return " ".join(parts)


def _steps(steps: Sequence[PlanStep], recursive: Sequence[str], first: bool = True) -> Iterator[str]:
    for step in steps:
        match step:
            case PlannedJoin(source=source, on=on):
                if isinstance(source, SubPlan):
                    inner = "; ".join(_steps(source.steps, recursive))
                    shown, mark = f"[{', '.join(map(show_variable, source.names))}: {inner}]", ""
                else:
                    shown = show_scan(source)
                    mark = " [recursive]" if source.relation in recursive else ""
                if first:
                    yield f"scan {shown}{mark}"
                elif step.within is not None:
                    key = f" on {', '.join(map(show_variable, on))}" if on else ""
                    yield f"range join {shown}{key} with {_range(step.within)}{mark}"
                elif on:
                    yield f"join {shown} on {', '.join(map(show_variable, on))}{mark}"
                elif isinstance(source, Scan) and not source.names:
                    yield f"keep all rows if there is a row {shown}{mark}"
                else:
                    yield f"cross product with {shown}{mark}"
            case PlannedMultiwayJoin(parts=parts):
                for part in parts:
                    if isinstance(part, SubPlan):
                        names = ", ".join(map(show_variable, part.names))
                        yield f"sub-plan [{names}]: {'; '.join(_steps(part.steps, recursive))}"
                yield show_multiway(step)
            case PlannedAntijoin(pattern=pattern):
                yield f"keep rows without {show_scan(pattern)}"
            case PlannedFilter(condition=condition):
                yield f"keep rows with {show_literal(condition)}"
            case PlannedAssignment(variable=variable, term=term):
                yield f"let {show_variable(variable)} = {show_term(term)}"
            case PlannedNumbering(variable=variable):
                numbers = ", ".join(str(step.first + step.step * place) for place in range(3))
                yield f"number the rows as {show_variable(variable)} = {numbers}, ..."
            case PlannedSeries(variable=variable, call=call):
                yield f"for each {show_variable(variable)} in {show_term(call)}"
            case PlannedAggregate():
                yield from _aggregated(step, recursive)
        first = False


def _traces(program: checked.CheckedProgram, circuit: Graph, run: Run | ShardedRun | None) -> Iterator[str]:
    """Yield the arrangements with their readers; with a run, also their rows and bytes."""
    yield "traces"
    kept = {} if run is None else run.kept()
    # The demand of a relation has the place of its declaration, and comes after the relation.
    declared = reversed(list(program.relations.items()))
    relations = {str(relation.span): name for name, relation in declared}
    rules: dict[str, str] = {}
    for rule in program.clauses:
        rules.setdefault(str(rule.span), f"rule {rule.number}")

    def named(node: Node) -> str:
        """Return the name of a relation, or the operator of a rule."""
        if isinstance(node.operator, Input):
            return node.operator.relation
        if node.source in relations:
            return relations[node.source]
        return f"{node.operator.name} of {rules.get(node.source, node.source)}"

    for use in trace_uses(circuit if run is None else run.graph):
        own = named(use.source)
        readers = dict.fromkeys(rules.get(node.source) or named(node) for node in use.readers)
        names = ["itself" if name == own else name for name in readers]
        columns = ", ".join(use.node.schema.names)
        size = ""
        if use.node in kept:
            rows, size_bytes = kept[use.node]
            size = f"; {rows:,} row{'' if rows == 1 else 's'}, {size_bytes:,} bytes"
        shared = "shared by" if len(names) > 1 else "for"
        yield f"  {own} by ({columns}) {shared} {', '.join(names) or 'views'}{size}"


def _aggregated(step: PlannedAggregate, recursive: Sequence[str]) -> Iterator[str]:
    literal = step.literal
    results = []
    for result in literal.results:
        value = "" if result.value is None else f" {show_term(result.value)}"
        results.append(f"{show_variable(result.variable)} = {result.function}{value}")
    per = f" per {', '.join(map(show_variable, literal.injected))}" if literal.injected else ""
    how = ", for the values found so far" if step.correlated else ""
    inner = "; ".join(_steps(step.inner, recursive, first=not step.correlated))
    empty = " (0 for no rows)" if step.empty_groups else ""
    yield f"let {', '.join(results)}{per}{how}{empty} over: {inner}"
