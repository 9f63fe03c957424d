"""Arrays in memory of their own: their size changes in place, or they are copied."""

from __future__ import annotations

import numpy as np
import pytest

from dbsp.kernels import growing_memory
from dbsp.kernels.growing_memory import (
    empty_array,
    memory_of,
    own_array,
    pour,
    resized,
    shortened,
    with_room,
)

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)

pytestmark = pytest.mark.skipif(not growing_memory.CAN_GROW, reason="the system cannot move pages")


@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_an_array_grows_and_shrinks_in_its_memory(dtype: np.dtype[np.int64]) -> None:
    array = own_array(dtype, 1000)
    memory = memory_of(array)
    assert memory is not None and array.tolist() == [0] * 1000
    array[:] = np.arange(1000)
    for size in (1_000_000, 10, 100_000, 0):
        held = [array]
        del array
        array = resized(held, size)
        assert not held and len(array) == size and array.dtype == dtype
        assert array[:10].tolist() == list(range(min(10, size)))
        assert memory_of(array) is memory and len(memory) == 8 + size * dtype.itemsize


def test_a_reader_of_the_array_sees_no_change() -> None:
    array = own_array(INT64, 100)
    array[:] = 7
    reader = array[50:]
    held = [array]
    del array
    larger = resized(held, 200)
    larger[:] = 1
    assert reader.tolist() == [7] * 50 and memory_of(larger) is not None


def test_another_array_is_copied() -> None:
    array = np.arange(5)
    larger = resized([array], 6)
    larger[0] = 9
    assert larger.tolist() == [9, 1, 2, 3, 4, 0] and array.tolist() == [0, 1, 2, 3, 4]
    assert resized([array], 2).tolist() == [0, 1]


def test_a_part_of_an_array_is_not_its_memory() -> None:
    array = own_array(INT64, 100)
    assert memory_of(array[1:]) is None and memory_of(array.reshape(-1, 2)[:3]) is not None
    array[:] = np.arange(100)
    held = [array[1:]]
    del array
    assert resized(held, 3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("size", [10, 1 << 22])
def test_a_shortened_array_keeps_its_first_numbers(size: int) -> None:
    array = empty_array(INT64, size)
    own = memory_of(array)
    assert (own is not None) == (size == 1 << 22)
    array[:] = np.arange(size)
    held = [array]
    del array
    array = shortened(held, 3)
    assert array.tolist() == [0, 1, 2] and memory_of(array) is own
    assert array.nbytes == 24 and (own is None or len(own) == 32)


def test_the_bytes_before_an_array_can_be_read() -> None:
    """A kernel loads the 8 bytes that end with a narrow code."""
    array = own_array(INT32, 3)
    memory = memory_of(array)
    assert array.ctypes.data - np.frombuffer(memory, np.int8).ctypes.data == 8


def test_no_memory_is_left() -> None:
    with pytest.raises(MemoryError):
        own_array(INT64, 1 << 55)
    array = own_array(INT64, 3)
    held = [array]
    del array
    with pytest.raises(MemoryError):
        resized(held, 1 << 55)


@pytest.mark.parametrize("grows", [8, 1 << 30])
def test_an_array_with_room(grows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has at least twice the length after each growth, in its memory if that may grow."""
    monkeypatch.setattr(growing_memory, "GROWS", grows)
    held = [np.arange(3)]
    lengths = []
    for size in (1, 4, 5, 13, 14):
        held.append(with_room(held, size))
        assert len(held) == 1 and held[0][:3].tolist() == [0, 1, 2] and held[0].dtype == INT64
        lengths.append(len(held[0]))
    assert lengths == [3, 6, 6, 13, 26]
    assert (memory_of(held[0]) is not None) == (grows == 8)


@pytest.mark.parametrize("poured", [1, 3, 1000])
@pytest.mark.parametrize("own", [True, False])
def test_a_poured_array_is_released(own: bool, poured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_memory, "POURED", poured)
    array = own_array(INT32, 100) if own else np.empty(100, np.int32)
    array[:] = np.arange(100)
    memory = memory_of(array)
    held = [array]
    del array
    target = np.zeros(102, np.int64)
    pour(held, target[1:-1])
    assert target.tolist() == [0, *range(100), 0] and not held
    assert memory is None or len(memory) <= 8 + 4 * min(poured, 100)
