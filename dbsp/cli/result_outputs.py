"""Write results to a folder of files, or to stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dbsp.cli.console import remark
from dbsp.compiler.datalog.meaning.directives import result_target
from dbsp.compiler.program import Program
from dbsp.errors import InputError
from dbsp.io.places import Place, write_place
from dbsp.io.results import format_delta
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

if TYPE_CHECKING:
    from dbsp.shards.sharded_run import ShardedRun

DELTAS_FILE = "deltas.txt"


def tick_lines(result: TickResult, timed: bool) -> list[str]:
    """Return the output deltas of a tick as lines of a change script, with `commit` at the end."""
    remarks = [f"tick {result.number}"]
    if timed:
        remarks.append(f"{result.seconds * 1000:.3f} ms")
    return [*format_delta(result), f"commit  // {', '.join(remarks)}"]


def print_sizes(program: Program, run: Run | ShardedRun) -> None:
    """Print the line `relation<tab>rows` for every `.printsize`."""
    for name in program.sizes:
        for parameters in program.relations[name].sizes:
            print(f"{parameters.get('name', name)}\t{len(run.view(name))}")


class StdoutOutput:
    """Print the relations after loading on stdout, then the deltas of each tick."""

    def __init__(self, program: Program, timed: bool) -> None:
        self._program = program
        self._timed = timed
        # As in Soufflé, every .output prints with a header, whatever its file parameters are.
        self._places = [
            (name, result_target(name, parameters | {"IO": "stdout", "headers": "true"}, Path()))
            for name in program.checked.outputs
            for parameters in map(dict, program.relations[name].outputs)
        ]

    def loaded(self, run: Run | ShardedRun) -> None:
        """Print the relations after loading, framed as in Soufflé."""
        for name, place in self._places:
            write_place(place, run.view(name))
        print_sizes(self._program, run)
        sys.stdout.flush()

    def ticked(self, result: TickResult) -> None:
        """Print the deltas of a tick of the change script."""
        print("\n".join(tick_lines(result, self._timed)), flush=True)

    def finished(self, run: Run | ShardedRun) -> None:
        """Do nothing: everything is printed already."""


class FolderOutput:
    """Write one file per relation after the last tick, and one file with all deltas."""

    def __init__(self, program: Program, folder: Path, timed: bool) -> None:
        self._program = program
        self._folder = folder
        self._timed = timed
        self._deltas: IO[str] | None = None
        # Resolve the file of each relation before any computation, so that errors appear early.
        self._targets = [
            (name, result_target(name, parameters, folder))
            for name in program.checked.outputs
            for parameters in program.relations[name].outputs
        ]
        allowed = program.source.sources.allowed
        for name, target in self._targets:
            allowed.check(target.path, f".output {name}")
        allowed.check(folder / DELTAS_FILE, "--output-dir")

    def loaded(self, run: Run | ShardedRun) -> None:
        """Do nothing: the files are written at the end."""

    def ticked(self, result: TickResult) -> None:
        """Append the deltas of a tick."""
        path = self._folder / DELTAS_FILE
        try:
            if self._deltas is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._deltas = path.open("w", encoding="utf-8", newline="\n")
            self._deltas.write("\n".join(tick_lines(result, self._timed)) + "\n")
            self._deltas.flush()
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", where=str(path), code="output-not-writable"
            ) from error

    def finished(self, run: Run | ShardedRun) -> None:
        """Write the relations."""
        if self._deltas is not None:
            self._deltas.close()
        for name, target in self._targets:
            view = run.view(name)
            report_ambiguous(target, write_place(target, view))
        print_sizes(self._program, run)


def report_ambiguous(target: Place, texts: int) -> None:
    """Warn on stderr if a file contains text values that cannot be read back unchanged."""
    if texts and target.path is not None:
        values = "1 text value contains" if texts == 1 else f"{texts:,} text values contain"
        remark(
            f"{target.path}: warning: {values} a delimiter, a line break, or the end of a symbol in a "
            "record; the file cannot be read back unchanged (rfc4180=true quotes such values)"
        )
