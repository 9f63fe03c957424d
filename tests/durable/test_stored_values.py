"""The values of checkpoints: a typed encoding for each kind, and pickle only on request."""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import enum
import fractions
import json
import pickle
import uuid
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import ArgumentError, Branch, CheckpointError, Circuit, Record, Run, col
from dbsp.data.interner import Interner
from dbsp.durable import Store
from dbsp.durable.array_frames import frames, read_frames
from dbsp.durable.interner_file import restore_values, values_piece
from dbsp.durable.sealed_files import read_sealed, seal
from dbsp.durable.typed_values import Decoding, Encoding, PickleRefusedError, UnsupportedValueError
from tests.harness import views

ZONES = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=-3, minutes=-30)),
        dt.timezone(dt.timedelta(hours=1), "home"),
        zoneinfo.ZoneInfo("Europe/Berlin"),
    ]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters(codec=None))  # with unpaired surrogates
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.complex_numbers(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times(timezones=ZONES)
    | st.datetimes(timezones=ZONES)
    | st.timedeltas()
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(Record)
        | st.frozensets(inner, max_size=3)
        | st.lists(inner, max_size=2).map(lambda parts: Branch("B", *parts))
    ),
    max_leaves=6,
)


def shown(value: Any) -> str:
    """The value with its classes, and sets in an order."""
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, frozenset):
        return f"set({', '.join(sorted(map(shown, value)))})"
    if isinstance(value, Branch):
        return f"${value.name}({', '.join(map(shown, value.arguments))})"
    zone = getattr(value, "tzinfo", None)
    return f"{type(value).__name__} {value!r} {zone and zone.tzname(None)} {getattr(value, 'fold', '')}"


@given(st.lists(VALUES, max_size=8))
def test_values_are_read_back_with_their_classes(values: list[Any]) -> None:
    interner = Interner()
    interner.encode("before")
    for value in values:
        interner.encode(value)
    piece, refused = values_piece(interner, 1, len(interner), allow_pickle=False)
    assert not refused
    read = json.loads(
        json.dumps(piece, ensure_ascii=False)
        .encode("utf-8", "surrogatepass")
        .decode("utf-8", "surrogatepass")
    )
    again = Interner()
    again.encode("before")
    restore_values(again, read, allow_pickle=False)
    assert [shown(again.decode(code)) for code in range(len(again))] == [
        shown(interner.decode(code)) for code in range(len(interner))
    ]


def test_a_long_linked_list_is_no_deep_document() -> None:
    interner, value = Interner(), None
    for number in range(20_000):
        value = (number, value)
    interner.encode(value)
    piece = json.loads(json.dumps(values_piece(interner, 0, len(interner), allow_pickle=False)[0]))
    again = Interner()
    restore_values(again, piece, allow_pickle=False)
    assert len(again) == 20_000
    assert again.decode(19_999)[0] == 19_999


@pytest.mark.parametrize(
    "piece",
    [
        {"start": 1, "values": [], "layouts": []},
        {"start": 0, "values": ["a", "a"], "layouts": []},
        {"start": 0, "values": [{"known": 3}], "layouts": []},
        {"start": 0, "values": ["a", {"tuple": [{"known": 0}]}], "layouts": []},
        {"start": 0, "values": [{"cell": [0, 5]}], "layouts": [["", [True]]]},
        {"start": 0, "values": [{"cell": [0, 5, 6]}], "layouts": [["", [False]]]},
        {"start": 0, "values": [{"cell": [4, 5]}], "layouts": []},
        {"start": 0, "values": [{"nothing": 1}], "layouts": []},
        {"start": 0, "values": [[1]], "layouts": []},
        {"start": 0, "values": [{"date": "1"}], "layouts": []},
        {"start": 0, "values": [{"datetime": ["2024-01-01T00:00:00", 0, "No/Where"]}], "layouts": []},
        {"start": 0},
    ],
)
def test_pieces_of_a_wrong_form(piece: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
        restore_values(Interner(), piece, allow_pickle=False)


def test_frames_are_bounded_by_their_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    arrays = [np.arange(3), np.empty(0, np.int64), np.arange(4).reshape(2, 2)]
    path.write_bytes(b"".join(seal("id/file", frames({"a": "\ud800é"}, arrays)).parts))  # type: ignore[arg-type]
    head, read = read_frames(read_sealed(path, "id/file"))
    assert head == {"a": "\ud800é"}
    assert [array.tolist() for array in read] == [[0, 1, 2], [], [0, 1, 2, 3]]
    read[0][0] = 9  # kernels take writable arrays
    for text in ("[null,[10000000000]]", "[null,[-1]]", "[null]", "{", '[null,["a"]]', "[" * 100_000):
        written = text.encode()
        content = len(written).to_bytes(8, "little") + written + bytes(-len(written) % 8)
        path.write_bytes(b"".join(seal("id/file", [content]).parts))  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match=r"its content is not as expected .*checkpoint-unreadable"):
            read_frames(read_sealed(path, "id/file"))


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


