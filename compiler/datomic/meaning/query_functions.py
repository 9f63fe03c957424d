"""The functions that queries may call, by their names in Clojure.

`BUILT_IN` has the functions of values, `SOURCE_FUNCTIONS` those that read a source (`get-else`,
`get-some`, `missing?`), and `REFUSED` the functions of Datomic that a live query cannot have, with
what to write instead.

A function that returns nil binds nothing, and a predicate that returns nil or false holds for no
row. A user function is a Python callable on Python values.
"""

from __future__ import annotations

import datetime
import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from dbsp.compiler.datomic.meaning import clojure_collections as collections
from dbsp.compiler.datomic.meaning import clojure_numbers as numbers
from dbsp.compiler.datomic.meaning import clojure_strings as strings
from dbsp.compiler.datomic.meaning.clojure_order import compare_values, is_true
from dbsp.edn.edn_values import Keyword, Symbol
from dbsp.edn.edn_writer import display_text
from dbsp.errors import counted
from dbsp.lazy_dataclass import dataclass

Result = Literal["boolean", "integer", "number", "string", "keyword", "symbol", "collection", "value"]
"""What a function returns: `number` is of any category, `value` of any type, or nil."""

MANY = None
"""The greatest number of arguments of a function that takes any number."""


@dataclass(frozen=True, slots=True)
class QueryFunction:
    """A function of a query.

    `evaluate` works on Python values and raises EvaluationError, without the place of the clause.
    `native` is true if the engine has the function too, for arguments of the kinds it knows.
    """

    name: str
    minimum: int
    maximum: int | None
    evaluate: Callable[..., Any]
    result: Result
    native: bool = False

    def accepts(self, count: int) -> bool:
        """Whether the function takes this number of arguments."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)

    @property
    def arity(self) -> str:
        """The numbers of arguments, as messages write them."""
        if self.maximum is None:
            return f"at least {counted(self.minimum, 'argument')}"
        if self.minimum == self.maximum:
            return counted(self.minimum, "argument")
        return f"{self.minimum} to {counted(self.maximum, 'argument')}"


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function that reads a source: its arguments are the source, an entity and attributes."""

    name: str
    minimum: int
    maximum: int | None
    form: str

    def accepts(self, count: int) -> bool:
        """Whether the function takes this number of arguments."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)


SOURCE_FUNCTIONS: Mapping[str, SourceFunction] = {
    found.name: found
    for found in (
        SourceFunction("get-else", 4, 4, "[(get-else $ ?e :attribute default) ?x]"),
        SourceFunction("get-some", 3, MANY, "[(get-some $ ?e :attribute ...) [?a ?x]]"),
        SourceFunction("missing?", 3, 3, "[(missing? $ ?e :attribute)]"),
    )
}

_NOT_DETERMINISTIC = "its result differs at each call; compute the value in Python and pass it in :in"

REFUSED: Mapping[str, str] = {
    "rand": _NOT_DETERMINISTIC,
    "rand-int": _NOT_DETERMINISTIC,
    "rand-nth": _NOT_DETERMINISTIC,
    "random-uuid": _NOT_DETERMINISTIC,
    "now": _NOT_DETERMINISTIC,
    "shuffle": _NOT_DETERMINISTIC,
    "q": "a query has no nested queries; write its clauses in a rule or in an `or-join`",
    "fulltext": "there is no full-text index; write [?e :attribute ?text] "
    "[(clojure.string/includes? ?text ?search)]",
    "tx-ids": "write [?tx :db/txInstant ?when] and compare ?when",
    "tx-data": "write [?e ?a ?v ?tx ?added] with db.history() as the source",
    "complement": "functions are not values in a query; write (not [(predicate ?x)])",
    "apply": "functions are not values in a query; pass a Python function in :in",
    "map": "functions are not values in a query; pass a Python function in :in",
    "filter": "functions are not values in a query; write the condition as a clause",
    "count-distinct": "it is an aggregate; write it in :find",
    "sum": "it is an aggregate; write it in :find",
    "avg": "it is an aggregate; write it in :find",
}


def _pr_str(*values: Any) -> str:
    """The EDN texts of the values, with blanks between them."""
    return " ".join(map(display_text, values))


def _untuple(value: Any) -> Any:
    return value


def _is_true(value: Any) -> bool:
    return value is True


def _is_false(value: Any) -> bool:
    return value is False


def _not(value: Any) -> bool:
    return not is_true(value)


def _is_nil(value: Any) -> bool:
    return value is None


def _is_some(value: Any) -> bool:
    return value is not None


_is_type = collections.is_type

_TABLE: tuple[tuple[str, int, int | None, Callable[..., Any], Result], ...] = (
    # numbers
    ("+", 0, MANY, numbers.add, "number"),
    ("-", 1, MANY, numbers.subtract, "number"),
    ("*", 0, MANY, numbers.multiply, "number"),
    ("/", 1, MANY, numbers.divide, "number"),
    ("quot", 2, 2, numbers.quotient, "number"),
    ("rem", 2, 2, numbers.remainder, "number"),
    ("mod", 2, 2, numbers.modulus, "number"),
    ("inc", 1, 1, numbers.increment, "number"),
    ("dec", 1, 1, numbers.decrement, "number"),
    ("abs", 1, 1, numbers.absolute, "number"),
    ("min", 1, MANY, numbers.least, "value"),
    ("max", 1, MANY, numbers.greatest, "value"),
    ("even?", 1, 1, numbers.is_even, "boolean"),
    ("odd?", 1, 1, numbers.is_odd, "boolean"),
    ("pos?", 1, 1, numbers.is_positive, "boolean"),
    ("neg?", 1, 1, numbers.is_negative, "boolean"),
    ("zero?", 1, 1, numbers.is_zero, "boolean"),
    ("range", 1, 3, numbers.integers, "collection"),
    # comparisons
    ("=", 1, MANY, collections.all_equal, "boolean"),
    ("!=", 1, MANY, collections.not_all_equal, "boolean"),
    ("not=", 1, MANY, collections.not_all_equal, "boolean"),
    ("==", 1, MANY, collections.all_same_numbers, "boolean"),
    ("distinct?", 1, MANY, collections.all_different, "boolean"),
    ("<", 1, MANY, collections.ascending, "boolean"),
    ("<=", 1, MANY, collections.not_descending, "boolean"),
    (">", 1, MANY, collections.descending, "boolean"),
    (">=", 1, MANY, collections.not_ascending, "boolean"),
    ("compare", 2, 2, compare_values, "integer"),
    # logic
    ("and", 0, MANY, collections.logical_and, "value"),
    ("or", 0, MANY, collections.logical_or, "value"),
    ("not", 1, 1, _not, "boolean"),
    ("nil?", 1, 1, _is_nil, "boolean"),
    ("some?", 1, 1, _is_some, "boolean"),
    ("true?", 1, 1, _is_true, "boolean"),
    ("false?", 1, 1, _is_false, "boolean"),
    # values and types
    ("identity", 1, 1, _untuple, "value"),
    ("ground", 1, 1, _untuple, "value"),
    ("type", 1, 1, collections.type_keyword, "value"),
    ("string?", 1, 1, _is_type(str), "boolean"),
    ("number?", 1, 1, _is_type(int, float, Fraction, Decimal), "boolean"),
    ("integer?", 1, 1, _is_type(int), "boolean"),
    ("int?", 1, 1, _is_type(int), "boolean"),
    ("double?", 1, 1, _is_type(float), "boolean"),
    ("float?", 1, 1, _is_type(float), "boolean"),
    ("decimal?", 1, 1, _is_type(Decimal), "boolean"),
    ("ratio?", 1, 1, _is_type(Fraction), "boolean"),
    ("boolean?", 1, 1, _is_type(bool), "boolean"),
    ("keyword?", 1, 1, _is_type(Keyword), "boolean"),
    ("symbol?", 1, 1, _is_type(Symbol), "boolean"),
    ("inst?", 1, 1, _is_type(datetime.datetime), "boolean"),
    ("uuid?", 1, 1, _is_type(uuid.UUID), "boolean"),
    ("vector?", 1, 1, _is_type(tuple, list), "boolean"),
    ("set?", 1, 1, _is_type(Set), "boolean"),
    ("map?", 1, 1, _is_type(Mapping), "boolean"),
    # names
    ("keyword", 1, 2, strings.keyword, "keyword"),
    ("symbol", 1, 2, strings.symbol, "symbol"),
    ("name", 1, 1, strings.name_of, "string"),
    ("namespace", 1, 1, strings.namespace_of, "value"),
    # strings
    ("str", 0, MANY, strings.text_of, "string"),
    ("pr-str", 0, MANY, _pr_str, "string"),
    ("subs", 2, 3, strings.substring, "string"),
    ("re-pattern", 1, 1, strings.regular_expression, "value"),
    ("re-find", 2, 2, strings.first_match, "value"),
    ("re-matches", 2, 2, strings.whole_match, "value"),
    ("re-seq", 2, 2, strings.all_matches, "value"),
    ("clojure.string/upper-case", 1, 1, strings.upper_case, "string"),
    ("clojure.string/lower-case", 1, 1, strings.lower_case, "string"),
    ("clojure.string/capitalize", 1, 1, strings.capitalize, "string"),
    ("clojure.string/starts-with?", 2, 2, strings.starts_with, "boolean"),
    ("clojure.string/ends-with?", 2, 2, strings.ends_with, "boolean"),
    ("clojure.string/includes?", 2, 2, strings.includes, "boolean"),
    ("clojure.string/blank?", 1, 1, strings.is_blank, "boolean"),
    ("clojure.string/trim", 1, 1, strings.trim, "string"),
    ("clojure.string/triml", 1, 1, strings.trim_left, "string"),
    ("clojure.string/trimr", 1, 1, strings.trim_right, "string"),
    ("clojure.string/reverse", 1, 1, strings.reverse_text, "string"),
    ("clojure.string/join", 1, 2, strings.join_texts, "string"),
    ("clojure.string/split", 2, 3, strings.split_text, "collection"),
    ("clojure.string/replace", 3, 3, strings.replace_text, "string"),
    ("clojure.string/index-of", 2, 2, strings.index_of, "value"),
    ("clojure.string/last-index-of", 2, 2, strings.last_index_of, "value"),
    # collections
    ("tuple", 0, MANY, collections.vector, "collection"),
    ("untuple", 1, 1, _untuple, "collection"),
    ("vector", 0, MANY, collections.vector, "collection"),
    ("list", 0, MANY, collections.list_of, "collection"),
    ("set", 1, 1, collections.set_of, "collection"),
    ("hash-set", 0, MANY, collections.hash_set, "collection"),
    ("hash-map", 0, MANY, collections.hash_map, "collection"),
    ("array-map", 0, MANY, collections.hash_map, "collection"),
    ("count", 1, 1, collections.count_of, "integer"),
    ("empty?", 1, 1, collections.is_empty, "boolean"),
    ("not-empty", 1, 1, collections.not_empty, "value"),
    ("contains?", 2, 2, collections.has_key, "boolean"),
    ("get", 2, 3, collections.get, "value"),
    ("nth", 2, 3, collections.item_at, "value"),
    ("first", 1, 1, collections.first_item, "value"),
    ("second", 1, 1, collections.second_item, "value"),
    ("last", 1, 1, collections.last_item, "value"),
    ("rest", 1, 1, collections.rest_of, "collection"),
    ("distinct", 1, 1, collections.distinct_items, "collection"),
    ("sort", 1, 1, collections.sorted_items, "collection"),
    # methods of Java strings
    (".startsWith", 2, 2, strings.starts_with, "boolean"),
    (".endsWith", 2, 2, strings.ends_with, "boolean"),
    (".contains", 2, 2, strings.includes, "boolean"),
    (".toUpperCase", 1, 1, strings.upper_case, "string"),
    (".toLowerCase", 1, 1, strings.lower_case, "string"),
    (".length", 1, 1, collections.count_of, "integer"),
)

NATIVE = frozenset(
    {"+", "-", "*", "quot", "rem", "mod", "inc", "dec", "abs", "min", "max", "even?", "odd?", "pos?"}
    | {"neg?", "zero?", "=", "!=", "not=", "==", "<", "<=", ">", ">=", "identity", "ground", "count"}
    | {"str", "subs", "re-find", "re-matches", "clojure.string/upper-case", "clojure.string/trim"}
    | {"clojure.string/lower-case", "clojure.string/starts-with?", "clojure.string/ends-with?"}
    | {"clojure.string/includes?"}
)
"""Functions that the engine may evaluate itself, where the kinds of their arguments are known."""

BUILT_IN: Mapping[str, QueryFunction] = {
    name: QueryFunction(name, minimum, maximum, evaluate, result, name in NATIVE)
    for name, minimum, maximum, evaluate, result in _TABLE
}

_NAMESPACES = {"str": "clojure.string", "string": "clojure.string", "clojure.core": ""}


def find_function(name: str) -> QueryFunction | None:
    """Return the built-in function of a name, or None.

    `str/` is short for `clojure.string/`, and `clojure.core/` may be omitted.

    >>> find_function("str/upper-case").name
    'clojure.string/upper-case'
    """
    namespace, slash, rest = name.partition("/")
    if slash and rest and namespace in _NAMESPACES:
        name = f"{_NAMESPACES[namespace]}/{rest}".lstrip("/")
    return BUILT_IN.get(name)


def user_function(name: str, function: Callable[..., Any]) -> QueryFunction:
    """Return the function of a query that calls a Python function on Python values."""
    minimum, maximum = _parameters_of(function)
    return QueryFunction(name, minimum, maximum, function, "value")


def _parameters_of(function: Callable[..., Any]) -> tuple[int, int | None]:
    """The least and the greatest number of positional arguments, as far as Python knows."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions of Python without a signature
        return 0, None
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = sum(parameter.default is parameter.empty for parameter in positional)
    many = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    return required, None if many else len(positional)


def known_functions(user: Iterable[str] = ()) -> list[str]:
    """Return the names of all functions, for hints; methods of Java only have other names too."""
    return sorted({name for name in BUILT_IN if name[0] != "."} | {*SOURCE_FUNCTIONS, *user})
