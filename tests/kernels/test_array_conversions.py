"""Arrays as arguments and results of compiled kernels; `test_code_loader` has the refused ones."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import boxing
from numba.core.pythonapi import _boxers, _unboxers

from dbsp.kernels.array_conversions import own_conversions
from dbsp.kernels.arrays import Codes, Rows


def _halves(codes: Codes) -> tuple[Rows, Codes]:
    both = np.empty((2, codes.shape[0]), np.int64)
    for i in range(codes.shape[0]):
        both[0, i] = both[1, i] = codes[i]
    return both, codes


@pytest.fixture(scope="module")
def halves() -> Any:
    function: Any = numba.njit(_halves)
    with own_conversions():
        function(np.arange(2))
    return function


def test_results_are_arrays_that_keep_their_memory(halves: Any) -> None:
    results = [halves(np.arange(n))[0] for n in range(100)]
    for n, rows in enumerate(results):
        assert type(rows) is np.ndarray and rows.dtype == np.int64 and rows.flags.writeable
        assert rows.tolist() == [list(range(n))] * 2


def test_an_argument_is_returned_as_itself(halves: Any) -> None:
    codes = np.arange(3)
    assert halves(codes)[1] is codes


def test_a_result_takes_no_call_of_python(halves: Any) -> None:
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        halves(np.arange(3))
    finally:
        sys.setprofile(None)
    assert set(called) <= {"_halves"}


def test_results_are_released(halves: Any) -> None:
    codes = np.arange(3)
    counted = np.ndarray, codes.dtype, codes
    before = [sys.getrefcount(one) for one in counted]
    for _ in range(1000):
        halves(codes)
    after = [sys.getrefcount(one) for one in counted]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 100


def test_functions_of_others_keep_the_conversion_of_numba() -> None:
    with pytest.raises(ValueError, match="interrupted"), own_conversions():
        raise ValueError("interrupted")
    assert _boxers.functions[numba.types.Array] is boxing.box_array
    assert _unboxers.functions[numba.types.Array] is boxing.unbox_array
