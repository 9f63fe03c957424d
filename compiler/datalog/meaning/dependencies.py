"""Which relations a rule depends on, and all that some relations depend on through the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Rule
from dbsp.compiler.datalog.meaning.traversal import walk
from dbsp.diagnostics import SourceSpan


@dataclass(frozen=True, slots=True)
class Dependency:
    """The head `user` depends on `used`.

    `how` is empty for a plain atom, else "negates" or "aggregates over".
    """

    used: str
    user: str
    how: str
    span: SourceSpan


def dependencies(rule: Rule) -> Iterator[Dependency]:
    """Every use of a relation in the body of a rule, aggregates in the head included."""
    for term in rule.head.arguments:
        yield from _in_term(term, rule.head.relation)
    yield from _in_body(rule.body, rule.head.relation, "")


def _in_body(body: Sequence[checked.Literal], user: str, how: str) -> Iterator[Dependency]:
    for literal in body:
        terms: tuple[checked.Term, ...] = ()
        match literal:
            case checked.Atom(relation=used, arguments=terms, span=span):
                yield Dependency(used, user, how, span)
            case checked.Negation(atom=atom, span=span):
                yield Dependency(atom.relation, user, how or "negates", span)
                terms = atom.arguments
            case checked.Comparison(left=left, right=right):
                terms = (left, right)
            case _:
                pass
        for term in terms:
            yield from _in_term(term, user)


def _in_term(term: checked.Term, user: str) -> Iterator[Dependency]:
    if isinstance(term, checked.Call):
        for part in term.arguments:
            yield from _in_term(part, user)
    elif isinstance(term, checked.Aggregate):
        if term.value is not None:
            yield from _in_term(term.value, user)
        yield from _in_body(term.body, user, "aggregates over")


def subsumption_dependencies(rule: Rule) -> Iterator[Dependency]:
    """What a subsumption needs besides the rows of its own relation, among which it chooses."""
    for use in dependencies(rule):
        if use.how or use.used != use.user:
            yield use


def uses(rule: Rule) -> Iterator[checked.Atom]:
    """The atoms by which a rule depends on relations, those negated and aggregated over included."""
    for part in (*rule.head.arguments, *rule.body):
        yield from (node for node in walk(part) if isinstance(node, checked.Atom))


def reads_any(rule: Rule, relations: Collection[str]) -> bool:
    """Whether a rule uses one of the relations."""
    return any(atom.relation in relations for atom in uses(rule))


def needed_by(rules: Iterable[Rule], relations: Iterable[str]) -> set[str]:
    """The relations and all that they depend on through the rules."""
    used: dict[str, set[str]] = {}
    for rule in rules:
        used.setdefault(rule.head.relation, set()).update(atom.relation for atom in uses(rule))
    needed: set[str] = set()
    waiting = list(relations)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(used.get(name, ()))
    return needed


def needed_relations(program: checked.CheckedProgram) -> set[str]:
    """The outputs and all relations they depend on."""
    return needed_by(program.clauses, (*program.outputs, *program.sizes))
