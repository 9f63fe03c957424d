"""The fields of operators as JSON values: one table of tags for writing and reading.

Numbers, strings, None and tuples are JSON values. Any other value is an object whose first key, a
tag, names its kind: `{"schema": ...}`, `{"date": "2024-05-01"}`, `{"function": "math:sqrt"}`. A
value of a dataclass is `{"class": ..., "fields": ...}`, without the fields that have their default;
an expression is a `column`, `literal`, `functor` or `call` with its arguments. A nested scope is
`{"scope": ...}`; the caller passes the functions that write and read scopes.

Classes of this package are written by their bare names, other classes and functions as
`module:name`. Reading imports nothing: the caller passes the functions and classes that a text may
name (see `DecodeContext`). Of a functor of a Datalog program only its own name is written.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from dbsp.circuit.field_types import check_fields
from dbsp.circuit.graph import Graph
from dbsp.circuit.named_parts import class_name, importable_name
from dbsp.data.schema import Schema
from dbsp.data.timestamps import duration_text, read_duration
from dbsp.data.type_inference import as_type
from dbsp.data.types import Type
from dbsp.diagnostics import did_you_mean
from dbsp.errors import CircuitError, shorten
from dbsp.expressions import Call, Column, Expression, Functor, FunctorCall, Literal
from dbsp.expressions.origin import Origin
from dbsp.lazy_dataclass import dataclass


class Tag(NamedTuple):
    """How the values of one type are written and read under a tag."""

    name: str
    type: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _written_schema(schema: Schema) -> list[list[str]]:
    return [[name, type_.written] for name, type_ in zip(schema.names, schema.types, strict=True)]


def _read_schema(columns: list[list[str]]) -> Schema:
    return Schema(tuple(name for name, _ in columns), tuple(as_type(written) for _, written in columns))


TAGS = (
    Tag("float", float, repr, float),  # infinities and NaN, which JSON has no number for
    Tag("bytes", bytes, bytes.hex, bytes.fromhex),
    Tag("timestamp", dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    Tag("date", dt.date, dt.date.isoformat, dt.date.fromisoformat),
    Tag("time", dt.time, dt.time.isoformat, dt.time.fromisoformat),
    Tag("duration", dt.timedelta, duration_text, read_duration),
    Tag("decimal", Decimal, str, Decimal),
    Tag("type", Type, lambda type_: type_.written, as_type),
    Tag("schema", Schema, _written_schema, _read_schema),
)
_BY_TYPE = {tag.type: tag for tag in TAGS}
_BY_NAME = {tag.name: tag for tag in TAGS}


_MOST_BITS = 14_000  # at most 4215 digits; Python does not write an int of more than 4300 digits


class MissingPartError(CircuitError):
    """A circuit names a function, functor or class that the caller did not pass."""

    code = "invalid-circuit-file"
    part = ""
    """The part, such as "the function 'etl:clean'"."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


def _no_scope(_: object) -> Any:
    raise CircuitError("expected a plain value, got a nested scope", code="invalid-circuit-file")


WriteScope = Callable[[Graph], Mapping[str, Any]]
"""Writes a nested scope."""


@dataclass(frozen=True)
class DecodeContext:
    """The context of reading besides the JSON values: all that a text may name."""

    classes: Mapping[str, type]
    """The classes of operators and their parts, by their written names."""
    functions: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """The functions of rows, by their written names."""
    functors: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """The functions of a Datalog program's functors."""
    scope: Callable[[Mapping[str, Any]], Graph] = _no_scope
    """Builds a nested scope."""
    origins: Mapping[tuple[Any, ...], Origin[Expression]] = dataclasses.field(default_factory=dict)
    """By the key of a call, where it was written in a program: JSON does not have that."""

    def placed(self, call: Call) -> Call:
        """The call with its place in the program."""
        return dataclasses.replace(call, origin=self.origins.get(call.key))


# --- writing -------------------------------------------------------------------------------------


