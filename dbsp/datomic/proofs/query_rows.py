"""A query as the clauses that its rows have to satisfy, and the proofs of single rows."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import count
from typing import Any, TypeAlias

from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.compiler.why.proof import Key, Premise, Proof, ProofStep
from dbsp.datomic.proofs.clause_search import (
    Branch,
    ClauseSearch,
    Given,
    Part,
    RuleRow,
    Solution,
    with_values,
)
from dbsp.datomic.proofs.clause_text import found_text, part_text, row_text, rule_row_text
from dbsp.datomic.proofs.rule_rows import UNBOUND
from dbsp.datomic.proofs.same_values import ValueRow, identity
from dbsp.datomic.proofs.source_rows import FoundRow
from dbsp.diagnostics import ProgramSources
from dbsp.errors import expect_present, expect_type
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QueryRow:
    """Values of the variables of `:find` and `:with`; `UNBOUND` for any value."""

    values: tuple[Any, ...]


Node: TypeAlias = QueryRow | RuleRow
"""A row that clauses derive."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A query that is explained: its clauses, and what they are searched in."""

    query: tree.Query
    parts: tuple[Part, ...]
    """The values of `:in`, then the clauses of `:where`."""
    variables: tuple[str, ...]
    """The variables of `:find` and `:with`."""
    search: ClauseSearch
    texts: ProgramSources

    @property
    def text(self) -> str:
        """The query in one line."""
        return " ".join(self.query.text.split())

    @property
    def place(self) -> str:
        """Where the query starts."""
        return f"{self.query.file}:1:1"

    def solutions(self, row: QueryRow) -> Iterator[Solution]:
        """Yield the ways in which the clauses hold for a row."""
        given = with_values(self.variables, row.values)
        if given is not None:
            yield from self.search.solve(self.parts, given)


@dataclass
class _Instance:
    """A way to derive a row: the clauses, how they hold, and the rows that they use."""

    parts: Sequence[Part]
    solution: Solution
    used: frozenset[Any]
    definition: tree.RuleDefinition | None = None
    number: int = 1
    waiting: int = 0


@dataclass
class _Derived:
    """A row, the ways to derive it, and the one of the smallest height."""

    node: Node
    instances: list[_Instance] = field(default_factory=list)
    height: int = 0
    best: _Instance | None = None


