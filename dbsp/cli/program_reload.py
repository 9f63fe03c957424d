"""The program of `dbsp live`: compiled again, and given to the run that continues with it."""

from __future__ import annotations

import os
from pathlib import Path

from dbsp.cli import program_files
from dbsp.cli.options import Compilation
from dbsp.compiler.program import Program
from dbsp.runtime.run import Run
from dbsp.runtime.update_report import STATES, Updated


def report_lines(done: Updated) -> list[str]:
    """Return what an update kept, rebuilt, added and dropped, as remarks of a change script."""
    found = [(state, done.names(state)) for state in STATES]
    return [f"// {state}: {', '.join(names)}" for state, names in found if names]


class LiveProgram:
    """The program of a run and its files. With `watched`, `changed` looks at these files."""

    def __init__(
        self, program: Program, run: Run, compilation: Compilation | None = None, *, watched: bool = False
    ) -> None:
        self.program = program
        self.run = run
        self._path = Path(program.file)
        self._compilation = compilation or Compilation()
        self._watched = watched
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Return whether a watched file has changed since the latest call of `update`."""
        return self._watched and self._stamps() != self._seen

    def update(self, argument: str = "") -> Updated:
        """Continue with the program of its file, or of another file.

        Raises DbspError; the run then continues with its program.
        """
        path = Path(argument).expanduser() if argument else self._path
        seen = self._seen = self._stamps()  # before it is read, to miss no change
        compiled = program_files.load_program(path, self._compilation)
        done = self.run.update(compiled)
        self.program, self._path = compiled, path
        self._seen = {name: seen.get(name, stamp) for name, stamp in self._stamps().items()}
        return done

    def _stamps(self) -> dict[str, tuple[int, int] | None]:
        """Return by file of the program when it was changed, and its size; None if missing."""
        found: dict[str, tuple[int, int] | None] = {}
        for name in self.program.files if self._watched else ():
            try:
                status = os.stat(name)
                found[name] = status.st_mtime_ns, status.st_size
            except OSError:
                found[name] = None
        return found