def encode(value: Any, scope: WriteScope = _no_scope) -> Any:
    """Return a field of an operator as JSON values. Raises CircuitError if it cannot be written."""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        raise CircuitError(
            f"{shorten(value)} cannot be written as JSON, because it has more than 4300 digits",
            code="not-serialisable",
        )
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is tuple:
        return [encode(item, scope) for item in value]
    tag = _BY_TYPE.get(type(value))
    if tag is not None:
        return {tag.name: tag.write(value)}
    if isinstance(value, Expression):
        return _encode_expression(value)
    if isinstance(value, Functor):
        return _encode_functor(value)
    if isinstance(value, Graph):
        return {"scope": scope(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": class_name(type(value)), "fields": dict(_fields(value, scope))}
    if callable(value):
        return {"function": importable_name(value)}
    raise CircuitError(
        f"{shorten(value)} of type {type(value).__name__} cannot be written as JSON", code="not-serialisable"
    )


def _encode_expression(value: Expression) -> Any:
    if isinstance(value, Column):
        return {"column": value.name}
    if isinstance(value, Literal):
        return {"literal": encode(value.value)} | ({} if value.type is None else {"of": value.type.written})
    if isinstance(value, FunctorCall):
        return {**_encode_functor(value.functor), "arguments": _encode_arguments(value)}
    if not isinstance(value, Call):
        raise CircuitError(
            f"the expression {value!r} of type {type(value).__name__} cannot be written as JSON",
            code="not-serialisable",
        )
    return {"call": value.function, "arguments": _encode_arguments(value)}


def _encode_functor(functor: Functor) -> dict[str, Any]:
    types = [type_.written for type_ in (*functor.parameters, functor.result)]
    return {"functor": functor.name, "types": types}


def _encode_arguments(call: Call) -> list[Any]:
    return [_encode_expression(argument) for argument in call.arguments]


def _fields(value: Any, scope: WriteScope) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the value that differ from their default."""
    for field in dataclasses.fields(value):
        if field.init:
            written = encode(getattr(value, field.name), scope)
            # Compare the written forms, since `==` between expressions builds another expression.
            if field.default is dataclasses.MISSING or written != encode(field.default):
                yield field.name, written


# --- reading -------------------------------------------------------------------------------------


def decode(written: Any, reading: DecodeContext) -> Any:
    """Return the value that `encode` wrote. Raises CircuitError."""
    if isinstance(written, list):
        return tuple(decode(item, reading) for item in written)
    if not isinstance(written, dict):
        return written
    if "class" in written:
        cls = _class(written["class"], reading)
        fields = {name: decode(value, reading) for name, value in written["fields"].items()}
        try:
            value = cls(**fields)
        except TypeError as error:
            raise CircuitError(
                f"{written['class']} does not have the fields {', '.join(fields)}: {error}",
                code="invalid-circuit-file",
            ) from None
        check_fields(value)
        return value
    if "functor" in written and "arguments" not in written:
        return _decode_functor(written, reading)
    if not written.keys().isdisjoint(("call", "column", "functor", "literal")):
        return _decode_expression(written, reading)
    if len(written) == 1:
        ((name, value),) = written.items()
        if name == "scope":
            return reading.scope(value)
        if name == "function":
            return _function(value, reading)
        if name in _BY_NAME:
            return _BY_NAME[name].read(value)
    raise CircuitError(
        f"unknown kind of value with the keys {', '.join(written)}", code="invalid-circuit-file"
    )


def _decode_expression(written: Mapping[str, Any], reading: DecodeContext) -> Expression:
    if "column" in written:
        return Column(written["column"])
    if "literal" in written:
        type_ = as_type(written["of"]) if "of" in written else None
        return Literal(decode(written["literal"], dataclasses.replace(reading, scope=_no_scope)), type_)
    arguments = tuple(_decode_expression(argument, reading) for argument in written["arguments"])
    if "call" in written:
        return reading.placed(Call(written["call"], arguments))
    functor = _decode_functor(written, reading)
    return reading.placed(FunctorCall(f"@{functor.name}", arguments, functor))


def _decode_functor(written: Mapping[str, Any], reading: DecodeContext) -> Functor:
    name = written["functor"]
    function = reading.functors.get(name)
    if function is None:
        raise MissingPartError(
            f"the functor '{name}'",
            f"the circuit calls the functor '{name}', whose function is not in the file; pass it, as in "
            f'from_json(text, functors={{"{name}": function}})',
        )
    *parameters, result = map(as_type, written["types"])
    return Functor(name, tuple(parameters), result, function)


def _class(name: Any, reading: DecodeContext) -> Any:
    cls = reading.classes.get(name) if isinstance(name, str) else None
    if cls is not None:
        return cls
    if isinstance(name, str) and ":" in name:
        short = name.rpartition(":")[2]
        raise MissingPartError(
            f"the class '{name}'",
            f"the circuit has an operator of the class '{name}', which is not part of dbsp; if you trust the"
            f" circuit, pass the class, as in from_json(text, operators=[{short}])",
        )
    hint = did_you_mean(name, reading.classes) if isinstance(name, str) else None
    raise CircuitError(
        f"unknown operator {shorten(name)}{f'; {hint}' if hint else ''}", code="invalid-circuit-file"
    )


def _function(name: Any, reading: DecodeContext) -> Callable[..., Any]:
    function = reading.functions.get(name) if isinstance(name, str) else None
    if function is None:
        short = str(name).rpartition(":")[2]
        raise MissingPartError(
            f"the function {shorten(name)}",
            f"the circuit calls the function {shorten(name)}, which was not passed; if you trust the circuit,"
            f" pass the function, as in from_json(text, functions=[{short}])",
        )
    return function
