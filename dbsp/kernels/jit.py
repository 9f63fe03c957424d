"""What a kernel is, and the checked operations that kernels share.

A kernel is a Python function over flat int64 arrays. `dbsp.kernels.tiers` decides whether a call
runs it as it is or compiled; both give the same result. This module imports nothing that is slow to
import: `dbsp.kernels.code_loader` loads machine code, `dbsp.kernels.compiled` has the compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

from dbsp.kernels.arrays import Pointer, RunCodes

F = TypeVar("F", bound=Callable[..., Any])

KERNELS: list[Callable[..., Any]] = []
"""All kernels, each after the kernels that it calls."""

ENTRIES: list[Callable[..., Any]] = []
"""The kernels that callers call (see `dbsp.kernels.tiers`)."""

WANTED: set[str] = set()
"""The names of the kernels that this process has called, or expects to call."""

OPERATIONS: list[Callable[..., Any]] = []
"""The operations that `dbsp.kernels.intrinsics` replaces by instructions in compiled kernels."""


def kernel(function: F) -> F:
    """Register a function as a kernel, and return it unchanged.

    Arguments are flat int64 arrays only: row matrices `int64[n, k]` in C order and vectors, as the
    annotations `Rows` and `Codes` say. All callers use this layout, so each kernel is compiled
    exactly once. Kernels report overflow by an OverflowError whose text starts with 'weight' or
    'value'; the scheduler converts it into a DbspError that names the operator.
    """
    KERNELS.append(function)
    return function


def entries() -> list[Callable[..., Any]]:
    """Return the kernels of this package that callers call."""
    return [kernel for kernel in ENTRIES if kernel.__module__.startswith(f"{__package__}.")]


@cache
def callees(kernel: Callable[..., Any]) -> frozenset[Callable[..., Any]]:
    """Return the kernels that a kernel calls, and those that they call."""
    called = frozenset(called_by(kernel))
    return called.union(*map(callees, called))


def called_by(kernel: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the kernels that a kernel calls itself."""
    return [value for _, value in globals_of(kernel) if isinstance(value, FunctionType) and value in KERNELS]


def globals_of(kernel: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the global names that a kernel uses, with their values."""
    assert isinstance(kernel, FunctionType)
    for name in kernel.__code__.co_names:
        if name in kernel.__globals__:
            yield name, kernel.__globals__[name]


def expect_calls(*kernels: Callable[..., Any]) -> None:
    """Compile these kernels with the first ones that the process needs, instead of at their call.

    A step says which kernels its ticks call sooner or later, beyond those that most runs call. Its
    first call could be in a tick of one row, which would wait for the compiler for seconds.
    """
    WANTED.update(kernel.__name__ for kernel in kernels)


def operation(function: F) -> F:
    """Register a function as an operation of the processor, and return it unchanged."""
    OPERATIONS.append(function)
    return function


def _as_word(number: int) -> int:
    """Return the number modulo 2^64 as a signed word.

    >>> _as_word(2**63) == -(2**63)
    True
    """
    return ((number + 2**63) & (2**64 - 1)) - 2**63


@operation
def add_flagged(a: int, b: int) -> tuple[int, int]:
    """Return a + b modulo 2^64, and whether the sum is outside int64."""
    exact = int(a) + int(b)
    word = _as_word(exact)
    return word, int(word != exact)


@operation
def multiply_flagged(a: int, b: int) -> tuple[int, int]:
    """Return a * b modulo 2^64, and whether the product is outside int64."""
    exact = int(a) * int(b)
    word = _as_word(exact)
    return word, int(word != exact)


@operation
def add_product(high: int, low: int, a: int, b: int) -> tuple[int, int]:
    """Return (high, low) + a * b, for a 128-bit number in two words."""
    total = (int(high) << 64) + (int(low) & (2**64 - 1)) + int(a) * int(b)
    return _as_word(total >> 64), _as_word(total)


@operation
def choose(condition: bool, one: int, other: int) -> int:
    """Return one of two numbers, without a branch: for a condition that nobody can predict."""
    return one if condition else other


@operation
def lowest_bit(word: int) -> int:
    """Return the place of the lowest 1 of a word that is not 0: 0 to 63."""
    return (int(word) & -int(word)).bit_length() - 1


_MEMORY = ctypes.c_int64 * 2**40  # A view knows no bounds: kernels do not check any.


@operation
def at_address(address: int) -> Pointer:
    """Return the int64 numbers at an address, for indexing inside a kernel."""
    return memoryview(_MEMORY.from_address(int(address))).cast("B").cast("q")


@operation
def codes_at(word: int) -> RunCodes:
    """Return the codes of a run, for indexing inside a kernel, by its word in a run table.

    The word is the address of its int64 codes, or one more than the address of its int32 codes.
    """
    if not word & 1:
        return at_address(word)
    return memoryview(_MEMORY.from_address(int(word) - 1)).cast("B").cast("i")


@kernel
def add_weights(a: int, b: int) -> int:
    """Return a + b. Raises OverflowError if the sum is outside int64."""
    total, flag = add_flagged(a, b)
    if flag:
        raise OverflowError("weight: the sum of weights is outside the 64-bit range")
    return total


@kernel
def multiply_weights(a: int, b: int) -> int:
    """Return a * b. Raises OverflowError if the product is outside int64."""
    product, flag = multiply_flagged(a, b)
    if flag:
        raise OverflowError("weight: the product of weights is outside the 64-bit range")
    return product
