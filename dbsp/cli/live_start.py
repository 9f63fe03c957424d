"""Start the program of `dbsp live` in a checkpoint, or continue the one that the checkpoint has."""

from __future__ import annotations

from collections.abc import Callable

from dbsp.cli.console import remark
from dbsp.cli.options import Compilation
from dbsp.cli.program_reload import LiveProgram
from dbsp.compiler.program import Program
from dbsp.durable.store import Store
from dbsp.runtime.run import Run


def start_in_checkpoint(
    program: Program,
    compilation: Compilation,
    store: Store,
    start: Callable[[Program], Run],
    *,
    watched: bool,
    console: str,
) -> LiveProgram:
    """Return the live program of a checkpoint: that of the file, or the one that continues.

    The latter has the edits and watched queries of the console, and may have another text of the
    file (see `LiveProgram.newer`). Raises CheckpointError if the folder belongs to a program
    whose text it does not have.
    """
    is_new = store.query is None
    running = program.stored_in(store) or program
    run = start(running)
    if not is_new:
        remark(f"{store.folder}: continued at tick {run.tick}")
    return LiveProgram(running, run, compilation, watched=watched, console=console, file=program)
