"""The arguments of a query as rows of the inputs of its circuit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dbsp.compiler.datalog.tree.kinds import VALUE, AnyKind, Kind, type_of
from dbsp.compiler.datomic.meaning.argument_checks import at_input
from dbsp.compiler.datomic.meaning.bindable import binding_variables
from dbsp.compiler.datomic.meaning.binding_values import binding_rows
from dbsp.compiler.datomic.meaning.checked_rules import CheckedQuery, storable
from dbsp.compiler.datomic.meaning.draft_rules import QUERY, DraftQuery, Parameter
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.values import encode_value
from dbsp.errors import DbspError
from dbsp.kernels import consolidate
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

Resolve: TypeAlias = Callable[[Any], int | None]
"""Returns the entity of an ident or of a lookup ref, None if there is none."""


def kind_of_value(value: Any) -> AnyKind:
    """Return the kind of a value in a circuit."""
    if isinstance(value, int) and not isinstance(value, bool) and INT64_MIN <= value <= INT64_MAX:
        return Kind.NUMBER
    if isinstance(value, float):
        return Kind.FLOAT
    return Kind.SYMBOL if isinstance(value, str) else VALUE


def kind_of_values(values: Iterable[Any]) -> AnyKind | None:
    """Return the common kind of values; None if there are no values."""
    kinds = set(map(kind_of_value, values))
    return next(iter(kinds)) if len(kinds) == 1 else VALUE if kinds else None


class QueryInputs:
    """The inputs of a query's circuit, and the rows of each for given arguments."""

    def __init__(self, query: tree.Query, draft: DraftQuery) -> None:
        self._query = query
        self.columns: dict[str, list[Parameter]] = {QUERY: draft.parameters, **draft.inputs}
        """The columns of every input, by name."""
        self._kinds: dict[str, list[AnyKind]] = {}

    @property
    def entities(self) -> set[str]:
        """The variables of `:in` whose values are entities."""
        return {
            parameter.name for columns in self.columns.values() for parameter in columns if parameter.entity
        }

    def kinds(self, given: Mapping[str, AnyKind | None]) -> dict[str, list[AnyKind | None]]:
        """Return the kinds of the columns; `given` are those of the arguments, by variable."""
        return {
            name: [
                Kind.NUMBER
                if parameter.entity
                else kind_of_value(parameter.constant)
                if parameter.is_constant
                else given.get(parameter.name)
                for parameter in columns
            ]
            for name, columns in self.columns.items()
        }

    def settle(self, found: CheckedQuery) -> None:
        """Note the kinds of the columns in the circuit."""
        self._kinds = {
            name: [found.kinds.of_column(name, at) for at in range(len(columns))]
            for name, columns in self.columns.items()
        }

    def batches(
        self,
        arguments: Sequence[Any],
        tuples: Mapping[str, Iterable[Sequence[Any]]],
        interner: Interner,
        resolve: Resolve,
    ) -> dict[str, Batch]:
        """Return the rows of every input.

        An ident or a lookup ref without an entity is nil: it matches nothing, so there is no row.

        Args:
            arguments: the value of each item of `:in`; those of sources and rules are not read.
            tuples: the collections of tuples, by source.
            interner: gives values their codes.
            resolve: finds entities by ident or lookup ref.
        """
        single: dict[str, Any] = {}
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for number, (given, value) in enumerate(zip(self._query.inputs, arguments, strict=True)):
            if not isinstance(given, tree.BindingInput):
                continue
            name = f"in{number}"
            names = list(binding_variables(given.binding))
            found = list(binding_rows(given.binding, value))
            if name in self.columns:
                rows[name] = found
            elif found:
                single |= dict(zip(names, found[0], strict=True))
        parameters = self.columns[QUERY]
        # A single value that is nil matches nothing, so there is no row.
        if all(parameter.is_constant or parameter.name in single for parameter in parameters):
            constants = (
                parameter.constant if parameter.is_constant else single[parameter.name]
                for parameter in parameters
            )
            rows[QUERY] = [tuple(constants)]
        else:
            rows[QUERY] = []
        for name in self.columns:
            source, _, width = name.partition(" ")
            if name not in rows:
                rows[name] = [tuple(row[: int(width)]) for row in tuples[source] if len(row) >= int(width)]
        return {name: self._batch(name, rows[name], interner, resolve) for name in self.columns}

    def _batch(
        self, name: str, rows: Sequence[tuple[Any, ...]], interner: Interner, resolve: Resolve
    ) -> Batch:
        columns, kinds = self.columns[name], self._kinds[name]
        codes = np.empty((len(rows), len(columns)), np.int64)
        missing: set[int] = set()
        for at, (parameter, kind) in enumerate(zip(columns, kinds, strict=True)):
            type_ = type_of(kind)
            for number, row in enumerate(rows):
                try:
                    value = _entity(row[at], resolve) if parameter.entity else row[at]
                    if value is None and parameter.entity:
                        missing.add(number)
                        continue
                    value = storable(value) if kind == VALUE else value
                    codes[number, at] = encode_value(type_, value, interner)
                except DbspError as error:
                    raise self._located(name, parameter, error) from None
        if missing:
            codes = np.delete(codes, sorted(missing), axis=0)
        batch = Batch(*consolidate(codes, np.ones(len(codes), np.int64)))
        return Batch(batch.rows, np.ones(len(batch.rows), np.int64))  # a set: repeated rows count once

    def _located(self, name: str, parameter: Parameter, error: DbspError) -> DbspError:
        """Return the error for a value of a column, at the item of `:in` that it comes from."""
        for given in self._query.inputs:
            match given:
                case tree.BindingInput(binding) if parameter.name in binding_variables(binding):
                    message = f"the value of {parameter.name}: {error.message}"
                case tree.SourceInput(source) if source == name.partition(" ")[0]:
                    message = f"an item of a tuple of {source}: {error.message}"
                case _:
                    continue
            return at_input(self._query, given, type(error)(message, code=error.code))
        return error


def _entity(value: Any, resolve: Resolve) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return resolve(value)
