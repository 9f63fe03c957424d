"""Errors for inputs and outputs that a run does not have."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dbsp.data.schema import suggestion
from dbsp.errors import InputError, shorten

_MOST_NAMES = 10
"""The most names that a message lists."""


class UnknownOutputError(InputError, KeyError):
    """There is no output of this name. Also a KeyError, since the result of a tick is a mapping."""

    code = "unknown-output"

    def __init__(self, name: Any, inputs: Collection[str], outputs: Collection[str]) -> None:
        if name in list(inputs):  # it may not be hashable
            message = f"'{name}' is an input, not an output; {_listed('outputs', outputs)}"
        else:
            message = _unknown("output", name, outputs)
        super().__init__(message)


def unknown_input(name: Any, inputs: Collection[str], outputs: Collection[str]) -> InputError:
    """Return the error for an input that does not exist."""
    if name in list(outputs):
        message = f"'{name}' is an output, so it cannot be changed directly; {_listed('inputs', inputs)}"
        return InputError(message, code="not-an-input")
    return InputError(_unknown("input", name, inputs), code="unknown-input")


def _unknown(kind: str, name: Any, known: Collection[str]) -> str:
    hint = suggestion(str(name), known)
    return f"unknown {kind} {shorten(name)}{hint or '; ' + _listed(f'{kind}s', known)}"


def _listed(kind: str, names: Collection[str]) -> str:
    if not names:
        return f"the circuit has no {kind}"
    first = list(names)[:_MOST_NAMES]
    more = f" and {len(names) - len(first)} more" if len(names) > len(first) else ""
    return f"the {kind} are {', '.join(first)}{more}"
