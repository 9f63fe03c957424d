"""`q`: the answer of a query over database values and other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.compiler.datomic.circuits.query_inputs import Resolve
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.datomic.compiled_query import CompiledQuery, QueryCache, parsed, query_cache
from dbsp.datomic.entity_access import EntityAccess
from dbsp.datomic.matched_arguments import MatchedArguments, match_arguments
from dbsp.datomic.pull import pull_with_reads
from dbsp.datomic.pull_pattern import PullPattern
from dbsp.datomic.pull_syntax import parse_pattern, pattern_of
from dbsp.datomic.query_results import (
    Row,
    has_pull,
    plain_rows,
    pulled_entity,
    pulled_row,
    result_of,
    selected_rows,
)
from dbsp.datomic.query_sources import DatabaseCatalog, TracedFacts, Tuples, TuplesCatalog
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.errors import InputError
from dbsp.lazy_dataclass import dataclass

Functions = Mapping[str, Callable[..., Any]]


@dataclass
class BoundQuery:
    """A query with its arguments: compiled, and with the rows of its inputs."""

    query: tree.Query
    arguments: MatchedArguments
    compiled: CompiledQuery
    databases: dict[str, EntityAccess]
    interner: Interner
    functions: Functions
    _patterns: dict[int, PullPattern] = field(default_factory=dict)
    """The pull patterns that have been read, by the id of their element of `:find`."""

    @property
    def facts(self) -> dict[str, TracedFacts]:
        """The facts of each database."""
        return {name: database.facts for name, database in self.databases.items()}

    def batches(self, resolve: Resolve | None = None) -> dict[str, Batch]:
        """Return the rows of the inputs of the circuit.

        `resolve` finds the entities of idents and lookup refs; by default in the databases.
        """
        tuples: dict[str, Tuples] = {
            name: source for name, source in self.arguments.sources.items() if name not in self.databases
        }
        return self.compiled.program.inputs.batches(
            self.arguments.values, tuples, self.interner, resolve or self._entity
        )

    def rows(self) -> list[Row]:
        """Return the rows of the query over its databases."""
        found = self.compiled.answer(self.facts, self.batches())
        rows = plain_rows(found)
        if has_pull(self.query.find):
            rows = [pulled_row(self.query.find, row, self.pulled) for row in rows]
        return rows

    def _entity(self, value: Any) -> int | None:
        """Return the entity of an ident or of a lookup ref, in the first database that has it."""
        found = (database.entid(value) for database in self.databases.values())
        return next((entity for entity in found if entity is not None), None)

    def check_patterns(self) -> None:
        """Raise an error if a pull pattern is wrong, whether there are rows or not."""
        for element in self.query.find.elements:
            if isinstance(element, tree.FindPull):
                database = self.databases.get(element.source)
                if database is None:
                    raise InputError(
                        f"{element.span}: expected a database to pull from as the source {element.source}, "
                        "got a collection of tuples",
                        code="invalid-argument",
                    )
                if database.is_history:
                    raise InputError(
                        f"{element.span}: expected a database at one time to pull from as the source "
                        f"{element.source}, got a history; use as_of",
                        code="invalid-argument",
                    )
                self.pattern(element).plan(database.facts.schema)

    def pulled(self, element: tree.FindPull, value: Any) -> Any:
        """Return the pulled value of the entity that a value of a row names."""
        facts = self.databases[element.source].facts
        return pull_with_reads(facts, self.pattern(element), pulled_entity(facts, element, value)).value

    def pattern(self, element: tree.FindPull) -> PullPattern:
        """Return the pattern of a pull expression, which may be an argument of the query."""
        found = self._patterns.get(id(element))
        if found is None:
            called = {**self.functions, **self.arguments.functions}
            pattern = element.pattern
            if element.form is not None:
                pattern = pattern_of(element.form, self.query.sources, called)
            elif isinstance(pattern, tree.Variable):
                patterns, name = self.arguments.patterns, pattern.name
                pattern = patterns[name] if name in patterns else self._value(name)
            found = self._patterns[id(element)] = parse_pattern(pattern, functions=called)
        return found

    def _value(self, name: str) -> Any:
        for given, value in zip(self.query.inputs, self.arguments.values, strict=True):
            match given:
                case tree.BindingInput(binding=tree.BindScalar(variable=variable)) if variable.name == name:
                    return value
        raise InputError(f"expected a pull pattern for {name} in :in", code="invalid-argument")


def bind_query(query: Any, values: Sequence[Any], functions: Functions, cache: QueryCache) -> BoundQuery:
    """Compile a query for its arguments."""
    read = parsed(query)
    arguments = match_arguments(read, values)
    databases: dict[str, EntityAccess] = {}
    catalogs: dict[str, DatabaseCatalog | TuplesCatalog] = {}
    for name, source in arguments.sources.items():
        if isinstance(source, EntityAccess):
            databases[name] = source
            catalogs[name] = DatabaseCatalog(source.facts.schema, source.is_history)
        else:
            catalogs[name] = TuplesCatalog()
    key = query if isinstance(query, str) else repr(query)
    compiled = cache.compiled(read, key, arguments, catalogs, functions)
    bound = BoundQuery(read, arguments, compiled, databases, cache.interner, functions)
    bound.check_patterns()
    return bound


def bind_live_query(
    query: Any, database: EntityAccess, inputs: Sequence[Any], functions: Functions
) -> BoundQuery:
    """Compile a query whose source `$` is the database; `inputs` are the other arguments."""
    values = with_database(query, database, inputs, "a live query follows")
    return bind_query(query, values, functions, query_cache())


def with_database(query: Any, database: EntityAccess, inputs: Sequence[Any], use: str) -> list[Any]:
    """Return all arguments of a query: the database is its source `$`, `inputs` are the others.

    `use` is what the database is for, in the message if the query has no such source.
    """
    read = parsed(query)
    for place, given in enumerate(read.inputs):
        if isinstance(given, tree.SourceInput) and given.name == "$":
            return [*inputs[:place], database, *inputs[place:]]
    raise InputError(
        f"{read.file}: {use} the source $, which :in does not have; add $ to :in", code="unknown-source"
    )


@ends_at_caller
def explain(query: Any, *arguments: Any, functions: Functions | None = None) -> str:
    """Return how a query is answered: its rules, and the plan of each for the current facts.

    A relation such as `$ :name e v` has columns of the datoms of an attribute in a source. The
    relation `query` holds the constants and the inputs. The plans of a live query are those of
    `Subscription.explain`.

    Parameters:
        query: the query, as for `q`.
        arguments: the databases and the other inputs, in the order of `:in`.
        functions: Python functions and aggregates by the names that the query calls them.

    Returns:
        The text.

    Raises:
        CompileError: the query has errors; the text shows each with its line.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(":memory:", schema={":name": {}, ":age": {}})
        >>> text = explain('[:find ?a :where [?p :name "Ada"] [?p :age ?a]]', conn.db())
        >>> print(text.splitlines()[0])
        rule 1: result(?a) :- query(constant), $ :name e v(?p, constant), $ :age e v(?p, ?a).
    """
    with SHARED_LOCK:
        bound = bind_query(query, arguments, functions or {}, query_cache())
        return bound.compiled.program.explain(bound.compiled.plans(bound.facts))


@ends_at_caller
def q(query: Any, *arguments: Any, functions: Functions | None = None) -> Any:
    """Return the answer of a query.

    Parameters:
        query: the query, as EDN text or as Python data.
        arguments: the databases and the other inputs, in the order of `:in`.
        functions: Python functions and aggregates by the names that the query calls them.

    Returns:
        The form that `:find` specifies: a list of tuples, a list, a tuple or a value; maps with
        `:keys`.

    Raises:
        CompileError: the query has errors; the text shows each with its line.
        InputError: an argument does not fit `:in`.
        EvaluationError: a function of the query raises an error.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(":memory:", schema={":name": {}, ":age": {}})
        >>> _ = conn.transact([{":name": "Ada", ":age": 36}, {":name": "Eva", ":age": 17}])
        >>> q("[:find ?n ?a :where [?p :name ?n] [?p :age ?a] [(> ?a 18)]]", conn.db())
        [('Ada', 36)]
    """
    with SHARED_LOCK:
        bound = bind_query(query, arguments, functions or {}, query_cache())
        rows = bound.rows()
    return result_of(bound.query, selected_rows(bound.query, rows))
