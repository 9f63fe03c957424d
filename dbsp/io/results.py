"""Results out: relations as sorted lines, and deltas as change scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dbsp.data.columns import code_floats, decode_column
from dbsp.data.interner import Interner
from dbsp.data.terms import Branch, Record, term_text
from dbsp.data.types import Type
from dbsp.data.value_order import value_order
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.term_text import read_cell
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


def replace_file(path: Path, data: bytes) -> None:
    """Make the file hold these bytes; a reader sees what was there before, or all of them.

    It is written beside the old one and then put in its place. Raises InputError if that cannot be done.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error


_DOUBTFUL = re.compile(r'[,\[\]()]|^["\s]|\s$')
"""Symbols that may end elsewhere, or lose something, where they stand in a record as they are."""


def format_rows(zset: ZSet, *, delimiter: str = "\t", quoted: bool = False) -> tuple[bytes, int]:
    """The rows of `zset` as lines, sorted by value (None first, numbers as numbers, text by code points).

    Weights are not shown: a row stands once. A row without columns is written `()`. With `quoted`, texts
    stand in quotation marks, as in RFC 4180; without, a text that contains the delimiter or a line break
    cannot be read back, nor some symbols in records; the second result counts the distinct values like that.
    Cost: O(n log n) for n rows, in bulk.
    """
    if not len(zset):
        return b"", 0
    if not zset.arity:
        return b"()\n", 0
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = zset.batch.rows
    order = value_order(zset.schema, rows, zset.interner)
    if order is not None:
        rows = rows[order]
    columns, ambiguous = [], 0
    for position, type_ in enumerate(zset.schema.types):
        column, unclear = _texts(type_, rows[:, position], zset.interner, delimiter, quoted)
        columns.append(column)
        ambiguous += unclear
    text = pa.large_string()
    lines = pc.binary_join_element_wise(*columns, pa.scalar(delimiter, text))
    ended = pc.binary_join_element_wise(lines, pa.scalar("", text), pa.scalar("\n", text))
    # The texts of an Arrow array lie one behind the other in one buffer: the file as it is to be.
    offsets = np.frombuffer(ended.buffers()[1], np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return ended.buffers()[2][int(offsets[0]) : int(offsets[-1])].to_pybytes(), ambiguous


def _texts(type_: Type, codes: Codes, interner: Interner, delimiter: str, quoted: bool) -> tuple[Any, int]:
    """A column as an Arrow array of texts, and how many distinct ones would be ambiguous in a file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_.nullable and (codes == NULL).any():
        present, unclear = _texts(type_.required(), codes[codes != NULL], interner, delimiter, quoted)
        where = np.cumsum(codes != NULL) - 1
        texts = present.take(pa.array(where, mask=codes == NULL))
        return pc.fill_null(texts, ""), unclear
    if type_.kind == "int":
        return pc.cast(pa.array(np.ascontiguousarray(codes)), pa.large_string()), 0
    if type_.kind == "float":
        return pc.cast(pa.array(code_floats(np.ascontiguousarray(codes))), pa.large_string()), 0
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
    try:
        return pa.array(values, pa.large_string()).take(pa.array(inverse)), unclear
    except UnicodeEncodeError as error:
        raise InputError(f"{error.object[:60]!r} cannot be written: it is not valid Unicode text") from None


def text_of(value: Any) -> str:
    """A value as it stands in a result file."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Record | Branch):
        return term_text(value, _part_text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return repr(value)


def _quoted_text_of(value: Any) -> str:
    """A value for a cell in quotation marks; as in Soufflé, the symbols in a record have their own."""
    return term_text(value, _quoted_part) if isinstance(value, Record | Branch) else text_of(value)


def _quoted_part(value: Any) -> str:
    if not isinstance(value, str):
        return _part_text(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _part_text(value: Any) -> str:
    # As numbers of whole columns are written: 1.0 is 1.
    return (
        str(int(value))
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        else text_of(value)
    )


def _is_unclear(type_: Type, term: Any, text: str) -> bool:
    """Whether a record or branch is not what its text is read as: only looked at if a symbol is doubtful."""
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
    """A value as it stands in a change script."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Record | Branch):
        return term_text(value, literal_of)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(text_of(value), ensure_ascii=False)


def format_delta(deltas: Mapping[str, ZSet]) -> Iterator[str]:
    """The lines of a change script that say what changed: `-path(1, 2)`, `+path(1, 3)`, without the `commit`.

    Relations in the order of the mapping, rows sorted; a weight of n is n equal lines.
    """
    for name, delta in deltas.items():
        for row, weight in delta.items():
            line = f"{'+' if weight > 0 else '-'}{name}({', '.join(map(literal_of, row))})"
            for _ in range(abs(weight)):
                yield line
