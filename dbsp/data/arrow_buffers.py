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


def nested_array(
    arrow: pa.DataType,
    length: int,
    parts: Sequence[pa.Array],
    null: Mask | None = None,
    offsets: pa.Buffer | None = None,
) -> pa.Array:
    """Return an Arrow array of structs from their fields, or of lists from all their elements.

    `null` marks missing values. `offsets` has the int32 at which each list begins, and the end.

        >>> fields = [array_of(np.array([1, 2]), pa.int64())]
        >>> nested_array(pa.struct({"x": pa.int64()}), 2, fields, np.array([False, True])).to_pylist()
        [{'x': 1}, None]
    """
    valid = None if null is None else pa.py_buffer(_bits(~null))
    buffers = [valid] if offsets is None else [valid, offsets]
    return pa.Array.from_buffers(arrow, length, buffers, children=list(parts))


def default_value(arrow: pa.DataType) -> pa.Array:
    """Return an Arrow array of one value without nulls: zero, or an empty text or list.

    The fields of a struct have such values.

        >>> default_value(pa.struct({"x": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int8())}))[0].as_py()
        {'x': 0, 's': '', 'l': []}
    """
    if pa.types.is_struct(arrow):
        return nested_array(arrow, 1, [default_value(field.type) for field in arrow])
    zeros = pa.py_buffer(bytes(16))  # as wide as a decimal
    if pa.types.is_list(arrow):
        return nested_array(arrow, 1, [default_value(arrow.value_type)[:0]], None, zeros)
    has_text = pa.types.is_string(arrow) or pa.types.is_binary(arrow)
    return pa.Array.from_buffers(arrow, 1, [None, zeros, zeros] if has_text else [None, zeros])


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
