"""Arrow arrays over the memory of NumPy arrays, and the reverse.

    NumPy array  ->  buffers  ->  Arrow array          no value is converted

PyArrow imports pandas, wherever it is installed, when it first converts values, as in `pa.array`,
`pa.scalar` and `to_numpy`. That takes 0.2 s and 35 MB. Buffers need no conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Mask


def array_of(values: npt.NDArray[Any], arrow: pa.DataType, null: Mask | None = None) -> pa.Array:
    """Return an Arrow array of these numbers or booleans, whose Arrow type has the same width.

    `null` marks missing values. The array shares the memory of contiguous numbers.

        >>> array_of(np.array([1, 2]), pa.int64(), np.array([False, True])).to_pylist()
        [1, None]
    """
    data = _bits(values) if values.dtype == np.bool_ else np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(_bits(~null))
    return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(data)])


def text_array(texts: Sequence[str]) -> pa.Array:
    """Return an Arrow array of texts, as large_string.

    Raises UnicodeEncodeError for the first text that is not valid Unicode.

        >>> text_array(["a", "", "Käse"]).to_pylist()
        ['a', '', 'Käse']
    """
    joined = "".join(texts)
    try:
        data = joined.encode()
    except UnicodeEncodeError:
        for text in texts:
            text.encode()
        raise
    # ASCII has a byte for each character.
    lengths = map(len, texts) if len(data) == len(joined) else (len(text.encode()) for text in texts)
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int64, len(texts) + 1)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def values_of(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the numbers of an Arrow array in its memory, or its booleans; nulls have any value.

    `dtype` is the type of the numbers, of the width that they have in the array.

        >>> values_of(text_array(["ab", "c"]).dictionary_encode().indices, np.int32).tolist()
        [0, 1]
    """
    data, until = array.buffers()[1], array.offset + len(array)
    if not len(array):
        return np.empty(0, dtype)
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=until, bitorder="little")
        return bits[array.offset :].astype(dtype)
    if array.type.bit_width != 8 * np.dtype(dtype).itemsize:
        raise InvariantError(f"expected numbers as wide as {np.dtype(dtype)}, got {array.type}")
    return np.frombuffer(data, dtype, until)[array.offset :]


def _bits(values: Mask) -> npt.NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")
