"""The values that fields of an operator may have, as metadata of the fields.

    @dataclass(frozen=True)
    class Project(Operator):
        columns: tuple[int, ...] = field(metadata=COLUMN)

`check_ranges` checks every number in such a field, also in tuples and in other dataclasses. A graph
calls it for every node (see `Operator.checked_schema`), since the kernels check no bounds.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.data.schema import Schema
from dbsp.errors import SchemaError, shorten
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass


class FieldRange(ABC):
    """The values that a field may have, given the schemas of the inputs."""

    @abstractmethod
    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        """Raise SchemaError if the value of a field is outside the range."""


@dataclass(frozen=True)
class InputColumns(FieldRange):
    """Column numbers of the input `first`; with `second`, -c - 1 is column c of that input."""

    first: int = 0
    second: int | None = None
    distinct: bool = False
    """Whether no column may occur twice."""

    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        schema = inputs[self.first]
        least = 0 if self.second is None else -inputs[self.second].arity
        seen = set()
        for column in numbers(value):
            if not least <= column < schema.arity:
                at = f"{-column - 1} of input {self.second}" if column < 0 and least else f"{column}"
                of = inputs[self.second] if column < 0 and self.second is not None else schema
                raise SchemaError(
                    f"expected a column from 0 to {of.arity - 1} of ({of.describe()}), got {at}",
                    code="unknown-column",
                )
            if self.distinct and column in seen:
                raise SchemaError(f"column {column} occurs twice", code="duplicate-column")
            seen.add(column)


@dataclass(frozen=True)
class Between(FieldRange):
    """Numbers from `least` to `most`."""

    least: float
    most: float

    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        for number in numbers(value):
            if not self.least <= number <= self.most:
                raise SchemaError(
                    f"expected a number from {self.least} to {self.most}, got {shorten(number)}",
                    code="invalid-argument",
                )


@dataclass(frozen=True)
class OneOf(FieldRange):
    """A text of a few."""

    texts: tuple[str, ...]

    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        if value not in self.texts:
            known = ", ".join(map(repr, self.texts))
            raise SchemaError(f"expected one of {known}, got {shorten(value)}", code="invalid-argument")


class NamedColumns(FieldRange):
    """A schema of the types of the first input; None for its own names."""

    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        if value is not None and value.types != inputs[0].types:
            raise SchemaError(
                f"expected the types of ({inputs[0].describe()}), got ({value.describe()})",
                code="schema-mismatch",
            )


class Parts(FieldRange):
    """Dataclasses whose fields have ranges over the same inputs."""

    def check(self, value: Any, inputs: Sequence[Schema]) -> None:
        for part in value:
            if dataclasses.is_dataclass(part):
                check_ranges(part, inputs)


def within(*ranges: FieldRange) -> Mapping[str, tuple[FieldRange, ...]]:
    """Return the metadata of a field with these ranges."""
    return {"ranges": ranges}


COLUMN = within(InputColumns())
DISTINCT_COLUMNS = within(InputColumns(distinct=True))
SECOND_COLUMN = within(InputColumns(1))
DISTINCT_SECOND_COLUMNS = within(InputColumns(1, distinct=True))
EITHER_COLUMN = within(InputColumns(0, 1))
NAMED_COLUMNS = within(NamedColumns())
PARTS = within(Parts())
COLUMN_PARTS = within(InputColumns(), Parts())
NATURAL = within(Between(0, INT64_MAX))
POSITIVE = within(Between(1, INT64_MAX))
INT64 = within(Between(INT64_MIN, INT64_MAX))
FRACTION = within(Between(0, 1))

ANY_INPUTS = range(sys.maxsize)
NO_INPUT, ONE_INPUT, TWO_INPUTS = range(1), range(1, 2), range(2, 3)
SOME_INPUTS = range(1, sys.maxsize)


def one_of(*texts: str) -> Mapping[str, tuple[FieldRange, ...]]:
    """Return the metadata of a field that is one of these texts."""
    return within(OneOf(texts))


def numbers(value: Any) -> Sequence[Any]:
    """Return the numbers in a value: itself, or those in a tuple."""
    if isinstance(value, tuple | list):
        if all(type(item) is int for item in value):
            return value
        return [number for item in value for number in numbers(item)]
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else ()


def check_ranges(value: Any, inputs: Sequence[Schema]) -> None:
    """Raise SchemaError if a field of a dataclass is outside its range over these inputs."""
    cls: Any = type(value)
    for name, range_ in _ranges(cls):
        try:
            range_.check(getattr(value, name), inputs)
        except SchemaError as error:
            error.message = f"{name}: {error.message}"
            raise


@functools.cache
def _ranges(cls: Any) -> tuple[tuple[str, FieldRange], ...]:
    return tuple(
        (field.name, range_)
        for field in dataclasses.fields(cls)
        for range_ in field.metadata.get("ranges", ())
    )
