"""Read CSV files by chunks."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dbsp.data.plain_codes import ANY_INT
from dbsp.data.schema import Schema, named_twice
from dbsp.data.types import INT
from dbsp.errors import ArgumentError, DbspError, InputError, ValueOutOfRangeError, shorten, wrong_argument
from dbsp.io.data_files import DataFile, Source
from dbsp.io.file_rows import ColumnChoice, FileRows, Part
from dbsp.io.unpacking_stream import UnpackingStream
from dbsp.lazy_dataclass import dataclass

_BLOCK = 2**24
_RELEASE_SECONDS = 1.0
"""The longest wait for the threads of PyArrow; it takes less than a millisecond."""
_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?CSV conversion error to (?P<type>[^:]+): "
    r"(?P<reason>.*)",
    re.DOTALL,
)
_REFUSED = re.compile(r"In CSV column #(?P<column>\d+): Row #(?P<row>\d+): (?P<reason>.*)", re.DOTALL)
_PARSE = re.compile(r"CSV parse error: (?:Row #(?P<row>\d+): )?(?P<reason>.*)", re.DOTALL)
_NO_NAMES = "cannot infer number of columns"
_DELIMITER = re.compile(r"[;,\t|]")
_WHOLE = re.compile(r"-?[0-9]+")
_VALUE = re.compile(r"invalid value '(.*)'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How a CSV file is written."""

    delimiter: str = ","
    quote: str | None = '"'
    header: bool | tuple[str, ...] = True
    null_values: tuple[str, ...] = ("",)
    encoding: str = "utf8"


def read_csv(
    source: Source,
    *,
    columns: ColumnChoice | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    header: bool | Sequence[str] = True,
    null_values: Sequence[str] = ("",),
    encoding: str = "utf8",
    filesystem: Any = None,
    max_unpacked: int | None = None,
) -> FileRows:
    """Return the rows of CSV files as a change for `Run.step`, `insert` and `Program.start`.

    The rows are read when they are needed, by chunks: the files are never in memory as a whole. A
    read of more than a second shows a progress bar on a terminal. Values have the types of the
    relation's columns, so `007` stays a text in a text column. Columns match by name; without names
    (`header=False`) they match by position. Compressed files (gzip, zstd, bz2, lz4) are detected.

    Parameters:
        source: a path, a URL, a glob, a folder, or a list of them; see `read_parquet`.
        columns: the columns to read, all by default. A mapping from names in the file to names in
            the relation also renames them.
        delimiter: the character between two cells.
        quote: the character around cells that contain delimiters; None if there is none.
        header: whether the first line has the names of the columns, or their names if no line has
            them.
        null_values: the texts that stand for a missing value in an optional column. Quotation marks
            make no difference.
        encoding: the encoding of the text.
        filesystem: the file system of the paths, of PyArrow or fsspec; by default that of the URL.
        max_unpacked: the most bytes to which a compressed file may grow; by default 256 MB, or 100
            times its size if that is more.

    Raises:
        InputError: there is no such file.
        ArgumentError: an argument has another type.
        SetupError: the URL needs a package that is not installed.

    Examples:
        >>> import pathlib
        >>> _ = pathlib.Path("sale.csv").write_text("shop;id\\nnorth;7\\nsouth;\\n")
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", id=int | None, shop=str))
        >>> circuit.start().step({"sale": dbsp.read_csv("sale.csv", delimiter=";")})["all"].rows()
        [(None, 'south'), (7, 'north')]
    """
    for name, character in (("delimiter", delimiter), ("quote", '"' if quote is None else quote)):
        if not isinstance(character, str) or len(character) != 1 or not character.isascii():
            raise wrong_argument(name, "one ASCII character", character)
    nulls = _texts(null_values)
    if nulls is None:
        raise wrong_argument("null_values", "a list of texts", null_values)
    names = header if isinstance(header, bool) else _texts(header)
    if names is None or names == ():
        raise wrong_argument("header", "True, False or a list of names", header)
    if not _is_encoding(encoding):
        raise wrong_argument("encoding", "a text encoding, such as 'latin1'", encoding)
    if header is False and columns is not None:
        raise ArgumentError("columns= needs names of columns; pass them as header=[...]")
    format_ = CsvFormat(delimiter, quote, names, nulls, encoding)
    return CsvRows(source, columns, filesystem, max_unpacked, format_)


