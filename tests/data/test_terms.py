"""Records and branches: Python values, codes, text and order, at any nesting depth."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Branch, Record
from dbsp.data.finder import Finder
from dbsp.data.int_range import IntRange
from dbsp.data.interner import Interner
from dbsp.data.terms import term_text
from dbsp.data.type_inference import as_type
from dbsp.data.types import NIL, define_structures, read_structure, structure_type
from dbsp.data.value_order import rank_codes
from dbsp.data.values import decode_value, encode_value
from dbsp.durable import DeltaLog
from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError
from dbsp.io.results import literal_of, text_of
from dbsp.io.term_text import TermTextError, read_cell, read_term

STRUCTURES = define_structures(
    {
        "List": [("", [("head", "int"), ("tail", "@List")])],
        "Pair": [("", [("a", "float"), ("b", "str")])],
        "Expr": [
            ("Number", [("x", IntRange(0, 2**63 - 1).written)]),
            ("Add", [("left", "@Expr"), ("right", "@Expr")]),
            ("Named", [("name", "str"), ("of", "@Pair")]),
            ("Nothing", []),
        ],
    }
)
LIST, PAIR, EXPR = (structure_type(STRUCTURES[name]) for name in ("List", "Pair", "Expr"))

TEXTS = st.text("abé ;", max_size=2)
PAIRS = st.none() | st.builds(lambda a, b: (a, b), st.sampled_from([0.5, -1.0, 2.0]), TEXTS)
LISTS = st.lists(st.integers(-2, 2), max_size=4).map(lambda items: listed(*items))
EXPRS = st.recursive(
    st.builds(Branch, st.just("Number"), st.integers(0, 2))
    | st.builds(Branch, st.just("Named"), TEXTS, PAIRS)
    | st.just(Branch("Nothing")),
    lambda inner: st.builds(Branch, st.just("Add"), inner, inner),
    max_leaves=5,
)
DEEP = 20_000


def listed(*items: int) -> Any:
    """Return a linked list of pairs."""
    made = None
    for item in reversed(items):
        made = (item, made)
    return made


def deep_list() -> Any:
    interner = Interner()
    return decode_value(LIST, encode_value(LIST, listed(*range(DEEP)), interner), interner)


def deep_sum() -> Branch:
    made = Branch("Number", 1)
    for _ in range(DEEP):
        made = Branch("Add", made, Branch("Nothing"))
    return made


# --- types ----------------------------------------------------------------------------------------


def test_a_type_is_written_with_all_its_structures() -> None:
    assert LIST.written == "@List = [head: int, tail: @List]"
    assert EXPR.optional().written == (
        "@Expr = $Number{x: int[0..9223372036854775807]} | $Add{left: @Expr, right: @Expr}"
        " | $Named{name: str, of: @Pair}"
        " | $Nothing{}; @Pair = [a: float, b: str]?"
    )
    for type_ in (LIST, PAIR, EXPR, EXPR.optional()):
        assert as_type(type_.written) == type_ == pickle.loads(pickle.dumps(type_))
    assert (str(LIST), str(EXPR.optional()), LIST == PAIR) == ("List", "Expr?", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Pair = [a: int]",
            "expected a definition of a structure, such as '@Pair = [a: int, b: str]', got 'Pair = [a: int]'",
        ),
        ("@Pair = [a: int, b]", "expected a type for every field, as in 'x: int', got 'a: int, b'"),
        ("@Pair = [a: @Other]", "field 'a': the structure @Other is not defined"),
        ("@E = A{x: int}", "expected a constructor, such as '$Name{x: int}', got 'A{x: int}'"),
    ],
)
def test_a_text_that_defines_no_structure(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        read_structure(text)
    assert refused.value.message == message


# --- codes ----------------------------------------------------------------------------------------


@given(st.lists(LISTS | LISTS, max_size=8), st.lists(EXPRS, max_size=8))
def test_equal_values_have_one_code_and_round_trip(lists: list[Any], exprs: list[Branch]) -> None:
    interner = Interner()
    for type_, values in ((LIST, lists), (EXPR, exprs)):
        codes = [encode_value(type_, value, interner) for value in values]
        assert [decode_value(type_, code, interner) for code in codes] == values
        for one, code in zip(values, codes, strict=True):
            for other, other_code in zip(values, codes, strict=True):
                assert (one == other) == (code == other_code)
        again = [encode_value(type_, decode_value(type_, code, interner), interner) for code in codes]
        assert again == codes == [encode_value(type_, value, Finder(interner)) for value in values]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=40))
def test_rows_constructed_at_once_and_one_by_one_have_the_same_codes(rows: list[tuple[int, int]]) -> None:
    layout = define_structures({"P": [("", [("a", "int"), ("b", "int")])]})["P"].constructors[0].layout
    interner = Interner()
    first = [interner.construct_one(layout, row) for row in rows[::2]]
    codes = interner.construct(layout, np.array(rows, np.int64))
    assert codes[::2].tolist() == first
    assert len(set(codes.tolist())) == len(set(rows)) == len(interner)
    assert interner.cells.has_layout(layout, np.append(codes, NIL)).tolist() == [True] * len(rows) + [False]
    for position in (0, 1):
        fields = interner.cells.field(layout, np.append(codes, NIL), position, 7).tolist()
        assert fields == [row[position] for row in rows] + [7]
    assert interner.encode("a text between") == len(interner) - 1
    assert interner.construct(layout, np.array(rows, np.int64)).tolist() == codes.tolist()


def test_a_value_that_was_never_constructed_is_not_found() -> None:
    interner = Interner()
    encode_value(LIST, (1, (2, None)), interner)
    before = len(interner)
    with pytest.raises(KeyError):
        encode_value(LIST, (2, (2, None)), Finder(interner))
    assert len(interner) == before


@pytest.mark.parametrize(
    ("type_", "value", "error", "message"),
    [
        (
            LIST,
            3,
            InputError,
            "expected List, a record, got 3 of type int; write a record as a tuple and nil as None",
        ),
        (LIST, (1,), InputError, "expected 2 fields of List, got 1: [1]"),
        (LIST, (1, ("x", None)), InputError, "field 'head' of List: expected int, got 'x' of type str"),
        (EXPR, None, InputError, 'expected Expr, got None of type NoneType; write Branch("Number", ...)'),
        (EXPR, (1,), InputError, 'expected Expr, got (1,) of type tuple; write Branch("Number", ...)'),
        (
            EXPR,
            Branch("Adds"),
            InputError,
            "unknown branch $Adds; the branches of Expr are $Number, $Add, $Named, $Nothing",
        ),
        (
            EXPR,
            Branch("Number", -1),
            ValueOutOfRangeError,
            "field 'x' of $Number: expected an int from 0 to 9223372036854775807, got -1",
        ),
        (
            EXPR,
            Branch("Number", 2**63),
            ValueOutOfRangeError,
            "field 'x' of $Number: expected an int from 0 to 9223372036854775807, got 9223372036854775808",
        ),
        (
            EXPR,
            Branch("Number", np.int64(-1)),
            ValueOutOfRangeError,
            "field 'x' of $Number: expected an int from 0 to 9223372036854775807, got -1",
        ),
    ],
)
def test_values_that_do_not_fit(type_: Any, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        encode_value(type_, value, Interner())
    assert refused.value.message == message


# --- order ----------------------------------------------------------------------------------------


def shortlex(value: Any) -> Any:
    items = []
    while value is not None:
        items.append(value[0])
        value = value[1]
    return len(items), items


@given(st.lists(LISTS, max_size=12))
def test_lists_are_ordered_by_length_and_then_by_their_elements(values: list[Any]) -> None:
    interner = Interner()
    codes = np.array([encode_value(LIST, value, interner) for value in values], np.int64)
    ranks = rank_codes(LIST, codes, interner).tolist()
    order = sorted(range(len(values)), key=ranks.__getitem__)
    assert [values[at] for at in order] == sorted(values, key=shortlex)


@given(st.lists(EXPRS, max_size=8), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_interning(values: list[Branch], shuffler: Any) -> None:
    def sorted_by_rank(given: list[Branch]) -> list[Branch]:
        interner = Interner()
        codes = np.array([encode_value(EXPR, value, interner) for value in given], np.int64)
        ranks = rank_codes(EXPR, codes, interner).tolist()
        return [given[at] for at in sorted(range(len(given)), key=ranks.__getitem__)]

    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert sorted_by_rank(values) == sorted_by_rank(shuffled)


@given(st.lists(PAIRS, max_size=12))
def test_flat_records_are_ordered_by_their_fields(values: list[Any]) -> None:
    interner = Interner()
    codes = np.array([encode_value(PAIR, value, interner) for value in values], np.int64)
    ranks = rank_codes(PAIR, codes, interner).tolist()
    order = sorted(range(len(values)), key=ranks.__getitem__)
    assert [values[at] for at in order] == sorted(values, key=lambda one: (one is not None, one))


# --- as Python values -----------------------------------------------------------------------------


def test_a_record_is_a_tuple() -> None:
    record = Record((1, Record((2, None))))
    assert record == (1, (2, None)) and record == (1, (2, None))
    assert hash(record) == hash((1, (2, None))) and {record: "x"}[1, (2, None)] == "x"
    assert record != (1, (2, (3, None))) and record != (1, 2) and record != [1]
    assert repr(record) == "(1, (2, None))" and repr(Record((1,))) == "(1,)" and repr(Record()) == "()"
    assert str(record) == repr(record)
    with pytest.raises(AttributeError, match="a record is immutable"):
        record.x = 1  # type: ignore[attr-defined]


def test_a_branch_is_a_value() -> None:
    branch = Branch("Add", Branch("Number", 1), Branch("$Nothing"))
    assert branch == Branch("Add", Branch("Number", 1), Branch("Nothing"))
    assert branch != Branch("Add", Branch("Number", 2), Branch("Nothing")) and branch != ("Add",)
    assert repr(branch) == "Branch('Add', Branch('Number', 1), Branch('Nothing'))"
    assert str(branch) == "$Add($Number(1), $Nothing)"
    assert len({branch, copy.deepcopy(branch), pickle.loads(pickle.dumps(branch))}) == 1
    with pytest.raises(AttributeError, match="a branch is immutable"):
        branch.name = "Sub"
    match branch:
        case Branch(name="Add", arguments=(Branch(arguments=(number,)), _)):
            assert number == 1
        case _:
            pytest.fail("a branch can be matched")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "make"), [(LIST, deep_list), (EXPR, deep_sum)], ids=["a list", "an expression"]
)
def test_deep_values_need_no_recursion(type_: Any, make: Any) -> None:
    value, other = make(), make()
    assert value == other and hash(value) == hash(other)
    assert (value != other) is False
    assert pickle.loads(pickle.dumps(value)) == value
    assert len(repr(value)) > DEEP
    text = text_of(value)
    assert read_cell(type_, text) == value
    interner = Interner()
    code = encode_value(type_, value, interner)
    assert decode_value(type_, code, interner) == value
    assert len(set(rank_codes(type_, np.arange(code + 1)[[0, -1]], interner).tolist())) == 2


# --- text -----------------------------------------------------------------------------------------


@given(EXPRS)
def test_quoted_text_round_trips(value: Branch) -> None:
    text = term_text(value, literal_of)
    assert read_term(EXPR, text, 0, lambda inside, at: inside) == (value, len(text))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (LIST, "nil", None),
        (LIST, " [ 1 ,[2,nil ] ] ", (1, (2, None))),
        (PAIR, "[1, some text]", (1.0, "some text")),
        (PAIR, "[-1.5e3,]", (-1500.0, "")),
        (EXPR, "$Nothing", Branch("Nothing")),
        (EXPR, "$Nothing ( )", Branch("Nothing")),
        (
            EXPR,
            "$Add($Number(0x10),$Named(a [b], nil))",
            Branch("Add", Branch("Number", 16), Branch("Named", "a [b]", None)),
        ),
    ],
)
def test_text_as_files_have_it(type_: Any, text: str, value: Any) -> None:
    assert read_cell(type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text", "message", "start"),
    [
        (LIST, "", "a record [head, tail] of type List, or nil", 0),
        (LIST, "nils", "a record [head, tail] of type List, or nil", 0),
        (LIST, "[1, [2, nil]", "']'", 12),
        (LIST, "[1]", "','", 2),
        (LIST, "[1, nil, nil]", "']'", 7),
        (LIST, "[x, nil]", "a whole number in field 'head'", 1),
        (LIST, "[1, nil] 2", "the end of the value", 9),
        (EXPR, "Nothing", "a branch of Expr ($Number, $Add, $Named, $Nothing)", 0),
        (EXPR, "$Number", "'(' and the arguments of $Number", 7),
        (EXPR, "$Number(-1)", "an int from 0 to 9223372036854775807 in field 'x'", 8),
        (EXPR, "$Nothing(1)", "')'", 9),
    ],
)
def test_text_that_is_not_a_value(type_: Any, text: str, message: str, start: int) -> None:
    with pytest.raises(TermTextError) as refused:
        read_cell(type_, text)
    assert (str(refused.value), refused.value.start) == (message, start)


# --- where columns of plain values are needed -----------------------------------------------------


def test_arrow_and_parquet_refuse_them_by_name(tmp_path: Any) -> None:
    rows = dbsp.ZSet({((1, None), 2): 1}, dbsp.Schema.of(items=LIST, n=int))
    with pytest.raises(SchemaError, match="column 'items' of type List cannot be converted to Arrow"):
        rows.to_arrow()
    with pytest.raises(SchemaError, match="column 'items' of type List cannot"):
        rows.to_pandas()
    with pytest.raises(SchemaError, match="column 'items' of type List cannot"):
        DeltaLog(tmp_path).append(1, {"lists": rows})


def test_another_interner_has_different_codes() -> None:
    schema = dbsp.Schema.of(items=LIST)
    one = dbsp.ZSet({((1, (2, None)),): 1, (None,): 2}, schema)
    other = dbsp.ZSet({((5, None),): 1, (None,): 2, ((1, (2, None)),): 1}, schema)
    assert (other - one).to_dict() == {((5, None),): 1}
    assert one == {((1, (2, None)),): 1, (None,): 2}
