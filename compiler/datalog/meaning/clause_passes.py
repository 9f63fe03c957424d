"""The passes over the clauses of a program, from the syntax tree to typed clauses.

Each takes the whole program and returns it with every clause changed or checked. A clause with an
error does not reach the next pass; the other clauses do, so one run shows the errors of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.declare import Declarations, declare
from dbsp.compiler.datalog.meaning.flatten import FlatClause, expand
from dbsp.compiler.datalog.meaning.functors import Function, check_functions, functors_in
from dbsp.compiler.datalog.meaning.infer import TypedClause, infer
from dbsp.compiler.datalog.meaning.inline_relations import Inlining
from dbsp.compiler.datalog.meaning.lattices import joins_in_use
from dbsp.compiler.datalog.meaning.localise import localise
from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.compiler.datalog.meaning.pragmas import read_pragmas
from dbsp.compiler.datalog.meaning.resolve import resolve
from dbsp.compiler.datalog.meaning.subtypes import check_subtypes
from dbsp.compiler.datalog.meaning.word_size import limits
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.other_languages import CONSTANTS
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind, Value
from dbsp.compiler.datalog.tree.traversal import find, variables
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeclaredProgram:
    """A syntax tree without components, and its declarations."""

    tree: parsed.ParsedProgram
    declarations: Declarations


@dataclass(frozen=True, slots=True)
class PlacedClause:
    """A flat clause, with the position of its source clause among the items of the tree."""

    place: int
    written: FlatClause
    """The clause before literals for witnesses were added: a `.plan` counts its atoms."""
    clause: FlatClause


@dataclass(frozen=True, slots=True)
class FlatProgram:
    """A program whose clauses have one head and one conjunction; `facts` have their positions."""

    declared: DeclaredProgram
    facts: tuple[tuple[int, checked.Fact], ...]
    clauses: tuple[PlacedClause, ...]


@dataclass(frozen=True, slots=True)
class TypedProgram:
    """A program in which every term has a kind."""

    declared: DeclaredProgram
    facts: tuple[tuple[int, checked.Fact], ...]
    clauses: tuple[tuple[PlacedClause, TypedClause], ...]


def declare_program(
    tree: parsed.ParsedProgram,
    functions: Mapping[str, Function],
    word_size: int | None,
    legacy: bool,
    negation: Negation | None,
    report: Report,
) -> DeclaredProgram:
    """The declarations of a tree, with the Python `functions` of its functors.

    Numbers have `word_size` bits; None takes the size from a pragma, and so it does for `negation`.
    A pragma can set `legacy`, too.
    """
    pragmas = read_pragmas(tree.items, report)
    pragmas = replace(
        pragmas,
        legacy=legacy or pragmas.legacy,
        word_size=word_size or pragmas.word_size,
        negation=negation or pragmas.negation,
    )
    return DeclaredProgram(tree, declare(tree, functions, pragmas, report))


def flatten(declared: DeclaredProgram, report: Report) -> FlatProgram:
    """The clauses whose names are all known, each with one head and one conjunction."""
    tree, declarations = declared.tree, declared.declarations
    facts: list[tuple[int, checked.Fact]] = []
    clauses: list[PlacedClause] = []
    for place, item in enumerate(tree.items):
        if not isinstance(item, parsed.Clause):
            continue
        report.note = tree.notes.get(place)
        fact = _plain_fact(item, declarations)
        if fact is not None:
            facts.append((place, fact))
            continue
        flat = _resolved(item, declarations, report)
        if len(flat) == 1:
            _warn_of_unused_variables(flat[0], report)
        clauses += (PlacedClause(place, clause, clause) for clause in flat)
    report.note = None
    return FlatProgram(declared, tuple(facts), tuple(clauses))


def inline(program: FlatProgram, report: Report) -> FlatProgram:
    """The program without the relations declared `inline`: their rules replace their uses."""
    tree, declarations = program.declared.tree, program.declared.declarations
    if not declarations.inlined:
        return program
    by_place: dict[int, list[FlatClause]] = {}
    for placed in program.clauses:
        by_place.setdefault(placed.place, []).append(placed.clause)
    inlining = _inlining(tree, by_place, declarations, report)
    facts = {place for place, _ in program.facts}
    clauses: list[PlacedClause] = []
    for place, item in enumerate(tree.items):
        if isinstance(item, parsed.Clause) and place not in facts:
            report.note = tree.notes.get(place)
            flat = _inlined(item, by_place.get(place, []), inlining, declarations, report)
            clauses += (PlacedClause(place, clause, clause) for clause in flat)
    report.note = None
    return replace(program, clauses=tuple(clauses))


def check_functors(program: FlatProgram, report: Report) -> FlatProgram:
    """The program; reports the functors that it calls and that lack a Python function."""
    used = {name for placed in program.clauses for name in functors_in(placed.clause)}
    used |= joins_in_use(program.declared.declarations.relations)
    check_functions(program.declared.tree, used, program.declared.declarations.functors, report)
    return program


def each_clause(
    program: FlatProgram, report: Report, change: Callable[[FlatClause], FlatClause | None]
) -> FlatProgram:
    """The program with every clause changed; `change` returns None for a clause with an error."""
    notes = program.declared.tree.notes
    kept: list[PlacedClause] = []
    for placed in program.clauses:
        report.note = notes.get(placed.place)
        clause = change(placed.clause)
        if clause is placed.clause:
            kept.append(placed)
        elif clause is not None:
            kept.append(PlacedClause(placed.place, placed.written, clause))
    report.note = None
    return replace(program, clauses=tuple(kept))


def infer_kinds(program: FlatProgram, report: Report) -> TypedProgram:
    """The program with the kinds of all terms."""
    notes, declarations = program.declared.tree.notes, program.declared.declarations
    typed: list[tuple[PlacedClause, TypedClause]] = []
    for placed in program.clauses:
        report.note = notes.get(placed.place)
        found = infer(placed.clause, declarations, report)
        if found is not None:
            typed.append((placed, found))
    report.note = None
    return TypedProgram(program.declared, program.facts, tuple(typed))


def check_types(program: TypedProgram, report: Report) -> TypedProgram:
    """The clauses that do not mix declared types."""
    notes, declarations = program.declared.tree.notes, program.declared.declarations
    kept: list[tuple[PlacedClause, TypedClause]] = []
    for placed, typed in program.clauses:
        report.note = notes.get(placed.place)
        if check_subtypes(placed.clause, declarations, typed.structured, report):
            kept.append((placed, typed))
    report.note = None
    return replace(program, clauses=tuple(kept))


def _resolved(item: parsed.Clause, declarations: Declarations, report: Report) -> list[FlatClause]:
    """The flat clauses of a clause whose names are all known."""
    return [clause for clause in expand(item, report) if resolve(clause, declarations, report)]


def _inlining(
    tree: parsed.ParsedProgram,
    by_place: Mapping[int, Sequence[FlatClause]],
    declarations: Declarations,
    report: Report,
) -> Inlining:
    """The rules of the inline relations; a relation with an error in a rule is broken.

    `by_place` has the flat clauses of the items of the tree, by their positions.
    """
    inlining = Inlining((declarations.relations[name] for name in declarations.inlined), report)
    for place, item in enumerate(tree.items):
        if not isinstance(item, parsed.Clause) or item.subsumes:
            continue
        if any(head.relation in inlining.names for head in item.heads):
            inlining.add(item)
            report.note = tree.notes.get(place)
            scratch = Report(report.file, "")
            _resolved(item, declarations, scratch)
            if scratch.error_count or not _are_typed(by_place.get(place, ()), declarations, report):
                inlining.broken.update(head.relation for head in item.heads)
    report.note = None
    inlining.check()
    return inlining


def _are_typed(clauses: Iterable[FlatClause], declarations: Declarations, report: Report) -> bool:
    """Whether clauses fit the types of all columns, also those of inline relations.

    Reports the errors. Warnings come from `infer_kinds`, which checks the clauses after inlining.
    """
    wrong = [clause for clause in clauses if not _is_typed(clause, declarations, Report(report.file, ""))]
    for clause in wrong:
        _is_typed(clause, declarations, report)
    return not wrong


def _is_typed(clause: FlatClause, declarations: Declarations, report: Report) -> bool:
    local = localise(clause)
    typed = infer(local, declarations, report)
    return typed is not None and check_subtypes(local, declarations, typed.structured, report)


def _inlined(
    item: parsed.Clause,
    flat: list[FlatClause],
    inlining: Inlining,
    declarations: Declarations,
    report: Report,
) -> list[FlatClause]:
    """The flat clauses of a clause without inline relations; none for a rule of such a relation."""
    rest = inlining.without(item)
    if rest is None or len(flat) < len(expand(item, report)):
        return []
    used = inlining.uses(rest)
    if not used:
        return [clause for clause in flat if clause.head.relation not in inlining.names]
    if used & inlining.broken or not _are_typed(flat, declarations, report):
        return []
    applied = inlining.apply(rest)
    found = [] if applied is None else _resolved(applied, declarations, report)
    # With an inline relation without rules the clause never holds, and nothing in it is bound.
    return [clause for clause in found if syntax.Truth(False, clause.span) not in clause.body]


def _plain_fact(clause: parsed.Clause, declarations: Declarations) -> checked.Fact | None:
    """The fact of a clause whose arguments are literals of exactly the kinds of the columns.

    A shortcut past the passes for programs with many facts. None for all other clauses, which take
    all passes.
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
            case syntax.Constant(value=value, kind=kind), expected if kind is expected:
                row.append(value)
            case _:
                return None
    return checked.Fact(head.relation, tuple(row), clause.span)


def _warn_of_unused_variables(clause: FlatClause, report: Report) -> None:
    """Warn of variables used once, often a misspelling, unless they start with an underscore."""
    spans: dict[str, syntax.Variable] = {}
    counts: Counter[str] = Counter()
    for variable in find(clause, syntax.Variable):
        if not variable.name.startswith("_"):
            counts[variable.name] += 1
            spans.setdefault(variable.name, variable)
    in_head = variables(clause.head)
    for name, number in counts.items():
        if number == 1 and name not in in_head:
            message = f"variable '{name}' is used only once"
            hint = CONSTANTS.get(name.lower(), "write '_' if that is intended")
            report.warning(spans[name].span, message, hint, code="unused-variable")
