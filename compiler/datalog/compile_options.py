"""The options of a compilation: the keyword arguments of `compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of a program; `compile` documents them.

    `disabled` names the rewritings to skip, `magic` the relations to derive on demand: True for all
    relations for which that is possible, None for those that the compiler chooses.
    """

    strategy: Strategy = Strategy.AUTO
    disabled: frozenset[str] = frozenset()
    magic: bool | tuple[str, ...] | None = None
    demanded: Mapping[str, str] = field(default_factory=dict)
    """The relations that the planner selected for the data, with the reasons."""
    functors: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    recursion: Recursion = Recursion.AUTO
    word_size: int | None = None
    legacy: bool = False
    negation: Negation | None = None
    external: frozenset[str] = frozenset()
    """The inputs whose rows an index outside of the run keeps. Nothing but their changes is read
    from the run, so no operator may keep what it derives from them alone."""
    single: frozenset[str] = frozenset()
    """The inputs that never have more than one row."""
