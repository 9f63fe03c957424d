"""The classes of EDN values: equality, hashes, order, immutability, pickles."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given

from dbsp.edn import Char, EdnList, EdnMap, Keyword, Symbol, Tagged
from dbsp.errors import EdnError
from tests.edn.edn_strategies import VALUES, same


def test_names_have_a_namespace_and_a_name() -> None:
    keyword = Keyword("person/name")
    assert (keyword.text, keyword.namespace, keyword.name) == ("person/name", "person", "name")
    assert (Keyword("name").namespace, Keyword("name").name) == (None, "name")
    assert (Symbol("/").namespace, Symbol("/").name) == (None, "/")
    assert (Symbol("clojure.core/+").namespace, Symbol("clojure.core/+").name) == ("clojure.core", "+")


def test_equal_names_are_the_same_object() -> None:
    assert Keyword("a/b") is Keyword("a/" + "b")
    assert Symbol("a") is Symbol("a")
    kinds: list[Any] = [Symbol("a"), Keyword("a"), "a", Char("a")]
    assert len(set(kinds)) == 4


def test_threads_get_the_same_object() -> None:
    for round_ in range(200):
        found: list[Keyword] = []
        barrier = threading.Barrier(4)

        def create(text: str = f"thread/k{round_}", found: Any = found, barrier: Any = barrier) -> None:
            barrier.wait()
            found.append(Keyword(text))

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(keyword) for keyword in found}) == 1


def test_names_are_ordered_by_their_text() -> None:
    names = [Keyword(text) for text in ("b", "a/z", "a", "B")]
    assert [str(name) for name in sorted(names)] == [":B", ":a", ":a/z", ":b"]
    assert Keyword("a") <= Keyword("a") < Keyword("b") and Keyword("b") > Keyword("a") >= Keyword("a")
    assert Symbol("a") < Symbol("b")
    with pytest.raises(TypeError):
        Keyword("a") < Symbol("b")  # noqa: B015


def test_names_are_immutable() -> None:
    for name in (Keyword("a"), Symbol("a")):
        with pytest.raises(AttributeError, match="a is immutable"):
            name.text = "b"
        with pytest.raises(AttributeError, match="a is immutable"):
            del name.text


@pytest.mark.parametrize("text", ["", "a b", ":a", "a/", "/a", "a/b/c", "/", "a[", 'a"', "a\n", "\ud800", 1])
def test_wrong_keywords(text: Any) -> None:
    with pytest.raises(
        EdnError, match="expected the name of a keyword, such as 'person/name', got"
    ) as caught:
        Keyword(text)
    assert caught.value.code == "edn-token"
    assert ("write it without its colon" in str(caught.value)) == (text == ":a")


@pytest.mark.parametrize(
    "text", ["", "a b", ":a", "1a", "-1", ".5", "nil", "true", "false", "#a", "'a", "a/", None]
)
def test_wrong_symbols(text: Any) -> None:
    with pytest.raises(EdnError, match=r"expected a symbol, such as '\?x' or 'str/join', got"):
        Symbol(text)


@pytest.mark.parametrize("text", ["", "ab", 1, None])
def test_wrong_chars(text: Any) -> None:
    with pytest.raises(EdnError, match="expected one character, got"):
        Char(text)


def test_chars_are_ordered() -> None:
    assert Char("a") < Char("b") and Char("a") != "a"


def test_lists_are_tuples() -> None:
    value = EdnList([1, EdnList([2])])
    assert isinstance(value, tuple) and value == (1, (2,)) and hash(value) == hash((1, (2,)))
    assert repr(value) == "(1 (2))" and repr(EdnList([(1,)])) == "([1])"


def test_maps_are_immutable_dicts() -> None:
    value = EdnMap({Keyword("a"): 1})
    assert value == {Keyword("a"): 1} and hash(value) == hash(EdnMap({Keyword("a"): 1}))
    assert hash(EdnMap({1: 2, 3: 4})) == hash(EdnMap({3: 4, 1: 2}))
    changes = [
        lambda: value.update({}),
        lambda: value.clear(),
        lambda: value.pop(Keyword("a")),
        lambda: value.popitem(),
        lambda: value.setdefault(1, 2),
        lambda: value.__setitem__(1, 2),
        lambda: value.__delitem__(Keyword("a")),
        lambda: value.__ior__({1: 2}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match=r"an EdnMap is immutable; change a copy: dict\(the_map\)"):
            change()
    assert value == {Keyword("a"): 1}
    merged = value | {2: 3}
    assert type(merged) is EdnMap and merged == {Keyword("a"): 1, 2: 3}


def test_tags() -> None:
    assert Tagged("a/b", 1) == Tagged(Symbol("a/b"), 1) != Tagged("a/b", 2)
    assert hash(Tagged("a", 1)) == hash(Tagged("a", 1))
    for tag in ("", "1", "a b", "-a", "/", None):
        with pytest.raises(EdnError, match="expected a tag, which starts with a letter"):
            Tagged(tag, 1)  # type: ignore[arg-type]
    for tag, kind in (("inst", "an aware datetime"), ("uuid", "a uuid.UUID"), ("bytes", "bytes")):
        with pytest.raises(EdnError, match=f"the value of #{tag} is {kind}; use that instead of Tagged"):
            Tagged(tag, "x")


@given(VALUES)
def test_values_are_hashable_and_survive_pickles_and_copies(value: Any) -> None:
    assert {value: 1}[value] == 1
    assert same(pickle.loads(pickle.dumps(value)), value)
    assert same(copy.copy(value), value)
    assert same(copy.deepcopy(value), value)


def test_repr_never_fails() -> None:
    deep: Any = ()
    for _ in range(10**5):
        deep = EdnList([deep])
    assert "..." in repr(deep)
    assert repr(EdnList([object, float("nan")])) == "(<class 'object'> ##NaN)"
    assert repr(Tagged("a", 1)) == "#a 1" and repr(Char("\n")) == "\\newline"