class Colour(enum.Enum):
    RED = 1


def objects() -> Circuit:
    circuit = Circuit("objects")
    circuit.output("out", circuit.input("edge", n=int, x=object).map(x=col("x")))
    return circuit


@pytest.mark.parametrize(
    "value", [Colour.RED, Point(1, 2), (1, (2, Colour.RED)), frozenset({Colour.RED}), len]
)
def test_values_of_other_classes_are_refused_with_their_column(tmp_path: Path, value: Any) -> None:
    run = objects().start(checkpoint=tmp_path)
    run.step({"edge": [(1, "a")]})
    with pytest.raises(CheckpointError) as caught:
        run.step({"edge": [(2, value)]})
    assert caught.value.code == "checkpoint-write"
    assert caught.value.message.startswith("column 'x' of input 'edge' holds ")
    assert "of class" in caught.value.message
    assert "or Store(folder, allow_pickle=True); the tick was rolled back" in caught.value.message
    assert run.tick == 1
    assert run.step({"edge": [(3, "b")]}).number == 2
    with pytest.raises(CheckpointError, match="column 'x' of input 'edge' holds "):  # the same again
        run.step({"edge": [(2, value)]})
    run.input("edge").insert([(4, (value, "part"))])
    with pytest.raises(CheckpointError, match="column 'x' of input 'edge' holds "):
        run.step()
    assert run.log is not None
    run.log.snapshot()
    run.log.close()
    again = objects().start(checkpoint=tmp_path)
    assert again.view("out").rows() == [("a",), ("b",)]
    again.step({"edge": [(5, ("c", "d"))]})
    again.log.close()  # type: ignore[union-attr]


def test_a_value_that_a_function_returns_is_refused_with_its_column(tmp_path: Path) -> None:
    from dbsp import Schema

    circuit = Circuit("computed")
    colours = circuit.input("n", x=int).map(lambda row: (Colour.RED,), Schema.of(c=object))
    circuit.output("out", colours)
    run = circuit.start(checkpoint=tmp_path)
    with pytest.raises(
        CheckpointError, match=r"column 'c' of .* holds <Colour.RED: 1> of class Colour, which"
    ):
        run.step({"n": [(1,)]})
    assert run.tick == 0


def pickling(folder: Path, allow_pickle: bool) -> Run:
    return objects().start(checkpoint=Store(folder, sync=False, allow_pickle=allow_pickle))


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_pickle_is_asked_for_twice(tmp_path: Path, snapshot: bool, later: bool) -> None:
    if later:
        pickling(tmp_path, False).log.close()  # type: ignore[union-attr]
    run = pickling(tmp_path, True)
    run.step({"edge": [(1, Colour.RED), (2, Point(1, 2))]})
    assert run.log is not None
    if snapshot:
        run.log.snapshot()
    run.log.close()
    with pytest.raises(CheckpointError) as caught:
        pickling(tmp_path, False)
    assert str(caught.value) == (
        f"{tmp_path} has pickled values, which can run any code when they are read; if you trust the folder, "
        "open it with Store(folder, allow_pickle=True) [checkpoint-pickle]"
    )
    run = pickling(tmp_path, True)
    assert set(run.view("out").rows()) == {(Colour.RED,), (Point(1, 2),)}
    assert {type(x) for (x,) in run.view("out").rows()} == {Colour, Point}
    run.log.close()  # type: ignore[union-attr]


