"""The names of a circuit's stages (see `dbsp.operators.stages.circuit_stages`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Stage(StrEnum):
    """A form of a circuit; each can be drawn, inspected and run."""

    QUERY = "query"
    INCREMENTAL = "incremental"
    PHYSICAL = "physical"
    DISTRIBUTED = "distributed"


StageName: TypeAlias = Literal["query", "incremental", "physical", "distributed"]
"""The name of a stage."""
