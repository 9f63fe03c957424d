"""Encoding and decoding of constructed values, without recursion: their nesting has no bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.data.interner import Interner
from dbsp.data.plain_codes import plain_decoder, plain_encoder
from dbsp.data.terms import Branch, Record, term_text
from dbsp.data.types import NIL, Constructor, Structure, Type
from dbsp.errors import DbspError, InputError, at_place, counted, shorten


def encode_term(structure: Structure, value: Any, interner: Interner) -> int:
    """Return the code of a record (any tuple, None for nil) or a branch.

    Shared parts are encoded once. Raises InputError or ValueOutOfRangeError, which name the field
    that does not fit.
    """
    frames: list[_Frame] = []
    encoded: dict[tuple[int, int], int] = {}
    known = interner.codes_of_terms(structure)
    while True:
        code = NIL if value is None and structure.is_record else known.get(id(value))
        if code is None:
            code = encoded.get((id(structure), id(value)))
        if code is None:
            frames.append(_Frame(structure, value))
        else:
            if not frames:
                return code
            frames[-1].codes.append(code)
        inner = frames[-1].encode_plain_parts(interner)
        while inner is None:
            done = frames.pop()
            code = interner.construct_one(done.constructor.layout, done.codes)
            encoded[id(done.structure), id(done.value)] = code
            if not frames:
                return code
            frames[-1].codes.append(code)
            inner = frames[-1].encode_plain_parts(interner)
        structure, value = inner
        known = interner.codes_of_terms(structure)


class _Frame:
    """A partly encoded value: the codes of its parts so far."""

    __slots__ = ("codes", "constructor", "parts", "structure", "value")

    def __init__(self, structure: Structure, value: Any) -> None:
        self.structure = structure
        self.value = value
        self.constructor, self.parts = destructure(structure, value)
        self.codes: list[int] = []

    def encode_plain_parts(self, interner: Interner) -> tuple[Structure, Any] | None:
        """Encode parts up to the next constructed one, and return that part; None at the end."""
        fields, codes = self.constructor.fields, self.codes
        while len(codes) < len(fields):
            field, part = fields[len(codes)], self.parts[len(codes)]
            inner = field.type.structure
            if inner is not None:
                return inner, part
            try:
                if field.range is not None and type(part) is int and part not in field.range:
                    raise field.range.refusal(part)  # names the range of the field, not that of all ints
                code = plain_encoder(field.type)(part, interner)
                if field.range is not None and code not in field.range:
                    raise field.range.refusal(code)
            except DbspError as error:
                where = f"field {field.name!r} of {described(self.structure, self.constructor)}"
                raise at_place(error, where) from None
            codes.append(code)
        return None


def destructure(structure: Structure, value: Any) -> tuple[Constructor, Sequence[Any]]:
    """Return the constructor of a value and its parts. Raises InputError."""
    if structure.is_record:
        if not isinstance(value, tuple):
            raise InputError(
                f"expected {structure.name}, a record, got {shorten(value)} of type {type(value).__name__}; "
                "write a record as a tuple and nil as None",
                code="wrong-type",
            )
        constructor = structure.constructors[0]
        parts: Sequence[Any] = value
    else:
        if not isinstance(value, Branch):
            raise InputError(
                f"expected {structure.name}, got {shorten(value)} of type {type(value).__name__}"
                f'; write Branch("{structure.constructors[0].name}", ...)',
                code="missing-value" if value is None else "wrong-type",
            )
        branch = structure.by_name.get(value.name)
        if branch is None:
            names = ", ".join(f"${name}" for name in structure.by_name)
            raise InputError(
                f"unknown branch ${value.name}; the branches of {structure.name} are {names}",
                code="wrong-type",
            )
        constructor, parts = branch, value.arguments
    if len(parts) != len(constructor.fields):
        expected, actual = len(constructor.fields), len(parts)
        text = term_text(value)
        raise InputError(
            f"expected {counted(expected, 'field')} of {described(structure, constructor)}, "
            f"got {actual}: {text if len(text) <= 60 else text[:57] + '...'}",
            code="wrong-arity",
        )
    return constructor, parts


def described(structure: Structure, constructor: Constructor) -> str:
    """Return a constructor as messages name it: the name of the record type, or `$Branch`."""
    return f"${constructor.name}" if constructor.name else structure.name


def decode_term(structure: Structure, code: int, interner: Interner) -> Any:
    """Return the value of a code; equal parts are one object in all decoded values."""
    if code == NIL:
        return None
    values = interner.terms(structure)
    if code in values:
        return values[code]
    stack = [(structure, code)]
    while stack:
        structure, code = stack[-1]
        values = interner.terms(structure)
        if code in values:
            stack.pop()
            continue
        layout, codes = interner.cells.cell(code)
        constructor = structure.by_layout[layout]
        waiting = [
            (inner, part)
            for field, part in zip(constructor.fields, codes, strict=True)
            if (inner := field.type.structure) is not None
            and part != NIL
            and part not in interner.terms(inner)
        ]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        parts = [
            _decode_field(field.type, part, interner)
            for field, part in zip(constructor.fields, codes, strict=True)
        ]
        value = Branch(constructor.name, *parts) if constructor.name else Record(parts)
        values[code] = value
        interner.codes_of_terms(structure)[id(value)] = code
    return values[code]


def _decode_field(type_: Type, code: int, interner: Interner) -> Any:
    """Return a field of a value; constructed fields are decoded before."""
    if type_.structure is None:
        return plain_decoder(type_)(code, interner)
    return None if code == NIL else interner.terms(type_.structure)[code]
