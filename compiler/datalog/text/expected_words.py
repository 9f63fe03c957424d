"""The tokens that the parser expects, in words."""

from __future__ import annotations

from collections.abc import Collection

from dbsp.compiler.datalog.text.lexer import DIRECTIVES, SIGNS

DIRECTIVE_STARTS = frozenset({*DIRECTIVES.values(), "BROKEN_DIRECTIVE"})
ITEM_STARTS = DIRECTIVE_STARTS | {"IDENT", "QUALIFIED", "RBRACE"}

# Groups of tokens that the message names together when all of them are allowed.
_GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (ITEM_STARTS - {"BROKEN_DIRECTIVE", "QUALIFIED", "INCLUDE", "ONCE"}, "a rule, a fact or a directive"),
    (frozenset({"IDENT", "NUMBER", "STRING", "LPAREN", "NOT", "TRUE", "FALSE"}), "an atom or a condition"),
    (frozenset({"IDENT", "NUMBER", "STRING", "LPAREN", "UNDERSCORE"}), "a term"),
    (frozenset({"EQUALS", "NE", "LT", "LE", "GT", "GE"}), "a comparison"),
    (frozenset({"LOR"}), "an operator"),
    (frozenset({"STRING", "NUMBER", "TRUE"}), "a value"),
)
_TERM_STARTS = frozenset(
    {"IDENT", "QUALIFIED", "NUMBER", "UNSIGNED", "FLOAT", "STRING", "UNDERSCORE", "LPAREN", "MINUS"}
    | {"FUNCTOR", "MINMAX", "AGGREGATE", "COMPLEMENT", "AS", "LBRACKET", "NIL", "BRANCH", "AT", "DOLLAR"}
)
_COVERED = {
    "a rule, a fact or a directive": ITEM_STARTS,
    "an atom or a condition": _TERM_STARTS | {"NOT", "TRUE", "FALSE", "TEXT_TEST"},
    "a term": _TERM_STARTS,
    "a comparison": frozenset({"EQUALS", "NE", "LT", "LE", "GT", "GE"}),
    "an operator": frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET"})
    | {"LOR", "LXOR", "LAND", "BOR", "BXOR", "BAND", "SHIFT"},
    "a value": frozenset({"STRING", "NUMBER", "TRUE", "FALSE", "IDENT"}),
}
_WORDS = {kind: f"'{sign}'" for sign, kind in SIGNS.items()} | {
    "IDENT": "a name",
    "QUALIFIED": "a qualified name",
    "NUMBER": "a number",
    "BRANCH": "a branch such as '$Leaf'",
    "NIL": "'nil'",
    "STRING": "a string",
    "QUALIFIER": "a qualifier such as 'btree'",
    "CHOICE": "'choice-domain'",
    "$END": "the end of the text",
}


def expected_words(expected: Collection[str]) -> str:
    """The tokens in words, those that usually come together as one: `',' or '.'`, `a term`."""
    words: list[str] = []
    left = set(expected)
    if "IDENT" in left:
        left.discard("QUALIFIED")
    if "IF" in left:
        left.discard("LE")  # subsumption is rare
    if {"LT", "COMMA"} <= left and "EQUALS" not in left:
        left.discard("LT")  # and so are lattices
    if "QUALIFIER" in left:
        left.discard("CHOICE")
    for needed, name in _GROUPS:
        if needed <= left:
            words.append(name)
            left -= _COVERED[name]
    words.extend(_WORDS.get(kind, kind.lower()) for kind in sorted(left - {"$END", "QUALIFIER", "CHOICE"}))
    if not words:
        words = [_WORDS[kind] for kind in sorted(left)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
