"""Compute all rows of a run with their heights, in rounds that apply all rules at once.

The height of a row is the height of its smallest proof: 0 for an input fact, else one more than the
height of the highest premise. It is the number of the round in which the immediate consequence
operator T_P first derives the row:

    rows of height n + 1  =  T_P(rows of heights up to n)  -  rows of heights up to n

T_P is a circuit without recursion. Every relation is an input, and the derived rows of every
relation are an output. Each round is one tick; its changes are the new rows of the previous round.
So the cost of a round is the cost of joining its new rows, and all rounds together cost as much as
a semi-naive evaluation of the program. A negated or aggregated relation has to be complete
beforehand. So the relations are divided into levels: a relation is above every relation that it
negates or aggregates over. The rows of lower levels are inserted round by round, too. Relations
that are recursive through negation share a level, and their negations read the rows of the run.

Negations and aggregates have no height in a proof; they count as input facts.

Of a selected relation (see `opaque_relations`), only the rows that the run keeps enter the next
round. The others go to a table of their own: they are the rows that a choice, a subsumption or a
limit removed. If the rounds end before they derive every kept row, because the run derived the row
from rows that it removed later, the remaining rows are *underived* and enter the next round.

The pairs of an equivalence that rules derive go to a table of their own, too. The rows that follow
from the pairs of heights up to n have the height n + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.circuits.lowering_context import relation_schema
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import dependencies, needed_by
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.merge_aggregates import merge_aggregates
from dbsp.compiler.datalog.plans.normalise import normalise
from dbsp.compiler.datalog.plans.plan import plan
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import map_children
from dbsp.compiler.why.equivalence_pairs import GrowingClasses
from dbsp.compiler.why.fact_table import FactTable
from dbsp.compiler.why.opaque_relations import as_plain, selected_relations, selects
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.recode import recode_rows
from dbsp.data.zset import ZSet
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.runtime.run import Run


def heights(
    program: checked.CheckedProgram,
    inputs: Callable[[str], ZSet],
    kept: Callable[[str], ZSet],
    interner: Interner,
    relations: Iterable[str],
    progress: Callable[[int, int], None],
    circuits: dict[tuple[str, ...], Graph],
) -> dict[str, FactTable]:
    """Return tables of these relations and of their dependencies, in the codes of `interner`.

    `inputs` returns the input facts of a relation, `kept` the rows of a selected relation, or of
    one that is recursive through negation. `progress` receives the rounds and rows so far.
    `circuits` keeps the circuits of the rounds of this program for the next call. For a selected
    relation, the result also has the table `removed_rows(name)`; for an equivalence, the table
    `derived_pairs(name)`.
    """
    needed = needed_by(program.clauses, relations)
    level = levels(program)
    tables: dict[str, FactTable] = {}
    counter = _Progress(progress)
    for height in sorted({level[name] for name in needed}):
        names = [name for name in program.relations if name in needed and level[name] == height]
        tables.update(_Level(program, names, inputs, kept, interner, tables, counter, circuits).tables())
    return tables


class _Progress:
    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._rounds = self._rows = 0

    def add(self, rows: int) -> None:
        self._rounds += 1
        self._rows += rows
        self._report(self._rounds, self._rows)


def levels(program: checked.CheckedProgram) -> dict[str, int]:
    """Return the level of each relation.

    A relation is at or above the relations it uses, and above those it negates or aggregates over.
    """
    level = dict.fromkeys(program.relations, 0)
    for stratum in program.strata:
        uses = [use for rule in stratum.rules for use in dependencies(rule)]
        own = max((level[use.used] + bool(use.how) for use in uses), default=0)
        level.update(dict.fromkeys(stratum.relations, own))
    return level


@dataclass(frozen=True, slots=True)
class _Layer:
    """Rows of one relation that were recorded together."""

    rows: Codes
    height: int
    underived: bool = False


class _Level:
    """The relations of one level, derived round by round."""

    def __init__(
        self,
        program: checked.CheckedProgram,
        names: list[str],
        inputs: Callable[[str], ZSet],
        kept: Callable[[str], ZSet],
        interner: Interner,
        below: Mapping[str, FactTable],
        progress: _Progress,
        circuits: dict[tuple[str, ...], Graph],
    ) -> None:
        self.program = program
        self.names = names
        self.inputs = inputs
        self.interner = interner
        self.below = below
        self.progress = progress
        rules = [rule for rule in program.rules if rule.head.relation in names]
        uses = [use for rule in rules for use in dependencies(rule)]
        self.used = {use.used for use in uses if not use.how}
        self.complete = {use.used for use in uses if use.how}
        self.derived = {_derived(name): name for name in {rule.head.relation for rule in rules}}
        circuit = circuits.get(tuple(names))
        if circuit is None:
            circuit = _round_circuit(program, rules, self.used, self.complete, self.derived)
            circuits[tuple(names)] = circuit
        self.run = Run(circuit)
        self.pending: dict[int, list[tuple[str, Codes]]] = {}
        self.found: dict[str, list[_Layer]] = {name: [] for name in names}
        self.kept = {
            name: self._kept_rows(name, kept(name)) for name in selected_relations(program) & set(names)
        }
        self.decided = {
            name: self._kept_rows(name, kept(name))
            for name in program.alternating & self.complete & set(names)
        }
        """The rows of relations of this level that rules of this level negate."""
        self.removed: dict[str, list[_Layer]] = {name: [] for name in self.kept}
        self.classes = {name: GrowingClasses() for name in names if program.relations[name].equivalence}
        self.pairs: dict[str, list[_Layer]] = {name: [] for name in self.classes}
        self.new_pairs: dict[int, list[tuple[str, Codes]]] = {}

    def tables(self) -> dict[str, FactTable]:
        for name in self.complete:
            # An aggregate in a recursion with subsumptions reads the rows that are kept.
            known = self.kept.get(name, self.decided.get(name))
            rows = self._own_codes(name, self.below[name].rows) if known is None else known.rows
            self._schedule(0, _complete(name), rows)
        for name in self.used & self.below.keys():
            if len(self.below[name]):
                self._schedule_by_height(name, self.below[name])
        for name in self.names:
            given = self.program.relations[name].given
            if given in self.program.inputs:
                self._record(0, name, self._own_batch(name, self.inputs(given)))
        height = 0
        while True:
            new = self._round(height)
            self.progress.add(new)
            while not (self.pending or self.new_pairs) and self._add_underived(height + 1):
                pass
            if not (self.pending or self.new_pairs):
                break
            height = min((*self.pending, *self.new_pairs))
        tables = {name: self._table(name, layers) for name, layers in self.found.items()}
        tables |= {removed_rows(name): self._table(name, layers) for name, layers in self.removed.items()}
        return tables | {
            derived_pairs(name): self._table(name, layers) for name, layers in self.pairs.items()
        }

    def _add_underived(self, height: int) -> bool:
        """Record kept rows that the rounds did not derive; return whether there were any.

        Rows of a relation that removes rows come first: the rounds may derive the others from them.
        """
        for name in sorted(self.kept, key=lambda name: not selects(self.program.relations[name])):
            found = np.zeros(len(self.kept[name]), np.bool_)
            for layer in self.found[name]:
                found[self.kept[name].positions(layer.rows)] = True
            if not found.all():
                rows = self.kept[name].rows[~found]
                self.found[name].append(_Layer(rows, height, underived=True))
                self._schedule(height, name, rows)
                return True
        return False

    def _round(self, height: int) -> int:
        """Step one tick and return the number of derived rows."""
        for name, pairs in self.new_pairs.pop(height, ()):
            self._record(height + 1, name, self.classes[name].add(pairs), follow=True)
        staged: dict[str, Batch] = {}
        pieces: dict[str, list[Codes]] = {}
        for name, rows in self.pending.pop(height, ()):
            pieces.setdefault(name, []).append(rows)
        for name, parts in pieces.items():
            rows = np.concatenate(parts)
            rows, _ = consolidate(rows, np.ones(len(rows), np.int64))
            staged[name] = Batch(rows, np.ones(len(rows), np.int64))
        result = self.run.step_staged(staged)
        new = 0
        for derived, name in self.derived.items():
            rows = result[derived].stored.rows
            if len(rows):
                self._record(height + 1, name, rows)
                new += len(rows)
        return new

    def _record(self, height: int, name: str, rows: Codes, follow: bool = False) -> None:
        """Record rows of a relation at a height; `_table` keeps the first height of each row.

        `follow` is true for rows that follow from the pairs of an equivalence.
        """
        if name in self.kept:
            is_kept = self.kept[name].contains(rows)
            self.removed[name].append(_Layer(rows[~is_kept], height))
            rows = rows[is_kept]
        self.found[name].append(_Layer(rows, height))
        if name in self.classes and not follow and len(rows):
            self.pairs[name].append(_Layer(rows, height))
            self.new_pairs.setdefault(height, []).append((name, rows))
        self._schedule(height, name, rows)

    def _schedule(self, height: int, name: str, rows: Codes) -> None:
        if len(rows) and (name in self.used or name not in self.found):
            self.pending.setdefault(height, []).append((name, rows))

    def _schedule_by_height(self, name: str, table: FactTable) -> None:
        """Schedule the rows of a relation of a lower level, each at its height."""
        rows = self._own_codes(name, table.rows)
        order = np.argsort(table.heights, kind="stable")
        of_height, starts = np.unique(table.heights[order], return_index=True)
        for height, layer in zip(of_height.tolist(), np.split(rows[order], starts[1:]), strict=True):
            self._schedule(height, name, layer)

    def _own_batch(self, name: str, rows: ZSet) -> Codes:
        return rows.recoded(relation_schema(self.program.relations[name]), self.run.interner).rows

    def _own_codes(self, name: str, rows: Codes) -> Codes:
        schema = relation_schema(self.program.relations[name])
        return recode_rows(rows, schema, self.interner, schema, self.run.interner)

    def _kept_rows(self, name: str, rows: ZSet) -> FactTable:
        schema = relation_schema(self.program.relations[name])
        codes = self._own_batch(name, rows)
        return FactTable(schema, codes, np.zeros(len(codes), np.int64))

    def _table(self, name: str, layers: list[_Layer]) -> FactTable:
        schema = relation_schema(self.program.relations[name])
        if not layers:
            return FactTable(schema, np.empty((0, schema.arity), np.int64), np.empty(0, np.int64))
        sizes = [len(layer.rows) for layer in layers]
        rows = np.concatenate([layer.rows for layer in layers])
        of_row = np.repeat([layer.height for layer in layers], sizes)
        underived = np.repeat([layer.underived for layer in layers], sizes)
        rows = recode_rows(rows, schema, self.run.interner, schema, self.interner)
        # A row that is an input fact and derived was recorded twice; keep the first height.
        order = key_order([*rows.T, of_row])
        rows, of_row, underived = rows[order], of_row[order], underived[order]
        first = np.ones(len(rows), bool)
        first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        return FactTable(schema, np.ascontiguousarray(rows[first]), of_row[first], underived[first])


# --- the circuit of a round -----------------------------------------------------------------------
# `#` cannot occur in the name of a relation of a program.


def removed_rows(name: str) -> str:
    """The table of the rows of a selected relation that the rules derive and the run removed."""
    return f"{name}#removed"


def derived_pairs(name: str) -> str:
    """The table of the rows of an equivalence that are input facts or that a rule derives."""
    return f"{name}#pairs"


def _derived(name: str) -> str:
    return f"{name}#derived"


def _complete(name: str) -> str:
    return f"{name}#complete"


def _round_circuit(
    program: checked.CheckedProgram,
    rules: Iterable[checked.Rule],
    used: Iterable[str],
    complete: Iterable[str],
    derived: Mapping[str, str],
) -> Graph:
    """Return the circuit of rules: inputs are the relations of bodies, outputs those of heads."""
    relations = {name: as_plain(program.relations[name]) for name in used}
    for name in complete:
        relations[_complete(name)] = replace(as_plain(program.relations[name]), name=_complete(name))
    inputs = tuple(relations)
    for new, name in derived.items():
        relations[new] = replace(as_plain(program.relations[name]), name=new)
    renamed_rules = [_with_round_names(rule) for rule in rules]
    strata = tuple(
        checked.Stratum((name,), tuple(rule for rule in renamed_rules if rule.head.relation == name), False)
        for name in derived
    )
    round_program = replace(
        program,
        relations=relations,
        facts=(),
        rules=tuple(renamed_rules),
        subsumptions=(),
        strata=strata,
        inputs=inputs,
        outputs=tuple(derived),
        sizes=(),
    )
    policy = Policy(Statistics.none(), Strategy.AUTO)
    plans = {rule.number: plan(merge_aggregates(normalise(rule)), policy) for rule in renamed_rules}
    return lower_program(round_program, plans, "round", 1).runnable(Stage.PHYSICAL)


def _with_round_names(rule: checked.Rule) -> checked.Rule:
    """Rename the head of the rule and the relations that it uses as complete."""
    head = map_children(rule.head, _reading)
    head = replace(head, relation=_derived(rule.head.relation))
    return replace(rule, head=head, body=tuple(map(_reading, rule.body)))


def _reading(node: Any, complete: bool = False) -> Any:
    """Rename the relations that a part of a rule uses as complete.

    Those are the relations in a negation or an aggregate; `complete` is true inside of one.
    """
    inside = complete or isinstance(node, syntax.Negation | syntax.Aggregate)
    node = map_children(node, lambda part: _reading(part, inside))
    if complete and isinstance(node, syntax.Atom):
        return replace(node, relation=_complete(node.relation))
    return node
