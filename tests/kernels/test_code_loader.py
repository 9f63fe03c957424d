"""Machine code from disk in a process: without Numba and beside it, its arguments and errors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.kernel_cache import ready_for_calls
from tests.kernels.compiling_children import output


@pytest.fixture(autouse=True)
def tier() -> None:
    """These tests call machine code only."""


KERNELS = """
from __future__ import annotations
import numpy as np
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import kernel

@kernel
def room(size: int) -> Codes:
    return np.empty(size, np.int64)

@kernel
def refuse(number: int) -> int:
    if number < 0:
        raise OverflowError("value: a number is less than 0")
    return number
"""

LOADED = """
import sys
{first}
from dbsp.kernels.code_loader import load
import some_kernels
if load(some_kernels.room) is None:
    from dbsp.kernels.compiled import compile_kernel
    compile_kernel(some_kernels.room)
    compile_kernel(some_kernels.refuse)
room, refuse = map(load, (some_kernels.room, some_kernels.refuse))

def errors():
    for call, argument in ((refuse, -1), (refuse, []), (room, 1 << 50)):
        try:
            call(argument)
        except (OverflowError, TypeError, MemoryError) as error:
            yield f"{{type(error).__name__}}: {{error}}"

print(len(room(5)), room(5).dtype, type(room(0)).__name__, room(3).flags.owndata, refuse(7))
print(*errors(), sep=chr(10))
print("numba" in sys.modules)
import numba, numpy

@numba.njit
def theirs(numbers):
    if numbers.sum() > 99:
        raise ValueError("too much", 99)
    return numpy.sqrt(numbers * 1.0), numbers[1:]

print(*theirs(room(4) * 0 + 4))
try:
    theirs(numpy.arange(99))
except ValueError as error:
    print(error.args)
assert list(errors()) == list(errors()) and load(some_kernels.refuse)(8) == 8
"""


@pytest.mark.parametrize("first", ["", "import numba", "import numba; numba.njit(lambda: 1)()"])
def test_machine_code_needs_no_numba_and_runs_beside_it(tmp_path: Path, first: str) -> None:
    (tmp_path / "some_kernels.py").write_text(KERNELS)
    expected = [
        "5 int64 ndarray False 7",
        "OverflowError: value: a number is less than 0",
        "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'list'",
        "MemoryError: Allocation failed (probably too large).",
        str(bool(first)),
        "[2. 2. 2. 2.] [4 4 4]",
        "('too much', 99)",
    ]
    output(LOADED.format(first=""), tmp_path)  # compiles both
    found = output(LOADED.format(first=first), tmp_path).splitlines()
    assert found == expected


@kernel
def first_of(rows: Rows, codes: Codes, mask: Mask, number: int, real: float, flag: bool) -> float:
    if mask[0] and flag:
        return rows[0, 0] + codes[0] + number + real
    return 0.0


ROWS, CODES, MASK = np.ones((4, 2), np.int64), np.ones(3, np.int64), np.ones(2, np.bool_)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytearray(1 + array.nbytes), np.uint8)[1:].view(array.dtype)


@pytest.mark.parametrize(
    "place, argument",
    [
        (0, ROWS[:, :1]),
        (0, ROWS[::2]),
        (0, ROWS.T),
        (0, ROWS[0]),
        (0, ROWS.astype(np.uint64)),
        (0, ROWS.astype(np.float64)),
        (0, ROWS.astype(np.int32)),
        (0, ROWS.astype(">i8")),
        (0, read_only(ROWS)),
        (0, ROWS.tolist()),
        (0, None),
        (1, CODES[::2]),
        (1, CODES[::-1]),
        (1, CODES[:, None]),
        (1, np.array(1)),
        (1, unaligned(CODES)),
        (1, CODES.view("M8[s]")),
        (2, MASK.view(np.int8)),
        (2, read_only(MASK)),
        (3, [1]),
        (4, [1]),
    ],
)
def test_an_argument_of_another_type_is_refused(place: int, argument: object) -> None:
    arguments: list[object] = [ROWS, CODES, MASK, 3, 0.5, True]
    call = ready_for_calls(first_of)
    assert call(*arguments) == 5.5
    expected = (
        "expected an array of int64 with 2 dimensions, in C order and writable",
        "expected an array of int64 with 1 dim",
        "expected an array of bool",
        "argument",
        "argument|must be real",
    )[place]
    before = sys.getrefcount(argument)
    arguments[place] = argument
    with pytest.raises(TypeError, match=expected):
        call(*arguments)
    with pytest.raises(TypeError):
        call(*arguments[1:])
    arguments.clear()
    assert sys.getrefcount(argument) == before
