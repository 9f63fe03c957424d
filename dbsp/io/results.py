"""Write results: relations as sorted lines, and deltas as change scripts."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dbsp.data.columns import code_floats, decode_column
from dbsp.data.interner import Interner
from dbsp.data.terms import Branch, Record, term_text
from dbsp.data.timestamps import duration_text
from dbsp.data.types import Type
from dbsp.data.value_order import value_order
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.term_text import read_cell
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


def replace_file(path: Path, data: bytes) -> None:
    """Write these bytes to a file; a reader sees the old content or the new, never a part.

    A temporary file in the same folder is renamed to `path`. Raises InputError if that fails.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise InputError(message, where=str(path), code="unwritable-file") from error


_SMALL = 2_000
"""Up to so many rows, plain Python takes less time than loading Arrow."""

_DOUBTFUL = re.compile(r'[,\[\]()]|^["\s]|\s$')
"""Symbols that may be read back differently when they are written in a record without quotes."""


def format_rows(zset: ZSet, *, delimiter: str = "\t", quoted: bool = False) -> tuple[bytes, int]:
    """Return the rows of `zset` as lines, sorted by value (None first, text by code points).

    Each row is written once, whatever its weight. A row without columns is written `()`. With
    `quoted`, texts are in quotation marks, as in RFC 4180. Without, a text that contains the
    delimiter or a line break cannot be read back, nor some symbols in records; the second result is
    the number of distinct values of this kind. Cost: O(n log n) for n rows, in bulk.
    """
    if not len(zset):
        return b"", 0
    if not zset.arity:
        return b"()\n", 0
    rows = zset.stored.rows
    order = value_order(zset.schema, rows, zset.interner)
    if order is not None:
        rows = rows[order]
    if len(rows) <= _SMALL and all(type_.kind != "float" for type_ in zset.schema.types):
        return _format_few(zset, rows, delimiter, quoted)
    import pyarrow.compute as pc

    from dbsp.data.arrow_buffers import text_array

    columns, ambiguous = [], 0
    for position, type_ in enumerate(zset.schema.types):
        column, unclear = _texts(type_, rows[:, position], zset.interner, delimiter, quoted)
        columns.append(column)
        ambiguous += unclear
    between, nothing, end = text_array([delimiter, "", "\n"])
    lines = pc.binary_join_element_wise(*columns, between)
    ended = pc.binary_join_element_wise(lines, nothing, end)
    # The texts of an Arrow array are adjacent in one buffer, which is the content of the file.
    offsets = np.frombuffer(ended.buffers()[1], np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return ended.buffers()[2][int(offsets[0]) : int(offsets[-1])].to_pybytes(), ambiguous


def _format_few(zset: ZSet, rows: Codes, delimiter: str, quoted: bool) -> tuple[bytes, int]:
    """Do as `format_rows` for sorted rows without floats, without loading Arrow."""
    columns, ambiguous = [], 0
    for position, type_ in enumerate(zset.schema.types):
        codes = rows[:, position]
        if type_.kind == "int":
            column = [b"%d" % code for code in codes.tolist()]
        else:
            present = codes != NULL if type_.nullable else np.ones(len(codes), np.bool_)
            required = type_.required() if type_.nullable else type_
            texts, inverse, unclear = _distinct_texts(
                required, codes[present], zset.interner, delimiter, quoted
            )
            encoded = _encoded(texts)
            column = [b""] * len(codes)
            for at, place in zip(np.flatnonzero(present).tolist(), inverse.tolist(), strict=True):
                column[at] = encoded[place]
            ambiguous += unclear
        if type_.kind == "int" and type_.nullable:
            column = [b"" if code == NULL else text for code, text in zip(codes, column, strict=True)]
        columns.append(column)
    between = delimiter.encode()
    return b"".join(between.join(row) + b"\n" for row in zip(*columns, strict=True)), ambiguous


def _encoded(texts: list[str]) -> list[bytes]:
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise _invalid_text(error) from None


def _invalid_text(error: UnicodeEncodeError) -> InputError:
    message = f"cannot write {error.object[:60]!r}: expected valid Unicode text"
    return InputError(message, code="invalid-encoding")


def _texts(type_: Type, codes: Codes, interner: Interner, delimiter: str, quoted: bool) -> tuple[Any, int]:
    """Return a column as an Arrow array of texts, and the number of distinct ambiguous texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dbsp.data.arrow_buffers import array_of, text_array

    if type_.nullable and (codes == NULL).any():
        present, unclear = _texts(type_.required(), codes[codes != NULL], interner, delimiter, quoted)
        where = np.cumsum(codes != NULL) - 1
        texts = present.take(array_of(where, pa.int64(), codes == NULL))
        return pc.fill_null(texts, text_array([""])[0]), unclear
    if type_.kind == "int":
        return pc.cast(array_of(codes, pa.int64()), pa.large_string()), 0
    if type_.kind == "float":
        return pc.cast(array_of(code_floats(np.ascontiguousarray(codes)), pa.float64()), pa.large_string()), 0
    values, inverse, unclear = _distinct_texts(type_, codes, interner, delimiter, quoted)
    try:
        return text_array(values).take(array_of(inverse, pa.int64())), unclear
    except UnicodeEncodeError as error:
        raise _invalid_text(error) from None


def _distinct_texts(
    type_: Type, codes: Codes, interner: Interner, delimiter: str, quoted: bool
) -> tuple[list[str], Codes, int]:
    """Return the distinct texts of codes, the place of each code in them, and how many are
    ambiguous."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    shown = _quoted_text_of if quoted else text_of
    decoded = decode_column(type_, distinct, interner)
    values = [shown(value) for value in decoded]
    if quoted:
        values = ['"' + value.replace('"', '""') + '"' for value in values]
    unclear = 0
    if not quoted:
        terms = type_.structure is not None
        unclear = sum(
            delimiter in text or "\n" in text or "\r" in text or (terms and _is_unclear(type_, value, text))
            for value, text in zip(decoded, values, strict=True)
        )
    return values, inverse, unclear


def text_of(value: Any) -> str:
    """Return a value as result files show it."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Record | Branch):
        return term_text(value, text_of)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, dt.timedelta):
        return duration_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return repr(value)


def float_text(value: float) -> str:
    """Return the shortest text that reads back as this float: `240`, `0.1`, `1e+20`, `nan`.

    It is the text that the bulk writer of float columns produces, so that a float looks the same in
    result files, in records and in change scripts.
    """
    size = abs(value)
    if not math.isfinite(value) or value == 0 or 1e-4 <= size < 1e10:
        return repr(value).removesuffix(".0")
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    text, exponent = "".join(map(str, digits)), Decimal(repr(value)).adjusted()
    if size < 1e-6 or size >= 1e10:
        text = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{exponent:+d}"
    else:
        text = f"0.{'0' * (-exponent - 1)}{text}"
    return "-" * sign + text


def _quoted_text_of(value: Any) -> str:
    """Return a value for a quoted cell; symbols in a record have their own quotes as in Soufflé."""
    return term_text(value, _quoted_part) if isinstance(value, Record | Branch) else text_of(value)


def _quoted_part(value: Any) -> str:
    if not isinstance(value, str):
        return text_of(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_unclear(type_: Type, term: Any, text: str) -> bool:
    """Whether the text of a record or branch reads back as another value."""
    doubtful = False

    def look(part: Any) -> str:
        nonlocal doubtful
        doubtful = doubtful or (isinstance(part, str) and _DOUBTFUL.search(part) is not None)
        return ""

    term_text(term, look)
    if not doubtful:
        return False
    try:
        return bool(read_cell(type_, text) != term)
    except ValueError:
        return True


def literal_of(value: Any) -> str:
    """Return a value as change scripts write it."""
    if value is None:
        return "nil"
    if isinstance(value, bool | int | float):
        return text_of(value)
    if isinstance(value, Record | Branch):
        return term_text(value, literal_of)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(text_of(value), ensure_ascii=False)


def format_delta(deltas: Mapping[str, ZSet]) -> Iterator[str]:
    """Yield the lines of a change script for these deltas, without `commit`: `-path(1, 2)`.

    Relations are in the order of the mapping, rows are sorted; a weight of n is n equal lines.
    """
    for name, delta in deltas.items():
        for row, weight in delta.items():
            line = f"{'+' if weight > 0 else '-'}{name}({', '.join(map(literal_of, row))})"
            for _ in range(abs(weight)):
                yield line
