"""The plan of a rule to the stream of the rows that it derives.

The columns of a stream inside a rule have the names of the variables of the rule. Weights count
derivations until the `distinct` of the relation. Inside an aggregate, weights are the
multiplicities that the aggregate counts, so no operator there may merge or drop them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext, Streams
from dbsp.compiler.datalog.circuits.range_lowering import join_range
from dbsp.compiler.datalog.circuits.special_relations import dominating_names
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.term_expressions import constant, expression, predicate
from dbsp.compiler.datalog.plans.normalise import AggregateLiteral, NormalRule, Scan
from dbsp.compiler.datalog.plans.plan_steps import (
    BoundRows,
    JoinPart,
    PlannedAggregate,
    PlannedAntijoin,
    PlannedAssignment,
    PlannedFilter,
    PlannedJoin,
    PlannedMultiwayJoin,
    PlannedNumbering,
    PlannedRange,
    PlannedSeries,
    PlanStep,
    RulePlan,
    SubPlan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.compiler.datalog.tree.traversal import find
from dbsp.diagnostics import SourceSpan
from dbsp.expressions import Expression, col, lit
from dbsp.operators.joins.delta_term import AtomTerm
from dbsp.operators.streams.aggregate_calls import count
from dbsp.operators.streams.multiway_atoms import multiway_join
from dbsp.operators.streams.stream import Stream

_AGGREGATES = {"sum": Expression.sum, "min": Expression.min, "max": Expression.max, "mean": Expression.mean}
_ZEROS: Mapping[AnyKind, Any] = {Kind.NUMBER: 0, Kind.UNSIGNED: 0, Kind.FLOAT: 0.0}


def lower_rules(context: LoweringContext, streams: Streams, rules: Iterable[checked.Rule]) -> list[Stream]:
    """Return the rows that each rule derives from `streams`; rules that never hold are omitted."""
    found = (RuleLowering(context, streams, rule).rows() for rule in rules)
    return [stream for stream in found if stream is not None]


class RuleLowering:
    """Lowers one rule, which reads its relations from `streams`."""

    def __init__(self, context: LoweringContext, streams: Streams, rule: checked.Rule) -> None:
        self.context = context
        self.streams = streams
        self.plan: RulePlan = context.plans[rule.number]
        self.sources = context.sources(rule.head.relation)
        self.types = _variable_types(self.plan.rule)

    def rows(self) -> Stream | None:
        """Return the derived rows, weighted by derivations; None if the rule never holds."""
        plan = self.plan
        if plan.steps is None:
            return None
        with self.at(plan.rule.rule.span):
            # A set of parts of external rows would have to be stored; a bag needs no state.
            stream = self.body(plan.steps, None, bag=bool(self.context.external))
            names = list(self.context.schema(plan.rule.relation).names)
            if plan.rule.rule.dominating is not None:
                names += dominating_names(names)
            return _columns(stream, dict(zip(names, map(self.expression, plan.rule.head), strict=True)))

    def at(self, span: SourceSpan) -> AbstractContextManager[None]:
        """Give the nodes added inside this place of the rule."""
        return self.context.at(self.plan.rule.relation, span, self.types, self.plan.rule.rule.span)

    def expression(self, term: syntax.Term) -> Expression:
        """Return the expression of a term; its errors show the place of the term."""
        return expression(term, self.sources)

    def predicate(self, comparison: syntax.Comparison) -> Expression:
        """Return the condition of a comparison; its errors show the place of the comparison."""
        return predicate(comparison, self.sources)

    def body(self, steps: Sequence[PlanStep], start: Stream | None, bag: bool) -> Stream:
        """Return the bindings that satisfy a body, starting from `start` (None: one empty binding).

        With `bag`, the weight of a binding is its number of derivations; otherwise only the sign
        of the weight matters.
        """
        current = start
        for step in steps:
            match step:
                case PlannedJoin():
                    current = self.join(current, step, bag)
                case PlannedMultiwayJoin():
                    current = self.multiway(current, step, bag)
                case PlannedFilter(condition=condition):
                    current = self.or_unit(current).filter(self.predicate(condition))
                case PlannedAssignment(variable=variable, term=term, keep=keep):
                    columns = {name: col(name) for name in keep} | {variable: self.expression(term)}
                    current = _columns(self.or_unit(current), columns)
                case PlannedSeries(variable=variable, call=call, keep=keep):
                    with self.at(call.span):
                        series = self.or_unit(current).generate_series(
                            *map(self.expression, call.arguments), name=variable
                        )
                    current = _columns(series, {name: col(name) for name in keep})
                case PlannedNumbering(variable=variable, order=order, keep=keep):
                    numbered = self.or_unit(current).number_rows(
                        by=order, name=variable, first=step.first, step=step.step
                    )
                    current = _columns(numbered, {name: col(name) for name in keep})
                case PlannedAntijoin(pattern=pattern):
                    absent = self.scan(pattern, set(pattern.names))
                    current = self.or_unit(current).join(absent, on=list(pattern.names), how="anti")
                case PlannedAggregate():
                    current = self.aggregated(current, step)
        return self.or_unit(current)

    def join(self, left: Stream | None, step: PlannedJoin, bag: bool) -> Stream:
        source = step.source
        new = [name for name in step.keep if name in source.names and name not in step.on]
        if step.within is not None:
            return self.ranged(self.or_unit(left), step, step.within, new, bag)
        if isinstance(source, SubPlan):
            right, has_key = self.body(source.steps, None, bag), False
        else:
            right, has_key = self.scan(source, {*step.on, *new}), source.has_key(step.on)
        if left is None:
            return right
        if bag or new or has_key:
            return left.join(right, on=list(step.on), select=list(step.keep))
        # Only the existence of a row matters; a join would count the rows.
        found = left.join(right, on=list(step.on), how="semi")
        return found if found.schema.names == step.keep else found.select(*step.keep)

    def ranged(
        self, left: Stream, step: PlannedJoin, within: PlannedRange, new: Sequence[str], bag: bool
    ) -> Stream:
        """Return the pairs of rows whose values are in a range."""
        source = step.source
        if isinstance(source, SubPlan):
            right = self.body(source.steps, None, bag)
        else:
            right = self.scan(source, {*step.on, *new, *within.names})
        points, limits = (left, right) if within.point in left.schema.names else (right, left)
        return join_range(points, limits, step.on, within, step.keep)

    def multiway(self, found: Stream | None, step: PlannedMultiwayJoin, bag: bool) -> Stream:
        """Return the multi-way join of all parts, over the traces of the relations."""
        used_variables = step.used_variables
        parts = [self.part(part, found, used_variables, bag) for part in step.parts]
        return multiway_join(
            [stream(*terms) for stream, terms in parts],
            step.keep,
            where=list(map(self.predicate, step.conditions)),
            let=[(name, self.expression(term)) for name, term in step.extensions],
            orders=step.orders,
        )

    def part(
        self, part: JoinPart, found: Stream | None, used_variables: Collection[str], bag: bool
    ) -> tuple[Stream, tuple[AtomTerm, ...]]:
        """Return the stream of a part of a multi-way join, and the term of each column."""
        terms: list[AtomTerm]
        match part:
            case BoundRows():
                stream = self.or_unit(found)
                terms = list(stream.schema.names)
            case SubPlan(steps=steps):
                stream = self.body(steps, None, bag)
                terms = list(stream.schema.names)
            case _:
                stream = self.streams[part.relation]
                terms = list(part.variables)
                for position, value in part.constants:
                    terms[position] = constant(value)
                for first, second in part.equal:
                    terms[second] = terms[first]
        terms = [None if isinstance(term, str) and term not in used_variables else term for term in terms]
        columns = [column for column, term in enumerate(terms) if term is not None]
        if bag or len(columns) == len(terms):
            return stream, tuple(terms)
        # Only the existence of a row matters; the join would multiply the number of rows.
        kept = [stream.schema.names[column] for column in columns]
        if isinstance(part, Scan):
            with self.context.reading(part.relation):
                stream = stream.select(*kept).distinct()
        else:
            stream = stream.select(*kept).distinct()
        return stream, tuple(terms[column] for column in columns)

    def scan(self, scan: Scan, wanted: Collection[str]) -> Stream:
        """Return the rows that fit a pattern, with the variables in `wanted` as columns.

        The columns keep the order of the relation. A renamed relation is still the same stream, so
        all rules share its arrangements.
        """
        stream = self.streams[scan.relation]
        columns = stream.schema.names
        if scan.relation in self.context.external:
            wanted = scan.names  # a projection would have to be stored
        with self.context.reading(scan.relation):
            for position, value in scan.constants:
                stream = stream.filter(col(columns[position]) == constant(value))
            for first, second in scan.equal:
                stream = stream.filter(col(columns[first]) == col(columns[second]))
        named = zip(scan.variables, columns, strict=True)
        return _columns(stream, {name: col(column) for name, column in named if name and name in wanted})

    def aggregated(self, found: Stream | None, step: PlannedAggregate) -> Stream:
        """Return the bindings found so far, and the results of an aggregate as more columns."""
        literal = step.literal
        key = list(literal.injected)
        with self.at(literal.span):
            start = self.or_unit(found).select(*key).distinct() if step.correlated else None
            inner = self.body(step.inner, start, bag=True)
            columns = {name: col(name) for name in key}
            calls: dict[str, Expression] = {}
            for result in literal.results:
                if result.value is None:
                    calls[result.variable] = count()
                else:
                    columns[result.variable] = self.expression(result.value)
                    calls[result.variable] = _AGGREGATES[result.function](col(result.variable))
            groups = _columns(inner, columns).group_by(*key).agg(**calls)
            if found is None and not step.empty_groups:
                return groups if groups.schema.names == step.keep else groups.select(*step.keep)
            outer = self.or_unit(found)
            on = [name for name in key if name in outer.schema.names]
            present = outer.join(groups, on=on, select=list(step.keep))
            if not step.empty_groups:
                return present
            kept = {name: col(name) for name in step.keep}
            zeros = {result.variable: lit(_ZEROS[result.kind]) for result in literal.results}
            return present + _columns(outer.join(groups, on=key, how="anti"), kept | zeros)

    def or_unit(self, stream: Stream | None) -> Stream:
        """Return the stream, or the relation that holds the empty row."""
        return self.context.unit if stream is None else stream


def _variable_types(rule: NormalRule) -> dict[str, str]:
    """Return the types of the variables of a rule, including those of aggregate results."""
    types = {variable.name: variable.kind.value for variable in find(rule.rule, syntax.Variable)}
    for literal in rule.body or ():
        if isinstance(literal, AggregateLiteral):
            types |= {result.variable: result.kind.value for result in literal.results}
    return types


def _columns(stream: Stream, columns: Mapping[str, Expression]) -> Stream:
    """Return the stream with exactly these columns."""
    return stream.map(**columns) if columns else stream.select()
