"""The texts of values in result files, and deltas as change scripts."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dbsp.data.terms import Branch, Record, term_text
from dbsp.data.timestamps import duration_text
from dbsp.data.zset import ZSet


def text_of(value: Any) -> str:
    """Return a value as result files show it."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Record | Branch):
        return term_text(value, text_of)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, dt.timedelta):
        return duration_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return repr(value)


def float_text(value: float) -> str:
    """Return the shortest text that reads back as this float: `240`, `0.1`, `1e+20`, `nan`.

    It is the text that the bulk writer of float columns produces, so that a float looks the same in
    result files, in records and in change scripts.
    """
    size = abs(value)
    if not math.isfinite(value) or value == 0 or 1e-4 <= size < 1e10:
        return repr(value).removesuffix(".0")
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    text, exponent = "".join(map(str, digits)), Decimal(repr(value)).adjusted()
    if size < 1e-6 or size >= 1e10:
        text = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{exponent:+d}"
    else:
        text = f"0.{'0' * (-exponent - 1)}{text}"
    return "-" * sign + text


def literal_of(value: Any) -> str:
    """Return a value as change scripts write it."""
    if value is None:
        return "nil"
    if isinstance(value, bool | int | float):
        return text_of(value)
    if isinstance(value, Record | Branch):
        return term_text(value, literal_of)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(text_of(value), ensure_ascii=False)


def format_delta(deltas: Mapping[str, ZSet]) -> Iterator[str]:
    """Yield the lines of a change script for these deltas, without `commit`: `-path(1, 2)`.

    Relations are in the order of the mapping, rows are sorted; a weight of n is n equal lines.
    """
    for name, delta in deltas.items():
        for row, weight in delta.items():
            line = f"{'+' if weight > 0 else '-'}{name}({', '.join(map(literal_of, row))})"
            for _ in range(abs(weight)):
                yield line
