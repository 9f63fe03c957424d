"""The meanings of negation, for programs in which a relation depends on its own negation."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Negation(StrEnum):
    """The values of `compile(negation=...)`."""

    STRATIFIED = "stratified"
    """No relation depends on its own negation; such a program is refused."""
    WELL_FOUNDED = "well-founded"
    """A row of such a relation is true, false or undefined (see `well_founded`)."""


NegationName: TypeAlias = Literal["stratified", "well-founded"]
"""The name of a value."""
