"""The interface of checkpoints to circuits and programs: a protocol, and opening a folder.

`circuit.start(checkpoint=...)` takes a folder or a `Checkpoint`. The package `dbsp` registers the
function that opens a folder, so neither the builders nor the compiler import the code that writes
files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dbsp.errors import expect_present, wrong_argument

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph
    from dbsp.runtime.run import Run


class Checkpoint(Protocol):
    """The durable state of one run."""

    @property
    def spill(self) -> Path:
        """The folder for state beyond the memory limit; its files need not survive the run."""

    @property
    def query(self) -> str | None:
        """The identity of the query to which the checkpoint belongs; None if it is new."""

    @property
    def source(self) -> dict[str, Any] | None:
        """The program of the checkpoint as JSON, if `resume` got it."""

    @property
    def circuit(self) -> str | None:
        """The circuit of the snapshot as JSON; None without a snapshot or a JSON form."""

    def resume(
        self,
        query: Graph | str,
        start: Callable[[str | None], Run],
        source: dict[str, Any] | None = None,
    ) -> Run:
        """Return a run at the latest durable tick, and make its further ticks durable.

        `query` is the query circuit, or a text that identifies the query, with its program as
        `source`. `start` returns a run that has not been stepped; its argument is the circuit of
        the checkpoint as JSON, or None if there is none. Raises CheckpointError when the checkpoint
        belongs to another query or is damaged.
        """

    def close(self) -> None:
        """Release the folder."""


_opener: Callable[[Path], Checkpoint] | None = None


def register_opener(opener: Callable[[Path], Checkpoint]) -> None:
    """Set the function that opens a folder; the package `dbsp` calls this when it is imported."""
    global _opener
    _opener = opener


def open_checkpoint(place: Any) -> Checkpoint:
    """Open the checkpoint in a folder with default settings; return a `Checkpoint` unchanged."""
    if not isinstance(place, str | Path):
        if not hasattr(place, "resume"):
            raise wrong_argument("checkpoint", "a folder or a Store", place)
        checkpoint: Checkpoint = place
        return checkpoint
    return expect_present(_opener, "a function that opens folders")(Path(place))
