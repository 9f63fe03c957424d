"""The plan of a rule: how its body is joined, and when its other literals are evaluated.

The query planner (`planner.choose`) chooses how to join connected scans of a body. Its tree is
followed from the left, with two-way joins, multi-way joins, and sub-plans for bushy parts. Without
row counts and cycles, the order is greedy. The next step is the first possible one of this list:

1. a condition whose variables are bound, or a generator whose value is bound: both only remove
   rows;
2. a negated atom whose variables are bound;
3. an equation that binds a variable: after the steps that remove rows, since its value may be out
   of range;
4. the next join of the tree, or a scan that shares a bound variable with the rows so far. The scan
   with the most bound columns comes first, then the one written first. The very first scan is one
   with variables, and of these the one with the most constants; among equals, a scan whose columns
   are all used;
5. a generator over bound variables;
6. a scan without variables: it keeps all rows or none;
7. an aggregate, or a condition with a function that has no value for some arguments (`/`, `%`,
   `to_number` ...): late, so that it is evaluated only for rows that pass all other literals;
8. a scan that shares no variable, or a generator over constants. Conditions such as `l <= x, x < u`
   between the scan and the rows so far make it a range join, otherwise it is a cross product;
9. the numbering of the resulting rows, and then the literals that read the numbers.

A multi-way join evaluates the conditions and equations between its variables. After each step only
the variables that later steps need are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.plans.join_bodies import (
    Policy,
    conjunction_of,
    connected_scans,
    fits,
    functions_of,
    spine,
)
from dbsp.compiler.datalog.plans.literal_placement import LiteralPlacement
from dbsp.compiler.datalog.plans.literals import (
    binds,
    equations,
    excludes_zero,
    has_partial,
    is_safe,
    true_of_counts,
    uses,
)
from dbsp.compiler.datalog.plans.merge_aggregates import name_wildcards
from dbsp.compiler.datalog.plans.normalise import (
    AggregateLiteral,
    Condition,
    NormalLiteral,
    NormalRule,
    Numbered,
    Scan,
)
from dbsp.compiler.datalog.plans.plan_steps import (
    BoundRows,
    Joined,
    JoinPart,
    PlannedAggregate,
    PlannedJoin,
    PlannedMultiwayJoin,
    PlanStep,
    RowSource,
    RulePlan,
    SubPlan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import variables
from dbsp.errors import InvariantError, expect_present
from dbsp.operators.planner import tree as trees
from dbsp.operators.planner.conjunction import determined
from dbsp.operators.planner.estimate import TermEstimate
from dbsp.operators.planner.statistics import Statistics


def plan(rule: NormalRule, policy: Policy | None = None) -> RulePlan:
    """Return the plan of one rule. An order given by the rule overrides that of the policy."""
    if rule.body is None:
        return RulePlan(rule, None)
    policy = replace(policy or Policy(Statistics.none()), order=rule.rule.order)
    needed = frozenset().union(*map(variables, rule.head))
    body = rule.body
    if any(isinstance(literal, Numbered) for literal in body):
        # Every way to satisfy the body has its own number, so all variables are needed.
        body = name_wildcards(body, "#_")
        needed = needed.union(*map(uses, body))
    planner = _Planner(body, (), needed, policy, [])
    return RulePlan(rule, planner.steps(), tuple(planner.joined))


class _Planner(LiteralPlacement):
    """Orders one body; the variables `given` are bound at the start.

    `line` has the trees to join next, over the scans of `group`. Scans in `greedy` are joined one
    by one in greedy order.
    """

    def __init__(
        self,
        body: Sequence[NormalLiteral],
        given: Iterable[str],
        needed: frozenset[str],
        policy: Policy,
        joined: list[Joined],
    ) -> None:
        super().__init__(body, given, needed)
        self.policy = policy
        self.joined = joined
        self.group: Joined | None = None
        self.line: list[trees.Tree] = []
        self.greedy: list[Scan] = []

    def steps(self) -> tuple[PlanStep, ...]:
        if not self.bound and not self.line:
            # Choose before equations bind variables: a multi-way join evaluates equations itself.
            self._choose()
        while self.remaining:
            placed = self._place_multiway() or self.place_filter() or self.place_absent()
            placed = placed or self.place_membership() or self.place_equation()
            placed = placed or self._place_scan(connected=True) or self.place_generated(constant=False)
            placed = placed or self._place_existence() or self._place_late()
            placed = placed or self._place_scan(connected=False)
            placed = placed or self.place_generated(constant=True) or self.place_number()
            if not placed:
                raise InvariantError("expected a body that can be ordered; this is a defect of dbsp")
        return tuple(self.done)

    # Each of these methods places one literal or tree if it can, and returns whether it did.

    def _place_multiway(self) -> bool:
        tree = self.line[0] if self.line else None
        if isinstance(tree, trees.MultiwayNode) and self._extends_found_rows(tree):
            del self.line[0]
            self._multiway(tree)
            return True
        return False

    def _place_scan(self, connected: bool) -> bool:
        if not self.line:
            scan = self._next_scan(connected)
            if scan is None:
                return False
            if not any(scan is other for other in self.greedy):
                self._choose(scan)
            if not self.line:
                self._join(scan)
                return True
        tree = self.line[0]
        if isinstance(tree, trees.MultiwayNode) and self._extends_found_rows(tree):
            return self._place_multiway()
        del self.line[0]
        self._join(self._source(tree))
        return True

    def _place_existence(self) -> bool:
        """Place a scan without variables, which keeps all rows found so far or none."""
        for literal in self.remaining:
            if isinstance(literal, Scan) and not literal.names and self.done and not self.line:
                self._join(literal)
                return True
        return False

    def _place_late(self) -> bool:
        for literal in self.remaining:
            if isinstance(literal, AggregateLiteral) and self._may_aggregate(literal):
                self.take(literal)
                self._aggregate(literal)
                return True
        return self.place_filter(partial=True) or self.place_equation(partial=True)

    # --- joins -----------------------------------------------------------------------------------

    def _next_scan(self, connected: bool) -> Scan | None:
        """Return the next scan in greedy order."""
        scans = [literal for literal in self.remaining if isinstance(literal, Scan)]
        if connected and self.bound:
            scans = [scan for scan in scans if not self.bound.keys().isdisjoint(scan.names)]
        elif self.bound:
            ranged = [scan for scan in scans if self.range_of(scan.names) is not None]
            scans = ranged or scans
        if self.policy.external and not self.done:
            # What is derived from external rows alone must not be stored, so other rows come first.
            scans = [scan for scan in scans if scan.relation not in self.policy.external] or scans
        return max(scans, key=self._boundness, default=None)  # max keeps the first of equals

    def _boundness(self, scan: Scan) -> tuple[bool, float, int, bool]:
        fixed = len(scan.constants) + len(scan.equal) + sum(name in self.bound for name in scan.names)
        share = fixed / max(1, len(scan.variables))
        return (bool(scan.names), share, fixed, bool(self.bound) or self._uses_all_columns(scan))

    def _uses_all_columns(self, scan: Scan) -> bool:
        """Whether all columns are used. Otherwise equal rows only matter as one row."""
        rest = (literal for literal in self.remaining if literal is not scan)
        live = self.needed.union(*map(uses, rest))
        compared = {column for column, _ in scan.constants} | {column for _, column in scan.equal}
        return all(
            column in compared if name is None else name in live for column, name in enumerate(scan.variables)
        )

    def _choose(self, start: Scan | None = None) -> None:
        """Let the planner choose the joins of a scan and of all scans connected to it."""
        start = start or self._next_scan(connected=False)
        if start is None:
            return
        every = [literal for literal in self.remaining if isinstance(literal, Scan)]
        scans: Sequence[Scan] = every
        found = None
        if self.policy.order is None and not self.policy.external:
            functions = functions_of(self.remaining, self.reserved)
            scans = connected_scans(every, {*start.names, *self._near(start)}, functions) or (start,)
            if not self.bound.keys().isdisjoint(name for scan in scans for name in scan.names):
                found = tuple(self.bound)
        if len(scans) == 1 and found is None:
            self.greedy = [start]
            return
        conjunction = conjunction_of(scans, found, self.remaining, self.reserved, self.needed)
        policy = self.policy
        if found is not None:
            # The number of rows found so far is unknown.
            policy = replace(policy, statistics=Statistics.none())
        choice = policy.choose(conjunction)
        self.group = Joined((*scans, *(() if found is None else (None,))), choice)
        self.joined.append(self.group)
        if policy.order is None and choice.kind == "binary" and not choice.estimates:
            # The greedy order can place the other literals of the body between the joins.
            self.greedy = list(scans)
        else:
            self.line = list(spine(choice.tree, None if found is None else len(scans)))

    def _near(self, start: Scan) -> Iterable[str]:
        """Return the bound variables if the scan shares one of them, else none."""
        return () if self.bound.keys().isdisjoint(start.names) else self.bound

    def _join(self, source: RowSource) -> None:
        on = tuple(name for name in source.names if name in self.bound)
        within = self.range_of(source.names)
        if within is not None and on and None in (within.range.first, within.range.last):
            within = None  # rows with equal keys and one limit: the key selects the rows well enough
        if within is not None:
            self.take(*within.conditions)
        if isinstance(source, Scan):
            self.take(source)
        limits = None if within is None else within.range
        self.done.append(PlannedJoin(source, on, self.keep(source.names), limits))

    def _extends_found_rows(self, tree: trees.MultiwayNode) -> bool:
        """Whether a multi-way join extends the rows found so far, rather than being a sub-plan."""
        return (not self.done and not self.bound) or any(self._is_found(part) for part in tree.parts)

    def _group(self) -> Joined:
        return expect_present(self.group, "the group of scans that a tree joins")

    def _scan(self, atom: int) -> Scan | None:
        return self._group().scans[atom]

    def _is_found(self, tree: trees.Tree) -> bool:
        return isinstance(tree, trees.LeafNode) and self._scan(tree.atom) is None

    def _source(self, tree: trees.Tree, beside: Iterable[str] = ()) -> RowSource:
        """Return a scan, or the sub-plan of a tree; other parts use the variables `beside`."""
        if isinstance(tree, trees.LeafNode):
            # The rows found so far are the start of the line.
            return expect_present(self._scan(tree.atom), "a scan in the line after its first tree")
        body = self._body_of(tree)
        self.take(*body)
        needed = self.needed.union(self.bound, beside, *map(uses, self.remaining))
        inner = _Planner(body, (), needed, self.policy, self.joined)
        inner.group, inner.line = self.group, list(spine(tree, None))
        return SubPlan(inner.steps(), tuple(inner.bound))

    def _body_of(self, tree: trees.Tree) -> list[NormalLiteral]:
        """Return the scans of a tree and the conditions and equations between their variables."""
        scans = [self._scan(atom) for atom in trees.atoms_of(tree)]
        bound = self.determined(name for scan in scans if scan is not None for name in scan.names)
        return [
            literal
            for literal in self.remaining
            if any(literal is scan for scan in scans)
            or (isinstance(literal, Condition) and fits(literal, bound))
        ]

    def _multiway(self, tree: trees.MultiwayNode) -> None:
        parts: list[JoinPart] = []
        beside: set[str] = set()
        for subtree in tree.parts:
            part = BoundRows(tuple(self.bound)) if self._is_found(subtree) else self._source(subtree, beside)
            parts.append(part)
            beside.update(part.names)
        self.take(*parts)
        names = dict.fromkeys(name for part in parts for name in part.names)
        bound = self.determined(names)
        conditions: list[syntax.Comparison] = []
        extensions: list[tuple[str, syntax.Term]] = []
        for literal in self.conditions(partial=False):
            if fits(literal, bound):
                self.take(literal)
                found = [
                    equation
                    for equation in equations(literal)
                    if equation[0] not in self.reserved and is_safe(equation[1])
                ]
                extensions += found
                conditions += [] if found else [literal.comparison]
        keep = self.keep((*names, *(name for name, _ in extensions)))
        step = PlannedMultiwayJoin(
            tuple(parts), (), tuple(conditions), tuple(extensions), keep, self._expected(tree)
        )
        self.done.append(replace(step, orders=_orders(step, tree.orders)))

    def _expected(self, tree: trees.MultiwayNode) -> tuple[TermEstimate, ...]:
        """Return the planner's estimate of each delta term."""
        return next(
            (estimate.terms for estimate in self._group().choice.estimates if estimate.tree == tree), ()
        )

    # --- the rest --------------------------------------------------------------------------------

    def _may_aggregate(self, literal: AggregateLiteral) -> bool:
        return set(literal.injected) <= self.bound.keys() or (literal.grouped and not _correlated(literal))

    def _aggregate(self, literal: AggregateLiteral) -> None:
        injected = frozenset(literal.injected)
        values = (variables(result.value) for result in literal.results if result.value is not None)
        correlated = _correlated(literal)
        given = literal.injected if correlated else ()
        policy = replace(self.policy, order=None)
        inner = _Planner(literal.body, given, injected.union(*values), policy, self.joined).steps()
        empty_groups = not literal.grouped
        empty_groups &= all(result.function in ("count", "sum") for result in literal.results)
        if any(excludes_zero(name, self.remaining) for name in literal.variables):
            empty_groups = False
        if not empty_groups:
            for result in literal.results:
                if result.function == "count":
                    self.take(*true_of_counts(result.variable, self.remaining))
        self.bound |= dict.fromkeys(literal.injected)
        keep = self.keep(literal.variables, always=True)
        self.done.append(PlannedAggregate(literal, inner, correlated, empty_groups, keep))


def _correlated(literal: AggregateLiteral) -> bool:
    """Whether the body of an aggregate starts from the values found so far."""
    injected = frozenset(literal.injected)
    return bool(injected) and (not injected <= binds(literal.body) or has_partial(literal))


def _orders(step: PlannedMultiwayJoin, planned: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the planned orders, restricted to the used variables that the part does not bind."""
    free = {name for name, _ in step.extensions}
    functions = [(name, variables(term)) for name, term in step.extensions]
    every = [name for part in step.parts for name in part.names if name in step.used_variables]
    orders = []
    for part, order in zip(step.parts, planned, strict=True):
        others = dict.fromkeys(name for name in every if name not in part.names)
        chosen = [name for name in order if name in others]
        chosen += [name for name in others if name not in chosen and name not in free]
        # Two equations may define variables by each other, such as a record and its parts.
        for name in others:
            if name not in determined((*part.names, *chosen), functions):
                chosen.append(name)
        orders.append(tuple(chosen))
    return tuple(orders)
