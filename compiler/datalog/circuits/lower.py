"""Plans to the logical circuit: one stream per relation, one fixpoint scope per recursive stratum.

    relation           =  distinct(input + sum of its rules)
    recursive stratum  =  one scope with one variable per relation; rules that use no relation of
                          the stratum are computed outside and enter as its base

Relations that are more than sets of rows are made of these parts in other ways (see `kinds_of_rows`).

The columns of a stream inside a rule are named by the variables of the rule. Weights count
derivations until the `distinct` of the relation; inside an aggregate they are the multiplicities
over which it is computed, so there nothing may merge or drop them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dbsp.compiler.datalog.circuits.special_relations import (
    chosen,
    classes,
    dominating_names,
    equivalent,
    has_rows,
    undominated,
    with_extremes,
)
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.meaning.dependencies import needed_relations, reads_any
from dbsp.compiler.datalog.meaning.dominance import by_extreme, decided_by
from dbsp.compiler.datalog.meaning.term_expressions import constant, expression, predicate
from dbsp.compiler.datalog.plans.normalise import Scan
from dbsp.compiler.datalog.plans.read_classes import classes_name
from dbsp.compiler.datalog.plans.steps import (
    BoundRows,
    JoinPart,
    PlannedAggregate,
    PlannedAntijoin,
    PlannedAssignment,
    PlannedFilter,
    PlannedJoin,
    PlannedMultiwayJoin,
    PlannedNumbering,
    PlannedSeries,
    PlanStep,
    RulePlan,
    SubPlan,
)
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind, type_of
from dbsp.data.schema import Schema
from dbsp.expressions import Expression, col, lit
from dbsp.operators.groups.number_rows import NumberRows
from dbsp.operators.joins.delta_term import Term
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.linear.generate_series import GenerateSeries
from dbsp.operators.recursion.modes import Recursion
from dbsp.operators.streams.aggregate_calls import AggregateCall, avg, count, max_, min_, sum_
from dbsp.operators.streams.builder import Circuit, Stream

_AGGREGATES = {"sum": sum_, "min": min_, "max": max_, "mean": avg}
_ZEROS: Mapping[AnyKind, Any] = {Kind.NUMBER: 0, Kind.UNSIGNED: 0, Kind.FLOAT: 0.0}

_UNIT = Schema((), ())


def schema_of(relation: Relation) -> Schema:
    """The columns of a relation as the engine stores them."""
    return Schema(
        tuple(attribute.name for attribute in relation.attributes),
        tuple(type_of(attribute.kind) for attribute in relation.attributes),
    )


def lower(
    program: checked.CheckedProgram,
    plans: Mapping[int, RulePlan],
    name: str,
    max_iterations: int,
    recursion: Recursion = Recursion.AUTO,
) -> Circuit:
    """The logical circuit of a program; `plans` has the plan of every rule, by its number.

    Every input of the program is an input of the circuit, every output and every relation whose
    size is printed an output. Relations that no output depends on are left out.
    """
    return _Lowering(program, plans, Circuit(name), max_iterations, recursion).circuit_of_program()


class _Lowering:
    def __init__(
        self,
        program: checked.CheckedProgram,
        plans: Mapping[int, RulePlan],
        circuit: Circuit,
        max_iterations: int,
        recursion: Recursion,
    ) -> None:
        self.program = program
        self.plans = plans
        self.circuit = circuit
        self.cap = max_iterations
        self.recursion = recursion
        self.streams: dict[str, Stream] = {}
        self._unit: Stream | None = None

    def circuit_of_program(self) -> Circuit:
        for name in self.program.inputs:
            schema = schema_of(self.program.relations[name])
            with self.at(name):
                self.streams[name] = self.circuit.input(name, schema=schema, kind="set")
        needed = needed_relations(self.program)
        for stratum in self.program.strata:
            if needed.isdisjoint(stratum.relations):
                continue
            if stratum.recursive:
                self.recursive(stratum)
            else:
                self.once(stratum)
        for name in dict.fromkeys((*self.program.outputs, *self.program.sizes)):
            with self.at(name):
                self.circuit.output(name, self.streams[name])
        return self.circuit

    # --- relations -------------------------------------------------------------------------------

    def base(self, name: str, rules: Iterable[checked.Rule]) -> list[Stream]:
        """What a relation is the union of: its input and the given rules for it."""
        own = [self.streams[name]] if name in self.streams else []
        return own + self.rules(rule for rule in rules if rule.head.relation == name)

    def rules(self, rules: Iterable[checked.Rule]) -> list[Stream]:
        found = (self.rule(self.plans[rule.number]) for rule in rules)
        return [stream for stream in found if stream is not None]

    def union(self, name: str, parts: Sequence[Stream]) -> Stream:
        """The union of the parts as a set; an empty relation when there are none."""
        with self.at(name):
            if not parts:
                return self.circuit.constant([], schema_of(self.program.relations[name]))
            return parts[0].union(*parts[1:]).distinct()

    def once(self, stratum: checked.Stratum) -> None:
        """A stratum of one relation that does not depend on itself."""
        (name,) = stratum.relations
        relation = self.program.relations[name]
        rows = self.union(name, self.base(name, stratum.rules))
        with self.at(name):
            if relation.equivalence:
                self.streams[classes_name(name)] = classes(rows)
                rows = equivalent(self.streams[classes_name(name)])
            elif relation.choices:
                rows = chosen(relation, rows)
        self.streams[name] = self.present(name, rows, stratum)
        if not relation.equivalence:
            self.circuit.named[name] = self.streams[name]

    def present(self, name: str, rows: Stream, stratum: checked.Stratum) -> Stream:
        """The rows of a relation that its subsumptions leave."""
        subsumptions = [rule for rule in stratum.subsumptions if rule.head.relation == name]
        if not subsumptions:
            return rows
        with self.at(name):
            best = by_extreme(stratum, name)
            if best is not None:
                return with_extremes(rows, *best)
            before = self.streams.get(name)
            self.streams[name] = rows
            pairs = self.rules(subsumptions)
            if before is not None:
                self.streams[name] = before
            if not pairs:
                return rows
            one_way = len(subsumptions) == 1 and decided_by(subsumptions[0]) is not None
            return undominated(rows, pairs[0].union(*pairs[1:]), one_way)

    def recursive(self, stratum: checked.Stratum) -> None:
        """A stratum whose relations depend on one another."""
        names = stratum.relations
        inner = [rule for rule in stratum.rules if reads_any(rule, names)]
        outer = [rule for rule in stratum.rules if rule not in inner]
        bases = {name: self.base(name, outer) for name in names}
        if not any(bases.values()):
            # Every rule needs a row of the stratum itself, so there will never be one.
            for name in names:
                self.streams[name] = self.union(name, ())
            return
        variables: dict[str, Stream] = {}
        values: dict[str, Stream] = {}
        opened = self.circuit.fixpoint(", ".join(names), max_iterations=self.cap, recursion=self.recursion)
        with self.at(names[0]), opened as scope:
            for name in names:
                with self.at(name):
                    schema = schema_of(self.program.relations[name])
                    self.streams[name] = variables[name] = scope.variable(name, schema)
                    if self.program.relations[name].equivalence:
                        self.streams[classes_name(name)] = variables[name]
                        self.streams[name] = equivalent(variables[name])
            # A subsumption reads all known rows of its own relation and those present of the others.
            self.streams.update({name: self.present(name, self.streams[name], stratum) for name in names})
            limits = [self.limit(name) for name in names if self.program.relations[name].limit is not None]
            for name in names:
                parts = [*bases[name], *self.rules(rule for rule in inner if rule.head.relation == name)]
                if stratum.accumulates and not self.program.relations[name].choices:
                    parts.append(variables[name])
                value = self.value(name, parts, variables[name])
                with self.at(name):
                    for reached in limits:
                        value = value.antijoin(reached, on=[]) + variables[name].semijoin(reached, on=[])
                    values[name] = value
                scope.define(variables[name], values[name])
        for name in names:
            with self.at(name):
                if self.program.relations[name].equivalence:
                    self.streams[classes_name(name)] = scope.leave(variables[name])
                    self.streams[name] = equivalent(self.streams[classes_name(name)])
                elif any(rule.head.relation == name for rule in stratum.subsumptions):
                    self.streams[name] = scope.leave(self.streams[name])
                else:
                    self.circuit.named[name] = values[name]
                    self.streams[name] = scope.leave(variables[name])

    def value(self, name: str, parts: Sequence[Stream], before: Stream) -> Stream:
        """What the variable of a recursive relation is in the next iteration."""
        relation = self.program.relations[name]
        if not (relation.equivalence or relation.choices):
            return self.union(name, parts)
        with self.at(name):
            whole = parts[0].union(*parts[1:])
            return classes(whole) if relation.equivalence else chosen(relation, whole, before)

    def limit(self, name: str) -> Stream:
        """Whether a relation has reached its limit in the iteration before."""
        with self.at(name):
            number = self.program.relations[name].limit
            assert number is not None
            return has_rows(self.streams[name], number)

    def at(self, relation: str) -> AbstractContextManager[None]:
        """Nodes added inside come from the declaration of the relation."""
        return self.circuit.at(self.program.relations[relation].span)

    # --- rules -----------------------------------------------------------------------------------

    def rule(self, plan: RulePlan) -> Stream | None:
        """The rows a rule derives, weighted by derivations; None for a rule that never holds."""
        if plan.steps is None:
            return None
        relation = self.program.relations[plan.rule.relation]
        with self.circuit.at(plan.rule.rule.span):
            stream = self.body(plan.steps, None, bag=False)
            names = list(schema_of(relation).names)
            if plan.rule.rule.dominating is not None:
                names += dominating_names(names)
            return _columns(stream, dict(zip(names, map(expression, plan.rule.head), strict=True)))

    def body(self, steps: Sequence[PlanStep], start: Stream | None, bag: bool) -> Stream:
        """The bindings a body allows, from those of `start` (None is the one empty binding).

        With `bag` the weight of a binding is the number of ways to get it; otherwise only its
        being positive matters.
        """
        current = start
        for step in steps:
            match step:
                case PlannedJoin():
                    current = self.join(current, step, bag)
                case PlannedMultiwayJoin():
                    current = self.multiway(current, step, bag)
                case PlannedFilter(condition=condition):
                    current = self.or_unit(current).filter(predicate(condition))
                case PlannedAssignment(variable=variable, term=term, keep=keep):
                    columns = {name: col(name) for name in keep} | {variable: expression(term)}
                    current = _columns(self.or_unit(current), columns)
                case PlannedSeries(variable=variable, call=call, keep=keep):
                    series = GenerateSeries(tuple(map(expression, call.arguments)), variable)
                    current = _columns(series(self.or_unit(current)), {name: col(name) for name in keep})
                case PlannedNumbering(variable=variable, order=order, keep=keep):
                    found = self.or_unit(current).distinct()
                    number = NumberRows(found.schema.indices(order), variable, step.first, step.step)
                    current = _columns(number(found), {name: col(name) for name in keep})
                case PlannedAntijoin(pattern=pattern):
                    absent = self.scan(pattern, set(pattern.names))
                    current = self.or_unit(current).antijoin(absent, on=list(pattern.names))
                case PlannedAggregate():
                    current = self.aggregated(self.or_unit(current), step)
        return self.or_unit(current)

    def join(self, left: Stream | None, step: PlannedJoin, bag: bool) -> Stream:
        source = step.source
        new = [name for name in step.keep if name in source.names and name not in step.on]
        if isinstance(source, SubPlan):
            right, has_key = self.body(source.steps, None, bag), False
        else:
            right, has_key = self.scan(source, {*step.on, *new}), source.has_key(step.on)
        if left is None:
            return right
        if bag or new or has_key:
            return left.join(right, on=list(step.on), select=list(step.keep))
        # Only whether there is a row matters; a join would count how many.
        found = left.semijoin(right, on=list(step.on))
        return found if found.schema.names == step.keep else found.project(*step.keep)

    def multiway(self, found: Stream | None, step: PlannedMultiwayJoin, bag: bool) -> Stream:
        """All parts joined at once, over the traces of the relations themselves."""
        looked_at = step.looked_at
        parts = [self.part(part, found, looked_at, bag) for part in step.parts]
        join = MultiwayJoin(
            tuple(terms for _, terms in parts),
            step.keep,
            tuple((name, expression(term)) for name, term in step.extensions),
            tuple(map(predicate, step.conditions)),
            step.orders,
        )
        return join(*(stream for stream, _ in parts))

    def part(
        self, part: JoinPart, found: Stream | None, looked_at: Collection[str], bag: bool
    ) -> tuple[Stream, tuple[Term, ...]]:
        """The stream of a part of a multi-way join, and its term for each column."""
        terms: list[Term]
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
        terms = [None if isinstance(term, str) and term not in looked_at else term for term in terms]
        columns = [column for column, term in enumerate(terms) if term is not None]
        if bag or len(columns) == len(terms):
            return stream, tuple(terms)
        # Only whether there is a row matters; how many there are would be multiplied.
        stream = stream.project(*(stream.schema.names[column] for column in columns)).distinct()
        return stream, tuple(terms[column] for column in columns)

    def scan(self, scan: Scan, wanted: Collection[str]) -> Stream:
        """The rows that fit a pattern, with the wanted variables as columns.

        The columns keep the order of the relation: a relation under other names is still the same
        stream, and all rules share its arrangements.
        """
        stream = self.streams[scan.relation]
        columns = stream.schema.names
        for position, value in scan.constants:
            stream = stream.filter(col(columns[position]) == constant(value))
        for first, second in scan.equal:
            stream = stream.filter(col(columns[first]) == col(columns[second]))
        named = zip(scan.variables, columns, strict=True)
        return _columns(stream, {name: col(column) for name, column in named if name and name in wanted})

    def aggregated(self, outer: Stream, step: PlannedAggregate) -> Stream:
        """The outer bindings with the results of an aggregate as further columns."""
        literal = step.literal
        key = list(literal.injected)
        with self.circuit.at(literal.span):
            start = outer.project(*key).distinct() if step.correlated else None
            inner = self.body(step.inner, start, bag=True)
            columns = {name: col(name) for name in key}
            calls: dict[str, AggregateCall] = {}
            for result in literal.results:
                if result.value is None:
                    calls[result.variable] = count()
                else:
                    columns[result.variable] = expression(result.value)
                    calls[result.variable] = _AGGREGATES[result.function](result.variable)
            groups = _columns(inner, columns).group_by(*key).agg(**calls)
            present = outer.join(groups, on=key, select=list(step.keep))
            if not step.empty_groups:
                return present
            kept = {name: col(name) for name in step.keep}
            zeros = {result.variable: lit(_ZEROS[result.kind]) for result in literal.results}
            return present + _columns(outer.antijoin(groups, on=key), kept | zeros)

    def or_unit(self, stream: Stream | None) -> Stream:
        """The stream, or the relation without columns that always holds."""
        if stream is not None:
            return stream
        if self._unit is None:
            self._unit = self.circuit.constant([()], _UNIT)
        return self._unit


def _columns(stream: Stream, columns: Mapping[str, Expression]) -> Stream:
    """The stream with exactly these columns."""
    return stream.map(**columns) if columns else stream.project()
