"""Rows that travel between two interners as packets."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from dbsp import Branch, Record
from dbsp.data.batch import Batch, combine
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.schema import Schema
from dbsp.data.type_inference import as_type
from dbsp.data.types import BYTES, INT, OBJECT, STR, Type
from dbsp.data.values import decode_value
from dbsp.errors import InputError, InvariantError
from dbsp.shards.packet_frames import Buffer
from dbsp.shards.value_packets import Inbox, Outbox
from tests.data.typed_columns import TYPES, values_of

CHAIN = as_type("@Chain = [head: str, tail: @Chain]")


def schema_of(*types: Type) -> Schema:
    return Schema(tuple(f"c{n}" for n in range(len(types))), types)


def batch_of(schema: Schema, rows: list[Any], weights: list[int], interner: Interner) -> Batch | None:
    columns = [
        encode_column(type_, [row[at] for row in rows], interner) for at, type_ in enumerate(schema.types)
    ]
    codes = np.ascontiguousarray(np.array(columns, np.int64).reshape(schema.arity, len(rows)).T)
    return combine([(codes, np.array(weights, np.int64))])


def content(batch: Batch | None, schema: Schema, interner: Interner) -> Counter[str]:
    """Return the weights of rows by a text that differs for different rows."""
    found: Counter[str] = Counter()
    if batch is not None:
        for row, weight in zip(batch.rows.tolist(), batch.weights.tolist(), strict=True):
            found[row_text(row, schema, interner)] += weight
    return found


def row_text(row: list[int], schema: Schema, interner: Interner) -> str:
    return ", ".join(
        value_text(decode_value(type_, code, interner)) for type_, code in zip(schema.types, row, strict=True)
    )


def value_text(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(value_text, value)))}}}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(map(value_text, value))})"
    if isinstance(value, float):
        value += 0.0
    return f"{value!r} of {type(value).__name__}"


def consolidated(batch: Batch | None) -> bool:
    if batch is None:
        return True
    rows = batch.rows.tolist()
    return rows == sorted(rows) and len(set(map(tuple, rows))) == len(rows) and bool(batch.weights.all())


def carried(buffers: list[Buffer]) -> list[Buffer]:
    """Return the buffers as a transport delivers them: memory of the receiver."""
    return [bytearray(buffer) for buffer in buffers]


def freed(interner: Interner, kept: list[tuple[Schema, Batch | None]]) -> Interner:
    """Return the interner with the values of these batches only, as a run replaces its own."""
    parts = PartTypes()
    for schema, _ in kept:
        parts.add(schema.types)
    live = LiveValues(interner, parts)
    for schema, batch in kept:
        if batch is not None:
            live.add_rows(batch.rows, schema.types)
    live.add_parts()
    return interner.some(live.marks)


class Packets(RuleBasedStateMachine):
    """Packets of any columns, while both ends free values and forget."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = Interner(), Interner()
        self.there.encode_many(["only there", b"there"])
        self.outbox, self.inbox = Outbox(self.here), Inbox(self.there)
        self.sent: list[tuple[Schema, Batch | None]] = []
        self.kept: list[tuple[Schema, Batch | None]] = []

    @rule(data=st.data(), types=st.lists(TYPES, max_size=3), size=st.integers(0, 5))
    def send(self, data: st.DataObject, types: list[Type], size: int) -> None:
        schema = schema_of(*types)
        rows = data.draw(st.lists(st.tuples(*map(values_of, types)), min_size=size, max_size=size))
        weights = data.draw(st.lists(st.sampled_from([1, 1, -2, 2**62]), min_size=size, max_size=size))
        batch = batch_of(schema, rows, [1] * size, self.here)
        if batch is not None:
            batch = Batch(batch.rows, np.array(weights[: len(batch)], np.int64))
        self._send(schema, batch)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        if self.sent:
            self._send(*data.draw(st.sampled_from(self.sent)))

    def _send(self, schema: Schema, batch: Batch | None) -> None:
        received = self.inbox.unpack(carried(self.outbox.pack(batch, schema)), schema)
        assert content(received, schema, self.there) == content(batch, schema, self.here)
        assert consolidated(received)
        self.sent.append((schema, batch))
        self.kept.append((schema, received))

    @rule()
    def free_here(self) -> None:
        self.sent = self.sent[::2]
        self.here = self.outbox.interner = freed(self.here, self.sent)

    @rule()
    def free_there(self) -> None:
        self.kept = self.kept[::2]
        self.there = self.inbox.interner = freed(self.there, self.kept)

    @rule(both=st.booleans())
    def reset(self, both: bool) -> None:
        self.outbox.reset()
        if both:
            self.inbox.reset()


TestPackets = Packets.TestCase
TestPackets.settings = settings(stateful_step_count=12)


def exchange(outbox: Outbox, inbox: Inbox, schema: Schema, rows: list[Any]) -> int:
    """Send rows, check that they arrive, and return the number of bytes."""
    batch = batch_of(schema, rows, [1] * len(rows), outbox.interner)
    buffers = carried(outbox.pack(batch, schema))
    received = inbox.unpack(buffers, schema)
    assert content(received, schema, inbox.interner) == content(batch, schema, outbox.interner)
    return sum(map(len, buffers))


