"""The names of a circuit's stages (see `dbsp.operators.stages.circuit_stages`)."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """A form of a circuit; each can be drawn, inspected and run."""

    QUERY = "query"
    INCREMENTAL = "incremental"
    PHYSICAL = "physical"
    DISTRIBUTED = "distributed"
