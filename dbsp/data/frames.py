"""Conversions between batches and Arrow tables, and through Arrow to pandas and Polars frames.

Whole columns are converted together: numbers without a Python object per value, strings through the
dictionary encoding of Arrow, with one look-up in the interner per distinct string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbsp.data.arrow_buffers import array_of, default_value, nested_array, text_array, values_of
from dbsp.data.arrow_types import (
    ARROW_TYPES,
    arrow_of_type,
    decimal_array,
    decimal_codes,
    plain_column,
    type_of_arrow,
)
from dbsp.data.batch import Batch
from dbsp.data.columns import code_floats, decode_column, encode_column, float_codes
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, lists_of, struct_columns, struct_layout
from dbsp.data.plain_codes import NULL_AS_INT, out_of_int_range
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema, as_schema, named_twice, suggestion
from dbsp.data.timestamps import MAX_DAY, MIN_DAY, TIME_RANGES, nanoseconds_refused
from dbsp.data.types import FLOAT, INT, OBJECT, Type
from dbsp.data.weights import consolidated
from dbsp.errors import (
    DbspError,
    InputError,
    SchemaError,
    ValueOutOfRangeError,
    at_place,
    counted,
    shorten,
    wrong_argument,
)
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, NULL

MOST_ROWS = 1 << 32
"""A table that repeats rows by their weights has at most so many."""

_CAPACITY = 2**31 - 1
"""The most bytes of texts, and the most elements of lists, of one Arrow array."""

_INT32, _INT64, _FLOAT64 = pa.int32(), pa.int64(), pa.float64()


def _plain_table(table: pa.Table) -> pa.Table:
    """Return the table with the columns of `plain_column`."""
    for at, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        plain = plain_column(column)
        if plain is not column:
            table = table.set_column(at, name, plain)
    return table


def schema_of_arrow(table: pa.Table) -> Schema:
    """Return the schema of an Arrow table; a column with nulls is optional."""
    table = _plain_table(table)
    return Schema(tuple(table.column_names), tuple(map(_found_type, table.columns)))


def _found_type(column: pa.ChunkedArray) -> Type:
    found = type_of_arrow(column.type)
    if found.kind in ("list", "struct"):
        found = _without_nulls(found, column.chunks)
    return found.optional() if column.null_count else found


def _without_nulls(type_: Type, arrays: list[pa.Array]) -> Type:
    """Return the type of a list or struct with optional parts only where there are nulls."""
    if type_.kind not in ("list", "struct"):
        return type_
    parts = []
    for at, part in enumerate(type_.parts):
        # A struct has one flattened array for each field, a list one of all elements.
        inner = [array.flatten() for array in (each.drop_null() for each in arrays)]
        found = inner if type_.kind == "list" else [fields[at] for fields in inner]
        exact = _without_nulls(part.type, found)
        nulls = any(array.null_count for array in found)
        parts.append(replace(part, type=exact.optional() if nulls else exact.required()))
    return replace(type_, parts=tuple(parts))


# --- Arrow to codes -------------------------------------------------------------------------------


def encode_table(table: pa.Table, schema: Schema, interner: Interner) -> Codes:
    """Return the code rows of an Arrow table, int64[n, k], under `schema`.

    Columns match by name (see `Schema.match`). Raises SchemaError for another number of columns,
    and InputError or ValueOutOfRangeError, with the column, for values that do not fit.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if table.num_columns != schema.arity:
        names = ", ".join(table.column_names)
        raise SchemaError(
            f"expected {counted(schema.arity, 'column')} ({schema.describe()}), "
            f"got {table.num_columns} ({names})",
            code="schema-mismatch",
        )
    if (order := schema.match(table.column_names)) is not None:
        table = table.select(order)
    types: list[Type] = []
    codes = np.empty((table.num_rows, schema.arity), np.int64)
    for j, (name, wanted) in enumerate(zip(schema.names, schema.types, strict=True)):
        try:
            codes[:, j], source = encode_arrow(table.column(j), wanted, interner)
        except DbspError as error:
            raise at_place(error, f"column {name!r}") from None
        types.append(source)
    return recode_rows(codes, Schema(schema.names, tuple(types)), interner, schema, interner)


