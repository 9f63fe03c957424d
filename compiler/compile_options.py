"""How a program is compiled: what the keywords of `compile` say besides the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbsp.compiler.datalog.rewrites import NAMES
from dbsp.compiler.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of a program; `compile` says what each means.

    `passes` are the rewritings to apply, `magic` the relations to derive on demand, or all for which that is
    possible.
    """

    strategy: Strategy = Strategy.AUTO
    passes: tuple[str, ...] = NAMES
    magic: bool | tuple[str, ...] = False
    functors: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    recursion: Recursion = Recursion.AUTO
    word_size: int | None = None
