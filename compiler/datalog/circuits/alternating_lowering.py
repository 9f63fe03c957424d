"""A stratum that is recursive through negation to a scope: the alternating fixpoint of its halves.

    K[0] = {},   U[i] = possible(K[i]),   K[i + 1] = true(U[i])

`possible(K)` is the least fixpoint of the rules of the possible rows when the true rows are K;
`true(U)` is that of the rules of the true rows when the possible rows are U. K grows and U shrinks
from iteration to iteration, because each of the two negates the other. When K does not change any
more, K has the true rows of the well-founded model and U the possible ones. (Van Gelder, "The
alternating fixpoint of logic programs with negation", JCSS 1993.)

K is the variable of the scope. A half without recursion of its own is computed by one pass over the
nodes of the scope. A recursive stratum within a half is a scope within the scope.

    variable K = win ──> win.possible = distinct(move ▷ K) ──> win = distinct(move ▷ win.possible)
             ^                                                   │
             └───────────────────────────────────────────────────┘

All operators of the scope follow changes by tick and iteration, so a tick costs what changes at
some iteration, for insertions and for deletions: K may shrink and U may grow between ticks.
"""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.compiler.datalog.circuits.lowering_context import LoweringContext, Streams
from dbsp.compiler.datalog.circuits.special_relations import equivalent
from dbsp.compiler.datalog.circuits.stratum_lowering import StratumLowering
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.plans.read_classes import classes_name
from dbsp.errors import expect_present
from dbsp.operators.streams.stream import Stream


class AlternatingLowering:
    """Lowers a stratum with two halves; `before` has the relations of earlier strata."""

    def __init__(self, context: LoweringContext, stratum: checked.Stratum, before: Streams) -> None:
        self.context = context
        self.stratum = stratum
        self.before = before

    def streams(self) -> dict[str, Stream]:
        """Return the streams of the stratum's relations, and of the classes of equivalences."""
        context = self.context
        possible, true = expect_present(self.stratum.halves, "the halves of a stratum")
        opened = context.fixpoint(", ".join(self.stratum.relations))
        with context.at(self.stratum.relations[0]), opened as scope, context.inside(scope):
            variables: dict[str, Stream] = {}
            for name in _negated(possible, true):
                with context.at(name):
                    variables[name] = scope.variable(name, context.schema(name))
            upper = self._half(possible, variables)
            lower = self._half(true, upper)
            for name, variable in variables.items():
                scope.define(variable, scope.enter(lower[name]))
        streams = upper | lower
        found: dict[str, Stream] = {}
        for name in self.stratum.relations:
            with context.at(name):
                if context.relations[name].equivalence:
                    found[classes_name(name)] = scope.leave(streams[classes_name(name)])
                    found[name] = equivalent(found[classes_name(name)])
                else:
                    context.name(name, streams[name])
                    found[name] = scope.leave(streams[name])
        return found

    def _half(self, strata: Iterable[checked.Stratum], other: Streams) -> dict[str, Stream]:
        """Return the streams of the relations of one half, which negates those of the other."""
        found: dict[str, Stream] = {}
        for stratum in strata:
            readable = {**self.before, **other, **found}
            found |= StratumLowering(self.context, stratum, readable).streams()
        return found


def _negated(half: Iterable[checked.Stratum], other: Iterable[checked.Stratum]) -> list[str]:
    """Return the relations of the other half that the rules of a half read, in their order."""
    read = {atom.relation for stratum in half for rule in stratum.rules for atom in uses(rule)}
    return [name for stratum in other for name in stratum.relations if name in read]
