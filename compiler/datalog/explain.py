"""What the compiler made of a program, as text: strata, rules, and the order of each rule's steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dbsp.compiler.datalog import checked
from dbsp.compiler.datalog.lower import needed_relations, reads_any
from dbsp.compiler.datalog.normalise import Scan
from dbsp.compiler.datalog.plan import Aggregated, Assign, Filter, Join, RulePlan, Step, Without
from dbsp.compiler.datalog.show import show_literal, show_rule, show_term, show_variable


def explain(program: checked.Program, plans: Mapping[int, RulePlan]) -> str:
    """A report on a program and its plans: one part per stratum, in the order of evaluation."""
    return "\n".join(_report(program, plans))


def _report(program: checked.Program, plans: Mapping[int, RulePlan]) -> Iterator[str]:
    facts: dict[str, int] = {}
    for fact in program.facts:
        facts[fact.relation] = facts.get(fact.relation, 0) + 1
    yield "inputs"
    for name in program.inputs:
        number = facts.get(name, 0)
        noted = f", {number} fact{'s' if number > 1 else ''} in the program" if number else ""
        yield f"  {_declaration(program.relations[name])}{noted}"
    needed = needed_relations(program)
    for number, stratum in enumerate(program.strata, 1):
        names = ", ".join(stratum.relations)
        recursion = ": recursive, one scope iterated to its fixpoint" if stratum.recursive else ""
        yield ""
        yield f"stratum {number} ({names}){recursion}"
        if needed.isdisjoint(stratum.relations):
            yield "  left out: no output depends on it"
            continue
        for rule in stratum.rules:
            base = stratum.recursive and not reads_any(rule, stratum.relations)
            yield f"  rule {rule.number} at {rule.span}{', outside of the scope' if base else ''}"
            yield f"    {show_rule(rule)}"
            yield from _plan(plans[rule.number], stratum)
    yield ""
    yield "outputs"
    for name in dict.fromkeys((*program.outputs, *program.sizes)):
        size = " (its size)" if name not in program.outputs else ""
        yield f"  {_declaration(program.relations[name])}{size}"


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
    yield f"      => {show_literal(plan.rule.rule.head)}"


def _steps(steps: Sequence[Step], recursive: Sequence[str], first: bool = True) -> Iterator[str]:
    for step in steps:
        match step:
            case Join(scan=scan, on=on):
                mark = " [recursive]" if scan.relation in recursive else ""
                if first:
                    yield f"scan {_pattern(scan)}{mark}"
                elif on:
                    yield f"join {_pattern(scan)} on {', '.join(map(show_variable, on))}{mark}"
                else:
                    yield f"cross product with {_pattern(scan)}{mark}"
            case Without(pattern=pattern):
                yield f"keep rows without {_pattern(pattern)}"
            case Filter(condition=condition):
                yield f"keep rows with {show_literal(condition)}"
            case Assign(variable=variable, term=term):
                yield f"let {show_variable(variable)} = {show_term(term)}"
            case Aggregated():
                yield from _aggregated(step, recursive)
        first = False


def _aggregated(step: Aggregated, recursive: Sequence[str]) -> Iterator[str]:
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


def _pattern(scan: Scan) -> str:
    shown = ["_" if name is None else show_variable(name) for name in scan.variables]
    for column, value in scan.constants:
        shown[column] = show_term(value)
    for first, second in scan.equal:
        shown[second] = shown[first]
    return f"{scan.relation}({', '.join(shown)})"