def _texts(values: object) -> tuple[str, ...] | None:
    """Return the texts of a list; None if it is none, or has values that PyArrow refuses."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return None
    texts = tuple(values)
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        return None
    return texts


def _is_encoding(name: Any) -> bool:
    """Whether Python knows a text encoding, and its decoder takes what PyArrow reads."""
    try:
        codecs.getincrementaldecoder(name)().decode(memoryview(b"x"))
        return bool("\n".encode(name))
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


class CsvRows(FileRows):
    """The rows of CSV files."""

    format = "CSV"
    endings = (".csv",)

    def __init__(
        self,
        source: Source,
        columns: ColumnChoice | None,
        filesystem: Any,
        max_unpacked: int | None,
        format_: CsvFormat,
    ) -> None:
        super().__init__(source, columns, filesystem, max_unpacked)
        self._format = format_

    def parts(self, file: DataFile, fields: Schema, advance: Callable[[int], None]) -> Iterator[Part]:
        import pyarrow as pa

        stream = _CsvBytes(file, self.max_unpacked, advance, self._format)
        try:
            for batch in self._batches(stream, fields, use_threads=True):
                yield self._part(batch, fields)
        except pa.ArrowInvalid as error:
            raise self._error(file, fields, error) from None
        except UnicodeError as error:
            if codecs.lookup(self._format.encoding).name == "utf-8":  # PyArrow decodes the names only
                raise self._wrong_encoding(file, "the names of the columns: ") from None
            text = f"expected text in {self._format.encoding}: {error}"
            raise InputError(text, where=file.shown, code="invalid-encoding") from None
        # PyArrow takes the rest of the file as the last text if its quotation mark is not closed.
        if stream.quotes % 2:
            lines = _lines(self._opened(file), self._format.encoding)
            expect_closed(lines, self._format, file.shown)

    def _batches(
        self, stream: UnpackingStream, fields: Schema, use_threads: bool, texts: bool = False
    ) -> Iterator[Any]:
        """Read the rows. With `texts`, the columns of the relation are not converted."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        from dbsp.data.arrow_types import parsed_type

        given = self._format
        names = list(given.header) if isinstance(given.header, tuple) else None
        if given.header is False:
            # As many names as columns: PyArrow refuses lines of another length.
            names = list(fields.names)
        types = {
            name: found
            for name, type_ in zip(fields.names, fields.types, strict=True)
            if (found := parsed_type(type_)) is not None
        }
        if (weight := self.weight_in_file(fields)) not in types:
            types[weight] = pa.int64()
        if texts:
            types = dict.fromkeys(types, pa.string())
        released = threading.Event()
        reader: Any = None
        try:
            reader = arrow_csv.open_csv(
                pa.PythonFile(_ArrowSource(stream, released), mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=use_threads, block_size=_BLOCK, column_names=names, encoding=given.encoding
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=given.delimiter,
                    quote_char=given.quote if given.quote is not None else False,
                    newlines_in_values=given.quote is not None,
                    # In a file of one column an empty line is an empty text.
                    ignore_empty_lines=len(fields.names) != 1 or self.wanted is not None,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    null_values=list(given.null_values),
                    strings_can_be_null=False,
                    true_values=["true", "True", "TRUE", "1"],
                    false_values=["false", "False", "FALSE", "0"],
                ),
            )
            with reader:
                yield pa.RecordBatch.from_pylist([], reader.schema)  # so that the names are checked
                yield from reader
        finally:
            reader = None
            released.wait(_RELEASE_SECONDS)

    def _part(self, batch: Any, fields: Schema) -> Part:
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = list(batch.columns)
        for place, name in enumerate(batch.schema.names):
            type_ = fields.type_of(name) if name in fields.names else None
            if type_ is not None and type_.nullable and pa.types.is_string(columns[place].type):
                null = pc.is_in(columns[place], pa.array(self._format.null_values, pa.string()))
                columns[place] = pc.if_else(null, None, columns[place])
        names = None if self._format.header is False else tuple(batch.schema.names)
        return names, columns, batch.num_rows

    # --- errors -----------------------------------------------------------------------------------

    def _opened(self, file: DataFile) -> UnpackingStream:
        return UnpackingStream(file, self.max_unpacked, lambda size: None)

    def _error(self, file: DataFile, fields: Schema, error: Exception) -> DbspError:
        """Return the error of a file; the file is read again, by one thread, to find the row."""
        import pyarrow as pa

        if str(error) == "Empty CSV file" or _NO_NAMES in str(error):
            if self._format.header is not True:
                return self.unreadable(file, error)
            text = "expected a line with the names of the columns"
            text += ", got an empty file" if str(error) == "Empty CSV file" else " at the beginning"
            return InputError(text, where=file.shown, code="invalid-line")
        try:
            for _ in self._batches(self._opened(file), fields, use_threads=False):
                pass
        except pa.ArrowInvalid as again:
            error = again
        if match := _CONVERSION.fullmatch(str(error)):
            return self._conversion_error(file, fields, match)
        if match := _REFUSED.fullmatch(str(error)):
            return self._refused_text(file, fields, match)
        if match := _PARSE.fullmatch(str(error)):
            reason = match["reason"][:1].lower() + match["reason"][1:]
            text = f"{self._row(match, ': ')}{shorten(reason, 200)[1:-1]}"
            return InputError(text, where=file.shown, code="invalid-line")
        return self.unreadable(file, error)

    def _conversion_error(self, file: DataFile, fields: Schema, match: re.Match[str]) -> DbspError:
        names = self._names_in(file, fields)
        place = int(match["column"])
        name = names[place] if place < len(names) else f"number {place + 1}"
        if len(set(names)) != len(names):
            error = named_twice(names)
            error.where = file.shown
            return error
        column = f"{self._row(match, ', ')}column {name!r}: "
        if "invalid UTF8" in match["reason"]:
            return self._wrong_encoding(file, column)
        type_ = fields.type_of(name) if name in fields.names else match["type"]
        value = _VALUE.fullmatch(match["reason"])
        got = f"got {shorten(value[1])}" if value else match["reason"]
        code = "wrong-type"
        if name == self.weight_in_file(fields):
            type_, code = INT, "invalid-weight"
        elif type_ == INT and value and _WHOLE.fullmatch(value[1]):
            return ValueOutOfRangeError(f"{column}expected {ANY_INT}, {got}", where=file.shown)
        return InputError(f"{column}expected {type_}, {got}", where=file.shown, code=code)

    def _wrong_encoding(self, file: DataFile, before: str) -> InputError:
        hint = "or pass the encoding of the file, such as encoding='latin1'"
        if self.relation is not None:  # `.input` has no such parameter
            hint = "convert the file to UTF-8"
        text = f"{before}expected UTF-8 text; {hint}"
        return InputError(text, where=file.shown, code="invalid-encoding")

    def _refused_text(self, file: DataFile, fields: Schema, match: re.Match[str]) -> DbspError:
        """Return the error for a text that PyArrow refuses without naming it, such as a decimal."""
        place, row = int(match["column"]), int(match["row"]) - (self._format.header is True)
        before = 0
        for batch in self._batches(self._opened(file), fields, use_threads=False, texts=True):
            if row <= before + batch.num_rows:
                name, text = batch.schema.names[place], batch.column(place)[row - before - 1].as_py()
                type_ = fields.type_of(name) if name in fields.names else batch.column(place).type
                message = f"row {row}, column {name!r}: expected {type_}, got {shorten(text)}"
                if "data loss" not in match["reason"]:
                    return InputError(message, where=file.shown, code="wrong-type")
                message += "; round it, or declare more digits after the point"
                return InputError(message, where=file.shown, code="value-out-of-range")
            before += batch.num_rows
        raise AssertionError(f"expected row {row} in {file.shown}")

    def names_hint(self, given: Sequence[str], schema: Schema) -> str:
        if len(given) == 1 < schema.arity and (found := _DELIMITER.search(given[0])):
            if self.relation is not None:
                return f'write .input {self.relation}(IO=csv, delimiter="{found[0]}")'
            return f"pass the delimiter of the file, delimiter={found[0]!r}"
        hint = super().names_hint(given, schema)
        if self._format.header is True and self.relation is not None:
            hint += f"; write .input {self.relation}(IO=csv, headers=false) if the first line has values"
        elif self._format.header is True:
            hint += ", or header=False if the first line has values"
        return hint

    def _row(self, match: re.Match[str], after: str) -> str:
        """Return the number of the row, counted from 1 after the line with the names."""
        if match["row"] is None:
            return ""
        return f"row {int(match['row']) - (self._format.header is True)}{after}"

    def _names_in(self, file: DataFile, fields: Schema) -> Sequence[str]:
        """Return the names of the columns in a file."""
        if self._format.header is not True:
            return fields.names if self._format.header is False else self._format.header
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        given = self._format
        stream = pa.PythonFile(self._opened(file), mode="r")
        first = stream.read(_BLOCK).split(b"\n", 1)[0] + b"\n"
        quote = given.quote if given.quote is not None else False
        return list(
            arrow_csv.read_csv(
                pa.BufferReader(first),
                read_options=arrow_csv.ReadOptions(encoding=given.encoding),
                parse_options=arrow_csv.ParseOptions(delimiter=given.delimiter, quote_char=quote),
            ).column_names
        )


