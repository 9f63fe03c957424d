"""Functions that cut, replace, pad and split strings, and find patterns in them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from dbsp.data.types import BOOL, INT, STR, list_type
from dbsp.errors import EvaluationError, ValueOutOfRangeError, shorten
from dbsp.expressions.functions import Overload, define, fits, overloads
from dbsp.expressions.logic import WhenNode
from dbsp.expressions.nodes import ConstantNode, ExpressionNode, Operation, StrictNode, fold
from dbsp.expressions.strings import compiled

MOST_CHARACTERS = 10_000_000
"""The largest width of padding; a larger one is an error and not a lack of memory."""


def _replaced_pattern(text: str, pattern: str, by: str) -> str:
    found = compiled(pattern)
    try:
        return found.sub(by, text)
    except (re.error, IndexError) as error:
        reason = f"{shorten(by)} does not fit the groups of {shorten(pattern)} ({error})"
        raise EvaluationError(reason, code="invalid-pattern") from None


@functools.lru_cache(maxsize=1024)
def _group(text: str, pattern: str, group: int) -> str | None:
    found = compiled(pattern)
    if not 0 <= group <= found.groups:
        reason = f"{shorten(pattern)} has groups 0 to {found.groups}, expected group {group}"
        raise EvaluationError(reason, code="invalid-pattern")
    match = found.search(text)
    return None if match is None else match.group(group)


def _extract(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 3 or not all(map(fits, arguments, (STR, STR, INT))):
        return None
    found = Operation(lambda text, pattern, group: _group(text, pattern, group) is not None, fallible=True)
    value = Operation(lambda text, pattern, group: _group(text, pattern, group) or "", fallible=True)
    result = STR.optional()
    return WhenNode(
        result,
        fold(StrictNode(BOOL, found, arguments)),
        fold(StrictNode(STR, value, arguments)),
        ConstantNode(result, None),
    )


def _checked(width: int, fill: str) -> None:
    if len(fill) != 1:
        raise EvaluationError(
            f"expected one character to fill with, got {shorten(fill)}", code="unsupported-value"
        )
    if width > MOST_CHARACTERS:
        raise ValueOutOfRangeError(f"the width is {width}; the maximum is {MOST_CHARACTERS:,}")


def _pad_start(text: str, width: int, fill: str) -> str:
    _checked(width, fill)
    return text.rjust(width, fill)


def _pad_end(text: str, width: int, fill: str) -> str:
    _checked(width, fill)
    return text.ljust(width, fill)


def _split(text: str, separator: str) -> list[str]:
    if not separator:
        raise EvaluationError(
            "expected a separator of one character or more, got ''", code="unsupported-value"
        )
    return text.split(separator)


for _name, _strip in {"strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip}.items():
    define(
        _name,
        f"{_name} expects a string, and the characters to remove as a string",
        overloads(Overload((STR,), STR, Operation(_strip)), Overload((STR, STR), STR, Operation(_strip))),
    )
define("title", "title expects a string", overloads(Overload((STR,), STR, Operation(str.title))))
define(
    "replace",
    "replace expects a string, the part to replace and its replacement",
    overloads(Overload((STR, STR, STR), STR, Operation(str.replace))),
)
define(
    "replace_pattern",
    "replace_pattern expects a string, a pattern and the replacement",
    overloads(Overload((STR, STR, STR), STR, Operation(_replaced_pattern, fallible=True))),
)
define("extract", "extract expects a string, a pattern and the number of a group", _extract)
for _name, _pad in {"pad_start": _pad_start, "pad_end": _pad_end}.items():
    define(
        _name,
        f"{_name} expects a string, a width and a character",
        overloads(Overload((STR, INT, STR), STR, Operation(_pad, fallible=True))),
    )
define(
    "split",
    "split expects a string, and the separator as a string",
    overloads(
        Overload((STR,), list_type(STR), Operation(str.split)),
        Overload((STR, STR), list_type(STR), Operation(_split, fallible=True)),
    ),
)
