"""An interner whose values are freed now and then, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dbsp import Branch, Record
from dbsp.data.id_places import IdPlaces
from dbsp.data.interner import Interner
from dbsp.data.live_values import LiveValues, PartTypes
from dbsp.data.repeated_values import RepeatedValues
from dbsp.data.types import OBJECT, STR, Layout, Type, list_type, struct_type
from dbsp.data.values import decode_value, encode_value
from tests.data.test_interner import VALUES, text_of
from tests.profiles import examples

PAIR = struct_type({"a": STR, "b": list_type(STR)})
PAIRS = st.tuples(st.text("ab", max_size=2), st.lists(st.text("ab", max_size=2), max_size=2))
TYPED: st.SearchStrategy[tuple[Type, Any]] = (
    VALUES.map(lambda value: (OBJECT, (value,)))
    | st.frozensets(VALUES, max_size=2).map(lambda value: (OBJECT, value))
    | st.text("abc", max_size=3).map(lambda value: (STR, value))
    | PAIRS.map(lambda value: (PAIR, value))
    | st.lists(PAIRS, max_size=2).map(lambda value: (list_type(PAIR), value))
)


class FreedIds(RuleBasedStateMachine):
    """Values with types, by a text that tells equal ones from others."""

    def __init__(self) -> None:
        super().__init__()
        self.interner = Interner()
        self.known: dict[str, tuple[Type, Any, int]] = {}
        self.freed: set[int] = set()
        self.earlier: list[tuple[Interner, dict[str, tuple[Type, Any, int]]]] = []

    @staticmethod
    def name(type_: Type, value: Any) -> str:
        if isinstance(value, frozenset):
            return f"{type_} {sorted(map(text_of, value))}"
        return f"{type_} {text_of(tuple(value) if isinstance(value, list) else value)}"

    @rule(pair=TYPED)
    def add(self, pair: tuple[Type, Any]) -> None:
        type_, value = pair
        end, code = self.interner.end, encode_value(type_, value, self.interner)
        known = self.known.setdefault(self.name(type_, value), (type_, value, code))
        assert known[2] == code
        assert code not in self.freed or code >= end

    @rule(texts=st.lists(st.text("abcd", max_size=2), max_size=6))
    def add_many(self, texts: list[str]) -> None:
        codes = self.interner.encode_many(texts)
        assert self.interner.decode_many(codes) == texts
        for text, code in zip(texts, codes.tolist(), strict=True):
            assert self.known.setdefault(self.name(STR, text), (STR, text, code))[2] == code

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        kept = {name: entry for name, entry in self.known.items() if data.draw(st.booleans())}
        parts = PartTypes()
        parts.add([OBJECT, PAIR, list_type(PAIR)])
        parts.unknown = data.draw(st.booleans())
        live = LiveValues(self.interner, parts)
        for type_, _, code in kept.values():
            if data.draw(st.booleans()):
                live.add_rows(np.array([[7, code]]), [Type("int"), type_])
            else:
                live.add_any({"x": ([code],)})
        live.add_parts()
        self.earlier.append((self.interner, dict(self.known)))
        self.interner = self.interner.some(live.marks)
        ids = set(self.interner.ids.tolist())
        self.freed |= {code for _, _, code in self.known.values()} - ids
        # Parts of values that were kept stay known.
        self.known = {name: entry for name, entry in self.known.items() if entry[2] in ids}
        assert kept.keys() <= self.known.keys()

    @rule(by=st.integers(0, 3))
    def skip(self, by: int) -> None:
        self.interner.skip_to(self.interner.end + by)

    @invariant()
    def values_are_decoded(self) -> None:
        for interner, known in ((self.interner, self.known), *self.earlier[-1:]):
            for name, (type_, _, code) in known.items():
                assert self.name(type_, decode_value(type_, code, interner)) == name or type_ in (
                    PAIR,
                    list_type(PAIR),
                )

    @invariant()
    def freed_ids_have_no_value(self) -> None:
        ids = self.interner.ids
        assert len(ids) == len(self.interner) and (np.diff(ids) > 0).all()
        assert not len(ids) or ids[-1] < self.interner.end
        codes = np.arange(-2, self.interner.end + 2)
        assert codes[self.interner.has_ids(codes)].tolist() == ids.tolist()
        for code in self.freed - set(ids.tolist()):
            with pytest.raises(IndexError, match="expected an id of the interner"):
                self.interner.decode(code)
            assert not self.interner.cells.is_cell(code)


FreedIds.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=12)
test_freed_ids = FreedIds.TestCase


def test_places_of_ids() -> None:
    places = IdPlaces.of_ids(np.array([2, 5, 7, 8, 9]), 10)
    assert (places.kept.tolist(), places.base, places.shift) == ([2, 5], 7, 5)
    assert places.of(np.array([2, 3, 5, 7, 9, -1, 10])).tolist() == [0, -1, 1, 2, 4, -1, 5]
    assert [places.find(code) for code in (2, 3, 5, 7, 9, -1)] == [0, -1, 1, 2, 4, -1]
    assert places.ids(10).tolist() == [2, 5, 7, 8, 9]
    ended = IdPlaces.of_ids(np.array([2, 5]), 9)
    assert (ended.kept.tolist(), ended.base, ended.shift) == ([2, 5], 9, 7)
    none = IdPlaces.of_ids(np.empty(0, np.int64), 4)
    assert (none.base, none.shift, none.ids(6).tolist()) == (4, 4, [4, 5])


def test_deep_values_are_marked_in_one_pass() -> None:
    interner, layout = Interner(), Layout("", (False, True))
    inner = -1
    for number in range(3_000):
        inner = interner.construct_one(layout, (number, inner))
    value: tuple[Any, ...] = ()
    for number in range(3_000):
        value = (number, value)
    code = interner.encode(value)
    live = LiveValues(interner, PartTypes())
    live.add_rows(np.array([[inner - 1]]), None)
    live.add_rows(np.array([[code]]), [OBJECT])
    live.add_parts()
    assert live.marks.sum() == 2_999 + 3_001
    assert interner.some(live.marks).cells.depths(np.array([inner - 1])).tolist() == [2_999]


@pytest.mark.parametrize(
    "table",
    [
        {(0, 2): 5},
        {(0,): 2, (5,): 2},
        {None: 2, (0, 5): 7},
        {0: (2, 5)},
        {(0,): 2.0, 5: [2]},
        {"x": {2: 0, 5: 0}},
    ],
)
def test_a_table_marks_its_ints(table: dict[Any, Any]) -> None:
    interner = Interner()
    interner.encode_many([f"value {number}" for number in range(7)])
    live = LiveValues(interner, PartTypes())
    live.add_table(table)
    assert np.flatnonzero(live.marks).tolist() == [0, 2, 5]


def test_records_and_branches_are_objects_too() -> None:
    interner = Interner()
    codes = [interner.encode(value) for value in (Record(["a", (1, "b")]), Branch("B", ("c",)), "d")]
    live = LiveValues(interner, PartTypes())
    live.add_rows(np.array([codes[:2]]), [OBJECT, OBJECT])
    live.add_parts()
    freed = interner.some(live.marks)
    assert freed.encode(Record(["a", (1, "b")])) == codes[0] and freed.encode(Branch("B", ("c",))) == codes[1]
    assert "d" not in freed


def test_a_value_of_the_past_may_have_several_ids() -> None:
    interner, layout = Interner(), Layout("", (False,))
    interner.encode_many(["a", "b"])
    cell = interner.construct_one(layout, (0,))
    past = RepeatedValues.before(interner, 3)
    past.expect_ids(np.array([5, 6, 8]), 9)
    past.put_plain(["a"], np.array([5]))
    past.put((1, 2), 6)
    past.put_constructed(layout, np.array([[0]]), np.array([8]))
    past.restored(9)
    assert past.decode_many([0, 5, 1, 6]) == ["a", "a", "b", (1, 2)]
    assert past.cells.cell(8) == past.cells.cell(cell) == (layout, [0])
    assert past.end == 9 and interner.end == 3
