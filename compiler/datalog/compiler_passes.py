"""The whole compiler as one tuple of passes, from program text to the circuit that is run.

    source text -> tokens -> syntax tree -> checked program -> rewritten program -> rule plans
        -> query circuit -> incremental circuit -> physical circuit

`Program` runs them, and `dbsp explain --after PASS` prints the result of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.circuit.graph import Graph
from dbsp.circuit.pass_manager import Pass, PassContext, PassManager, Repeat, Representation
from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.circuits.program_report import plans_text
from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.meaning.assemble import assemble
from dbsp.compiler.datalog.meaning.checked import CheckedProgram
from dbsp.compiler.datalog.meaning.clause_passes import (
    DeclaredProgram,
    FlatProgram,
    TypedProgram,
    check_functors,
    check_types,
    declare_program,
    each_clause,
    flatten,
    infer_kinds,
    inline,
)
from dbsp.compiler.datalog.meaning.components import instantiate
from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.ground import check_ground
from dbsp.compiler.datalog.meaning.localise import localise
from dbsp.compiler.datalog.meaning.numbering import check_counters
from dbsp.compiler.datalog.meaning.program_text import (
    checked_text,
    declared_text,
    flat_text,
    rules_text,
    tokens_text,
    tree_text,
    typed_text,
)
from dbsp.compiler.datalog.meaning.witness import ground_witnesses
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.plan_rules import PlannedProgram, plan_rules
from dbsp.compiler.datalog.plans.plan_steps import RulePlan
from dbsp.compiler.datalog.rewrites.choose_demand import DemandSearch, choose_demand
from dbsp.compiler.datalog.rewrites.demand import demand, on_demand
from dbsp.compiler.datalog.rewrites.drop_dead import drop_dead
from dbsp.compiler.datalog.rewrites.factor import factor
from dbsp.compiler.datalog.rewrites.inline_rules import inline_once
from dbsp.compiler.datalog.rewrites.linearise import linearise
from dbsp.compiler.datalog.rewrites.propagate_constants import propagate_constants
from dbsp.compiler.datalog.rewrites.reverse_recursion import reverse_recursion
from dbsp.compiler.datalog.rewrites.separate import separate
from dbsp.compiler.datalog.rewrites.settle import Rewriting, apply, restratified
from dbsp.compiler.datalog.rewrites.share import share
from dbsp.compiler.datalog.rewrites.specialise import specialise
from dbsp.compiler.datalog.text.parse import parse_tokens
from dbsp.compiler.datalog.text.parsed import ParsedProgram
from dbsp.compiler.datalog.text.preprocess import Sources, preprocess
from dbsp.compiler.datalog.text.report import Report
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.stages.circuit_passes import CIRCUIT_PASSES, QUERY

MAX_ITERATIONS = 100_000


@dataclass(frozen=True, slots=True)
class SourceText:
    """A program's text, its file name for messages, and the folders of included files."""

    text: str
    file: str
    sources: Sources
    unedited: str | None = None
    """The text of the file, if `text` is an edit of it."""


@dataclass(kw_only=True)
class CompileContext(PassContext):
    """The state of one compilation: the options, and the report of errors and warnings."""

    options: CompileOptions
    report: Report
    plans: Mapping[int, RulePlan] | None = None
    """The plans to use, by the rule's number; None plans the rules by their shape."""
    max_iterations: int = MAX_ITERATIONS
    searches: tuple[DemandSearch, ...] = ()
    """The relations that the planner may select for on-demand derivation."""

    @classmethod
    def of(cls, source: SourceText, options: CompileOptions) -> CompileContext:
        """The context in which a source is compiled."""
        return cls(options=options, report=Report(source.file, source.text), disabled=options.disabled)


# --- the representations between the passes -------------------------------------------------------

