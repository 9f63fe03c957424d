"""The names of the columns that the result of a join can have.

A column of the left keeps its name. A column of the right keeps it, too, unless a column of the
left has the name; then it gets the suffix `_right`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.data.schema import Schema, suggestion
from dbsp.errors import SchemaError
from dbsp.expressions import Expression
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class JoinColumns:
    """The columns of both sides by their names in the result."""

    places: dict[str, int]
    """v >= 0: column v of the left; v < 0: column -v - 1 of the right."""
    default: tuple[str, ...]
    """All columns of the left, then those of the right that are not part of the key."""

    @staticmethod
    def of(left: Schema, right: Schema, right_key: Sequence[int]) -> JoinColumns:
        """Return the columns of a join. Raises SchemaError if a name would occur twice."""
        places = {name: index for index, name in enumerate(left.names)}
        default = list(left.names)
        for index, name in enumerate(right.names):
            unique = f"{name}_right" if name in left.names else name
            if unique in places:
                raise SchemaError(
                    f"column '{unique}' would occur twice in the result; rename a column before the join",
                    code="duplicate-column",
                )
            places[unique] = -index - 1
            if index not in right_key:
                default.append(unique)
        return JoinColumns(places, tuple(default))

    def chosen(self, select: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the result's columns. Raises SchemaError for an unknown one."""
        names = self.default if select is None else tuple(select)
        for name in names:
            self._check(name)
        return names

    def columns(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the columns with these names, in the form of `Join.columns`."""
        return tuple(self.places[name] for name in names)

    def name_of(self, place: int) -> str:
        """Return the name of a column, given in the form of `Join.columns`."""
        return next(name for name, at in self.places.items() if at == place)

    def with_those_of(self, condition: Expression, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names, followed by the other names that the condition reads."""
        read = [name for name in condition.columns if name not in names]
        for name in read:
            self._check(name)
        return (*names, *read)

    def _check(self, name: str) -> None:
        if name not in self.places:
            raise SchemaError(
                f"the join has no column {name!r}{suggestion(str(name), self.places)}; its columns are "
                f"{', '.join(self.places)}",
                code="unknown-column",
            )
