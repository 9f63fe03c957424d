"""Comparisons that limit the values of a variable of a multi-way join.

    x < y          when y is bound, x is at most y - 1; when x is bound, y is at least x + 1
    x >= 5         x is at least 5
    z < x + 50     when x is bound, z is at most x + 49

Codes that compare like their values (`Type.ordered_codes`) are sorted in the relations, so the
values of a variable within limits are one range of each run.

A sum may overflow, which is an error of the query if the row is in its result. So a limit keeps
every row whose sum overflows, and the condition itself is tested on the result of the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.expressions import Expression, bind
from dbsp.expressions.expression import Call, Column, Literal
from dbsp.expressions.substitution import is_total
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.prefix_ranges import AT_LEAST, AT_MOST, OTHER_THAN
from dbsp.lazy_dataclass import dataclass

TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""The comparison of the same values in the other order."""

LARGEST_OFFSET = 2**62


@dataclass(frozen=True)
class Bound:
    """A bound of the variable of a level: its kind (see `dbsp.kernels.prefix_ranges`), and from
    which variable or constant it is computed."""

    kind: int
    source: str | Literal
    offset: int
    strict: bool


@dataclass(frozen=True)
class Limit:
    """`variable` compared with `other` + `offset`; true if the sum overflows."""

    variable: str
    function: str
    """The name of the comparison, such as "lt"."""
    other: str | Literal
    offset: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The variables of the limit."""
        return (self.variable, self.other) if isinstance(self.other, str) else (self.variable,)

    def bounds(self, variable: str) -> tuple[Bound, ...]:
        """Return the bounds of one variable of the limit if the other is bound; none if the limit
        must be tested when both are bound."""
        if variable == self.variable:
            return _bounds(self.function, self.other, self.offset)
        upwards, downwards = self.function in ("lt", "le"), self.function in ("gt", "ge")
        # Where the sum overflows, these bounds hold. Others could exclude such a row.
        if not self.offset or (upwards and self.offset > 0) or (downwards and self.offset < 0):
            return _bounds(TURNED[self.function], self.variable, -self.offset)
        return ()

    def holds(self, rows: Codes, names: Sequence[str], interner: Interner) -> Mask:
        """Return for each row of codes whether it is within the limit."""
        left = rows[:, names.index(self.variable)]
        if isinstance(self.other, str):
            right = rows[:, names.index(self.other)]
        else:
            right = np.array([literal_code(self.other, interner)])
        with np.errstate(over="ignore"):
            total = right + self.offset
        overflows = (total > right) if self.offset < 0 else (total < right)
        match self.function:
            case "lt":
                fits = left < total
            case "le":
                fits = left <= total
            case "gt":
                fits = left > total
            case "ge":
                fits = left >= total
            case "eq":
                fits = left == total
            case _:
                fits = left != total
        found: Mask = fits | overflows
        return found


def limit_of(condition: Expression, bindings: Schema) -> Limit | None:
    """Return the limit that a condition is, or that it implies if it contains a sum."""
    if not isinstance(condition, Call) or condition.function not in TURNED:
        return None
    left, right = condition.arguments
    function = condition.function
    if not isinstance(left, Column):
        left, right, function = right, left, TURNED[function]
    if not isinstance(left, Column):
        return None
    right, offset = _without_offset(right)
    types = dict(zip(bindings.names, bindings.types, strict=True))
    own = types[left.name]
    if not _is_ordered(own) or (offset and own.kind != "int"):
        return None
    if isinstance(right, Column):
        other = types[right.name]
        if right.name == left.name or not _is_ordered(other):
            return None
        return Limit(left.name, function, right.name, offset) if other.coding == own.coding else None
    if isinstance(right, Literal) and not offset:
        type_ = bind(right, bindings).type
        if not type_.nullable and type_.coding == own.coding:
            return Limit(left.name, function, right)
    return None


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the conditions that hold together exactly where this one holds."""
    if isinstance(condition, Call) and condition.function == "and" and is_total(condition):
        for argument in condition.arguments:
            yield from conjuncts(argument)
    else:
        yield condition


def literal_code(literal: Literal, interner: Interner) -> int:
    """Return the code of a constant."""
    return int(bind(literal, Schema((), ())).evaluate(np.zeros((1, 0), np.int64), interner)[0])


def _without_offset(expression: Expression) -> tuple[Expression, int]:
    """Return (x, c) for x + c, c + x and x - c, otherwise (the expression, 0)."""
    if isinstance(expression, Call) and expression.function in ("add", "sub"):
        left, right = expression.arguments
        if isinstance(left, Literal) and expression.function == "add":
            left, right = right, left
        if isinstance(left, Column) and isinstance(right, Literal) and type(right.value) is int:
            offset = right.value if expression.function == "add" else -right.value
            if right.type is None and abs(offset) < LARGEST_OFFSET:
                return left, offset
    return expression, 0


def _is_ordered(type_: Type) -> bool:
    """Whether the codes of a type compare like its values; None compares with nothing."""
    return type_.ordered_codes and not type_.nullable


def _bounds(function: str, source: str | Literal, offset: int) -> tuple[Bound, ...]:
    match function:
        case "lt" | "le":
            return (Bound(AT_MOST, source, offset, function == "lt"),)
        case "gt" | "ge":
            return (Bound(AT_LEAST, source, offset, function == "gt"),)
        case "eq":
            return (Bound(AT_MOST, source, offset, False), Bound(AT_LEAST, source, offset, False))
        case _:
            return (Bound(OTHER_THAN, source, offset, False),)
