"""The well-founded model of a program by its definition: ground rules and unfounded sets.

It starts from the typed clauses, before the compiler knows versions or strata. The rules are
grounded over all rows that they derive if every negation of a derived relation holds. Then the
operator W_P of Van Gelder, Ross and Schlipf is applied to interpretations (true, false) until
nothing changes:

    true'   =  heads of rules whose body is true
    false'  =  the greatest unfounded set: rows each of whose rules has a false body, or needs a row
               of this set

There are no alternating fixpoints here. Aggregates may read inputs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import COMPILER, CompileContext, SourceText
from dbsp.compiler.datalog.meaning.clause_passes import TypedProgram
from dbsp.compiler.datalog.meaning.infer import TypedClause
from dbsp.compiler.datalog.text.preprocess import Sources
from dbsp.compiler.datalog.tree import syntax
from dbsp.io.allowed_folders import AllowedFolders
from tests.reference_datalog.bodies import solutions, value_of
from tests.reference_datalog.values import Bindings, Row, TooLargeError

GroundAtom: TypeAlias = tuple[str, Row]

SOURCES = Sources(None, (), {}, 64, AllowedFolders.of(()))
NO_BODY: tuple[frozenset[GroundAtom], frozenset[GroundAtom]] = (frozenset(), frozenset())


class GroundRule(NamedTuple):
    head: GroundAtom
    needed: frozenset[GroundAtom]
    refused: frozenset[GroundAtom]


class Model(NamedTuple):
    true: frozenset[GroundAtom]
    undefined: frozenset[GroundAtom]

    def rows(self, relation: str) -> dict[str, frozenset[Row]]:
        """The true and the undefined rows of a relation, under the names of their outputs."""
        return {
            relation: frozenset(row for name, row in self.true if name == relation),
            f"{relation}.undefined": frozenset(row for name, row in self.undefined if name == relation),
        }


def typed_program(text: str) -> TypedProgram:
    source = SourceText(text, "<program>", SOURCES)
    program: TypedProgram = COMPILER.run(
        source, CompileContext.of(source, CompileOptions()), until="check_types"
    )
    return program


def well_founded_model(program: TypedProgram, inputs: Mapping[str, Iterable[Row]], limit: int = 400) -> Model:
    """The model for these rows of the inputs, which include the facts of the program.

    Raises TooLargeError if the rules derive more rows than the limit.
    """
    given = {(name, row) for name, rows in inputs.items() for row in rows}
    return model_of({*ground(program, given, limit), *(GroundRule(atom, *NO_BODY) for atom in given)})


def model_of(rules: Iterable[GroundRule]) -> Model:
    """The well-founded model of ground rules: the least fixpoint of W_P."""
    rules = list(rules)
    base = {atom for rule in rules for atom in (rule.head, *rule.needed, *rule.refused)}
    true: set[GroundAtom] = set()
    false: set[GroundAtom] = set()
    while True:
        new_true = {rule.head for rule in rules if rule.needed <= true and rule.refused <= false}
        new_false = base - founded(rules, true, false)
        if (new_true, new_false) == (true, false):
            return Model(frozenset(true), frozenset(base - true - false))
        true, false = new_true, new_false


def founded(rules: Iterable[GroundRule], true: set[GroundAtom], false: set[GroundAtom]) -> set[GroundAtom]:
    """The atoms outside of the greatest unfounded set."""
    usable = [rule for rule in rules if not (rule.needed & false or rule.refused & true)]
    found: set[GroundAtom] = set()
    while True:
        new = {rule.head for rule in usable if rule.needed <= found}
        if new <= found:
            return found
        found |= new


def ground(program: TypedProgram, given: set[GroundAtom], limit: int) -> set[GroundRule]:
    """The instances of the rules over all rows that they derive if negations hold."""
    declared = program.declared.declarations.relations
    clauses = [numbered(typed) for _, typed in program.clauses]
    derived = {clause.head.relation for clause in clauses}
    rows: dict[str, set[Row]] = {name: set() for name in declared}
    for name, row in given:
        rows[name].add(row)
    equivalences = [name for name in derived if declared[name].equivalence]
    size = -1
    while size != (size := sum(map(len, rows.values()))):
        if size > limit:
            raise TooLargeError("the ground program")
        for clause in clauses:
            for found in list(bindings(clause, derived, rows)):
                rows[clause.head.relation].add(row_of(clause.head, found, rows))
        for name in equivalences:
            for rule in equivalence_rules(name, rows[name]):
                rows[name].add(rule.head[1])
    rules = {
        GroundRule(
            (clause.head.relation, row_of(clause.head, found, rows)),
            frozenset(
                (atom.relation, row_of(atom, found, rows))
                for atom in clause.body
                if isinstance(atom, syntax.Atom)
            ),
            frozenset(
                (literal.atom.relation, row)
                for literal in negations(clause, derived)
                for row in rows[literal.atom.relation]
                if fits(literal.atom, row, found, rows)
            ),
        )
        for clause in clauses
        for found in bindings(clause, derived, rows)
    }
    return rules.union(*(equivalence_rules(name, rows[name]) for name in equivalences))


def numbered(clause: TypedClause) -> TypedClause:
    """The clause with a variable for each wildcard in a positive atom, so bindings give its row."""
    body = [
        replace(
            literal,
            arguments=tuple(
                syntax.Variable(f"any {place} {column}", term.span, term.kind)
                if isinstance(term, syntax.Wildcard)
                else term
                for column, term in enumerate(literal.arguments)
            ),
        )
        if isinstance(literal, syntax.Atom)
        else literal
        for place, literal in enumerate(clause.body)
    ]
    return replace(clause, body=tuple(body))


def negations(clause: TypedClause, derived: set[str]) -> Iterator[syntax.Negation]:
    for literal in clause.body:
        if isinstance(literal, syntax.Negation) and literal.atom.relation in derived:
            yield literal


def bindings(clause: TypedClause, derived: set[str], rows: dict[str, set[Row]]) -> Iterator[Bindings]:
    """The bindings of a body without the negations of derived relations."""
    ignored = list(negations(clause, derived))
    yield from solutions([literal for literal in clause.body if literal not in ignored], {}, rows)


def row_of(atom: syntax.Atom, found: Bindings, rows: dict[str, set[Row]]) -> Row:
    return tuple(value_of(term, found, rows) for term in atom.arguments)


def fits(atom: syntax.Atom, row: Row, found: Bindings, rows: dict[str, set[Row]]) -> bool:
    return all(
        isinstance(term, syntax.Wildcard) or value_of(term, found, rows) == value
        for term, value in zip(atom.arguments, row, strict=True)
    )


def equivalence_rules(name: str, rows: set[Row]) -> set[GroundRule]:
    """The rules by which rows of an equivalence follow from its rows."""
    found: set[GroundRule] = set()
    for a, b in rows:
        first = frozenset({(name, (a, b))})
        found |= {GroundRule((name, row), first, frozenset()) for row in ((b, a), (a, a))}
        for c, d in rows:
            if b == c:
                found.add(GroundRule((name, (a, d)), first | {(name, (c, d))}, frozenset()))
    return found
