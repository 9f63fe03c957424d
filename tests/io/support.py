"""Reading of facts from files that directives name, and writing of lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from dbsp.compiler.datalog.meaning.directives import fact_source
from dbsp.compiler.datalog.meaning.word_ranges import UNSIGNED
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError
from dbsp.io.places import read_place
from dbsp.io.written_lines import write_lines

NAMED = Schema.of(id=int, name=str)


def rows_of(facts: Any) -> list[tuple[Any, ...]]:
    if isinstance(facts, list):
        return facts
    return list(zip(*(column.to_pylist() for column in facts.columns), strict=True))


def read(
    folder: Path, file: str, data: str | bytes, schema: Schema, unsigned: str = "", **parameters: str
) -> list[tuple[Any, ...]]:
    (folder / file).write_bytes(data.encode() if isinstance(data, str) else data)
    return rows_of(
        read_place(fact_source("rel", parameters, folder), schema, "rel", dict.fromkeys(unsigned, UNSIGNED))
    )


def refused(folder: Path, file: str, data: str | bytes, schema: Schema, **parameters: str) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, file, data, schema, **parameters)
    return str(caught.value).replace(f"{folder}/", "")


def lines_of(zset: ZSet, **options: Any) -> tuple[bytes, int]:
    """Return the lines of a Z-set, and the number of texts that cannot be read back."""
    file = io.BytesIO()
    unclear = write_lines(zset, file, **options)
    return file.getvalue(), unclear
