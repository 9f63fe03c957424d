"""Where results go: a folder of files, or stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

from dbsp.cli.console import remark
from dbsp.compiler.datalog.meaning.directives import result_target
from dbsp.compiler.program import Program
from dbsp.errors import InputError
from dbsp.io import Place, format_delta, write_place
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

DELTAS_FILE = "deltas.txt"


def tick_lines(result: TickResult, timed: bool) -> list[str]:
    """The output deltas of a tick as lines of a change script, `commit` at the end."""
    remarks = [f"tick {result.number}"]
    if timed:
        remarks.append(f"{result.seconds * 1000:.3f} ms")
    return [*format_delta(result), f"commit  // {', '.join(remarks)}"]


def print_sizes(program: Program, run: Run) -> None:
    """The line `relation<tab>rows` for every `.printsize`."""
    for name in program.sizes:
        for parameters in program.relations[name].sizes:
            print(f"{parameters.get('name', name)}\t{len(run.view(name))}")


class StdoutOutput:
    """Everything on stdout, in the order in which it happens: the relations, then each tick's deltas."""

    def __init__(self, program: Program, timed: bool) -> None:
        self._program = program
        self._timed = timed
        # As in Soufflé each .output prints, wherever it would write otherwise, and with the columns' names.
        self._places = [
            (name, result_target(name, parameters | {"IO": "stdout", "headers": "true"}, Path()))
            for name in program.checked.outputs
            for parameters in map(dict, program.relations[name].outputs)
        ]

    def loaded(self, run: Run) -> None:
        """The facts have been loaded: print the relations, framed as Soufflé frames them."""
        for name, place in self._places:
            write_place(place, run.view(name))
        print_sizes(self._program, run)
        sys.stdout.flush()

    def ticked(self, result: TickResult) -> None:
        """A tick of the change script has been applied: print its deltas."""
        print("\n".join(tick_lines(result, self._timed)), flush=True)

    def finished(self, run: Run) -> None:
        """The run is over; everything has been printed."""


class FolderOutput:
    """One file per relation, as it is after the last tick; the ticks' deltas in one more file."""

    def __init__(self, program: Program, folder: Path, timed: bool) -> None:
        self._program = program
        self._folder = folder
        self._timed = timed
        self._deltas: IO[str] | None = None
        # Where each relation goes is settled before anything is computed, so that mistakes show early.
        self._targets = [
            (name, result_target(name, parameters, folder))
            for name in program.checked.outputs
            for parameters in program.relations[name].outputs
        ]

    def loaded(self, run: Run) -> None:
        """The facts have been loaded; the files are written at the end."""

    def ticked(self, result: TickResult) -> None:
        """A tick has been applied: append its deltas."""
        path = self._folder / DELTAS_FILE
        try:
            if self._deltas is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._deltas = path.open("w", encoding="utf-8", newline="\n")
            self._deltas.write("\n".join(tick_lines(result, self._timed)) + "\n")
            self._deltas.flush()
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error

    def finished(self, run: Run) -> None:
        """The run is over: write the relations."""
        if self._deltas is not None:
            self._deltas.close()
        for name, target in self._targets:
            view = run.view(name)
            report_ambiguous(target, write_place(target, view))
        print_sizes(self._program, run)


def report_ambiguous(target: Place, texts: int) -> None:
    """Say on stderr that some of the texts written to a file cannot be read back, if there are any."""
    if texts and target.path is not None:
        remark(
            f"{target.path}: warning: {texts} of the texts contain the delimiter or a line break, or what "
            "ends a symbol in a record; the file cannot be read back as it is (rfc4180=true quotes them)"
        )
