"""Records that no declared type is of: compared only with each other, they have the types of their parts.

p(a) :- [a, b] = [1, x], q(x).          y = [1, z], y = [x, 2], q(x)
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.datalog.checked import AnyKind, Kind, Structured, type_of
from dbsp.structures import Constructor, Field, Structure

ANONYMOUS = Structured("record", Structure("record"))
"""The kind of these records as long as their parts have none."""


def anonymous_record(kinds: Sequence[AnyKind]) -> Structured:
    """The kind of records of parts of these kinds; equal for equal parts."""
    name = f"[{'&'.join(kind.value for kind in kinds)}]"
    structure = Structure(name)
    fields = (Field(f"part{n}", type_of(kind), kind is Kind.UNSIGNED) for n, kind in enumerate(kinds, 1))
    structure.constructors = (Constructor("", tuple(fields)),)
    return Structured(name, structure)