SOURCE = Representation(
    "source text", SourceText, lambda source: source.text, lambda source: len(source.text)
)
TOKENS = Representation[list[Any]]("list of tokens", list, tokens_text, len)
TREE = Representation("syntax tree", ParsedProgram, tree_text, lambda tree: len(tree.items))
PLAIN_TREE = Representation(
    "syntax tree without components", ParsedProgram, tree_text, lambda tree: len(tree.items)
)
DECLARED = Representation(
    "declared program", DeclaredProgram, declared_text, lambda program: len(program.tree.items)
)
FLAT = Representation("flat program", FlatProgram, flat_text, lambda program: len(program.clauses))
TYPED = Representation("typed program", TypedProgram, typed_text, lambda program: len(program.clauses))
CHECKED = Representation("checked program", CheckedProgram, rules_text, lambda program: len(program.rules))
REWRITTEN = Representation(
    "rewritten program", CheckedProgram, checked_text, lambda program: len(program.rules)
)
PLANNED = Representation(
    "program with rule plans",
    PlannedProgram,
    lambda planned: plans_text(planned.program, planned.plans),
    lambda planned: len(planned.plans),
)


# --- the passes -----------------------------------------------------------------------------------


def _clauses(
    change: Callable[[FlatClause, Report], FlatClause | None],
) -> Callable[[FlatProgram, CompileContext], FlatProgram]:
    """The pass that changes every clause of a program."""

    def function(program: FlatProgram, context: CompileContext) -> FlatProgram:
        return each_clause(program, context.report, lambda clause: change(clause, context.report))

    return function


def _rewriting(rewriting: Rewriting) -> Callable[[CheckedProgram, CompileContext], CheckedProgram]:
    """The pass that rewrites rules."""
    return lambda program, context: apply(rewriting, program, context.changes)


def _choose_demand(program: CheckedProgram, context: CompileContext) -> CheckedProgram:
    if context.options.magic is not None:
        return program
    choice = choose_demand(program)
    context.searches = tuple(choice.searches)
    selected = {**choice.selected, **context.options.demanded}
    context.changes.extend(f"{name} is derived on demand: {why}" for name, why in selected.items())
    relations = {name: replace(program.relations[name], magic=True) for name in selected}
    return replace(program, relations={**program.relations, **relations}) if relations else program


def _demand(program: CheckedProgram, context: CompileContext) -> CheckedProgram:
    relations = on_demand(program, context.options.magic)
    return demand(program, relations, context.changes) if relations else program


def _plan(program: CheckedProgram, context: CompileContext) -> PlannedProgram:
    if context.plans is not None:
        return PlannedProgram(program, dict(context.plans))
    policy = Policy(Statistics.none(), context.options.strategy, external=context.options.external)
    return PlannedProgram(program, plan_rules(program, policy))


def _query(planned: PlannedProgram, context: CompileContext) -> Graph:
    name = Path(context.report.file).stem
    return lower_program(
        planned.program,
        planned.plans,
        name,
        context.max_iterations,
        context.options.recursion,
        context.options.external,
    )


CompilePass: TypeAlias = Pass[Any, Any, CompileContext]

# fmt: off
_SIMPLIFY = Repeat[CompileContext]((
    Pass("propagate_constants", CHECKED, CHECKED, "x = 5, r(x, y) is r(5, y); compute functions of constants",
         _rewriting(propagate_constants), optional=True),
    Pass("drop_dead", CHECKED, CHECKED, "drop rules that never hold, and relations that no output needs",
         _rewriting(drop_dead), optional=True),
    Pass("specialise", CHECKED, CHECKED, "move a constant that all uses of a relation have into its rules",
         _rewriting(specialise), optional=True),
    Pass("inline_once", CHECKED, CHECKED, "move the rules of a relation with a single use into its user",
         _rewriting(inline_once), optional=True),
))

