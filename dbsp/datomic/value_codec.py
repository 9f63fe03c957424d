"""Lists of values as bytes, by column: no class is looked up by a name in the bytes.

    kinds      one byte for each value
    payloads   for each kind in turn, what its values need: numbers, texts, parts

Texts are one string and their lengths. The parts of tuples, sets, maps and tagged values are again
a list of values. Rare classes, such as `datetime.date`, are JSON (see `dbsp.durable.typed_values`).
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np

from dbsp.datomic.byte_columns import ByteReader, ByteWriter
from dbsp.durable.typed_values import Decoding, Encoding, UnsupportedValueError
from dbsp.edn.edn_values import Char, EdnList, EdnMap, Keyword, Symbol, Tagged
from dbsp.errors import InputError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

# The numbers are part of the format of stored databases: never change one, add new ones at the end.
NONE: Final = 0
FALSE: Final = 1
TRUE: Final = 2
INT: Final = 3
FLOAT: Final = 4
STR: Final = 5
KEYWORD: Final = 6
SYMBOL: Final = 7
CHAR: Final = 8
BYTES: Final = 9
INSTANT: Final = 10
UUID: Final = 11
JSON: Final = 12
TUPLE: Final = 13
LIST: Final = 14
SET: Final = 15
MAP: Final = 16
TAGGED: Final = 17
DECIMAL: Final = 18

_KINDS: Final[dict[type, int]] = {
    type(None): NONE,
    bool: TRUE,
    int: INT,
    float: FLOAT,
    str: STR,
    Keyword: KEYWORD,
    Symbol: SYMBOL,
    Char: CHAR,
    bytes: BYTES,
    dt.datetime: INSTANT,
    uuid.UUID: UUID,
    tuple: TUPLE,
    EdnList: LIST,
    frozenset: SET,
    EdnMap: MAP,
    Tagged: TAGGED,
    Decimal: DECIMAL,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_TEXTS: Final[dict[int, tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    STR: (str, str),
    KEYWORD: (lambda value: value.text, Keyword),
    SYMBOL: (lambda value: value.text, Symbol),
    CHAR: (lambda value: value.text, Char),
    DECIMAL: (str, Decimal),
    JSON: (lambda value: _json(value), lambda text: Decoding().decode(json.loads(text))),
}
_PARTS: Final[dict[int, tuple[Callable[[Any], Iterable[Any]], Callable[[Sequence[Any]], Any]]]] = {
    TUPLE: (iter, tuple),
    LIST: (iter, EdnList),
    SET: (iter, frozenset),
    MAP: (
        lambda value: itertools.chain.from_iterable(value.items()),
        lambda parts: EdnMap(zip(parts[::2], parts[1::2], strict=True)),
    ),
    TAGGED: (lambda value: (value.tag, value.value), lambda parts: Tagged(*parts)),
}


def write_values(writer: ByteWriter, values: Sequence[Any]) -> None:
    """Write values. Raises InputError for a value of a class that a database does not store."""
    classes = set(map(type, values))
    if len(classes) == 1 and (only := classes.pop()) in (str, Keyword):
        kinds = np.full(len(values), _KINDS[only], np.int64)
    else:
        kinds = np.fromiter(map(_kind, values), np.int64, len(values))
    writer.numbers(kinds)
    for kind in np.unique(kinds).tolist():
        chosen = values
        if (kinds != kind).any():
            chosen = [value for value, mask in zip(values, (kinds == kind).tolist(), strict=True) if mask]
        _write_kind(writer, kind, chosen)


def _write_kind(writer: ByteWriter, kind: int, values: Sequence[Any]) -> None:
    if kind in _TEXTS:
        text_of, _ = _TEXTS[kind]
        texts = values if kind == STR else list(map(text_of, values))
        writer.numbers(np.fromiter(map(len, texts), np.int64, len(texts)))
        writer.text("".join(texts).encode("utf-8", "surrogatepass"))
    elif kind in _PARTS:
        parts_of, _ = _PARTS[kind]
        parts = [list(parts_of(value)) for value in values]
        writer.numbers(np.fromiter(map(len, parts), np.int64, len(parts)))
        write_values(writer, list(itertools.chain.from_iterable(parts)))
    elif kind == INT:
        writer.numbers(np.fromiter(values, np.int64, len(values)))
    elif kind == INSTANT:
        times = ((value - _EPOCH) // _MICROSECOND for value in values)
        writer.numbers(np.fromiter(times, np.int64, len(values)))
    elif kind == FLOAT:
        writer.text(np.array(values, "<f8").tobytes())
    elif kind == UUID:
        writer.text(b"".join([value.bytes for value in values]))
    elif kind == BYTES:
        writer.numbers(np.fromiter(map(len, values), np.int64, len(values)))
        writer.text(b"".join(values))


def read_values(reader: ByteReader) -> list[Any]:
    """Read the values that `write_values` wrote. Raises ValueError and others for other bytes."""
    kinds = reader.numbers()
    present, counts = np.unique(kinds, return_counts=True)
    columns = {
        kind: _read_kind(reader, kind, count)
        for kind, count in zip(present.tolist(), counts.tolist(), strict=True)
    }
    if len(columns) == 1:
        return list(next(iter(columns.values())))
    iterators = {kind: iter(column) for kind, column in columns.items()}
    return [next(iterators[kind]) for kind in kinds.tolist()]


def _read_kind(reader: ByteReader, kind: int, count: int) -> Sequence[Any]:
    if kind in _TEXTS:
        lengths = reader.numbers()
        texts = list(_slices(reader.text().decode("utf-8", "surrogatepass"), lengths))
        return texts if kind == STR else list(map(_TEXTS[kind][1], texts))
    if kind in _PARTS:
        lengths = reader.numbers()
        return list(map(_PARTS[kind][1], _slices(read_values(reader), lengths)))
    if kind == INT:
        numbers: list[int] = reader.numbers().tolist()
        return numbers
    if kind == INSTANT:
        return [_EPOCH + dt.timedelta(microseconds=time) for time in reader.numbers().tolist()]
    if kind == FLOAT:
        floats: list[float] = np.frombuffer(reader.text(), "<f8").tolist()
        return floats
    if kind == UUID:
        return [uuid.UUID(bytes=part) for part in _slices(reader.text(), np.full(count, 16))]
    if kind == BYTES:
        lengths = reader.numbers()
        return list(_slices(reader.text(), lengths))
    if kind in (NONE, FALSE, TRUE):
        return [{NONE: None, FALSE: False, TRUE: True}[kind]] * count
    raise ValueError(f"unknown kind of value {kind}")


def _slices(whole: Any, lengths: Codes) -> Iterator[Any]:
    """Yield the pieces of a sequence. Raises ValueError if it does not have this length."""
    ends = np.cumsum(lengths).tolist()
    if (ends[-1] if ends else 0) != len(whole):
        raise ValueError(f"expected {ends[-1] if ends else 0} characters or values, got {len(whole)}")
    for start, end in itertools.pairwise([0, *ends]):
        yield whole[start:end]


def _kind(value: Any) -> int:
    kind = _KINDS.get(type(value), JSON)
    if kind == TRUE:
        return TRUE if value else FALSE
    if kind == INT and not INT64_MIN <= value <= INT64_MAX:
        return JSON
    if kind == INSTANT and value.tzinfo is not dt.UTC:
        return JSON
    return kind


def _json(value: Any) -> str:
    try:
        return json.dumps(Encoding().encode(value), separators=(",", ":"))
    except UnsupportedValueError as error:
        raise InputError(
            f"expected a value that a database on disk can store, got {shorten(error.value)} of type "
            f"{type(error.value).__name__}; store one of the types of EDN, or of the module datetime",
            code="unsupported-value",
        ) from None
