"""Compares results of queries as values: 1, 1.0 and true differ, and rows come in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .oracle.identity import identity


def rounded(value: Any) -> Any:
    """Round doubles to 10 digits, so that the order of an addition does not matter."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(map(rounded, value))
    return value


def value_key(value: Any) -> Any:
    return identity(rounded(value))


def as_set(values: Iterable[Any]) -> frozenset[Any]:
    """Return the keys of different values; fails if a value occurs twice."""
    keys = [value_key(value) for value in values]
    assert len(set(keys)) == len(keys), "a value occurs twice"
    return frozenset(keys)