def test_a_value_travels_once() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR, CHAIN)
    rows = [(f"a long text to tell {n}", Record((f"another text {n}", None))) for n in range(100)]
    first = exchange(outbox, inbox, schema, rows)
    again = exchange(outbox, inbox, schema, rows)
    assert again < 1_800 < 5_000 < first  # 2 numbers of 8 bytes per row
    values = len(inbox.interner)
    outbox.reset()
    assert exchange(outbox, inbox, schema, rows) == first
    assert len(inbox.interner) == values


def test_no_rows_are_no_buffers() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR)
    assert outbox.pack(None, schema) == outbox.pack(Batch.empty(1), schema) == []
    assert inbox.unpack([], schema) is None


def test_rows_without_interned_values_are_not_copied() -> None:
    schema, rows = schema_of(INT, INT), np.arange(10).reshape(5, 2)
    batch = Batch(rows, np.array([1, 1, 2, 1, 1]))
    buffers = Outbox(Interner()).pack(batch, schema)
    received = Inbox(Interner()).unpack(buffers, schema)
    assert received is not None
    assert np.shares_memory(received.rows, rows) and np.shares_memory(received.weights, batch.weights)


@pytest.mark.parametrize("weight", [1, -1, 2**63 - 1, -(2**63)])
def test_a_weight_that_all_rows_have_travels_once(weight: int) -> None:
    schema, rows = schema_of(INT), np.arange(1000).reshape(1000, 1)
    buffers = Outbox(Interner()).pack(Batch(rows, np.full(1000, weight)), schema)
    assert sum(map(len, buffers)) < rows.nbytes + 100
    received = Inbox(Interner()).unpack(buffers, schema)
    assert received is not None and received.weights.tolist() == [weight] * 1000


def test_new_values_keep_their_order_whatever_the_order_of_the_rows() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(INT, STR)
    codes = outbox.interner.encode_many(["a", "b", "c", "d"])
    rows = np.column_stack((np.arange(6), codes[[3, 1, 3, 0, 2, 1]]))
    for shown in (rows[:3], rows):
        batch = Batch(np.ascontiguousarray(shown), np.ones(len(shown), np.int64))
        received = inbox.unpack(carried(outbox.pack(batch, schema)), schema)
        assert received is not None
        assert inbox.interner.decode_many(received.rows[:, 1]) == outbox.interner.decode_many(shown[:, 1])
    assert inbox.interner.decode_many(range(4)) == ["b", "d", "a", "c"]


def test_received_arrays_are_as_kernels_accept_them() -> None:
    schema = schema_of(INT)
    buffers = Outbox(Interner()).pack(Batch(np.arange(3).reshape(3, 1), np.array([1, 2, 3])), schema)
    for shift in (0, 1):
        moved = [memoryview(bytes(shift) + bytes(buffer))[shift:] for buffer in buffers]
        received = Inbox(Interner()).unpack(moved, schema)
        assert received is not None
        for array in (received.rows, received.weights):
            assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous


@pytest.mark.parametrize("type_", [CHAIN, OBJECT])
def test_deep_values(type_: Type) -> None:
    deep: Any = None
    for n in range(20_000):
        deep = Record((str(n % 7), deep)) if type_ == CHAIN else (n % 7, deep)
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(type_)
    batch = batch_of(schema, [(deep,)], [1], outbox.interner)
    for _ in range(2):
        received = inbox.unpack(carried(outbox.pack(batch, schema)), schema)
        assert received is not None
        back, expected = decode_value(type_, int(received.rows[0, 0]), inbox.interner), deep
        while expected is not None:
            assert back[0] == expected[0]
            back, expected = back[1], expected[1]
        assert back is None


def test_an_end_that_frees_values_reads_them_again_once() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR, BYTES, CHAIN)
    rows = [(f"text {n}", b"%d" % n, Record((f"part {n}", None))) for n in range(10)]
    exchange(outbox, inbox, schema, rows)
    inbox.interner = freed(inbox.interner, [])
    assert len(inbox.interner) == 0
    exchange(outbox, inbox, schema, rows[:3])
    end = inbox.interner.end
    exchange(outbox, inbox, schema, rows)
    assert inbox.interner.end == end
    # A new value with parts that were freed.
    inbox.interner = freed(inbox.interner, [])
    exchange(outbox, inbox, schema, [("text 1", b"new", Record(("new", Record(("part 2", None)))))])


def test_a_sender_that_frees_values_begins_again() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR)
    rows = [(f"text {n}",) for n in range(10)]
    exchange(outbox, inbox, schema, rows)
    outbox.interner = freed(outbox.interner, [(schema, batch_of(schema, rows[5:], [1] * 5, outbox.interner))])
    exchange(outbox, inbox, schema, [*rows[5:], ("new",)])
    exchange(outbox, inbox, schema, rows)