def _source_type(column: pa.ChunkedArray, wanted: Type) -> Type:
    """Return the type to encode a column with, before it is converted to the wanted type.

    Decimals without digits after the point are ints in a column of ints, such as the sums of ints
    of DuckDB. Ints of uint64 are floats in a column of floats, where those beyond 2**63 fit. Lists
    and structs are tuples among objects. Those of an Arrow type without a type here, such as a
    struct with a field of nulls only, are encoded value by value.
    """
    if wanted.kind == "int" and pa.types.is_decimal(column.type) and column.type.scale == 0:
        return INT.optional() if column.null_count else INT
    if wanted.kind == "float" and pa.types.is_uint64(column.type):
        return FLOAT.optional() if column.null_count else FLOAT
    found = _found_type(column)
    if wanted.kind == "object" and found.kind in ("list", "struct"):
        return OBJECT.optional() if found.nullable else OBJECT
    return wanted if wanted.kind in ("list", "struct") and found.kind == "object" else found


def encode_arrow(column: pa.Array | pa.ChunkedArray, wanted: Type, interner: Interner) -> tuple[Codes, Type]:
    """Return the codes of a column, int64[n], and their type: see `_source_type`."""
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    column = plain_column(column)
    source = _source_type(column, wanted)
    try:
        if source.kind in ("list", "struct") and type_of_arrow(column.type).kind != source.kind:
            return encode_column(source, column.to_pylist(), interner), source
        return encode_arrow_column(column, source, interner), source
    except pa.ArrowInvalid as error:
        raise ValueOutOfRangeError(str(error)) from None
    except UnicodeDecodeError:
        raise InputError("expected UTF-8 text", code="invalid-encoding") from None


def encode_arrow_column(column: pa.ChunkedArray, type_: Type, interner: Interner) -> Codes:
    """Return the codes of one Arrow column, int64[n].

    One chunk of int64 without nulls is not copied.
    """
    if column.num_chunks == 1:
        array = column.chunk(0)  # `combine_chunks` would copy even one
    elif column.num_chunks == 0:
        array = pa.array([], column.type)
    else:
        if pa.types.is_string(column.type) and column.nbytes > _CAPACITY:
            column = column.cast(pa.large_string())
        elif pa.types.is_binary(column.type) and column.nbytes > _CAPACITY:
            column = column.cast(pa.large_binary())
        array = pa.concat_arrays(column.unify_dictionaries().chunks)
    return encode_arrow_array(array, type_, interner)


def encode_arrow_array(array: pa.Array, type_: Type, interner: Interner) -> Codes:
    """Return the codes of one Arrow array, int64[n]."""
    if type_.kind in ("list", "struct"):
        return _encode_nested(array, type_, interner)
    if type_.interned:
        return _encode_interned(array, type_, interner)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    codes = _encode_numbers(array.fill_null(_filler(array.type)) if null is not None else array, type_)
    if null is None:
        return codes
    if type_.kind == "int" and (codes == NULL).any():
        raise ValueOutOfRangeError(NULL_AS_INT)
    codes = codes.copy()
    codes[null] = NULL
    return codes


def _filler(arrow: pa.DataType) -> pa.Scalar:
    """Return some value of a type, to replace nulls."""
    if pa.types.is_boolean(arrow):
        return pa.scalar(False)
    return pa.scalar(0, _plain_int(arrow)).cast(arrow)


