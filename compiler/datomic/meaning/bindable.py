"""Which variables a conjunction of clauses binds by itself, and which it needs from outside.

A pattern binds its variables. A function binds the variables of its binding once its arguments are
bound; a predicate, `not` and `missing?` bind none. A rule needs a parameter from its call if one of
its definitions does not bind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dbsp.compiler.datomic.tree import query_tree as tree


@dataclass(frozen=True, slots=True)
class Bound:
    """The variables that are bound in the end, and the clauses whose arguments are not."""

    names: frozenset[str]
    waiting: tuple[tree.Clause, ...]


class Bindings:
    """Answers what clauses bind; `rules` are the definitions by name."""

    def __init__(self, rules: Mapping[str, Iterable[tree.RuleDefinition]]) -> None:
        self._rules = {name: tuple(definitions) for name, definitions in rules.items()}
        self._needed: dict[str, frozenset[int]] = {name: frozenset() for name in self._rules}
        grown = True
        while grown:
            grown = False
            for name, definitions in self._rules.items():
                needed = self._needed[name].union(*map(self._needs, definitions))
                if needed != self._needed[name]:
                    self._needed[name] = needed
                    grown = True

    def needed_of_rule(self, name: str) -> frozenset[int]:
        """Return the positions of the arguments that every call of the rule must bind."""
        return self._needed[name]

    def needed_of_or(self, clause: tree.Or) -> frozenset[str]:
        """Return the variables of an `or` that must be bound before it."""
        visible = frozenset(shared_variables(clause))
        needed = {variable.name for variable in clause.required}
        for branch in clause.branches:
            needed |= self.missing(branch, visible, needed)
        return frozenset(needed)

    def missing(
        self, clauses: Iterable[tree.Clause], visible: Collection[str], given: Iterable[str] = ()
    ) -> set[str]:
        """Return the variables among `visible` that the clauses need from outside."""
        listed, start = tuple(clauses), {*given}
        needed: set[str] = set()
        while True:
            found = self.bound_by(listed, start | needed)
            required = {name for clause in found.waiting for name in self.required(clause)}
            absent = {name for name in required if name in visible} - found.names
            # What a waiting clause binds is needed only if the clauses wait for each other.
            first = absent.difference(*map(binds, found.waiting)) or absent
            if not first:
                return (needed | {name for name in visible if name not in found.names}) - start
            needed |= first

    def bound_by(self, clauses: Iterable[tree.Clause], given: Iterable[str] = ()) -> Bound:
        """Return what a conjunction binds if the variables `given` are bound."""
        bound = set(given)
        waiting = list(clauses)
        progress = True
        while progress:
            progress = False
            for clause in list(waiting):
                if all(name in bound for name in self.required(clause)):
                    bound.update(binds(clause))
                    waiting.remove(clause)
                    progress = True
        return Bound(frozenset(bound), tuple(waiting))

    def required(self, clause: tree.Clause) -> Iterator[str]:
        """Yield the variables that must be bound before a clause."""
        match clause:
            case tree.Predicate(arguments=arguments) | tree.Function(arguments=arguments):
                yield from _names(arguments)
            case tree.RuleCall(name=name, arguments=arguments):
                needed = self._needed.get(name, frozenset())
                yield from _names(argument for at, argument in enumerate(arguments) if at in needed)
            case tree.Or():
                yield from self.needed_of_or(clause)
            case tree.Not(variables=None, clauses=clauses):
                visible = frozenset(name for part in clauses for name in variables_of(part))
                yield from self.missing(clauses, visible)
            case tree.Not(variables=variables) if variables is not None:
                yield from _names(variables)

    def _needs(self, definition: tree.RuleDefinition) -> frozenset[int]:
        head = [variable.name for variable in definition.head]
        required = {variable.name for variable in definition.required}
        needed = required | self.missing(definition.clauses, head, required)
        return frozenset(at for at, name in enumerate(head) if name in needed)


def binds(clause: tree.Clause) -> Iterator[str]:
    """Yield the variables that a clause binds when the required ones are bound."""
    match clause:
        case tree.Pattern(terms=terms):
            yield from _names(terms)
        case tree.Function(binding=binding):
            yield from binding_variables(binding)
        case tree.RuleCall(arguments=arguments):
            yield from _names(arguments)
        case tree.Or():
            yield from shared_variables(clause)


def shared_variables(clause: tree.Or) -> Iterator[str]:
    """Yield the variables that an `or` shares with the clauses around it."""
    if clause.variables is not None:
        yield from _names((*clause.required, *clause.variables))
        return
    # Every branch of a plain `or` has the same variables.
    seen = dict.fromkeys(name for part in clause.branches[0] for name in variables_of(part))
    yield from seen


def variables_of(clause: tree.Clause) -> Iterator[str]:
    """Yield the variables of a clause that the clauses around it can share."""
    match clause:
        case tree.Pattern(terms=terms):
            yield from _names(terms)
        case tree.Predicate(arguments=arguments):
            yield from _names(arguments)
        case tree.Function(arguments=arguments, binding=binding):
            yield from _names(arguments)
            yield from binding_variables(binding)
        case tree.RuleCall(arguments=arguments):
            yield from _names(arguments)
        case tree.Or():
            yield from shared_variables(clause)
        case tree.Not(variables=None, clauses=clauses):
            for part in clauses:
                yield from variables_of(part)
        case tree.Not(variables=variables) if variables is not None:
            yield from _names(variables)


def binding_variables(binding: tree.Binding) -> Iterator[str]:
    """Yield the variables of a binding, from left to right."""
    match binding:
        case tree.BindScalar(variable=variable):
            yield variable.name
        case tree.BindTuple(parts=parts) | tree.BindRelation(parts=parts):
            for part in parts:
                yield from binding_variables(part)
        case tree.BindCollection(part=part):
            yield from binding_variables(part)


def _names(terms: Iterable[tree.Term | tree.Argument]) -> Iterator[str]:
    return (term.name for term in terms if isinstance(term, tree.Variable))
