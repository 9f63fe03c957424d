"""Finds the values of variables for which clauses hold, and what each clause holds by.

The search is depth-first. The next clause is the one with the fewest rows to try: conditions whose
variables have values, then negations, ranges of an index that start with an entity, ranges that
start with a value, calls of rules, and whole indices last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dbsp.compiler.datomic.meaning.bindable import (
    Bindings,
    binding_variables,
    binds,
    shared_variables,
    variables_of,
)
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.checked_rules import storable
from dbsp.compiler.datomic.meaning.clojure_order import is_true
from dbsp.compiler.datomic.meaning.entity_arguments import EntityArguments
from dbsp.compiler.datomic.meaning.query_functions import find_function
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic.proofs.rule_rows import UNBOUND, RuleRows
from dbsp.datomic.proofs.same_values import Environment, extended
from dbsp.datomic.proofs.source_rows import DatomSource, FoundRow, Source
from dbsp.diagnostics import SourceSpan
from dbsp.errors import DbspError, InvariantError, expect_present, expect_type
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Given:
    """The values of an argument of `:in`, as a clause that binds its variables."""

    binding: tree.Binding
    rows: tuple[tuple[Any, ...], ...]
    is_single: bool
    span: SourceSpan


Part: TypeAlias = tree.Clause | Given
"""What a search has to satisfy."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A row of a rule that a call matches."""

    name: str
    source: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch of an `or` that holds."""

    clause: tree.Or
    number: int
    solution: Solution


Evidence: TypeAlias = FoundRow | RuleRow | Branch | None


@dataclass(frozen=True, slots=True)
class Solution:
    """Values of variables, and what each clause holds by, by its position."""

    environment: Environment
    evidence: Mapping[int, Evidence]


Left: TypeAlias = tuple[tuple[int, Part], ...]


class ClauseSearch:
    """Searches clauses over sources; `dollar` is the source that `$` names in the clauses."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        rules: Mapping[str, Sequence[tree.RuleDefinition]],
        functions: Mapping[str, Callable[..., Any]],
        entities: EntityArguments,
    ) -> None:
        self.sources = sources
        self.rules = rules
        self.functions = functions
        self.bindings = Bindings(rules)
        self.calls = RuleRows(rules, self._rows_of_definition)
        self._entities = entities

    def solve(self, parts: Sequence[Part], given: Environment, dollar: str = "$") -> Iterator[Solution]:
        """Yield the solutions that extend the given values."""
        left = tuple(enumerate(parts))
        yield from self.among(left, left, given, dollar, partial=False)

    def among(
        self, chosen: Left, everything: Left, given: Environment, dollar: str, *, partial: bool
    ) -> Iterator[Solution]:
        """Yield the solutions of some of the clauses of a conjunction.

        With `partial`, clauses that lack a value of a variable are left out.
        """
        shared = {at: self._shared(at, part, everything, given) for at, part in chosen}
        yield from self._solve(chosen, Solution(given, {}), dollar, shared, partial)

    def is_ready(self, at: int, part: Part, everything: Left, given: Environment, known: Environment) -> bool:
        """Whether a clause of a conjunction has the values that it needs."""
        return self._shared(at, part, everything, given) <= known.keys()

    def _solve(
        self,
        left: Left,
        so_far: Solution,
        dollar: str,
        shared: Mapping[int, set[str]],
        partial: bool,
    ) -> Iterator[Solution]:
        if not left:
            yield so_far
            return
        known = so_far.environment
        ready = [(at, part) for at, part in left if known.keys() >= shared[at]]
        if not ready:
            if not partial:
                raise InvariantError("expected a clause whose variables are bound; this is a defect of dbsp")
            yield so_far
            return
        at, part = min(ready, key=lambda each: self._cost(each[1], known))
        rest = tuple(each for each in left if each[0] != at)
        for environment, evidence in self.step(part, known, dollar):
            found = Solution(environment, {**so_far.evidence, at: evidence})
            yield from self._solve(rest, found, dollar, shared, partial)

    def _shared(self, at: int, part: Part, everything: Left, given: Environment) -> set[str]:
        """Return the variables that a clause needs a value of."""
        if isinstance(part, Given):
            return set()
        needed = set(self.bindings.required(part))
        if isinstance(part, tree.Not):
            # A variable that no other clause binds is its own, except in a list of variables.
            outside = given.keys() | {
                name for place, other in everything if place != at for name in bound_by(other)
            }
            needed |= outside & set(variables_of(part))
        return needed

    def _cost(self, part: Part, known: Environment) -> int:
        match part:
            case Given(rows=rows):
                return 0 if len(rows) < 2 else 4
            case tree.Function(function="get-else" | "get-some") | tree.Predicate(function="missing?"):
                return 2
            case tree.Predicate() | tree.Function():
                return 1
            case tree.Not():
                return 2
            case tree.Pattern(terms=terms):
                values = [term for term in terms if _has_value(term, known)]
                if terms and terms[0] in values:
                    return 3
                return 5 if len(terms) > 2 and terms[2] in values else 8
            case tree.RuleCall(arguments=arguments):
                return 6 if any(_has_value(term, known) for term in arguments) else 9
            case tree.Or():
                return 6 if known.keys() & set(shared_variables(part)) else 9

    # --- one clause -------------------------------------------------------------------------------

    def step(self, part: Part, known: Environment, dollar: str) -> Iterator[tuple[Environment, Evidence]]:
        """Yield the environments after a clause, each with what the clause holds by."""
        match part:
            case Given(binding=binding, rows=rows):
                yield from ((found, None) for found in _joined(known, binding, rows))
            case tree.Pattern():
                yield from self.source(part.source, dollar).matches(part, known)
            case tree.Predicate(function="missing?") | tree.Function(function="get-else" | "get-some"):
                yield from self._of_source(part, known, dollar)
            case tree.Predicate():
                value = self.called(part, known)
                if not isinstance(value, Failed) and is_true(value):
                    yield known, None
            case tree.Function():
                value = self.called(part, known)
                if not isinstance(value, Failed) and value is not None:
                    yield from ((found, None) for found in _bound(known, part.binding, value))
            case tree.RuleCall():
                yield from self._call(part, known, dollar)
            case tree.Or():
                yield from self._or(part, known, dollar)
            case tree.Not():
                if next(self.inside(part, known, dollar), None) is None:
                    yield known, None

    def source(self, name: str, dollar: str) -> Source:
        """Return the source that a name means where `$` is `dollar`."""
        return self.sources[dollar if name == "$" else name]

    def inside(self, clause: tree.Not, known: Environment, dollar: str) -> Iterator[Solution]:
        """Yield the solutions inside of a negation."""
        return self.solve(clause.clauses, visible(known, variables_of(clause)), dollar)

    def called(self, clause: tree.Predicate | tree.Function, known: Environment) -> Any:
        """Return the value of a function; `Failed` if it raises an error."""
        name = tree.called_name(clause.function)
        arguments = [_value(argument, known) for argument in clause.arguments]
        user = self.functions.get(name)
        if user is None and name == "ground":
            return arguments[0]
        function = user or expect_present(find_function(name), f"the function {name}").evaluate
        try:
            return function(*arguments)
        except Exception as error:  # a function may raise anything; the explanation shows it
            return Failed(str(error) or type(error).__name__)

    def values_of(self, clause: tree.Function, known: Environment, dollar: str) -> list[Any]:
        """Return the values of `get-else` or `get-some`."""
        named, entity, *others = clause.arguments
        source = self._database(named, dollar)
        entities = source.entities(entity, known) or []
        return [value for each in entities for value, _ in self._values(clause, source, each, others, known)]

    def _database(self, named: tree.Argument, dollar: str) -> DatomSource:
        name = named.name if isinstance(named, tree.SourceVariable) else "$"
        return expect_type(self.source(name, dollar), DatomSource, "a database")

    def _of_source(
        self, clause: tree.Predicate | tree.Function, known: Environment, dollar: str
    ) -> Iterator[tuple[Environment, Evidence]]:
        named, entity_term, *others = clause.arguments
        source = self._database(named, dollar)
        for entity in source.entities(entity_term, known) or []:
            if isinstance(clause, tree.Predicate):
                if not source.values(entity, source.attribute(_constant(others[0]))):
                    yield known, None
                continue
            for value, evidence in self._values(clause, source, entity, others, known):
                yield from ((found, evidence) for found in _bound(known, clause.binding, value))

    def _values(
        self,
        clause: tree.Function,
        source: DatomSource,
        entity: Any,
        others: Sequence[tree.Argument],
        known: Environment,
    ) -> Iterator[tuple[Any, Evidence]]:
        names = others[:1] if clause.function == "get-else" else others
        for name in names:
            attribute = source.attribute(_constant(name))
            values = source.values(entity, attribute)
            for value in values:
                shown, whole = source.fact(entity, attribute, value)
                yield (value if clause.function == "get-else" else whole), shown
            if values:
                return
        if clause.function == "get-else":
            default = others[1]
            if isinstance(default, tree.Variable):
                yield known[default.name], None
            else:
                yield source.default(default, source.attribute(_constant(others[0]))), None

    def _call(
        self, clause: tree.RuleCall, known: Environment, dollar: str
    ) -> Iterator[tuple[Environment, Evidence]]:
        source = dollar if clause.source == "$" else clause.source
        arguments = self.arguments(clause, known, source)
        if arguments is None:
            return
        for row in self.calls.rows(clause.name, source, arguments):
            found: Environment | None = known
            for term, value in zip(clause.arguments, row, strict=True):
                if found is not None and isinstance(term, tree.Variable):
                    found = extended(found, term.name, value)
            if found is not None:
                yield found, RuleRow(clause.name, source, row)

    def arguments(self, clause: tree.RuleCall, known: Environment, source: str) -> tuple[Any, ...] | None:
        """Return the arguments of a call of a rule; `UNBOUND` for those without a value.

        Returns None if an ident or a lookup ref has no entity: no row of the rule matches.
        """
        entities = self._entities.of_rule(clause.name, source)
        of = self.sources[source]
        found = []
        for at, term in enumerate(clause.arguments):
            value = _value(term, known)
            if at in entities and isinstance(term, tree.Constant) and isinstance(of, DatomSource):
                named = of.entities(term, known)
                if not named:
                    return None
                value = named[0]
            found.append(value)
        return tuple(found)

    def _or(self, clause: tree.Or, known: Environment, dollar: str) -> Iterator[tuple[Environment, Evidence]]:
        names = set(shared_variables(clause))
        given = visible(known, names)
        for number, branch in enumerate(clause.branches):
            for solution in self.solve(branch, given, dollar):
                new = visible(solution.environment, names)
                yield {**known, **new}, Branch(clause, number, solution)

    # --- rules ------------------------------------------------------------------------------------

    def of_definition(
        self, definition: tree.RuleDefinition, arguments: Sequence[Any], source: str
    ) -> Iterator[Solution]:
        """Yield the solutions of a definition of a rule; some of the arguments are unbound."""
        given = with_values([variable.name for variable in definition.head], arguments)
        if given is not None:
            yield from self.solve(definition.clauses, given, source)

    def _rows_of_definition(
        self, definition: tree.RuleDefinition, arguments: Sequence[Any], source: str
    ) -> Iterator[tuple[Any, ...]]:
        for solution in self.of_definition(definition, arguments, source):
            yield tuple(solution.environment[variable.name] for variable in definition.head)


