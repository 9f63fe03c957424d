"""Indices: every relation, order and look-up at every time equals that of the list of datoms."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.interner import Interner
from dbsp.data.types import FLOAT, INT, OBJECT, STR
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.fact_lookups import FactLookups
from dbsp.datomic.frozen_facts import FilteredFacts
from dbsp.datomic.indices import Indices
from dbsp.datomic.relation_key import COLUMNS, EV, RelationKey, current_facts
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes

from .fact_model import START, FactModel, Row, Window, check_lookups, check_trace, random_change, rows_of

TYPES = {20: ("ref", INT), 21: ("long", INT), 22: ("string", STR), 23: ("double", FLOAT), 24: (None, OBJECT)}
SCHEMA: Any = SimpleNamespace(
    by_id={id_: SimpleNamespace(id=id_, value_type=name, type=type_) for id_, (name, type_) in TYPES.items()}
)
BOXABLE = [20, 21, 22]
"""Attributes whose random codes are codes of values: numbers, and ids that the interner has."""


@dataclass(frozen=True)
class Prepared:
    """The part of a prepared transaction that the indices read."""

    t: int
    datoms: Codes
    next_entity: int = 8
    next_schema_entity: int = 30
    schema: Any = field(default_factory=lambda: SCHEMA)

    @property
    def instant(self) -> dt.datetime:
        return START + dt.timedelta(seconds=self.t)


def prepared(t: int, rows: list[Row]) -> Any:
    return Prepared(t, np.array(rows, np.int64).reshape(len(rows), 5))


def commit(indices: Indices, model: FactModel, rows: list[Row]) -> None:
    indices.apply(prepared(indices.basis_t + 1, rows))
    indices.commit()
    model.datoms += rows


def keys(random_: random.Random) -> list[tuple[RelationKey, Row]]:
    """Some relations and orders."""
    found = []
    for _ in range(6):
        attribute = random_.choice([None, *TYPES])
        names = ("e", "a", "v") if attribute is None or random_.random() < 0.2 else ("e", "v")
        names += random_.choice([(), ("tx",), ("tx", "added")])
        found.append((RelationKey(attribute, names), tuple(random_.sample(names, len(names)))))
    return found


def check(facts: FactLookups, model: FactModel, window: Window, random_: random.Random) -> None:
    for key, order in keys(random_):
        check_trace(facts, model, window, key, order)
    check_lookups(facts, model, window, random_)


def new_indices() -> Indices:
    indices = Indices(SCHEMA, Interner())
    indices.interner.encode_many(["a", "b", "c", "d", "e", "f"])
    return indices


@given(st.integers(0, 2**32))
def test_live_indices_and_all_their_pasts(seed: int) -> None:
    random_ = random.Random(seed)
    indices, model = new_indices(), FactModel()
    kept: list[tuple[FactLookups, Window]] = []
    for t in range(random_.randrange(1, 14)):
        rows = random_change(model, t, list(TYPES), random_)
        if random_.random() < 0.3:
            indices.apply(prepared(t, rows))
            indices.rollback()
        commit(indices, model, rows)
        if random_.random() < 0.5:
            check(indices, model, Window(-1, t), random_)
        if random_.random() < 0.5:
            snapshot = indices.snapshot()
            kept.append((snapshot, Window(-1, t)))
            if random_.random() < 0.5:
                window = Window(
                    random_.randrange(-1, t + 1), random_.randrange(t + 1), random_.random() < 0.5
                )
                past = FilteredFacts(indices, snapshot, window.after, window.until, window.history)
                kept.append((past, window))
        if kept and random_.random() < 0.3:
            facts, window = random_.choice(kept)
            check(facts, model, window, random_)
        if kept and random_.random() < 0.2:
            kept.pop(random_.randrange(len(kept)))
    for facts, window in kept:
        check(facts, model, window, random_)


@given(st.integers(0, 2**32))
def test_a_tried_transaction_leaves_its_base_alone(seed: int) -> None:
    random_ = random.Random(seed)
    indices, model = new_indices(), FactModel()
    for t in range(random_.randrange(1, 6)):
        commit(indices, model, random_change(model, t, list(TYPES), random_))
    base = indices.snapshot()
    if random_.random() < 0.5:
        check(base, model, Window(-1, base.basis_t), random_)
    tried, other = Indices(SCHEMA, indices.interner, base), FactModel(list(model.datoms))
    if random_.random() < 0.5:
        check(tried, other, Window(-1, base.basis_t), random_)
    commit(tried, other, random_change(other, base.basis_t + 1, list(TYPES), random_))
    after = tried.snapshot()
    commit(indices, model, random_change(model, indices.basis_t + 1, list(TYPES), random_))
    window = Window(-1, base.basis_t + 1)
    check(indices, model, window, random_)
    check(after, other, window, random_)
    past = Window(random_.randrange(-1, 3), random_.randrange(-1, 7), random_.random() < 0.5)
    check(FilteredFacts(tried, after, past.after, past.until, past.history), other, past, random_)
    check(base, model, Window(-1, base.basis_t), random_)
    twice, third = Indices(SCHEMA, indices.interner, after), FactModel(list(other.datoms))
    commit(twice, third, random_change(third, twice.basis_t + 1, list(TYPES), random_))
    check(twice.snapshot(), third, Window(-1, twice.basis_t), random_)


@given(st.integers(0, 2**32))
def test_bulk_loading_equals_the_transactions(seed: int) -> None:
    random_ = random.Random(seed)
    indices, model = new_indices(), FactModel()
    ends = []
    for t in range(random_.randrange(1, 8)):
        model.datoms += random_change(model, t, list(TYPES), random_)
        ends.append(len(model.datoms))
    indices.load(
        np.array(model.datoms, np.int64).reshape(-1, 5), np.array(ends, np.int64), np.arange(len(ends))
    )
    assert indices.basis_t == len(ends) - 1
    check(indices, model, Window(-1, indices.basis_t), random_)
    past = Window(-1, random_.randrange(len(ends)))
    check(FilteredFacts(indices, indices.snapshot(), -1, past.until, False), model, past, random_)
    commit(indices, model, random_change(model, indices.basis_t + 1, list(TYPES), random_))
    check(indices, model, Window(-1, indices.basis_t), random_)


@given(st.integers(0, 2**32))
def test_boxed_relations_have_the_codes_of_the_values(seed: int) -> None:
    random_ = random.Random(seed)
    indices, model = new_indices(), FactModel()
    key = RelationKey(None, ("e", "a", "v", "tx"), boxed=frozenset("v"))
    live = indices.trace(key, key.columns)
    ids = RelationKey(21, EV, boxed=frozenset("v"))
    for t in range(4):
        rows = random_change(model, t, BOXABLE, random_)
        commit(indices, model, [(*row[:2], max(row[2], 0), *row[3:]) for row in rows if row[2] >= 0])
        facts = model.facts(Window(-1, t))
        interner = indices.interner
        expected = {(e, a, "abcdef"[v] if a == 22 else v, tx) for e, a, v, tx, _ in facts}
        for source in (indices, indices.snapshot(), FilteredFacts(indices, indices.snapshot(), -1, t, False)):
            found = rows_of(source.trace(key, ("v", "tx", "e", "a")))
            assert {(e, a, interner.decode(v), tx) for v, tx, e, a in found} == expected
            longs = {(e, interner.decode(v)) for e, v in rows_of(source.trace(ids, EV))}
            assert longs == {(e, v) for e, a, v, _ in expected if a == 21}
    assert indices.trace(key, key.columns) is live


def test_codes_of_strings_need_no_boxing() -> None:
    indices = new_indices()
    assert indices.trace(RelationKey(22, EV, boxed=frozenset("v")), EV) is indices.trace(
        current_facts(22), EV
    )
    assert indices.trace(RelationKey(21, EV, boxed=frozenset("v")), EV) is not indices.trace(
        current_facts(21), EV
    )


def test_traces_are_fresh_until_the_commit() -> None:
    indices = new_indices()
    trace, other = indices.trace(current_facts(20), ("v", "e")), indices.trace(current_facts(21), EV)
    changes = indices.apply(prepared(0, [(1, 20, 5, TX0, 1), (2, 20, 5, TX0, 1)]))
    assert {attribute: batch.rows.tolist() for attribute, batch in changes.items()} == {20: [[1, 5], [2, 5]]}
    assert trace.fresh and trace.current[-1].rows.tolist() == [[5, 1], [5, 2]] and not other.fresh
    asked_now = indices.trace(RelationKey(20, ("e", "v", "tx")), ("tx", "e", "v"))
    assert asked_now.fresh and asked_now.before == 0 and asked_now.count == 1
    indices.rollback()
    assert not trace.rows and not asked_now.rows and indices.basis_t == -1 and indices.log.count == 0
    indices.apply(prepared(0, [(1, 20, 5, TX0, 1)]))
    indices.commit()
    assert not trace.fresh and rows_of(trace) == [(5, 1)] and rows_of(asked_now) == [(TX0, 1, 5)]


def test_snapshots_share_the_arrays_of_the_runs() -> None:
    indices = new_indices()
    indices.apply(prepared(0, [(e, 20, 5, TX0, 1) for e in range(2000)]))
    indices.commit()
    snapshot = indices.snapshot()
    indices.apply(prepared(1, [(7, 20, 5, TX0 + 1, 0)]))
    indices.commit()
    live = indices.trace(current_facts(20), EV)
    assert snapshot.trace(current_facts(20), EV).runs[0].codes is live.runs[0].codes
    assert (snapshot.trace(current_facts(20), EV).rows, live.rows) == (2000, 2001)


def test_a_wrong_order_of_calls_is_a_defect() -> None:
    indices = new_indices()
    with pytest.raises(InvariantError, match="expected transaction 0 after a decided one, got 1"):
        indices.apply(prepared(1, []))
    indices.apply(prepared(0, []))
    with pytest.raises(InvariantError, match="expected transaction 1 after a decided one, got 1"):
        indices.apply(prepared(1, []))
    with pytest.raises(InvariantError, match=r"expected the columns of a relation as .*; got e, v"):
        RelationKey(None, ("e", "v"))
    with pytest.raises(InvariantError, match="got e, v, added"):
        RelationKey(20, ("e", "v", "added"))
    with pytest.raises(InvariantError, match="expected an order of the columns e, v, got e"):
        indices.trace(current_facts(20), ("e",))
    assert COLUMNS == ("e", "a", "v", "tx", "added")


class _Failing(dict[Any, Any]):
    """Snapshots of an indices object that fail when they are asked to keep runs."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_transaction_is_undone() -> None:
    random_ = random.Random(1)
    indices, model = new_indices(), FactModel()
    for t in range(5):
        commit(indices, model, random_change(model, t, list(TYPES), random_))
    snapshot = indices.snapshot()
    snapshot.frozen = _Failing()
    with pytest.raises(KeyboardInterrupt):
        indices.apply(prepared(5, [(1, 20, 77, TX0 + 5, 1), (2, 24, 78, TX0 + 5, 1)]))
    assert indices.undecided
    snapshot.frozen = {}
    indices.rollback()
    check(indices, model, Window(-1, 4), random_)
    commit(indices, model, random_change(model, 5, list(TYPES), random_))
    check(indices, model, Window(-1, 5), random_)
    check(snapshot, model, Window(-1, 4), random_)
