"""The records and branches that values consist of, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dbsp.data.id_places import distinct_ids
from dbsp.data.interner import Interner
from dbsp.data.types import Structure
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes, Mask

Kind = tuple[Structure, int]
"""A structure, and the position of one of its constructors."""


def missing_records(
    interner: Interner, structure: Structure, ids: Codes, done: Callable[[Structure], Mask]
) -> Iterator[tuple[Kind, Codes]]:
    """Yield the ids of values, and of the constructed parts of them, that are not done yet.

    `done` returns which values of a structure are done, by place; those that this yields are marked
    there. A value is yielded before its parts. O(result), and a step for each level of nesting.
    """
    cells, places = interner.cells, interner.places
    waiting = [(structure, ids)]
    while waiting:
        structure, ids = waiting.pop()
        marks = done(structure)
        ids = ids[~marks[places.of(ids)]]
        marks[places.of(ids)] = True
        left = len(ids)
        for position, constructor in enumerate(structure.constructors):
            members = ids[cells.has_layout(constructor.layout, ids)]
            if not len(members):
                continue
            left -= len(members)
            yield (structure, position), members
            rows = cells.rows(constructor.layout, members)
            for at, field in enumerate(constructor.fields):
                if field.type.structure is not None:
                    parts = rows[:, at]
                    waiting.append((field.type.structure, distinct_ids(parts[parts >= 0])))
        if left:
            raise InvariantError(f"expected values of {structure.name}, got ids of others")


class RecordMarks:
    """Marks on the records of each structure, for one call of `missing_records`."""

    def __init__(self, first: Callable[[Structure], Mask]) -> None:
        self._first = first
        self._marks: dict[str, Mask] = {}

    def __call__(self, structure: Structure) -> Mask:
        """Return the marks of a structure, those of the start at first."""
        marks = self._marks.get(structure.text)
        if marks is None:
            marks = self._marks[structure.text] = self._first(structure)
        return marks
