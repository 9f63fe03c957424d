"""push_projections: drop unread columns before rows are stored.

    project(A + B) = project(A) + project(B) columns(A x B) = columns(project(A) x B)       for
    dropped columns outside of key and result project(A x B x ...)                           becomes
    a multi-way join with fewer result variables

A join stores an arrangement of each input. Without unread columns the rows are narrower, and fewer,
because equal rows merge. A stream with other readers is not projected, nor is an input that stores
complete rows in any case: its arrangement is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.joins.semijoin import Semijoin
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.linear.union import Union
from dbsp.operators.ports.input import Input
from dbsp.operators.stages.passes.readers import count_readers
from dbsp.operators.traces.arrange import is_external


def push_projections(query: Graph, changes: list[str]) -> Graph:
    """Narrow the inputs of joins, and project the parts of a union before adding them."""
    readers = count_readers(query)

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        operator = node.operator
        if isinstance(operator, Join):
            return _narrowed(rewriting, node, operator, inputs, readers, changes)
        if isinstance(operator, Project):
            below = node.inputs[0].node
            if isinstance(below.operator, MultiwayJoin) and readers[below] == 1:
                taken = tuple(below.operator.columns[c] for c in operator.columns)
                if len(set(taken)) == len(taken):
                    changes.append(f"{below.describe()} keeps only {', '.join(taken)}")
                    join = replace(below.operator, columns=taken)
                    narrowed = join.expand(rewriting, below, [rewriting.image(s) for s in below.inputs])
                    return rewriting.add(Rename(operator.names), narrowed)
            # Move the projection only if a part can absorb it; otherwise it costs another sort.
            absorbs = any(isinstance(s.node.operator, Join | Project | Semijoin) for s in below.inputs)
            if isinstance(below.operator, Union) and readers[below] == 1 and absorbs:
                changes.append(f"{node.describe()} moved below {below.describe()}")
                parts = (rewriting.image(stream) for stream in below.inputs)
                return rewriting.add(below.operator, *(rewriting.add(operator, part) for part in parts))
        return operator.expand(rewriting, node, inputs)

    return rewrite(query, form)


def _narrowed(
    rewriting: Rewriting,
    node: Node,
    join: Join,
    inputs: Sequence[Stream],
    readers: Counter[Node],
    changes: list[str],
) -> Stream:
    left, right = inputs
    used = {*join.left_key, *(v for v in join.columns if v >= 0)}
    if _may_narrow(node.inputs[0].node, used, readers):
        left, place = _only(rewriting, left, used)
        columns = tuple(place[v] if v >= 0 else v for v in join.columns)
        join = replace(join, left_key=tuple(place[c] for c in join.left_key), columns=columns)
        changes.append(f"{node.describe()} keeps only {left.node.columns} of its left input")
    used = {*join.right_key, *(-v - 1 for v in join.columns if v < 0)}
    if _may_narrow(node.inputs[1].node, used, readers):
        right, place = _only(rewriting, right, used)
        columns = tuple(v if v >= 0 else -place[-v - 1] - 1 for v in join.columns)
        join = replace(join, right_key=tuple(place[c] for c in join.right_key), columns=columns)
        changes.append(f"{node.describe()} keeps only {right.node.columns} of its right input")
    return rewriting.add(join, left, right)


def _may_narrow(node: Node, used: set[int], readers: Counter[Node]) -> bool:
    operator = node.operator
    if len(used) == node.schema.arity or readers[node] > 1:
        return False
    # An input with set semantics or a key stores complete rows anyway, in a shared arrangement; so
    # does an index outside of the circuit.
    return not (isinstance(operator, Input) and operator.strict) and not is_external(
        type(node.graph).stream_class(node)
    )


def _only(rewriting: Rewriting, stream: Stream, used: set[int]) -> tuple[Stream, dict[int, int]]:
    """Return the stream with the used columns only, and the new position of each column."""
    columns = tuple(sorted(used))
    names = tuple(stream.schema.names[c] for c in columns)
    return rewriting.add(Project(columns, names), stream), {c: i for i, c in enumerate(columns)}
