"""The parser of the grammar, from a table that is built in advance.

Lark needs 70 ms to build the parser from `grammar.lark`, and 5 ms to load `grammar.json`. The table
names the grammar and the version of Lark that it was built from; for others the parser is built.
After a change of the grammar, write the table again:

    python -m dbsp.compiler.datalog.text.grammar_table
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLE = Path(__file__).with_name("grammar.json")


@cache
def grammar() -> Lark:
    """Return the parser of the grammar."""
    table = json.loads(TABLE.read_text("utf-8"), object_hook=_with_numbers)
    if table["source"] != _source():
        return built_grammar()
    load: Any = Lark._load_from_dict
    parser: Lark = load(table["data"], table["memo"])
    return parser


def built_grammar() -> Lark:
    """Build the parser from the grammar."""
    return Lark(GRAMMAR.read_text("utf-8"), parser="lalr", lexer="basic", maybe_placeholders=True)


def table_text() -> str:
    """Return the content of the table."""
    data, memo = built_grammar().memo_serialize([TerminalDef, Rule])
    data["options"]["source_path"] = None
    table = {"source": _source(), "data": data, "memo": memo}
    return json.dumps(table, separators=(",", ":")).replace("},", "},\n") + "\n"


def _source() -> str:
    """What the table depends on."""
    return f"lark {lark.__version__}, {sha256(GRAMMAR.read_bytes()).hexdigest()}"


def _with_numbers(entries: dict[str, Any]) -> dict[int | str, Any]:
    """Undo that JSON has text keys only."""
    return {int(key) if key.isdigit() else key: value for key, value in entries.items()}


if __name__ == "__main__":
    TABLE.write_text(table_text(), "utf-8")