class RowProver:
    """Finds proofs of the smallest height, from a row down."""

    def __init__(self, explained: Explained) -> None:
        self.explained = explained
        self._known: dict[Any, _Derived] = {}

    def prove(self, row: QueryRow, depth: int | None) -> Proof | None:
        """Return a proof of a row; None if no row matches."""
        steps: dict[Key, ProofStep] = {}
        goal = self.add_steps(steps, row, depth)
        return None if goal is None else Proof(goal, steps)

    def add_steps(self, steps: dict[Key, ProofStep], row: QueryRow, depth: int | None) -> Key | None:
        """Add the steps of a proof of a row; return the key of the row, None if it is missing."""
        root = _key(row)
        if root not in self._known:
            self._explore(row)
        if self._known[root].best is None:
            return None
        waiting: deque[tuple[Any, int]] = deque([(root, 0)])
        seen = {root}
        while waiting:
            key, level = waiting.popleft()
            follow = depth is None or level < depth
            leaves: dict[Key, ProofStep] = {}
            step, below = self._step(self._known[key], follow, leaves)
            for found in (step, *leaves.values()):
                steps.setdefault(found.key, found)
            for key_below in below:
                if key_below not in seen:
                    seen.add(key_below)
                    waiting.append((key_below, level + 1))
        return self._step_key(self._known[root])

    # --- heights ----------------------------------------------------------------------------------

    def _explore(self, row: QueryRow) -> None:
        """Find all rows that derivations of a row may use, and a smallest derivation of each."""
        found: dict[Any, _Derived] = {_key(row): _Derived(row)}
        waiting: list[Any] = list(found)
        while waiting:
            derived = found[waiting.pop()]
            nodes: dict[Any, Node] = {}
            derived.instances = self._smallest(self._instances(derived.node), nodes)
            for key, node in nodes.items():
                if key not in found and key not in self._known:
                    found[key] = _Derived(node)
                    waiting.append(key)
        self._known |= found
        self._compute_heights(found.values())

    def _instances(self, node: Node) -> Iterator[_Instance]:
        explained = self.explained
        if isinstance(node, QueryRow):
            for solution in explained.solutions(node):
                yield _Instance(explained.parts, solution, frozenset())
            return
        definitions = explained.search.rules[node.name]
        for number, definition in enumerate(definitions, 1):
            for solution in explained.search.of_definition(definition, node.values, node.source):
                yield _Instance(definition.clauses, solution, frozenset(), definition, number)

    @staticmethod
    def _smallest(instances: Iterable[_Instance], nodes: dict[Any, Node]) -> list[_Instance]:
        """Return one instance for each set of rows of rules; only one if it uses none."""
        kept: dict[frozenset[Any], _Instance] = {}
        for instance in instances:
            used = {_key(row): row for row in _rule_rows(instance.solution)}
            if not used:
                return [instance]
            instance.used = frozenset(used)
            kept.setdefault(instance.used, instance)
            nodes |= used
        return list(kept.values())

    def _compute_heights(self, rows: Iterable[_Derived]) -> None:
        """Give each row its smallest height: smaller heights first, as in Dijkstra's algorithm."""
        users: dict[Any, list[tuple[_Derived, _Instance]]] = {}
        ready: list[tuple[int, int, _Derived, _Instance]] = []
        numbers = count()
        for derived in rows:
            for instance in derived.instances:
                open_ = [key for key in instance.used if self._known[key].best is None]
                instance.waiting = len(open_)
                for key in open_:
                    users.setdefault(key, []).append((derived, instance))
                if not open_:
                    ready.append((self._height(instance), next(numbers), derived, instance))
        heapq.heapify(ready)
        while ready:
            height, _, derived, instance = heapq.heappop(ready)
            if derived.best is not None:
                continue
            derived.height, derived.best = height, instance
            for user, other in users.get(_key(derived.node), ()):
                other.waiting -= 1
                if not other.waiting and user.best is None:
                    heapq.heappush(ready, (self._height(other), next(numbers), user, other))

    def _height(self, instance: _Instance) -> int:
        return 1 + max((self._known[key].height for key in instance.used), default=0)

    # --- steps ------------------------------------------------------------------------------------

    def _step(
        self, derived: _Derived, follow: bool, leaves: dict[Key, ProofStep]
    ) -> tuple[ProofStep, list[Any]]:
        """Return the step that derives a row, and the keys of the rows among its premises."""
        instance = expect_present(derived.best, "a derivation of a row")
        explained = self.explained
        key = self._step_key(derived)
        below: list[Any] = []
        premises: tuple[Premise, ...] | None = None
        if follow:
            premises = tuple(self._premises(instance.parts, instance.solution, below, leaves))
        if instance.definition is None:
            rule, place, text = explained.text, explained.place, row_text(key[1])
        else:
            span = instance.definition.span
            rule, place = explained.texts.between(span), str(span)
            text = rule_row_text(expect_type(derived.node, RuleRow, "a row of a rule"))
        step = ProofStep(key, text, derived.height, rule, instance.number, place, premises)
        return step, below

    def _step_key(self, derived: _Derived) -> Key:
        node = derived.node
        if isinstance(node, RuleRow):
            return _rule_key(node)
        solution = expect_present(derived.best, "a derivation of a row").solution
        values = (
            solution.environment[name] if value is UNBOUND else value
            for name, value in zip(self.explained.variables, node.values, strict=True)
        )
        return ":find", ValueRow(values)

    def _premises(
        self, parts: Sequence[Part], solution: Solution, below: list[Any], leaves: dict[Key, ProofStep]
    ) -> Iterator[Premise]:
        known = solution.environment
        for at, part in enumerate(parts):
            evidence = solution.evidence[at]
            text = part_text(part, known)
            by = f"{text}   by {part.span}"
            match evidence:
                case FoundRow():
                    if not isinstance(part, tree.Pattern):
                        yield Premise("constraint", by)
                    yield _found(evidence, part, leaves)
                case RuleRow():
                    below.append(_key(evidence))
                    yield Premise("row", rule_row_text(evidence), _rule_key(evidence))
                case Branch(clause=clause, number=number, solution=inner):
                    branch = clause.branches[number]
                    yield Premise("constraint", f"{text}   by {branch[0].span}")
                    yield from self._premises(branch, inner, below, leaves)
                case None:
                    yield from _condition(part, by)


def _condition(part: Part, text: str) -> Iterator[Premise]:
    match part:
        case tree.Not() | tree.Predicate(function="missing?"):
            yield Premise("absent", text)
        case tree.Predicate() | tree.Function():
            yield Premise("constraint", text)
        case Given(is_single=False):  # a single value needs no premise
            yield Premise("constraint", text)


def _found(row: FoundRow, part: Part, leaves: dict[Key, ProofStep]) -> Premise:
    key: Key = (row.source, ValueRow(row.values))
    what = "datom" if row.is_datom else f"tuple of {row.source}"
    text = found_text(row)
    if key not in leaves:
        leaves[key] = ProofStep(key, text, 0, None, None, None, (), f"{what} by {part.span}")
    return Premise("row", text, key)


def _rule_key(row: RuleRow) -> Key:
    return (row.name if row.source == "$" else f"{row.source} {row.name}"), ValueRow(row.values)


def _key(node: Node) -> Any:
    values = tuple(None if value is UNBOUND else (identity(value),) for value in node.values)
    return (node.name, node.source, values) if isinstance(node, RuleRow) else (None, None, values)


def _rule_rows(solution: Solution) -> Iterator[RuleRow]:
    """Yield the rows of rules that a solution uses, those of branches of `or` included."""
    for evidence in solution.evidence.values():
        if isinstance(evidence, RuleRow):
            yield evidence
        elif isinstance(evidence, Branch):
            yield from _rule_rows(evidence.solution)
