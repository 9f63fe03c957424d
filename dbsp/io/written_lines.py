"""Write the rows of a relation as sorted lines, one row per line."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dbsp.data.columns import code_floats, decode_column
from dbsp.data.terms import Branch, Record, term_text
from dbsp.data.types import Type
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.results import text_of
from dbsp.io.sorted_pieces import sorted_pieces
from dbsp.io.term_text import read_cell
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL

if TYPE_CHECKING:
    import pyarrow as pa

_SMALL = 2_000
"""Up to so many rows, plain Python takes less time than loading Arrow."""

_PIECE = 1 << 18
"""Lines are written by so many rows."""

_DOUBTFUL = re.compile(r'[,\[\]()]|^["\s]|\s$')
"""Symbols that may be read back differently when they are written in a record without quotes."""


def write_lines(zset: ZSet, file: IO[bytes], *, delimiter: str = "\t", quoted: bool = False) -> int:
    """Write the rows of `zset` as lines, sorted by value (None first, text by code points).

    Each row is written once, whatever its weight. A row without columns is written `()`. With
    `quoted`, texts are in quotation marks, as in RFC 4180. Without, a text that contains the
    delimiter or a line break cannot be read back, nor some symbols in records; the result is the
    number of distinct values of this kind. Cost: O(n log n) for n rows, in bulk, and the memory of
    the texts of 262,144 rows.
    """
    if not zset.arity:
        file.write(b"()\n" * len(zset))
        return 0
    lines = _Lines(zset, delimiter, quoted)
    few = len(zset) <= _SMALL and all(type_.kind != "float" for type_ in zset.schema.types)
    for rows in sorted_pieces(zset, _PIECE):
        file.write(lines.of_few(rows) if few else lines.of(rows))
    return len(lines.unclear)


class _Lines:
    """The lines of rows of a Z-set."""

    def __init__(self, zset: ZSet, delimiter: str, quoted: bool) -> None:
        self.unclear: set[tuple[int, int]] = set()
        """The columns and codes of the texts that cannot be read back."""
        self._types = zset.schema.types
        self._interner = zset.interner
        self._delimiter = delimiter
        self._quoted = quoted

    def of(self, rows: Codes) -> pa.Buffer:
        """Return the lines of these rows, computed by Arrow."""
        import pyarrow.compute as pc

        from dbsp.data.arrow_buffers import text_array

        columns = [self._texts(column, type_, rows[:, column]) for column, type_ in enumerate(self._types)]
        between, nothing, end = text_array([self._delimiter, "", "\n"])
        lines = pc.binary_join_element_wise(*columns, between)
        ended = pc.binary_join_element_wise(lines, nothing, end)
        # The texts of an Arrow array are adjacent in one buffer, which is the content of the file.
        offsets = np.frombuffer(ended.buffers()[1], np.int64)[ended.offset : ended.offset + len(ended) + 1]
        return ended.buffers()[2][int(offsets[0]) : int(offsets[-1])]

    def of_few(self, rows: Codes) -> bytes:
        """Return the lines of rows without floats, without loading Arrow."""
        columns = []
        for at, type_ in enumerate(self._types):
            codes = rows[:, at]
            if type_.kind == "int":
                column = [b"%d" % code for code in codes.tolist()]
            else:
                present = codes != NULL if type_.nullable else np.ones(len(codes), np.bool_)
                required = type_.required() if type_.nullable else type_
                texts, inverse = self._distinct_texts(at, required, codes[present])
                encoded = _encoded(texts)
                column = [b""] * len(codes)
                for row, place in zip(np.flatnonzero(present).tolist(), inverse.tolist(), strict=True):
                    column[row] = encoded[place]
            if type_.kind == "int" and type_.nullable:
                column = [b"" if code == NULL else text for code, text in zip(codes, column, strict=True)]
            columns.append(column)
        between = self._delimiter.encode()
        return b"".join(between.join(row) + b"\n" for row in zip(*columns, strict=True))

    def _texts(self, at: int, type_: Type, codes: Codes) -> Any:
        """Return the codes of the column `at` as an Arrow array of texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from dbsp.data.arrow_buffers import array_of, text_array

        if type_.nullable and (codes == NULL).any():
            present = self._texts(at, type_.required(), codes[codes != NULL])
            where = np.cumsum(codes != NULL) - 1
            texts = present.take(array_of(where, pa.int64(), codes == NULL))
            return pc.fill_null(texts, text_array([""])[0])
        if type_.kind == "int":
            return pc.cast(array_of(codes, pa.int64()), pa.large_string())
        if type_.kind == "float":
            floats = code_floats(np.ascontiguousarray(codes))
            return pc.cast(array_of(floats, pa.float64()), pa.large_string())
        values, inverse = self._distinct_texts(at, type_, codes)
        try:
            return text_array(values).take(array_of(inverse, pa.int64()))
        except UnicodeEncodeError as error:
            raise _invalid_text(error) from None

    def _distinct_texts(self, at: int, type_: Type, codes: Codes) -> tuple[list[str], Codes]:
        """Return the distinct texts of codes of the column `at`, and the place of each code in
        them."""
        distinct, inverse = np.unique(codes, return_inverse=True)
        decoded = decode_column(type_, distinct, self._interner)
        if self._quoted:
            return ['"' + _quoted_text_of(value).replace('"', '""') + '"' for value in decoded], inverse
        values = [text_of(value) for value in decoded]
        terms = type_.structure is not None
        self.unclear.update(
            (at, code)
            for code, value, text in zip(distinct.tolist(), decoded, values, strict=True)
            if self._delimiter in text
            or "\n" in text
            or "\r" in text
            or (terms and _is_unclear(type_, value, text))
        )
        return values, inverse


def _encoded(texts: list[str]) -> list[bytes]:
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise _invalid_text(error) from None


def _invalid_text(error: UnicodeEncodeError) -> InputError:
    message = f"cannot write {error.object[:60]!r}: expected valid Unicode text"
    return InputError(message, code="invalid-encoding")


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
