"""The relations that a rule depends on, and the transitive dependencies of relations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Rule
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import children, find
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass


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
    for part in (*rule.head.arguments, *rule.body):
        yield from _uses(part, rule.head.relation, "")


def _uses(node: syntax.Node, user: str, how: str) -> Iterator[Dependency]:
    match node:
        case syntax.Atom(relation=used, span=span):
            yield Dependency(used, user, how, span)
        case syntax.Negation(atom=atom, span=span):
            yield Dependency(atom.relation, user, how or "negates", span)
            node = atom
        case syntax.Aggregate():
            how = "aggregates over"
        case _:
            pass
    for part in children(node):
        yield from _uses(part, user, how)


def subsumption_dependencies(rule: Rule) -> Iterator[Dependency]:
    """The dependencies of a subsumption, except the positive ones on its own relation."""
    for use in dependencies(rule):
        if use.how or use.used != use.user:
            yield use


def uses(rule: Rule) -> tuple[syntax.Atom, ...]:
    """The atoms that a rule reads, including negated and aggregated ones."""
    try:
        return rule._uses
    except AttributeError:
        parts = (*rule.head.arguments, *rule.body)
        found = tuple([atom for part in parts for atom in find(part, syntax.Atom)])
        object.__setattr__(rule, "_uses", found)
        return found


def reads_any(rule: Rule, relations: Collection[str]) -> bool:
    """Whether a rule uses one of the relations."""
    return any(atom.relation in relations for atom in uses(rule))


def needed_by(rules: Iterable[Rule], relations: Iterable[str]) -> set[str]:
    """The relations and all relations that they depend on through the rules."""
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
