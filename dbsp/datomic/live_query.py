"""The circuit of a live query: it stays, and steps with every transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dbsp.compiler.datomic.circuits.query_program import FOUND
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.batch import Batch
from dbsp.datomic.entity_ids import entity_id
from dbsp.datomic.live_pull import LivePull
from dbsp.datomic.query import BoundQuery
from dbsp.datomic.query_results import Row, has_pull, plain_rows, weighted_rows
from dbsp.datomic.query_sources import SourceTraces, TracedFacts, relation_key
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate
from dbsp.runtime.located_errors import without_rollback

if TYPE_CHECKING:
    from dbsp.datomic.database_facts import Facts
    from dbsp.datomic.database_schema import Schema
    from dbsp.datomic.indices import Indices

LIVE = "$"
"""The source that a live query follows; its other databases are values."""


class LiveQuery:
    """The circuit of a query over facts that change, one step for each transaction.

    Args:
        bound: the query and its arguments.
        indices: the facts of the source `$`, before the first transaction to follow.
    """

    def __init__(self, bound: BoundQuery, indices: Indices) -> None:
        self._bound = bound
        self._facts: dict[str, TracedFacts] = {**bound.facts, LIVE: indices}
        self._run, self._traces = bound.compiled.start(self._facts)
        self._inputs = {
            name: relation_key(base)
            for name, base in bound.compiled.program.bases.items()
            if base.source == LIVE
        }
        self._schema = indices.schema
        self._looks_up = False
        """Whether an argument is an ident or a lookup ref, whose entity may change."""
        self._arguments = bound.batches(self._entity)
        with without_rollback():
            self._run.step_staged(self._arguments)
        find = bound.query.find
        self._pulled: LivePull | None = None
        if has_pull(find):
            facts = cast("dict[str, Facts]", self._facts)  # a database has look-ups and traces
            self._pulled = LivePull(find, bound.pattern, facts, self._run.view(FOUND).rows())

    def step(self, indices: Indices, changed: Mapping[int, Batch]) -> list[tuple[Row, int]]:
        """Step with the transaction that the indices apply; return the change of the result."""
        if indices.schema is not self._schema:
            self._check_names(indices.schema)
            self._schema = indices.schema
        staged: dict[str, Batch] = {}
        for name, key in self._inputs.items():
            if key.attribute is not None and key.attribute not in changed:
                continue
            trace = indices.trace(key, key.columns)
            if trace.fresh:
                run = trace.current[-1]
                staged[name] = Batch(run.rows, run.weights)
        if self._looks_up:
            staged |= self._changed_arguments()
        if self._pulled is None and not staged:
            return []
        with without_rollback():
            delta = weighted_rows(self._run.step_staged(staged)[FOUND])
        return delta if self._pulled is None else self._pulled.step(delta, indices.schema, changed)

    def _check_names(self, schema: Schema) -> None:
        """Raise an error if a name in the query is no longer that of its attribute."""
        for (source, name), attribute in self._bound.compiled.program.named.items():
            if source == LIVE and schema.by_id[attribute].ident is not name:
                raise SchemaError(
                    f"attribute {name} has the name {schema.by_id[attribute]} now; subscribe again with the "
                    "new name",
                    code="unknown-attribute",
                )
        for element in self._bound.query.find.elements:
            if isinstance(element, tree.FindPull) and element.source == LIVE:
                self._bound.pattern(element).plan(schema)

    def _changed_arguments(self) -> dict[str, Batch]:
        """Return the changes of the arguments: entities that idents and lookup refs stand for."""
        before, self._arguments = self._arguments, self._bound.batches(self._entity)
        changes = {}
        for name, batch in self._arguments.items():
            old = before[name]
            rows, weights = consolidate(
                np.concatenate((batch.rows, old.rows)), np.concatenate((batch.weights, -old.weights))
            )
            if len(rows):
                changes[name] = Batch(rows, weights)
        return changes

    def _entity(self, value: Any) -> int | None:
        """Return the entity of an ident or of a lookup ref, in the first database that has it."""
        self._looks_up = True
        databases = (cast("Facts", facts) for facts in self._facts.values())
        found = (entity_id(facts, value) for facts in databases)
        return next((entity for entity in found if entity is not None), None)

    def follow(self, indices: Indices) -> None:
        """Read the live source from other indices, which have equal facts, from now on."""
        self._facts[LIVE] = indices
        self._traces.source = SourceTraces(self._bound.compiled.program.bases, self._facts)

    @property
    def facts(self) -> Mapping[str, TracedFacts]:
        """The facts of each source that is a database."""
        return self._facts

    def rows(self) -> list[Row]:
        """Return the rows of the result."""
        if self._pulled is not None:
            return self._pulled.rows()
        return plain_rows(self._run.view(FOUND))
