"""Reading and writing files: fact files, result files and change scripts.

docs/reference/file-formats.md and docs/reference/change-scripts.md describe the formats.
"""

from __future__ import annotations

from dbsp.io.change_script import (
    ChangeLine,
    ChangeScriptReader,
    CommitLine,
    ScriptTick,
    parse_change_script,
    read_change_script,
)
from dbsp.io.facts import read_facts
from dbsp.io.places import Medium, Place, read_place, write_place
from dbsp.io.problems import DataError
from dbsp.io.results import format_delta, format_rows

__all__ = [
    "ChangeLine",
    "ChangeScriptReader",
    "CommitLine",
    "DataError",
    "Medium",
    "Place",
    "ScriptTick",
    "format_delta",
    "format_rows",
    "parse_change_script",
    "read_change_script",
    "read_facts",
    "read_place",
    "write_place",
]
