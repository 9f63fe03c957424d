"""The table of the LALR parser, built in advance by Lark from `grammar.lark`.

To build the table takes Lark 70 ms and to load Lark 30 ms, so the table is in `grammar.json`, and
`item_parser` runs it. The file names the grammar that it was built from; for another one the table
is built. After a change of the grammar, write the file again:

    python -m dbsp.compiler.datalog.text.grammar_table
"""

from __future__ import annotations

import json
from collections import deque
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from dbsp.lazy_dataclass import dataclass

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLE = Path(__file__).with_name("grammar.json")
END = "$END"
"""The symbol after the last token of an item."""


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """A rule of the grammar, and the parse tree that its reduction makes of the trees of its parts.

    `parts` has one entry for each child of the tree: None for an optional part that is not there,
    and otherwise the position of the part. A position p that is negative is the part -p - 1, of
    which only the children become children of the tree.
    """

    origin: str
    """The symbol that the rule defines."""
    size: int
    """The number of its parts."""
    tree: str
    """The name of the tree."""
    parts: tuple[int | None, ...]
    passes_single: bool
    """Whether a single child takes the place of the tree."""


@dataclass(frozen=True, slots=True)
class GrammarTable:
    """An LALR table. `actions` has a mapping for each state, from the symbols that may follow.

    The action of a symbol is the next state, or -1 - r to reduce the rule with the number r. State
    0 is the first one, and the next state after the end of an item.
    """

    rules: tuple[GrammarRule, ...]
    actions: tuple[dict[str, int], ...]


@cache
def grammar() -> GrammarTable:
    """Return the table of the grammar."""
    document = json.loads(TABLE.read_text("utf-8"))
    return _read(document) if document["source"] == _source() else built_grammar()


def built_grammar() -> GrammarTable:
    """Build the table from the grammar."""
    from lark import Lark

    lark = Lark(GRAMMAR.read_text("utf-8"), parser="lalr", lexer="basic", maybe_placeholders=True)
    parser: Any = lark.parser.parser
    table, callbacks = parser._parse_table, parser.parser.callbacks
    numbers = {rule: number for number, rule in enumerate(lark.rules)}
    # Lark numbers the states in the order of a set; here they are numbered as they are reached.
    states = {table.start_states["start"]: 0}
    waiting = deque(states)
    actions: list[dict[str, int]] = []
    while waiting:
        row: dict[str, int] = {}
        for symbol, (_, target) in sorted(table.states[waiting.popleft()].items()):
            if isinstance(target, int) and target not in states:
                states[target] = len(states)
                waiting.append(target)
            row[symbol] = states[target] if isinstance(target, int) else -1 - numbers[target]
        actions.append(row)
    actions[states[table.end_states["start"]]][END] = 0
    return GrammarTable(tuple(_rule(rule, callbacks[rule]) for rule in lark.rules), tuple(actions))


def _rule(rule: Any, callback: Any) -> GrammarRule:
    """Return a rule of Lark; its callback is a chain of functions from the parts to the tree."""
    parts: tuple[int | None, ...] = tuple(range(len(rule.expansion)))
    passes_single = False
    while (inner := getattr(callback, "node_builder", None)) is not None:
        if hasattr(callback, "to_include"):
            parts = _children(callback)
        else:
            passes_single = True
        callback = inner
    tree = str(callback.args[0])
    return GrammarRule(str(rule.origin.name), len(rule.expansion), tree, parts, passes_single)


def _children(callback: Any) -> tuple[int | None, ...]:
    """Return the children of a tree, as in `GrammarRule`, from Lark's filter of the parts."""
    parts: list[int | None] = []
    for position, expands, *absent in callback.to_include:
        parts += [None] * sum(absent)
        parts.append(-1 - position if expands else position)
    return (*parts, *[None] * getattr(callback, "append_none", 0))


def table_text() -> str:
    """Return the content of the file with the table."""
    table = built_grammar()
    document = {
        "source": _source(),
        "rules": [[r.origin, r.size, r.tree, r.parts, r.passes_single] for r in table.rules],
        "actions": table.actions,
    }
    return json.dumps(document, separators=(",", ":")).replace("},{", "},\n{").replace("],[", "],\n[") + "\n"


def _read(document: dict[str, Any]) -> GrammarTable:
    """Return the table of a file."""
    rules = tuple(
        GrammarRule(origin, size, tree, tuple(parts), passes_single)
        for origin, size, tree, parts, passes_single in document["rules"]
    )
    return GrammarTable(rules, tuple(document["actions"]))


def _source() -> str:
    """What the table depends on."""
    return sha256(GRAMMAR.read_bytes()).hexdigest()


if __name__ == "__main__":
    TABLE.write_text(table_text(), "utf-8")
