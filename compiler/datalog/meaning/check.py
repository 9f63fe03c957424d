"""From the syntax tree to the checked program: the passes in order, all their errors in one run.

    components  instances of components to plain declarations and clauses
    declare     types, relations and their kinds, directives
    expand      several heads and `;` to flat clauses
    resolve     names, numbers of arguments, places of `_`
    inline      the rules of relations declared inline into those that use them
    witness     values for variables that only a min or max binds
    localise    which variables of an aggregate come from outside
    ground      every variable is bound
    infer       kinds of all terms
    subtypes    declared types
    stratify    strata, no negation through recursion

A clause in which a pass finds an error does not reach the next one; the other clauses do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.components import instantiate
from dbsp.compiler.datalog.meaning.declare import Declarations, declare
from dbsp.compiler.datalog.meaning.flatten import FlatClause, expand
from dbsp.compiler.datalog.meaning.functors import Function, check_functions, functors_in
from dbsp.compiler.datalog.meaning.ground import check_ground
from dbsp.compiler.datalog.meaning.hints import order_of, plans_of_clauses
from dbsp.compiler.datalog.meaning.infer import TypedClause, infer
from dbsp.compiler.datalog.meaning.inline_relations import Inlining
from dbsp.compiler.datalog.meaning.localise import localise
from dbsp.compiler.datalog.meaning.numbering import check_counters, check_recursion, with_numbers
from dbsp.compiler.datalog.meaning.pragmas import read_pragmas
from dbsp.compiler.datalog.meaning.resolve import resolve
from dbsp.compiler.datalog.meaning.stratify import stratify
from dbsp.compiler.datalog.meaning.subtypes import check_subtypes
from dbsp.compiler.datalog.meaning.witness import ground_witnesses
from dbsp.compiler.datalog.meaning.word_size import limits
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind, Value
from dbsp.compiler.datalog.tree.traversal import find, variables
from dbsp.errors import expect_type


def check(
    tree: parsed.ParsedProgram,
    report: Report,
    functions: Mapping[str, Function] | None = None,
    word_size: int | None = None,
) -> checked.CheckedProgram:
    """The checked program; raises CompileError with every error found.

    `functions` are those that the user gives for functors, by name; numbers have `word_size` bits,
    or those that a pragma says.
    """
    tree = instantiate(tree, report)
    declarations = declare(tree, functions or {}, read_pragmas(tree.items, report), word_size, report)
    facts: list[checked.Fact] = []
    rules: list[checked.Rule] = []
    subsumptions: list[checked.Rule] = []
    plans = plans_of_clauses(tree.items, report)
    inlining = _inlining(tree, declarations, report)
    used: set[str] = set()
    for place, item in enumerate(tree.items):
        if not isinstance(item, parsed.Clause):
            continue
        report.note = tree.notes.get(place)
        fact = _plain_fact(item, declarations)
        if fact is not None:
            facts.append(fact)
            continue
        flat = _resolved(item, declarations, report)
        if len(flat) == 1:
            _warn_of_lone_variables(flat[0], report)
        if inlining.names:
            flat = _inlined(item, flat, inlining, declarations, report)
        for clause in flat:
            used.update(functors_in(clause))
            typed = _check_clause(clause, declarations, report)
            if typed is None:
                continue
            row = _constants(typed)
            if clause.is_fact and row is not None:
                facts.append(checked.Fact(typed.head.relation, row, typed.span))
            else:
                order = order_of(plans[place], clause.body, report) if place in plans else None
                rule = checked.Rule(len(rules) + 1, typed.head, typed.body, typed.span, order)
                if clause.subsumes:
                    dominating = expect_type(typed.body[1], syntax.Atom, "the dominating atom")
                    subsumptions.append(replace(rule, dominating=dominating))
                else:
                    rules.append(rule)
    check_functions(tree, used, declarations.functors, report)
    report.note = None
    subsumptions = [replace(rule, number=n) for n, rule in enumerate(subsumptions, len(rules) + 1)]
    relations = {n: one for n, one in declarations.relations.items() if n not in declarations.inlined}
    declarations = replace(declarations, relations=relations)
    rules = with_numbers(rules)
    strata = stratify(declarations.relations, rules, subsumptions, report)
    check_recursion(strata, report)
    report.raise_errors()
    _warn_of_idle_limits(relations.values(), strata, report)
    return _program(declarations, facts, rules, subsumptions, strata, report)


def _warn_of_idle_limits(
    relations: Iterable[checked.Relation], strata: Sequence[checked.Stratum], report: Report
) -> None:
    """As in Souffle a limit ends a recursion, and does nothing elsewhere."""
    recursive = {name for stratum in strata if stratum.recursive for name in stratum.relations}
    for relation in relations:
        if relation.limit is not None and relation.name not in recursive:
            message = f".limitsize has no effect on '{relation.name}', which is not recursive"
            report.warning(relation.span, message, "it ends the iterations of a recursion")


def _resolved(item: parsed.Clause, declarations: Declarations, report: Report) -> list[FlatClause]:
    """The flat clauses of a clause of which every name is known."""
    return [clause for clause in expand(item, report) if resolve(clause, declarations, report)]


def _inlining(tree: parsed.ParsedProgram, declarations: Declarations, report: Report) -> Inlining:
    """The rules of the inlined relations; one with an error in a rule is broken."""
    inlining = Inlining(declarations.inlined, report)
    for item in tree.items if declarations.inlined else ():
        if not isinstance(item, parsed.Clause) or item.subsumes:
            continue
        if any(one.relation in inlining.names for one in item.heads):
            inlining.add(item)
            scratch = Report(report.file, "")
            _resolved(item, declarations, scratch)
            if scratch.error_count:
                inlining.broken.update(head.relation for head in item.heads)
    inlining.check()
    return inlining


def _inlined(
    item: parsed.Clause,
    flat: list[FlatClause],
    inlining: Inlining,
    declarations: Declarations,
    report: Report,
) -> list[FlatClause]:
    """The flat clauses of a clause without inlined relations; none for the rules of those."""
    rest = inlining.without(item)
    if rest is None or len(flat) < len(expand(item, report)):
        return []
    used = inlining.uses(rest)
    if not used:
        return [clause for clause in flat if clause.head.relation not in inlining.names]
    if used & inlining.broken:
        return []
    applied = inlining.apply(rest)
    found = [] if applied is None else _resolved(applied, declarations, report)
    # A relation without rules leaves a clause that never holds, and in which nothing is bound.
    return [clause for clause in found if syntax.Truth(False, clause.span) not in clause.body]


def _check_clause(clause: FlatClause, declarations: Declarations, report: Report) -> TypedClause | None:
    clause = localise(ground_witnesses(clause))
    if not check_ground(clause, report) or not check_counters(clause, report):
        return None
    typed = infer(clause, declarations, report)
    if typed is None or not check_subtypes(clause, declarations, typed.structured, report):
        return None
    return typed


def _plain_fact(clause: parsed.Clause, declarations: Declarations) -> checked.Fact | None:
    """The fact a clause states, if its arguments are literals of just the kinds of the columns.

    A short way past the passes for programs with many facts; whatever does not fit takes the long one.
    """
    if clause.body is not None or len(clause.heads) != 1:
        return None
    (head,) = clause.heads
    relation = declarations.relations.get(head.relation)
    if (
        relation is None
        or head.relation in declarations.broken | declarations.inlined
        or relation.arity != len(head.arguments)
    ):
        return None
    low, high = limits(Kind.NUMBER, declarations.types.word_size)
    row: list[Value] = []
    for argument, column in zip(head.arguments, relation.attributes, strict=True):
        match argument, column.kind:
            case syntax.NumberLiteral(value=number, unsigned=False), Kind.NUMBER if low <= number <= high:
                row.append(number)
            case syntax.Constant(value=value, kind=kind), wanted if kind is wanted:
                row.append(value)
            case _:
                return None
    return checked.Fact(head.relation, tuple(row), clause.span)


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
            "nothing that this program derives can be seen",
            "add an .output or a .printsize directive",
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
        warnings=report.of("warning"),
        subsumptions=tuple(subsumptions),
        functors=declarations.functors,
    )


def _warn_of_lone_variables(clause: FlatClause, report: Report) -> None:
    """A variable used once is often a misspelt one; `_` or a leading underscore says it is meant."""
    spans: dict[str, syntax.Variable] = {}
    counts: Counter[str] = Counter()
    for variable in find(clause, syntax.Variable):
        if not variable.name.startswith("_"):
            counts[variable.name] += 1
            spans.setdefault(variable.name, variable)
    in_head = variables(clause.head)
    for name, number in counts.items():
        if number == 1 and name not in in_head:
            report.warning(
                spans[name].span, f"variable '{name}' is used only once", "write '_' if that is meant"
            )
