"""The messages between segments: small, each readable by itself, in any order, and repeatedly."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import INT, STR
from dbsp.errors import InvariantError
from dbsp.kernels import consolidate
from dbsp.shards import row_messages
from dbsp.shards.row_messages import MESSAGE_BYTES, read_rows, written_rows

NUMBERS = Schema(("a", "b"), (INT, INT))
TEXTS = Schema(("a", "text"), (INT, STR))


def numbers(count: int) -> Batch:
    rows = np.stack([np.arange(count), np.arange(count) % 7], axis=1)
    return Batch(np.ascontiguousarray(rows), np.arange(count) % 3 + 1)


def texts(values: list[str], interner: Interner) -> Batch:
    codes = [list(range(len(values))), encode_column(STR, values, interner)]
    rows = np.ascontiguousarray(np.array(codes, np.int64).T)
    return Batch(*consolidate(rows, np.ones(len(values), np.int64)))


def test_many_rows_are_cut_into_small_messages() -> None:
    interner = Interner()
    batch = numbers(400_000)
    messages = list(written_rows(batch, NUMBERS, interner))
    assert len(messages) > 3
    assert max(map(len, messages)) <= MESSAGE_BYTES + 1024
    random.Random(1).shuffle(messages)
    found = read_rows(messages, NUMBERS, Interner())
    assert found is not None
    assert np.array_equal(found.rows, batch.rows) and np.array_equal(found.weights, batch.weights)


def test_large_values_are_cut_into_small_messages() -> None:
    """The bytes of strings count, not only those of their numbers."""
    one, other = Interner(), Interner()
    values = [f"{number} " * 30_000 for number in range(100, 200)]
    batch = texts(values, one)
    messages = list(written_rows(batch, TEXTS, one))
    assert len(messages) >= sum(map(len, values)) // MESSAGE_BYTES
    assert max(map(len, messages)) <= MESSAGE_BYTES
    found = read_rows(messages, TEXTS, other)
    assert found is not None
    assert dict(zip(found.rows[:, 0], other.decode_many(found.rows[:, 1]), strict=True)) == dict(
        enumerate(values)
    )


def test_a_row_that_is_larger_than_a_message_travels_alone() -> None:
    interner = Interner()
    values = ["x" * (MESSAGE_BYTES + 1), "y", "z"]
    messages = list(written_rows(texts(values, interner), TEXTS, interner))
    assert sum(len(message) > MESSAGE_BYTES for message in messages) == 1
    assert len(read_rows(messages, TEXTS, Interner()) or ()) == 3


def test_no_rows_are_no_message() -> None:
    assert list(written_rows(Batch.empty(2), NUMBERS, Interner())) == []
    assert read_rows([], NUMBERS, Interner()) is None


def test_the_messages_of_several_shards_add_up() -> None:
    batch = numbers(10)
    messages = [*written_rows(batch, NUMBERS, Interner()), *written_rows(batch, NUMBERS, Interner())]
    expected = merge_sorted([batch] * 2)
    found = read_rows(messages, NUMBERS, Interner())
    assert found is not None and expected is not None
    assert np.array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("damage", [-1, 1])
def test_a_message_of_another_length(damage: int) -> None:
    (message,) = written_rows(numbers(10), NUMBERS, Interner())
    changed = message[:damage] if damage < 0 else message + b"x"
    with pytest.raises(InvariantError, match="expected a message with the length of its packet"):
        read_rows([changed], NUMBERS, Interner())


def test_the_cut_of_messages_does_not_change_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_messages, "MESSAGE_BYTES", 600)
    batch = numbers(1000)
    messages = list(written_rows(batch, NUMBERS, Interner()))
    assert len(messages) > 30 and max(map(len, messages)) <= 600
    found = read_rows(messages, NUMBERS, Interner())
    assert found is not None and np.array_equal(found.rows, batch.rows)
