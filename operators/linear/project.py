"""Project: some columns of each row, in a given order; rename: the same columns, other names.

    project(s)(y) = sum of s(x) over the rows x with x[columns] = y

Linear: its own incremental form. Weights of rows that become equal add up (a bag projection; follow
it by distinct for sets). Cost: sorting the delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.expressions.readable_text import plain_name
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Projectable(Operator):
    """A physical operator that can absorb a projection of its output."""

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        """Return `project` of `stream`, the output of this operator. Unread nodes are dropped."""
        return rewriting.add(project, stream)


@dataclass(frozen=True)
class Project(Projectable):
    """Columns by index, under the given names; a column may occur more than once."""

    input_counts = ONE_INPUT

    columns: tuple[int, ...] = field(metadata=COLUMN)
    names: tuple[str, ...]
    injective: bool = False
    """Whether different rows stay different, for example if every column of the input is kept."""

    @property
    def monotone(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"Project {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        texts = self.column_texts(columns)
        pairs = [(plain_name(name), text) for name, text in zip(self.names, texts, strict=True)]
        shown = [text if name == text or name[:1] == "#" else f"{name} = {text}" for name, text in pairs]
        return f"Project {', '.join(shown)}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return [columns[0][column] for column in self.columns]

    def schema(self, *inputs: Schema) -> Schema:
        return Schema(self.names, tuple(inputs[0].types[c] for c in self.columns))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.injective and inputs[0]

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if self.columns == tuple(range(stream.schema.arity)):
            return stream
        below = stream.node.operator
        if isinstance(below, Projectable):
            return below.projected(rewriting, stream, self)
        return rewriting.add(self, stream)

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        columns = tuple(self.columns[c] for c in project.columns)
        (below,) = stream.node.inputs
        both = Project(columns, project.names, self.injective and project.injective)
        # Two permutations may restore the order of the columns.
        return below if columns == tuple(range(below.schema.arity)) else rewriting.add(both, below)

    def of_keyed(self, key: int) -> Project:
        """The same projection, of rows whose first `key` columns identify them."""
        return replace(self, injective=set(range(key)) <= set(self.columns))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        columns = np.array(self.columns, np.int64)
        return lambda a: a.projected(columns)


@dataclass(frozen=True)
class Rename(Operator):
    """The same rows under other column names."""

    input_counts = ONE_INPUT

    names: tuple[str, ...]

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        pairs = zip(columns[0], map(plain_name, self.names), strict=True)
        shown = [f"{before} to {after}" for before, after in pairs if before != after and after[0] != "#"]
        return f"Rename {', '.join(shown)}" if shown else "Rename"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return columns[0]

    def schema(self, *inputs: Schema) -> Schema:
        return Schema(self.names, inputs[0].types)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    @property
    def keeps_rows(self) -> bool:
        return True

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return lambda a: a

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return inputs[0]  # a lowered graph has no names; operators that need names store them
