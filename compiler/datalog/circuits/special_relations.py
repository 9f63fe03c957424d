"""The streams of relations that are more than sets of rows: equivalences, choices, subsumption.

equivalence    pairs of values of one class:     classes(parts) joined with itself
choice         rows that agree in no domain:     Choice over (turn, row); earlier rows come first
subsumption    candidates that are not dominated:  candidates - (candidates semijoin dominated)
limit          whether a relation has n rows:    AtLeast n of the relation without its columns
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from dbsp.compiler.datalog.meaning import checked
from dbsp.expressions import Expression, col, lit
from dbsp.operators.streams.stream import Stream


def classes(parts: Stream) -> Stream:
    """Return every value in the pairs with the representative of its class."""
    return parts.equivalence_classes()


def equivalent(classes: Stream) -> Stream:
    """Return all pairs of values of the same class."""
    x, y = classes.schema.names
    return classes.join(classes, on=[y], select=[x, f"{x}_right"]).rename(**{y: f"{x}_right"})


def chosen(relation: checked.Relation, candidates: Stream, kept: Stream | None = None) -> Stream:
    """Return the chosen candidates; rows in `kept` are chosen first."""
    names = candidates.schema.names
    domains = [[names[column] for column in domain] for domain in relation.choices]
    if kept is None:
        return candidates.choice_domain(*domains)

    def in_turn(stream: Stream, turn: int) -> Stream:
        return stream.map(**{"#turn": lit(turn)}, **{name: col(name) for name in names})

    both = in_turn(kept, 0) + in_turn(candidates, 1)
    return both.choice_domain(*domains).select(*names)


def has_rows(stream: Stream, number: int) -> Stream:
    """Return a relation without columns that holds if the stream, a set, has `number` rows."""
    return stream.select().at_least(number)


def dominating_names(names: Sequence[str]) -> list[str]:
    """Return names for the columns of a dominating row next to those of the dominated row."""
    return [f"{name}#" for name in names]


def undominated(candidates: Stream, pairs: Stream, antisymmetric: bool) -> Stream:
    """Return the candidates that no other candidate dominates.

    `pairs` has rows (dominated, dominating). `antisymmetric` means that no two different rows can
    dominate each other. Of rows that dominate each other, the least one stays.
    """
    names = candidates.schema.names
    others = dominating_names(names)
    both = [*names, *others]
    pairs = pairs.filter(~_equal(names, others)).distinct()
    if not antisymmetric:
        turned = pairs.map(**{a: col(b) for a, b in zip(both, [*others, *names], strict=True)})
        mutual = pairs.join(turned, on=both, how="semi")
        pairs = pairs.join(turned, on=both, how="anti") + mutual.preceded()
    return candidates.join(pairs.select(*names), on=list(names), how="anti")


def with_extremes(candidates: Stream, column: int, greatest: bool) -> Stream:
    """Return, for each value of the other columns, the row with the least or greatest value."""
    names = candidates.schema.names
    name = names[column]
    key = [other for other in names if other != name]
    best = col(name).max() if greatest else col(name).min()
    return candidates.group_by(*key).agg(**{name: best}).select(*names)


def _equal(names: Sequence[str], others: Sequence[str]) -> Expression:
    return reduce(operator.and_, (col(a) == col(b) for a, b in zip(names, others, strict=True)))
