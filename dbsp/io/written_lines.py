"""Write the rows of a relation as sorted lines, one row per line."""

from __future__ import annotations

import re
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dbsp.data.columns import code_floats, decode_column
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
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

_PIECE = 1 << 16
"""Lines are written by so many rows."""

_DOUBTFUL = re.compile(r'[,\[\]()]|^["\s]|\s$')
"""Symbols that may be read back differently when they are written in a record without quotes."""


def write_lines(zset: ZSet, file: IO[bytes], *, delimiter: str = "\t", quoted: bool = False) -> int:
    """Write the rows of `zset` as lines, sorted by value (None first, text by code points).

    Each row is written once, whatever its weight. A row without columns is written `()`. With
    `quoted`, texts are in quotation marks, as in RFC 4180. Without, a text that contains the
    delimiter or a line break cannot be read back, nor some symbols in records; the result is the
    number of distinct values of this kind. Cost: O(n log n) for n rows, in bulk, and the memory of
    the different texts and of 65,536 lines.
    """
    if not zset.arity:
        file.write(b"()\n" * len(zset))
        return 0
    lines = _Lines(zset, delimiter, quoted)
    few = len(zset) <= _SMALL and all(type_.kind != "float" for type_ in zset.schema.types)
    for rows in sorted_pieces(zset, _PIECE):
        file.write(lines.of_few(rows) if few else lines.of(rows))
    return lines.unclear


class _Lines:
    """The lines of rows of a Z-set."""

    def __init__(self, zset: ZSet, delimiter: str, quoted: bool) -> None:
        self._types = zset.schema.types
        self._delimiter = delimiter
        self._columns = {
            at: _Texts(type_, zset.stored.rows[:, at], zset.interner, delimiter, quoted)
            for at, type_ in enumerate(self._types)
            if type_.kind not in ("int", "float")
        }
        self.unclear = sum(texts.unclear for texts in self._columns.values())
        """The number of different texts that cannot be read back."""

    def of(self, rows: Codes) -> pa.Buffer:
        """Return the lines of these rows, computed by Arrow."""
        import pyarrow.compute as pc

        from dbsp.data.arrow_buffers import text_array

        columns = [self._arrow(at, type_, rows[:, at]) for at, type_ in enumerate(self._types)]
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
            if type_.kind == "int":
                null = NULL if type_.nullable else None
                column = [b"" if code == null else b"%d" % code for code in rows[:, at].tolist()]
            else:
                encoded = self._columns[at].encoded
                column = [encoded[place] for place in self._columns[at].places(rows[:, at]).tolist()]
            columns.append(column)
        between = self._delimiter.encode()
        return b"".join(between.join(row) + b"\n" for row in zip(*columns, strict=True))

    def _arrow(self, at: int, type_: Type, codes: Codes) -> Any:
        """Return the codes of the column `at` as an Arrow array of texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from dbsp.data.arrow_buffers import array_of, text_array

        texts = self._columns.get(at)
        if texts is not None:
            return texts.arrow.take(array_of(texts.places(codes), pa.int64()))
        null = codes == NULL if type_.nullable else None
        if type_.kind == "int":
            numbers = array_of(codes, pa.int64(), null)
        else:
            numbers = array_of(code_floats(np.ascontiguousarray(codes)), pa.float64(), null)
        found = pc.cast(numbers, pa.large_string())
        return found if null is None else pc.fill_null(found, text_array([""])[0])


class _Texts:
    """The different texts of a column; None is an empty text."""

    def __init__(self, type_: Type, codes: Codes, interner: Interner, delimiter: str, quoted: bool) -> None:
        self._codes, _ = distinct_codes(codes)
        required = type_.required() if type_.nullable else type_
        absent = int(type_.nullable and len(self._codes) > 0 and self._codes[0] == NULL)
        values = decode_column(required, self._codes[absent:], interner)
        self.unclear = 0
        """How many of the texts cannot be read back."""
        if quoted:
            texts = ['"' + _quoted_text_of(value).replace('"', '""') + '"' for value in values]
        else:
            texts = [text_of(value) for value in values]
            terms = type_.structure is not None
            self.unclear = sum(
                delimiter in text
                or "\n" in text
                or "\r" in text
                or (terms and _is_unclear(type_, value, text))
                for value, text in zip(values, texts, strict=True)
            )
        self._texts = [""] * absent + texts

    def places(self, codes: Codes) -> Codes:
        """Return the places of the texts of these codes of the column."""
        found, places = distinct_codes(codes)
        return np.searchsorted(self._codes, found).take(places)

    @cached_property
    def encoded(self) -> list[bytes]:
        try:
            return [text.encode() for text in self._texts]
        except UnicodeEncodeError as error:
            raise _invalid_text(error) from None

    @cached_property
    def arrow(self) -> pa.LargeStringArray:
        from dbsp.data.arrow_buffers import text_array

        try:
            return text_array(self._texts)
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
