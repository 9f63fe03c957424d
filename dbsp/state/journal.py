"""The journal of a tick: a list of the state that it changes, which ends all of it or none."""

from __future__ import annotations

from typing import Protocol


class Journalled(Protocol):
    """State that a tick may change and that takes part in its all-or-nothing end."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...
