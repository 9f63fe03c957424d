"""A stratum to the streams of its relations.

    relation           =  distinct(input + sum of its rules)
    recursive stratum  =  one scope with one variable per relation; rules that use no relation of
                          the stratum are computed outside and enter as its base

Relations that are more than sets of rows combine these parts differently (see `special_relations`
and `lattice_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbsp.compiler.datalog.circuits.lattice_bounds import joined
from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext, Streams
from dbsp.compiler.datalog.circuits.rule_lowering import lower_rules
from dbsp.compiler.datalog.circuits.special_relations import (
    chosen,
    classes,
    equivalent,
    has_rows,
    undominated,
    with_extremes,
)
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import reads_any
from dbsp.compiler.datalog.meaning.dominance import by_extreme, decided_by
from dbsp.compiler.datalog.plans.read_classes import classes_name
from dbsp.operators.streams.stream import Stream


class StratumLowering:
    """Lowers one stratum; `before` has the relations of earlier strata and the inputs."""

    def __init__(self, context: LoweringContext, stratum: checked.Stratum, before: Streams) -> None:
        self.context = context
        self.stratum = stratum
        self.before = before

    def streams(self) -> dict[str, Stream]:
        """Return the streams of the stratum's relations, and of the classes of equivalences."""
        return self._recursive() if self.stratum.recursive else self._once()

    def _once(self) -> dict[str, Stream]:
        """Lower a stratum of one relation that does not depend on itself."""
        (name,) = self.stratum.relations
        relation = self.context.relations[name]
        found: dict[str, Stream] = {}
        parts = self._base(name, self.stratum.rules)
        if relation.lattice_columns and parts:
            found[name] = self.context.circuit.named[name] = self._next(name, parts, parts[0])
            return found
        rows = self.context.union(name, parts)
        with self.context.at(name):
            if relation.equivalence:
                found[classes_name(name)] = classes(rows)
                rows = equivalent(found[classes_name(name)])
            elif relation.choices:
                rows = chosen(relation, rows)
        found[name] = self._present(name, {name: rows})
        if not relation.equivalence:
            self.context.name(name, found[name])
        return found

    def _base(self, name: str, rules: Iterable[checked.Rule]) -> list[Stream]:
        """Return the parts of a relation: its input, and the rows of the given rules for it."""
        given = self.context.given.get(self.context.relations[name].given or "")
        own = [] if given is None else [given]
        return own + lower_rules(self.context, self.before, _of(name, rules))

    def _present(self, name: str, known: Streams) -> Stream:
        """Return the known rows of a relation that no subsumption removes.

        A subsumption reads the known rows of the relations of its stratum.
        """
        rows = known[name]
        subsumptions = _of(name, self.stratum.subsumptions)
        if not subsumptions:
            return rows
        with self.context.at(name):
            best = by_extreme(self.stratum, name)
            if best is not None:
                return with_extremes(rows, *best)
            pairs = lower_rules(self.context, {**self.before, **known}, subsumptions)
            if not pairs:
                return rows
            antisymmetric = len(subsumptions) == 1 and decided_by(subsumptions[0]) is not None
            return undominated(rows, pairs[0].union(*pairs[1:]), antisymmetric)

    # --- recursion -------------------------------------------------------------------------------

    def _recursive(self) -> dict[str, Stream]:
        """Lower a stratum whose relations depend on each other."""
        names = self.stratum.relations
        context = self.context
        inner = [rule for rule in self.stratum.rules if reads_any(rule, names)]
        outer = [rule for rule in self.stratum.rules if rule not in inner]
        bases = {name: self._base(name, outer) for name in names}
        if not any(bases.values()):
            # Every rule needs a row of the stratum itself, so the relations stay empty.
            empty = {name: context.union(name, ()) for name in names}
            equivalences = [name for name in names if context.relations[name].equivalence]
            return empty | {classes_name(name): empty[name] for name in equivalences}
        variables: dict[str, Stream] = {}
        values: dict[str, Stream] = {}
        known: dict[str, Stream] = {}
        opened = context.fixpoint(", ".join(names))
        with context.at(names[0]), opened as scope:
            for name in names:
                with context.at(name):
                    known[name] = variables[name] = scope.variable(name, context.schema(name))
                    if context.relations[name].equivalence:
                        known[classes_name(name)] = variables[name]
                        known[name] = equivalent(variables[name])
            present = known | {name: self._present(name, known) for name in names}
            readable = {**self.before, **present}
            limits = [
                self._limit(name, present[name], number)
                for name in names
                if (number := context.relations[name].limit) is not None
            ]
            for name in names:
                parts = [*bases[name], *lower_rules(context, readable, _of(name, inner))]
                if self.stratum.accumulates and not context.relations[name].choices:
                    parts.append(variables[name])
                value = self._next(name, parts, variables[name])
                with context.at(name):
                    for reached in limits:
                        value = value.join(reached, on=[], how="anti") + variables[name].join(
                            reached, on=[], how="semi"
                        )
                    values[name] = value
                scope.define(variables[name], values[name])
        found: dict[str, Stream] = {}
        for name in names:
            with context.at(name):
                if context.relations[name].equivalence:
                    found[classes_name(name)] = scope.leave(variables[name])
                    found[name] = equivalent(found[classes_name(name)])
                elif _of(name, self.stratum.subsumptions):
                    found[name] = scope.leave(present[name])
                else:
                    context.name(name, values[name])
                    found[name] = scope.leave(variables[name])
        return found

    def _next(self, name: str, parts: Sequence[Stream], before: Stream) -> Stream:
        """Return the value of a recursive relation's variable in the next iteration."""
        relation = self.context.relations[name]
        if not (relation.equivalence or relation.choices or relation.lattice_columns):
            return self.context.union(name, parts)
        with self.context.at(name):
            combined = parts[0].union(*parts[1:])
            if relation.lattice_columns:
                return joined(relation, combined, self.context.program)
            return classes(combined) if relation.equivalence else chosen(relation, combined, before)

    def _limit(self, name: str, rows: Stream, number: int) -> Stream:
        """Return whether a relation had reached its limit in the previous iteration."""
        with self.context.at(name):
            return has_rows(rows, number)


def _of(name: str, rules: Iterable[checked.Rule]) -> list[checked.Rule]:
    """Return the rules for a relation."""
    return [rule for rule in rules if rule.head.relation == name]