def test_a_new_value_may_have_some_parts_that_were_freed_and_some_that_are_new() -> None:
    tree = as_type("@T = $Leaf{} | $Node{left: @T, value: int, right: @T}")
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(tree)
    leaf = Branch("Leaf")
    old, new = (Branch("Node", leaf, value, leaf) for value in (1, 2))
    exchange(outbox, inbox, schema, [(old,)])
    inbox.interner = freed(inbox.interner, [(schema, batch_of(schema, [(leaf,)], [1], inbox.interner))])
    assert len(inbox.interner) == 1
    exchange(outbox, inbox, schema, [(Branch("Node", new, 3, old),)])


def damaged(buffers: list[Buffer], buffer: int, place: int) -> list[Buffer]:
    copies = [bytearray(each) for each in buffers]
    copies[buffer][place] ^= 4
    return list(copies)


def test_a_damaged_packet_is_refused_wherever_it_is_damaged() -> None:
    schema = schema_of(INT, STR)
    interner = Interner()
    batch = batch_of(schema, [(1, "a"), (2, "b")], [1, 2], interner)
    buffers = Outbox(interner).pack(batch, schema)
    for buffer, view in enumerate(buffers):
        for place in range(len(view)):
            with pytest.raises(InvariantError, match="expected a packet"):
                Inbox(Interner()).unpack(damaged(buffers, buffer, place), schema)
    for wrong in (buffers[:-1], [*buffers, b""], [b""], [b"x" * 100], [buffers[0], *buffers[:0:-1]]):
        with pytest.raises(InvariantError, match="expected a packet"):
            Inbox(Interner()).unpack(wrong, schema)


def test_a_packet_of_other_columns_is_refused() -> None:
    interner = Interner()
    buffers = Outbox(interner).pack(batch_of(schema_of(INT), [(1,)], [1], interner), schema_of(INT))
    with pytest.raises(InvariantError, match=r"expected a packet of rows \(c0: str\), got one of other"):
        Inbox(Interner()).unpack(buffers, schema_of(STR))


def test_a_lost_packet_is_noticed_and_a_reset_mends() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR)
    exchange(outbox, inbox, schema, [("a",)])
    outbox.pack(batch_of(schema, [("b",)], [1], outbox.interner), schema)
    later = outbox.pack(batch_of(schema, [("b",)], [1], outbox.interner), schema)
    with pytest.raises(InvariantError, match="expected packet 1 of this connection, got packet 2"):
        inbox.unpack(later, schema)
    with pytest.raises(InvariantError, match="expected packet 0 of this connection, got packet 3"):
        exchange(outbox, inbox, schema, [("b",)])
    outbox.reset()
    exchange(outbox, inbox, schema, [("b",), ("a",)])


class Odd:
    """A class that no process knows by its name."""


def test_a_value_of_another_class_is_refused_with_its_column() -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(STR, OBJECT)
    exchange(outbox, inbox, schema, [("a", 1)])
    batch = batch_of(schema, [("new", (1, Odd()))], [1], outbox.interner)
    with pytest.raises(InputError, match=r"column 'c1' holds .*Odd.* of class Odd, which one shard cannot"):
        outbox.pack(batch, schema)
    exchange(outbox, inbox, schema, [("new", 1), ("a", 2)])


def test_branches_in_branches_are_refused_if_an_object_has_too_many() -> None:
    deep: Any = None
    for n in range(5_000):
        deep = Branch("A", deep, n)
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(OBJECT)
    batch = batch_of(schema, [(1,), ((2, deep),)], [1, 1], outbox.interner)
    with pytest.raises(InputError, match=r"cannot send to another \(it is nested too deeply\); use"):
        outbox.pack(batch, schema)
    exchange(outbox, inbox, schema, [(1,)])


def test_pickled_values_travel_if_both_ends_allow_it() -> None:
    outbox, inbox = Outbox(Interner(), allow_pickle=True), Inbox(Interner(), allow_pickle=True)
    exchange(outbox, inbox, schema_of(OBJECT), [(range(3),), ((1, range(4)),)])


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=2)), max_size=6))
def test_a_piece_has_only_new_values(pairs: list[tuple[int, str]]) -> None:
    outbox, inbox, schema = Outbox(Interner()), Inbox(Interner()), schema_of(INT, STR)
    for pair in pairs:
        exchange(outbox, inbox, schema, [pair])
    assert len(inbox.interner) == len({text for _, text in pairs})


def test_branches_without_fields_and_shared_parts() -> None:
    tree = as_type("@T = $Leaf{} | $Node{left: @T, right: @T, at: date?}".replace(": date?", ": date"))
    leaf = Branch("Leaf")
    node = Branch("Node", leaf, leaf, dt.date(2020, 1, 1))
    outbox, inbox = Outbox(Interner()), Inbox(Interner())
    exchange(outbox, inbox, schema_of(tree), [(leaf,), (Branch("Node", node, node, dt.date(2020, 1, 2)),)])
    assert len(inbox.interner) == 3
