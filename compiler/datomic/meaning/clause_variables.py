"""The variables of clauses: what a clause needs, what it binds, and the order that follows.

The order of clauses in a query has no meaning. A predicate or function needs its arguments bound by
other clauses or inputs, and a `not` needs the variables that it shares with them. `ordered_clauses`
returns an order in which every clause finds what it needs.

A plain `not` shares a variable if another clause can bind it; other variables of the `not` are its
own, as are the variables that a `not-join` or `or-join` does not list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindCollection,
    Binding,
    BindRelation,
    BindScalar,
    BindTuple,
    Clause,
    Function,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    RuleDefinition,
    SourceVariable,
    Variable,
)
from dbsp.errors import InvariantError

Definitions = Mapping[str, Sequence[RuleDefinition]]
"""The definitions of each rule by its name."""


def definitions_of(rules: Iterable[RuleDefinition]) -> dict[str, list[RuleDefinition]]:
    """Return the definitions of each rule, in their order."""
    found: dict[str, list[RuleDefinition]] = {}
    for definition in rules:
        found.setdefault(definition.name, []).append(definition)
    return found


def binding_variables(binding: Binding) -> tuple[Variable, ...]:
    """Return the variables of a binding, in the order of its text."""
    match binding:
        case BindScalar(variable):
            return (variable,)
        case BindBlank():
            return ()
        case BindCollection(part):
            return binding_variables(part)
        case BindTuple(parts) | BindRelation(parts):
            return tuple(variable for part in parts for variable in binding_variables(part))


def argument_variables(clause: Predicate | Function) -> tuple[Variable, ...]:
    """Return the variables that a call needs: those of its arguments, and a function of `:in`."""
    function = (clause.function,) if isinstance(clause.function, Variable) else ()
    return function + tuple(argument for argument in clause.arguments if isinstance(argument, Variable))


def visible_variables(clause: Clause) -> tuple[Variable, ...]:
    """Return the variables that a clause shares with the clauses beside it; they may repeat."""
    match clause:
        case Pattern(terms=terms) | RuleCall(arguments=terms):
            return tuple(term for term in terms if isinstance(term, Variable))
        case Predicate():
            return argument_variables(clause)
        case Function():
            return argument_variables(clause) + binding_variables(clause.binding)
        case Not(variables=None, clauses=clauses):
            return variables_of(clauses)
        case Or(variables=None, branches=branches):
            return tuple(variable for branch in branches for variable in variables_of(branch))
        case Not(variables=tuple() as declared):
            return declared
        case Or(required=required, variables=tuple() as declared):
            return required + declared
    raise InvariantError(f"expected a clause, got {clause!r}")


def variables_of(clauses: Iterable[Clause]) -> tuple[Variable, ...]:
    """Return the visible variables of several clauses; they may repeat."""
    return tuple(variable for clause in clauses for variable in visible_variables(clause))


def names_of(variables: Iterable[Variable]) -> set[str]:
    """Return the names of variables."""
    return {variable.name for variable in variables}


class ClauseNeeds:
    """What clauses need bound and what they bind, with these definitions of rules.

    A call of a rule needs its required arguments bound, and those whose variable the body of a
    definition uses and does not bind.

    Results of nested clauses are remembered by the identity of the clause, so an instance must not
    outlive the tree of the query.
    """

    def __init__(self, definitions: Definitions) -> None:
        self._unmet: dict[int, set[str]] = {}
        self._bound: dict[int, set[str]] = {}
        self._needed: dict[int, set[str]] = {}
        self._required: dict[str, frozenset[int]] = {}
        every = [(name, definition) for name, found in definitions.items() for definition in found]
        grown = True
        # What a rule requires may make the rules that call it require more.
        while grown:
            grown = False
            for name, definition in every:
                known = self._required.get(name, frozenset())
                required = known | self._required_by(definition)
                if required != known:
                    self._required[name] = required
                    self._unmet.clear()
                    self._needed.clear()
                    grown = True

    def required(self, rule: str) -> frozenset[int]:
        """Return the positions of the arguments that every call of a rule must bind."""
        return self._required.get(rule, frozenset())

    def _required_by(self, definition: RuleDefinition) -> frozenset[int]:
        used = names_of(variables_of(definition.clauses))
        unbound = used - self.bound_by_any(definition.clauses) | self.unmet(definition.clauses)
        names = names_of(definition.required) | unbound
        return frozenset(at for at, variable in enumerate(definition.head) if variable.name in names)

    def needed(self, clause: Clause, bindable: Set[str]) -> set[str]:
        """Return the names that must be bound before a clause.

        `bindable` are the names that inputs and the other clauses can bind.
        """
        match clause:
            case Pattern():
                return set()
            case Predicate() | Function():
                return names_of(argument_variables(clause))
            case RuleCall(name=name, arguments=arguments):
                given = (arguments[at] for at in self.required(name) if at < len(arguments))
                return {argument.name for argument in given if isinstance(argument, Variable)}
            case Not(variables=None):
                return names_of(visible_variables(clause)) & bindable
            case Not(variables=tuple() as declared):
                return names_of(declared)
            case Or():
                if id(clause) not in self._needed:
                    self._needed[id(clause)] = self._needed_by_or(clause)
                return self._needed[id(clause)]
        raise InvariantError(f"expected a clause, got {clause!r}")

    def _needed_by_or(self, clause: Or) -> set[str]:
        unmet = set[str]().union(*map(self.unmet, clause.branches))
        some = unmet.union(*map(self.bound_by_any, clause.branches))
        # What one branch binds and another does not, is bound outside or not at all.
        shared = some if clause.variables is None else names_of(clause.required + clause.variables)
        return (unmet & shared) | (shared - self.bound(clause)) | names_of(clause.required)

    def bound(self, clause: Clause) -> set[str]:
        """Return the names that a clause binds, once it has what it needs."""
        match clause:
            case Predicate() | Not():
                return set()
            case Function(binding=binding):
                return names_of(binding_variables(binding))
            case Or(branches=branches):
                if id(clause) not in self._bound:
                    every = set.intersection(*map(self.bound_by_any, branches)) if branches else set[str]()
                    self._bound[id(clause)] = every & names_of(visible_variables(clause))
                return self._bound[id(clause)]
        return names_of(visible_variables(clause))

    def bound_by_any(self, clauses: Iterable[Clause]) -> set[str]:
        """Return the names that some of the clauses bind."""
        return set[str]().union(*map(self.bound, clauses))

    def bindable(self, clauses: Iterable[Clause]) -> set[str]:
        """Return the names that clauses can bind; what a clause needs is bound by another one."""
        found: set[str] = set()
        for clause in clauses:
            found |= self.bound(clause) - self.needed(clause, set())
        return found

    def unmet(self, clauses: tuple[Clause, ...]) -> set[str]:
        """Return the names that clauses need and that no clause among them binds."""
        if id(clauses) not in self._unmet:
            found: set[str] = set()

            def missing(clause: Clause, names: set[str], cycle: bool) -> None:
                found.update(names)

            for _ in self.in_order(clauses, frozenset(), missing):
                pass
            self._unmet[id(clauses)] = found
        return self._unmet[id(clauses)]

    def in_order(
        self, clauses: Sequence[Clause], bound: Set[str], missing: Missing
    ) -> Iterator[tuple[Clause, set[str]]]:
        """Yield the clauses in order, each with the names that are bound before it.

        Of the clauses that have what they need, the first one of the text is next. If there are
        none, `missing` is called for one clause, and the names count as bound from then on.
        """
        bindable = set(bound) | self.bindable(clauses)
        now = set(bound)
        remaining = [(clause, self.needed(clause, bindable)) for clause in clauses]
        while remaining:
            place = next((place for place, (_, needs) in enumerate(remaining) if needs <= now), None)
            if place is None:
                later = self.bindable(clause for clause, _ in remaining)
                free = [item for item in remaining if not (item[1] - now) <= later]
                # A plain `not` binds nothing, so it waits for a cycle and is never part of one.
                cycle = (item for item in remaining if not isinstance(item[0], Not))
                clause, needs = free[0] if free else next(cycle)
                absent = needs - now - later if free else needs - now
                missing(clause, absent, not free)
                now |= absent
                continue
            clause, _ = remaining.pop(place)
            yield clause, set(now)
            now |= self.bound(clause)


Missing = Callable[[Clause, set[str], bool], None]
"""Gets a clause that has no place in the order, the names that it misses, and whether a cycle of
clauses could bind them."""


def ordered_clauses(
    clauses: Sequence[Clause], bound: Iterable[str] = (), definitions: Definitions | None = None
) -> tuple[Clause, ...]:
    """Return checked clauses in an order in which each has its arguments bound.

    Parameters:
        clauses: the clauses of a conjunction that `check_query` accepts.
        bound: the names of the variables that are bound outside, such as those of inputs.
        definitions: the definitions of each rule.

    Raises:
        InvariantError: the clauses have no such order, so they were not checked.
    """

    def missing(clause: Clause, names: set[str], cycle: bool) -> None:
        raise InvariantError(f"{sorted(names)} of the clause at {clause.span} are not bound")

    found = ClauseNeeds(definitions or {}).in_order(clauses, frozenset(bound), missing)
    return tuple(clause for clause, _ in found)


def sources_of(clauses: Iterable[Clause]) -> Iterator[tuple[str, Clause]]:
    """Yield the sources that clauses name, with the innermost clause that names each."""
    for clause in inner_clauses(clauses):
        match clause:
            case Pattern(source=source) | RuleCall(source=source):
                yield source, clause
            case Predicate(arguments=arguments) | Function(arguments=arguments):
                for argument in arguments:
                    if isinstance(argument, SourceVariable):
                        yield argument.name, clause


def inner_clauses(clauses: Iterable[Clause]) -> Iterator[Clause]:
    """Yield the clauses and all clauses inside them."""
    for clause in clauses:
        yield clause
        match clause:
            case Not(clauses=inner):
                yield from inner_clauses(inner)
            case Or(branches=branches):
                for branch in branches:
                    yield from inner_clauses(branch)
