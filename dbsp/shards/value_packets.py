"""Packets of rows between two processes, each with its own interner: every value travels once.

An `Outbox` numbers the interned values that it sends 0, 1, 2, ... and the `Inbox` at the other end
keeps the id of each number in its own interner. A packet has the rows with such numbers in place of
ids, and *pieces* with the values that are new. A value that was sent before costs one look-up per
row at each end.

Numbers are counted per *space*, since the meaning of an id depends on the type of its column: one
space for strings, bytes and objects, and one for each type of lists, structs and records. A piece
refers to the parts of its values by their numbers, so the pieces of parts come before, and nothing
recurses into values.

Ids are never used for another value, also when values are freed. The owner of an Outbox or Inbox
replaces `interner` when the run replaces its own (see `dbsp.data.live_values`). Then an Outbox
begins again; an Inbox reads the pieces again that have freed values, which it keeps for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, lists_of, struct_layout
from dbsp.data.schema import Schema
from dbsp.data.types import NIL, Constructor, Structure, Type
from dbsp.durable.interner_file import restore_values, values_piece
from dbsp.errors import InputError, InvariantError, shorten
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.shards.packet_frames import Buffer, PacketHead, numbers_of, packet, read_packet

_UNKNOWN, _FOUND = -1, -2
_SEPARATORS = ("\0", "\n", "\x1f", "\ufdd0")


def _space_of(type_: Type) -> str:
    """Return the name of the space of an interned type."""
    if type_.kind in ("str", "bytes", "object"):
        return ""
    return type_.written.removesuffix("?")


@lru_cache(maxsize=1024)
def _fingerprint(types: tuple[Type, ...]) -> int:
    return xxhash.xxh3_64_intdigest("; ".join(type_.written for type_ in types).encode())


@lru_cache(maxsize=1024)
def _spaces(types: tuple[Type, ...]) -> dict[str, Type]:
    """Return the types of the spaces that columns of these types need, also for parts."""
    found: dict[str, Type] = {}
    waiting = list(types)
    while waiting:
        type_ = waiting.pop()
        if type_.interned and _space_of(type_) not in found:
            found[_space_of(type_)] = type_
            waiting += [part.type for part in type_.parts]
            if type_.structure is not None:
                waiting += [field.type for made in type_.structure.constructors for field in made.fields]
    return found


# --- the sender -----------------------------------------------------------------------------------


class _Numbers:
    """The numbers of the values of one space, by the places of their ids; -1 for the others."""

    def __init__(self) -> None:
        self.by_place = np.full(16, _UNKNOWN, np.int64)
        self.used = 0

    def fit(self, count: int) -> None:
        """Make space for so many places."""
        if count > len(self.by_place):
            grown = np.full(2 * count, _UNKNOWN, np.int64)
            grown[: len(self.by_place)] = self.by_place
            self.by_place = grown

    def number(self, places: Codes) -> None:
        """Give the next numbers to the values at these places."""
        self.by_place[places] = np.arange(self.used, self.used + len(places))
        self.used += len(places)


class Outbox:
    """The sending end of a connection."""

    def __init__(self, interner: Interner, allow_pickle: bool = False) -> None:
        self.interner = interner
        """The interner of the rows to send; the owner replaces it as the run does."""
        self._allow_pickle = allow_pickle
        self.reset()

    def reset(self) -> None:
        """Forget what was sent: the next packet makes the other end forget all earlier ones."""
        self._numbers: dict[str, _Numbers] = {}
        self._sent = 0
        self._generation = self.interner.generation
        self._pieces: list[Any] = []
        self._arrays: list[Codes | bytes] = []

    def pack(self, batch: Batch | None, schema: Schema) -> list[Buffer]:
        """Return the buffers of a packet with these rows; none for no rows.

        The buffers show the memory of the batch. Raises InputError for a value without a typed
        encoding; the next packet then begins again.
        """
        if batch is None or not len(batch):
            return []
        if self.interner.generation != self._generation:
            self.reset()
        try:
            return self._packet(batch, schema)
        except BaseException:
            self.reset()
            raise

    def _packet(self, batch: Batch, schema: Schema) -> list[Buffer]:
        self._pieces, self._arrays = [], []
        rows = batch.rows
        for column, type_ in enumerate(schema.types):
            if type_.interned:
                if rows is batch.rows:
                    rows = rows.copy()
                try:
                    rows[:, column] = self._column(batch.rows[:, column], type_)
                except _UnsentValueError as error:
                    raise error.named(schema.names[column]) from None
        units = bool((batch.weights == 1).all())
        content = [len(batch), units, self._pieces]
        head = PacketHead(not self._sent, self._sent, _fingerprint(schema.types), content)
        arrays = [*self._arrays, rows, *([] if units else [batch.weights])]
        buffers = packet(head, arrays)
        self._sent += 1
        self._pieces, self._arrays = [], []
        return buffers

    def _add(self, form: str, space: str, details: Any, arrays: Sequence[Codes | bytes]) -> None:
        self._pieces.append([form, space, details, len(arrays)])
        self._arrays += arrays

    def _space(self, name: str) -> _Numbers:
        numbers = self._numbers.get(name)
        if numbers is None:
            numbers = self._numbers[name] = _Numbers()
        numbers.fit(len(self.interner))
        return numbers

    def _column(self, codes: Codes, type_: Type) -> Codes:
        """Return the numbers of the values of a column; send those that are new."""
        if not type_.interned:
            return codes
        present = codes >= 0  # the others are NULL and NIL
        ids = codes[present]
        places = self.interner.places.of(ids)
        space = self._space(_space_of(type_))
        new = space.by_place[places] < 0
        if new.any():
            self._send(np.unique(ids[new]), type_)
        numbers = codes.copy()
        numbers[present] = space.by_place[places]
        return numbers

    def _send(self, ids: Codes, type_: Type) -> None:
        interner = self.interner
        if type_.structure is not None:
            self._send_records(ids, type_.structure)
            return
        if type_.kind == "struct":
            rows = interner.cells.rows(struct_layout(type_), ids)
            for at, part in enumerate(type_.parts):
                rows[:, at] = self._column(rows[:, at], part.type)
            self._add("structs", _space_of(type_), None, [rows])
        elif type_.kind == "list":
            elements, lengths = list_elements(ids, interner)
            elements = self._column(elements, type_.element)
            self._add("lists", _space_of(type_), None, [lengths, elements])
        else:
            self._send_plain(ids)
            return
        self._space(_space_of(type_)).number(interner.places.of(ids))

    # --- strings, bytes and objects ---------------------------------------------------------------

    def _send_plain(self, ids: Codes) -> None:
        space = self._numbers[""]
        values = self.interner.decode_many(ids)
        places = self.interner.places.of(ids)
        if set(map(type, values)) == {str}:
            for separator in _SEPARATORS:
                joined = separator.join(values)
                if joined.count(separator) == len(values) - 1:
                    self._add("texts", "", separator, [joined.encode("utf-8", "surrogatepass")])
                    space.number(places)
                    return
        # Tuples in tuples are values of their own here, so nesting has no limit.
        gathered = Interner()
        numbers = gathered.encode_many(values)
        piece, refused = values_piece(gathered, 0, gathered.end, self._allow_pickle)
        if refused:
            raise _UnsentValueError(next(iter(refused.values())))
        self._add("values", "", piece, [])
        space.by_place[places] = space.used + numbers
        space.used += gathered.end

    # --- records and branches ---------------------------------------------------------------------

    def _send_records(self, ids: Codes, structure: Structure) -> None:
        """Send values and their parts: groups of one constructor each, parts before wholes."""
        cells, places = self.interner.cells, self.interner.places
        kinds: list[tuple[Structure, int]] = []
        found: list[tuple[Codes, int]] = []
        for kind, members in self._unsent(ids, structure):
            if kind not in kinds:
                kinds.append(kind)
            found.append((members, kinds.index(kind)))
        members = np.concatenate([part for part, _ in found])
        kind_of = np.repeat([kind for _, kind in found], [len(part) for part, _ in found])
        depths = cells.depths(members)
        order = np.lexsort((kind_of, depths))
        members, kind_of, depths = members[order], kind_of[order], depths[order]
        for number, (structure, _) in enumerate(kinds):
            same = [n for n, (other, _) in enumerate(kinds) if other == structure]
            if same[0] == number:
                chosen = members[np.isin(kind_of, same)]
                self._space(structure.text).number(places.of(chosen))
        matrices = []
        for number, (structure, constructor) in enumerate(kinds):
            rows = cells.rows(structure.constructors[constructor].layout, members[kind_of == number])
            for at, field in enumerate(structure.constructors[constructor].fields):
                rows[:, at] = self._column(rows[:, at], field.type)
            matrices.append(rows)
        starts = np.flatnonzero((np.diff(kind_of, prepend=-1) != 0) | (np.diff(depths, prepend=-1) != 0))
        groups = np.column_stack((kind_of[starts], np.diff(starts, append=len(members))))
        listed = [[structure.text, constructor] for structure, constructor in kinds]
        self._add("records", "", listed, [groups, *matrices])

    def _unsent(self, ids: Codes, structure: Structure) -> Iterator[tuple[tuple[Structure, int], Codes]]:
        """Yield the values without a number and their parts, by constructor; mark them."""
        cells, places = self.interner.cells, self.interner.places
        waiting = [(structure, ids)]
        while waiting:
            structure, ids = waiting.pop()
            space = self._space(structure.text)
            ids = ids[space.by_place[places.of(ids)] == _UNKNOWN]
            space.by_place[places.of(ids)] = _FOUND
            left = len(ids)
            for constructor, made in enumerate(structure.constructors):
                members = ids[cells.has_layout(made.layout, ids)]
                if not len(members):
                    continue
                left -= len(members)
                yield (structure, constructor), members
                rows = cells.rows(made.layout, members)
                for at, field in enumerate(made.fields):
                    if field.type.structure is not None:
                        parts = rows[:, at]
                        waiting.append((field.type.structure, np.unique(parts[parts >= 0])))
            if left:
                raise InvariantError(f"expected values of {structure.name}, got ids of others")


class _UnsentValueError(Exception):
    """A value has no typed encoding."""

    def named(self, column: str) -> InputError:
        """Return the error for a column."""
        (refused,) = self.args
        value = refused.value
        reason = refused.reason and f" ({refused.reason})"
        return InputError(
            f"column {column!r} holds {shorten(value)} of class {type(value).__name__}, which one shard "
            f"cannot send to another{reason}; use values of the standard classes, such as tuples, strings "
            "and numbers, or run on one shard",
            code="unsupported-value",
        )


# --- the receiver ---------------------------------------------------------------------------------


class _Ids:
    """The ids of the values of one space, by number; -1 for those that were freed."""

    def __init__(self) -> None:
        self.by_number = np.empty(16, np.int64)
        self.used = 0

    def append(self, ids: Codes) -> None:
        end = self.used + len(ids)
        if end > len(self.by_number):
            grown = np.empty(2 * end, np.int64)
            grown[: self.used] = self.by_number[: self.used]
            self.by_number = grown
        self.by_number[self.used : end] = ids
        self.used = end


Piece = tuple[str, str, Any, list[bytes]]
"""The form of a piece, its space, what the form needs besides, and its arrays."""

_WITH_PARTS = ("structs", "lists", "records")
"""The forms of pieces that refer to earlier values by number."""


class Inbox:
    """The receiving end of a connection."""

    def __init__(self, interner: Interner, allow_pickle: bool = False) -> None:
        self.interner = interner
        """The interner of the received rows; the owner replaces it as the run does."""
        self._allow_pickle = allow_pickle
        self.reset()

    def reset(self) -> None:
        """Forget all packets: the next one must be the first after a reset of the other end."""
        self._ids: dict[str, _Ids] = {}
        self._received = 0
        self._generation = self.interner.generation
        self._kept: list[Piece] = []
        self._freed = False
        self._types: dict[str, Type] = {}

    def unpack(self, buffers: Sequence[Buffer], schema: Schema) -> Batch | None:
        """Return the rows of a packet, or None for no buffers.

        The rows are views of the buffers where possible. Raises InvariantError for a packet that is
        damaged, of other columns, or not the next one.
        """
        parts = self.unpack_rows(buffers, schema)
        if parts is None:
            return None
        rows, weights = parts
        if any(type_.interned for type_ in schema.types):
            rows, weights = consolidate(rows, weights)
        return Batch(rows, weights)

    def unpack_rows(self, buffers: Sequence[Buffer], schema: Schema) -> tuple[Codes, Codes] | None:
        """Do as `unpack`, but return rows and weights that are not sorted.

        They are sorted if no column is interned.
        """
        if not buffers:
            return None
        try:
            return self._rows(buffers, schema)
        except BaseException:
            self.reset()
            raise

    def _rows(self, buffers: Sequence[Buffer], schema: Schema) -> tuple[Codes, Codes]:
        head, arrays = read_packet(buffers)
        if head.fresh:
            self.reset()
        if head.number != self._received:
            raise InvariantError(
                f"expected packet {self._received} of this connection, got packet {head.number}"
            )
        if head.fingerprint != _fingerprint(schema.types):
            raise InvariantError(f"expected a packet of rows ({schema.describe()}), got one of other columns")
        self._types |= _spaces(schema.types)
        count, units, pieces = head.content
        self._drop_freed()
        if self._freed and any(form in _WITH_PARTS for form, *_ in pieces):
            self._read_again()
        at = 0
        for form, space, details, used in pieces:
            # A copy, since the buffer may show the memory of the whole packet.
            piece = (form, space, details, list(map(bytes, arrays[at : at + used])))
            self._receive(piece)
            self._kept.append(piece)
            at += used
        rows = numbers_of(arrays[at], schema.arity) if schema.arity else np.empty((count, 0), np.int64)
        weights = np.ones(count, np.int64) if units else numbers_of(arrays[at + 1])
        if len(rows) != count or len(weights) != count:
            raise InvariantError("expected a packet with as many rows as weights")
        interned = [column for column, type_ in enumerate(schema.types) if type_.interned]
        if interned:
            rows = rows.copy()
        for column in interned:
            rows[:, column] = self._column(rows[:, column], schema.types[column])
        self._received += 1
        return rows, weights

    def _column(self, numbers: Codes, type_: Type) -> Codes:
        """Return the codes of a column of numbers."""
        if not type_.interned:
            return numbers
        codes = self._found(numbers, type_)
        if codes is None and self._freed:
            self._read_again()
            codes = self._found(numbers, type_)
        if codes is None:
            raise InvariantError("expected values that were received, got values that were freed")
        return codes

    def _found(self, numbers: Codes, type_: Type) -> Codes | None:
        """Do as `_column`; return None if a value was freed."""
        present = numbers >= 0
        wanted = numbers[present]
        space = self._ids.get(_space_of(type_)) or _Ids()
        if len(wanted) and wanted.max() >= space.used:
            raise InvariantError("expected numbers of values that were received, got a larger one")
        if len(wanted) < len(numbers):
            absent = numbers[~present]
            if not ((absent == NULL) | (absent == NIL)).all():
                raise InvariantError("expected numbers of values, got a negative one")
        ids = space.by_number[wanted]
        if len(ids) and ids.min() < 0:
            return None
        codes = numbers.copy()
        codes[present] = ids
        return codes

    # --- values that were freed -------------------------------------------------------------------

    def _drop_freed(self) -> None:
        """After values were freed, note which of the received ones have no id any more."""
        if self.interner.generation != self._generation:
            for space in self._ids.values():
                ids = space.by_number[: space.used]
                lost = ~self.interner.has_ids(ids)
                self._freed |= bool(lost.any())
                ids[lost] = _UNKNOWN
            self._generation = self.interner.generation

    def _read_again(self) -> None:
        """Give ids to all received values again; those that were not freed have theirs already."""
        self._ids, self._freed = {}, False
        for piece in self._kept:
            self._receive(piece)

    # --- pieces -----------------------------------------------------------------------------------

    def _receive(self, piece: Piece) -> None:
        form, name, details, buffers = piece
        interner = self.interner
        if form == "records":
            self._receive_records(details, buffers)
            return
        if form == "texts":
            values = buffers[0].decode("utf-8", "surrogatepass").split(details)
            ids = interner.encode_plain(values)
        elif form == "values":
            gathered = Interner()
            restore_values(gathered, details, self._allow_pickle)
            ids = interner.encode_many(gathered.decode_many(gathered.ids))
        elif form == "structs":
            type_ = self._types[name]
            rows = numbers_of(buffers[0], len(type_.parts)).copy()
            for at, part in enumerate(type_.parts):
                rows[:, at] = self._column(rows[:, at], part.type)
            ids = interner.construct(struct_layout(type_), rows)
        elif form == "lists":
            elements = self._column(numbers_of(buffers[1]), self._types[name].element)
            ids = lists_of(elements, numbers_of(buffers[0]).tolist(), interner)
        else:
            raise InvariantError(f"expected a piece of a known form, got {form!r}")
        self._ids.setdefault(name, _Ids()).append(ids)

    def _receive_records(self, listed: Any, buffers: Sequence[bytes]) -> None:
        kinds: list[tuple[str, Constructor]] = []
        matrices: list[Codes] = []
        groups = numbers_of(buffers[0], 2)
        for number, ((name, constructor), buffer) in enumerate(zip(listed, buffers[1:], strict=True)):
            structure = self._types[name].structure
            if structure is None:
                raise InvariantError(f"expected the records of a structure, got {name}")
            made = structure.constructors[constructor]
            kinds.append((name, made))
            count = int(groups[groups[:, 0] == number, 1].sum())
            matrices.append(self._plain_fields(made, numbers_of(buffer).reshape(count, -1)))
        taken = [0] * len(kinds)
        for kind, count in groups.tolist():
            name, made = kinds[kind]
            start = taken[kind]
            taken[kind] += count
            rows = matrices[kind][start : start + count]
            for at, field in enumerate(made.fields):
                if field.type.structure is not None:
                    rows[:, at] = self._column(rows[:, at], field.type)
            self._ids.setdefault(name, _Ids()).append(self.interner.construct(made.layout, rows))

    def _plain_fields(self, made: Constructor, rows: Codes) -> Codes:
        """Return the fields of values of one constructor; constructed parts keep their numbers."""
        rows = rows.copy()
        for at, field in enumerate(made.fields):
            if field.type.structure is None:
                rows[:, at] = self._column(rows[:, at], field.type)
        return rows
