"""The Arrow types of column types, and decimals in Arrow arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.arrow_buffers import array_of, values_of
from dbsp.data.decimals import LIMIT, too_many_digits
from dbsp.data.schema import Schema
from dbsp.data.timestamps import zone_of
from dbsp.data.types import (
    BOOL,
    BYTES,
    DATE,
    DURATION,
    FLOAT,
    INT,
    MOST_DIGITS,
    OBJECT,
    STR,
    TIME,
    TIMESTAMP,
    Type,
    decimal_type,
    list_type,
    struct_type,
)
from dbsp.errors import SchemaError
from dbsp.kernels.arrays import Codes

ARROW_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "duration": pa.duration("us"),
}


def type_of_arrow(arrow: pa.DataType) -> Type:
    """Return the type of the values of an Arrow type.

    Decimals of more than 18 digits, extension types, and lists and structs of unsupported types are
    objects.
    """
    # A subclass that defines equality may have no hash.
    return OBJECT if isinstance(arrow, pa.BaseExtensionType) else _type_of_arrow(arrow)


@lru_cache(1024)
def _type_of_arrow(arrow: pa.DataType) -> Type:
    if pa.types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type)
    if pa.types.is_decimal(arrow):
        fits = arrow.precision <= MOST_DIGITS and 0 <= arrow.scale <= MOST_DIGITS
        return decimal_type(arrow.scale) if fits else OBJECT
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return Type("timestamptz", zone=_zone_of_arrow(arrow.tz))
    if _is_list(arrow) or pa.types.is_struct(arrow):
        parts = [_typed_field(arrow.field(at)) for at in range(arrow.num_fields)]
        try:
            if _is_list(arrow):
                return list_type(parts[0][1])
            return struct_type(dict(parts)) if len(dict(parts)) == len(parts) else OBJECT
        except SchemaError:  # a part or a name that lists and structs do not support
            return OBJECT
    tests = (
        (pa.types.is_integer, INT),
        (pa.types.is_floating, FLOAT),
        (pa.types.is_boolean, BOOL),
        (pa.types.is_string, STR),
        (pa.types.is_large_string, STR),
        (pa.types.is_string_view, STR),
        (pa.types.is_binary, BYTES),
        (pa.types.is_large_binary, BYTES),
        (pa.types.is_binary_view, BYTES),
        (pa.types.is_fixed_size_binary, BYTES),
        (pa.types.is_date, DATE),
        (pa.types.is_time, TIME),
        (pa.types.is_timestamp, TIMESTAMP),
        (pa.types.is_duration, DURATION),
    )
    return next((type_ for test, type_ in tests if test(arrow)), OBJECT)


def without_zones(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the table with the times of UTC in the columns that hold timestamps without zone.

    For tables of systems in which every timestamp has a zone, such as Spark.
    """
    for name, type_ in zip(schema.names, schema.types, strict=True):
        at = table.schema.get_field_index(name)
        if type_.kind == "timestamp" and at >= 0:
            arrow = table.schema.types[at]
            if pa.types.is_timestamp(arrow) and arrow.tz is not None:
                table = table.set_column(at, name, table.column(at).cast(pa.timestamp(arrow.unit)))
    return table


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose nulls PyArrow counts, and whose lists and structs it can take.

    It does not count a null that is an entry of a dictionary or the value of a run, and it cannot
    take or filter lists and structs of views of texts, as those of Polars are.
    """
    arrow = column.type
    if pa.types.is_run_end_encoded(arrow):
        return pa.chunked_array(map(pc.run_end_decode, column.chunks), arrow.value_type)
    if pa.types.is_dictionary(arrow):
        nested = arrow.value_type.num_fields > 0
        if not nested and not any(chunk.dictionary.null_count for chunk in column.chunks):
            return column
        decoded = [chunk.dictionary_decode() for chunk in column.chunks]
        return plain_column(pa.chunked_array(decoded, arrow.value_type))
    plain = _plain(arrow) if arrow.num_fields else arrow
    return column if plain == arrow else column.cast(plain)


def _plain(arrow: pa.DataType) -> pa.DataType:
    """Return the Arrow type with plain values instead of views and dictionaries, also inside."""
    if pa.types.is_dictionary(arrow):
        return _plain(arrow.value_type)
    if pa.types.is_string_view(arrow):
        return pa.large_string()
    if pa.types.is_binary_view(arrow):
        return pa.large_binary()
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_plain(field.type)) for field in arrow])
    if not _is_list(arrow):
        return arrow
    field = arrow.value_field.with_type(_plain(arrow.value_type))
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(field, arrow.list_size)
    return pa.list_(field) if pa.types.is_list(arrow) else pa.large_list(field)


def _is_list(arrow: pa.DataType) -> bool:
    return any(
        test(arrow) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _typed_field(field: pa.Field) -> tuple[str, Type]:
    type_ = type_of_arrow(field.type)
    return field.name, type_.optional() if field.nullable else type_


def _zone_of_arrow(zone: str) -> str:
    """Return the zone of an Arrow type; "UTC" if Python does not know it, for the same instants."""
    try:
        zone_of(zone)
    except SchemaError:
        return "UTC"
    return zone


def arrow_of_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of the values of a type other than objects and records."""
    if type_.kind == "decimal":
        return pa.decimal128(MOST_DIGITS, type_.scale)
    if type_.kind == "timestamptz":
        return pa.timestamp("us", type_.zone)
    if type_.kind == "list":
        return pa.list_(pa.field("item", arrow_of_type(type_.element), type_.element.nullable))
    if type_.kind == "struct":
        return pa.struct(
            [pa.field(part.name, arrow_of_type(part.type), part.type.nullable) for part in type_.parts]
        )
    return ARROW_TYPES[type_.kind]


def parsed_type(type_: Type) -> pa.DataType | None:
    """Return the Arrow type as which PyArrow parses texts of a type; None if it parses none."""
    if type_.kind == "decimal":
        return arrow_of_type(type_)
    return None if type_.structure is not None or type_.kind == "duration" else ARROW_TYPES.get(type_.kind)


_WORDS = np.dtype([("low", np.int64), ("high", np.int64)])
"""The 128 bits of a decimal."""


def decimal_codes(array: pa.Array) -> Codes:
    """Return the ints of decimals of at most 18 digits: the low words of their 128 bits.

    Raises ValueOutOfRangeError for more digits, which PyArrow's parser of CSV accepts.
    """
    array = array.cast(pa.decimal128(MOST_DIGITS, array.type.scale))
    words = values_of(array, _WORDS)
    codes, high = words["low"].copy(), words["high"]
    wrong = (high != codes >> 63) | (codes <= -LIMIT) | (codes >= LIMIT)
    if array.null_count:  # the words of nulls are arbitrary
        wrong &= array.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        raise too_many_digits(array[int(np.argmax(wrong))].as_py(), array.type.scale)
    return codes


def decimal_array(codes: Codes, null: npt.NDArray[np.bool_] | None, scale: int) -> pa.Array:
    """Return decimals of 18 digits from their ints; `null` marks missing ones."""
    words = np.empty(len(codes), _WORDS)
    words["low"] = codes
    words["high"] = codes >> 63  # the sign fills the high word
    return array_of(words, pa.decimal128(MOST_DIGITS, scale), null)
