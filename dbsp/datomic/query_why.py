"""`why`: the proof of a row of a query's result, or the reasons why the row is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.compiler.datomic.circuits.find_aggregates import aggregate_value
from dbsp.compiler.datomic.meaning.base_relations import Catalog
from dbsp.compiler.datomic.meaning.bindable import binding_variables
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.checked_rules import storable
from dbsp.compiler.datomic.meaning.clojure_order import total_order
from dbsp.compiler.datomic.meaning.entity_arguments import EntityArguments
from dbsp.compiler.datomic.meaning.rule_writer import is_single
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.compiler.why.proof import Key, Premise, Proof, ProofStep
from dbsp.compiler.why.refusal import Attempt, LiteralStatus, Match, Refusal
from dbsp.datomic.compiled_query import query_cache, texts_of
from dbsp.datomic.entity_ids import entity_id
from dbsp.datomic.proofs.clause_search import ClauseSearch, Given
from dbsp.datomic.proofs.clause_text import row_text, value_text
from dbsp.datomic.proofs.query_rows import Explained, QueryRow, RowProver
from dbsp.datomic.proofs.row_refusals import RowRefuter
from dbsp.datomic.proofs.rule_rows import UNBOUND
from dbsp.datomic.proofs.same_values import ValueRow, identity, same
from dbsp.datomic.proofs.source_rows import as_facts, sources_of
from dbsp.datomic.query import BoundQuery, Functions, bind_query
from dbsp.datomic.query_sources import DatabaseCatalog, TracedFacts, TuplesCatalog
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.edn.edn_values import Keyword
from dbsp.errors import InputError, counted, shorten
from dbsp.runtime.located_errors import without_rollback

_SHOWN = 3
"""The number of rows of a group that a proof shows, each with its own proof."""


@ends_at_caller
def why(
    query: Any,
    *arguments: Any,
    row: Sequence[Any],
    depth: int | None = None,
    functions: Functions | None = None,
) -> Proof | Refusal:
    """Return a proof that a row is in the result of a query, or the reasons why it is not.

    A proof shows by which datoms each clause of the query holds, and for each row of a rule the
    definition that derives it. It has the smallest height: the fewest rules on the longest path
    down to a datom. A row of aggregates is proved by the rows of its group. A refusal shows the
    matches that satisfy as many clauses as possible, and the clauses that fail.

    `:order-by`, `:limit` and `:offset` play no part. The clauses are searched from the row down,
    over ranges of the indices.

    Parameters:
        query: the query, as for `q`.
        arguments: the databases and the other inputs, in the order of `:in`.
        row: one value for each element of `:find`; `...` matches any value. For a pull expression
            it is the entity: its id, ident or lookup ref, or a pulled map with `:db/id`.
        depth: the number of rules to follow from the row down; by default all of a proof, and 1 of
            a refusal, which then does not explain missing rows of rules.
        functions: Python functions and aggregates by the names that the query calls them.

    Returns:
        A `Proof` if the row is in the result, else a `Refusal`. `print` shows it.

    Raises:
        CompileError: the query has errors.
        InputError: the row has another number of values than `:find`.

    Examples:
        >>> from dbsp.datomic import connect
        >>> conn = connect(":memory:", schema={":name": {}, ":age": {}})
        >>> _ = conn.transact([{":name": "Ada", ":age": 36}, {":name": "Eva", ":age": 17}])
        >>> text = "[:find ?n :where [?p :name ?n] [?p :age ?a] [(> ?a 18)]]"
        >>> print(why(text, conn.db(), row=("Ada",)))
        ["Ada"]
        │  query:1:1: [:find ?n :where [?p :name ?n] [?p :age ?a] [(> ?a 18)]]
        ├─ [1 :name "Ada"]   datom by query:1:18
        ├─ [1 :age 36]   datom by query:1:32
        └─ [(> 36 18)]   by query:1:45
        >>> print(why(text, conn.db(), row=("Eva",)))
        ["Eva"]   is missing
           query:1:1: [:find ?n :where [?p :name ?n] [?p :age ?a] [(> ?a 18)]]
              + [2 :name "Eva"]   by query:1:18
              + [2 :age 17]   by query:1:32
              - [(> 17 18)]   the value is false   by query:1:45
    """
    with SHARED_LOCK:
        bound = bind_query(query, arguments, functions or {}, query_cache())
        return WhyQuery(bound, bound.facts).why(row, depth)


class WhyQuery:
    """Explains rows of a query over facts."""

    def __init__(self, bound: BoundQuery, facts: Mapping[str, TracedFacts]) -> None:
        self._bound = bound
        self._facts = facts
        self._functions = {**bound.functions, **bound.arguments.functions}
        query, arguments = bound.query, bound.arguments
        rules: dict[str, list[tree.RuleDefinition]] = {}
        for definition in arguments.rules.definitions if arguments.rules is not None else ():
            rules.setdefault(definition.name, []).append(definition)
        tuples = {name: list(rows) for name, rows in arguments.sources.items() if name not in bound.databases}
        histories = [name for name, database in bound.databases.items() if database.is_history]
        catalogs: dict[str, Catalog] = {name: TuplesCatalog() for name in tuples}
        catalogs |= {name: DatabaseCatalog(each.schema, name in histories) for name, each in facts.items()}
        sources = sources_of(facts, histories, tuples)
        entities = EntityArguments(rules, catalogs)
        search = ClauseSearch(sources, rules, self._functions, entities)
        self._explained = Explained(
            query,
            (*self._givens(), *query.where),
            bound.compiled.program.variables,
            search,
            texts_of(query, arguments.rules),
        )
        self._prover = RowProver(self._explained)
        self._refuter = RowRefuter(self._explained)

    def _givens(self) -> list[Given]:
        """Return the arguments of `:in` as clauses."""
        found = []
        entities = self._bound.compiled.program.inputs.entities
        for each, value in zip(self._bound.query.inputs, self._bound.arguments.values, strict=True):
            if not isinstance(each, tree.BindingInput):
                continue
            names = list(binding_variables(each.binding))
            if any(name in self._functions for name in names):
                continue
            rows = [
                tuple(
                    self._entity(part) if name in entities else storable(part)
                    for name, part in zip(names, row, strict=True)
                )
                for row in binding_rows(each.binding, value)
            ]
            present = tuple(row for row in rows if None not in row)
            found.append(Given(each.binding, present, is_single(each.binding), each.span))
        return found

    def _entity(self, value: Any) -> int | None:
        """Return the entity of an ident or of a lookup ref, in the first database that has it."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        found = (entity_id(as_facts(facts), value) for facts in self._facts.values())
        return next((entity for entity in found if entity is not None), None)

    def why(self, row: Sequence[Any], depth: int | None) -> Proof | Refusal:
        """Return a proof of a row, or why it is missing."""
        values = self._values(row)
        if self._explained.query.find.aggregates:
            return self._aggregated(values, depth)
        wanted = self._wanted(values)
        proof = None if wanted is None else self._prover.prove(wanted, depth)
        if proof is not None:
            return proof
        return self._refusal(values, depth)

    def _refusal(self, values: Sequence[Any], depth: int | None) -> Refusal:
        wanted = self._wanted(values)
        if wanted is None:
            twice = LiteralStatus("fails", row_text(values), "a variable has two values in this row")
            explained = self._explained
            attempt = Attempt(explained.text, 1, explained.place, (Match((twice,)),))
            return Refusal(row_text(values), False, (attempt,))
        return self._refuter.refute(wanted, depth or 1)

    def _values(self, row: Any) -> list[Any]:
        """Return the values of the elements of `:find`; `UNBOUND` for any."""
        elements = self._explained.query.find.elements
        if not isinstance(row, tuple | list) or len(row) != len(elements):
            raise InputError(
                f"expected a row of the query as a tuple of {counted(len(elements), 'value')}, one for each "
                f"element of :find, got {shorten(row)}",
                code="invalid-row",
            )
        return [self._element(element, value) for element, value in zip(elements, row, strict=True)]

    def _element(self, element: tree.FindElement, value: Any) -> Any:
        if value is ...:
            return UNBOUND
        if isinstance(element, tree.FindPull):
            if isinstance(value, Mapping):
                entity = value.get(Keyword("db/id"))
                if entity is None:
                    raise InputError(
                        "expected the entity of a pull expression as its id, ident or lookup ref, got a map "
                        f"without :db/id: {shorten(value)}",
                        code="invalid-row",
                    )
                value = entity
            value = entity_id(as_facts(self._facts[element.source]), value)
        return storable(value)

    def _wanted(self, values: Sequence[Any]) -> QueryRow | None:
        """Return the row of the variables of `:find` and `:with`; None if a variable has two
        values."""
        found: dict[str, Any] = {}
        for element, value in zip(self._explained.query.find.elements, values, strict=True):
            name = element.variable.name
            if isinstance(element, tree.FindAggregate) or value is UNBOUND:
                continue
            if name in found and not same(found[name], value):
                return None
            found[name] = value
        return QueryRow(tuple(found.get(name, UNBOUND) for name in self._explained.variables))

    # --- aggregates -------------------------------------------------------------------------------

    def _aggregated(self, values: Sequence[Any], depth: int | None) -> Proof | Refusal:
        wanted = self._wanted(values)
        groups = {} if wanted is None else self._groups(wanted)
        if not groups:
            return self._refusal(values, depth)
        computed = [(self._computed(rows), rows) for rows in groups.values()]
        for result, rows in computed:
            if all(
                value is UNBOUND or same(value, found) for value, found in zip(values, result, strict=True)
            ):
                return self._proof(result, rows, depth)
        explained = self._explained
        matches = tuple(self._other_group(values, result, rows) for result, rows in computed[:_SHOWN])
        attempt = Attempt(explained.text, 1, explained.place, matches)
        return Refusal(row_text(values), False, (attempt,))

    def _groups(self, wanted: QueryRow) -> dict[Any, list[tuple[Any, ...]]]:
        """Return the rows of the groups that match, by the values of the plain elements."""
        explained = self._explained
        places = [
            explained.variables.index(element.variable.name)
            for element in explained.query.find.elements
            if not isinstance(element, tree.FindAggregate)
        ]
        rows: dict[Any, tuple[Any, ...]] = {}
        for solution in explained.solutions(wanted):
            found = tuple(solution.environment[name] for name in explained.variables)
            rows.setdefault(tuple(map(identity, found)), found)
        groups: dict[Any, list[tuple[Any, ...]]] = {}
        for found in rows.values():
            groups.setdefault(tuple(identity(found[place]) for place in places), []).append(found)
        return groups

    def _computed(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the values of the elements of `:find` for a group."""
        variables = self._explained.variables
        result = []
        for element in self._explained.query.find.elements:
            column = variables.index(element.variable.name)
            if not isinstance(element, tree.FindAggregate):
                result.append(rows[0][column])
                continue
            values = sorted((row[column] for row in rows), key=total_order)
            given = [self._argument(argument) for argument in element.arguments]
            user = self._functions.get(tree.called_name(element.function))
            with without_rollback():
                result.append(aggregate_value(element, values, given, user, self._explained.query.sources))
        return result

    def _argument(self, argument: tree.Variable | tree.Constant) -> Any:
        if isinstance(argument, tree.Constant):
            return argument.value
        given = next(
            each
            for each in self._explained.parts
            if isinstance(each, Given) and argument.name in binding_variables(each.binding)
        )
        return given.rows[0][list(binding_variables(given.binding)).index(argument.name)]

    def _proof(self, result: Sequence[Any], rows: Sequence[tuple[Any, ...]], depth: int | None) -> Proof:
        """Return a proof of a row of aggregates: the first rows of its group with their proofs."""
        explained = self._explained
        below: dict[Key, ProofStep] = {}
        left = None if depth is None else depth - 1
        keys = [self._prover.add_steps(below, QueryRow(row), left) for row in rows[:_SHOWN]]
        premises = [
            Premise(
                "aggregate",
                f"{_element_text(element, value)} of {counted(len(rows), 'row')}",
                None,
                len(rows),
            )
            for element, value in zip(explained.query.find.elements, result, strict=True)
            if isinstance(element, tree.FindAggregate)
        ]
        premises += [Premise("row", below[key].text, key) for key in keys if key is not None]
        key = (":find aggregates", ValueRow(result))
        height = 1 + max(below[each].height for each in keys if each is not None)
        step = ProofStep(key, row_text(result), height, explained.text, 1, explained.place, tuple(premises))
        return Proof(key, {key: step, **below})

    def _other_group(
        self, values: Sequence[Any], result: Sequence[Any], rows: Sequence[tuple[Any, ...]]
    ) -> Match:
        """Return which aggregates of a group have other values than a row."""
        parts = []
        for element, value, found in zip(self._explained.query.find.elements, values, result, strict=True):
            if isinstance(element, tree.FindAggregate):
                holds = value is UNBOUND or same(value, found)
                text = _element_text(element, found if holds else value)
                detail = f"of {counted(len(rows), 'row')}"
                if not holds:
                    detail = f"is {value_text(found)} {detail}"
                parts.append(LiteralStatus("holds" if holds else "fails", text, detail))
            else:
                parts.append(LiteralStatus("holds", f"{element.variable.name} = {value_text(found)}"))
        return Match(tuple(parts))


def _element_text(element: tree.FindAggregate, value: Any) -> str:
    arguments = [
        argument.name if isinstance(argument, tree.Variable) else value_text(argument.value)
        for argument in element.arguments
    ]
    name = tree.called_name(element.function)
    return f"({' '.join((name, *arguments, element.variable.name))}) = {value_text(value)}"