@dataclass(frozen=True, slots=True)
class Failed:
    """The error of a function instead of its value."""

    message: str


def bound_by(part: Part) -> Iterable[str]:
    """Return the variables that a clause gives values."""
    return binding_variables(part.binding) if isinstance(part, Given) else binds(part)


def visible(known: Environment, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of these variables, as far as they have one."""
    return {name: known[name] for name in names if name in known}


def with_values(names: Iterable[str], values: Iterable[Any]) -> Environment | None:
    """Return the environment with the values that are not `UNBOUND`; None if a name has two."""
    found: Environment | None = {}
    for name, value in zip(names, values, strict=True):
        if found is not None and value is not UNBOUND:
            found = extended(found, name, value)
    return found


def _joined(
    known: Environment, binding: tree.Binding, rows: Iterable[tuple[Any, ...]]
) -> Iterator[Environment]:
    names = list(binding_variables(binding))
    for row in rows:
        found: Environment | None = known
        for name, value in zip(names, row, strict=True):
            if found is not None:
                found = extended(found, name, storable(value))
        if found is not None:
            yield found


def _bound(known: Environment, binding: tree.Binding, value: Any) -> Iterator[Environment]:
    """Yield the environments with the values that a binding takes from a value."""
    try:
        rows = list(binding_rows(binding, value))
    except DbspError:
        return  # a value of another form binds nothing; `q` reports it
    yield from _joined(known, binding, rows)


def _has_value(term: tree.Term, known: Environment) -> bool:
    return isinstance(term, tree.Constant) or (isinstance(term, tree.Variable) and term.name in known)


def _value(term: tree.Term | tree.Argument, known: Environment) -> Any:
    if isinstance(term, tree.Variable):
        return known.get(term.name, UNBOUND)
    return storable(term.value) if isinstance(term, tree.Constant) else UNBOUND


def _constant(argument: tree.Argument) -> Any:
    return expect_type(argument, tree.Constant, "the name of an attribute").value
