"""The values of each type, and the int64 code of a value in the engine.

| type              | Python value                 | code                                     |
|-------------------|------------------------------|------------------------------------------|
| `INT`             | `int`                        | itself                                   |
| `FLOAT`           | `float` (ints are converted) | bits in the order of floats; NaN last      |
| `decimal(18, s)`  | `decimal.Decimal`, ints      | value * 10^s, at most 18 digits          |
| `BOOL`            | `bool`                       | 0 or 1                                   |
| `DATE`            | `datetime.date`              | days since 1970-01-01                    |
| `TIME`            | `datetime.time`              | microseconds since midnight              |
| `TIMESTAMP`       | `datetime.datetime`, naive   | microseconds since 1970-01-01T00:00      |
| `timestamptz(z)`  | `datetime.datetime`, aware   | microseconds since 1970-01-01T00:00 UTC  |
| `DURATION`        | `datetime.timedelta`         | microseconds                             |
| `STR`             | `str`                        | id given by the interner                 |
| `BYTES`           | `bytes`                      | id given by the interner                 |
| `OBJECT`          | tuples, any other hashable   | id given by the interner                 |
| `list[t]`         | tuples (lists are converted) | id given by the interner                 |
| `{name: t, ...}`  | named tuples, `dict`         | id given by the interner                 |
| a structure       | `Record` (a tuple), `Branch` | id given by the interner; -1 for nil     |

Codes of the first nine compare like their values; ids do not (`Type.ordered_codes`).

**None** is an ordinary value of a nullable column: equal only to itself, and sorted before every
other value. Its code is `NULL`, the smallest int64. So a nullable int column does not hold -2**63,
and a column that is not nullable does.

**NaN** is equal to itself and sorted after every other float, so a row with NaN can be retracted.

**Times** have whole microseconds: those of pandas and numpy with a fraction of a microsecond are
refused. A timestamp has a zone or has none, and the types are never mixed: a column of one refuses
values of the other. Timestamps with a zone are equal if they are the same instant, and come out in
the zone of their column.
"""

from __future__ import annotations

import functools
from typing import Any

from dbsp.data.interner import Interner
from dbsp.data.nested_values import decode_list, decode_struct, encode_list, encode_struct
from dbsp.data.plain_codes import (
    Decoder,
    Encoder,
    optional_decoder,
    optional_encoder,
    plain_decoder,
    plain_encoder,
)
from dbsp.data.term_codes import decode_term, encode_term
from dbsp.data.types import Type


@functools.cache
def encoder(type_: Type) -> Encoder:
    """Return the function `(value, interner) -> code` of a type.

    The function raises InputError or ValueOutOfRangeError.
    """
    if type_.kind == "list":
        inner = encoder(type_.element)
        return optional_encoder(type_, lambda value, interner: encode_list(value, inner, interner))
    if type_.kind == "struct":
        fields = [(part.name, encoder(part.type)) for part in type_.parts]
        return optional_encoder(type_, lambda value, interner: encode_struct(value, fields, interner))
    if type_.structure is None:
        return plain_encoder(type_)
    return optional_encoder(type_, functools.partial(encode_term, type_.structure))


@functools.cache
def decoder(type_: Type) -> Decoder:
    """Return the function `(code, interner) -> value` of a type."""
    if type_.kind == "list":
        inner = decoder(type_.element)
        return optional_decoder(type_, lambda code, interner: decode_list(code, inner, interner))
    if type_.kind == "struct":
        fields = [(part.name, decoder(part.type)) for part in type_.parts]
        return optional_decoder(type_, lambda code, interner: decode_struct(code, fields, interner))
    if type_.structure is None:
        return plain_decoder(type_)
    return optional_decoder(type_, functools.partial(decode_term, type_.structure))


def encode_value(type_: Type, value: Any, interner: Interner) -> int:
    """Return the code of one value of `type_`; `interner` assigns the ids of strings and objects.

    Raises InputError if the value is not of that type, ValueOutOfRangeError if it is out of range.
    """
    return encoder(type_)(value, interner)


def decode_value(type_: Type, code: int, interner: Interner) -> Any:
    """Return the value of a code in a column of `type_`."""
    return decoder(type_)(code, interner)


def plain_constant(type_: Type, value: Any) -> Any:
    """Return a list or a struct as a tuple, with tuples for the lists and structs in it."""
    interner = Interner()
    return as_tuples(decode_value(type_, encode_value(type_, value, interner), interner))


def as_tuples(value: Any) -> Any:
    """Return a list or a struct as a plain tuple, and so all lists and structs in it."""
    return tuple(map(as_tuples, value)) if isinstance(value, tuple) else value
