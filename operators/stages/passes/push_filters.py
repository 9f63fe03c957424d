"""push_filters: test rows as early as possible.

    filter(A + B) = filter(A) + filter(B)           filter(A x B) = filter(A) x B  (columns of A
    only) filter(distinct(A)) = distinct(filter(A))       filter(map(A)) = map(filter(A))
    filter(A antijoin B) = filter(A) antijoin B     and the same for semijoins
    filter(p & q)(A x B) = filter(q)(filter(p)(A) x B)  (p: columns of A only)
    filter(A x B x ...)                             becomes another condition of the multi-way join

A condition moves only below operators without other readers, and only if it has a value for every
row: `10 / x > 1` must not be evaluated on rows that an earlier `x != 0` drops. A condition also
does not move below a map that may have no value for a row: the query raises an error for such a
row, and the condition must not drop it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.data.schema import Schema
from dbsp.expressions import Column, Expression
from dbsp.expressions.substitution import can_only_overflow, conjunction, conjuncts, is_total, substitute
from dbsp.operators.groups.aggregate import Aggregate
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.joins.semijoin import Semijoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.map import Map
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.linear.union import Minus, Negate, Union
from dbsp.operators.stages.passes.readers import count_readers
from dbsp.operators.traces.arrange import is_external


def push_filters(query: Graph, changes: list[str]) -> Graph:
    """Move conditions towards the inputs."""
    readers = count_readers(query)

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        operator = node.operator
        if isinstance(operator, Filter) and is_total(operator.predicate):
            below = node.inputs[0].node
            pushed = _Pushing(rewriting, readers).below(operator.predicate, below)
            if pushed is not None:
                changes.append(f"{node.describe()} moved below {below.describe()}")
                return pushed
        return operator.expand(rewriting, node, inputs)

    return rewrite(query, form)


class _Pushing:
    def __init__(self, rewriting: Rewriting, readers: Counter[Node]) -> None:
        self._rewriting = rewriting
        self._readers = readers

    def below(self, predicate: Expression, node: Node) -> Stream | None:
        """Return the image of filter(node) with the condition below the node; None if
        impossible."""
        if self._readers[node] > 1:
            return None
        operator, add = node.operator, self._rewriting.add
        if isinstance(operator, Union | Minus | Negate | Distinct):
            branches = [self._onto(_renamed(predicate, node.schema, s.schema), s.node) for s in node.inputs]
            return add(operator, *branches)
        if isinstance(operator, Rename):
            inside = _renamed(predicate, node.schema, node.inputs[0].schema)
            return add(operator, self._onto(inside, node.inputs[0].node))
        if isinstance(operator, Project):
            names = node.inputs[0].schema.names
            columns = {n: names[c] for n, c in zip(operator.names, operator.columns, strict=True)}
            return add(operator, self._onto(_substituted(predicate, columns), node.inputs[0].node))
        if isinstance(operator, Map):
            definitions = dict(zip(operator.names, operator.expressions, strict=True))
            plain = {name: e.name for name, e in definitions.items() if isinstance(e, Column)}
            if not plain.keys() >= set(predicate.columns):
                return None
            if not all(map(can_only_overflow, operator.expressions)):
                return None
            return add(operator, self._onto(_substituted(predicate, plain), node.inputs[0].node))
        if isinstance(operator, Aggregate):
            if any(node.schema.index(name) >= operator.key for name in predicate.columns):
                return None
            inside = _renamed(predicate, node.schema, node.inputs[0].schema)
            return add(operator, self._onto(inside, node.inputs[0].node))
        if isinstance(operator, Semijoin):
            left, right = node.inputs
            if is_external(left):
                return None  # the filtered rows would have to be stored
            return add(operator, self._onto(predicate, left.node), self._rewriting.image(right))
        if isinstance(operator, Join):
            return self._into_join(predicate, node, operator)
        if isinstance(operator, MultiwayJoin):
            joined = replace(operator, conditions=(*operator.conditions, predicate))
            return add(joined, *map(self._rewriting.image, node.inputs))
        return None

    def _onto(self, predicate: Expression, node: Node) -> Stream:
        """Return the image of filter(node), with the condition as low as possible."""
        pushed = self.below(predicate, node)
        if pushed is not None:
            return pushed
        image = self._rewriting.image(type(node.graph).stream_class(node))
        return self._rewriting.add(Filter(predicate), image)

    def _into_join(self, predicate: Expression, node: Node, join: Join) -> Stream | None:
        rest: list[Expression] = []
        onto: list[list[Expression]] = [[], []]
        for condition in conjuncts(predicate):
            picked = [join.columns[node.schema.index(name)] for name in condition.columns]
            sides = {int(v < 0) for v in picked}
            side = sides.pop() if len(sides) == 1 else None
            # Filtered rows of an external stream would have to be stored.
            if side is None or is_external(node.inputs[side]):
                rest.append(condition)
                continue
            names = node.inputs[side].schema.names
            positions = [v if v >= 0 else -v - 1 for v in picked]
            columns = {n: names[v] for n, v in zip(condition.columns, positions, strict=True)}
            onto[side].append(_substituted(condition, columns))
        if not any(onto):
            return None
        inputs = [
            self._onto(conjunction(conditions), stream.node) if conditions else self._rewriting.image(stream)
            for conditions, stream in zip(onto, node.inputs, strict=True)
        ]
        pairs = self._rewriting.add(join, *inputs)
        return self._rewriting.add(Filter(conjunction(rest)), pairs) if rest else pairs


def _substituted(predicate: Expression, columns: dict[str, str]) -> Expression:
    return substitute(predicate, {name: Column(source) for name, source in columns.items()})


def _renamed(predicate: Expression, names: Schema, below: Schema) -> Expression:
    """Return the condition with the names of the same positions below."""
    return _substituted(predicate, {n: below.names[names.index(n)] for n in predicate.columns})
