"""Records without a declared type: compared only with each other, their parts give them a type.

p(a) :- [a, b] = [1, x], q(x).          y = [1, z], y = [x, 2], q(x)
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.compiler.datalog.meaning.word_size import range_of
from dbsp.compiler.datalog.tree.kinds import AnyKind, Structured, type_of
from dbsp.data.types import Constructor, Field, Structure

ANONYMOUS = Structured("record", Structure("record"))
"""The kind of these records while the kinds of their parts are unknown."""


def anonymous_record(kinds: Sequence[AnyKind], word_size: int) -> Structured:
    """The kind of records whose parts have these kinds; equal for equal parts."""
    name = f"[{'&'.join(kind.value for kind in kinds)}]"
    structure = Structure(name)
    fields = (Field(f"part{n}", type_of(kind), range_of(kind, word_size)) for n, kind in enumerate(kinds, 1))
    structure.constructors = (Constructor("", tuple(fields)),)
    return Structured(name, structure)
