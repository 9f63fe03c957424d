"""Every function of queries on Python values, with the semantics of Clojure."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.compiler.datomic.meaning.clojure_order import (
    compare_values,
    equal_values,
    is_true,
    total_order,
    type_name,
)
from dbsp.compiler.datomic.meaning.query_functions import (
    BUILT_IN,
    NATIVE,
    REFUSED,
    SOURCE_FUNCTIONS,
    find_function,
    known_functions,
    user_function,
)
from dbsp.edn.edn_reader import read
from dbsp.edn.edn_values import Char, EdnList, EdnMap, Keyword, Symbol, Tagged
from dbsp.errors import EvaluationError

NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
MIDNIGHT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def call(name: str, *arguments: Any) -> Any:
    function = find_function(name)
    assert function is not None
    assert function.accepts(len(arguments))
    return function.evaluate(*arguments)


def evaluated(text: str) -> Any:
    """The value of `(function argument ...)`."""
    name, *arguments = read(text)
    return call(name.text, *arguments)


CASES = [
    # numbers
    ("(+)", "0"),
    ("(+ 1 2 3)", "6"),
    ("(+ 1 0.5)", "1.5"),
    ("(+ 1.5M 1)", "2.5M"),
    ("(+ 1 9223372036854775807)", "9223372036854775808N"),
    ("(- 5)", "-5"),
    ("(- 5 1 1)", "3"),
    ("(*)", "1"),
    ("(* 2 3.5)", "7.0"),
    ("(* 1.1M 1.1M)", "1.21M"),
    ("(/ 6 2)", "3"),
    ("(/ 6 4)", "3/2"),
    ("(/ 2)", "1/2"),
    ("(/ 3/2 1/2)", "3"),
    ("(/ 7.0 2)", "3.5"),
    ("(/ 1M 8)", "0.125M"),
    ("(+ 1/4 0.5M)", "0.75M"),
    ("(+ 1/2 0.5)", "1.0"),
    ("(quot 7 2)", "3"),
    ("(quot -7 2)", "-3"),
    ("(quot 7.5 2)", "3.0"),
    ("(quot 7.5M 2)", "3M"),
    ("(quot 7/2 2)", "1"),
    ("(rem -7 2)", "-1"),
    ("(rem 7.5 2)", "1.5"),
    ("(rem 7/2 2)", "3/2"),
    ("(mod -7 2)", "1"),
    ("(mod 7 -2)", "-1"),
    ("(mod -7.5 2)", "0.5"),
    ("(mod 6 2)", "0"),
    ("(inc 1)", "2"),
    ("(dec 1.5)", "0.5"),
    ("(abs -3)", "3"),
    ("(abs -3.5M)", "3.5M"),
    ("(min 2 1.5 3)", "1.5"),
    ("(max 2 1.5 3)", "3"),
    ('(max "b" "a")', '"b"'),
    ("(even? 2)", "true"),
    ("(odd? -3)", "true"),
    ("(pos? 0.5)", "true"),
    ("(neg? 0)", "false"),
    ("(zero? 0.0)", "true"),
    ("(range 3)", "[0 1 2]"),
    ("(range 1 7 2)", "[1 3 5]"),
    ("(range 3 0 -1)", "[3 2 1]"),
    # comparisons
    ("(= 1 1 1)", "true"),
    ("(= 1 1.0)", "false"),
    ("(= 1 1M)", "false"),
    ("(= 1.0M 1.00M)", "true"),
    ("(= true 1)", "false"),
    ("(= nil false)", "false"),
    ("(= nil nil)", "true"),
    ("(= [1 2] (1 2))", "true"),
    ("(= [1] [1.0])", "false"),
    ("(= {:a 1} {:a 1})", "true"),
    ("(= {:a 1} {:a 1.0})", "false"),
    ("(= #{1 2} #{2 1})", "true"),
    ("(= #{1} #{1.0})", "false"),
    ("(= :a :a)", "true"),
    ('(= :a "a")', "false"),
    ("(!= 1 2)", "true"),
    ("(not= 1 1.0)", "true"),
    ("(== 1 1.0 1M 1/1)", "true"),
    ("(== 1 2)", "false"),
    ("(== 1/2 0.5M)", "true"),
    ("(distinct? 1 2 1.0)", "true"),
    ("(distinct? 1 2 1)", "false"),
    ("(< 1 1.5 2)", "true"),
    ("(< 1 2 2)", "false"),
    ("(<= 1 2 2)", "true"),
    ("(> 3 2 1)", "true"),
    ("(>= 3 3 1)", "true"),
    ("(< 1)", "true"),
    ('(< "a" "b")', "true"),
    ("(< :a/b :a/c)", "true"),
    ('(< #inst "2020" #inst "2021")', "true"),
    ("(< false true)", "true"),
    ("(< 1/3 0.5M)", "true"),
    ("(compare 1 2)", "-1"),
    ("(compare nil 2)", "-1"),
    ("(compare 2 nil)", "1"),
    ("(compare [9] [1 2])", "-1"),
    ("(compare [1 2] [1 1])", "1"),
    ("(compare :b/a :a/b)", "1"),
    ("(compare :a :a/a)", "-1"),
    # logic
    ("(and 1 nil 2)", "nil"),
    ("(and 1 2)", "2"),
    ("(and)", "true"),
    ("(or nil false 3)", "3"),
    ("(or nil false)", "false"),
    ("(or)", "nil"),
    ("(not nil)", "true"),
    ("(not 0)", "false"),
    ("(nil? nil)", "true"),
    ("(some? nil)", "false"),
    ("(true? true)", "true"),
    ("(true? 1)", "false"),
    ("(false? false)", "true"),
    ("(false? nil)", "false"),
    # values and types
    ("(identity [1])", "[1]"),
    ("(ground :x)", ":x"),
    ("(type 1)", ":db.type/long"),
    ('(type #inst "2020")', ":db.type/instant"),
    ("(type nil)", "nil"),
    ('(string? "a")', "true"),
    ("(string? :a)", "false"),
    ("(number? true)", "false"),
    ("(number? 1M)", "true"),
    ("(integer? 1)", "true"),
    ("(int? 1.0)", "false"),
    ("(double? 1.0)", "true"),
    ("(float? 1)", "false"),
    ("(decimal? 1M)", "true"),
    ("(ratio? 1/2)", "true"),
    ("(boolean? false)", "true"),
    ("(boolean? 0)", "false"),
    ("(keyword? :a)", "true"),
    ("(symbol? a)", "true"),
    ('(inst? #inst "2020")', "true"),
    ('(uuid? #uuid "6ba7b810-9dad-11d1-80b4-00c04fd430c8")', "true"),
    ("(vector? [1])", "true"),
    ("(set? #{1})", "true"),
    ("(map? {})", "true"),
    # names
    ('(keyword "a/b")', ":a/b"),
    ('(keyword "a" "b")', ":a/b"),
    ("(keyword :a)", ":a"),
    ("(keyword a)", ":a"),
    ('(symbol "a")', "a"),
    ("(symbol a)", "a"),
    ("(symbol :a/b)", "a/b"),
    ("(name :a/b)", '"b"'),
    ('(name "x")', '"x"'),
    ("(namespace :a/b)", '"a"'),
    ("(namespace :b)", "nil"),
    # strings
    ('(str "a" 1 nil true :k 1.5 2M [1 "b"] \\c 1/2)', '"a1true:k1.52[1 \\"b\\"]c1/2"'),
    ('(str #inst "2020-01-02")', '"2020-01-02T00:00:00.000Z"'),
    ("(str)", '""'),
    ('(pr-str "a" 1)', '"\\"a\\" 1"'),
    ('(subs "people" 2)', '"ople"'),
    ('(subs "people" 0 6)', '"people"'),
    ('(re-find "[0-9]+" "a12")', '"12"'),
    ('(re-find "x" "a12")', "nil"),
    ('(re-find "([a-z])([0-9])" "a12")', '["a1" "a" "1"]'),
    ('(re-matches "[a-z]+" "abc")', '"abc"'),
    ('(re-matches "[a-z]+" "abc1")', "nil"),
    ('(re-seq "[0-9]" "1a2")', '["1" "2"]'),
    ('(re-seq "x" "1a2")', "nil"),
    ('(re-find #"[0-9]+" "a12")', '"12"'),
    ('(str/replace "a1b" #"([0-9])" "<$1>")', '"a<1>b"'),
    ('(str/split "a1b" #"[0-9]")', '["a" "b"]'),
    ('(str/upper-case "aé")', '"AÉ"'),
    ('(clojure.string/lower-case "AB")', '"ab"'),
    ('(str/capitalize "aBC")', '"Abc"'),
    ('(str/starts-with? "abc" "ab")', "true"),
    ('(str/ends-with? "abc" "ab")', "false"),
    ('(str/includes? "abc" "b")', "true"),
    ('(str/blank? " ")', "true"),
    ("(str/blank? nil)", "true"),
    ('(str/blank? "a")', "false"),
    ('(str/trim " a ")', '"a"'),
    ('(str/triml " a ")', '"a "'),
    ('(str/trimr " a ")', '" a"'),
    ('(str/reverse "abc")', '"cba"'),
    ('(str/join ", " ["a" 1 :b])', '"a, 1, :b"'),
    ('(str/join ["a" "b"])', '"ab"'),
    ('(str/split "a,b,,c,," ",")', '["a" "b" "" "c"]'),
    ('(str/split "a,b,c" "," 2)', '["a" "b,c"]'),
    ('(str/split "abc" "")', '["a" "b" "c"]'),
    ('(str/split "" ",")', '[""]'),
    ('(str/replace "aab" "a" "x")', '"xxb"'),
    ('(str/index-of "abc" "c")', "2"),
    ('(str/index-of "abc" "x")', "nil"),
    ('(str/last-index-of "abab" "ab")', "2"),
    ('(str/last-index-of "abab" "x")', "nil"),
    ('(.startsWith "abc" "ab")', "true"),
    ('(.endsWith "abc" "bc")', "true"),
    ('(.contains "abc" "b")', "true"),
    ('(.toUpperCase "a")', '"A"'),
    ('(.toLowerCase "A")', '"a"'),
    ('(.length "abc")', "3"),
    # collections
    ("(tuple 1 :a)", "[1 :a]"),
    ("(untuple [1 2])", "[1 2]"),
    ("(vector)", "[]"),
    ("(list 1 2)", "(1 2)"),
    ("(set [1 2 1])", "#{1 2}"),
    ("(hash-set 1 2)", "#{1 2}"),
    ("(hash-map :a 1 :b 2)", "{:a 1 :b 2}"),
    ("(array-map)", "{}"),
    ("(count [1 2])", "2"),
    ('(count "abc")', "3"),
    ("(count nil)", "0"),
    ("(count {:a 1})", "1"),
    ("(empty? [])", "true"),
    ("(empty? nil)", "true"),
    ("(not-empty [])", "nil"),
    ("(not-empty [1])", "[1]"),
    ("(contains? {:a nil} :a)", "true"),
    ("(contains? #{1} 2)", "false"),
    ("(contains? [5 6] 1)", "true"),
    ("(contains? [5 6] 5)", "false"),
    ("(contains? nil 1)", "false"),
    ("(get {:a 1} :a)", "1"),
    ("(get {:a 1} :b)", "nil"),
    ("(get {:a 1} :b 0)", "0"),
    ("(get [5 6] 1)", "6"),
    ("(get [5 6] 2 :none)", ":none"),
    ("(get #{1} 1)", "1"),
    ("(get 5 1)", "nil"),
    ('(get "abc" 0)', '"a"'),
    ("(nth [5 6] 1)", "6"),
    ("(nth (5 6) 9 0)", "0"),
    ("(first [5 6])", "5"),
    ("(first nil)", "nil"),
    ("(first [])", "nil"),
    ("(second [5 6])", "6"),
    ("(second [5])", "nil"),
    ("(last [5 6])", "6"),
    ("(last [])", "nil"),
    ("(rest [5 6 7])", "(6 7)"),
    ("(distinct [1 2 1 1.0])", "(1 2 1.0)"),
    ("(sort [3 1 2.5])", "(1 2.5 3)"),
    ("(sort #{:b :a})", "(:a :b)"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_functions(text: str, expected: str) -> None:
    got, value = evaluated(text), read(expected)
    assert equal_values(got, value), got
    assert isinstance(got, EdnList) is isinstance(value, EdnList)


def test_every_function_has_a_case() -> None:
    called = {function.name for text, _ in CASES if (function := find_function(read(text)[0].text))}
    assert set(BUILT_IN) - called == {"re-pattern"}


def test_patterns() -> None:
    pattern = call("re-pattern", "([0-9])b")
    assert isinstance(pattern, re.Pattern)
    assert call("re-find", pattern, "a1b") == ("1b", "1")
    assert call("str/replace", "a1b", pattern, "<$1>") == "a<1>"
    assert call("str/split", "a1b2", call("re-pattern", "[0-9]")) == ("a", "b")


def test_a_character_of_a_string_is_text() -> None:
    assert call("str", Char("a"), Symbol("b")) == "ab"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("(/ 1 0)", "division-by-zero", "division by zero: (/ 1 0)"),
        ("(/ 1.5 0.0)", "division-by-zero", "division by zero: (/ 1.5 0.0)"),
        ("(/ 1M 0)", "division-by-zero", "division by zero: (/ 1 0)"),
        ("(quot 1 0)", "division-by-zero", "division by zero: (quot 1 0)"),
        ("(rem 1 0)", "division-by-zero", "division by zero: (rem 1 0)"),
        ("(mod 1 0)", "division-by-zero", "division by zero: (mod 1 0)"),
        (
            "(/ 1M 3)",
            "inexact-decimal",
            "(/ 1 3) has no exact decimal of at most 1000 digits; convert one argument to a float",
        ),
        (
            "(+ 1/3 1M)",
            "inexact-decimal",
            "(+ 1/3 1) has no exact decimal of at most 1000 digits; convert one argument to a float",
        ),
        ('(+ 1 "2")', "wrong-value-type", "+: expected a number, got '2' of type string"),
        ("(+ true 1)", "wrong-value-type", "+: expected a number, got True of type boolean"),
        ("(inc nil)", "wrong-value-type", "inc: expected a number, got None of type nil"),
        ("(even? 2.0)", "wrong-value-type", "even?: expected an integer, got 2.0 of type double"),
        ("(range 1 2 0)", "wrong-value-type", "range: expected a step other than 0"),
        (
            "(range 20000000)",
            "wrong-value-type",
            "range: expected at most 10,000,000 integers, got 20,000,000",
        ),
        ('(< 1 "2")', "not-comparable", "cannot compare 1 of type long with '2' of type string"),
        ("(< 1 nil)", "not-comparable", "(< 1 nil) compares nil"),
        (
            "(compare #{1} #{2})",
            "not-comparable",
            "cannot compare frozenset({1}) of type set with frozenset({2}) of type set",
        ),
        ("(== 1 :a)", "not-comparable", "cannot compare 1 of type long with :a of type keyword"),
        ("(min 1 :a)", "not-comparable", "cannot compare :a of type keyword with 1 of type long"),
        ("(name 1)", "wrong-value-type", "name: expected a string, got 1 of type long"),
        (
            '(namespace "a")',
            "wrong-value-type",
            "namespace: expected a keyword or symbol, got 'a' of type string",
        ),
        (
            '(subs "abc" 2 1)',
            "position-out-of-range",
            "subs: expected positions in order from 0 to 3, the length of 'abc'; got 2 and 1",
        ),
        (
            '(subs "abc" 4)',
            "position-out-of-range",
            "subs: expected positions in order from 0 to 3, the length of 'abc'; got 4 and 3",
        ),
        ('(subs "abc" :a)', "wrong-value-type", "subs: expected an integer, got :a of type keyword"),
        (
            "(str/upper-case 1)",
            "wrong-value-type",
            "clojure.string/upper-case: expected a string, got 1 of type long",
        ),
        (
            '(str/join "," 5)',
            "wrong-value-type",
            "clojure.string/join: expected a collection, got 5 of type long",
        ),
        (
            '(str/split "a" "," nil)',
            "wrong-value-type",
            "clojure.string/split: expected an integer as limit, got None of type nil",
        ),
        (
            '(re-find "(" "a")',
            "invalid-pattern",
            "re-find: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        ("(nth [1 2] 2)", "position-out-of-range", "nth: expected a position from 0 to 1 of (1, 2), got 2"),
        ("(nth [] 0)", "position-out-of-range", "nth: expected a collection with items, got 0"),
        (
            "(nth #{1} 0)",
            "wrong-value-type",
            "nth: expected a vector, list or string, got frozenset({1}) of type set",
        ),
        ("(count 5)", "wrong-value-type", "count: expected a collection or string, got 5 of type long"),
        (
            "(contains? 5 5)",
            "wrong-value-type",
            "contains?: expected a map, set, vector or string, got 5 of type long",
        ),
        ("(hash-map :a)", "wrong-value-type", "hash-map: expected keys and values in turn, got 1 argument"),
    ],
)
def test_errors(text: str, code: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluated(text)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("+", (10**400, 0.5), "is beyond the range of a double"),
        ("quot", (math.inf, 1.0), "quot: expected finite numbers, got inf"),
        ("rem", (math.nan, 1.0), "rem: expected finite numbers, got nan"),
    ],
)
def test_numbers_beyond_the_range_of_floats(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as caught:
        call(name, *arguments)
    assert caught.value.code == "value-out-of-range"


@pytest.mark.parametrize("name", ["<", "<=", ">", ">=", "=", "=="])
def test_comparisons_with_nan_are_false(name: str) -> None:
    assert call(name, math.nan, 1.0) is False
    assert call(name, 1, math.nan) is False
    assert call(name, math.nan, math.nan) is False


# --- order and equality ------------------------------------------------------------------------

ATOMS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, -1.5, 2.0]),
    st.sampled_from([Decimal("1"), Decimal("1.5")]),
    st.sampled_from([Fraction(1, 2), Fraction(-3, 2)]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([Keyword("a"), Keyword("a/b"), Symbol("a"), Char("a"), b"a", b"b"]),
    st.sampled_from([NOON, MIDNIGHT, uuid.UUID(int=1), uuid.UUID(int=2), Tagged("t", 1), Tagged("u", 1)]),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(tuple),
        st.lists(inner, max_size=2).map(EdnList),
        st.frozensets(inner, max_size=2),
        st.dictionaries(inner, inner, max_size=2).map(EdnMap),
    ),
    max_leaves=4,
)


@given(VALUES, VALUES, VALUES)
def test_the_total_order_is_one(a: Any, b: Any, c: Any) -> None:
    first, second, third = map(total_order, (a, b, c))
    assert (first == second) == equal_values(a, b)
    assert (first < second) + (first == second) + (second < first) == 1
    if first < second and second < third:
        assert first < third


def test_nan_has_no_order_with_numbers_of_any_type() -> None:
    for missing in (math.nan, Decimal("NaN")):
        for number in (1, 1.5, Fraction(1, 2), Decimal(1), math.inf):
            assert compare_values(missing, number) == compare_values(number, missing) == 0
            assert total_order(number) < total_order(missing)


@given(VALUES)
def test_values_equal_themselves(value: Any) -> None:
    assert equal_values(value, value)
    assert total_order(value) == total_order(value)


@given(VALUES, VALUES)
def test_the_order_of_comparable_values_is_the_total_order(a: Any, b: Any) -> None:
    try:
        order = compare_values(a, b)
    except EvaluationError:
        return
    if order and not isinstance(a, tuple):
        assert (total_order(a) < total_order(b)) == (order < 0)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "nil"),
        (True, "boolean"),
        (1, "long"),
        ((1,), "vector"),
        ({}, "map"),
        (print, "builtin_function_or_method"),
    ],
)
def test_type_names(value: Any, name: str) -> None:
    assert type_name(value) == name


def test_truth() -> None:
    assert [is_true(value) for value in (None, False, 0, "", ())] == [False, False, True, True, True]


# --- the table ---------------------------------------------------------------------------------


def test_names_have_short_forms() -> None:
    upper = find_function("clojure.string/upper-case")
    assert find_function("str/upper-case") is upper
    assert find_function("string/upper-case") is upper
    assert find_function("clojure.core/str") is find_function("str")
    assert find_function("/") is BUILT_IN["/"]
    assert find_function("upper-case") is None
    assert find_function("other/str") is None


def test_the_tables_name_different_functions() -> None:
    assert set(BUILT_IN) >= NATIVE
    assert not set(BUILT_IN) & set(REFUSED)
    assert not set(BUILT_IN) & set(SOURCE_FUNCTIONS)
    assert {name for name, function in BUILT_IN.items() if function.native} == NATIVE
    known = known_functions(["my/f"])
    assert {"my/f", "get-else", "str"} <= set(known)
    assert ".length" not in known


def test_arity() -> None:
    texts = {name: BUILT_IN[name].arity for name in ("inc", "subs", "<", "+", "compare")}
    assert texts == {
        "inc": "1 argument",
        "subs": "2 to 3 arguments",
        "<": "at least 1 argument",
        "+": "at least 0 arguments",
        "compare": "2 arguments",
    }


def one(x: Any) -> Any:
    return x


def some(x: Any, y: Any = 1, *, z: Any = 2) -> Any:
    return x, y, z


def many(*values: Any) -> Any:
    return values


@pytest.mark.parametrize(
    ("function", "minimum", "maximum"),
    [(one, 1, 1), (some, 1, 2), (many, 0, None), (max, 0, None), (str.upper, 1, 1)],
)
def test_user_functions(function: Callable[..., Any], minimum: int, maximum: int | None) -> None:
    found = user_function("my/f", function)
    assert (found.name, found.minimum, found.maximum, found.result) == ("my/f", minimum, maximum, "value")
    assert found.evaluate is function
