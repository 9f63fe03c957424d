"""Compaction frees the interned values that nothing refers to, and changes no result."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.table_totals import Totals
from dbsp import Branch, Circuit, CircuitError, Record, Run, col, count
from dbsp.data.interner import Interner
from dbsp.runtime import compaction
from dbsp.runtime.compaction import MANY_VALUES
from tests.harness import deltas_of, views
from tests.profiles import examples

SHOP = """
.decl sale(item: symbol, buyer: symbol)
.input sale
.decl banned(buyer: symbol)
.input banned
.decl label(text: symbol)
.output label
label(cat(item, "!", buyer)) :- sale(item, buyer), !banned(buyer).
label("always").
.decl first(item: symbol, length: number)
.output first
first(item, least) :- sale(item, _), least = min strlen(buyer) : { sale(item, buyer) }.
.decl linked(a: symbol, b: symbol)
.output linked
linked(a, b) :- sale(a, b).
linked(a, c) :- linked(a, b), sale(b, c), c != "item 1".
.decl triangle(a: symbol, b: symbol, c: symbol)
.output triangle
triangle(a, b, c) :- sale(a, b), sale(b, c), sale(a, c).
.decl many(buyer: symbol, n: number)
.output many
many(buyer, n) :- sale(_, buyer), n = count : { sale(_, buyer) }.
"""

TERMS = """
.type List = [head: symbol, tail: List]
.type Shape = Square { side: number } | Named { name: symbol, inner: Shape }
.decl word(text: symbol, rest: symbol)
.input word
.decl shape(s: Shape)
.input shape
.decl lists(l: List)
.output lists
lists([a, nil]) :- word(a, _).
lists([b, [a, nil]]) :- word(a, b).
lists([b, l]) :- lists(l), l = [a, [c, nil]], word(a, b), word(c, b).
.decl inner(s: Shape)
.output inner
inner(i) :- shape($Named(_, i)).
inner($Named(cat(t, "?"), s)) :- shape(s), word(t, t).
"""

Tick = dict[str, dict[Any, int]]
WORDS = st.sampled_from([f"item {number}" for number in range(5)])


def values_circuit(**options: Any) -> Run:
    """Objects, tuples, lists and structs in sorted runs, in tables and in the memories of steps."""
    circuit = Circuit("values")
    given_ = circuit.input("given", k=int, v=object, l="list[str]", kind="set")
    struct = circuit.input("struct", id=int, s="{name: str, tags: list[str]}", key=["id"])
    circuit.output("given", given_)
    circuit.output("late", given_.delay())
    circuit.output("changes", given_.differentiate())
    circuit.output("latest", given_.group_by("k").agg(v=col("l").max()))
    circuit.output("numbered", given_.number_rows())
    circuit.output("totals", Totals()(given_))
    circuit.output("constant", circuit.constant({("fixed",): 1}, {"x": str}))
    circuit.output("struct", struct)
    circuit.output("names", struct.map(name=col("s").field("name"), tags=col("s").field("tags")).distinct())
    return circuit.start(**options)


def events_circuit(**options: Any) -> Run:
    """Rows that a watermark passes, some of which traces forget."""
    circuit = Circuit("events")
    split = circuit.input("event", t=int, who=str).watermark("t", 3)
    circuit.output("recent", split.on_time.recent(split.watermark, "t"))
    windows = split.on_time.window("t", 4, 2).recent(split.watermark, "window_end")
    circuit.output("groups", windows.group_by("window_end", "who").agg(n=count()))
    circuit.output("late", split.late)
    return circuit.start(**options)


def ticks(**relations: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Tick]]:
    """Ticks in which rows of a small pool come and go, so values are freed and come back."""
    weights = st.sampled_from([1, 1, -1])
    rows = {name: st.dictionaries(row, weights, max_size=4) for name, row in relations.items()}
    return st.lists(st.fixed_dictionaries(rows), min_size=2, max_size=6)


SHAPES = st.recursive(
    st.integers(0, 2).map(lambda side: Branch("Square", side)),
    lambda inner: st.builds(lambda name, shape: Branch("Named", name, shape), WORDS, inner),
    max_leaves=3,
)
OBJECTS = st.recursive(
    WORDS | st.integers(0, 60) | st.just(b"item"),
    lambda inner: (
        st.lists(inner, max_size=2).map(tuple)
        | st.lists(inner, max_size=2).map(frozenset)
        # A record and a tuple of the same items are different values that are equal for Python, so
        # a dictionary of rows refuses both: no tuple here begins like a record.
        | st.lists(inner, max_size=1).map(lambda items: Record(("record", *items)))
    ),
    max_leaves=4,
)
LISTS = st.lists(WORDS, max_size=2).map(tuple)

CIRCUITS: dict[str, tuple[Callable[..., Run], st.SearchStrategy[list[Tick]]]] = {
    "shop": (dbsp.compile(SHOP).start, ticks(sale=st.tuples(WORDS, WORDS), banned=st.tuples(WORDS))),
    "terms": (dbsp.compile(TERMS).start, ticks(word=st.tuples(WORDS, WORDS), shape=st.tuples(SHAPES))),
    "events": (events_circuit, ticks(event=st.tuples(st.integers(0, 20), WORDS))),
    "values": (
        values_circuit,
        ticks(
            given=st.tuples(st.integers(0, 2), OBJECTS, LISTS),
            struct=st.tuples(st.integers(0, 3), st.tuples(WORDS, LISTS)),
        ),
    ),
}


def unclashing(tick: Tick) -> Tick:
    """Leave one change per key of a keyed input, as a change without an order needs."""
    of_key = {row[0]: (row, weight) for row, weight in tick.get("struct", {}).items()}
    return tick | {"struct": dict(of_key.values())} if "struct" in tick else tick


@pytest.mark.parametrize("name", CIRCUITS)
@settings(max_examples=examples(12))
@given(data=st.data())
def test_compactions_change_no_result(name: str, data: st.DataObject) -> None:
    start, sequences = CIRCUITS[name]
    compacted, plain = start(), start()
    results = []
    for tick in map(unclashing, data.draw(sequences)):
        staged = data.draw(st.booleans())
        if staged:
            for relation, rows in tick.items():
                compacted.input(relation).add(rows)
        before = views(compacted)
        if data.draw(st.booleans()):
            compacted.compact()
            assert views(compacted) == before
        result = compacted.step({} if staged else tick)
        expected = plain.step(tick)
        assert deltas_of(result) == deltas_of(expected)
        assert views(compacted) == views(plain)
        results.append((result, deltas_of(expected)))
    for result, expected_deltas in results:
        assert deltas_of(result) == expected_deltas
    compacted.compact()
    assert len(compacted.interner) <= len(plain.interner)


@pytest.mark.parametrize("name", ["shop", "terms", "values"])
@settings(max_examples=6)
@given(data=st.data())
def test_a_run_without_rows_has_no_values(name: str, data: st.DataObject) -> None:
    start, sequences = CIRCUITS[name]
    run = start()
    run.compact()
    empty = len(run.interner)
    run.interner.skip_to(10_000)  # else counts in the memories of steps would be ids
    inserted: list[tuple[str, Any]] = []
    for tick in map(unclashing, data.draw(sequences)):
        run.step(tick)
        inserted += [(relation, row) for relation, rows in tick.items() for row in rows]
    for relation, row in inserted:
        run.step({relation: {row: -1}})
    run.step()
    run.step()
    done = run.compact()
    assert len(run.interner) == empty, run.interner.decode_many(run.interner.ids)
    assert done.values == 0 or run.interner.end > empty


def test_values_are_freed_and_get_new_ids() -> None:
    run = dbsp.compile(SHOP).start()
    run.step({"sale": [("a", "b"), ("c", "d")]})
    old = run.interner
    run.step({"sale": {("c", "d"): -1}})
    result = run.step()
    done = run.compact()
    assert set(run.interner.decode_many(run.interner.ids)) == {"always", "a", "b", "a!b"}
    assert (done.values, done.kept_because) == (len(old) - 4, "")
    assert str(done) == f"{done.values} values and {done.rows} rows freed, {done.bytes:,} bytes"
    assert done.bytes > 3 * 50 and done.rows > 0
    assert "d" in old and "d" not in run.interner and "a" in run.interner
    assert run.interner.find("a") == old.find("a")
    assert run.interner.encode("d") >= old.end
    assert run.compact().values == 1
    assert result["label"].interner is old


def test_values_that_the_caller_has_are_kept_elsewhere() -> None:
    run = dbsp.compile(SHOP).start()
    result = run.step({"sale": [("a", "b")]})
    view = run.view("label")
    run.step({"sale": {("a", "b"): -1}})
    run.step()
    assert run.compact().values >= 3
    assert view.rows() == [("a!b",), ("always",)]
    assert result["first"].to_dict() == {("a", 1): 1}
    # A Z-set of the old interner is a change like any other.
    assert run.step({"sale": result["linked"].renamed("item", "buyer")})["label"].to_dict() == {("a!b",): 1}


def test_staged_and_prepared_changes_keep_their_values() -> None:
    run = dbsp.compile(SHOP).start()
    run.step({"sale": [("x", "y")]})
    run.input("sale").insert([("a", "b")])
    prepared = run.prepare({"banned": [("z",)]})
    assert run.input("sale").staged == []
    run.input("sale").insert([("c", "d")])
    run.compact()
    assert {"a", "b", "c", "d", "x", "y", "z"} <= set(run.interner.decode_many(run.interner.ids))
    run.step_staged(prepared)
    run.step()
    assert run.view("linked").rows() == [("a", "b"), ("c", "d"), ("x", "y")]
    del prepared
    gc.collect()
    run.step({"sale": {("a", "b"): -1}, "banned": {("z",): -1}})
    run.step()
    run.compact()
    assert "z" not in run.interner and "a" not in run.interner


def test_values_of_delayed_rows_are_kept() -> None:
    circuit = Circuit("late")
    circuit.output("late", circuit.input("a", x=str).delay())
    run = circuit.start()
    run.step({"a": [("x",)]})
    assert run.compact().values == 0  # only the memory of the delay has the row
    assert run.step()["late"].to_dict() == {("x",): 1}


def test_values_in_tables_are_kept() -> None:
    circuit = Circuit("totals")
    circuit.output("totals", Totals()(circuit.input("a", x=str)))
    run = circuit.start()
    run.step({"a": [("a",), ("b",)]})
    run.interner.encode_many(["key", "value", "unused"])
    (totals,) = run.scope.tables
    totals[(run.interner.encode("key"),)] = run.interner.encode("value")
    totals.commit()
    run.compact()
    assert set(run.interner.decode_many(run.interner.ids)) == {"a", "b", "key", "value"}


def test_a_circuit_with_numbers_of_values_keeps_them() -> None:
    text = '.decl a(x: symbol)\n.input a\n.decl b(n: number)\n.output b\nb(ord(x) + 1) :- a(x), x != "".\n'
    run = dbsp.compile(text).start()
    first = run.step({"a": [("x",)]})["b"].to_dict()
    run.step({"a": {("x",): -1}})
    run.step()
    done = run.compact()
    assert done.values == 0
    assert done.kept_because == (
        "no values were freed, because the circuit stores numbers of values, which ord returns"
    )
    assert str(done).endswith(done.kept_because)
    assert run.step({"a": [("x",)]})["b"].to_dict() == first


def test_a_shared_interner_keeps_its_values() -> None:
    graph = dbsp.compile(SHOP).circuit("physical")
    interner = Interner()
    run = Run(graph, interner=interner)
    run.step({"sale": [("a", "b")]})
    run.step({"sale": {("a", "b"): -1}})
    run.step()
    done = run.compact()
    assert (done.values, run.interner) == (0, interner)
    assert done.kept_because == "no values were freed, because the run shares its interner"


def test_callbacks_and_statistics_continue() -> None:
    seen: list[dict[Any, int]] = []
    circuit = Circuit("watched")
    circuit.output("all", circuit.input("a", x=str).inspect(lambda change: seen.append(change.to_dict())))
    run = circuit.start()
    run.observe()
    run.step({"a": [("a",)]})
    run.step({"a": {("a",): -1}})
    run.step()
    steps = run.stats()[0].steps
    assert run.compact().values == 1
    run.step({"a": [("b",)]})
    assert seen == [{("a",): 1}, {("a",): -1}, {("b",): 1}]
    assert run.stats()[0].steps == steps + 1


def test_a_freed_interner_leaves_the_memory_at_once() -> None:
    run = dbsp.compile(SHOP).start()
    rows = {(f"item {n}", f"buyer {n}"): 1 for n in range(50)}
    run.step({"sale": rows})
    run.step({"sale": dict.fromkeys(rows, -1)})
    run.step()
    gc.collect()
    gc.disable()
    try:
        value = run.interner.decode(run.interner.encode("buyer 49"))
        rows.clear()
        before = len(gc.get_objects())
        run.compact()
        # isinstance would ask a weak proxy of another test for its class, and the proxy may be dead
        alive = [each for each in gc.get_objects() if type(each) is Interner]
        assert value == "buyer 49" and sum(each is not run.interner and value in each for each in alive) == 0
        assert len(gc.get_objects()) < before + 1_000
    finally:
        gc.enable()


def test_many_new_values_are_worth_a_search() -> None:
    run = dbsp.compile(".decl a(x: symbol)\n.input a\n.output a\n").start()
    texts = [(f"text {n}",) for n in range(MANY_VALUES + 1)]
    run.step({"a": texts})
    run.free_many_values()
    assert run.interner.generation == 0  # all values are in use
    run.step({"a": dict.fromkeys(texts[:10_000], -1)})
    run.step()
    run.free_many_values()
    assert run.interner.generation == 0  # nothing is new since the search
    run.step({"a": dict.fromkeys(texts[10_000:40_000], -1)})
    run.step()
    run.free_many_values()
    assert run.interner.generation == 1  # less than half of the rows are left
    assert len(run.interner) == MANY_VALUES + 1 - 40_000
    run.step({"a": [(f"new {n}",) for n in range(MANY_VALUES + 1)]})
    run.step({"a": {(f"new {n}",): -1 for n in range(MANY_VALUES - 10_000)}})
    run.step()
    run.free_many_values()
    assert run.interner.generation == 2  # many are new
    assert len(run.interner) == MANY_VALUES + 1 - 40_000 + 10_001


def test_no_values_are_freed_inside_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    run = dbsp.compile(SHOP).start()
    run.interner.skip_to(10_000)  # else counts in the memories of steps would be ids
    with run.transaction() as transaction:
        transaction.step({"sale": [("a", "b")]})
        with pytest.raises(CircuitError, match="compact"):
            run.compact()
        monkeypatch.setattr(compaction, "MANY_VALUES", 0)
        transaction.step({"sale": {("a", "b"): -1, ("e", "f"): 1}})
        interner = run.interner
        interner.encode_many([f"unused {number}" for number in range(100)])
        run.free_many_values()
        assert run.interner is interner
        transaction.step({"sale": {("e", "f"): -1, ("c", "d"): 1}})
    assert "a" in run.interner
    run.step()
    run.compact()
    assert "a" not in run.interner and run.view("linked").rows() == [("c", "d")]
