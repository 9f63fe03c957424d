"""Small circuits that together call each kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import dbsp
from dbsp.circuit.shard_link import Alone, Exchanged, SentRows
from dbsp.data.batch import Batch
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import INT, STR, list_type
from dbsp.data.value_hashes import ValueHashes
from dbsp.errors import InvariantError, expect_present
from dbsp.kernels import is_sorted
from dbsp.kernels.narrow_rows import LARGE, empty_rows
from dbsp.parallel.narrow_sort import CACHED
from dbsp.parallel.packed_sum import sum_parts
from dbsp.parallel.range_sort import sort_parts
from dbsp.runtime.input_changes import net_load
from dbsp.shards.value_packets import Inbox, Outbox
from dbsp.state import seen_rows
from dbsp.state.sorted_run import SortedRun


def use_every_kernel(*, long_runs: bool = True) -> None:
    """Run small circuits that together call each kernel; `merge_runs`, and those that sort narrow
    rows, only with long runs.

    `merge_backward` merges the runs of large ticks, which no small circuit has.
    """
    with_rules = dbsp.compile(
        """
        .decl edge(x: number, y: number)
        .input edge
        .decl size(x: number, s: float)
        .input size
        .decl path(x: number, y: number)
        .output path
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), path(y, z), x + z != 1000.
        .decl ahead(x: number, y: number)
        .output ahead
        ahead(x, y) :- edge(x, y).
        ahead(x, z) :- ahead(x, y), edge(y, z).
        .decl depth(x: number, n: number<min>)
        .output depth
        depth(x, 0) :- edge(x, _), x = 1.
        depth(y, n + 1) :- depth(x, n), edge(x, y).
        .decl unreachable(x: number, y: number)
        .output unreachable
        unreachable(x, y) :- edge(x, _), edge(_, y), !path(x, y).
        .decl between(x: number)
        .output between
        between(x) :- edge(x, _), edge(a, b), a <= x, x < b.
        between(x) :- between(y), edge(x, z), x <= y, y < z.
        .decl figures(n: number, total: float, least: number, most: number, middle: float)
        .output figures
        figures(n, total, least, most, middle) :-
            n = count : { edge(_, _) }, total = sum s : { size(_, s) }, least = min x : { edge(x, _) },
            most = max y : { edge(_, y) }, middle = mean s : { size(_, s) }.
        .decl degree(x: number, n: number)
        .output degree
        degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
        .decl same(x: number, y: number) eqrel
        .decl pair(x: number, y: number) choice-domain x, y
        .output same, pair
        same(x, y), pair(x, y) :- edge(x, y).
        .type Edge = [x: number, y: number]
        .decl record(e: Edge)
        .output record
        record([x, y]) :- edge(x, y).
        .type Named = [name: symbol, e: Edge]
        .decl named(n: Named)
        .output named
        named([to_string(x), [x, y]]) :- edge(x, y).
        """
    ).start()
    for edges in ([(1, 2), (2, 3), (3, 1)], [(3, 4), (4, 5)], [(5, 6)]):
        with_rules.step({"edge": edges, "size": [(x, x / 2) for x, _ in edges]})
    with_rules.step({"edge": {(2, 3): -1, (7, 8): -1}, "size": {(2, 1.0): -1}})
    # Enough records to fill the table of records, which then grows.
    with_rules.step({"edge": [(x, x) for x in range(100, 140)]})
    if with_rules.view("record")[((1, 2),)] != 1:
        raise InvariantError("expected the record [1, 2] in the relation record of the warm-up")

    circuit = dbsp.Circuit("warmup")
    keyed = circuit.input("keyed", key=("id",), id=int, v=int)
    bag = circuit.input("bag", id=int, v=int)
    circuit.output(
        "matched_or_not", keyed.join(bag, on=["id"], how="semi") + bag.join(keyed, on=["id"], how="anti")
    )
    circuit.output("sums", bag.group_by("id").agg(total=dbsp.col("v").sum(), mean=dbsp.col("v").mean()))
    circuit.output("later", bag.delay().integrate().differentiate())
    circuit.output("first", bag.top_k(2, by="v", partition=["id"]))
    circuit.output("ranked", bag.rank(by="v"))
    circuit.output("before", bag.lag("v", 1, by="v"))
    circuit.output("loops", dbsp.multiway_join([bag("a", "b"), bag("b", "c"), bag("c", "a")]))
    limited = [bag("a", "b"), bag("b", "c"), bag("a", "c")]
    where = [dbsp.col("a") < dbsp.col("b"), dbsp.col("c") != 5, dbsp.col("c") >= dbsp.col("b")]
    circuit.output("limited", dbsp.multiway_join(limited, where=where))
    circuit.output("near", bag.range_join(keyed, on=["id"], left="v", right="v", low=0, high=1))
    circuit.output("latest", bag.asof_join(keyed, on=["id"], left="v", right="v"))
    with circuit.fixpoint("near_and_near", recursion="incremental") as scope:
        reached = scope.variable("reached", bag.schema)
        nearer = reached.range_join(reached, left="id", right="id", low=1, high=1, select=["id_right", "v"])
        scope.define(reached, (bag + nearer.rename(id="id_right")).distinct())
    circuit.output("reached", scope.leave(reached))
    value = dbsp.col("v")
    circuit.output("middle", bag.group_by("id").agg(middle=value.median(), values=value.count_distinct()))
    circuit.output("latest_value", bag.group_by("id").agg(latest=dbsp.col("v").last(by="v")))
    heavy = circuit.input("heavy", id=int)
    circuit.output("present", heavy.distinct())
    by_hand = circuit.start()
    for tick in range(3):
        by_hand.step({"keyed": [(1, tick), (2, tick)], "bag": {(1, 5): 2, (3, tick): 1}})
    by_hand.step({"bag": {(1, 5): -6}})
    for tick in range(12):  # enough small runs to merge them
        by_hand.step({"keyed": [(3, tick)]})
    # Weights are checked one by one only if their sums might overflow int64.
    for weight in (2**62, -(2**62), 2**62):
        by_hand.step({"heavy": {(1,): weight}})
    # Only long sorted runs are merged piece by piece. No id follows another, since the scope would
    # iterate once for each.
    for start in (0, 3, 6) if long_runs else ():
        rows = np.stack([np.arange(start, 180_000, 9), np.zeros(20_000, np.int64)], axis=1)
        by_hand.step({"bag": dbsp.ZSet.from_numpy(rows)})
    _add_up_pairs()
    _place_on_shards()
    _extend_prefixes()
    _note_rows()
    _sort_ranges()
    _transpose_pairs()
    if long_runs:
        _sort_narrow_rows()
    _find_places()
    for run in (with_rules, by_hand):
        run.compact()


def _add_up_pairs() -> None:
    """Join so many rows with so many partners each that the pairs are added up by groups."""
    circuit = dbsp.Circuit("pairs")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", y=int, z=int)
    circuit.output("pairs", a.join(b, on=["y"], select=["x", "z"]))
    run = circuit.start()
    run.step({"b": [(y, z) for y in range(16) for z in range(8)]})
    run.step({"a": [(x, y) for x in range(64) for y in range(16)]})
    if run.view("pairs")[(0, 0)] != 16:
        raise InvariantError("expected the pair (0, 0) 16 times in the warm-up")


def _transpose_pairs() -> None:
    rows = empty_rows(LARGE, 2, True)
    rows[:, 0] = np.arange(LARGE) // 8
    rows[:, 1] = np.arange(LARGE) % 8
    run = expect_present(SortedRun.transposed([rows], 1), "transposed pairs")
    if run.codes.tolist() != sorted(rows[:, ::-1].tolist()):
        raise InvariantError("expected the pairs sorted by their second column")


def _sort_narrow_rows() -> None:
    rows = empty_rows(2 * CACHED, 2, True)
    rows[:, 0] = np.arange(len(rows))[::-1] % CACHED
    rows[:, 1] = 7
    batch = expect_present(net_load(rows, "zset"), "the sum of narrow rows")
    if batch.weights.tolist() != [2] * CACHED:
        raise InvariantError("expected each row twice")


def _find_places() -> None:
    """Change one row of many, with weights: the other ticks recompute whole partitions."""
    circuit = dbsp.Circuit("places")
    bag = circuit.input("bag", id=int, v=int)
    circuit.output("ranked", bag.rank(by="v"))
    circuit.output("before", bag.lag("v", by="v"))
    circuit.output("middle", bag.group_by().agg(middle=dbsp.col("v").median()))
    run = circuit.start()
    run.step({"bag": {(n, n): 2 for n in range(300)}})
    run.step({"bag": {(1, 1): -1}})


def _place_on_shards() -> None:
    """Split rows by shard, and send a part to another interner."""
    schema = Schema(("x", "names"), (INT, list_type(STR)))
    interner = Interner()
    names = encode_column(schema.types[1], [("a",), ("b", "a")], interner)
    batch = Batch(np.column_stack((np.arange(2), names)), np.ones(2, np.int64))
    hashes = ValueHashes(interner)
    places = hashes.shards(batch.rows, (1, 0), schema.types, 2).tolist()
    parts = hashes.split(batch, (1, 0), schema.types, 2)
    outbox, inbox = Outbox(interner), Inbox(Interner())
    for shard, part in enumerate(parts):
        sent = inbox.unpack(outbox.pack(part, schema), schema)
        if (0 if sent is None else len(sent)) != places.count(shard):
            raise InvariantError("expected the rows of a shard in a packet of the warm-up")


def _note_rows() -> None:
    """Add rows to the filter that large ticks of recursions use."""
    rows, words = np.array([[1, 2], [3, 4]]), np.zeros(8, np.uint64)
    seen_rows.note_rows(rows[:1], words)
    if 0 not in seen_rows.note_rows(rows, words).tolist():
        raise InvariantError("expected the earlier row of a filter in the warm-up")


def _sort_ranges() -> None:
    """Sort rows as a large batch is sorted by several threads."""
    rows = np.array([[3, 1], [1, 2], [3, 1]])
    found, weights = sort_parts([(rows, np.ones(3, np.int64))], np.arange(2))
    if found.tolist() != [[1, 2], [3, 1]] or weights.tolist() != [1, 2] or not is_sorted(found):
        raise InvariantError("expected sorted rows in the warm-up")
    if sum_parts([(rows, np.ones(3, np.int64))]) is None:
        raise InvariantError("expected packed rows in the warm-up")


class _First(Alone):
    """The first of two shards, of which the other has no rows."""

    shards = 2

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        streams = [[stream.parts[0], None] for stream in sent]
        return Exchanged(streams, [tuple(numbers), (0,) * len(numbers)])

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(numbers), tuple(numbers)]


def _extend_prefixes() -> None:
    """Join three relations in the form of several shards; some nodes have many edges."""
    triangles = dbsp.compile(
        ".decl e(x: number, y: number) .input e\n"
        ".decl t(x: number, y: number, z: number) .output t\n"
        "t(x, y, z) :- e(x, y), e(y, z), e(z, x).",
        "wcoj",
    )
    first = dbsp.Run(triangles.circuit("distributed"), link=_First())
    nodes, hubs = range(20, 50), range(8)
    first.step({"e": [(x, hub) for x in nodes for hub in hubs] + [(100 + hub, 20 + hub) for hub in hubs]})
    first.step({"e": [(hub, 100 + hub) for hub in hubs]})  # these few candidates are cheaper than a list
    first.step({"e": [(hub, x) for x in nodes for hub in hubs]})
    first.step({"e": {(0, 1): 1, (20, 1): -1, (20, 21): 1}})
    if not len(first.view("t")):
        raise InvariantError("expected rows of a join on the first of two shards in the warm-up")
