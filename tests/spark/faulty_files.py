"""A shared folder whose file system fails at chosen calls, or is slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dbsp.spark.cluster.shared_folder import SharedFolder


@dataclass
class Faults:
    """Fails one call of all folders that share it."""

    at: int | None = None
    """The number of the call that raises OSError; None for no call."""
    after: bool = False
    """Whether that call does its work before it raises, as when an answer is lost."""
    seconds: float = 0.0
    """How long every call takes."""
    calls: int = 0
    failed: bool = False

    def arm(self, at: int, after: bool) -> None:
        self.at, self.after, self.calls, self.failed = at, after, 0, False

    def disarm(self) -> None:
        self.at = None

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            if self.seconds:
                time.sleep(self.seconds)
            self.calls += 1
            fails = self.calls == self.at
            if fails and not self.after:
                self.failed = True
                raise OSError(5, f"call {self.calls} fails", name)
            result = function(*arguments, **named)
            if fails:
                self.failed = True
                raise OSError(5, f"the answer of call {self.calls} is lost", name)
            return result

        return called


class FaultyFiles:
    """A file system of pyarrow whose methods fail."""

    def __init__(self, files: Any, faults: Faults) -> None:
        self._files = files
        self._faults = faults

    @property
    def type_name(self) -> str:
        return str(self._files.type_name)

    def __getattr__(self, name: str) -> Any:
        return self._faults.wrap(name, getattr(self._files, name))


@dataclass(frozen=True)
class FaultyFolder(SharedFolder):
    """A shared folder on such a file system."""

    faults: Faults = field(default_factory=Faults, compare=False)

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        files, path = SharedFolder(self.location)._opened
        return FaultyFiles(files, self.faults), path
