"""The rules that place the nodes of a physical circuit, by operator.

| operator                         | its inputs are                | its rows are              |
|----------------------------------|-------------------------------|---------------------------|
| input                            |                               | dealt as the readers want |
| constant                         |                               | everywhere                |
| row by row                       | where they are                | there, if columns stay    |
| with a key (`keyed_reads`)       | by a part of the key          | by the same columns       |
| a join with a small side         | that side everywhere          | where the other side is   |
| watermark                        | where they are                | everywhere                |
| filters by a watermark           | where they are; everywhere    | where the first input is  |
| delay                            | as the readers want           | there                     |
| fixpoint                         | see `placed_scopes`           |                           |
| all others                       | on the first shard            | there                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from dbsp.circuit.graph import Node, Stream
from dbsp.operators.groups.aggregate import AccumulatedAggregate
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import DealtInput, Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave
from dbsp.operators.shards.exchange import Broadcast
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, UNKNOWN, Placement, by
from dbsp.operators.stages.placing.divided_joins import divided_by, most_shared
from dbsp.operators.stages.placing.key_choice import chosen_part, columns_at, copied_inputs
from dbsp.operators.stages.placing.keyed_reads import KeyedReads, keyed_reads
from dbsp.operators.stages.placing.pivots import named
from dbsp.operators.stages.placing.placed_graph import PlacedGraph
from dbsp.operators.stages.placing.placed_scopes import place_scope
from dbsp.operators.stages.placing.prefix_terms import exchanges_prefixes, place_prefix_terms
from dbsp.operators.stages.placing.row_columns import is_partial, row_columns, targets
from dbsp.operators.stages.placing.summed_groups import is_summed, place_sums
from dbsp.operators.stages.placing.wanted_columns import FILTERS, preferred_columns, rejected_key
from dbsp.operators.time.closing import Close
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.forgetting import ForgettingOperator
from dbsp.operators.time.watermark import Watermark
from dbsp.operators.traces.arrange import Arrange, is_external

_WHOLE = "it may raise an error for a row, so equal rows must meet before it"


def place_node(placed: PlacedGraph, node: Node) -> None:
    """Add a node of the physical circuit to the distributed one, with the exchanges before it."""
    operator = node.operator
    if isinstance(operator, Arrange | Delta0 | Leave):
        # Arrangements are built for their readers; streams enter and leave a scope with the scope.
        return None
    if isinstance(operator, Input):
        return _place_input(placed, node, operator)
    if isinstance(operator, Constant):
        return placed.place(node, placed.add(node, operator), EVERYWHERE)
    if isinstance(operator, Output):
        return placed.at_end(lambda: _place_output(placed, node))
    if isinstance(operator, Delay):
        return _place_delay(placed, node)
    if isinstance(operator, Fixpoint):
        return place_scope(placed, node, place_node)
    if isinstance(operator, Watermark):
        return _place_watermark(placed, node, operator)
    if isinstance(operator, FILTERS):
        return _place_filter(placed, node)
    columns = row_columns(node)
    if columns is not None:
        return _place_row_operator(placed, node, columns)
    reads = keyed_reads(node)
    if reads is not None and not any(is_external(stream) for stream in node.inputs):
        if not reads.positions and isinstance(operator, DeltaMultiwayJoin):
            if not placed.inner_exchanges:
                return _place_divided_join(placed, node, operator)
            if exchanges_prefixes(placed, node):
                return place_prefix_terms(placed, node)
        return _place_keyed(placed, node, reads)
    _gather(placed, node)


def _gather(placed: PlacedGraph, node: Node) -> None:
    if any(is_external(stream) for stream in node.inputs):
        why = "its rows are stored outside of the run, in one place"
    elif keyed_reads(node) is None:
        why = "no rule divides it: it is a function of the whole stream"
    else:
        why = "its inputs have no common key"
    inputs = [placed.image(stream.node, FIRST_SHARD, node, why) for stream in node.inputs]
    _add_keyed(placed, node, inputs, FIRST_SHARD)


def _add_keyed(placed: PlacedGraph, node: Node, inputs: Sequence[Stream], placement: Placement) -> None:
    image = placed.add(node, node.operator, *inputs)
    if isinstance(node.operator, ForgettingOperator):
        placed.follow_marks(node, image)
    placed.place(node, image, placement)


# --- ports ----------------------------------------------------------------------------------------


def _place_input(placed: PlacedGraph, node: Node, operator: Input) -> None:
    """Deal an input by what its readers want; a relation with a key by a part of the key."""
    among = operator.key or range(node.schema.arity)
    dealt = () if operator.stored_outside else preferred_columns(placed.wanted_of(node), among)
    own = {one.name: getattr(operator, one.name) for one in fields(Input)}
    image = placed.add(node, DealtInput(**own, dealt=dealt))
    placed.place(node, image, by(dealt))
    other = rejected_key(placed.wanted_of(node), dealt)
    if other is not None:
        dealt_by = by(dealt).text(node.schema).replace("placed", "dealt")
        rejected = other.text(node.schema)
        placed.changes.append(f"{named(node)} is {dealt_by}, {rejected}")
    if operator.strict:
        (past,) = node.strict
        placed.at_end(lambda: placed.target.connect(image, placed.arrangement(past.node, image)))


def _place_output(placed: PlacedGraph, node: Node) -> None:
    """Add an output of an image of its stream, with an arrangement that keeps its integral."""
    stream = node.inputs[0].node
    image = placed.kept_image(stream)
    placement = image.placement
    if placed.whole_outputs and placement == UNKNOWN:
        placement = by(range(stream.schema.arity))
        source = placed.image(stream, placement, node, "equal rows of an output must meet")
    elif image.placement == EVERYWHERE:
        source = placed.image(stream, UNKNOWN, node, "the shards' parts of an output add up")
    else:
        source = image.stream
    kept = placed.arrangement_of(source)
    if kept is None and not source.node.operator.keeps_integral:
        kept = placed.arrange(node, source)
    inputs = (source,) if kept is None else (source, kept)
    placed.place(node, placed.add(node, node.operator, *inputs), placement)


# --- row by row -----------------------------------------------------------------------------------


def _place_row_operator(placed: PlacedGraph, node: Node, columns: Sequence[int | None]) -> None:
    sources = [stream.node for stream in node.inputs]
    common = _common(placed, sources)
    if common == UNKNOWN and is_partial(node):
        common = by(preferred_columns(placed.wanted_of(sources[0]), range(sources[0].schema.arity)))
    if len(sources) == 1 and common == placed.placement(sources[0]):
        inputs = [placed.own_image(sources[0])]
    else:
        why = "its inputs add up" if len(sources) > 1 else _WHOLE
        inputs = [placed.image(source, common, node, why) for source in sources]
    image = placed.add(node, node.operator, *inputs)
    placed.place(node, image, common.moved(targets(columns, sources[0].schema.arity)))


def _common(placed: PlacedGraph, sources: Sequence[Node]) -> Placement:
    """Return a placement in which all sources have an image, else UNKNOWN."""
    own = dict.fromkeys(placed.placement(source) for source in sources)
    if list(own) == [EVERYWHERE]:
        return EVERYWHERE
    own.pop(EVERYWHERE, None)
    shared = (
        placement
        for placement in own
        if all(placed.has(source, placement) or placed.has(source, EVERYWHERE) for source in sources)
    )
    return next(shared, UNKNOWN)


def _place_filter(placed: PlacedGraph, node: Node) -> None:
    """Place an operator that filters its first input by a watermark."""
    rows, mark = (stream.node for stream in node.inputs)
    placement = placed.placement(rows)
    if placement == UNKNOWN and isinstance(node.operator, Close):
        placement = by(preferred_columns(placed.wanted_of(rows), range(rows.schema.arity)))
        source = placed.image(rows, placement, node, _WHOLE)
    else:
        source = placed.own_image(rows)
    follows = placed.image(mark, EVERYWHERE, node, "every shard follows the same watermark")
    placed.place(node, placed.add(node, node.operator, source, follows), placement)


def _place_watermark(placed: PlacedGraph, node: Node, operator: Watermark) -> None:
    """Every shard computes the watermark of its rows; the watermark is the largest of these."""
    rows = node.inputs[0].node
    own = placed.add(node, operator, placed.own_image(rows))
    if placed.placement(rows) != EVERYWHERE:
        sent = placed.add(node, Broadcast(), own)
        placed.changed(Broadcast(), rows, node, "the watermark is the largest of the shards' watermarks")
        own = placed.add(node, Watermark(0, 0), sent)
    placed.place(node, own, EVERYWHERE)


def _place_delay(placed: PlacedGraph, node: Node) -> None:
    """Place a delay by what its readers want; its source follows at the end."""
    placement = by(preferred_columns(placed.wanted_of(node), range(node.schema.arity)))
    image = placed.add(node, node.operator)
    placed.place(node, image, placement)
    (value,) = node.strict
    why = "the next tick reads them there"
    placed.at_end(lambda: placed.target.connect(image, placed.image(value.node, placement, node, why)))


# --- with a key -----------------------------------------------------------------------------------


def _place_keyed(placed: PlacedGraph, node: Node, reads: KeyedReads) -> None:
    copied = copied_inputs(placed, node, reads)
    sources = [stream.node for stream in node.inputs]
    moved = [place for place in range(len(sources)) if place not in copied]
    if not moved:
        return _add_keyed(placed, node, [placed.own_image(source) for source in sources], EVERYWHERE)
    why = "it is small, and the rows of the other side stay; without a key, a hash divides no rows"
    before = len(placed.changes)
    inputs = {place: placed.image(sources[place], EVERYWHERE, node, why) for place in copied}
    if copied:
        (place,) = moved
        inputs[place] = placed.own_image(sources[place])
        placement = placed.placement(sources[place]).moved(reads.carried[place])
        together = "one side is on every shard, the rows of the other stay"
    else:
        part = chosen_part(placed, node, reads, moved)
        if isinstance(node.operator, AccumulatedAggregate) and is_summed(
            placed, node, columns_at(reads, 0, part)
        ):
            return place_sums(placed, node, columns_at(reads, 0, part))
        placements = [by(columns_at(reads, place, part)) for place in moved]
        for place, wanted in zip(moved, placements, strict=True):
            why = _must_meet(placed, node, reads, place, wanted)
            inputs[place] = placed.image(sources[place], wanted, node, why)
        texts = [wanted.text(sources[place].schema) for place, wanted in zip(moved, placements, strict=True)]
        others = [text.removeprefix("placed by ") for text in dict.fromkeys(texts[1:]) if text != texts[0]]
        together = f"its rows are {' and '.join([texts[0], *others])}"
        emitted = [reads.emitted(position) for position in part]
        kept = [column for column in emitted if column is not None]
        placement = by(kept) if len(kept) == len(emitted) else UNKNOWN
    if len(placed.changes) == before:
        placed.stays(node, together)
    _add_keyed(placed, node, [inputs[place] for place in range(len(sources))], placement)


def _place_divided_join(placed: PlacedGraph, node: Node, operator: DeltaMultiwayJoin) -> None:
    """Divide a multi-way join by the variable that most atoms have; every shard has the others."""
    sources = [stream.node for stream in node.inputs]
    name = most_shared(operator.join)
    if name is None or all(placed.placement(source) == FIRST_SHARD for source in sources):
        return _gather(placed, node)
    join, placements = divided_by(operator, name)
    inputs = []
    for place, columns in placements:
        why = f"the join is divided by {name}" + (", which these rows do not have" if columns is None else "")
        wanted = EVERYWHERE if columns is None else by(columns)
        inputs.append(placed.image(sources[place], wanted, node, why))
    emitted = join.join.columns
    placement = by([emitted.index(name)]) if name in emitted else UNKNOWN
    placed.place(node, placed.add(node, join, *inputs), placement)


def _must_meet(placed: PlacedGraph, node: Node, reads: KeyedReads, place: int, wanted: Placement) -> str:
    """Return why an input with a key must be in a placement, and not in another one."""
    source, columns = node.inputs[place].node, wanted.columns or ()
    names = ", ".join(source.schema.names[column] for column in columns)
    why = f"equal ({names}) must meet" if names else "all rows must meet, since the key has no columns"
    if len(node.inputs) > 1 and reads.copies:
        why += " (no broadcast: no side is known to be small)"
    after = placed.wanted_of(node)
    emitted = [reads.carried[place][column] for column in columns]
    other = rejected_key(after, [column for column in emitted if column is not None])
    if other is not None and other.key < set(range(node.schema.arity)) and None not in emitted:
        why += f" ({other.text(node.schema)})"
    return why
