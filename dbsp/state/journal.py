"""The journal of a tick: a list of the state that it changes, for commit and rollback."""

from __future__ import annotations

from typing import Protocol


class Journalled(Protocol):
    """State that a tick may change, and then commits or rolls back."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...
