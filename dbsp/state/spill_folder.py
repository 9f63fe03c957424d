"""The folder of the run files that a memory limit moves out of memory.

Its files belong to one process and need not survive it. A file is removed when nobody refers to its
run any more. A snapshot of a checkpoint may rename one into its own folder: then it stays.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
import weakref
from pathlib import Path

from dbsp.errors import CheckpointError
from dbsp.state.mapped_runs import map_run
from dbsp.state.run_file import RunFile
from dbsp.state.sorted_run import SortedRun


class SpillFolder:
    """A folder that is made when its first file is; without a path, a temporary folder."""

    def __init__(self, path: Path | None = None) -> None:
        # Here, since locks load in 20 ms and most runs have no memory limit, and not at the first
        # file, since memory is short then.
        from dbsp.state import temporary_folder

        self._temporary = temporary_folder
        self._given = path
        self._path: Path | None = None
        self._name = uuid.uuid4().hex[:12]  # an earlier run of the same folder may still remove its files
        self._next = 0

    @property
    def place(self) -> Path:
        """The folder, or the folder in which a temporary one will be made."""
        return self._path or self._given or Path(tempfile.gettempdir())

    def new_path(self) -> Path:
        """Return the path of a new file. Raises OSError."""
        if self._path is None:
            if self._given is None:
                self._path, lock = self._temporary.make_folder()
                self._removed = weakref.finalize(
                    self, self._temporary.remove_folder, self._path, lock, os.getpid()
                )
            else:
                self._path = self._given
                self._path.mkdir(exist_ok=True)
        self._next += 1
        return self._path / f"{self._name}-{self._next}.run"

    def mapped(self, file: RunFile) -> SortedRun:
        """Return the run of a new file of the folder, which disappears with the run."""
        return map_run(file, lambda: remove_file(file.path))

    def refusal(self, error: OSError) -> CheckpointError:
        """Return the error for a file that cannot be written."""
        return CheckpointError(
            f"cannot move state to files in {self.place}, as the memory limit demands: {error.strerror}; "
            "make room there or raise memory_limit=, and repeat the tick that did not take place",
            code="checkpoint-write",
        )


def remove_file(path: Path) -> None:
    """Remove a file of the folder, unless a snapshot has taken it or the folder is gone."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def remove_spilled(folder: Path) -> None:
    """Remove the files that ended processes have left in the spill folder of a checkpoint."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            remove_file(path)
