"""From typed clauses to the checked program: separate facts from rules, number and order rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.clause_passes import TypedProgram
from dbsp.compiler.datalog.meaning.declare import Declarations
from dbsp.compiler.datalog.meaning.hints import order_of, plans_of_clauses
from dbsp.compiler.datalog.meaning.infer import TypedClause
from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.compiler.datalog.meaning.numbering import check_recursion, with_numbers
from dbsp.compiler.datalog.meaning.stratify import stratify
from dbsp.compiler.datalog.meaning.well_founded import with_versions
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Value
from dbsp.diagnostics import ProgramSources
from dbsp.errors import expect_type


def assemble(program: TypedProgram, report: Report) -> checked.CheckedProgram:
    """The checked program; raises CompileError with the errors of all passes."""
    tree, declarations = program.declared.tree, program.declared.declarations
    facts = list(program.facts)
    rules: list[checked.Rule] = []
    subsumptions: list[checked.Rule] = []
    plans = plans_of_clauses(tree.items, report)
    for placed, typed in program.clauses:
        report.note = tree.notes.get(placed.place)
        row = _constants(typed)
        if placed.clause.is_fact and row is not None:
            facts.append((placed.place, checked.Fact(typed.head.relation, row, typed.span)))
            continue
        plan = plans.get(placed.place)
        order = None if plan is None else order_of(plan, placed.written.body, report)
        rule = checked.Rule(len(rules) + 1, typed.head, typed.body, typed.span, order)
        if placed.clause.subsumes:
            dominating = expect_type(typed.body[1], syntax.Atom, "the dominating atom")
            subsumptions.append(replace(rule, dominating=dominating))
        else:
            rules.append(rule)
    report.note = None
    facts.sort(key=lambda entry: entry[0])
    relations = {
        n: relation for n, relation in declarations.relations.items() if n not in declarations.inlined
    }
    rules = with_numbers(rules)
    if declarations.negation is Negation.WELL_FOUNDED:
        relations, rules = with_versions(relations, rules, subsumptions, report)
        report.raise_errors()
    subsumptions = [replace(rule, number=n) for n, rule in enumerate(subsumptions, len(rules) + 1)]
    declarations = replace(declarations, relations=relations)
    strata = stratify(declarations.relations, rules, subsumptions, report)
    check_recursion(strata, report)
    report.raise_errors()
    declarations = replace(declarations, relations=_without_unused_limits(relations, strata, report))
    return _program(declarations, [fact for _, fact in facts], rules, subsumptions, strata, report)


def _without_unused_limits(
    relations: Mapping[str, checked.Relation], strata: Sequence[checked.Stratum], report: Report
) -> dict[str, checked.Relation]:
    """Remove limits of relations without recursion, with a warning; Soufflé ignores them, too."""
    recursive = {name for stratum in strata if stratum.recursive for name in stratum.relations}
    kept = dict(relations)
    for name, relation in relations.items():
        if relation.limit is not None and name not in recursive:
            message = f".limitsize has no effect on '{name}', which is not recursive"
            hint = "a limit ends the iterations of a recursion"
            report.warning(relation.span, message, hint, code="no-effect")
            kept[name] = replace(relation, limit=None)
    return kept


def _constants(clause: TypedClause) -> tuple[Value, ...] | None:
    """The row of a fact, or None when an argument has to be computed."""
    row: list[Value] = []
    for argument in clause.head.arguments:
        if not isinstance(argument, syntax.Constant):
            return None
        row.append(argument.value)
    return tuple(row)


def _program(
    declarations: Declarations,
    facts: list[checked.Fact],
    rules: list[checked.Rule],
    subsumptions: list[checked.Rule],
    strata: tuple[checked.Stratum, ...],
    report: Report,
) -> checked.CheckedProgram:
    relations = declarations.relations
    with_rules = {rule.head.relation for rule in rules}
    with_facts = {fact.relation for fact in facts}
    outputs = tuple(name for name, relation in relations.items() if relation.outputs)
    sizes = tuple(name for name, relation in relations.items() if relation.sizes)
    if rules and not outputs and not sizes:
        report.warning(
            rules[0].span,
            "the program has rules but no output",
            "add an .output or a .printsize directive",
            code="no-output",
        )
    return checked.CheckedProgram(
        relations=relations,
        facts=tuple(facts),
        rules=tuple(rules),
        strata=strata,
        types=declarations.types,
        inputs=tuple(
            name
            for name, relation in relations.items()
            if relation.inputs or name in with_facts or name not in with_rules
        ),
        outputs=outputs,
        sizes=sizes,
        warnings=report.warnings,
        subsumptions=tuple(subsumptions),
        functors=declarations.functors,
        sources=ProgramSources(report.sources),
    )
