"""fuse: merge two successive linear operators.

    filter(filter(A, p), q) = filter(A, p & q)          map(map(A, f), g) = map(A, g . f)

The second condition of `&` is evaluated only if the first does not decide. Maps are fused if no
expression would be evaluated twice, dropped, or evaluated for a row that cancels: rows that become
equal in the first map may cancel, and the second map never reads them. Projections are fused with
the join below them when the circuit is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.expressions import Column, call
from dbsp.expressions.substitution import can_only_overflow, is_total, substitute, uses
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.map import Map
from dbsp.operators.stages.passes.readers import count_readers


def fuse(query: Graph, changes: list[str]) -> Graph:
    """Merge chains of filters and chains of maps into one operator."""
    readers = count_readers(query)

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        operator = node.operator
        fused: Filter | Map | None = None
        if node.inputs and readers[node.inputs[0].node] == 1:
            below = inputs[0].node.operator
            if isinstance(operator, Filter) and isinstance(below, Filter):
                fused = _filters(below, operator)
            elif isinstance(operator, Map) and isinstance(below, Map):
                fused = _maps(below, operator, inputs[0].node.inputs[0].node)
        if fused is None:
            return operator.expand(rewriting, node, inputs)
        changes.append(f"{node.describe()} fused with {inputs[0].node.describe()}")
        return rewriting.add(fused, *inputs[0].node.inputs)

    return rewrite(query, form)


def _filters(first: Filter, second: Filter) -> Filter | None:
    if not is_total(second.predicate):
        # If the first condition is None, `&` evaluates the second one, on rows that the filter
        # drops.
        return None
    return Filter(call("and", first.predicate, second.predicate))


def _maps(first: Map, second: Map, source: Node) -> Map | None:
    definitions = dict(zip(first.names, first.expressions, strict=True))
    kept = {expression.name for expression in first.expressions if isinstance(expression, Column)}
    cancels = not source.is_set and not kept.issuperset(source.schema.names)
    if cancels and not all(map(is_total, second.expressions)):
        return None
    for name, expression in definitions.items():
        if isinstance(expression, Column):
            continue
        # A partial expression must not move into `when` or `&`, which evaluate only some rows.
        if sum(uses(outer, name) for outer in second.expressions) != 1 or not can_only_overflow(expression):
            return None
    expressions = tuple(substitute(e, definitions) for e in second.expressions)
    return Map(expressions, second.names, first.injective and second.injective)