PASSES: tuple[CompilePass | Repeat[CompileContext], ...] = (
    Pass("preprocess", SOURCE, TOKENS, "include files, decide conditions, expand macros, drop annotations",
         lambda source, context: preprocess(source.text, context.report, source.sources)),
    Pass("parse", TOKENS, TREE, "parse declarations, clauses and directives",
         lambda tokens, context: parse_tokens(tokens, context.report)),
    Pass("instantiate", TREE, PLAIN_TREE, "replace instances of components by declarations and clauses",
         lambda tree, context: instantiate(tree, context.report)),
    Pass("declare", PLAIN_TREE, DECLARED, "collect types, relations, directives, functors and pragmas",
         lambda tree, context: declare_program(
             tree, context.options.functors, context.options.word_size, context.options.legacy,
             context.options.negation, context.report)),
    Pass("flatten", DECLARED, FLAT, "expand several heads and ';' to clauses; check names and arities",
         lambda program, context: flatten(program, context.report)),
    Pass("inline", FLAT, FLAT, "replace the uses of relations declared inline by their rules",
         lambda program, context: inline(program, context.report)),
    Pass("check_functors", FLAT, FLAT, "check that functors have a Python function",
         lambda program, context: check_functors(program, context.report)),
    Pass("ground_witnesses", FLAT, FLAT, "bind variables that only the body of a min or max binds",
         _clauses(lambda clause, _: ground_witnesses(clause))),
    Pass("localise", FLAT, FLAT, "rename the variables that are local to an aggregate",
         _clauses(lambda clause, _: localise(clause))),
    Pass("check_ground", FLAT, FLAT, "check that every variable is bound",
         _clauses(lambda clause, report: clause if check_ground(clause, report) else None)),
    Pass("check_counters", FLAT, FLAT, "check that every autoinc() has rows to number",
         _clauses(lambda clause, report: clause if check_counters(clause, report) else None)),
    Pass("infer", FLAT, TYPED, "infer the kinds of all terms",
         lambda program, context: infer_kinds(program, context.report)),
    Pass("check_types", TYPED, TYPED, "check declared subtypes",
         lambda program, context: check_types(program, context.report)),
    Pass("assemble", TYPED, CHECKED, "number the rules and check that they are stratifiable",
         lambda program, context: assemble(program, context.report)),
    _SIMPLIFY,
    Pass("linearise", CHECKED, CHECKED, "extend a transitive relation by one step, not by any of its rows",
         _rewriting(linearise), optional=True),
    Pass("choose_demand", CHECKED, CHECKED, "select recursive relations of which few rows are needed",
         _choose_demand, optional=True),
    Pass("demand", CHECKED, CHECKED, "derive only the needed rows of the selected relations (magic sets)",
         _demand),
    Pass("reverse_recursion", CHECKED, CHECKED, "follow a right-linear recursion from its demanded values",
         lambda program, context: reverse_recursion(program, context.options.single, context.changes),
         optional=True),
    _SIMPLIFY,
    Pass("factor", CHECKED, CHECKED, "evaluate a negation behind a disjunction once",
         _rewriting(factor), optional=True),
    Pass("separate", CHECKED, CHECKED, "ask once for a part of a body that shares no variable with the rest",
         _rewriting(separate), optional=True),
    Pass("share", CHECKED, CHECKED, "write rules that join the same atoms in the same way",
         lambda program, context: share(program, context.changes), optional=True),
    Pass("stratify", CHECKED, REWRITTEN, "order the remaining rules in strata",
         lambda program, _: restratified(program)),
    Pass("plan", REWRITTEN, PLANNED, "choose the order of evaluation and the joins of every rule", _plan),
    Pass("build", PLANNED, QUERY, "build a stream for each relation, and a scope for each recursive stratum",
         _query),
    *CIRCUIT_PASSES,
)
# fmt: on

COMPILER: PassManager[CompileContext] = PassManager(PASSES)

REWRITES = tuple(
    compiler_pass.name
    for compiler_pass in COMPILER
    if compiler_pass.optional and compiler_pass.takes is CHECKED
)
"""The optional rewritings of rules, which `compile(rewrites=...)` can disable."""
