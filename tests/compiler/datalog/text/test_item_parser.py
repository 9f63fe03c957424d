"""The parser of one item."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from dbsp.compiler.datalog.text.grammar_table import GRAMMAR
from dbsp.compiler.datalog.text.item_builder import depth
from dbsp.compiler.datalog.text.item_parser import ItemParser, ParseTree
from dbsp.compiler.datalog.text.lexer import Lexer, PlacedToken
from dbsp.compiler.datalog.text.report import Report

LARK = Lark(GRAMMAR.read_text("utf-8"), parser="lalr", lexer="basic", maybe_placeholders=True)

ITEMS = [
    ".decl edge(x: number, y: symbol<max>) btree inline choice-domain x, (x, y)",
    ".decl none()",
    ".type T = [a: number, b: T]",
    ".type T = A {} | B { x: number }",
    ".input edge(IO=file, sep=\",\")",
    ".output a.b, c",
    ".plan 0: (2, 1), 1: ()",
    ".comp A<T, U> : B<T>, C {",
    ".init a = A<number>",
    ".functor f(x: number, symbol): symbol stateful",
    ".lattice T<> { Bottom -> 0, Lub -> max(_, _), Glb -> @f(_, _) }",
    ".pragma \"a\" \"b\"",
    "edge(1, -2, \"a\", 1.5, nil, $, [x, _], $A(1), $B).",
    "a(x), b(x) :- c(x, y); !d(x), x + y * 2 ^ 3 < max(x, y, 1), match(\"a\", x).",
    "a(x) <= a(y) :- a(x), a(y), x <= y.",
    "a(n) :- n = count : { b(x), (c(x) ; d(x)) }, m = sum x : b(x), true, as(x, t.u) = bnot x.",
    "a(x) :- b(x), c(x), d(x), e(x), f(x), g(x), h(x).",
]  # fmt: skip


def tokens_of(text: str) -> list[PlacedToken]:
    return list(Lexer(text, Report("item.dl", text)).tokens())


def plain(tree: Any) -> Any:
    """A tree of Lark or of this parser as nested lists."""
    if isinstance(tree, Tree | ParseTree):
        return [str(tree.data), *map(plain, tree.children)]
    return tree if tree is None else str(tree)


def read_by_lark(tokens: list[PlacedToken]) -> tuple[Any, int, frozenset[str]]:
    """The tree or None, the number of tokens read, and the types that are accepted next."""
    parser = LARK.parse_interactive("")
    for position, token in enumerate(tokens):
        try:
            parser.feed_token(Token(token.type, str(token)))
        except UnexpectedToken:
            return None, position, frozenset(parser.accepts())
    try:
        return plain(parser.feed_eof()), len(tokens), frozenset()
    except UnexpectedToken:
        return None, len(tokens), frozenset(parser.accepts())


def read(tokens: list[PlacedToken]) -> tuple[Any, int, frozenset[str]]:
    parser = ItemParser()
    position = parser.read(tokens, 0)
    if position < len(tokens):
        return None, position, parser.accepted()
    tree = parser.finished()
    return (plain(tree), position, frozenset()) if tree is not None else (None, position, parser.accepted())


@pytest.mark.parametrize("text", ITEMS)
def test_the_tree_of_an_item_is_that_of_lark(text: str) -> None:
    tokens = tokens_of(text)
    tree, position, _ = read(tokens)
    assert tree is not None
    assert position == len(tokens)
    assert tree == read_by_lark(tokens)[0]


@given(st.sampled_from(ITEMS), st.data())
def test_a_wrong_token_stops_the_parser_where_it_stops_lark(text: str, data: st.DataObject) -> None:
    tokens = [token for token in tokens_of(text) if token.type != "DOT"]
    others = tokens_of(" ".join(ITEMS).replace(".", ""))
    place = data.draw(st.integers(0, len(tokens) - 1))
    instead = data.draw(st.lists(st.sampled_from(others), max_size=2))
    changed = [*tokens[:place], *instead, *tokens[place + 1 :]]
    if changed:
        assert read(changed) == read_by_lark(changed)


def test_the_parser_stops_after_a_dot() -> None:
    parser = ItemParser()
    assert parser.read(tokens_of("a(1). b(2)."), 0) == 5
    tree = parser.finished()
    assert tree is not None
    assert (tree.data, tree.span.column, tree.span.end_column) == ("fact", 1, 6)


@pytest.mark.parametrize("text", [*ITEMS, "a().", "a(x).", ".plan 0: ()", ".override a", "a(((x)))."])
def test_a_tree_has_no_more_levels_than_tokens(text: str) -> None:
    tokens = tokens_of(text)
    parser = ItemParser()
    parser.read(tokens, 0)
    tree = parser.finished()
    assert tree is not None
    assert depth(tree) <= len(tokens)


def test_a_copy_continues_alone() -> None:
    tokens = tokens_of(".output a, b")
    parser = ItemParser()
    parser.read(tokens, 0)
    tree = parser.copy().finished()
    assert tree is not None
    assert tree.data == "directive"
    assert "COMMA" in parser.accepted()


def test_the_place_of_a_tree_is_from_its_first_to_its_last_token() -> None:
    text = "a(x) :-\n  b(x),\n  c(x, y)."
    parser = ItemParser()
    parser.read(tokens_of(text), 0)
    tree = parser.finished()
    assert tree is not None
    span = tree.span
    assert (span.file, span.line, span.column, span.end_line, span.end_column) == ("item.dl", 1, 1, 3, 11)
    with pytest.raises(AssertionError, match="the parse tree of qualifiers has no token"):
        _ = ParseTree("qualifiers", [None, ParseTree("x", [])]).span


def test_a_list_grows_in_place() -> None:
    tokens = tokens_of("a(x, y, z, u, v).")
    parser = ItemParser()
    assert parser.read(tokens[:6], 0) == 6
    two: Any = parser._children[-2]
    children = two.children
    parser.read(tokens[:8], 6)
    three: Any = parser._children[-2]
    assert three.children is children