def test_with_pickle_a_value_may_still_be_impossible(tmp_path: Path) -> None:
    run = pickling(tmp_path, True)
    with pytest.raises(
        CheckpointError, match=r"holds <function .*which a checkpoint does not store \(.*pickle"
    ):
        run.step({"edge": [(1, lambda: 1)]})
    assert run.tick == 0


class Exploit:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_in_a_file_is_not_read_without_leave(tmp_path: Path) -> None:
    """Even if the manifest claims that there are none, and every checksum is right."""
    written = {"pickle": base64.b64encode(pickle.dumps(Exploit(tmp_path / "ran"))).decode()}
    with pytest.raises(PickleRefusedError):
        Decoding().decode(written)
    with pytest.raises(UnsupportedValueError):
        Encoding().encode(Exploit(tmp_path / "ran"))
    run = pickling(tmp_path / "run", False)
    assert isinstance(run.log, Store)
    head = {
        "label": None,
        "interned": 1,
        "values": {"start": 0, "values": [written], "layouts": []},
        "inputs": [],
    }
    run.log._journal.write(1, head, [])
    run.log.close()
    with pytest.raises(CheckpointError, match="has pickled values"):
        pickling(tmp_path / "run", False)
    assert not (tmp_path / "ran").exists()


def test_codes_that_no_value_has(tmp_path: Path) -> None:
    def circuit() -> Circuit:
        made = Circuit("codes")
        made.output("out", made.input("a", s=str, d=dt.date, b=bool))
        return made

    rows = [
        ([[5, 0, 0]], "column 's' of type str has the code 5"),
        ([[0, 2**40, 0]], "column 'd'"),
        ([[0, 0, 2]], "column 'b'"),
        ([[0, 0, 1], [0, 0, 0]], "not in ascending order"),
        ([[0, 0]], "expected 1 rows of 3 columns"),
    ]
    for number, (codes, message) in enumerate(rows):
        folder = tmp_path / str(number)
        run = circuit().start(checkpoint=Store(folder, sync=False))
        assert isinstance(run.log, Store)
        head = {
            "label": None,
            "interned": 1,
            "values": {"start": 0, "values": ["x"], "layouts": []},
            "inputs": [["a", 3]],
        }
        run.log._journal.write(1, head, [np.array(codes), np.ones(len(codes), np.int64)])
        run.log.close()
        with pytest.raises(CheckpointError, match=rf"1\.ticks: its content is not as expected .*{message}"):
            circuit().start(checkpoint=folder)


def test_a_label_that_is_not_json(tmp_path: Path) -> None:
    run = objects().start(checkpoint=tmp_path)
    circular: list[Any] = []
    circular.append(circular)
    for label in ({1}, circular, b"", decimal.Decimal(1), fractions.Fraction(1), uuid.UUID(int=1)):
        with pytest.raises(ArgumentError, match="label: expected a JSON value, got"):
            run.step({"edge": [(1, "a")]}, label=label)
    assert run.tick == 0


def test_a_constructor_without_fields_is_read_back(tmp_path: Path) -> None:
    program = dbsp.compile("""
        .type Option = None {} | Some { n: number }
        .decl a(x: number) .input a
        .decl p(c: Option) .output p
        p($None) :- a(_).
        p($Some(x)) :- a(x), x > 5.
    """)
    run = program.start(checkpoint=tmp_path)
    run.step({"a": [(1,), (7,)]})
    before = views(run)
    assert isinstance(run.log, Store)
    run.log.snapshot()
    run.log.close()
    assert views(program.start(checkpoint=tmp_path)) == before
