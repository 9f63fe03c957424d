"""Which variables a conjunction of clauses binds by itself, and which it needs from outside.

A pattern binds its variables. A function binds the variables of its binding once its arguments are
bound; a predicate, `not` and `missing?` bind none. A rule needs a parameter from its call if one of
its definitions does not bind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """The variables that are bound in the end, and the clauses whose arguments are not."""

    names: frozenset[str]
    waiting: tuple[tree.Clause, ...]


class Bindings:
    """Answers what clauses bind; `rules` are the definitions by name.

    What an `or` or a `not` requires is remembered, since the clauses around it ask many times.
    """

    def __init__(self, rules: Mapping[str, Iterable[tree.RuleDefinition]]) -> None:
        self._rules = {name: tuple(definitions) for name, definitions in rules.items()}
        self._needed: dict[str, frozenset[int]] = {name: frozenset() for name in self._rules}
        self._required: dict[int, tuple[tree.Clause, frozenset[str]]] = {}
        """What a composite clause requires, by its id; the clause is kept, so that its id stays."""
        grown = True
        while grown:
            grown = False
            for name, definitions in self._rules.items():
                needed = self._needed[name].union(*map(self._needs, definitions))
                if needed != self._needed[name]:
                    self._needed[name] = needed
                    self._required.clear()
                    grown = True

    def needed_of_rule(self, name: str) -> frozenset[int]:
        """Return the positions of the arguments that every call of the rule must bind."""
        return self._needed[name]

    def missing(
        self, clauses: Iterable[tree.Clause], visible: Collection[str], given: Iterable[str] = ()
    ) -> set[str]:
        """Return the variables among `visible` that have a value only if they come from outside."""
        listed, start = tuple(clauses), {*given}
        needed = start | self._unmet(listed, visible, start)
        return (needed | ({*visible} - self._bound_by(listed, needed).names)) - start

    def _unmet(
        self, clauses: Iterable[tree.Clause], visible: Collection[str], given: Iterable[str] = ()
    ) -> set[str]:
        """Return the variables among `visible` that arguments of the clauses need from outside."""
        listed, start = tuple(clauses), {*given}
        needed: set[str] = set()
        while True:
            found = self._bound_by(listed, start | needed)
            required = {name for clause in found.waiting for name in self.required(clause)}
            absent = {name for name in required if name in visible} - found.names
            # What a waiting clause binds is needed only if the clauses wait for each other.
            bindable = {name for clause in found.waiting for name in {*binds(clause)} - self.required(clause)}
            first = (absent - bindable) or absent
            if not first:
                return needed - start
            needed |= first

    def _bound_by(self, clauses: Iterable[tree.Clause], given: Iterable[str] = ()) -> Bound:
        """Return what a conjunction binds if the variables `given` are bound."""
        bound = set(given)
        waiting = list(clauses)
        progress = True
        while progress:
            progress = False
            for clause in list(waiting):
                if bound.issuperset(self.required(clause)):
                    bound.update(binds(clause))
                    waiting.remove(clause)
                    progress = True
        return Bound(frozenset(bound), tuple(waiting))

    def required(self, clause: tree.Clause) -> frozenset[str]:
        """Return the variables that must be bound before a clause."""
        match clause:
            case tree.Predicate(arguments=arguments) | tree.Function(arguments=arguments):
                return frozenset(_names(arguments))
            case tree.RuleCall(name=name, arguments=arguments):
                places = self._needed.get(name, frozenset())
                return frozenset(_names(argument for at, argument in enumerate(arguments) if at in places))
            case tree.Or() | tree.Not():
                if id(clause) not in self._required:
                    needed = (
                        self._needed_of_or(clause)
                        if isinstance(clause, tree.Or)
                        else self._needed_of_not(clause)
                    )
                    self._required[id(clause)] = (clause, needed)
                return self._required[id(clause)][1]
        return frozenset()

    def _needed_of_or(self, clause: tree.Or) -> frozenset[str]:
        visible = frozenset(shared_variables(clause))
        needed = {variable.name for variable in clause.required}
        for branch in clause.branches:
            needed |= self.missing(branch, visible, needed)
        return frozenset(needed)

    def _needed_of_not(self, clause: tree.Not) -> frozenset[str]:
        if clause.variables is not None:
            return frozenset(_names(clause.variables))
        # A variable of an inner `not` may be its own, so only arguments need one from outside.
        return frozenset(self._unmet(clause.clauses, frozenset(variables_of(clause))))

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