class _CsvBytes(UnpackingStream):
    """The bytes of a CSV file, whose last line always has its end; counts the quotation marks.

    PyArrow refuses a file that has only the names of the columns if their line has no end.
    """

    def __init__(
        self, file: DataFile, limit: int | None, advance: Callable[[int], None], format_: CsvFormat
    ) -> None:
        super().__init__(file, limit, advance)
        self._quote = None if format_.quote is None else format_.quote.encode()
        self._ends_lines = "\n".encode(format_.encoding) == b"\n"
        self.quotes = 0

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        if self._quote is not None:
            self.quotes += data.count(self._quote)
        is_end = size < 0 or len(data) < size
        if data and is_end and self._ends_lines and not data.endswith((b"\n", b"\r")):
            data += b"\n"
        return data


class _ArrowSource:
    """A stream for `pyarrow.PythonFile` that sets an event when PyArrow no longer holds it.

    After an error, a thread of PyArrow can hold the stream for a while. At the exit of the
    interpreter, such a thread ends the process by a signal.
    """

    def __init__(self, stream: UnpackingStream, released: threading.Event) -> None:
        self._stream = stream
        self._released = released

    def __del__(self) -> None:
        self._released.set()

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        self._stream.close()


def _lines(stream: UnpackingStream, encoding: str) -> Iterator[str]:
    """Yield the lines of a stream, as `csv.reader` reads them."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    rest = ""
    while data := stream.read(_BLOCK):
        *lines, rest = (rest + decoder.decode(data).replace("\r", "")).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield f"{rest}\n"


def expect_closed(lines: Iterable[str], format_: CsvFormat, where: str) -> None:
    """Raise InputError, with the row, if the lines of a file end within quotation marks."""
    end = "end of the file"
    limit = csv.field_size_limit(sys.maxsize)
    try:
        last, count = [end], 0
        reader = csv.reader(
            itertools.chain(lines, [end]), delimiter=format_.delimiter, quotechar=format_.quote
        )
        for row in reader:
            last, count = row, count + (row != [])
    finally:
        csv.field_size_limit(limit)
    if last != [end]:
        row_number = count - (format_.header is True)
        message = f"row {row_number}: a quotation mark is not closed until the end of the file"
        raise InputError(message, where=where, code="invalid-line")
