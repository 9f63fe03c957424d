"""Memory of its own for a large array, which grows without a copy.

    array in a heap      grows:  new array, copy, free       memory for both, and a gap in the heap
    array in a mapping   grows:  the system moves its pages to a larger range of addresses

The system can do this on Linux (`mremap`). Elsewhere nothing is stored in such memory.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.signedinteger[Any])
Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])

CAN_GROW = sys.platform == "linux"
"""Whether the system moves pages to other addresses."""

OWN = 1 << 24
"""Arrays of at least so many bytes have memory of their own."""

GROWS = 1 << 18
"""So do arrays of so many bytes that grow or wait: in a heap, they would leave gaps."""

POURED = 1 << 18
"""So many numbers of an array are copied before their memory is released."""

_BEFORE = 8
"""Bytes before an array: kernels read the 4 bytes before the first narrow code."""


class GrowingMemory(mmap.mmap):
    """Private memory of this process. Its size cannot change while an array refers to it."""

    __slots__ = ()

    def array(self, dtype: np.dtype[Number], size: int) -> npt.NDArray[Number]:
        """Return the first `size` numbers."""
        return np.frombuffer(self, dtype, size, _BEFORE)


def pays(size: int) -> bool:
    """Return whether an array of so many bytes has memory of its own."""
    return CAN_GROW and size >= OWN


def grows(size: int) -> bool:
    """Return whether an array of so many bytes has memory of its own if it grows or waits."""
    return CAN_GROW and size >= GROWS


def empty_array(dtype: np.dtype[Number], size: int) -> npt.NDArray[Number]:
    """Return a flat array of numbers that are not initialised, which may have memory of its own.

    Raises MemoryError.
    """
    return own_array(dtype, size) if pays(size * dtype.itemsize) else np.empty(size, dtype)


def own_array(dtype: np.dtype[Number], size: int) -> npt.NDArray[Number]:
    """Return a flat array of numbers that are 0, in memory of its own. Raises MemoryError."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        return GrowingMemory(-1, _BEFORE + size * dtype.itemsize, flags=flags).array(dtype, size)
    except OSError as error:
        raise MemoryError(str(error)) from None


def resized(held: list[Numbers], size: int) -> Numbers:
    """Return an array of `size` numbers that starts with those of another one, which is released.

    `held` contains the other array, which is flat, and is emptied. If nobody else refers to the
    memory of that array, the result has the same memory. Else, or if it has no memory of its own,
    it is copied. O(new pages), or O(numbers) for a copy. Raises MemoryError.
    """
    array = held.pop()
    dtype, kept = array.dtype, min(len(array), size)
    memory = memory_of(array)
    if memory is not None:
        del array
        try:
            memory.resize(_BEFORE + size * dtype.itemsize)
        except BufferError:  # somebody else refers to the memory
            array = cast(Numbers, memory.array(dtype, kept))
        except OSError as error:
            raise MemoryError(str(error)) from None
        else:
            return cast(Numbers, memory.array(dtype, size))
    new = own_array(dtype, size)
    new[:kept] = array[:kept]
    return cast(Numbers, new)


def with_room(held: list[Numbers], size: int) -> Numbers:
    """Return an array of at least `size` numbers that starts with those of another one.

    `held` contains the other array, which is flat, and is emptied. An array that is too short is
    replaced by one of twice its length: amortised O(new numbers).
    """
    used = len(held[0])
    if used >= size:
        return held.pop()
    room = max(size, 2 * used)
    if grows(room * held[0].itemsize):
        return resized(held, room)
    larger = np.empty(room, held[0].dtype)
    larger[:used] = held.pop()
    return cast(Numbers, larger)


def pour(held: list[Numbers], target: npt.NDArray[Any]) -> None:
    """Copy an array to another one of its length, and release its memory while it is copied.

    `held` contains the array, which is flat, and is emptied. Nobody else may refer to it.
    """
    array = held.pop()
    end = len(array)
    while end:
        start = max(0, end - POURED) if memory_of(array) is not None else 0
        target[start:end] = array[start:end]
        if start:
            held.append(array)
            del array
            array = resized(held, start)
        end = start


def shortened(held: list[Numbers], size: int) -> Numbers:
    """Return the first `size` numbers of an `empty_array` in its memory; release the other memory.

    `held` contains the array and is emptied. Nobody else may refer to it.
    """
    array = held.pop()
    if memory_of(array) is None:
        array.resize(size, refcheck=False)
        return array
    held.append(array)
    del array
    return resized(held, size)


def memory_of(array: npt.NDArray[Any]) -> GrowingMemory | None:
    """Return the memory that starts with an array; None for other arrays."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if not isinstance(base, GrowingMemory):
        return None
    first = base.array(array.dtype, 0)
    return base if first.ctypes.data == array.ctypes.data else None
