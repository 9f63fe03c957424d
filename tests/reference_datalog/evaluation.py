"""A slow evaluator of checked Datalog programs, the reference for the engine.

It is simple, not fast: relations are Python sets, a rule is nested loops over its atoms, a stratum
applies its rules to all rows until no row is new. It shares only the checked program with the
compiler; it computes the strata, aggregates and arithmetic itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.data.terms import Branch
from tests.reference_datalog.bodies import solutions, value_of
from tests.reference_datalog.lattices import join_rows
from tests.reference_datalog.values import Relations, Row, TooLargeError, Value


def evaluate(
    program: checked.CheckedProgram, inputs: Mapping[str, set[Row]], limit: int = 10_000
) -> dict[str, frozenset[Row]]:
    """The rows of every relation for these `inputs` (without the facts of the program).

    Raises NoValueError when a rule computes a term without a value, and TooLargeError when a
    relation gets more rows than `limit`.
    """
    relations: dict[str, set[Row]] = {name: set(inputs.get(name, ())) for name in program.relations}
    for names in components(program):
        if any(is_special(name, program) for name in names):
            evaluate_by_iterations(names, program, relations, limit)
        else:
            saturate(names, program, relations, limit)
    return {name: frozenset(rows) for name, rows in relations.items()}


def saturate(
    names: Sequence[str], program: checked.CheckedProgram, relations: dict[str, set[Row]], limit: int
) -> None:
    """Apply the rules of plain relations until no row is new."""
    rules = [rule for rule in program.rules if rule.head.relation in names]
    changed = True
    while changed:
        changed = False
        for rule in rules:
            new = derive(rule, relations) - relations[rule.head.relation]
            relations[rule.head.relation] |= new
            changed |= bool(new)
            if len(relations[rule.head.relation]) > limit:
                raise TooLargeError(rule.head.relation)


def components(program: checked.CheckedProgram) -> list[list[str]]:
    """The groups of relations that depend on one another, each after the groups that it uses."""
    needs: dict[str, set[str]] = {name: {name} for name in program.relations}
    strict: set[tuple[str, str]] = set()
    for rule in (*program.rules, *program.subsumptions):
        head = rule.head.relation
        for used, strictly in uses(rule):
            needs[head].add(used)
            if strictly:
                strict.add((head, used))
    for _ in needs:
        for name in needs:
            needs[name] = set().union(*(needs[other] for other in needs[name]))
    for head, used in strict:
        better = program.relations[head].subsumed and program.relations[used].subsumed
        assert head not in needs[used] or better, "the program cannot be stratified"
    found = {tuple(sorted(other for other in needs[name] if name in needs[other])) for name in needs}
    return [list(names) for names in sorted(found, key=lambda names: len(needs[names[0]]))]


def is_special(name: str, program: checked.CheckedProgram) -> bool:
    relation = program.relations[name]
    subsumed = any(rule.head.relation == name for rule in program.subsumptions)
    lattice = any(column.lattice for column in relation.attributes)
    return bool(relation.equivalence or relation.choices or relation.limit or subsumed or lattice)


def evaluate_by_iterations(
    names: Sequence[str], program: checked.CheckedProgram, relations: dict[str, set[Row]], limit: int
) -> None:
    """Apply all rules in iterations, as defined by `checked.Stratum` and `checked.Relation`."""
    rules = [rule for rule in program.rules if rule.head.relation in names]
    given = {name: relations[name] for name in names}
    known: dict[str, set[Row]] = {name: set() for name in names}
    recursive = any(used in names for rule in rules for used, _ in uses(rule))
    rounds = 0
    while True:
        relations.update(kept_by_subsumption(names, program, {**relations, **known}))
        limits = [(name, program.relations[name].limit) for name in names]
        if recursive and any(most and len(relations[name]) >= most for name, most in limits):
            return
        following: dict[str, set[Row]] = {}
        for name in names:
            relation = program.relations[name]
            derived = set(given[name]).union(
                *(derive(rule, relations) for rule in rules if rule.head.relation == name)
            )
            if relation.equivalence:
                following[name] = equivalence(known[name] | derived)
            elif relation.choices:
                following[name] = choose(known[name], derived, relation)
            elif any(column.lattice for column in relation.attributes):
                following[name] = join_rows(known[name] | derived, relation, program)
            else:
                following[name] = known[name] | derived
            if len(following[name]) > limit:
                raise TooLargeError(name)
        if following == known:
            return
        known = following
        if (rounds := rounds + 1) > limit:
            raise TooLargeError(", ".join(names))


def kept_by_subsumption(
    names: Sequence[str], program: checked.CheckedProgram, relations: Relations
) -> dict[str, set[Row]]:
    left = {}
    for name in names:
        pairs: set[tuple[Row, Row]] = set()
        for rule in program.subsumptions:
            if rule.head.relation == name:
                assert rule.dominating is not None
                for found in solutions(rule.body, {}, relations):
                    lower, upper = (
                        tuple(value_of(term, found, relations) for term in atom.arguments)
                        for atom in (rule.head, rule.dominating)
                    )
                    pairs.add((lower, upper))
        relation = program.relations[name]
        out = {
            a
            for a, b in pairs
            if a != b and ((b, a) not in pairs or order_key(b, relation) < order_key(a, relation))
        }
        left[name] = relations[name] - out
    return left


def equivalence(pairs: set[Row]) -> set[Row]:
    classes: list[set[Value]] = []
    for pair in pairs:
        touched = [one for one in classes if not one.isdisjoint(pair)]
        classes = [one for one in classes if one not in touched]
        classes.append(set(pair).union(*touched))
    return {(a, b) for one in classes for a in one for b in one}


def order_key(row: Row, relation: checked.Relation) -> Any:
    """A sort key of rows: nil first, then values by nesting depth, branches in the order of their
    declaration, and by their fields."""

    def depth(value: Any) -> int:
        parts = value.arguments if isinstance(value, Branch) else value
        return 1 + max(map(depth, parts), default=0) if isinstance(parts, tuple) else 0

    def key(value: Any, structure: Any) -> Any:
        if structure is None:
            return value
        if value is None:
            return (0,)
        name, parts = (value.name, value.arguments) if isinstance(value, Branch) else ("", value)
        names = [constructor.name for constructor in structure.constructors]
        fields = structure.constructors[names.index(name)].fields
        inner = [key(part, field.type.structure) for part, field in zip(parts, fields, strict=True)]
        return (1, depth(value), names.index(name), *inner)

    structures = [getattr(attribute.kind, "structure", None) for attribute in relation.attributes]
    return tuple(map(key, row, structures))


def choose(kept: set[Row], candidates: set[Row], relation: checked.Relation) -> set[Row]:
    chosen = set(kept)
    for row in sorted(candidates, key=lambda row: order_key(row, relation)):
        if not any(
            all(row[c] == other[c] for c in domain) for other in chosen for domain in relation.choices
        ):
            chosen.add(row)
    return chosen


def uses(rule: checked.Rule) -> Iterator[tuple[str, bool]]:
    """The relations in the body of a rule, and whether they must be complete before it applies."""

    def in_body(body: Sequence[syntax.Literal], inside: bool) -> Iterator[tuple[str, bool]]:
        for literal in body:
            match literal:
                case syntax.Atom():
                    yield literal.relation, inside
                    yield from in_terms(literal.arguments)
                case syntax.Negation(atom=atom):
                    yield atom.relation, True
                    yield from in_terms(atom.arguments)
                case syntax.Comparison():
                    yield from in_terms((literal.left, literal.right))

    def in_terms(terms: Sequence[syntax.Term | None]) -> Iterator[tuple[str, bool]]:
        for term in terms:
            if isinstance(term, syntax.Call):
                yield from in_terms(term.arguments)
            elif isinstance(term, syntax.Aggregate):
                yield from in_terms([term.value])
                yield from in_body(term.body, True)

    yield from in_body(rule.body, False)
    yield from in_terms(rule.head.arguments)


def derive(rule: checked.Rule, relations: Relations) -> set[Row]:
    """The rows that one application of a rule derives."""
    head, body = with_head(rule)
    return {tuple(found[name] for name in head) for found in solutions(body, {}, relations)}


def with_head(rule: checked.Rule) -> tuple[list[str], list[syntax.Literal]]:
    """Variables for the columns of the head, and the body with the equations that bind them."""
    names = [f"head {column}" for column in range(len(rule.head.arguments))]
    equations = [
        syntax.Comparison("=", syntax.Variable(name, term.span, term.kind), term, term.span)
        for name, term in zip(names, rule.head.arguments, strict=True)
    ]
    return names, [*rule.body, *equations]