def _plain_int(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(arrow) or pa.types.is_time32(arrow):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(arrow) else arrow


def place_of_nanoseconds(array: pa.Array | pa.ChunkedArray) -> int:
    """Return the index of the first timestamp that is not in whole microseconds, or -1."""
    found: int = pc.index(pc.not_equal(pc.nanosecond(array), 0), True).as_py()
    return found


def _encode_numbers(array: pa.Array, type_: Type) -> Codes:
    kind = type_.kind
    if kind == "int":
        try:
            if pa.types.is_decimal(array.type):
                array = array.cast(pa.decimal128(38, 0))  # PyArrow casts only these to ints correctly
            return _ints(_converted(array, _INT64))
        except pa.ArrowInvalid:
            raise out_of_int_range(_beyond(array)) from None
    if kind == "float":
        if pa.types.is_integer(array.type):
            array = array.cast(_FLOAT64, safe=False)  # rounds as Python does
        return float_codes(values_of(_converted(array, _FLOAT64), np.float64))
    if kind == "bool":
        return values_of(array, np.int64)
    if kind == "date":
        return _checked(_ints(array.cast(pa.date32()).cast(pa.int32())), MIN_DAY, MAX_DAY)
    if kind == "decimal":
        return decimal_codes(array)
    # An aware timestamp is UTC inside Arrow already; `cast` refuses to drop nanoseconds.
    try:
        utc = array.cast(arrow_of_type(type_)).cast(pa.int64())
    except pa.ArrowInvalid:
        if array.type.unit != "ns":
            raise
        if kind in ("timestamp", "timestamptz"):
            at = place_of_nanoseconds(array)
            raise nanoseconds_refused(array[at].cast(pa.string())) from None
        ns = array.cast(pa.int64()).to_numpy()
        raise nanoseconds_refused(f"{ns[np.argmax(ns % 1000 != 0)]} ns", kind) from None
    return _checked(_ints(utc), *TIME_RANGES[kind])


def _beyond(array: pa.Array) -> int:
    """Return a value of an array of ints that is outside the 64-bit range."""
    bounds = pc.min_max(array)
    low, high = int(bounds["min"].as_py()), int(bounds["max"].as_py())
    return high if high > INT64_MAX else low


def _encode_nested(array: pa.Array, type_: Type, interner: Interner) -> Codes:
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    present = array if null is None else array.drop_null()
    if type_.kind == "list":
        elements = encode_arrow_array(present.flatten(), type_.element, interner)
        lengths = values_of(pc.list_value_length(present).cast(_INT64), np.int64)
        codes = lists_of(elements, lengths, interner)
    else:
        fields = np.empty((len(present), len(type_.parts)), np.int64)
        for at, (part, field) in enumerate(zip(type_.parts, present.flatten(), strict=True)):
            fields[:, at] = encode_arrow_array(field, part.type, interner)
        codes = interner.construct(struct_layout(type_), fields)
    if null is None:
        return codes
    result = np.full(len(array), NULL, np.int64)
    result[~null] = codes
    return result


def _converted(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return the array with another type. A cast to its own type takes as long as all the rest."""
    return array if array.type == arrow else array.cast(arrow)


def _ints(array: pa.Array) -> Codes:
    """Return the numbers of an array of int32 or int64 without nulls."""
    return values_of(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64, copy=False)


def _checked(codes: Codes, low: int, high: int) -> Codes:
    if len(codes) and (codes.min() < low or codes.max() > high):
        raise ValueOutOfRangeError("expected dates in the years 1 to 9999, got a date outside this range")
    return codes


def _encode_interned(array: pa.Array, type_: Type, interner: Interner) -> Codes:
    if type_.kind == "object" and not pa.types.is_decimal(array.type):
        return encode_column(type_.optional(), [frozen(value) for value in array.to_pylist()], interner)
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        elif pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.large_binary())
        array = pc.dictionary_encode(array)
    values = array.dictionary.to_pylist()
    # A null may be an entry of the dictionary as well as a missing index.
    ids = encode_column(type_.optional(), values, interner)
    indices = array.indices
    if indices.type != _INT32:
        indices = _converted(indices, _INT64)
    if indices.null_count:
        ids = np.append(ids, NULL)
        indices = indices.fill_null(len(values))
    if not len(ids):
        return np.empty(0, np.int64)
    return ids[_ints(indices)]


def frozen(value: Any) -> Any:
    """Return a hashable value: a tuple for a list, the tuple of the fields for a struct."""
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple(map(frozen, value.values()))
    return value


# --- codes to Arrow -------------------------------------------------------------------------------


def decode_arrow_column(
    codes: Codes, type_: Type, interner: Interner, name: str = "", arrow: pa.DataType | None = None
) -> pa.Array:
    """Return a column of codes as an Arrow array.

    `arrow` is the Arrow type for objects; if None, a type that fits all of them. Raises SchemaError
    if the objects do not fit one Arrow type, ArrowCapacityError if the texts or elements do not fit
    one array: see `in_chunks`.
    """
    null: npt.NDArray[np.bool_] | None = codes == NULL if type_.nullable else None
    if null is not None and not null.any():
        null = None
    kind = type_.kind
    if type_.structure is not None:
        raise SchemaError(
            f"column {name!r} of type {type_.structure.name} cannot be converted to Arrow, which has no type "
            "for records and branches; unpack the fields into columns by a rule",
            code="unsupported-value",
        )
    if kind == "object":
        try:
            return pa.array(decode_column(type_, codes, interner), arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            wanted = "one Arrow type" if arrow is None else f"the Arrow type {arrow}"
            raise SchemaError(
                f"column {name!r}: the objects cannot be converted to {wanted}: {error}",
                code="unsupported-value",
            ) from None
        except UnicodeEncodeError as error:
            raise _invalid_text(error.object, name) from None
    if kind in ("str", "bytes"):
        distinct, inverse = distinct_codes(codes)
        values = decode_column(type_, distinct, interner)
        if kind == "bytes":
            _expect_capacity([len(value or b"") for value in values], inverse, name)
            return pa.array(values, ARROW_TYPES[kind]).take(array_of(inverse, pa.int64()))
        try:
            texts = text_array([value or "" for value in values])
        except UnicodeEncodeError as error:
            raise _invalid_text(error.object, name) from None
        _expect_capacity(values_of(pc.binary_length(texts), np.int64), inverse, name)
        return texts.cast(pa.string()).take(array_of(inverse, pa.int64(), null))
    if kind == "float":
        return array_of(code_floats(codes), pa.float64(), null)
    if kind == "bool":
        return array_of(codes != 0, pa.bool_(), null)
    if kind == "int":
        return array_of(codes, pa.int64(), null)
    safe = codes if null is None else np.where(null, 0, codes)
    if kind in ("list", "struct"):
        return _decode_nested(codes, null, type_, interner, name)
    if kind == "decimal":
        return decimal_array(safe, null, type_.scale)
    if kind in ("time", "timestamptz", "duration"):
        return array_of(safe, pa.int64(), null).cast(arrow_of_type(type_))
    return pa.array(
        safe.astype("datetime64[D]" if kind == "date" else "datetime64[us]"), ARROW_TYPES[kind], mask=null
    )


def _expect_capacity(sizes: Sequence[int] | Codes, places: Codes, name: str) -> None:
    """Raise ArrowCapacityError unless one Arrow array can have the values at these places."""
    lengths = np.asarray(sizes, np.int64)
    most = int(lengths.max(initial=0))
    if most * len(places) > _CAPACITY and int(lengths[places].sum()) > _CAPACITY:
        raise _beyond_capacity(name, "bytes")


def _beyond_capacity(name: str, unit: str) -> pa.ArrowCapacityError:
    return pa.ArrowCapacityError(f"column {name!r}: an Arrow array has at most {_CAPACITY:,} {unit}")


def _invalid_text(text: str, name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r}: the text {shorten(text)} has surrogates, and Arrow needs valid Unicode; "
        'replace them first, for example with text.encode(errors="replace").decode()',
        code="unsupported-value",
    )


def _decode_nested(
    codes: Codes, null: npt.NDArray[np.bool_] | None, type_: Type, interner: Interner, name: str
) -> pa.Array:
    arrow = arrow_of_type(type_)
    present = codes if null is None else codes[~null]
    if type_.kind == "list":
        elements, counts = list_elements(present, interner)
        lengths = np.zeros(len(codes), np.int64)  # a missing list has no elements
        lengths[slice(None) if null is None else ~null] = counts
        ends = np.cumsum(lengths)
        if len(ends) and ends[-1] > _CAPACITY:
            raise _beyond_capacity(name, "elements")
        offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
        values = decode_arrow_column(elements, type_.element, interner, name)
        return nested_array(arrow, len(codes), [values], null, offsets.buffers()[1])
    columns = struct_columns(type_, present, interner)
    fields = [
        decode_arrow_column(column, part.type, interner, name)
        for part, column in zip(type_.parts, columns, strict=True)
    ]
    if null is not None:
        # Other libraries refuse nulls in a required field, even where the struct itself is null.
        places = array_of(np.where(null, len(present), np.cumsum(~null) - 1), pa.int64())
        fields = [pa.concat_arrays([field, default_value(field.type)]).take(places) for field in fields]
    return nested_array(arrow, len(codes), fields, null)


def _cast(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"column {name!r}: the values cannot be converted to the Arrow type {wanted}: {error}",
            code="unsupported-value",
        ) from None


def decode_table(
    codes: Codes, schema: Schema, interner: Interner, objects: Mapping[str, pa.DataType] | None = None
) -> pa.Table:
    """Return an Arrow table of code rows, in several chunks if one cannot have all texts.

    `objects` has the Arrow types of columns of objects, decimals, lists and structs, by name.
    """
    return in_chunks(len(codes), lambda part: _decode_table(codes[part], schema, interner, objects or {}))


def in_chunks(rows: int, function: Callable[[slice], pa.Table]) -> pa.Table:
    """Return the table that a function makes of some rows, in parts if ArrowCapacityError says so.

    An Arrow array of texts has at most 2 GiB of them. Raises SchemaError if one row has more.
    """
    return _in_chunks(0, rows, function)


def _in_chunks(start: int, end: int, function: Callable[[slice], pa.Table]) -> pa.Table:
    try:
        return function(slice(start, end))
    except pa.ArrowCapacityError as error:
        if end - start < 2:
            raise SchemaError(str(error), code="unsupported-value") from None
    middle = (start + end) // 2
    return pa.concat_tables([_in_chunks(start, middle, function), _in_chunks(middle, end, function)])


def _decode_table(
    codes: Codes, schema: Schema, interner: Interner, objects: Mapping[str, pa.DataType]
) -> pa.Table:
    columns = []
    for j, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True)):
        wanted = objects.get(name)
        column = decode_arrow_column(codes[:, j], type_, interner, name, wanted)
        if wanted is not None and type_.kind in ("decimal", "list", "struct"):
            column = _cast(column, wanted, name)
        columns.append(column)
    if not columns:
        return pa.table({"rows": pa.nulls(len(codes))}).select([])  # keeps the number of rows
    try:
        return pa.table(dict(zip(schema.names, columns, strict=True)))
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"column {error.object!r}: Arrow needs a name of valid Unicode text", code="invalid-encoding"
        ) from None


# --- batches --------------------------------------------------------------------------------------


def encode_batch(
    table: pa.Table, weight_column: str | None, schema: Any = None, interner: Interner | None = None
) -> tuple[Schema, Interner, Batch]:
    """Return the consolidated rows of an Arrow table under `schema`; see `ZSet.from_arrow`."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise InputError(
            f"expected an Arrow table or record batch, got {shorten(table)} of type {type(table).__name__}",
            code="wrong-type",
        )
    weights = None
    if weight_column is not None:
        if not isinstance(weight_column, str):
            raise wrong_argument("weight_column", "the name of a column", weight_column)
        if weight_column not in table.column_names:
            names = table.column_names
            hint = suggestion(weight_column, names)
            raise SchemaError(
                f"unknown weight column {weight_column!r}{f'{hint} The' if hint else '; the'} columns are "
                f"({', '.join(names)})",
                code="unknown-column",
            )
        weights = integer_weights(table, weight_column)
        table = table.drop_columns([weight_column])
    for field in table.schema:
        if schema is None and type_of_arrow(field.type) == OBJECT and _has_struct(field.type):
            raise InputError(
                f"column {field.name!r}: the Arrow type {field.type} has fields that structs do not support; "
                "unpack them with table.flatten(), or pass a schema with the type object for tuples",
                code="unsupported-value",
            )
    schema = schema_of_arrow(table) if schema is None else as_schema(schema)
    interner = Interner() if interner is None else interner
    return schema, interner, consolidated(encode_table(table, schema, interner), weights)


def _has_struct(arrow: pa.DataType) -> bool:
    """Return whether values of the type contain structs, whose field names would be lost."""
    if pa.types.is_struct(arrow):
        return True
    if pa.types.is_dictionary(arrow):
        return _has_struct(arrow.value_type)
    return any(_has_struct(arrow.field(at).type) for at in range(arrow.num_fields)) and not pa.types.is_map(
        arrow
    )


def decode_batch(batch: Batch, schema: Schema, interner: Interner, weight_column: str | None) -> pa.Table:
    """Return the Arrow table of a batch with a column of weights; see `ZSet.to_arrow`."""
    rows, weights = batch.rows, batch.weights
    if weight_column is None:
        if len(weights) and weights.min() < 0:
            raise InputError(
                f"the Z-set has a row of weight {int(weights.min())}, which a table shows only in a weight "
                "column; convert it by to_arrow, to_polars or to_pandas with weight_column='weight'",
                code="invalid-weight",
            )
        rows = repeated(rows, weights)
    elif not isinstance(weight_column, str):
        raise wrong_argument("weight_column", "the name of a column or None", weight_column)
    elif weight_column in schema.names:
        raise SchemaError(
            f"the Z-set already has a column {weight_column!r}; pass another name as weight_column",
            code="duplicate-column",
        )
    table = decode_table(rows, schema, interner)
    if weight_column is None:
        return table
    return table.append_column(weight_column, array_of(weights, pa.int64()))


def repeated(rows: Codes, weights: Codes) -> Codes:
    """Return each of the rows as often as its weight says, whatever the sign.

    Raises InputError for more than MOST_ROWS rows in all.
    """
    total = np.abs(weights.astype(np.float64)).sum()  # as ints, it could overflow
    if total > MOST_ROWS:
        raise InputError(
            f"the weights of the rows add up to {total:.3g}, more rows than a table can have; show the "
            "weights in a column instead",
            code="invalid-weight",
        )
    return np.repeat(rows, np.abs(weights), axis=0)


def pandas_table(frame: Any, schema: Any = None) -> pa.Table:
    """Return the Arrow table of a pandas frame without its index; see `ZSet.from_pandas`."""
    if not hasattr(frame, "iloc"):
        raise InputError(
            f"expected a pandas DataFrame, got {shorten(frame)} of type {type(frame).__name__}",
            code="wrong-type",
        )
    names = list(frame.columns)
    if len(set(names)) != len(names):
        raise named_twice(names)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        reason = "; ".join(map(str, error.args))
        raise InputError(
            f"the frame cannot be converted to an Arrow table: {reason}", code="unsupported-value"
        ) from None
    if schema is not None:
        # pandas does not distinguish a missing value from NaN; a column declared as `float` has
        # NaN.
        for name, type_ in zip(as_schema(schema).names, as_schema(schema).types, strict=True):
            at = table.schema.get_field_index(name)
            if type_ == FLOAT and at >= 0 and pa.types.is_floating(table.column(at).type):
                table = table.set_column(at, name, pc.fill_null(table.column(at), float("nan")))
    return table


def integer_weights(table: pa.Table, column: str) -> Codes:
    """Return the weights in a column of an Arrow table.

    Raises InputError unless all are integers.
    """
    given = table.column(column)
    if not pa.types.is_integer(given.type) or given.null_count:
        nulls = f" with {counted(given.null_count, 'null')}" if given.null_count else ""
        raise InputError(
            f"expected integers without nulls in the weight column {column!r}, got {given.type}{nulls}",
            code="invalid-weight",
        )
    return np.array(encode_arrow_column(given, INT, Interner()))
